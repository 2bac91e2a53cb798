"""What decides in the five studies, on tables whose answer is known."""

import numpy as np
import pandas as pd
import pytest

from rc_studies import decisions, studies
from rc_studies import second_round as rules
from rc_studies.studies import COUNT
from rc_utils.correlation import Estimate


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


def test_no_decision_depends_on_a_seed_of_the_analysis():
    made = {name: study.runs for name, study in studies.first_round().items()}
    looked = decisions.looks(made["independent"])["equal loss"]
    columns, decided = [studies.COUNT, rules.RIVAL, "gap"], set()
    second = [(g, studies.study_runs(n)) for g, names in rules.CAMPAIGNS.items() for n in names]
    second = [(g, rules.deciding_runs(g, study)[columns].to_numpy(float).T) for g, study in second]
    for seed in range(3):
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
    assert (found.made, found.asked, found.complete) == (118, 120, False)
    with pytest.raises(ValueError, match=r"study-seeds has 118 of 120 runs.*sweep study-seeds"):
        studies.first_round()


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
