"""What decides in the studies: on tables whose answer is known, in simulations, by other code."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from torch import nn

from rc_studies import decisions, power, studies
from rc_studies import second_round as rules
from rc_studies.rescaling import random_rescaling, rescalable_layers, rescale
from rc_studies.studies import COUNT
from rc_utils import load_dataset
from rc_utils.correlation import Estimate
from rc_utils.datasets.load import stored
from rc_utils.measures import output_margin
from rc_utils.networks import build_network
from rc_utils.paths import project_root
from rc_utils.published import NETWORKS
from rc_utils.sweep.records import load_evolution, load_runs


def table(rows):
    """Runs, a row each: of ResNet18, "main" and interpolating where the rows say nothing else."""
    defaults = {"network": "ResNet18", "experiment": "main", "interpolates": True}
    runs = pd.DataFrame(rows)
    return runs.assign(**{name: value for name, value in defaults.items() if name not in runs})


def test_a_rival_of_the_seeds_may_be_taken_by_its_logarithm():
    rng = np.random.default_rng(0)
    count, noise, other = rng.normal(size=(3, 60))
    runs = table({COUNT: count, "gap": 0.8 * count + 0.6 * noise, "margin": np.exp(count)})
    runs = runs.assign(sharpness=other, experiment=np.repeat(["seeds", "draws"], 30))
    found = decisions.seed_correlations(runs).set_index("measure")["difference"]
    assert found["output margin"].value == pytest.approx(0, abs=1e-12)
    assert found["sharpness"].low > 0


def test_the_decisions_are_those_of_the_protocol():
    for intervals, decision in (
        ([(0.6, 0.4, 0.7), (0.5, 0.1, 0.7)], "supports"),
        ([(0.6, 0.4, 0.7), (0.4, 0.1, 0.7)], "inconclusive"),
        ([(0.1, -0.1, 0.29), (0.0, -0.2, 0.2)], "refutes"),
        ([(0.1, -0.1, 0.29), (0.2, -0.2, 0.31)], "inconclusive"),
    ):
        rows = pd.DataFrame({"measure": COUNT, "r": [Estimate(*values) for values in intervals]})
        assert decisions.decide_seeds(rows) == decision
    for count, rival, low, decision in (
        (0.6, 0.4, 0.1, "supports"),
        (0.6, 0.4, -0.1, "inconclusive"),
        (0.6, 0.6, 0.1, "refutes"),
        (0.49, 0.1, 0.1, "refutes"),
    ):
        both = [Estimate(count, 0, 1), Estimate(rival, 0, 1)]
        scores = pd.DataFrame({"measure": [COUNT, "sharpness"], "R2": both})
        scores["difference"] = [Estimate(0, 0, 0), Estimate(count - rival, low, 1)]
        assert decisions.decide_transfer(scores) == decision
    for interval, moved, decision in (
        ((0.2, 0.11, 0.3), 0.5, "supports"),
        ((0.0, -0.1, 0.09), -0.5, "refutes"),
        ((0.1, 0.0, 0.2), 0.5, "inconclusive"),
        ((0.2, 0.11, 0.3), 0.3, "not moved"),
    ):
        assert decisions.decide_arm(Estimate(*interval), moved, across=0.2) == decision
    for interval, decision in (
        ((0.3, 0.2, 0.49), "supports"),
        ((0.6, 0.51, 0.7), "refutes"),
        ((0.5, 0.4, 0.6), "inconclusive"),
    ):
        assert decisions.decide_axis(Estimate(*interval)) == decision
    names = [COUNT, "count", "output margin"]  # the count itself is no rival of its logarithm
    for estimates, decision in (
        ([(0.4, 0.3, 0.5), (0.6, 0.5, 0.7), (0.1, -0.1, 0.2)], "supports"),
        ([(0.4, 0.3, 0.5), (0.4, 0.3, 0.5), (-0.45, -0.6, -0.3)], "inconclusive"),
        ([(0.4, 0.3, 0.5), (0.4, 0.3, 0.5), (-0.6, -0.7, -0.5)], "refutes"),
        ([(0.1, -0.1, 0.19), (0.5, 0.4, 0.6), (0.0, -0.1, 0.1)], "refutes"),
    ):
        rows = pd.DataFrame({"measure": names, "r": [Estimate(*values) for values in estimates]})
        assert decisions.decide_independent(rows) == decision


def transfer_runs():
    """Each network has its own line of the gap in log(count), and little noise."""
    rng = np.random.default_rng(1)
    rows = []
    for k in range(9):
        for experiment in ["sgd"] * 6 + ["adam"] * 4:
            count = rng.uniform(0, 2)
            gap = k + (0.1 + 0.05 * k) * count + 0.05 * rng.normal()
            row = {"network": f"N{k}", "experiment": experiment, COUNT: count, "gap": gap}
            rows.append(row | {"margin": rng.uniform()})
    return table(rows)


def test_transfer_takes_the_form_of_a_rival_that_fits_the_sgd_runs_and_leaves_out_the_unfit():
    """By its logarithm it fits them; what is predicted would be nearer without."""
    runs = transfer_runs().assign(sharpness=[np.inf, *range(89)])
    runs["margin"] = np.exp(runs[COUNT]).where(runs["experiment"] == "sgd", 1e-9)
    runs.loc[(runs["network"] == "N3") & (runs["experiment"] == "sgd"), "interpolates"] = False
    found = decisions.transfer_scores(runs).set_index("measure")
    assert found.loc["output margin", "R2"].value < -50
    assert "sharpness" not in found.index
    assert found.loc[COUNT, "R2"].n == 8


@pytest.fixture(scope="module")
def made():
    """The runs of the first five studies."""
    return {name: study.runs for name, study in studies.first_round().items()}


def test_no_decision_depends_on_a_seed_of_the_analysis(made):
    looked = decisions.looks(made["independent"])["equal loss"]
    columns, decided = [studies.COUNT, rules.RIVAL, "gap"], set()
    second = [(g, studies.study_runs(n)) for g, names in rules.CAMPAIGNS.items() for n in names]
    second = [(g, rules.deciding_runs(g, study)[columns].to_numpy(float).T) for g, study in second]
    for seed in range(2):
        rng = np.random.default_rng(seed)
        found = [(g, rules.difference_of_correlations(*rows, rng=rng)) for g, rows in second]
        axes = decisions.sign_errors(made["axes"], seed=seed).sort_values("axis")
        options = {"seed": seed, "num_resamples": 0}
        both = [decisions.partial_correlations(looked, runs_a_term=n, **options) for n in (3, 0)]
        tables = (
            decisions.decide_seeds(decisions.seed_correlations(made["seeds"], seed=seed)),
            decisions.decide_transfer(decisions.transfer_scores(made["transfer"], seed=seed)),
            *axes["decision"],
            *map(decisions.decide_independent, both),
            *(rules.decide_equivalence(difference, rules.MARGINS[g]) for g, difference in found),
        )
        decided.add(tables)
    assert len(decided) == 1


def test_nothing_is_computed_before_a_study_is_complete(monkeypatch):
    find = studies.find_records
    monkeypatch.setattr(studies, "find_records", lambda *of: dict([*find(*of).items()][:-2]))
    found = studies.study_runs("study-seeds")
    for call in (studies.first_round, lambda: rules.outcome("gap", [found])):
        with pytest.raises(ValueError, match=r"study-seeds has 118 of 120 runs.*sweep study-seeds"):
            call()


def test_a_rival_passes_where_the_gap_follows_it_as_across_settings():
    x, rows = np.random.default_rng(6).uniform(1, 2, 9), []
    sgd = table({COUNT: x, "margin": np.exp(x), "gap": 0.2 * x, "experiment": "sgd"})
    for seed in range(7):
        rows.append({"experiment": "control", "seed": seed, COUNT: 1.0, "margin": 2.0, "gap": 0.3})
        for dose in (0.1, 0.2):
            gap = 0.3 + 0.15 * dose + 0.001 * seed * dose
            row = {"experiment": f"third-class-{dose}", "seed": seed, COUNT: 1.0 + dose}
            rows.append(row | {"margin": 2.0 * np.exp(-dose), "gap": gap})
    del rows[-3]  # the control of the last seed
    found = decisions.slopes_by_measure(table(rows), sgd, "midpoints of a third class")
    found = found.set_index("measure")
    assert found["passes"].to_dict() == {COUNT: True, "output margin": False}
    assert found.loc[COUNT, "ratio"].value == pytest.approx(0.7625)
    assert found.loc["output margin", "ratio"].value == pytest.approx(-0.7625)


def test_a_rival_that_is_constant_within_a_network_is_none():
    runs = pd.DataFrame({"network": ["a", "a", "b", "b"], COUNT: [0.1, 0.2, 0.3, 0.4]})
    runs = runs.assign(num_parameters=[7, 7, 9, 9], margin=[1.0, 2.0, 3.0, 4.0])
    found = decisions.forms(runs)
    assert "output margin" in found
    assert "parameters" not in found


def test_rules_of_correlations_and_of_equivalence():
    for estimates, twins, gap in (
        ([(0.8, 0.71, 0.9), (0.9, 0.8, 0.95)], "supports", "supports"),
        ([(0.5, 0.21, 0.7), (0.5, 0.3, 0.6)], "supports", "inconclusive"),
        ([(0.5, 0.19, 0.7), (0.5, 0.3, 0.6)], "inconclusive", "inconclusive"),
        ([(0.0, -0.2, 0.19), (0.1, -0.1, 0.2001)], "inconclusive", "refutes"),
        ([(0.8, 0.71, 0.9), (0.0, -0.2, 0.19)], "inconclusive", "inconclusive"),
        ([(0.8, 0.71, 0.9)], "inconclusive", "inconclusive"),  # it takes two networks
        ([(0.8, 0.71, 0.9), (np.nan,) * 3], "inconclusive", "inconclusive"),
    ):
        found = [rules.decide(estimates, rules.BARS[group]) for group in ("twins", "gap")]
        assert found == [twins, gap]
    for difference, decision in (
        ((0.05, 0.01, 0.09), "equivalent"),
        ((0.3, 0.05, 0.5), "count ahead"),
        ((-0.3, -0.5, -0.05), "mixup ahead"),
        ((0.0, -0.11, 0.05), "open"),
    ):
        assert rules.decide_equivalence(difference, 0.1) == decision


def test_reliabilities_are_those_that_the_data_were_drawn_with():
    rng = np.random.default_rng(3)
    means = 3 * np.exp(rng.normal(0, 0.05, 300))
    counts = rng.poisson(means[:, None] - 1, (300, 1000)) + 1
    noise = np.mean((means - 1) / 1000 / means**2)
    expected = 0.05**2 / (0.05**2 + noise)
    assert rules.reliability_of_log_count(counts) == pytest.approx(expected, abs=0.03)
    # Images are easy or hard for all runs, and that is no noise: accuracies p_i, shifted by a run.
    hard, skill = rng.uniform(0.1, 0.9, 4000), rng.normal(0, 0.02, 200)
    right = rng.random((200, 4000)) < np.clip(hard + skill[:, None], 0, 1)
    noise = np.mean(hard * (1 - hard))
    for images in (4000, 40_000):
        expected = 0.02**2 / (0.02**2 + noise / images)
        assert rules.reliability_of_accuracy(right, images) == pytest.approx(expected, abs=0.03)


def test_networks_disagree_on_the_images_that_both_were_shown_whatever_their_order():
    same = np.tile(np.arange(4), (3, 1))
    labels = np.array([[0, 1, 2, 3], [0, 1, 2, 2], [1, 1, 0, 3]])
    expected = [(1 + 2) / 8, (1 + 3) / 8, (2 + 3) / 8]
    assert rules.disagreement(labels, same, 4).tolist() == pytest.approx(expected)
    orders = np.array([[2, 0, 3, 1], [0, 1, 2, 3], [3, 2, 1, 0]])
    shuffled = np.take_along_axis(labels, orders, axis=1)
    assert rules.disagreement(shuffled, orders, 9).tolist() == pytest.approx(expected)
    with pytest.raises(ValueError, match="no image in common"):
        rules.disagreement([[5], [5]], [[0], [1]], 2)


def test_predictions_are_of_the_images_that_the_seed_shows_first(tmp_path, monkeypatch, rng):
    monkeypatch.setenv("RC_DATA", str(tmp_path))
    labels = np.tile(np.arange(4), 15)
    images = rng.integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)
    arrays = {"x_train": images, "x_test": images[::-1], "y_train": labels, "y_test": labels}
    np.savez(tmp_path / "cifar10.npz", **arrays)
    settings = {"name": "cifar10", "n_train": 12, "n_test": 60, "seed": 3}
    shown = rules.order_of_test_images(stored("cifar10", tmp_path), {"dataset": settings})
    assert sorted(shown) == list(range(60))
    raw = load_dataset(**settings).x_test.raw.numpy()
    assert np.array_equal(raw.transpose(0, 2, 3, 1), images[::-1][shown])


@pytest.mark.slow
def test_the_protocol_quotes_what_the_command_prints(capsys):
    power.main()
    text = (project_root() / "book" / "protocol.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out.strip() in text


def test_a_lead_over_a_rival_without_correlation_has_an_interval_that_holds_the_truth(rng):
    gap, count = rng.normal(size=(2, 60))
    found = [rules.difference_of_correlations(count, gap, count + gap) for _ in range(2)]
    assert found[0] == found[1]  # by a seed of its own
    same = rules.difference_of_correlations(count, -count, gap, 200)
    assert same == pytest.approx((0, 0, 0), abs=1e-12)
    held = 0
    for _ in range(300):
        gap, count, rival = rng.normal(size=(3, 60))
        count = 0.4 * gap + np.sqrt(1 - 0.4**2) * count
        _, low, high = rules.difference_of_correlations(count, rival, gap, 500, rng)
        held += low <= 0.4 <= high
    assert held > 0.9 * 300


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


def test_the_deciding_numbers_by_other_code(made):
    own = decisions.seed_correlations(made["seeds"]).query("measure == 'log count'")["r"]
    assert [(r.value, r.low, r.high) for r in own] == [pytest.approx(r, abs=1e-9) for r in seeds()]
    assert decisions.transfer_scores(made["transfer"])["R2"][0].value == pytest.approx(transfer())
    arms = decisions.intervention_slopes(made["intervene"])
    found = [(s.value, moved, s.n) for s, moved in zip(arms.slope, arms.moved, strict=True)]
    assert found == [pytest.approx(expected) for expected in slopes()]
    for outcome, sign in (("gap", 1), ("test_accuracy", -1)):
        shares = decisions.sign_errors(made["axes"], outcome).set_index("axis")["sign-error"]
        expected = {a: wrong_pairs(levels, outcome, sign) for a, levels in studies.AXES.items()}
        assert {axis: share.value for axis, share in shares.items()} == pytest.approx(expected)
    at_equal_loss = decisions.looks(made["independent"])["equal loss"]
    options = {"num_resamples": 0, "splits": 5}
    found = decisions.partial_correlations(at_equal_loss, **options).set_index("measure")["r"]
    assert found["log count"].value == pytest.approx(beyond_settings(5), abs=1e-9)


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
    made = [studies.study_runs(name) for name in rules.CAMPAIGNS[group]]
    one_unfit = replace(made[0], runs=made[0].runs.assign(interpolates=made[0].runs.index > 0))
    assert len(rules.deciding_runs(group, one_unfit)) == len(made[0].runs) - 1
    table, decision = rules.outcome(group, made)
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


@pytest.mark.parametrize("name", [*NETWORKS, "MLP"])
def test_scores_differ_by_one_power_of_two(name):
    options = {} if name == "MLP" else {"width": 4}
    network = build_network(name, num_classes=10, in_channels=3, image_size=16, seed=0, **options)
    torch.manual_seed(0)
    network.train()(torch.randn(32, 3, 16, 16))  # of which the running statistics are
    network, x = network.eval(), torch.randn(16, 3, 16, 16)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    exponents, output_exponent = random_rescaling(network, seed=3)
    with torch.no_grad():
        scores, rescaled = network(x), rescale(network, exponents, output_exponent)(x)
    assert torch.equal(rescaled, scores * 2.0**output_exponent)
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())


def test_an_up_scaled_layer_moves_the_weights_and_the_output_the_margin(tiny_data):
    network = build_network("MLP", num_classes=10, in_channels=3, image_size=8, widths=(8,), seed=0)
    rescaled = rescale(network, (3,), -2)
    assert torch.equal(rescaled.layers[1].weight, 8 * network.layers[1].weight)
    margins = [output_margin(n, tiny_data.x_train, tiny_data.y_train) for n in (network, rescaled)]
    assert margins[1] == pytest.approx(margins[0] / 4)


@pytest.mark.parametrize("twice", ["nothing", "layer", "weight"])
def test_tied_layers_are_left_as_they_are(twice):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    if twice == "layer":
        network[2] = network[0]
    elif twice == "weight":
        network[2].weight = network[0].weight
    pairs = rescalable_layers(network)
    assert len(pairs) == (2 if twice == "nothing" else 0)
    x = torch.randn(20, 4)
    assert torch.equal(rescale(network, (2,) * len(pairs), 0)(x), network(x))
