"""Miscounts, what they do to conclusions, and the cost of each way of counting."""

import pathlib

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint
from test_sweep_records import made_up

from rc_utils.pages import beyond_the_grid
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import write_record

TINY = pathlib.Path(__file__).parent / "campaigns" / "tiny-all"


def counted(**counts):
    """Rows as of `counts_by_simplex`: label=[counts of run 0, counts of run 1, ...]."""
    rows = [
        {"run_id": str(run), "network": "ABC"[run % 3], "count": label, "counts": np.array(values), "method": label}
        for label, runs in counts.items()
        for run, values in enumerate(runs)
    ]
    return pd.DataFrame(rows).assign(evaluations=200.0, seconds=0.1)


def test_miscounts_are_differences_from_the_reference():
    table = counted(fine=[[3, 5, 2], [4, 4, 4]], grid=[[3, 3, 2], [4, 4, 3]])
    fine, grid = beyond_the_grid.miscounts(table, "fine").to_dict("records")
    assert (fine["wrong"], grid["wrong"], grid["n"]) == (0, 2, 6)
    assert [grid[name] for name in ("share", "missed", "mean")] == pytest.approx([2 / 6, 3 / 6, 19 / 6])
    # The interval counts the simplices, which the runs share.
    assert (grid["low"], grid["high"]) == pytest.approx(proportion_confint(1, 3, method="wilson"))
    by_network = beyond_the_grid.miscounts(table, "fine", ["network"])
    assert by_network.set_index(["network", "count"]).loc[("A", "grid"), "wrong"] == 1


def test_records_of_a_campaign_give_counts_and_conclusions():
    campaign = load_campaign(TINY).restricted(["main", "fine"])
    for run, planned in enumerate(campaign.runs().values()):
        record = made_up(planned)
        for label, entry in zip(planned.counts, record["counts"], strict=True):
            n, resolution = entry["settings"]["num_samples"], entry["settings"]["resolution"]
            factor = 2 if label == "main" else 1
            entry |= {"counts": [factor * (run + 1) * i for i in range(n)], "num_evaluations": n * resolution}
        write_record(record)
    table = beyond_the_grid.counts_by_simplex(TINY, ["grid", "main", "fine"])
    assert table["run_id"].nunique() == 2
    assert {len(counts) for counts in table["counts"]} == {5}
    assert set(table.loc[table["count"] == "fine", "evaluations"]) == {401}
    assert set(table["method"]) == {"grid of 20 points", "grid of 30 points", "grid of 401 points"}
    assert beyond_the_grid.describe_count({"dim": 2}) == "grid of 30 points an edge, face"
    assert beyond_the_grid.describe_count({"dim": 2, "strategy": "adaptive"}) == "mesh from 30 points an edge"
    longer = {"strategy": "adaptive", "alpha_range": [-3, 4]}
    assert beyond_the_grid.describe_count(longer) == "adaptive, alpha in [-3, 4]"
    assert beyond_the_grid.counts_by_simplex(TINY, ["grid", "no such count"]).empty
    concluded = beyond_the_grid.conclusions(TINY, "main", "grid", "main")
    assert list(concluded["statement"])[-1] == "change of the count when the batch size doubles"
    assert np.allclose(concluded["second"], 2 * concluded["first"], equal_nan=True)
    assert np.allclose(concluded["difference"], concluded["first"], equal_nan=True)
    assert concluded["first"].notna().sum() == 2
    assert beyond_the_grid.conclusions(TINY, "main", "grid", "absent").empty


def give_counts(monkeypatch, **counts):
    """Records that hold these counts and no others."""
    campaign = load_campaign("cifar10-small")

    def found(name, labels, origin):
        return counted(**{label: counts[label] for label in labels}) if set(labels) <= set(counts) else pd.DataFrame()

    monkeypatch.setattr(beyond_the_grid, "read_campaign", lambda name: campaign)
    monkeypatch.setattr(beyond_the_grid, "counts_by_simplex", found)


def test_what_the_mean_count_gains_on_a_finer_grid_is_a_result(monkeypatch):
    rng = np.random.default_rng(0)
    fine = rng.integers(3, 6, (12, 20))
    missed = rng.random((12, 20)) < 0.1
    give_counts(monkeypatch, grid=(fine - missed).tolist(), fine=fine.tolist())
    (result,) = beyond_the_grid.results_from_counts(TINY)
    assert result.id == "grid-size/1d/change"
    assert result.value == pytest.approx(missed.mean())
    assert 0 < result.low < result.value < result.high < 0.3
    assert (result.n, "12 runs, 20 simplices each" in result.detail) == (20, True)


def test_what_more_segments_change_is_a_result(monkeypatch):
    """The mean of 500 less that of the first 100, whose interval is that of a difference of independent parts."""
    counts = np.tile(np.random.default_rng(0).poisson(2, 600) + 1, (60, 1))
    give_counts(monkeypatch, main=counts.tolist())
    (result,) = beyond_the_grid.results_from_counts(TINY)
    first, rest = counts[0, :100], counts[0, 100:500]
    assert result.id == "sample-size/change"
    assert result.value == pytest.approx(counts[0, :500].mean() - first.mean())
    half = 1.96 * 0.8 * np.sqrt(first.var() / 100 + rest.var() / 400)
    assert (result.high - result.low) / 2 == pytest.approx(half, rel=0.15)
    give_counts(monkeypatch, main=counts[:, :400].tolist())
    assert beyond_the_grid.results_from_counts(TINY) == []
