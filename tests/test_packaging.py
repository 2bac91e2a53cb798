"""The package as others install it: what it holds, what it needs, how it is cited."""

import ast
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import typing
import zipfile

import pytest
import yaml

import rc_utils
from rc_exact import ExactSegment
from rc_utils.counting import RegionCount
from rc_utils.training import TrainRun

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
IMPORT_NAMES = {"scikit-learn": "sklearn"}
# Import name -> the requirement that brings it along.
CARRIED = {"dask": "distributed", "PIL": "torchvision", "IPython": "ipykernel"}
CARRIED |= {"nbformat": "papermill", "nbclient": "papermill"}
BUILD = "import setuptools.build_meta as backend, sys; print(backend.build_wheel(sys.argv[1]))"
QUIET = {"capture_output": True, "text": True}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel that `pip install .` makes, built outside the repository without an index."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    for name in ("rc_utils", "rc_exact", "rc_theory", "rc_studies", "tests", "book", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    subprocess.run([sys.executable, "-c", BUILD, folder], cwd=folder, check=True, **QUIET)
    (path,) = folder.glob("*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_holds_the_package_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    info = f"rc_utils-{PROJECT['version']}.dist-info"
    assert {name.split("/")[0] for name in names} == {"rc_utils", "rc_exact", info}
    source = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("rc_[ue]*/**/*.py")}
    assert {name for name in names if name.endswith(".py")} == source
    assert {"rc_utils/py.typed", f"{info}/licenses/LICENSE"} <= set(names)


@pytest.mark.slow
def test_the_installed_package_counts_away_from_the_repository(wheel, tmp_path):
    """Without the extras that are not needed, and with the folder of the call as the project."""
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
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    options = {"cwd": tmp_path, "env": environment, "check": False}
    done = subprocess.run([sys.executable, "-c", code], **options, **QUIET)
    assert done.returncode == 0, done.stderr
    assert "regions (dim=2, num_samples=3" in done.stdout


def names_of(requirements):
    """Distribution names of requirements, own extras left out."""
    return {re.match(r"[\w-]+", line)[0] for line in requirements} - {PROJECT["name"]}


def import_names(distributions):
    return {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in distributions}


NEEDED = names_of(PROJECT["dependencies"])
OPTIONAL = {name for lines in EXTRAS.values() for name in names_of(lines)}


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


def test_the_extra_all_holds_every_other():
    def reached(name):
        inner = re.findall(r"\[([^\]]+)\]", " ".join(EXTRAS[name]))
        own = {extra for names in inner for extra in names.split(",")}
        return own.union(*(reached(extra) for extra in own))

    assert reached("all") == set(EXTRAS) - {"all"}


def test_citation_licence_and_package_agree():
    citation, version = yaml.safe_load((ROOT / "CITATION.cff").read_text()), PROJECT["version"]
    assert re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == version
    others = [json.loads((ROOT / name).read_text()) for name in (".zenodo.json", "codemeta.json")]
    assert {other["version"] for other in [citation, *others]} == {version}
    assert citation["license"] == PROJECT["license"] == "MIT"
    paper = citation["preferred-citation"]
    references = (ROOT / "book" / "references.bib").read_text()
    entry = re.search(r"@inproceedings\{li2025region,.*?\n\}", references, re.DOTALL)[0]
    names = [f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]]
    for value in (" and ".join(names), paper["title"], paper["year"]):
        assert f"{{{value}}}" in entry


def test_public_functions_and_properties_of_what_they_return_are_typed():
    public = [getattr(rc_utils, name) for name in rc_utils.__all__]
    kinds = (RegionCount, ExactSegment, TrainRun)
    returned = [value for kind in kinds for value in vars(kind).values()]
    public += [value.fget for value in returned if isinstance(value, property)]
    for function in filter(inspect.isfunction, public):
        parameters = set(inspect.signature(function).parameters) - {"self"}
        assert set(typing.get_type_hints(function)) == parameters | {"return"}, function
