"""Results from tables of runs whose correlation and slopes are known by construction."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from test_correlation import make_runs

from rc_utils.correlation import average_replicates, change_per_doubling, regression_formula, with_logs
from rc_utils.pages.lr_batch_bias import at_equal_updates
from rc_utils.pages.main_correlation import results_from_measures, results_from_runs
from rc_utils.published import MAIN_NETWORKS, scorecard


def test_change_is_the_coefficient_of_the_formula_that_is_shown_and_an_error_of_numbers_that_are_missing():
    runs = make_runs(noise=0.1)
    rows = with_logs(average_replicates(runs))
    formula = regression_formula(rows)
    assert formula == "count ~ C(network) + log2_lr + log2_batch"
    clusters = {"groups": pd.factorize(rows["setting"])[0], "use_correction": False}
    fitted = smf.ols(formula, rows).fit(cov_type="cluster", cov_kwds=clusters)
    for factor, term in (("lr", "log2_lr"), ("batch_size", "log2_batch")):
        change = change_per_doubling(runs, factor)
        half = stats.t.ppf(0.975, 9 - 3) * fitted.bse[term] * np.sqrt(9 / 6)
        assert (change.value, change.high) == pytest.approx((fitted.params[term], fitted.params[term] + half))
        other = runs.rename(columns={"count": "count_dim2-linear"}).assign(count_dim2=0.0)
        assert change_per_doubling(other, factor, "count_dim2-linear") == change
    exact = [change_per_doubling(make_runs(noise=0), factor) for factor in ("lr", "batch_size")]
    assert [change.value for change in exact] == pytest.approx([-0.2, 0.3])
    assert np.isnan(change_per_doubling(runs[runs["lr"] == 0.1], "lr").value)
    for bad in (np.nan, np.inf):
        runs.loc[2, "count"] = bad
        with pytest.raises(ValueError, match=r"count is missing or infinite in 1 of"):
            change_per_doubling(runs, "lr")


def test_repeating_settings_at_other_weight_decays_narrows_no_interval():
    runs = make_runs(["ResNet18"], decays=[1e-5], noise=0.1)
    cells = runs["cell"].str.replace("1e-05", "")
    repeated = pd.concat([runs.assign(weight_decay=decay, cell=cells + str(decay)) for decay in (1e-5, 1e-6, 1e-7)])
    once, thrice = change_per_doubling(runs, "lr"), change_per_doubling(repeated, "lr")
    assert (thrice.value, thrice.high) == pytest.approx((once.value, once.high))
    bounds = [next((r.low, r.high) for r in results_from_runs(table, "made")) for table in (runs, repeated)]
    assert bounds[1] == pytest.approx(bounds[0], abs=1e-9)


def test_measures_are_compared_with_the_gap_over_the_settings_of_resnet18():
    runs = make_runs(noise=0).assign(experiment="main")
    runs["gap"] = 0.01 * np.arange(len(runs)) % 0.17
    runs["margin"] = -runs["gap"]
    runs["distance_from_init"] = np.log(runs["lr"] / runs["batch_size"])
    results = {result.id: result for result in results_from_measures(runs, "made")}
    assert list(results) == ["motivation/distance", "motivation/margin"]
    cells = average_replicates(runs[runs["network"] == "ResNet18"])
    expected = np.corrcoef(cells["distance_from_init"], cells["gap"])[0, 1]
    assert results["motivation/distance"].value == pytest.approx(expected)
    assert results["motivation/margin"].value == pytest.approx(-1)
    order = stats.spearmanr(cells["margin"], cells["lr"] / cells["batch_size"]).statistic
    assert results["motivation/margin"].detail.endswith(f"; Spearman with learning rate / batch size {order:.2f}")
    runs.loc[0, "margin"] = np.nan
    assert [result.id for result in results_from_measures(runs, "made")] == ["motivation/distance"]
    assert results_from_measures(runs[runs["network"] == "SENet18"], "made") == []


def test_a_batch_is_compared_at_as_many_updates():
    runs = make_runs(["ResNet18"], noise=0)
    # A count that knows the number of updates and nothing else.
    short = runs.assign(experiment="short", epochs=50)
    both = pd.concat([runs, short])
    both["count"] = np.log2(both["batch_size"] / both["epochs"])
    table = at_equal_updates(both)
    assert table[["small", "large", "short", "long"]].to_numpy().tolist() == [[256, 1024, 50, 200]] * 3
    assert table["updates"].tolist() == pytest.approx([1, 1, 1])
    assert table["equal_epochs"].tolist() == pytest.approx([2, 2, 2])
    assert table["equal_updates"].tolist() == pytest.approx([0, 0, 0])
    assert at_equal_updates(runs).empty


def test_results_agree_with_the_paper_when_the_runs_do_and_leave_out_diverged_ones():
    runs = make_runs()
    runs.loc[0, ["status", "count", "gap", "test_accuracy"]] = ["diverged", np.nan, np.nan, np.nan]
    results = results_from_runs(runs, "made")
    ids = {result.id for result in results}
    assert {"main/overall", "main/SENet18", "bias/lr/overall", "bias/batch-size/ResNet18"} <= ids
    assert len(ids) == 3 * 4 + 3
    card = scorecard(results).set_index("id")
    assert set(card.loc[list(ids), "verdict"]) == {"supports"}
    assert card.loc["main/overall", "n"] == card.loc["main/ResNet18", "n"] == 9
    assert "27 of them interpolate" in card.loc["main/overall", "why"]
    assert "diverged runs: 1" in card.loc["main/ResNet18", "why"]


def test_overall_is_the_papers_three_networks_and_no_other():
    runs = make_runs(["MyNet", *MAIN_NETWORKS], decays=[1e-5])
    results = {result.id: result for result in results_from_runs(runs, "made")}
    assert results["main/overall"].n == 9
    assert "27 of them interpolate" in results["main/overall"].detail
    assert not any("MyNet" in id_ for id_ in results)
    others = runs[runs["network"] != "EfficientNetB0"]
    begun = runs[(runs["network"] != "SENet18") | (runs.groupby("network").cumcount() < 6)]
    for few in (others, begun):
        assert not any("overall" in result.id for result in results_from_runs(few, "made"))


def test_a_number_that_the_paper_prints_twice_is_counted_once():
    runs = make_runs(["ResNet18"], decays=[1e-5])
    fits_alike = scorecard(results_from_runs(runs, "made")).set_index("id")
    assert fits_alike.loc["main/ResNet18", "counted"]
    assert not fits_alike.loc["test-accuracy/ResNet18", "counted"]
    assert "the number of main/ResNet18" in fits_alike.loc["test-accuracy/ResNet18", "why"]
    runs.loc[0, "test_accuracy"] -= 0.5
    assert scorecard(results_from_runs(runs, "made")).set_index("id").loc["test-accuracy/ResNet18", "counted"]


def test_mixed_experiments_and_unknown_columns_are_refused():
    runs = make_runs()
    both = pd.concat([runs, runs.assign(experiment="mixup")])
    for results in (results_from_runs, results_from_measures):
        with pytest.raises(ValueError, match="main, mixup; choose those of one"):
            results(both, "made")
    with pytest.raises(ValueError, match="Did you mean 'counts'"):
        results_from_runs(runs.rename(columns={"count": "counts"}), "made")
