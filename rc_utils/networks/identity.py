"""Know a network again whose code is not of this package, and may have been edited."""

import copy

import numpy as np
import torch

from rc_utils.checks import require
from rc_utils.counting.evaluation import evaluation_mode, full_precision, own_random_state
from rc_utils.networks.registry import NETWORKS

NUM_IMAGES, NUM_SCORES = 4, 10  # on which a network is known again, and of how many classes


def is_foreign(name):
    """Whether the network of that name is the reader's: "module:Class", or registered elsewhere."""
    module = getattr(NETWORKS.get(name), "__module__", "")
    return not module.startswith("rc_utils.")


def describe_start(network, image_shape):
    """Parameters of an untrained network by shape, and its scores on fixed images.

    network: a module on any device. image_shape: (C, H, W). Returns plain JSON values: `parameters`,
    names with shapes, and `scores`, first in evaluation mode, then in training mode with a fixed
    seed, so that an edit of either shows.

    Raises ValueError where it gives other scores when the same images are asked again.
    """
    network = copy.deepcopy(network).cpu()
    images = np.random.default_rng(0).normal(size=(NUM_IMAGES, *image_shape))
    batch = torch.from_numpy(images).float()
    with own_random_state(torch.device("cpu")), full_precision(), torch.no_grad():
        torch.default_generator.manual_seed(0)
        with evaluation_mode(network):
            scores, again = network(batch), network(batch)
        require(
            torch.equal(scores, again),
            f"{type(network).__name__} gives other scores when the same images are asked again: "
            "switch its random numbers off in evaluation mode, as nn.Dropout does",
        )
        both = torch.cat([scores, network.train()(batch)])[:, :NUM_SCORES]
    parameters = {name: list(value.shape) for name, value in network.named_parameters()}
    return {"parameters": parameters, "scores": both.double().nan_to_num().tolist()}


def same_start(one, other):
    """Whether two descriptions by `describe_start` are of one network, rounding aside."""
    scores = [np.array(start["scores"]) for start in (one, other)]
    if one["parameters"] != other["parameters"] or scores[0].shape != scores[1].shape:
        return False
    return np.allclose(*scores, rtol=1e-3, atol=1e-4)
