"""Theorem 5 of v1: true on a line, false from the plane on."""

import itertools

import numpy as np
import pytest

from rc_theory.two_layer import half_spaces as hs
from rc_theory.two_layer import segments


def test_half_spaces_shatter_one_more_than_the_dimension():
    assert hs.runs(np.array([[0, 1, 1, 0], [1, 1, 1, 1]])).tolist() == [3, 1]
    for dim in (1, 2, 7):
        case = hs.half_spaces(dim)
        assert (case.regions, case.points) == (2, dim + 1)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("mean_count", [0.9, 1, 1.34, 1.5, 2.75, 3])
def test_a_mean_count_bounds_the_vc_dimension_on_segments(number, mean_count):
    """Brute force over where the points lie and over all their labellings."""
    most, limit = 0, int(number * mean_count)
    for sizes in itertools.combinations_with_replacement(range(limit + 2), number):
        needed = [hs.runs(hs.labellings(size)).max() if size else 1 for size in sizes]
        if sum(needed) <= limit:
            most = max(most, sum(sizes))
    assert most == segments.vc_dimension(number, mean_count) == (limit if mean_count >= 1 else 0)


def deviations_by_brute_force(x, total, number):
    """All labels of all points and of all gaps between them, on `number` segments."""
    found = np.zeros(total)
    cuts = [np.sort(x[x.astype(int) == i]) for i in range(number)]
    weights, first = [], []
    for i, cut in enumerate(cuts):
        gaps = np.diff([i, *cut, i + 1]) / number
        first += [True] + [False] * (2 * len(cut))
        weights += [-gaps[0], *np.ravel([[1 / len(x), -gap] for gap in gaps[1:]])]
    labels = hs.labellings(len(weights))
    changes = (labels[:, 1:] != labels[:, :-1]) | np.array(first[1:])
    for k in range(1, total + 1):
        allowed = labels[1 + changes.sum(1) <= k]
        found[k - 1] = np.abs(allowed @ weights).max() if len(allowed) else -np.inf
    return found


@pytest.mark.parametrize(("number", "total"), [(1, 4), (2, 5), (3, 5)])
def test_the_largest_deviation_is_that_of_brute_force(rng, number, total):
    points = number * rng.random((3, 5))
    expected = [deviations_by_brute_force(x, total, number) for x in points]
    found = segments.largest_deviation(points, total, number)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_rate_of_the_corrected_theorem_holds(rng):
    """Deviation / sqrt(M k / n) does not grow with n, on one segment and on several."""
    for number, total in ((1, 3), (4, 10)):
        ratios = []
        for n in (50, 1000):
            found = segments.largest_deviation(number * rng.random((10, n)), total, number)
            ratios.append(found[:, -1].mean() / np.sqrt(total / n))
        assert ratios[1] < 1.2 * ratios[0] < 1.2


@pytest.mark.parametrize("n", [3, 8])
def test_convex_polygons_and_networks_with_biases_shatter_a_circle(n):
    for case in (hs.convex_bodies(n), hs.relu_networks(n)):
        assert (case.regions, case.points, case.dim) == (3, n, 2)
    polygons = hs.convex_polygons(hs.labellings(n))
    edges = np.roll(polygons, -1, axis=1) - polygons
    after = np.roll(edges, -1, axis=1)
    assert (edges[..., 0] * after[..., 1] - edges[..., 1] * after[..., 0] > -1e-12).all()
    assert hs.circle_deviation(50) == 1
