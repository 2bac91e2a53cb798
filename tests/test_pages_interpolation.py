"""Correlations over grids of cells that were trained for different times, from tables made by hand."""

import pandas as pd
import pytest

from rc_utils.pages import open_questions, training_evolution
from rc_utils.sweep import records


@pytest.fixture
def made(monkeypatch):
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
    monkeypatch.setattr(training_evolution, "evolution_runs", lambda name, **read: of_resnet)


def test_grids_in_order_of_their_training_accuracy(made):
    table = open_questions.interpolation_table("made")
    assert table["grid"].tolist() == [
        "ResNet18, 16 epochs", "ResNet18, 80 epochs", "SENet18, 80 epochs", "ResNet18 at epoch 8 of 80",
    ]  # fmt: skip
    assert table["gap"].tolist() == pytest.approx([-1, 1, 1, 1])
    assert table["test_accuracy"].tolist() == pytest.approx([-1] * 4)
    assert table["n_interpolating"].tolist() == [0, 7, 7, 7]
    assert table["n_cells"].tolist() == [8] * 4


def test_a_campaign_without_records_gives_an_empty_table(results):
    assert open_questions.interpolation_table("shapes-tiny").empty
