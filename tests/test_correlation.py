"""Estimates against scipy, statsmodels and brute force; settings from runs."""

import itertools

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from conftest import FUZZ
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rc_utils.correlation import (
    _influence,
    average_replicates,
    bootstrap,
    change_per_doubling,
    correlate,
    correlate_settings,
    correlation_lead,
    distinct_settings,
    effective_number,
    fisher_interval,
    interval_text,
    mean,
    partial_correlation,
    regression_formula,
    slope,
    weighted_pearson,
    with_logs,
)
from rc_utils.published import MAIN_NETWORKS
from rc_utils.sweep.records import setting_name

SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}


def make_runs(networks=MAIN_NETWORKS, noise=0.02, decays=(1e-5, 1e-6, 1e-7)):
    """Two seeds of nine settings; doubling lr adds -0.2 to the count, doubling the batch 0.3."""
    rng = np.random.default_rng(0)
    rows = []
    factors = (networks, (0.1, 0.01, 0.001), (256, 512, 1024), decays, range(2))
    for network, lr, batch, decay, seed in itertools.product(*factors):
        count = 4 - 0.2 * np.log2(lr / 0.01) + 0.3 * np.log2(batch / 512) + noise * rng.normal()
        row = {"run_id": str(len(rows)), "network": network, "lr": lr, "batch_size": batch}
        row |= {"weight_decay": decay, "seed": seed, "count": count}
        row["setting"] = setting_name(row, ("lr", "batch_size", "weight_decay"))
        gap = 0.1 * count + noise * rng.normal()
        rows.append(row | {"gap": gap, "test_accuracy": 1 - gap})
    same = {"campaign": "made", "experiment": "main", "status": "ok", "optimizer": "sgd"}
    same |= {"epochs": 200, "interpolates": True, "count_std_error": 0.1}
    return pd.DataFrame(rows).assign(**same)


@pytest.mark.parametrize("method", SCIPY)
def test_values_are_scipys_ties_are_mid_ranks_and_weights_count_rows_several_times(method):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 5, 20).astype(float)
    y = x + rng.integers(0, 5, 20)
    assert correlate(x, y, method).value == pytest.approx(SCIPY[method](x, y).statistic, abs=1e-12)
    weights = rng.integers(0, 4, (5, 20))
    repeated = [stats.pearsonr(np.repeat(x, w), np.repeat(y, w)).statistic for w in weights]
    assert weighted_pearson(x, y, weights.astype(float)) == pytest.approx(repeated)
    assert weighted_pearson(1e-15 * x, y, weights.astype(float)) == pytest.approx(repeated)
    scaled = x * np.logspace(-20, 20, 5)[:, None]  # each row has its own
    assert weighted_pearson(scaled, y, weights.astype(float)) == pytest.approx(repeated)
    assert np.isnan(weighted_pearson(np.full(20, 123456.7), y, weights.astype(float))).all()


@pytest.mark.parametrize(("method", "true"), [("pearson", 0.7), ("spearman", 0.683)])
def test_intervals_hold_the_truth_in_95_of_100(method, true):
    """Of a normal distribution with r = 0.7: rho = 6 / pi asin(r / 2)."""
    rng = np.random.default_rng(4)
    samples = rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], size=(400, 20))
    found = [correlate(sample[:, 0], sample[:, 1], method) for sample in samples]
    held = np.mean([estimate.low <= true <= estimate.high for estimate in found])
    assert 0.92 <= held <= 0.98
    rho = correlate(range(9), [0, 2, 1, 3, 5, 4, 6, 8, 7], "spearman")
    reach = np.arctanh(rho.high) - np.arctanh(rho.value)
    assert reach == pytest.approx(stats.norm.ppf(0.975) * np.sqrt((1 + rho.value**2 / 2) / 6))


def test_fishers_interval_is_scipys_and_rows_that_repeat_each_other_narrow_nothing():
    rng = np.random.default_rng(5)
    x = rng.normal(size=12)
    y = x + rng.normal(size=12)
    once, exact = correlate(x, y), stats.pearsonr(x, y).confidence_interval(0.95)
    assert (once.low, once.high) == pytest.approx((exact.low, exact.high))
    assert np.isnan([fisher_interval(0.5, n)[0] for n in (3, 3.5)]).tolist() == [True, False]
    units = np.repeat(np.arange(12), 3)
    thrice = correlate(np.repeat(x, 3), np.repeat(y, 3), units=units)
    # As one row a unit, with Student's quantile for the number of rows that is estimated.
    student = fisher_interval(once.value, 12, freedom=11)
    assert (thrice.low, thrice.high, thrice.n) == pytest.approx((*student, 12))
    assert effective_number(np.repeat(x, 3), np.repeat(y, 3), units) == pytest.approx(12)
    others = np.tile(y, 3), "spearman", units
    assert correlate(x[units], *others) == correlate(np.exp(9 * x[units]), *others)  # equal ranks
    # The influence of a row is what r gains with its weight.
    r = weighted_pearson(x, y, np.ones((12, 12)) + 1e-6 * np.eye(12))
    assert _influence(x, y) == pytest.approx(12e6 * (r - once.value), abs=1e-4)
    with pytest.raises(ValueError, match="2 of 12 rows name no unit"):
        correlate(x, y, units=[*range(10), None, np.nan])


def test_the_lead_of_a_correlation_agrees_with_a_bootstrap_and_knows_what_the_two_share():
    rng = np.random.default_rng(7)
    y = rng.normal(size=150)
    x, rival = y + rng.normal(size=150), y + 2 * rng.normal(size=150)
    found = correlation_lead(x, rival, y, range(150))
    assert found.value == pytest.approx(np.corrcoef(x, y)[0, 1] - np.corrcoef(rival, y)[0, 1])

    def lead(weights):
        return weighted_pearson(x, y, weights) - weighted_pearson(rival, y, weights)

    drawn = bootstrap(lead, range(150), num_resamples=4000)
    assert found == correlation_lead(x, rival, y, range(150), controls=0)
    assert (found.low, found.high) == pytest.approx((drawn.low, drawn.high), abs=0.03)
    assert np.isnan(correlation_lead(x, np.ones(150), y, range(150)).value)


def test_partial_correlation_is_that_of_residuals():
    rng = np.random.default_rng(6)
    rows = pd.DataFrame(rng.normal(size=(30, 3)), columns=["a", "b", "c"])
    rows["kind"] = np.tile(["x", "y"], 15)
    rows["a"] += rows["c"] + (rows["kind"] == "x")
    found = partial_correlation(rows, "a", "b", "C(kind) + c")
    design = np.column_stack([np.ones(30), rows["kind"] == "x", rows["c"]]).astype(float)
    left = [rows[k] - design @ np.linalg.lstsq(design, rows[k], rcond=None)[0] for k in ("a", "b")]
    r = np.corrcoef(*left)[0, 1]
    assert found.value == pytest.approx(r)
    assert (found.low, found.high) == pytest.approx(fisher_interval(r, 28))
    assert np.isnan(partial_correlation(rows, "c", "b", "c").value)
    assert np.isnan(partial_correlation(rows[:4], "a", "b", "C(kind) + c").value)  # 1 or -1
    large = rows.assign(c=1e9 * rows["c"])  # beside which the other columns are no rounding
    one, other = (partial_correlation(r, "a", "b", "C(kind) + c + I(c**2)") for r in (rows, large))
    assert one.value == pytest.approx(other.value)


def test_slope_is_clustered_least_squares():
    rng = np.random.default_rng(8)
    rows = pd.DataFrame({"unit": np.repeat(np.arange(10), 3), "kind": np.tile(list("abc"), 10)})
    rows["x"] = rng.normal(size=10)[rows["unit"]]
    rows["y"] = 2 * rows["x"] + rng.normal(size=10)[rows["unit"]] + 0.1 * rng.normal(size=30)
    found = slope(rows, "y ~ C(kind) + x", "x", rows["unit"])
    kinds = [rows["kind"] == kind for kind in "bc"]
    design = np.column_stack([np.ones(30), *kinds, rows["x"]]).astype(float)
    fitted = sm.OLS(rows["y"].to_numpy(), design).fit()
    each = design * fitted.resid[:, None]
    scores = np.array([each[rows["unit"] == u].sum(0) for u in range(10)])
    bread = np.linalg.inv(design.T @ design)
    variance = (bread @ scores.T @ scores @ bread)[3, 3] * 10 / 8
    assert found.value == pytest.approx(fitted.params[3])
    assert found.high - found.value == pytest.approx(stats.t.ppf(0.975, 8) * np.sqrt(variance))
    alone = slope(rows, "y ~ C(kind) + x", "x", range(30))
    assert (alone.low, alone.high) == pytest.approx(fitted.conf_int()[3])
    tiny = slope(rows.assign(y=1e-12 * rows["y"]), "y ~ C(kind) + x", "x", range(30))
    assert 1e12 * tiny.low == pytest.approx(alone.low)
    assert slope(rows.assign(y=0.1), "y ~ C(kind) + x", "x", range(30)).value == 0
    assert np.isnan(slope(rows.assign(x=3.0), "y ~ C(kind) + x", "x", range(30)).value)
    large = slope(rows.assign(x=1e9 * rows["x"]), "y ~ x + I(x**2)", "x", range(30))
    assert 1e9 * large.low == pytest.approx(slope(rows, "y ~ x + I(x**2)", "x", range(30)).low)
    two = rows[(rows["kind"] != "a") | rows["unit"].isin([1, 2])]  # the line of a meets both
    assert np.isnan(slope(two, "y ~ C(kind) * x", "x", two["unit"]).low)


def average_of(values):
    return lambda weights: weights @ values / weights.sum(1)


def test_mean_is_the_textbooks_and_bootstrap_draws_whole_units():
    values = np.random.default_rng(10).normal(size=10)
    units = [("a", i // 2) for i in range(20)]
    pairs = bootstrap(average_of(np.repeat(values, 2)), units, num_resamples=2000)
    single = bootstrap(average_of(values), range(10), num_resamples=2000)
    assert (pairs.low, pairs.high, pairs.n) == pytest.approx((single.low, single.high, 10))
    student = stats.t.interval(0.95, 9, values.mean(), stats.sem(values))
    assert (mean(values).low, mean(values).high) == pytest.approx(student)
    # By the normal quantile, and by n in place of n - 1, it would be a fifth narrower.
    assert single.high - single.low == pytest.approx(student[1] - student[0], rel=0.06)
    assert (single.low, single.high) == pytest.approx(student, abs=0.15)
    assert np.isnan([mean([1.0, 1.0]).low, mean([1.0]).low]).all()
    assert mean([-1, 1]).high == pytest.approx(stats.t.ppf(0.975, 1))
    lows = [bootstrap(average_of(values[:n]), range(n)).low for n in (6, 7)]
    assert np.isnan(lows).tolist() == [True, False]


@pytest.mark.parametrize(("text", "numbers"), [
    ("0.07 [-0.05, 0.20]", (0.0715, -0.0512, 0.198)),
    ("-0.019 [-0.026, -0.013]", (-0.0186, -0.0256, -0.013)),
    ("0.00 [-0.10, 0.10]", (-0.001, -0.1, 0.1)),
    ("0.2600 [0.0002, 0.5200]", (0.26, 0.00023, 0.52)),
    ("0.00000000020 [0.00000000010, 0.00000000030]", (2e-10, 1e-10, 3e-10)),
    ("–", (np.nan, np.nan, np.nan)),
    ("0.0042", (0.00418, np.nan, np.nan)),
])  # fmt: skip
def test_numbers_have_the_digits_that_their_interval_earns(text, numbers):
    assert interval_text(*numbers) == text


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_neither_offset_nor_scale_moves_a_correlation(scale):
    rng = np.random.default_rng(12)
    x = rng.uniform(-0.9, 0.9, 12)
    y = x + rng.uniform(-0.9, 0.9, 12)
    plain = correlate(x, y)
    shifted = correlate(1e12 + 4 * x, y)
    assert shifted.value == pytest.approx(plain.value, abs=1e-3)
    scaled = correlate(scale * x, -scale * x / 2 - scale * (y - x) / 2)
    assert (scaled.value, scaled.low) == pytest.approx((-plain.value, -plain.high), abs=1e-9)


def test_constants_and_too_few_rows_have_no_correlation():
    for method in SCIPY:
        assert np.isnan(correlate([0.1 + 0.2] * 4 + [0.3] * 5, np.arange(9), method).value)
    outlier = correlate([-1e17, *range(7)], np.arange(8), "spearman")  # the others are not alike
    assert outlier.value == pytest.approx(1)
    perfect = correlate(np.arange(9), np.arange(9))
    assert perfect.value == pytest.approx(1)
    assert np.isnan(perfect.low)
    assert correlate([0, 1, 2], [0, 2, 1]).value == pytest.approx(0.5)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"1 of 3 rows are not finite \(first: row 1"):
        correlate([1, 2, 3], [3, np.nan, 2])
    rows = pd.DataFrame({"x": range(8), "y": [1, 3, 2, 5, 4, 7, 6, 8], "z": [0, 1] * 3 + [0, None]})
    for function, *names in ((slope, "y ~ x + z", "x", range(8)), (partial_correlation, *"xyz")):
        with pytest.raises(ValueError, match=r"1 of 8 rows lack a value of .*; leave them out"):
            function(rows, *names)
    with pytest.raises(ValueError, match="unknown term 'kind'"):
        slope(rows[:7], "y ~ x", "kind", range(7))
    with pytest.raises(ValueError, match="'x - 1' has no intercept"):
        partial_correlation(rows, "y", "x", "x - 1")
    masked = np.ma.masked_equal(rows["y"], 5)
    for call in (lambda: correlate(rows["x"], masked), lambda: mean(masked)):
        with pytest.raises(ValueError, match=r"masked .*: leave them out"):
            call()


def test_replicates_are_averaged_and_a_weight_decay_that_matters_is_none():
    runs = make_runs()
    runs["interpolates"] = (runs["seed"] == 0) | (runs["lr"] < 0.1) | (runs["batch_size"] > 256)
    runs["origin"] = np.where(runs["seed"] == 0, "live", "reference")
    rows = average_replicates(runs)
    assert len(rows) == 27
    first = runs[(runs.network == "ResNet18") & (runs.setting == "lr=0.1, batch_size=256")]
    row = rows[(rows.network == "ResNet18") & (rows.setting == "lr=0.1, batch_size=256")].iloc[0]
    assert row["count"] == pytest.approx(first["count"].mean())
    assert (row["num_runs"], row["num_seeds"], row["optimizer"]) == (6, 2, "sgd")
    found = correlate_settings(rows, "count", "gap")
    assert (found.value, found.n) == (correlate(rows["count"], rows["gap"]).value, 9)
    shared = pd.concat([runs, runs.assign(experiment="again")])  # runs that two experiments ask for
    assert len(distinct_settings(shared)) == len(rows)
    looks = [shared.assign(epoch=epoch) for epoch in (0, 5)]  # as `load_evolution` has them
    assert distinct_settings(pd.concat(looks))["epoch"].tolist() == [0] * 27 + [5] * 27
    assert rows["origin"].isna().all()
    assert rows["interpolates"].dtype == bool
    assert rows["interpolates"].sum() == 24
    assert not {"seed", "run_id", "weight_decay"} & set(rows)
    assert len(average_replicates(make_runs(decays=(1e-4, 1e-5)))) == 54  # above what is negligible
    assert " + momentum + " in regression_formula(with_logs(rows.assign(momentum=range(27))))
    three = make_runs(decays=(1e-2, 1e-5, 1e-6))  # of which two are the same
    assert three["setting"][0] == "lr=0.1, batch_size=256, weight_decay=0.01"
    assert len(average_replicates(three)) == 54
    assert regression_formula(with_logs(three)).endswith("C(weight_decay) + log2_lr + log2_batch")
    runs["optimizer"] = np.where(runs["lr"] < 0.1, "sgd", None)  # none is a level of its own
    assert "C(optimizer)" in regression_formula(average_replicates(runs))


def test_diverged_runs_are_left_out_and_a_missing_number_is_not_hidden():
    runs = make_runs()
    gone = (runs.network == "ResNet18") & (runs.setting == "lr=0.001, batch_size=256")
    runs.loc[gone, ["status", "count", "gap"]] = ["diverged", np.nan, 0.05]
    runs.loc[runs.index[-1], "status"] = "diverged"
    rows = average_replicates(runs)
    assert (len(rows), rows["num_runs"].min()) == (26, 5)
    # None for the diverged makes a column of objects of the others' truths and numbers.
    fits = pd.Series(runs["seed"] == 0, dtype=object).where(runs["status"] == "ok", None)
    objects = average_replicates(runs.assign(interpolates=fits, gap=runs["gap"].astype(object)))
    assert (objects["interpolates"].dtype, objects["interpolates"].any()) == (bool, False)
    assert objects["gap"].tolist() == rows["gap"].tolist()
    runs.loc[4, "gap"] = np.nan
    assert average_replicates(runs)["gap"].isna().sum() == 1
    with pytest.raises(ValueError, match="not finite"):
        correlate_settings(average_replicates(runs), "count", "gap")


def test_a_change_per_doubling_is_the_coefficient_of_its_formula_and_needs_every_number():
    runs = make_runs(noise=0.1)[1:]  # a setting with a run less counts as much
    rows = with_logs(average_replicates(runs))
    formula = regression_formula(rows)
    assert rows["log2_ratio"].to_numpy() == pytest.approx(np.log2(rows["batch_size"] / rows["lr"]))
    assert formula == "count ~ C(network) + log2_lr + log2_batch"
    clusters = {"groups": pd.factorize(rows["setting"])[0], "use_correction": False}
    fitted = smf.ols(formula, rows).fit(cov_type="cluster", cov_kwds=clusters)
    for factor, term in (("lr", "log2_lr"), ("batch_size", "log2_batch")):
        change = change_per_doubling(runs, factor)
        high = fitted.params[term] + stats.t.ppf(0.975, 6) * fitted.bse[term] * np.sqrt(9 / 6)
        assert (change.value, change.high) == pytest.approx((fitted.params[term], high))
        other = runs.rename(columns={"count": "count_dim2-linear"}).assign(count_dim2=0.0)
        assert change_per_doubling(other, factor, "count_dim2-linear") == change
    exact = [change_per_doubling(make_runs(noise=0), factor) for factor in ("lr", "batch_size")]
    assert [change.value for change in exact] == pytest.approx([-0.2, 0.3])
    opposite = make_runs(("ResNet18", "VGG19"), noise=0)  # residuals cancel in every setting
    opposite["count"] = opposite["lr"] ** 0.1 * np.where(opposite["network"] == "VGG19", -1, 1)
    for change in (*exact, change_per_doubling(opposite, "lr")):
        assert np.isnan(change.low)
    assert np.isnan(change_per_doubling(runs[runs["lr"] == 0.1], "lr").value)
    assert np.isfinite(change_per_doubling(runs[runs["lr"] < 0.1], "lr").value)
    for bad, fault in ((np.nan, "1 of 27 rows lack a value of 'count"), (np.inf, "is infinite")):
        with pytest.raises(ValueError, match=fault):
            change_per_doubling(runs.assign(count=runs["count"].where(runs.index != 2, bad)), "lr")
    with pytest.raises(ValueError, match="unknown factor 'epochs'"):
        change_per_doubling(runs, "epochs")
    for column in ("network", "setting"):  # without, all would be one setting
        with pytest.raises(ValueError, match=f"unknown column of the runs '{column}'"):
            change_per_doubling(runs.drop(columns=column), "lr")


NUMBERS = st.floats(-1e300, 1e300) | st.sampled_from([0.0, 1e12, 1e300, -1e300, 5e-324, 1.0])


@given(
    rows=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12),
    method=st.sampled_from(["pearson", "spearman"]),
)
@FUZZ
def test_numbers_to_correlate(rows, method):
    """The correlation of finite numbers is in [-1, 1] and its interval, or not there."""
    x, y = np.array(rows, dtype=float).reshape(-1, 2).T
    found = correlate(x, y, method)
    assert np.isnan(found.value) or -1 - 1e-12 <= found.value <= 1 + 1e-12
    assert np.isnan(found.low) or -1 - 1e-12 <= found.low <= found.high <= 1 + 1e-12
    assert len(x) >= 3 or np.isnan(found.value)
