"""Adaptive counts against grids: evaluations, and counts that differ from a fine grid's."""

import functools
import itertools

import numpy as np

from benchmarks.networks import narrow_network, shapes
from benchmarks.registry import Row, at_least, at_most, benchmark
from rc_utils.counting import region_count
from rc_utils.training import TrainConfig, train

NETWORKS = {"ResNet18": {"width": 8}, "SENet18": {"width": 8}, "ResNet34": {"width": 8}}
NETWORKS["EfficientNetB0"] = {"width": 16, "dropout": 0.0, "drop_connect": 0.0}
LEARNING_RATES = (0.02, 0.01, 0.005)
FINE = 6401  # points of the grid that is taken as the truth
COARSE = (24, 8)  # intervals that adaptive segments begin with


@benchmark("adaptive")
def adaptive(scale):
    """Evaluations and miscounts on segments, over trained networks of four kinds and one untrained.

    Counts from 24 intervals, the default, and from 8 must err no more often than the grid.
    """
    data, networks = trained_networks(scale.images // 4)
    networks, draw = [*networks, narrow_network().eval()], {"num_samples": scale.truth}
    ways = [{"strategy": "adaptive", "coarse": coarse} for coarse in COARSE] + [{}]
    evaluations, wrong = np.zeros((2, len(ways)), dtype=int)
    for network in networks:
        truth = region_count(network, data.x_train, resolution=FINE, **draw).counts
        for number, way in enumerate(ways):
            found = region_count(network, data.x_train, **draw, **way)
            evaluations[number] += found.num_evaluations
            wrong[number] += (found.counts != truth).sum()
    n, grid = len(networks) * scale.truth, "grid of 200 points"
    for number, coarse in enumerate(COARSE):
        name = f"segments of {len(networks)} networks from {coarse} intervals"
        each = (evaluations[number] / n,), (evaluations[-1] / n,)
        yield Row(f"evaluations on {name}", grid, *each, at_least(5), "each")
        both = (wrong[number],), (wrong[-1],)
        yield Row(f"miscounted of {n} {name}", grid, *both, at_most(1), "wrong")


@functools.cache
def trained_networks(num_images):
    """Training data, and networks of every kind and learning rate after 20 epochs on it."""
    data = shapes(num_images)
    networks = []
    for (name, options), lr in itertools.product(NETWORKS.items(), LEARNING_RATES):
        config = TrainConfig(lr=lr, batch_size=32, epochs=20)
        networks.append(train(narrow_network(name, **options), data, config).network.eval())
    return data, networks
