"""What the project is published with: archives, workflows, places to open it, downloads."""

import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import downloads
import pages
import pdf
import pypdf
import pytest
import yaml

from rc_utils.measures import MEASURES
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import load_runs
from rc_utils.training import TrainConfig

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_the_source_archive_is_the_repository(tmp_path):
    listed = ["git", "ls-files"] if shutil.which("git") else ["true"]
    options = {"cwd": ROOT, "capture_output": True, "text": True, "check": False}
    tracked = subprocess.run(listed, **options).stdout.split()
    if not tracked:
        pytest.skip("needs the repository: what git tracks is compared with the archive")
    for name in tracked:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(ROOT / name)
    # The files of the archive, without compressing them.
    list_them = [sys.executable, "-c", "import setuptools; setuptools.setup()", "egg_info"]
    subprocess.run(list_them, cwd=tmp_path, check=True, capture_output=True)
    held = (tmp_path / "rc_utils.egg-info" / "SOURCES.txt").read_text().splitlines()
    assert {name for name in held if not name.startswith("rc_utils.egg-info/")} == set(tracked)


def test_the_jobs_of_the_workflows_only_call_make():
    lines = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    targets, folder = set(" ".join(lines).split()), ROOT / ".github" / "workflows"
    workflows = [yaml.safe_load(path.read_text()) for path in folder.glob("*.yml")]
    jobs = [job for workflow in workflows for job in workflow["jobs"].values()]
    for step in (step for job in jobs for step in job["steps"]):
        if "run" in step:
            command, target, *variables = step["run"].split()
            assert command == "make"
            assert target in targets, step
            assert all("=" in variable for variable in variables), step
        else:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])


def test_places_to_open_it_call_what_there_is():
    copied = re.findall(r"^COPY (.*) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert all((ROOT / name).exists() for line in copied for name in line.split())
    assert (ROOT / "binder" / "postBuild").stat().st_mode & 0o100
    lock, binder = ((ROOT / folder / "requirements.txt").read_text() for folder in (".", "binder"))
    for name, version in re.findall(r"^(torch\w*)==([\d.]+)\+cpu$", binder, re.MULTILINE):
        assert f"{name}=={version} " in lock


def test_the_dictionary_has_every_column():
    with open(ROOT / "book" / "columns.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    known = {row["column"] for row in rows if row["meaning"]}
    columns = set(MEASURES) | set(TrainConfig.__dataclass_fields__)
    columns |= {*load_runs("cifar10-small"), *load_runs("tiny-imagenet-small")}
    unknown = columns - known
    generic = {re.sub(r"^count_[\w-]+?(_std_error)?$", r"count_NAME\1", name) for name in unknown}
    assert generic - known == set()


def test_downloads_are_the_notebooks_and_the_records(tmp_path, monkeypatch):
    recorded, none_yet = load_campaign("tiny-imagenet-small"), load_campaign("shapes-tiny")
    monkeypatch.setattr(downloads, "load_campaigns", lambda: [recorded, none_yet])
    held = []
    for _ in range(2):
        downloads.write(pages.Layout(ROOT), tmp_path)
        held.append((tmp_path / "downloads" / "records.zip").read_bytes())
        monkeypatch.setattr(zipfile.time, "localtime", lambda *_: (2001, 2, 3, 4, 5, 6))
    assert held[0] == held[1]
    with zipfile.ZipFile(tmp_path / "downloads" / "notebooks.zip") as archive:
        names = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
        assert set(archive.namelist()) == names
    with zipfile.ZipFile(tmp_path / "downloads" / "records.zip") as archive:
        assert archive.namelist() == ["columns.csv", "tiny-imagenet-small.csv"]
        lines = archive.read("tiny-imagenet-small.csv").decode().splitlines()
    assert len(lines) == 1 + len(load_runs(recorded))


@pytest.mark.slow
def test_the_pdf_joins_pages_and_their_links(tmp_path):
    try:
        pdf.chromium()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    page = "<html><head><title>{0} — Book</title></head><body><h1>{0}</h1>"
    page += "<a href='{1}'>go</a></body></html>"
    (tmp_path / "one.html").write_text(page.format("First", "two.html#x"))
    (tmp_path / "two.html").write_text(page.format("Second", "https://example.org/"))
    pdf.write(tmp_path, ["one", "two"], tmp_path / "downloads" / "book.pdf")
    book = pypdf.PdfReader(tmp_path / "downloads" / "book.pdf")
    assert [item.title for item in book.outline] == ["First", "Second"]
    texts = [page.extract_text() for page in book.pages]
    assert ["First" in texts[0], "Second" in texts[1]] == [True, True]
    (link,) = (annotation.get_object() for annotation in book.pages[0]["/Annots"])
    assert link["/Dest"][0].get_object() == book.pages[1].get_object()
    (link,) = (annotation.get_object() for annotation in book.pages[1]["/Annots"])
    assert link["/A"]["/URI"] == "https://example.org/"


PRETENDED_PYTHON = """#!/bin/sh
echo "$*" >> calls.txt
case "$*" in *venv*) rm -rf .venv && mkdir -p .venv/bin && cp python uv .venv/bin; esac
"""
PRETENDED_UV = """#!/bin/sh
test -e well || exit 1
"""


def test_an_environment_that_was_not_finished_is_begun_anew(tmp_path):
    """As one that was killed: uv takes a package for installed whose files were being written."""
    for name, program in {"python": PRETENDED_PYTHON, "uv": PRETENDED_UV}.items():
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)

    def environments_made():
        """After `make env`: how often an environment was made from nothing, by now."""
        command = ["make", "env", "PYTHON=./python"]
        subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        return (tmp_path / "calls.txt").read_text().count("-m venv --clear .venv")

    ready = tmp_path / ".venv" / ".ready"
    assert [environments_made(), environments_made()] == [1, 2]  # both fail while they install
    (tmp_path / "well").touch()
    assert environments_made() == 3
    assert ready.exists()
    (tmp_path / "well").unlink()
    os.utime(tmp_path / "requirements.txt", (ready.stat().st_mtime + 5,) * 2)
    assert environments_made() == 3  # an update begins from what there is, and fails
    (tmp_path / "well").touch()
    assert [environments_made(), environments_made()] == [4, 4]
