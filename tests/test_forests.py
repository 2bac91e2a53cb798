"""Trees and forests: the published grid, and counts that are known."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from rc_exact import forests
from rc_exact.forests import FOREST, TREE
from rc_utils.counting import region_count
from rc_utils.datasets import load_dataset


def test_a_table_holds_what_fresh_fits_give(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(forests, "project_root", lambda: tmp_path)
    monkeypatch.setattr(forests, "DEPTHS", (3, 6))
    monkeypatch.setattr(forests, "NUM_TREES", 5)
    arguments = ["digits", "--n-train", "200", "--num-samples", "10"]
    forests.main(arguments)
    path = tmp_path / "campaigns" / "forests" / "digits.json"
    found = path.read_bytes()
    assert json.loads(found)["settings"]["dataset"] == {"name": "digits", "n_train": 200}
    table = pd.DataFrame(json.loads(found)["rows"])
    assert table["network"].value_counts().to_dict() == {TREE: 8, FOREST: 4}
    assert np.allclose(table["gap"], table["train_accuracy"] - table["test_accuracy"])
    data = load_dataset("digits", n_train=200)
    x, y = np.asarray(data.x_train).reshape(200, -1), data.y_train.numpy()
    settings = {"max_depth": 6, "criterion": "entropy", "n_estimators": 5, "random_state": 0}
    model, last = RandomForestClassifier(**settings).fit(x, y), table.iloc[-1]
    assert last["train_accuracy"] == (model.predict(x) == y).mean()
    assert last["count"] == region_count(model, x, num_samples=10).mean
    forests.main(arguments)
    assert path.read_bytes() == found  # also the random splits
    with pytest.raises(SystemExit):
        forests.main(["digit"])
    assert "Did you mean 'digits'?" in capsys.readouterr().err
