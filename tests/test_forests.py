"""Trees and forests: the published grid, counts that are known, and a table that is made once."""

import numpy as np
import pytest

from rc_utils import forests
from rc_utils.correlation import correlation_table
from rc_utils.datasets import load_dataset
from rc_utils.forests import FOREST, TREE, build_forest, forest_grid, forest_runs, results_from_forests
from rc_utils.regions import region_count

SMALL = {"dataset": {"name": "digits", "n_train": 200, "n_test": 100}, "num_samples": 10, "num_trees": 5}


def test_the_grid_is_that_of_table_1():
    cells = forest_grid()
    assert len({repr(cell) for cell in cells}) == 90
    kinds = [kind for kind, _ in cells]
    assert (kinds.count(TREE), kinds.count(FOREST)) == (60, 30)
    assert {settings["max_depth"] for _, settings in cells} == set(range(3, 18))


def test_a_tree_on_stripes_has_as_many_regions_as_stripes():
    x = np.linspace(0, 1, 400, endpoint=False)[:, None]
    tree = build_forest(TREE, {"max_depth": 5, "criterion": "gini", "splitter": "best"}).fit(x, (x[:, 0] * 5) // 1 % 2)
    ends = np.array([[0.0], [0.999]])
    assert region_count(tree, ends, num_samples=1, resolution=1001).mean == 5


def test_a_row_holds_what_a_fresh_fit_gives():
    table = forest_runs(**SMALL, depths=(3, 6))
    assert table["network"].value_counts().to_dict() == {TREE: 8, FOREST: 4}
    assert np.allclose(table["gap"], table["train_accuracy"] - table["test_accuracy"])
    data = load_dataset(**SMALL["dataset"])
    x, y = np.asarray(data.x_train).reshape(200, -1), data.y_train.numpy()
    last = table.iloc[-1]
    model = build_forest(last["network"], {"max_depth": 6, "criterion": "entropy"}, num_trees=5).fit(x, y)
    assert last["train_accuracy"] == (model.predict(x) == y).mean()
    assert last["count"] == region_count(model, x, num_samples=10).mean
    assert correlation_table(table, methods=["pearson"])["n_units"].tolist() == [8, 4, 12]
    results = results_from_forests(table)
    assert {r.id: r.n for r in results} == {"trees/decision-tree": 8, "trees/random-forest": 4, "trees/overall": 12}
    assert all(r.campaign == "trees on digits" for r in results)


def test_the_table_is_kept_and_a_broken_one_named(results, monkeypatch):
    first = forest_runs(**SMALL, depths=(3,))
    (path,) = (results / "forests").iterdir()
    monkeypatch.setattr(forests, "build_forest", lambda *a, **k: pytest.fail("fitted again"))
    assert forest_runs(**SMALL, depths=(3,)).equals(first)
    monkeypatch.undo()
    monkeypatch.setenv("RC_RESULTS", str(results))
    path.write_text(path.read_text()[:100])
    with pytest.raises(ValueError, match=r"is damaged .* delete it to make it again"):
        forest_runs(**SMALL, depths=(3,))
    forest_runs(**SMALL | {"num_samples": 11}, depths=(3,))
    assert len(list((results / "forests").iterdir())) == 2


OPTIONS = {"depths": (3,), "num_samples": 10, "resolution": 20, "num_trees": 3}


@pytest.fixture
def committed(tmp_path, monkeypatch):
    """The file of a committed table of 100 digits."""
    monkeypatch.setattr(forests, "campaigns_dir", lambda: tmp_path / "campaigns")
    return forests.freeze_forests({"name": "digits", "n_train": 100}, **OPTIONS)


def test_a_committed_table_needs_no_data_and_no_fitting(committed, tmp_path, monkeypatch):
    assert committed == tmp_path / "campaigns" / "forests" / "digits.json"
    assert forests.committed_forests() == [{"name": "digits", "n_train": 100}]
    monkeypatch.setenv("RC_RESULTS", str(tmp_path / "elsewhere"))
    monkeypatch.setattr(forests, "_fit_all", lambda *a: pytest.fail("fitted again"))
    monkeypatch.setattr(forests.importlib.metadata, "version", lambda name: "99")
    assert len(forest_runs({"name": "digits", "n_train": 100}, **OPTIONS)) == 6
    with pytest.raises(pytest.fail.Exception):
        forest_runs({"name": "digits"}, **OPTIONS)


def test_a_damaged_committed_table_is_named_and_can_be_made_again(committed):
    committed.write_bytes(committed.read_bytes()[:50])
    for read in (forests.committed_forests, lambda: forest_runs({"name": "digits", "n_train": 100}, **OPTIONS)):
        with pytest.raises(ValueError, match=r"digits\.json is damaged .* delete it"):
            read()
    committed.unlink()
    forests.freeze_forests({"name": "digits", "n_train": 110}, **OPTIONS)
    assert forests.committed_forests() == [{"name": "digits", "n_train": 110}]


def test_bad_settings_are_named(capsys):
    with pytest.raises(ValueError, match="n_trian"):
        forest_runs({"name": "digits", "n_trian": 3})
    with pytest.raises(ValueError, match="max_depth"):
        forest_runs(depths=(0, 3))
    assert forests.main(["digitz"]) == 1
    assert "digitz" in capsys.readouterr().err
    assert forests.main(["digits", "--n-train", "0"]) == 1
