"""Lattices, vertices and components: closed forms, another search, what a seed fixes."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage, stats

from rc_utils.counting import count_components, median_distance, region_count, sample_vertices
from rc_utils.counting.lattice import ADJACENCIES, count_along_edges, make_lattice


def are_neighbours(step, adjacency):
    """The definition of each adjacency, from the difference of two grid positions."""
    if adjacency == "face":
        return sum(abs(s) for s in step) == 1
    if adjacency == "full":
        return max(abs(s) for s in step) == 1
    moved = [-sum(step), *step]
    return sorted(m for m in moved if m) == [-1, 1]


def count_by_search(grid, adjacency):
    """Components of one grid, -1 outside, by scipy's search for each label alone."""
    steps = itertools.product((-1, 0, 1), repeat=grid.ndim)
    neighbours = [not any(step) or are_neighbours(step, adjacency) for step in steps]
    structure = np.reshape(neighbours, (3,) * grid.ndim)
    return sum(ndimage.label(grid == label, structure)[1] for label in set(grid[grid >= 0]))


@given(
    dim=st.integers(1, 5),
    adjacency=st.sampled_from(ADJACENCIES),
    classes=st.integers(1, 4),
    box=st.booleans(),
    dtype=st.sampled_from([np.int8, np.int32, np.int64]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=100, deadline=None)
def test_counts_agree_with_another_search(dim, adjacency, classes, box, dtype, seed):
    """On lattices along their edges, and on grids with and without cells outside."""
    resolution = {1: 25, 2: 8, 3: 5, 4: 4, 5: 3}[dim]
    lattice = make_lattice(dim, resolution, adjacency=adjacency)
    labels = np.random.default_rng(seed).integers(-1, classes, size=(3, len(lattice.coordinates)))
    grids = lattice.to_grid(labels)
    expected = [count_by_search(grid, adjacency) for grid in grids]
    assert count_along_edges(labels, lattice.edges).tolist() == expected
    if box:
        grids = grids[..., : resolution - 1].clip(0)
        expected = [count_by_search(grid, adjacency) for grid in grids]
    assert count_components(grids.astype(dtype), adjacency).tolist() == expected


def test_labels_of_any_size_and_memory_layout():
    assert count_components(np.full((2, 3, 3), -1)).tolist() == [0, 0]
    assert count_components(np.zeros((0, 3, 3), dtype=int)).tolist() == []
    read_only = np.broadcast_to(np.uint8([[0, 1], [0, 1]]), (4, 2, 2))
    assert count_components(read_only[:, ::-1]).tolist() == [2] * 4
    for label in (2**31 - 1, 2**31, 2**32, 2**62):
        for kind in ("int64", "uint64"):
            labels = np.array([[[label, 0], [label, label]]], dtype=kind)
            assert count_components(labels).tolist() == [2]
    for wrong in (np.zeros(5, dtype=int), np.zeros((2, 3))):
        with pytest.raises(ValueError, match=r"of shape .*; expected integers \(B, \*grid\)"):
            count_components(wrong)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"seed": 2**63}, r"and below 2\^63"),
    ({"dim": 3, "resolution": 1000}, "167,167,000 points is too large: lower the resolution"),
    ({"dim": 2, "alpha_range": (-1.0, 2.0)}, "needs dim=1"),
    ({"strategy": "grids"}, "unknown strategy 'grids'. Did you mean 'grid'"),
    ({"dim": 2, "strategy": "adaptive", "adjacency": "face"}, "counts with adjacency 'linear'"),
    ({"coarse": 8}, "belongs to strategy 'adaptive'"),
    ({"coarse": 8, "strategy": "adaptive", "dim": 2}, "on segments, dim=1"),
    ({"coarse": 1, "strategy": "adaptive"}, "coarse=1; expected an integer of at least 2"),
    ({"dim": 8, "adjacency": "linear"}, "too much memory beyond seven dimensions"),
    ({"adjacency": "faces"}, "unknown adjacency 'faces'. Did you mean 'face'"),
    ({"direction_length": 1.0}, "belongs to sampling 'random_direction' or 'noise'"),
    ({"dim": 5}, "6 distinct points are needed .* but there are 5"),
    ({"sampling": "random_direction"}, "median distance of the points is 0.*give"),
])  # fmt: skip
def test_bad_settings_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        region_count(lambda x: x[:, 0], np.zeros((5, 2)), **arguments)


def test_vertices_are_distinct_points_and_reach_all_of_them():
    points = np.arange(7.0)[:, None]
    drawn = sample_vertices(points, dim=3, num_samples=3000, seed=1).numpy().squeeze(2)
    assert all(len(set(row)) == 4 for row in drawn.tolist())
    for column in drawn.T:
        assert stats.chisquare(np.bincount(column.astype(int), minlength=7)).pvalue > 1e-3


def test_the_seed_draws_the_same_vertices_and_more_samples_only_add():
    points = torch.randn(50, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    for sampling in ("pairs", "random_direction"):
        options = {"dim": 2, "sampling": sampling}
        few = sample_vertices(points, num_samples=5, seed=3, **options)
        many = sample_vertices(points.numpy(), num_samples=9, seed=3, **options)
        assert torch.equal(few, many[:5])
        assert not torch.equal(few, sample_vertices(points, num_samples=5, seed=4, **options))


def test_random_directions_are_those_of_the_seed_and_of_the_length_asked_for():
    points = np.arange(12.0).reshape(4, 3)
    options = {"dim": 2, "num_samples": 5, "sampling": "random_direction", "seed": 3}
    vertices = sample_vertices(points, direction_length=0.5, **options).numpy()
    normal = np.random.default_rng([3, 1]).standard_normal((5, 2, 3))
    steps = 0.5 * normal / np.linalg.norm(normal, axis=2, keepdims=True)
    np.testing.assert_allclose(vertices[:, 1:] - vertices[:, :1], steps, atol=1e-12)
    assert all(vertex in points.tolist() for vertex in vertices[:, 0].tolist())
    assert median_distance(points) == pytest.approx(3 * np.sqrt(3))
    typical = sample_vertices(points, direction_length=median_distance(points), **options)
    assert torch.equal(sample_vertices(points, **options), typical)
