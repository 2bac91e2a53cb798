"""Correlations against scipy, their intervals against resampling by hand and a coverage simulation."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rc_utils.correlation import (
    _METHODS,
    average_seeds,
    bootstrap_weights,
    correlate,
    correlation_table,
    percentile_interval,
    resample_units,
    weighted_kendall,
    weighted_pearson,
    weighted_spearman,
)


def test_units_may_be_tuples_or_missing():
    names = bootstrap_weights(["a", "a", "b"], 50, seed=0)
    assert (bootstrap_weights([("x", 1), ("x", 1), ("x", 2)], 50, seed=0) == names).all()
    missing = bootstrap_weights([np.nan, 1.0, np.nan, 2.0], 200, seed=0)
    assert (missing[:, 0] == missing[:, 2]).all()
    assert (missing[:, 0] != missing[:, 3]).any()
    assert (missing[:, [0, 1, 3]].sum(1) == 3).all()


def test_a_group_that_averaging_removes_is_an_error():
    with pytest.raises(ValueError, match="no column 'seed'"):
        correlation_table(make_runs(), "count", "gap", by="seed")


SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def make_runs(networks=("A", "B"), cells=9, seeds=3):
    rng = np.random.default_rng(7)
    rows = []
    for network in networks:
        for cell in range(cells):
            base = rng.normal()
            for seed in range(seeds):
                count = 3 + base + 0.1 * rng.normal()
                rows.append(
                    {"run_id": f"{network}{cell}{seed}", "network": network, "cell": f"lr={cell}", "status": "ok"}
                    | {"seed": seed, "lr": 0.1 * (cell + 1), "count": count, "gap": 0.1 * base + 0.3}
                    | {"interpolates": seed != 2 or cell > 0, "optimizer": "sgd", "count_std_error": 0.1}
                )
    return pd.DataFrame(rows)


@pytest.mark.parametrize("method", SCIPY)
@pytest.mark.parametrize("seed", range(5))
def test_value_is_scipys_with_ties(method, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 5, 20), rng.integers(0, 4, 20)
    assert correlate(x, y, method).value == pytest.approx(SCIPY[method](x, y).statistic, abs=1e-12)


@pytest.mark.parametrize("method", SCIPY)
def test_weighted_coefficients_equal_scipy_on_repeated_rows(method):
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 6, 12).astype(float), rng.normal(size=12)
    weights = bootstrap_weights(np.arange(12), 50, seed=0)
    ours = _METHODS[method][1](x, y, weights)
    for row, value in zip(weights.astype(int), ours, strict=True):
        assert value == pytest.approx(SCIPY[method](np.repeat(x, row), np.repeat(y, row)).statistic, abs=1e-9)


@pytest.mark.parametrize("method", SCIPY)
def test_interval_is_seeded_ordered_and_contains_the_value(method):
    rng = np.random.default_rng(0)
    x = rng.normal(size=27)
    y = x + rng.normal(size=27)
    a, b, c = (correlate(x, y, method, seed=s) for s in (0, 0, 1))
    assert a == b
    assert (a.low, a.high) != (c.low, c.high)
    assert -1 <= a.low < a.value < a.high <= 1
    assert correlate(x, y, method, confidence=0.5).high < a.high


def test_affine_changes_leave_pearson_alone():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 15))
    a, b = correlate(x, y), correlate(1e6 + 1e-3 * x, -4 * y)
    assert b.value == pytest.approx(-a.value, abs=1e-6)
    assert (b.low, b.high) == pytest.approx((-a.high, -a.low), abs=1e-5)


@pytest.mark.parametrize("method", SCIPY)
def test_constant_input_is_nan_without_a_warning(method):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = correlate([2.5] * 9, np.arange(9), method)
    assert np.isnan([result.value, result.low, result.high]).all()
    assert "no interval" in str(result)


@pytest.mark.parametrize("method", SCIPY)
def test_degenerate_resamples_are_left_out(method):
    x = np.array([0, 0, 0, 0, 0, 0, 0, 1.0])  # A third of the resamples miss the last row and are constant.
    y = np.array([0, 1, 0, 1, 0, 1, 0, 2.0])
    result = correlate(x, y, method)
    assert np.isfinite([result.value, result.low, result.high]).all()


def test_perfect_order_and_few_cells_have_no_interval():
    x = np.arange(9.0)
    perfect = correlate(x, x**3, "spearman")
    assert perfect.value == 1
    assert np.isnan([perfect.low, perfect.high]).all()
    few = correlate([1, 2, 3, 4], [1, 3, 2, 4])
    assert np.isfinite(few.value)
    assert np.isnan(few.low)


def test_rows_of_a_cell_are_drawn_together():
    weights = bootstrap_weights(["a", "a", "b", "c", "c"], 200, seed=0)
    assert (weights[:, 0] == weights[:, 1]).all()
    assert (weights[:, 3] == weights[:, 4]).all()
    assert (weights[:, [0, 2, 3]].sum(1) == 3).all()


def test_few_units_are_resampled_in_every_way():
    """All 27 ordered draws of three units, counted."""
    weights, probabilities = resample_units(["a", "b", "b", "c"], 1, seed=0)
    draws = [tuple(np.bincount(draw, minlength=3)[[0, 1, 1, 2]]) for draw in itertools.product(range(3), repeat=3)]
    expected = {draw: draws.count(draw) / 27 for draw in draws}
    assert dict(zip(map(tuple, weights.astype(int)), probabilities, strict=True)) == pytest.approx(expected)
    assert resample_units(["a"], 1, seed=0)[0].tolist() == [[1]]
    assert resample_units(range(10), 50, seed=0)[1] is None


@pytest.mark.parametrize("method", ["pearson", "spearman", "kendall"])
def test_intervals_of_few_units_depend_on_no_seed(method):
    rng = np.random.default_rng(4)
    x = rng.normal(size=9)
    y = x + rng.normal(size=9)
    exact = correlate(x, y, method, num_resamples=1, seed=3)
    assert exact == correlate(x, y, method, seed=8)
    weighted = {"pearson": weighted_pearson, "spearman": weighted_spearman, "kendall": weighted_kendall}[method]
    drawn = weighted(x, y, bootstrap_weights(range(9), 100_000, seed=0))
    bounds = percentile_interval(drawn, 9, 0.95, expanded=method == "pearson")
    assert (exact.low, exact.high) == pytest.approx(bounds, abs=0.02)


def test_repeating_every_row_does_not_narrow_a_clustered_interval():
    rng = np.random.default_rng(5)
    x = rng.normal(size=12)
    y = x + rng.normal(size=12)
    once = correlate(x, y)
    thrice = correlate(np.repeat(x, 3), np.repeat(y, 3), units=np.repeat(np.arange(12), 3))
    naive = correlate(np.repeat(x, 3), np.repeat(y, 3))
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high), abs=1e-9)
    assert (thrice.n, thrice.n_units) == (36, 12)
    assert naive.high - naive.low < 0.8 * (once.high - once.low)


@pytest.mark.parametrize(("method", "truth"), [("pearson", 0.9), ("kendall", 2 / np.pi * np.arcsin(0.9))])
@pytest.mark.parametrize("n", [9, 27])
def test_intervals_cover_at_the_nominal_rate(method, truth, n):
    rng = np.random.default_rng(11)
    trials, hits = 400, 0
    for _ in range(trials):
        x, e = rng.normal(size=(2, n))
        r = correlate(x, 0.9 * x + np.sqrt(1 - 0.81) * e, method, num_resamples=500)
        hits += r.low <= truth <= r.high
    assert 0.92 <= hits / trials <= 0.985


def test_expansion_widens_most_where_units_are_few():
    values = np.random.default_rng(0).normal(size=5000)

    def width(units, expanded):
        low, high = percentile_interval(values, units, 0.95, expanded=expanded)
        return high - low

    assert width(9, True) > width(27, True) > width(27, False)
    assert width(27, False) == width(9, False) == pytest.approx(2 * 1.96, rel=0.05)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"y": [1, 2]}, "equal length"),
        ({"x": [1, np.nan, 2]}, "row 1"),
        ({"method": "person"}, "unknown method 'person'"),
        ({"confidence": 95}, "between 0 and 1"),
        ({"num_resamples": 0}, "at least 1"),
        ({"units": ["a"]}, "equal length"),
    ],
)
def test_bad_input_is_named(kwargs, message):
    with pytest.raises(ValueError, match=message):
        correlate(**({"x": [1, 2, 3], "y": [3, 1, 2]} | kwargs))


def test_average_seeds_keeps_one_row_a_cell():
    runs = make_runs()
    cells = average_seeds(runs)
    assert len(cells) == 18
    first = runs[(runs.network == "A") & (runs.cell == "lr=0")]
    row = cells[(cells.network == "A") & (cells.cell == "lr=0")].iloc[0]
    assert row["count"] == pytest.approx(first["count"].mean())
    assert row["optimizer"] == "sgd"
    assert not row["interpolates"]
    assert cells["interpolates"].dtype == bool
    assert cells["interpolates"].sum() == 16
    assert {"num_seeds", "num_diverged"} <= set(cells)
    assert "seed" not in cells
    assert (cells["num_seeds"] == 3).all()


def test_average_seeds_keeps_a_cell_that_only_diverged():
    runs = make_runs()
    gone = (runs.network == "A") & (runs.cell == "lr=3")
    runs.loc[gone, ["status", "count", "gap"]] = ["diverged", np.nan, 0.05]
    runs.loc[(runs.network == "B") & (runs.cell == "lr=0") & (runs.seed == 1), "status"] = "diverged"
    cells = average_seeds(runs)
    assert len(cells) == 18
    row = cells[(cells.network == "A") & (cells.cell == "lr=3")].iloc[0]
    assert row["status"] == "diverged"
    assert np.isnan(row["count"])
    assert np.isnan(row["gap"])
    assert row["optimizer"] == "sgd"
    assert row["lr"] == pytest.approx(0.4)
    assert list(cells["num_diverged"].value_counts().sort_index()) == [16, 1, 1]


def test_average_seeds_does_not_hide_a_missing_number():
    runs = make_runs()
    runs.loc[4, "gap"] = np.nan
    assert average_seeds(runs)["gap"].isna().sum() == 1
    with pytest.raises(ValueError, match="not finite"):
        correlation_table(runs)


@pytest.mark.parametrize("average", [True, False])
def test_table_has_each_network_and_overall(average):
    runs = make_runs()
    runs.loc[0, "status"] = "diverged"
    table = correlation_table(runs, methods=("pearson", "kendall"), average=average, num_resamples=200)
    assert list(table["network"]) == ["A", "A", "B", "B", "overall", "overall"]
    assert list(table["n_units"]) == [9, 9, 9, 9, 18, 18]
    assert list(table["n_diverged"]) == [1, 1, 0, 0, 1, 1]
    assert list(table["n"]) == ([9, 9, 9, 9, 18, 18] if average else [26, 26, 27, 27, 53, 53])
    assert (table["low"] < table["value"]).all()
    assert (table["value"] < table["high"]).all()


def test_table_names_the_nearest_column():
    with pytest.raises(ValueError, match="did you mean 'count'"):
        correlation_table(make_runs(), x="counts")


@pytest.mark.parametrize("scale", [1e-308, 1e-200, 1.0, 1e200, 1e307])
def test_an_interval_does_not_depend_on_offset_or_size(scale):
    rng = np.random.default_rng(2)
    x = rng.normal(size=12)
    y = x + rng.normal(size=12)
    plain = correlate(x, y)
    assert np.isfinite(plain.low)
    shifted = correlate(1e12 + 4 * x, y)
    assert (shifted.low, shifted.value, shifted.high) == pytest.approx((plain.low, plain.value, plain.high), abs=1e-3)
    scaled = correlate(scale * x, -scale * y)
    assert (-scaled.high, -scaled.value, -scaled.low) == pytest.approx((plain.low, plain.value, plain.high), abs=1e-6)


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "10"])
def test_a_number_of_resamples_is_a_whole_one(number):
    with pytest.raises(ValueError, match="num_resamples="):
        correlate(np.arange(9), np.arange(9) ** 2, num_resamples=number)
