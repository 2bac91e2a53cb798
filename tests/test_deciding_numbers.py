"""The deciding numbers of page 18 from the tables of runs, without the code that decides."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from rc_studies import decisions, second_round, studies
from rc_utils.sweep.records import load_evolution, load_runs


def runs_of(study):
    runs = load_runs(f"study-{study}", origin="reference")
    runs = runs[(runs["status"] == "ok") & (runs["interpolates"] | (study == "axes"))]
    return runs.assign(log=np.log(runs["count"].astype(float)))


def seeds():
    runs = runs_of("seeds")
    for _, own in runs.groupby("network", sort=False):
        centred = own[["log", "gap"]] - own.groupby("experiment")[["log", "gap"]].transform("mean")
        r = stats.pearsonr(*centred.to_numpy().T).statistic
        half = stats.norm.ppf(0.975) / np.sqrt(59 - 3)
        yield r, np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half)


def transfer():
    errors = total = 0
    for _, own in runs_of("transfer").groupby("network"):
        sgd, other = own[own["experiment"] == "sgd"], own[own["experiment"] != "sgd"]
        line = stats.linregress(sgd["log"], sgd["gap"])
        errors += ((other["gap"] - line.intercept - line.slope * other["log"]) ** 2).sum()
        total += ((other["gap"] - sgd["gap"].mean()) ** 2).sum()
    return 1 - errors / total


def slopes():
    wide = runs_of("intervene").pivot(index="seed", columns="experiment", values=["log", "gap"])
    moved, followed = (wide[name].sub(wide[name]["control"], axis=0) for name in ("log", "gap"))
    for prefix in ("random-labels", "third-class", "nearer-class", "gradient-penalty"):
        arm = [column for column in moved if column.startswith(prefix)]
        slope = ((moved[arm] * followed[arm]).sum(axis=1) / (moved[arm] ** 2).sum(axis=1)).mean()
        yield slope, max(moved[arm].mean(), key=abs), len(wide)


def wrong_pairs(levels, outcome, sign):
    runs = runs_of("axes")
    runs = runs[runs["experiment"].isin(levels)]
    both = runs.merge(runs, on=["lr", "seed"])
    both = both[both["experiment_x"] < both["experiment_y"]]
    change = sign * (both[f"{outcome}_x"] - both[f"{outcome}_y"])
    return ((both["log_x"] - both["log_y"]) * change < 0).mean()


def beyond_settings(splits):
    seen = load_evolution("study-independent", "reference")
    fit = runs_of("independent").set_index("run_id")
    seen = seen[seen["reached_loss"].notna() & seen["run_id"].isin(fit.index)]
    updates = np.ceil(3000 / seen["batch_size"]) * seen["epoch"]
    seen = seen.assign(log=np.log(seen["count_main"]), updates=updates)
    left = []
    for _, own in seen.groupby("network"):
        settings = np.log(own[["lr", "batch_size", "updates"]])
        values = own[["log", "gap"]].to_numpy()
        polynomial = PolynomialFeatures(3 if len(own) >= 57 else 1, include_bias=False)
        ridge = RidgeCV(np.logspace(-3, 3, 13), alpha_per_target=True)
        model = make_pipeline(StandardScaler(), polynomial, StandardScaler(), ridge)
        folds = [KFold(10, shuffle=True, random_state=10_000 * split) for split in range(splits)]
        predicted = [cross_val_predict(model, settings, values, cv=cv) for cv in folds]
        left.append(stats.zscore(values - np.mean(predicted, axis=0)))
    return np.corrcoef(np.concatenate(left).T)[0, 1]


def test_the_deciding_numbers_by_other_code():
    runs = {name: study.runs for name, study in studies.first_round().items()}
    own = decisions.seed_correlations(runs["seeds"]).query("measure == 'log count'")["r"]
    assert [(r.value, r.low, r.high) for r in own] == [pytest.approx(r, abs=1e-9) for r in seeds()]
    assert decisions.transfer_scores(runs["transfer"])["R2"][0].value == pytest.approx(transfer())
    arms = decisions.intervention_slopes(runs["intervene"])
    found = [(s.value, moved, s.n) for s, moved in zip(arms.slope, arms.moved, strict=True)]
    assert found == [pytest.approx(expected) for expected in slopes()]
    for outcome, sign in (("gap", 1), ("test_accuracy", -1)):
        shares = decisions.sign_errors(runs["axes"], outcome).set_index("axis")["sign-error"]
        expected = {a: wrong_pairs(levels, outcome, sign) for a, levels in studies.AXES.items()}
        assert {axis: share.value for axis, share in shares.items()} == pytest.approx(expected)
    at_equal_loss = decisions.looks(runs["independent"])["equal loss"]
    options = {"num_resamples": 0, "splits": 20}
    found = decisions.partial_correlations(at_equal_loss, **options).set_index("measure")["r"]
    assert found["log count"].value == pytest.approx(beyond_settings(20), abs=1e-9)


def second_round_r(group, name):
    runs = load_runs(name, origin="reference")
    runs = runs[(runs["status"] == "ok") & (runs["train_accuracy"] >= 0.99)]
    accuracy = runs["test_accuracy"]
    if group == "twins":
        accuracy = (10 * runs["test_accuracy"] + 47 * runs["unused_accuracy"]) / 57
    r = stats.pearsonr(np.log(runs["count"].astype(float)), runs["train_accuracy"] - accuracy)
    return r.statistic, *r.confidence_interval()


def given_the_settings(runs):
    """The partial correlation from the inverse of the correlations of all four."""
    logs = np.log(runs[["count", "lr", "batch_size"]].astype(float))
    precision = np.linalg.inv(np.corrcoef(logs.T, runs["gap"]))
    return -precision[0, 3] / np.sqrt(precision[0, 0] * precision[3, 3])


@pytest.mark.parametrize(("group", "bar"), [("twins", 0.2), ("gap", 0.7)])
def test_the_second_round_by_other_code(group, bar):
    made = [studies.study_runs(name) for name in second_round.CAMPAIGNS[group]]
    assert all(study.complete for study in made)
    one_unfit = replace(made[0], runs=made[0].runs.assign(interpolates=made[0].runs.index > 0))
    assert len(second_round.deciding_runs(group, one_unfit)) == len(made[0].runs) - 1
    table, decision = second_round.outcome(group, made)
    expected = [second_round_r(group, study.name) for study in made]
    for study, given in zip(made, table.get("r given the settings", []), strict=False):
        runs = study.runs[study.runs["interpolates"].astype(bool)]
        assert given.value == pytest.approx(given_the_settings(runs))
    found = [(r.value, r.low, r.high) for r in table["r"]]
    assert found == [pytest.approx(r, abs=1e-9) for r in expected]
    if group == "twins":
        shares = table[["reliability of log count", "of accuracy"]].to_numpy()
        without_noise = [r.value for r in table["r"]] / np.sqrt(shares.prod(axis=1))
        assert table["r without noise"].tolist() == pytest.approx(without_noise.tolist())
    above = all(low > bar for _, low, _ in expected)
    below = all(high < bar for *_, high in expected)
    assert decision == ("supports" if above else "refutes" if below else "inconclusive")
