"""The count during training: the table of epochs, the match with the paper's, and a network trained once more."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
from test_sweep_records import write_all

from rc_utils.counting import label_grid, sample_vertices
from rc_utils.pages import example, training_evolution
from rc_utils.sweep import run
from rc_utils.sweep.campaign import load_campaign


def made_table():
    """Nine cells of two seeds whose count and gap are tied with slope -1 at epoch 1 and 1 at epoch 10 of 10."""
    rng = np.random.default_rng(0)
    rows = []
    for cell, seed, (epoch, s) in itertools.product(range(9), range(2), ((0, 0), (1, -1), (10, 1))):
        count = 1 if epoch == 0 else 3 + 0.1 * cell
        gap = 0 if epoch == 0 else 0.3 + s * 0.02 * cell + 0.001 * rng.normal()
        rows.append({"cell": f"cell {cell}", "seed": seed, "epoch": epoch, "count": count, "gap": gap})
    table = pd.DataFrame(rows).assign(campaign="made", experiment="main", network="ResNet18", status="ok")
    return table.assign(fraction=table["epoch"] / 10)


def test_a_table_of_epochs_recovers_what_was_made_and_the_trend_is_the_rise_of_the_correlation():
    results = {r.id: r for r in training_evolution.results_from_evolution(made_table())}
    assert results["evolution/trend"].value == pytest.approx(2, abs=0.02)
    assert set(results) == {"evolution/trend", "evolution/correlation/20", "evolution/correlation/200"}
    assert results["evolution/correlation/20"].n == 9
    table = training_evolution.evolution_table(made_table(), seed=1)
    columns = {name: table[name].tolist() for name in ("epoch", "published_epoch", "n_settings")}
    assert columns == {"epoch": [0, 1, 10], "published_epoch": [0, 20, 200], "n_settings": [9, 9, 9]}
    assert table["count"].tolist() == pytest.approx([1, 3.4, 3.4])
    assert np.isnan(table["correlation"][0])
    assert table["correlation"][1] < -0.99 < 0.99 < table["correlation"][2]
    assert table["gap_low"][2] < 0.38 < table["gap_high"][2]
    # Rounding makes no correlation of untrained networks, and a run that diverged has no part in any.
    made = made_table()
    made.loc[0, ["count", "gap"]] = [1 - 1e-9, 1e-9]
    made.loc[made["cell"] == "cell 8", "status"] = "diverged"
    table = training_evolution.evolution_table(made)
    assert np.isnan(table["correlation"][0])
    assert table["n_settings"].tolist() == [8, 8, 8]
    # Epochs are matched by their share of training. No network in training stands for the initialisation, and none
    # between two published epochs for either.
    fractions, epochs = [0, 0.1, 0.66, 1, 0.05, 0.01], [0, 20, 130, 200, np.nan, np.nan]
    assert np.array_equal([training_evolution.published_epoch(f) for f in fractions], epochs, equal_nan=True)


def test_the_runs_are_those_of_one_network_and_unknown_names_and_nothing_measured_yet_are_explained():
    with pytest.raises(training_evolution.NothingCounted, match=r"rc_utils\.sweep shapes-tiny --experiment main"):
        training_evolution.evolution_runs("shapes-tiny")
    with pytest.raises(ValueError, match=r"experiments that do: main"):
        training_evolution.evolution_experiment("shapes-tiny", "evolutoin")
    with pytest.raises(ValueError, match="VGG19"):
        training_evolution.evolution_runs("shapes-tiny", network="VGG19")
    write_all(load_campaign("shapes-tiny"))
    table = training_evolution.evolution_runs("shapes-tiny")
    assert sorted(table["epoch"].unique()) == [0, 1, 3]
    assert table["fraction"].max() == 1
    assert set(table["network"]) == {"ResNet18"}


def test_training_once_more_ends_at_the_same_network_and_kept_ones_spare_it():
    planned = next(iter(load_campaign("shapes-tiny").runs().values()))
    planned = dataclasses.replace(planned, counts={}, measures=(), evolution_counts={}, evolution_weights=True)
    run.complete_run(planned)
    data = run.dataset_of(planned.spec)
    triple = sample_vertices(data.x_train, dim=2, num_samples=1, seed=0)
    trained = example.grids_during_training(planned, triple, [1, 2, 3], resolution=10)
    kept = example.grids_during_training(planned, triple, [0, 1, 3], resolution=10)
    assert list(kept) == [0, 1, 3]
    assert np.array_equal(kept[1].labels, trained[1].labels)
    final = label_grid(run.trained_network(planned.spec), triple, resolution=10)
    assert np.array_equal(trained[3].labels, final.labels)
    assert np.array_equal(kept[3].labels, final.labels)
    assert not np.array_equal(kept[0].labels, final.labels)
