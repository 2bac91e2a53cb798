"""The reader of the authors' records on a small file of their form; the committed tables."""

import numpy as np
import pandas as pd
import pytest

from campaigns.authors import records
from campaigns.authors.derive import EXPERIMENTS
from rc_utils.paths import campaigns_dir
from rc_utils.published import NETWORKS, authors_settings, statements


@pytest.fixture
def path(tmp_path):
    """Three runs: a kind, 21 counts, accuracies in percent, weight decay, lr, batch size."""
    lines = [[7, *range(1, 22), 100, 90 - k, 1e-6, 0.1, 512] for k in range(3)]
    np.savetxt(tmp_path / "MobileNet_new.txt", lines, fmt="%g")
    return tmp_path / "MobileNet_new.txt"


def test_a_line_is_read_from_its_end_and_files_have_our_names(path):
    (runs,) = records._read_curve(path, "1drandom")
    last = runs.iloc[2]
    assert (last["experiment"], last["network"]) == ("1drandom", "MobileNetV2")
    assert last[["R0", "R10", "count", "train_accuracy"]].tolist() == [1, 2, 21, 1]
    assert last["test_accuracy"] == pytest.approx(0.88)
    assert (last["lr"], last["batch_size"], last["weight_decay"]) == (0.1, 512, 1e-6)
    assert last["source"] == "lijingwei0502/implicit_bias@6148365:tasks/1drandom/MobileNet_new.txt"
    (dimension,) = records._read_curve(path, "dimension")
    assert set(dimension["experiment"]) == {"dimension d=6"}
    (setting,) = records.settings_table(runs).to_dict("records")
    assert (setting["runs"], setting["count_10"], setting["test_accuracy"]) == (3, 2, 0.89)


@pytest.mark.parametrize(("old", "new"), [("100", "nan"), ("100", "101"), ("\n", " 7\n")])
def test_a_line_that_cannot_be_read_is_named(path, old, new):
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=r"MobileNet_new\.txt"):
        records._read_curve(path, "adam")


def test_the_committed_tables_hold_the_main_experiment_in_full_and_correlate_as_they_say():
    main = authors_settings("basic")
    results = pd.read_csv(campaigns_dir() / "authors/results.csv").set_index(["id", "quantity"])
    assert main["runs"].sum() == 704
    assert (main.groupby("network").size() == 9).all()
    expected = results.loc[("evolution/gap-v3/200", "mean gap, settings"), "value"]
    assert main.query("network == 'ResNet18'")["gap"].mean() == pytest.approx(expected, abs=1e-5)
    for network in NETWORKS:
        id_ = f"architectures/{network}/CIFAR-10"
        value = results.loc[(id_, "correlation with gap, combinations"), "value"]
        assert f"{value:.2f}" == statements().loc[id_, "value"]
    assert set(statements().index) <= set(results.index.get_level_values("id"))
    by_setting = results.xs("correlation with gap, settings", level="quantity")["value"]
    by_setting = by_setting.filter(regex=f"/.*/({'|'.join(EXPERIMENTS)})$")
    assert len(by_setting) == 72
    for id_, value in by_setting.items():
        _, network, column = id_.split("/")
        rows = authors_settings(EXPERIMENTS[column]).query("network == @network")
        assert np.corrcoef(rows["count"], rows["gap"])[0, 1] == pytest.approx(value, abs=1e-5), id_
