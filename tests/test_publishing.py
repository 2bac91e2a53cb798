"""What the book is published with: the dictionary of columns and downloads."""

import csv
import itertools
import re
import zipfile

import downloads
import pages
from conftest import ROOT

from rc_utils.measures import MEASURES
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import load_runs
from rc_utils.training import TrainConfig


def test_the_dictionary_has_every_column():
    with open(ROOT / "book" / "columns.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    known = {row["column"] for row in rows if row["meaning"]}
    columns = set(MEASURES) | set(TrainConfig.__dataclass_fields__)
    columns |= {*load_runs("cifar10-small"), *load_runs("study-axes")}
    unknown = columns - known
    generic = {re.sub(r"^count_[\w-]+?(_std_error)?$", r"count_NAME\1", name) for name in unknown}
    assert generic - known == set()


def test_downloads_are_the_notebooks_and_the_records(tmp_path, monkeypatch):
    recorded, none_yet = load_campaign("tiny-imagenet-small"), load_campaign("shapes-tiny")
    monkeypatch.setattr(downloads, "list_campaigns", lambda: [recorded, none_yet])
    monkeypatch.setattr(downloads, "load_campaign", lambda campaign: campaign)
    downloads.write(pages.Layout(ROOT), tmp_path)
    with zipfile.ZipFile(tmp_path / "downloads" / "notebooks.zip") as archive:
        names = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
        assert set(archive.namelist()) == names
    with zipfile.ZipFile(tmp_path / "downloads" / "records.zip") as archive:
        assert archive.namelist() == ["columns.csv", "tiny-imagenet-small.csv"]
        lines = archive.read("tiny-imagenet-small.csv").decode().splitlines()
    assert len(lines) == 1 + len(load_runs(recorded))


def test_links_between_files_lead_somewhere_in_the_repository():
    """As GitHub and an editor follow them; those of the book are followed in a browser."""
    lost, patterns = [], ("*.md", "book/*.md", "book/guide/*.md", "notebooks/*.ipynb")
    for path in itertools.chain(*map(ROOT.glob, patterns)):
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8")):
            if "://" not in link and not (path.parent / link).exists():
                lost.append(f"{path.name}: {link}")
    assert lost == []
