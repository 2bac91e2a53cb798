"""The paper's tables with ours in their cells, from a small campaign and from tables made by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest

from rc_utils import published as tables
from rc_utils.pages import ablations
from rc_utils.published import scorecard
from rc_utils.sweep import records
from rc_utils.sweep.campaign import load_campaign


@pytest.fixture
def made(monkeypatch):
    """A campaign of nine cells, on CIFAR-10, of two networks; gap = 0.1 count and 0.05 count_dim2 + noise."""
    rng = np.random.default_rng(0)
    rows = []
    for network, cell in itertools.product(("ResNet18", "VGG19"), range(9)):
        gap = 0.2 + 0.03 * cell
        row = {"campaign": "made", "experiment": "main", "network": network, "cell": f"{cell}", "status": "ok"}
        row |= {"seed": 0, "lr": 0.1, "interpolates": True, "gap": gap}
        rows.append(row | {"count_main": 10 * gap, "count_dim2": 20 * gap + 0.01 * rng.normal()})
        interpolates = network == "VGG19" or cell > 1
        rows.append(row | {"experiment": "adam", "lr": 0.001, "interpolates": interpolates, "count_main": -gap})
    rows[0]["origin"] = "live"
    tables = {"shapes-tiny": pd.DataFrame(), "cifar10-small": pd.DataFrame(rows).rename_axis("run_id").reset_index()}
    monkeypatch.setattr(records, "load_runs", lambda campaign: tables[campaign.name])


def cell(cells, network, column):
    return cells[(cells["network"] == network) & (cells["column"] == column)].iloc[0]


def test_each_column_takes_its_count_and_its_experiment_or_says_what_it_needs(made):
    cells = ablations.ablation_cells("architectures", "cifar10-small", [])
    assert cell(cells, "ResNet18", "CIFAR-10").value == pytest.approx(1)
    assert cell(cells, "VGG19", "d=2").value == pytest.approx(1, abs=0.01)
    assert cell(cells, "ResNet18", "d=2").n == 9
    assert cell(cells, "ResNet18", "d=3").needs == "count dim3"
    assert cell(cells, "ResNet18", "CIFAR-100").needs == "a campaign on cifar100"
    assert cell(cells, "SimpleDLA", "d=2").needs == "network"
    theirs = cells.pivot(index="network", columns="column", values="published")
    layout = theirs.loc[list(tables.NETWORKS), list(tables.ARCHITECTURES_COLUMNS)]
    assert np.array_equal(layout, tables.ARCHITECTURES)
    # Results are the cells that were run.
    results = ablations.results_from_ablations(cells, "architectures")
    assert sorted(r.id for r in results) == [
        f"architectures/{network}/{column}" for network in ("ResNet18", "VGG19") for column in ("CIFAR-10", "d=2")
    ]
    card = scorecard(results)
    assert sorted(card.loc[card["verdict"] != "no result", "id"]) == sorted(r.id for r in results)


def test_an_optimizer_is_an_experiment_whose_cells_that_do_not_interpolate_are_counted(made):
    cells = ablations.ablation_cells("optimizers", "cifar10-small", [])
    assert cell(cells, "ResNet18", "Adagrad").needs == "experiment adagrad"
    assert cell(cells, "ResNet18", "SGD").value == pytest.approx(1)
    adam = cell(cells, "ResNet18", "Adam")
    assert (adam.value, adam.interpolating, adam.lr) == (pytest.approx(-1), 7, (0.001,))
    details = {r.id: r.detail for r in ablations.results_from_ablations(cells, "optimizers")}
    assert details["optimizers/ResNet18/Adam"] == "Pearson over 9 settings, 7 of them interpolate"


def test_a_stand_in_is_taken_where_there_is_nothing_better_and_named(made, monkeypatch):
    tables = {"tiny-imagenet-small": records.load_runs(load_campaign("cifar10-small")), "cifar10-small": pd.DataFrame()}
    monkeypatch.setattr(records, "load_runs", lambda campaign: tables[campaign.name])
    cells = ablations.ablation_cells("architectures", "cifar10-small", ["tiny-imagenet-small"])
    found = cell(cells, "ResNet18", "ImageNet")
    assert (found.campaign, found.stand_in) == ("tiny-imagenet-small", "tiny-imagenet-20")
    results = {r.id: r for r in ablations.results_from_ablations(cells, "architectures")}
    assert "stands in" in results["architectures/ResNet18/ImageNet"].detail
    assert cell(cells, "ResNet18", "CIFAR-10").stand_in == ""
    assert cell(cells, "ResNet18", "d=2").needs == "runs of cifar10-small"
    # Runs on the very dataset come first, whatever the order of the campaigns.
    tables["imagenet-paper"] = tables["tiny-imagenet-small"]
    cells = ablations.ablation_cells("architectures", "cifar10-small", ["tiny-imagenet-small", "imagenet-paper"])
    assert cell(cells, "ResNet18", "ImageNet").campaign == "imagenet-paper"


def test_ranges_are_a_table_of_one_network(made):
    cells = ablations.ablation_cells("range", "cifar10-small", [])
    assert cells["network"].unique().tolist() == ["ResNet18"]
    assert cells["column"].tolist() == ["[0, 1]", "[-1, 2]", "[-2, 3]", "[-3, 4]"]
    assert cell(cells, "ResNet18", "[0, 1]").value == pytest.approx(1)
    assert cell(cells, "ResNet18", "[-3, 4]").needs == "count range3"
    assert [r.id for r in ablations.results_from_ablations(cells, "range")] == ["range/[0, 1]/correlation"]
