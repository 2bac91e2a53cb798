"""The package as others install it: what it holds, what it needs, how it is cited."""

import ast
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
IMPORT_NAMES = {"scikit-learn": "sklearn"}
# Import name -> the requirement that brings it along.
CARRIED = {"dask": "distributed", "PIL": "torchvision", "IPython": "ipykernel"}
CARRIED |= {"nbformat": "papermill", "nbclient": "papermill"}
BUILD = "import setuptools.build_meta as backend, sys; print(backend.build_wheel(sys.argv[1]))"
QUIET = {"capture_output": True, "text": True}


def names_of(requirements):
    """Distribution names of requirements, own extras left out."""
    return {re.match(r"[\w-]+", line)[0] for line in requirements} - {PROJECT["name"]}


def import_names(distributions):
    return {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in distributions}


NEEDED = names_of(PROJECT["dependencies"])
OPTIONAL = {name for lines in EXTRAS.values() for name in names_of(lines)}


@pytest.mark.slow
def test_the_wheel_holds_the_package_alone_which_counts_away_from_the_repository(tmp_path):
    """Without the extras that are not needed, and with the folder of the call as the project."""
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
    optional = sorted(import_names(OPTIONAL - NEEDED))
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


def imports(path):
    """Names of the packages that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
        yield from (module.split(".")[0] for module in modules)


def test_everything_imported_is_a_dependency_or_in_an_extra():
    named = import_names(NEEDED | OPTIONAL)
    carried = {name for name, by in CARRIED.items() if by in named}
    used = {name for path in ROOT.glob("rc_[ue]*/**/*.py") for name in imports(path)}
    assert used - named - carried - {"rc_utils", "rc_exact", *sys.stdlib_module_names} == set()


def test_the_books_requirements_hold_the_packages():
    files = [(ROOT / name).read_text() for name in ("requirements.in", "requirements.txt")]
    listed, locked = (names_of(re.findall(r"^\w.*", text, re.MULTILINE)) for text in files)
    assert NEEDED | OPTIONAL <= listed <= locked


def test_citation_archive_and_package_have_one_version():
    citation, version = yaml.safe_load((ROOT / "CITATION.cff").read_text()), PROJECT["version"]
    assert re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == version
    others = [json.loads((ROOT / name).read_text()) for name in (".zenodo.json", "codemeta.json")]
    assert {other["version"] for other in [citation, *others]} == {version}
