"""Scalar measures of a trained network that compete with the region count."""

import math

import torch

from rc_utils.checks import unknown_name
from rc_utils.regions.evaluation import evaluation_mode


def distance_from_init(network, initial):
    """d(W) = sqrt(sum_i ||W_i - W_i^0||_F^2) over all weight matrices and kernels (v1 App. B, Example 1).

    network, initial: the trained network and the same network at its initialisation. Biases and the scale and
    shift of batch normalisation (parameters of fewer than two dimensions) are left out, as in the definition.
    """
    pairs = zip(network.parameters(), initial.parameters(), strict=True)
    squares = [(w - w0.to(w.device)).detach().double().square().sum() for w, w0 in pairs if w.dim() >= 2]
    return math.sqrt(float(torch.stack(squares).sum()))


@torch.no_grad()
def output_margin(network, x, y, batch_size=1000):
    """gamma(W) = mean over (x, y) of f(x)_y - max_{i != y} f(x)_i (v1 App. B), in logits.

    x: images (N, C, H, W); y: labels (N,).
    """
    total = 0.0
    with evaluation_mode(network):
        for i in range(0, len(y), batch_size):
            logits, target = network(x[i : i + batch_size]).double(), y[i : i + batch_size, None]
            own = logits.gather(1, target).squeeze(1)
            total += float((own - logits.scatter(1, target, -math.inf).amax(1)).sum())
    return total / len(y)


MEASURES = {
    "distance_from_init": lambda network, initial, data: distance_from_init(network, initial),
    "margin": lambda network, initial, data: output_margin(network, data.x_train, data.y_train),
    "num_parameters": lambda network, initial, data: sum(p.numel() for p in network.parameters()),
}


def measure(name, network, initial, data):
    """Value of the measure `name` (a key of MEASURES) of `network` that started as `initial` and trained on `data`."""
    if name not in MEASURES:
        raise unknown_name("measure", name, MEASURES)
    return MEASURES[name](network, initial, data)
