"""Adaptive counts on segments: as right as a fine grid, at a fraction of its evaluations."""

import tracemalloc

import numpy as np
import pytest
from test_guard_rails import rough_network

from rc_utils.counting import region_count
from rc_utils.counting.segments import COARSE_INTERVALS

SEGMENT = np.array([[0.0], [1.0]])
RANGES = [(9, (-3, 4)), (9, (4, -3)), (600, (0.4, 0.45))]  # and frequencies


def test_the_counts_of_a_fine_grid_at_a_fraction_of_its_evaluations():
    """Of a rough network, and of scores that do not bend, between two of which a third wins."""
    rng = np.random.default_rng(8)
    points, weight = rng.normal(size=(60, 12)).astype(np.float32), rng.normal(size=(12, 50))
    models = (rough_network(), 100, 2001), (lambda x: x @ weight, 200, 6369)
    for model, number, finest in models:
        truth = region_count(model, points, resolution=finest, num_samples=number)
        found = region_count(model, points, num_samples=number, strategy="adaptive")
        assert found.counts.tolist() == truth.counts.tolist()
        assert found.num_evaluations <= number * 30
        assert truth.mean > 1.5


def test_classes_that_win_nowhere_change_no_count_and_take_little_memory():
    points, low = np.random.default_rng(8).normal(size=(60, 12)), np.linspace(-99, -9, 2000)

    def scores(x):
        return 9 * np.sin(x * np.arange(12, 0, -1) / 4)

    def wide(x):
        return np.hstack([scores(x), np.tile(low, (len(x), 1))])

    tracemalloc.start()
    many = region_count(wide, points, num_samples=20, strategy="adaptive")
    assert tracemalloc.get_traced_memory()[1] < 6 * 8 * 2012 * many.num_evaluations  # all scores
    tracemalloc.stop()
    few = region_count(scores, points, num_samples=20, strategy="adaptive")
    assert many.counts.tolist() == few.counts.tolist()
    assert many.num_evaluations == few.num_evaluations


@pytest.mark.parametrize("centre", [0.3, 0.4901, 0.7777])
def test_a_region_far_below_the_grid_is_found(centre):
    """The second score is positive in an interval of 0.002; its slopes show from far away."""

    def scores(x):
        return np.hstack([0 * x, 1e-6 - (x - centre) ** 2])

    count = region_count(scores, SEGMENT, num_samples=1, strategy="adaptive")
    assert count.counts.tolist() == [3]
    assert count.num_evaluations < 60
    wave = lambda x: (x[:, 0] - centre) * ((x[:, 0] - centre) ** 2 - 0.004**2)  # noqa: E731
    count = region_count(wave, SEGMENT, num_samples=1, strategy="adaptive")
    assert count.counts.tolist() == [4]


@pytest.mark.parametrize(("frequency", "alpha_range"), RANGES)
def test_longer_and_shorter_ranges_are_looked_at_as_closely(frequency, alpha_range):
    def wave(x):
        return np.sin(frequency * x[:, 0] + 0.3)

    options = {"num_samples": 2, "alpha_range": alpha_range}
    adaptive = region_count(wave, SEGMENT, strategy="adaptive", **options)
    fine = region_count(wave, SEGMENT, resolution=5001, **options)
    assert adaptive.counts.tolist() == fine.counts.tolist()
    assert fine.mean >= 10
    assert adaptive.num_evaluations >= 2 * max(1, abs(np.diff(alpha_range)[0])) * COARSE_INTERVALS
