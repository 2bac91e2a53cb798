"""Adaptive counts against grids: evaluations and wrong counts, a fine grid standing for the truth."""

import functools

import numpy as np

from benchmarks.networks import narrow_network, shapes
from benchmarks.registry import Row, at_least, at_most, benchmark
from rc_utils.counting import region_count
from rc_utils.training import TrainConfig, train

NETWORKS = {"ResNet18": {"width": 8}, "SENet18": {"width": 8}, "ResNet34": {"width": 8}}
NETWORKS["EfficientNetB0"] = {"width": 16, "dropout": 0.0, "drop_connect": 0.0}
LEARNING_RATES = (0.02, 0.01, 0.005)
FINE = 6401  # points of the grid that stands for the truth
COARSE = 24, 8  # intervals that adaptive segments begin with


@benchmark("adaptive")
def adaptive(scale):
    """Evaluations and miscounts on segments, over trained networks of four kinds and learning rates and an untrained.

    Counts that begin with 24 intervals, the default, and with 8 are to err no more often than the
    grid.
    """
    data, networks = trained_networks(scale.images // 4)
    networks = [*networks, narrow_network().eval()]
    found = [compare(network, data, scale.truth) for network in networks]
    evaluations, wrong = (np.sum([pair[k] for pair in found], axis=0) for k in (0, 1))
    n = len(networks) * scale.truth
    for number, coarse in enumerate(COARSE):
        name = f"segments of {len(networks)} networks from {coarse} intervals"
        ours = (evaluations[number] / n,)
        yield Row(
            f"evaluations on {name}",
            "grid of 200 points",
            ours,
            (evaluations[-1] / n,),
            at_least(5),
            "each",
        )
        both = (wrong[number],), (wrong[-1],)
        yield Row(f"miscounted of {n} {name}", "grid of 200 points", *both, at_most(1), "wrong")


def compare(network, data, num_samples):
    """(evaluations, miscounted) of each way to count the same segments, the grid last."""
    draw = {"num_samples": num_samples}
    truth = region_count(network, data.x_train, resolution=FINE, **draw).counts
    ways = [{"strategy": "adaptive", "coarse": coarse} for coarse in COARSE] + [{}]
    found = [region_count(network, data.x_train, **draw, **way) for way in ways]
    return [count.num_evaluations for count in found], [
        (count.counts != truth).sum() for count in found
    ]


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
