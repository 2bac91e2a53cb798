"""Adaptive counts against grids: evaluations and wrong counts, a fine grid standing for the truth."""

import functools

import numpy as np

from benchmarks.networks import narrow_network, shapes
from benchmarks.registry import Row, at_least, at_most, benchmark
from rc_utils.counting import region_count
from rc_utils.training import TrainConfig, train

NETWORKS = {"ResNet18": {"width": 8}, "SENet18": {"width": 8}}
NETWORKS["EfficientNetB0"] = {"width": 16, "dropout": 0.0, "drop_connect": 0.0}
LEARNING_RATES = (0.02, 0.01, 0.005)
FINE = 6401  # points of the grid that stands for the truth


@benchmark("adaptive")
def adaptive(scale):
    """Evaluations and miscounts on segments, over trained networks of three kinds and learning rates."""
    data, networks = trained_networks(scale.images // 4)
    evaluations, wrong = np.sum([compare(net, data, scale.truth[0]) for net in networks], axis=0)
    n = len(networks) * scale.truth[0]
    ours, other = evaluations / n
    name = f"segments of {len(networks)} networks"
    yield Row(f"evaluations on {name}", "grid of 200 points", (ours,), (other,), at_least(5), "each")
    yield Row(f"miscounted of {n} {name}", "grid of 200 points", *wrong[:, None].tolist(), at_most(1), "wrong")


def compare(network, data, num_samples):
    """((evaluations, grid's), (miscounted, grid's)) on the same segments."""
    truth = region_count(network, data.x_train, resolution=FINE, num_samples=num_samples)
    pair = [region_count(network, data.x_train, strategy=s, num_samples=num_samples) for s in ("adaptive", "grid")]
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
