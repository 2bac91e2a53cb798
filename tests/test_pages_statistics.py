"""Statistics of predictors against loops over pairs, on random tables with ties; their intervals in a simulation."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter, defaultdict

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy import stats

mpl.use("Agg")

import matplotlib.pyplot as plt

import benchmarks
from benchmarks import coverage, report
from rc_utils.correlation import bias_corrected_interval, fisher_interval, weighted_kendall, weighted_spearman
from rc_utils.pages.plotting import use_style
from rc_utils.pages.statistics import league, tables
from rc_utils.pages.statistics import predictors as p
from rc_utils.pages.statistics.cells import cells_of, draw
from rc_utils.pages.statistics.figures import (
    environment_strips,
    held_fixed_dots,
    information_null,
    league_panels,
    within_panels,
)

SEEDS = range(8)


def grid(rng, missing=0):
    factors = pd.DataFrame(
        itertools.product("AB", [0.1, 0.01, 0.001], [32, 64]), columns=["network", "lr", "batch_size"]
    )
    factors["momentum"] = 0.9
    kept = rng.permutation(len(factors))[: len(factors) - missing]
    return factors.iloc[np.sort(kept)].reset_index(drop=True)


def table(seed, missing=3):
    rng = np.random.default_rng(seed)
    factors = grid(rng, missing)
    x, y = rng.integers(0, 4, len(factors)).astype(float), rng.integers(0, 5, len(factors)).astype(float)
    return x, y, factors


def sign(value):
    return int(value > 0) - int(value < 0)


def settings(factors):
    return [tuple(row) for row in factors[["network", "lr", "batch_size"]].itertuples(index=False)]


def axis_oracle(x, y, factors, axis):
    """Mean over groups of the mean over the group's pairs, by loops."""
    groups = defaultdict(list)
    for index, setting in enumerate(settings(factors)):
        groups[setting[:axis] + setting[axis + 1 :]].append(index)
    taus = []
    for members in groups.values():
        orders = [sign(x[i] - x[j]) * sign(y[i] - y[j]) for i in members for j in members if i != j]
        if orders:
            taus.append(sum(orders) / len(orders))
    return sum(taus) / len(taus) if taus else None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("missing", [0, 3])
def test_granulated_kendall_is_the_mean_over_axes_and_groups(seed, missing):
    x, y, factors = table(seed, missing)
    expected = [tau for tau in (axis_oracle(x, y, factors, a) for a in range(3)) if tau is not None]
    pairs = p.neighbours(factors)
    assert sorted(e.value for e in p.axis_kendall(x, y, pairs).values()) == pytest.approx(sorted(expected))
    assert p.granulated_kendall(x, y, pairs).value == pytest.approx(sum(expected) / len(expected))


@pytest.mark.parametrize("seed", SEEDS)
def test_sign_errors_are_those_of_loops_over_environments(seed):
    x, y, factors = table(seed)
    errors, rows = defaultdict(list), settings(factors)
    for i, j in itertools.combinations(range(len(rows)), 2):
        differing = [a for a in range(3) if rows[i][a] != rows[j][a]]
        if len(differing) == 1:
            a = differing[0]
            wrong = (1 - sign(x[i] - x[j]) * sign(y[i] - y[j])) / 2
            errors[a, frozenset((rows[i][a], rows[j][a]))].append(wrong)
    means = [sum(v) / len(v) for v in errors.values()]
    pairs = p.neighbours(factors)
    assert sorted(p.environment_errors(x, y, pairs)) == pytest.approx(sorted(means))
    assert p.sign_error(x, y, pairs).value == pytest.approx(sum(means) / len(means))
    assert p.worst_sign_error(x, y, pairs).value == pytest.approx(max(means))


def information_oracle(x, y, keys):
    """I(V_x; V_y | U) / H(V_y | U) from the definition, by loops over ordered pairs."""
    counts, n = Counter(), len(x)
    for i, j in itertools.permutations(range(n), 2):
        counts[(keys[i], keys[j]), sign(x[i] - x[j]), sign(y[i] - y[j])] += 1
    total, information, entropy = sum(counts.values()), 0.0, 0.0
    for u in {key[0] for key in counts}:
        inside = {key[1:]: c for key, c in counts.items() if key[0] == u}
        size = sum(inside.values())
        for b in (-1, 0, 1):
            of_b = sum(c for (_, other), c in inside.items() if other == b) / size
            entropy -= size / total * (of_b * math.log2(of_b) if of_b else 0)
            for a in (-1, 0, 1):
                of_a = sum(c for (other, _), c in inside.items() if other == a) / size
                both = inside.get((a, b), 0) / size
                information += size / total * (both * math.log2(both / (of_a * of_b)) if both else 0)
    return information / entropy if entropy > 1e-12 else math.nan


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("names", [(), ("lr",), ("network", "batch_size")])
def test_conditional_information_is_that_of_the_definition(seed, names):
    x, y, factors = table(seed)
    keys = [tuple(factors.iloc[i][list(names)]) for i in range(len(factors))]
    expected = information_oracle(x, y, keys)
    value = p.conditional_information(x, y, p.strata_of(factors, names))
    assert value == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_partial_correlation_is_that_of_the_residuals(seed):
    rng = np.random.default_rng(seed)
    x, y, z, other = rng.integers(0, 6, size=(4, 15)).astype(float)
    weights = rng.integers(0, 3, size=(5, 15)).astype(float)
    ours = p.partial_pearson(x, y, weights, [z, other, 2 * z + 1])
    for row, value in zip(weights.astype(int), ours, strict=True):
        a, b, *controls = (np.repeat(v, row) for v in (x, y, z, other))
        design = np.column_stack([np.ones(len(a)), *controls])
        left = [v - design @ np.linalg.lstsq(design, v, rcond=None)[0] for v in (a, b)]
        assert value == pytest.approx(np.corrcoef(*left)[0, 1], abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_correlation_within_strata_is_that_of_deviations_from_their_means(seed):
    x, y, factors = table(seed, missing=0)
    frame = factors.assign(x=x, y=y)
    left = frame[["x", "y"]] - frame.groupby("lr")[["x", "y"]].transform("mean")
    value = p.partial_pearson(x, y, np.ones((1, len(x))), strata=p.strata_of(factors, ["lr"]))[0]
    assert value == pytest.approx(np.corrcoef(left["x"], left["y"])[0, 1])


def test_a_control_that_is_the_measure_leaves_nothing():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 9))
    one = np.ones((1, 9))
    assert np.isnan(p.partial_pearson(x, y, one, [3 * x - 1])[0])
    assert p.partial_pearson(x, y, one, [np.full(9, 0.7)])[0] == pytest.approx(np.corrcoef(x, y)[0, 1])


@pytest.mark.parametrize(
    ("ours", "scipys"), [(weighted_spearman, stats.spearmanr), (weighted_kendall, stats.kendalltau)]
)
def test_rank_correlations_take_other_values_in_each_resample(ours, scipys):
    rng = np.random.default_rng(4)
    x, y, weights = rng.integers(0, 5, (6, 11)), rng.integers(0, 5, (6, 11)), rng.integers(0, 3, (6, 11))
    values = ours(x.astype(float), y.astype(float), weights.astype(float))
    for a, b, row, value in zip(x, y, weights, values, strict=True):
        assert value == pytest.approx(scipys(np.repeat(a, row), np.repeat(b, row)).statistic, abs=1e-9)


def test_permutations_keep_the_strata_and_the_plug_in_is_biased_without_dependence():
    rng = np.random.default_rng(0)
    factors = pd.DataFrame(itertools.product(range(9), range(3)), columns=["stratum", "member"])
    strata = p.strata_of(factors, ["stratum"])
    x, y = rng.normal(size=(2, 27))
    null = p.information_null(x, y, strata, 100)
    assert null.mean() > 0.1
    assert p.information_null(x, y, np.zeros(27, int), 100).mean() < 0.03
    fixed = 10.0 * strata + np.array([0.0, 0.0, 1.0] * 9)
    assert np.ptp(p.information_null(10.0 * strata, y, strata, 5)) == 0
    assert np.ptp(p.information_null(fixed, y, strata, 20)) > 0


def test_conditionings_leave_cells_to_compare():
    factors = grid(np.random.default_rng(0))
    sets = set(p.conditionings(factors))
    pairs = {("network", "lr"), ("network", "batch_size"), ("lr", "batch_size")}
    assert sets == {(), ("network",), ("lr",), ("batch_size",)} | pairs
    assert set(p.conditionings(factors[["lr"]].drop_duplicates())) == {()}


@pytest.mark.parametrize("siblings", [False, True])
def test_dyadic_variance_is_the_sum_over_pairs_of_pairs_with_a_common_unit(siblings):
    x, y, factors = table(3, missing=0)
    units = np.maximum(np.arange(len(factors)) - (4 if siblings else 0), 0)
    pairs = p.neighbours(factors, units)
    values, shares = p.agreement(x, y, pairs), np.full(len(pairs.first), 1 / len(pairs.first))
    mean, variance, least = values.mean(), 0.0, 0.0
    ends = [{units[i], units[j]} for i, j in zip(pairs.first, pairs.second, strict=True)]
    for (a, one), (b, other) in itertools.product(enumerate(ends), repeat=2):
        product = (values[a] - mean) * (values[b] - mean) / len(ends) ** 2
        variance, least = variance + product * bool(one & other), least + product * (one == other)
    n = len(set(units))
    half = stats.t.ppf(0.975, n - 1) * math.sqrt(max(variance, least) * n / (n - 1)) / (1 - mean**2)
    found = p.pair_mean(values, shares, pairs)
    assert (found.low, found.high) == pytest.approx(
        (math.tanh(math.atanh(mean) - half), math.tanh(math.atanh(mean) + half))
    )


def test_cells_that_repeat_each_other_make_no_interval_narrower():
    x, y, factors = table(3, missing=0)
    three = pd.concat([factors.assign(weight_decay=wd) for wd in (1e-5, 1e-6, 1e-7)], ignore_index=True)
    units = np.tile(np.arange(len(factors)), 3)
    x3, y3 = np.tile(x, 3), np.tile(y, 3)
    pairs, repeated = p.neighbours(factors), p.neighbours(three, units)
    one, all_three = (p.worst_sign_error(*xy, q) for xy, q in (((x, y), pairs), ((x3, y3), repeated)))
    # Among equal cells an order is a coin: the axis of the weight decay adds environments of one half.
    assert all_three.high >= one.high
    lr, lr3 = (p.axis_kendall(*xy, q)["lr"] for xy, q in (((x, y), pairs), ((x3, y3), repeated)))
    assert dataclasses.astuple(lr3) == pytest.approx(dataclasses.astuple(lr))


def test_two_cells_of_one_setting_are_an_error():
    with pytest.raises(ValueError, match="two cells have the factors"):
        p.neighbours(pd.DataFrame({"lr": [0.1, 0.1]}))


def test_no_pairs_and_perfect_order():
    lone = p.neighbours(pd.DataFrame({"lr": [0.1], "network": ["A"]}))
    for statistic in (p.granulated_kendall, p.sign_error, p.worst_sign_error):
        assert np.isnan(statistic(np.ones(1), np.ones(1), lone).value)
    factors = grid(np.random.default_rng(0))
    x = np.arange(len(factors), dtype=float)
    perfect = p.granulated_kendall(x, x, p.neighbours(factors))
    assert perfect.value == pytest.approx(1)
    assert np.isnan(perfect.low)
    assert p.worst_sign_error(x, x, p.neighbours(factors)).value == 0


def runs_table(seeds=2, segments=30):
    rng = np.random.default_rng(0)
    rows = []
    for network, lr, batch_size, seed in itertools.product("AB", [0.1, 0.01], [32, 64], range(seeds)):
        base = rng.normal()
        row = {"network": network, "cell": f"{lr}, {batch_size}", "seed": seed, "lr": lr, "batch_size": batch_size}
        row |= {
            "status": "ok",
            "count": 3 + base,
            "gap": 0.3 + 0.1 * base + 0.02 * rng.normal(),
            "margin": rng.normal(),
        }
        rows.append(row | {"train_accuracy": 1 - 0.01 * (batch_size == 64), "interpolates": batch_size == 32})
    runs = pd.DataFrame(rows)
    return runs, runs["count"].to_numpy()[:, None] + rng.normal(size=(len(runs), segments))


def test_cells_average_seeds_and_leave_diverged_runs_out():
    runs, segments = runs_table()
    runs.loc[0, "status"] = "diverged"
    cells = cells_of(runs, segments)
    assert len(cells.factors) == 8
    assert cells.segments.shape == (15, 30)
    assert cells.means("gap")[0] == pytest.approx(runs["gap"][1])
    assert cells.means("gap")[1] == pytest.approx(runs["gap"][2:4].mean())
    fitted = cells.interpolating()
    assert list(fitted.factors["batch_size"]) == [32] * 4
    assert fitted.means("gap") == pytest.approx(cells.means("gap")[[0, 2, 4, 6]])
    with pytest.raises(ValueError, match="one experiment"):
        cells_of(pd.concat([runs, runs]))
    repeated = runs.set_axis([0] * len(runs))
    assert len(cells_of(repeated).runs) == 15


def test_a_table_of_information_on_too_few_cells_is_empty_and_can_be_shown():
    runs, _ = runs_table()
    table = league.information_table(cells_of(runs[runs["cell"] == "0.1, 32"].query("network == 'A'")))
    assert table.empty
    assert "given" in table.columns
    tables.show_information(table)
    figure = information_null(table)
    assert "too few cells" in figure.axes[0].texts[0].get_text()
    plt.close(figure)


def test_a_number_that_is_missing_or_infinite_is_an_error_that_names_it():
    """A NaN or infinity in one run would otherwise spread to every cell, or give rank correlations of what is left."""
    runs, _ = runs_table()
    for bad in (np.nan, np.inf):
        cells = cells_of(runs.assign(sharpness=[bad, *runs["gap"][1:]]))
        with pytest.raises(ValueError, match=r"sharpness is (nan|inf) in 1 of 16 runs"):
            league.league_table(cells, ["sharpness"], ["spearman"], num_resamples=20)
        with pytest.raises(ValueError, match="sharpness"):
            league.beside_the_count(cells, ["sharpness"], num_resamples=20)
        with pytest.raises(ValueError, match="sharpness"):
            league.within(cells, ["lr"], "sharpness", num_resamples=20)
    none = cells_of(runs.assign(status="diverged"))
    with pytest.raises(ValueError, match="every run diverged"):
        league.league_table(none, ["count"], ["pearson"], num_resamples=20)


def test_only_the_columns_that_a_statistic_needs_are_asked_for():
    runs, _ = runs_table()
    cells = cells_of(runs.drop(columns="train_accuracy"))
    assert len(league.league_table(cells, ["count"], ["pearson", "given_lr"], num_resamples=20)) == 2
    with pytest.raises(ValueError, match="no column 'train_accuracy'"):
        league.league_table(cells, ["count"], ["given_train_accuracy"], num_resamples=20)


def test_a_control_that_differs_by_rounding_alone_holds_nothing_fixed():
    runs, _ = runs_table(seeds=3)
    runs.loc[0, "status"] = "diverged"  # The mean of two seeds is rounded otherwise than that of three.
    cells = cells_of(runs.assign(train_accuracy=0.9985))
    assert np.ptp(cells.means("train_accuracy")) > 0
    assert np.isnan(league.league_table(cells, ["count"], ["given_train_accuracy"], num_resamples=20)["value"]).all()


def test_missing_factors_are_one_stratum():
    factors = pd.DataFrame({"momentum": [np.nan, float("nan"), 0.9, 0.9, np.nan], "lr": [1, 1, 1, 2, 1]})
    assert p.strata_of(factors, ["momentum"]).tolist() == [0, 0, 1, 1, 0]
    assert p.strata_of(factors, ["momentum", "lr"]).tolist() == [0, 0, 1, 2, 0]


def test_draws_resample_cells_seeds_and_shared_segments():
    runs, segments = runs_table()
    segments[:, 0] += 100.0  # A segment on which every run has many regions moves all counts of a resample together.
    cells = cells_of(runs.assign(count=segments.mean(1)), segments)
    draws = draw(cells, ["count", "gap"], 400, seed=1, seeds_again=True)
    assert (draws.weights.sum(1) == 8).all()
    assert draws.columns["count"].mean(0) == pytest.approx(cells.means("count"), abs=0.6)
    common = draws.columns["count"] - draws.columns["count"].mean(0)
    assert np.corrcoef(common.T).min() > 0.9
    assert np.ptp(draws.columns["gap"][:, 0]) == pytest.approx(abs(runs["gap"][0] - runs["gap"][1]))
    together = draw(cells, ["count", "gap"], 400, seed=1)
    assert np.ptp(together.columns["gap"][:, 0]) == 0
    again = draw(cells, ["count", "gap"], 400, seed=1, seeds_again=True)
    assert np.array_equal(again.columns["count"], draws.columns["count"])
    whole = draw(cells, ["gap"], 50, units=np.repeat([0, 1], 4))
    assert (whole.weights[:, :1] == whole.weights[:, :4]).all()


def test_cells_that_differ_in_weight_decay_alone_are_drawn_and_merged_as_one():
    runs, _ = runs_table()
    decays = [runs.assign(weight_decay=d, cell=runs["cell"].astype(str) + f" {d}", seed=runs["seed"]) for d in (0, 1)]
    cells = cells_of(pd.concat(decays, ignore_index=True))
    assert len(cells.factors) == 16
    assert (cells.units[:8] == cells.units[8:]).all()
    weights = draw(cells, ["gap"], 50).weights
    assert (weights[:, :8] == weights[:, 8:]).all()
    assert cells.merged().means("gap") == pytest.approx(cells_of(runs).means("gap"))


def test_a_rival_is_ahead_behind_or_not_told_apart():
    rng = np.random.default_rng(0)
    runs, _ = runs_table()
    runs = pd.concat([runs.assign(lr=runs["lr"] * f, cell=runs["cell"].astype(str) + f" {f}") for f in (1, 3, 9)])
    runs["gap"] = rng.normal(size=len(runs))
    runs["count"], runs["sharpness"] = runs["gap"] + 0.01 * rng.normal(size=len(runs)), rng.normal(size=len(runs))
    runs["train_loss"] = runs["count"] + 0.01 * rng.normal(size=len(runs))
    cells = cells_of(runs.reset_index(drop=True))
    table = league.beside_the_count(cells, ["count", "sharpness", "train_loss"], num_resamples=300)
    assert len(table) == 6
    low = table.set_index(["statistic", "measure"])["low"]
    assert low["pearson", "sharpness"] > 0
    text = tables.rivals(table)
    assert "Pearson: the region count is ahead of sharpness" in text
    behind = table.assign(value=-table["value"], low=-table["high"], high=-table["low"])
    assert "behind sharpness" in tables.rivals(behind)
    level = table.assign(low=-1.0, high=1.0)
    assert "not told apart from sharpness" in tables.rivals(level)
    assert "Too few cells" in tables.rivals(table.assign(low=np.nan))


def test_league_has_a_row_for_each_measure_and_statistic_and_names_what_is_missing():
    runs, segments = runs_table()
    cells = cells_of(runs, segments)
    measures, missing = league.available(cells)
    assert measures == ["count", "minus_margin", "batch_over_lr"]
    assert "sharpness" in missing
    found = league.league_table(cells, num_resamples=200, num_permutations=20)
    assert len(found) == 3 * len(league.STATISTICS)
    known = found.set_index(["measure", "statistic"])
    assert known.loc[("count", "pearson"), "value"] > 0.8
    assert known.loc[("count", "pearson"), "low"] < known.loc[("count", "pearson"), "value"]
    assert "sharpness" in tables.describe_cells(cells, missing)
    with pytest.raises(ValueError, match="no column 'sharpness'"):
        league.league_table(cells, ["sharpness"])


def test_a_measure_that_recognises_the_learning_rate_has_nothing_within_it():
    rng = np.random.default_rng(2)
    runs = pd.DataFrame(
        itertools.product("ABC", [0.1, 0.01, 0.001], [32, 64, 128]), columns=["network", "lr", "batch_size"]
    )
    log_lr = np.log10(runs["lr"])
    runs = runs.assign(count=log_lr + 0.1 * rng.normal(size=27), gap=log_lr + 0.1 * rng.normal(size=27), seed=0)
    runs = runs.assign(cell=runs.index, status="ok", train_accuracy=1.0, interpolates=True)
    held = league.held_fixed(cells_of(runs), num_resamples=200).set_index(["runs", "fixed"])
    assert held.loc[("all", "nothing"), "low"] > 0.9
    within = held.loc[("all", "learning rate")]
    assert within["low"] < 0 < within["high"]
    assert "not resolved from 0" in tables.answer(held.reset_index())


def test_a_measure_that_knows_the_settings_alone_has_nothing_beyond_them():
    rng = np.random.default_rng(3)
    runs = pd.DataFrame(
        itertools.product("ABC", [0.1, 0.03, 0.01], [32, 64, 128]), columns=["network", "lr", "batch_size"]
    )
    ratio = np.log2(runs["batch_size"] / runs["lr"])
    bend = (0.1 + 0.05 * (runs["network"] == "B")) * (ratio - 12) ** 2
    noise = 0.05 * rng.normal(size=(3, 27))
    runs = runs.assign(gap=ratio + bend + noise[0], seed=0, cell=runs.index, status="ok", interpolates=True)

    def left(count):
        held = league.held_fixed(cells_of(runs.assign(count=count)), num_resamples=200)
        return held.set_index(["runs", "fixed"]).loc[("all", league.SMOOTH)]

    settings = left(ratio + bend + noise[1])
    assert settings["low"] < 0 < settings["high"]
    assert settings["n_strata"] == 3
    assert left(ratio + bend + noise[0] + 0.2 * noise[2])["low"] > 0.5


def test_cells_that_differ_in_weight_decay_alone_are_one_in_pairs():
    runs, _ = runs_table()
    decays = pd.concat([runs.assign(weight_decay=w, cell=runs["cell"] + f", {w}") for w in (1e-5, 1e-6)])
    decays["gap"] += 0.1 * np.random.default_rng(0).normal(size=len(decays))
    cells = cells_of(decays)
    assert set(league.axis_table(cells, ["count"])["axis"]) == {"network", "lr", "batch_size"}
    assert not league.environment_table(cells, ["count"])["environment"].str.contains("weight").any()
    found = league.league_table(cells, ["count"], ["sign_error"], num_resamples=20)
    merged = league.league_table(cells.merged(), ["count"], ["sign_error"], num_resamples=20)
    pd.testing.assert_frame_equal(found, merged)


def test_seeds_of_a_cell_are_the_last_rung():
    cells = cells_of(*runs_table(seeds=3))
    held = league.held_fixed(cells, num_resamples=100)
    last = held[(held["fixed"] == "everything but the seed") & (held["runs"] == "all")].iloc[0]
    left = cells.runs.groupby(cells.cell)[["count", "gap"]].transform(lambda v: v - v.mean())
    assert last["value"] == pytest.approx(np.corrcoef(left["count"], left["gap"])[0, 1])
    assert last["n_strata"] == 8


def test_intervals_of_resamples():
    resampled = np.random.default_rng(0).normal(0.4, 0.1, 4000)
    low, high = bias_corrected_interval(resampled, 0.5, 27, 0.95)
    plain = np.quantile(resampled, [0.025, 0.975])
    assert low > plain[0] + 0.1
    assert high > plain[1] + 0.05
    assert bias_corrected_interval(resampled, np.median(resampled), 27, 0.95) == pytest.approx(plain, abs=0.01)
    low, high = fisher_interval(resampled, 0.5, 27, 0.95)
    assert (np.arctanh(low) + np.arctanh(high)) / 2 == pytest.approx(np.arctanh(0.5))
    assert np.isnan(fisher_interval(resampled, 0.5, 5, 0.95)).all()
    low, high = fisher_interval(np.array([0.99992, 0.99995, 0.99997, 0.9999, 1.0]), 0.99995, 9, 0.95)
    assert 0.999 < low < 0.99995 < high < 1
    assert np.isnan(bias_corrected_interval(np.ones(50), 1.0, 27, 0.95)).all()


def test_intervals_cover_at_about_the_nominal_rate(monkeypatch):
    monkeypatch.setattr(coverage, "NUM_RESAMPLES", 150)
    monkeypatch.setattr(coverage, "NUM_PERMUTATIONS", 10)
    rows = {row.benchmark.split(",")[0]: row for row in coverage.coverage_of(coverage.SETTINGS[1], 40, seed=3)}
    assert set(rows) == set(coverage.STATISTICS)
    for name, row in rows.items():
        assert row.ours >= 0.84, name  # Three standard errors of 40 trials are 10 points.
    assert rows["worst_sign_error"].other < 0.6  # The plain bootstrap of a maximum does not cover.


def test_a_row_of_coverage_says_whether_it_is_within_three_points():
    assert coverage.Coverage("a", 0.93, 0.8, 100).is_met
    assert not coverage.Coverage("a", 0.99, 0.8, 100).is_met
    assert coverage.Coverage("a", 0.99, 0.8, 100, at_least=True).is_met
    short = coverage.Coverage("a", 0.9, math.nan, 100)
    assert short.texts[-1] == "NO"
    assert "90.0%" in report.table([short])
    assert "coverage" in benchmarks.load()


@pytest.mark.parametrize("seeds", [1, 2])
def test_figures_and_tables_show_every_row(seeds):
    cells = cells_of(*runs_table(seeds))
    found = league.league_table(cells, num_resamples=50, num_permutations=5)
    held = league.held_fixed(cells, num_resamples=50)
    information = league.information_table(cells, num_permutations=5)
    environments = league.environment_table(cells, ["count", "minus_margin"])
    with mpl.rc_context():
        use_style()
        figures = [
            league_panels(found),
            held_fixed_dots(held),
            within_panels(cells),
            information_null(information),
            environment_strips(environments),
        ]
        for figure in figures:
            figure.canvas.draw()
        assert len([ax for ax in figures[0].axes if ax.get_visible()]) == len(league.STATISTICS)
        plt.close("all")
    assert tables.show_league(found).data.count("<tr") == 4
    assert tables.show_held_fixed(held).data.count("<tr") == 1 + held["fixed"].nunique()
    assert tables.show_information(information).data.count("<tr") == 1 + len(information)
    assert tables.verdicts(held, found, information).count("- ") >= 4
    assert "region count" in tables.best_measures(found)
    assert "environments" in tables.worst_environments(environments)
