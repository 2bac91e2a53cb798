"""Studies of the counting on classifiers whose regions are known."""

import numpy as np
import pytest
import torch

from rc_utils import counting_studies as studies
from rc_utils.networks import build_network
from rc_utils.regions import region_count

ENDS = torch.tensor([[0.0], [1.0]])
PLANE = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


def stripes(width):
    """Stripes of that width along the first coordinate, alternating labels."""
    return lambda x: torch.floor(x[:, 0] / width).long() % 2


def test_a_coarse_grid_misses_stripes_and_a_fine_one_does_not():
    table = studies.grid_size_table(stripes(0.0501), ENDS, 1, [5, 50, 400], num_samples=3)
    assert table["count"].tolist()[1:] == [20, 20]
    assert table["count"][0] < 20
    assert table["differing"].tolist() == [1, 0, 0]
    assert table["num_evaluations"].tolist() == [15, 150, 1200]


def test_a_longer_range_crosses_more_stripes_at_the_same_spacing():
    counts = studies.range_counts(stripes(0.0999), ENDS, per_unit=200, num_samples=2)
    assert [values.mean() for values in counts.values()] == pytest.approx([11, 31, 51, 71], abs=1)
    table = studies.range_table(counts)
    assert table["per_unit"].tolist() == pytest.approx([10] * 4, abs=0.5)
    (result,) = studies.results_from_ranges(counts, "made")
    assert (result.id, result.value) == ("range/trend", pytest.approx(60, abs=1))
    assert studies.results_from_ranges({(0, 1): counts[(0, 1)]}, "made") == []


def test_the_interval_of_a_mean_and_the_rule_for_samples_agree():
    counts = np.random.default_rng(0).poisson(3, 500)
    table = studies.sample_size_table(counts, [10, 500])
    half = (table["high"] - table["low"]) / 2
    assert half[0] > 3 * half[1]
    assert studies.required_samples(counts, half[1]) == pytest.approx(500, abs=1)
    assert studies.required_samples(counts, half[1] / 2) == pytest.approx(2000, abs=4)


def test_sizes_and_precisions_out_of_range_are_named():
    with pytest.raises(ValueError, match="n is 7; expected 2 to 5"):
        studies.sample_size_table(np.ones(5), [7])
    with pytest.raises(ValueError, match="precision is 0"):
        studies.required_samples(np.ones(5), 0)


def test_adjacency_matters_where_regions_meet_at_corners():
    def checkerboard(x):
        return (torch.floor(x[:, 0] * 29 + 0.5) + torch.floor(x[:, 1] * 29 + 0.5)).long() % 2

    # In the triangle's own order of corners the board's squares are its lattice points.
    table = studies.adjacency_table(checkerboard, PLANE, resolution=30, num_samples=4, seed=0)
    assert table[["domain", "adjacency"]].agg(" ".join, axis=1).tolist() == [
        "simplex face", "simplex full", "simplex simplex", "box face", "box full",
    ]  # fmt: skip
    counts = table.set_index(["domain", "adjacency"])["count"]
    assert counts["simplex", "face"] > counts["simplex", "full"]
    assert counts["box", "face"] >= counts["box", "full"]


def test_batch_statistics_leave_the_network_as_it_was_and_change_its_labels(tiny_data):
    network = build_network("ResNet18", num_classes=10, in_channels=3, image_size=8, width=4, seed=0)
    network.train()
    network(tiny_data.x_train[:64])
    before = {key: value.clone() for key, value in network.state_dict().items()}
    table = studies.mode_table(network, tiny_data.x_train, num_samples=10, resolution=50)
    assert len(table) == 3
    assert table["differing"][0] == 0
    assert table["differing"][1] > 0
    assert table["count"][0] == region_count(network, tiny_data.x_train, num_samples=10, resolution=50).mean
    assert network.training
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())
