"""Statistics of pairs against brute force, and the page's tables from runs that are known by construction."""

import itertools

import numpy as np
import pandas as pd
import pytest
from test_correlation import make_runs

from rc_studies import pairs as p
from rc_studies import statistics
from rc_utils.correlation import MIN_UNITS, correlate

FACTORS = {"network": ["A", "B"], "lr": [0.01, 0.1], "batch_size": [32, 64, 128]}


def grid(factors=FACTORS):
    rows = pd.DataFrame(itertools.product(*factors.values()), columns=list(factors))
    rng = np.random.default_rng(0)
    x = rng.normal(size=len(rows)).round(1)
    return rows, x, (x + rng.normal(size=len(rows))).round(1)


def neighbours_by_hand(rows):
    """(i, j, the factor that differs) of all pairs that differ in one factor alone."""
    for i, j in itertools.combinations(range(len(rows)), 2):
        names = [c for c in rows.columns if rows[c][i] != rows[c][j]]
        if len(names) == 1:
            yield i, j, names[0]


def test_granulated_kendall_and_sign_errors_by_hand():
    rows, x, y = grid()
    groups, shares = {}, {}
    for i, j, name in neighbours_by_hand(rows):
        agrees = float(np.sign(x[i] - x[j]) * np.sign(y[i] - y[j]))
        others = tuple(rows[c][i] for c in rows.columns if c != name)
        groups.setdefault(name, {}).setdefault(others, []).append(agrees)
        shares.setdefault((name, *sorted((rows[name][i], rows[name][j]))), []).append((1 - agrees) / 2)
    pairs = p.neighbours(rows)
    taus = p.axis_kendall(x, y, pairs, range(12), num_resamples=20)
    expected = {name: np.mean([np.mean(values) for values in found.values()]) for name, found in groups.items()}
    assert {name: tau.value for name, tau in taus.items()} == pytest.approx(expected)
    found = p.granulated_kendall(x, y, pairs, range(12), num_resamples=200)
    assert found.value == pytest.approx(np.mean(list(expected.values())))
    assert -1 <= found.low < found.high <= 1
    errors = [np.mean(values) for values in shares.values()]
    assert sorted(p.environment_errors(x, y, pairs)) == pytest.approx(sorted(errors))
    assert p.sign_error(x, y, pairs, range(12), num_resamples=20).value == pytest.approx(np.mean(errors))
    assert p.sign_error(x, x + 0.001, pairs, range(12)).value < 0.1
    assert "lr 0.01 / 0.1" in pairs.environments
    with pytest.raises(ValueError, match="two rows have the factors"):
        p.neighbours(pd.concat([rows, rows[:1]]))


def test_a_unit_that_is_drawn_twice_is_not_compared_with_itself():
    rows, x, y = grid({"network": ["A", "B"], "lr": list(range(8))})
    pairs, units = p.neighbours(rows), np.tile(np.arange(8), 2)
    weights = np.random.default_rng(2).multinomial(8, np.full(8, 1 / 8), size=3)[:, units].astype(float)
    drawn = p._pair_weights(weights, pairs.first, pairs.second, units)
    for w, found in zip(weights, drawn, strict=True):
        same = units[pairs.first] == units[pairs.second]
        assert (found[same] == w[pairs.first[same]]).all()
        assert (found[~same] == (w[pairs.first] * w[pairs.second])[~same]).all()
    assert np.isnan(p.granulated_kendall(x[:6], y[:6], p.neighbours(rows[:6]), range(6)).low)
    assert MIN_UNITS == 7


def runs_with_measures():
    runs = make_runs(["A", "B", "C"])
    accuracy = 1 - 0.001 * np.random.default_rng(4).random(len(runs))
    return runs.assign(margin=-runs["count"], train_accuracy=accuracy, interpolates=runs["lr"] > 0.001)


def test_rows_are_settings_and_runs_are_not_mixed():
    runs = runs_with_measures()
    rows = statistics.settings_of(runs)
    assert (len(rows), rows["setting"].nunique()) == (27, 9)
    assert (rows["minus_margin"] == -rows["margin"]).all()
    assert {"minus_pal_score_inter", "linear_pieces"} < set(statistics.MEASURES)
    with pytest.raises(ValueError, match="more than once"):
        statistics.settings_of(pd.concat([runs, runs]))
    one_lr = rows[rows["lr"] == 0.01]
    assert statistics.estimate(one_lr, "count", "given_lr") == statistics.estimate(one_lr, "count", "within")


def test_between_seeds_the_setting_is_taken_out():
    runs = runs_with_measures()
    setting = ["network", "lr", "batch_size"]
    means = runs.groupby([*setting, "seed"])[["count", "gap"]].mean()
    left = means - means.groupby(setting).transform("mean")
    alone, number = statistics.seeds_alone(runs)
    assert alone.value == pytest.approx(np.corrcoef(left["count"], left["gap"])[0, 1])
    assert number == 54
    assert np.isnan(statistics.seeds_alone(runs[runs["seed"] == 0])[0].value)


def test_networks_stand_beside_each_other_and_the_league_has_every_statistic():
    rows = statistics.settings_of(runs_with_measures())
    table = statistics.networks_table(rows).set_index("network")
    assert list(table.index) == ["A", "B", "C", "all together", "all, within network"]
    assert table.loc["all together", "rows"] == 27
    alone = statistics.settings_of(make_runs(["A"]))
    assert statistics.networks_table(alone)["count"][0] == correlate(alone["count"], alone["gap"])
    values = {name: statistics.estimate(rows, "count", name, num_resamples=50).value for name in statistics.STATISTICS}
    assert values.pop("sign_error") < 0.2
    assert min(values.values()) > 0.5


def test_every_setting_counts_a_run_once_and_leaves_out_what_does_not_fit():
    runs = runs_with_measures()
    adam = runs.assign(optimizer="adam", run_id=runs["run_id"] + "a")
    both = pd.concat([runs, runs.assign(experiment="again"), adam])
    rows = statistics.every_setting(both)
    assert rows["interpolates"].all()
    assert len(rows) == 18
    separate = statistics.every_setting(both.assign(experiment=both["experiment"] + both["optimizer"]))
    assert (len(separate), separate["setting"].nunique()) == (36, 12)


def augmented_runs():
    """Nine settings and three seeds without and with an augmentation that takes half a region."""
    rows = []
    for name, i, seed in itertools.product(("main", "crop-flip"), range(9), range(3)):
        count = 3 + 0.2 * i - 0.5 * (name == "crop-flip")
        row = {"experiment": name, "lr": 0.1 * 2.0**-i, "cell": f"lr {i}", "seed": seed}
        rows.append(row | {"count": count})
    same = {"network": "ResNet18", "batch_size": 32, "weight_decay": 1e-5, "optimizer": "sgd"}
    return pd.DataFrame(rows).assign(**same, status="ok")


def test_rows_are_of_the_same_hyper_parameters_and_seeds():
    """A seed that one experiment lacks, or in which it diverged, is in neither mean."""
    runs = augmented_runs().sample(frac=1, random_state=0)
    plain, seed = runs["experiment"] == "main", runs["seed"]
    runs.loc[plain & (seed == 2), "count"] += 50
    runs.loc[~plain & (seed == 1), "count"] += 50
    runs.loc[~plain & (seed == 1), "status"] = "diverged"
    extra = runs.iloc[[0]].assign(experiment="main", lr=7.0, cell="alone")
    without, with_ = statistics.matched_settings(pd.concat([runs[plain | (seed < 2)], extra]), "crop-flip")
    assert len(without) == 9
    assert without["lr"].tolist() == with_["lr"].tolist()
    assert set(with_["experiment"]) == {"crop-flip"}
    assert set(without["num_seeds"]) == set(with_["num_seeds"]) == {1}
    assert (with_["count"] - without["count"]).mean() == pytest.approx(-0.5, abs=0.01)
    with pytest.raises(ValueError, match="no runs of experiment 'mixup'; there are"):
        statistics.matched_settings(runs, "mixup")
