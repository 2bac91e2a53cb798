"""Exact counts of a width-8 ResNet18: with and without pruning, and against a grid of 6,401 points."""

import time

import numpy as np

from benchmarks.adaptive import FINE, trained_networks
from benchmarks.registry import Row, Target, at_least, benchmark
from rc_exact import exact_segment
from rc_utils.counting import region_count, sample_vertices

LIMIT_SECONDS = 5


@benchmark("exact")
def exact(scale):
    """Seconds of a segment, solved whole, and only where another label could hide."""
    data, networks = trained_networks(scale.images // 4)
    network, number = networks[0], scale.truth[1]
    ends = sample_vertices(data.x_train, num_samples=number)
    whole, seconds = _solve(network, ends)
    pruned, pruned_seconds = _solve(network, ends, prune=True)
    if whole != pruned:
        raise AssertionError(f"pruning changed the counts of {number} segments: {pruned}; expected {whole}")
    started = time.perf_counter()
    fine = region_count(network, data.x_train, resolution=FINE, num_samples=number).counts
    fine_seconds = (time.perf_counter() - started) / number
    missed = int(np.sum(np.array(whole) != fine))
    yield Row("exact segment, ResNet18/8, pruned", "the whole segment", pruned_seconds, seconds, at_least(5))
    limit = Target("costs", LIMIT_SECONDS)
    yield Row("exact segment, ResNet18/8", "one second", seconds, (1.0,) * number, limit)
    against = f"grid of {FINE:,} points, {missed} of {number} counts differ"
    yield Row("exact segment, ResNet18/8", against, seconds, (fine_seconds,) * number)


def _solve(network, ends, **options):
    counts, seconds = [], []
    for x0, x1 in ends:
        started = time.perf_counter()
        counts.append(exact_segment(network, x0, x1, **options).count)
        seconds.append(time.perf_counter() - started)
    return counts, tuple(seconds)
