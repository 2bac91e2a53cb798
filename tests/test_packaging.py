"""The package as others install it."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest
from conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BUILD = "import setuptools.build_meta as backend, sys; print(backend.build_wheel(sys.argv[1]))"
QUIET = {"capture_output": True, "text": True}


@pytest.mark.slow
def test_the_wheel_holds_the_package_alone_which_counts_away_from_the_repository(tmp_path):
    """Without what the extras bring, and with the folder of the call as the project."""
    binder = (ROOT / "binder" / "requirements.txt").read_text()
    needed = {re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"]}
    assert needed <= set(re.findall(r"^[\w-]+", binder, re.MULTILINE))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for name in ("rc_utils", "rc_exact", "rc_theory", "rc_studies", "tests", "book", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    subprocess.run([sys.executable, "-c", BUILD, tmp_path], cwd=tmp_path, check=True, **QUIET)
    with zipfile.ZipFile(*tmp_path.glob("*.whl")) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    source = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("rc_[ue]*/**/*.py")}
    assert {name for name in names if name.endswith(".py")} == source
    extras = " ".join(line for lines in PROJECT["optional-dependencies"].values() for line in lines)
    optional = re.findall(r"(?<!\S)(?!rc-utils)[\w-]+", extras)
    optional = [name.replace("-", "_") for name in optional]
    code = f"""
import sys
sys.modules |= dict.fromkeys({optional!r})  # an import of these fails
import numpy as np, pathlib, rc_utils
from rc_utils.paths import project_root
assert "/site/" in rc_utils.__file__, rc_utils.__file__
assert project_root() == pathlib.Path.cwd()
x = np.random.default_rng(0).random((20, 2))
print(rc_utils.region_count(lambda batch: batch[:, 0] - 0.5, x, dim=2, num_samples=3, resolution=5))
"""
    away = tmp_path / "away"
    away.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    options = {"cwd": away, "env": environment, "check": False}
    done = subprocess.run([sys.executable, "-c", code], **options, **QUIET)
    assert done.returncode == 0, done.stderr
    assert "regions (dim=2, num_samples=3" in done.stdout
