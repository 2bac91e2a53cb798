"""What the records answer: each against something that is known without it."""

import pandas as pd
import pytest

from rc_utils.pages import open_questions, scorecard
from rc_utils.sweep import records


def answers(rows):
    return open_questions.answers_from_runs(pd.DataFrame(rows)).set_index("With")


def test_answers_from_runs_say_what_the_runs_hold():
    rows = [
        {"experiment": e, "network": "ResNet18", "cell": str(i), "seed": 0, "status": "ok", "interpolates": i > 1,
         "count": 3 + 0.1 * i, "gap": 0.1 * i * (1 if e == "main" else -1), "test_accuracy": 1 - 0.1 * i,
         "count_test": 3 - 0.1 * i, "lr": 0.1 if e == "main" else 1.0, "weight_decay": i % 3}
        for e in ("main", "no-momentum") for i in range(9)
    ]  # fmt: skip
    found = answers(rows)
    signs = {key: text[0] == "-" for key, text in found["Correlation"].items()}
    with_it = "ResNet18, momentum 0.9, learning rates 0.1 to 0.1"
    without = "ResNet18, no momentum, learning rates 1 to 1"
    negative = {"test accuracy", "settings that fit, test accuracy", "test pairs, gap", without}
    positive = {"Pearson, gap", "Spearman, gap", "Kendall, gap", "settings that fit, gap", "training pairs, gap"}
    assert signs == dict.fromkeys(negative, True) | dict.fromkeys(positive | {with_it}, False)
    assert found["Rows"].to_dict() == {**dict.fromkeys(signs, 9), **dict.fromkeys(found.index[4:6], 7)}


def test_momentum_is_compared_on_the_same_settings():
    rows = [
        {"experiment": e, "network": "A", "cell": str(i), "seed": seed, "status": "ok", "interpolates": False,
         "count": 3 + 0.1 * i + 99 * seed, "gap": 0.1 * i, "test_accuracy": 0.5, "lr": 0.1, "weight_decay": i % 3}
        for e, seed in (("main", 0), ("main", 1), ("no-momentum", 0)) for i in range(9)
        if e == "main" or i % 3 == 1
    ]  # fmt: skip
    found = answers(rows)
    assert found["Rows"].iloc[-2:].tolist() == [3, 3]
    assert found["Mean count"].iloc[-2:].tolist() == ["3.40", "3.40"]
    assert found.loc["settings that fit, gap", "Correlation"] == "too few settings"


def test_nothing_is_answered_without_counts_or_records():
    row = {"experiment": "main", "network": "A", "cell": "1", "status": "ok", "count": float("nan"), "gap": 0.1}
    assert open_questions.answers_from_runs(pd.DataFrame([row])).empty
    assert open_questions.interpolation_table("shapes-tiny").empty


def test_grids_in_order_of_their_training_accuracy(monkeypatch):
    """Eight cells of two networks; the gap follows the count where training was long, and turns where it was short."""
    rows = []
    for experiment, sign, train in (("main", 1, 1.0), ("short", -1, 0.8), ("mixup", 1, 0.9)):
        for network in ("ResNet18", "SENet18"):
            for i in range(8):
                row = {"experiment": experiment, "network": network, "cell": str(i), "seed": 0, "status": "ok"}
                row |= {"epochs": 80 if experiment == "main" else 16, "train_accuracy": train - 0.02 * (i == 0)}
                rows.append(row | {"count": 3 + 0.1 * i, "gap": 0.5 + 0.01 * sign * i, "test_accuracy": 0.5 - 0.01 * i})
    rows = [r for r in rows if not (r["network"] == "SENet18" and r["experiment"] == "short" and int(r["cell"]) > 2)]
    monkeypatch.setattr(records, "load_runs", lambda name, **read: pd.DataFrame(rows))
    counted = pd.DataFrame([r | {"epoch": e} for r in rows if r["experiment"] == "main" for e in (0, 8, 80)])
    of_resnet = counted[counted["network"] == "ResNet18"]
    monkeypatch.setattr(scorecard, "evolution_runs", lambda name, **read: of_resnet)
    table = open_questions.interpolation_table("made")
    assert table["grid"].tolist() == [
        "ResNet18, 16 epochs", "ResNet18, 80 epochs", "SENet18, 80 epochs", "ResNet18 at epoch 8 of 80",
    ]  # fmt: skip
    assert [found.value for found in table["gap"]] == pytest.approx([-1, 1, 1, 1])
    assert [found.value for found in table["test_accuracy"]] == pytest.approx([-1] * 4)
    assert table["n_interpolating"].tolist() == [0, 7, 7, 7]
    assert table["n_cells"].tolist() == [8] * 4
