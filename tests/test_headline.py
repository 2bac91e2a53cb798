"""The README's headline is what the committed records give."""

import importlib.util
import pathlib

import pytest

from rc_utils import ledger
from rc_utils.campaign import load_campaign

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def headline():
    spec = importlib.util.spec_from_file_location("headline", ROOT / "book" / "headline.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_the_readme_is_the_one_of_the_records(headline):
    campaign = load_campaign("cifar10-small")
    if not (campaign.folder / "runs.jsonl").exists():
        pytest.skip("no reference records of cifar10-small are committed yet")
    runs = headline.headline_runs(campaign)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    card = headline.results_card(campaign)
    assert headline.table(card) in readme
    assert headline.sentence(runs, campaign) in readme
    intro = (ROOT / "book" / "intro.md").read_text(encoding="utf-8")
    assert headline.table(card) in intro
    assert headline.summary(card) in intro
    assert set(runs["origin"]) == {"reference"}


def test_the_committed_records_are_whole():
    campaign = load_campaign("cifar10-small")
    path = campaign.folder / "runs.jsonl"
    if not path.exists():
        pytest.skip("no reference records of cifar10-small are committed yet")
    records = ledger.read_frozen(path)  # a damaged or edited line is a warning, and warnings are errors
    assert records.keys() <= campaign.runs().keys()
