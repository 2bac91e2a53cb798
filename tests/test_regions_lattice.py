"""Lattices and vertices: numbers of points, edges, the box of a plane, what a seed fixes."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from rc_utils.regions import make_lattice, plane_coordinates, sample_vertices
from rc_utils.regions.grid import box_corners


@pytest.mark.parametrize(("dim", "resolution"), [(1, 200), (2, 30), (3, 16), (4, 12), (5, 10), (6, 8)])
def test_default_simplex_lattice(dim, resolution):
    lattice = make_lattice(dim)
    assert lattice.resolution == resolution
    assert lattice.num_points == math.comb(resolution - 1 + dim, dim)
    assert len(np.unique(lattice.coordinates, axis=0)) == lattice.num_points
    np.testing.assert_allclose(lattice.coordinates.sum(1), 1)
    assert lattice.coordinates.min() == 0


def test_alpha_range_and_a_lattice_that_is_made_once():
    lattice = make_lattice(1, 7, alpha_range=(-1, 2))
    np.testing.assert_allclose(lattice.coordinates[:, 1], [-1, -0.5, 0, 0.5, 1, 1.5, 2])
    assert make_lattice(3) is make_lattice(3, 16)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 0}, "dim=0"),
        ({"dim": 1, "resolution": 1}, "resolution=1;"),
        ({"dim": 10**9, "resolution": 10**9}, "more than 64 bits can number"),
        ({"dim": 3, "resolution": 1000}, "more than 5,000,000 points; lower the resolution"),
        ({"dim": 21, "resolution": 8}, "more than 64 bits can number"),
        ({"dim": 10, "resolution": 8, "adjacency": "full"}, "59,048 neighbours each"),
        ({"dim": 7, "resolution": 27, "adjacency": "simplex"}, "4,272,048 points with 56 neighbours each"),
        ({"dim": 2, "alpha_range": (-1.0, 2.0)}, "needs dim=1"),
        ({"dim": 1, "alpha_range": (1.0, 1.0)}, "low < high"),
        ({"dim": 1, "alpha_range": 3}, "alpha_range=3"),
        ({"dim": 1, "domain": "box"}, "needs dim=2"),
        ({"dim": 2, "domain": "boxes"}, "Did you mean 'box'"),
        ({"dim": 5, "resolution": 50, "adjacency": "linear"}, "282,475,249 elements"),
        ({"dim": 2, "adjacency": "edge"}, "face, full, linear, simplex"),
    ],
)
def test_bad_lattices_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_lattice(**arguments)


def test_box_surrounds_the_triangle_with_padding(rng):
    vertices = torch.from_numpy(rng.standard_normal((40, 3, 2, 3)))
    corners, vertices = box_corners(vertices, padding=0.1).flatten(2), vertices.flatten(2)
    sides = corners[:, 1:] - corners[:, :1]
    np.testing.assert_allclose((sides[:, 0] * sides[:, 1]).sum(1), 0, atol=1e-12)
    lengths = (sides**2).sum(2)[:, None]
    shares = ((vertices - corners[:, :1]) @ sides.transpose(1, 2)) / lengths
    np.testing.assert_allclose(shares.amin(1), torch.full((40, 2), 0.1 / 1.2))
    np.testing.assert_allclose(shares.amax(1), torch.full((40, 2), 1.1 / 1.2))
    np.testing.assert_allclose(corners[:, :1] + shares @ sides, vertices)


def test_plane_coordinates_keep_distances(rng):
    vertices = torch.from_numpy(rng.standard_normal((5, 4, 2, 3)))
    flat, plane = vertices.flatten(2), plane_coordinates(vertices)
    np.testing.assert_allclose(torch.cdist(plane, plane), torch.cdist(flat, flat))
    assert plane[:, 0].abs().max() == 0
    assert plane[:, 1, 0].min() > 0


def test_vertices_are_distinct_points_and_reach_all_of_them():
    points = np.arange(7.0)[:, None]
    drawn = sample_vertices(points, dim=3, num_samples=3000, seed=1).numpy().squeeze(2)
    assert all(len(set(row)) == 4 for row in drawn.tolist())
    for column in drawn.T:
        assert stats.chisquare(np.bincount(column.astype(int), minlength=7)).pvalue > 1e-3


def test_the_seed_draws_the_same_vertices_and_more_samples_only_add():
    points = torch.randn(50, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    for sampling in ("pairs", "random_direction"):
        few = sample_vertices(points, dim=2, num_samples=5, sampling=sampling, seed=3)
        many = sample_vertices(points.numpy(), dim=2, num_samples=9, sampling=sampling, seed=3)
        assert torch.equal(few, many[:5])
        assert not torch.equal(few, sample_vertices(points, dim=2, num_samples=5, sampling=sampling, seed=4))


def test_only_the_points_drawn_are_read(tiny_data, rng):
    points, read = rng.standard_normal((10000, 3)), []

    class Recorder:
        def __len__(self):
            return len(points)

        def __getitem__(self, index):
            read.extend(index)
            return points[index]

    sample_vertices(Recorder(), dim=2, num_samples=4)
    assert len(read) == 12 + 1  # one tells the size of all
    images = sample_vertices(tiny_data.x_train, dim=2, num_samples=4)
    assert images.shape == (4, 3, *tiny_data.x_train.shape[1:])
    assert images.dtype == torch.float32


@pytest.mark.parametrize(
    ("points", "arguments", "message"),
    [
        (np.zeros((2, 3)), {"dim": 2}, "3 distinct points are needed for each simplex, but there are 2"),
        (np.zeros(5), {}, "one-dimensional"),
        (np.full((5, 2), np.nan), {}, r"points\[\d\] holds NaN"),
        (np.zeros((5, 2)), {"num_samples": True}, "num_samples=True"),
        (np.zeros((5, 2)), {"seed": -1}, "seed=-1"),
        (np.zeros((5, 2)), {"seed": 2**63}, r"expected an integer below 2\^63"),
        (np.zeros((5, 2)), {"sampling": "pair"}, "Did you mean 'pairs'"),
        (np.zeros((5, 2)), {"direction_length": 1.0}, "belongs to sampling 'random_direction'"),
        (np.zeros((5, 2)), {"sampling": "random_direction", "direction_length": 0}, "finite number above 0"),
        (np.ones((5, 3)), {"sampling": "random_direction"}, "median distance of the points is 0.*give"),
        (7, {}, "points are int"),
        (np.zeros((5, 2, 0)), {}, r"points of shape \(2, 0\) hold no number"),
    ],
)
def test_bad_samplings_are_named(points, arguments, message):
    with pytest.raises(ValueError, match=message):
        sample_vertices(points, **arguments)
