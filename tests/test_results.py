"""Results that pages keep for the scorecard."""

import math

import pytest

from rc_utils import pages
from rc_utils.paper import Result
from rc_utils.results import findings_path, keep_results, kept_results


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("RC_RESULTS", str(tmp_path))


def test_kept_results_come_back_and_a_page_replaces_its_own():
    bound = Result("theory/lemma-7", "two-layer networks", 0.75, n=1000, detail="tightest case")
    keep_results("08_theory", [Result("theory/lemma-7", "x", 0.5), bound])
    keep_results("09_linear_regions", [Result("safran/theorem-2.3", "students", 0.4, 0.3, 0.5, 12)])
    keep_results("08_theory", [bound])
    first, second = kept_results()
    assert (first.id, first.value, first.n, first.detail) == (bound.id, 0.75, 1000, "tightest case")
    assert math.isnan(first.low)
    assert second == Result("safran/theorem-2.3", "students", 0.4, 0.3, 0.5, 12)


def test_unknown_statement_and_damaged_file_are_named():
    with pytest.raises(ValueError, match="theory/lemma-7"):
        keep_results("08_theory", [Result("theory/lemma-77", "x", 0.5)])
    keep_results("08_theory", [])
    findings_path("08_theory").write_text("[{")
    with pytest.raises(ValueError, match=r"08_theory\.json is damaged"):
        kept_results()


def test_a_page_does_not_train_a_large_campaign():
    with pytest.raises(ValueError, match=r"cifar10-paper' has no record yet and asks for [\d,]+ runs.*--plan"):
        pages.campaign_runs("cifar10-paper")
