"""What the project is published with: archives, workflows, places to open it, downloads."""

import csv
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


def test_workflows_and_places_to_open_it_call_what_there_is():
    lines = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    targets = set(" ".join(lines).split())
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        jobs = yaml.safe_load(path.read_text())["jobs"].values()
        commands = [step["run"].split() for job in jobs for step in job["steps"] if "run" in step]
        for make, target, *_ in commands:
            assert make == "make"
            assert target in targets, path
    copied = re.findall(r"^COPY (.*) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert all((ROOT / name).exists() for line in copied for name in line.split())
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
    downloads.write(pages.Layout(ROOT), tmp_path)
    with zipfile.ZipFile(tmp_path / "downloads" / "notebooks.zip") as archive:
        names = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
        assert set(archive.namelist()) == names
    with zipfile.ZipFile(tmp_path / "downloads" / "records.zip") as archive:
        assert archive.namelist() == ["columns.csv", "tiny-imagenet-small.csv"]
        lines = archive.read("tiny-imagenet-small.csv").decode().splitlines()
    assert len(lines) == 1 + len(load_runs(recorded))


@pytest.mark.slow
def test_the_pdf_joins_pages_and_their_links(chromium, tmp_path):
    page = "<html><head><title>{0} — Book</title></head><body><h1>{0}</h1>"
    page += "<a href='{1}'>go</a></body></html>"
    (tmp_path / "one.html").write_text(page.format("First", "two.html#x"))
    (tmp_path / "two.html").write_text(page.format("Second", "https://example.org/"))
    pdf.write(tmp_path, ["one", "two"], tmp_path / "downloads" / "book.pdf")
    book = pypdf.PdfReader(tmp_path / "downloads" / "book.pdf")
    assert [item.title for item in book.outline] == ["First", "Second"]
    (link,) = (annotation.get_object() for annotation in book.pages[0]["/Annots"])
    assert link["/Dest"][0].get_object() == book.pages[1].get_object()
