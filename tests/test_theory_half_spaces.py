"""Theorem 5 of v1: true on a line, false from the plane on."""

import math

import numpy as np
import pytest

from rc_theory.two_layer import half_spaces as hs


def test_a_line_has_vc_dimension_k_and_half_spaces_shatter_one_more_than_the_dimension():
    for regions in (1, 3, 6):
        assert hs.shattered_on_a_line(regions).points == regions == hs.vc_dimension(regions, 1)
    for dim in (1, 2, 7):
        case = hs.half_spaces(dim)
        assert (case.regions, case.points) == (2, dim + 1)
        assert case.points == hs.vc_dimension(2, dim)


@pytest.mark.parametrize("n", [3, 8])
def test_convex_polygons_and_networks_with_biases_shatter_a_circle(n):
    for case in (hs.convex_bodies(n), hs.relu_networks(n)):
        assert (case.regions, case.points, case.dim) == (3, n, 2)
    polygons = hs.convex_polygons(hs.labellings(n))
    edges = np.roll(polygons, -1, axis=1) - polygons
    after = np.roll(edges, -1, axis=1)
    assert (edges[..., 0] * after[..., 1] - edges[..., 1] * after[..., 0] > -1e-12).all()
    assert hs.vc_dimension(3, 2) == hs.vc_dimension(6, 3) == math.inf
    assert hs.vc_dimension(1, 3) == 1


def test_regions_of_polygons_are_counted_without_assuming_convexity():
    # A W: the line y = 0.5 crosses its four strokes, hence enters it twice.
    w = np.array([[[0, 1], [1, 0], [2, 1], [3, 0], [4, 1], [3, -1], [2, 0], [1, -1]]], float)
    for height, regions in ((0.5, 7), (-0.5, 5), (3.0, 1)):
        assert hs.polygon_regions(w, np.array([[0.0, 1.0]]), np.array([height])).item() == regions


def test_the_largest_deviation_is_that_of_brute_force(rng):
    points = np.sort(rng.random((3, 5)), axis=1)
    expected = np.zeros((3, 4))
    for row, x in enumerate(points):
        pieces = np.concatenate([np.ravel(list(zip(-np.diff([0, *x]), [0.2] * 5, strict=True))), [x[-1] - 1]])
        labels = hs.labellings(11)
        runs = hs.runs(labels)
        deviation = np.abs(labels @ pieces)
        expected[row] = [deviation[runs <= k].max() for k in (1, 2, 3, 4)]
    np.testing.assert_allclose(hs.largest_deviation(rng.permuted(points, axis=1), 4), expected, atol=1e-12)


def test_convex_bodies_break_the_rate_for_every_constant():
    assert hs.circle_deviation(50) == 1
    constants = hs.deviation_constants((10, 400), 3, trials=20)
    # On a line the ratio does not grow.
    assert constants.loc[400].max() < 1.5 * constants.loc[10].max()


def test_regions_of_half_spaces_are_those_on_the_lines(monkeypatch):
    monkeypatch.setattr(hs, "separating_half_spaces", lambda points, labels: (np.zeros((8, 2)), np.ones(8)))
    monkeypatch.setattr(hs, "require", lambda *_: None)
    assert hs.half_spaces(2).regions == 1


def test_a_labelling_that_is_missed_is_an_error(monkeypatch):
    separate, polygons = hs.separating_half_spaces, hs.convex_polygons
    monkeypatch.setattr(hs, "separating_half_spaces", lambda points, labels: separate(points, labels[::-1]))
    with pytest.raises(ValueError, match="a labelling of 4 points was not realised"):
        hs.half_spaces(3)
    monkeypatch.setattr(hs, "convex_polygons", lambda labels: polygons(np.roll(labels, 1, axis=1)))
    with pytest.raises(ValueError, match="a labelling of 5 points was not realised"):
        hs.convex_bodies(5)
