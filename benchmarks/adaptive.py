"""Adaptive counts against grids: evaluations and wrong counts, a fine grid standing for the truth."""

import functools

import numpy as np

from benchmarks.networks import narrow_network, shapes
from benchmarks.registry import Row, at_least, at_most, benchmark
from rc_utils.beyond_grid import FINE
from rc_utils.regions import region_count
from rc_utils.training import TrainConfig, train

NETWORKS = {"ResNet18": {"width": 8}, "SENet18": {"width": 8}}
NETWORKS["EfficientNetB0"] = {"width": 16, "dropout": 0.0, "drop_connect": 0.0}
LEARNING_RATES = (0.02, 0.01, 0.005)
# Points of the grid that adaptive counts are held against, and the share of its evaluations that they may take.
GRID = {1: 200, 2: 100}
TARGET = {1: 5, 2: 3}


@benchmark("adaptive")
def adaptive(scale):
    """Evaluations and miscounts on segments and triangles, over trained networks of three kinds and learning rates."""
    data, networks = trained_networks(scale.images // 4)
    for dim in (d for d in (1, 2) if scale.truth[d - 1]):
        name = f"{'segments' if dim == 1 else 'triangles'} of {len(networks)} networks"
        against = f"grid of {GRID[dim]} points" + (" an edge" if dim == 2 else "")
        evaluations, wrong = np.sum([compare(net, data, dim, scale.truth[dim - 1]) for net in networks], axis=0)
        n = len(networks) * scale.truth[dim - 1]
        ours, other = evaluations / n
        yield Row(f"evaluations on {name}", against, (ours,), (other,), at_least(TARGET[dim]), "each")
        ours, other = wrong
        yield Row(f"miscounted of {n} {name}", against, (ours,), (other,), at_most(1), "wrong")


def compare(network, data, dim, num_samples):
    """((evaluations, grid's), (miscounted, grid's)) on the same simplices."""
    draw = {"dim": dim, "num_samples": num_samples}
    truth = region_count(network, data.x_train, resolution=FINE[dim], **draw)
    pair = [region_count(network, data.x_train, resolution=GRID[dim], strategy=s, **draw) for s in ("adaptive", "grid")]
    wrong = [(count.counts != truth.counts).sum() for count in pair]
    return [count.num_evaluations for count in pair], wrong


@functools.cache
def trained_networks(num_images):
    """The data and, for every kind of network and learning rate, a network that was trained on it for 20 epochs."""
    data = shapes(num_images)
    networks = []
    for name, options in NETWORKS.items():
        for lr in LEARNING_RATES:
            config = TrainConfig(lr=lr, batch_size=32, epochs=20)
            networks.append(train(narrow_network(name, **options), data, config).network.eval())
    return data, networks
