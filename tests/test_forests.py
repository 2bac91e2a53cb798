"""Trees and forests: the published grid, counts that are known, and a committed table."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from rc_exact import forests
from rc_exact.forests import FOREST, TREE, forest_runs
from rc_utils.counting import region_count
from rc_utils.datasets import load_dataset

SMALL = {"dataset": {"name": "digits", "n_train": 200, "n_test": 100}, "num_samples": 10}


def test_a_row_holds_what_a_fresh_fit_gives(monkeypatch):
    monkeypatch.setattr(forests, "DEPTHS", (3, 6))
    monkeypatch.setattr(forests, "NUM_TREES", 5)
    table = forest_runs(**SMALL)
    assert table["network"].value_counts().to_dict() == {TREE: 8, FOREST: 4}
    assert np.allclose(table["gap"], table["train_accuracy"] - table["test_accuracy"])
    data = load_dataset(**SMALL["dataset"])
    x, y = np.asarray(data.x_train).reshape(200, -1), data.y_train.numpy()
    settings = {"max_depth": 6, "criterion": "entropy", "n_estimators": 5, "random_state": 0}
    model, last = RandomForestClassifier(**settings).fit(x, y), table.iloc[-1]
    assert last["train_accuracy"] == (model.predict(x) == y).mean()
    assert last["count"] == region_count(model, x, num_samples=10).mean
    monkeypatch.setattr(forests, "DEPTHS", (3,))
    again = forest_runs(**SMALL)  # also the random splits
    assert again.equals(table[table["depth"] == 3].reset_index(drop=True))


def test_a_committed_table_is_read_for_its_settings_alone(monkeypatch):
    monkeypatch.setattr(forests, "fit_grid", lambda *a: pytest.fail("fitted again"))
    assert len(forest_runs({"name": "cifar10", "n_train": 3000})) == 90
    with pytest.raises(pytest.fail.Exception):
        forest_runs({"name": "cifar10", "n_train": 3000}, num_samples=10)
