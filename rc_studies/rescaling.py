"""Other weights of the same function: layers are rescaled, and scores change by one factor alone.

Two rescalings, with a factor c > 0:
- a convolution or linear layer followed by batch normalisation (with a scale and a running mean):
  weight, bias and running mean times c, scale divided by c. In evaluation mode
  (g / c) (c z - c m) / sqrt(v + eps) + b = g (z - m) / sqrt(v + eps) + b.
- a linear layer followed by a ReLU and a linear layer: weight and bias of the first times c, weight
  of the second divided by c, since relu(c z) = c relu(z) (Neyshabur et al. 2015).
The output layer times c multiplies every score and changes no label. With c a power of two every
step is exact in floating point, short of overflow: labels and region counts are equal.
"""

import copy
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from rc_utils.validation import require

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


def rescalable_layers(network: nn.Module) -> list[tuple[str, str]]:
    """(layer, layer that compensates) by name: scaling the first does not change the function.

    Found inside the network's `nn.Sequential`s, where what follows a layer is known. There are none
    where a parameter has two places.
    """
    pairs, places = [], list(network.named_parameters(remove_duplicate=False))
    if len(places) > len(list(network.parameters())):
        return pairs
    sequentials = [(n, m) for n, m in network.named_modules() if isinstance(m, nn.Sequential)]
    for prefix, module in sequentials:
        # A module that is there twice is a child twice, which `named_children` tells once.
        children = [(f"{prefix}.{name}".lstrip("."), m) for name, m in module._modules.items()]
        for (a, x), (b, y) in pairwise(children):
            followed = isinstance(y, _NORMS) and y.affine and y.track_running_stats
            if isinstance(x, nn.Conv2d | nn.Linear) and followed:
                pairs.append((a, b))
        for (a, x), (_, y), (b, z) in zip(children, children[1:], children[2:], strict=False):
            if isinstance(x, nn.Linear) and isinstance(y, nn.ReLU) and isinstance(z, nn.Linear):
                pairs.append((a, b))
    return pairs


def output_layer(network: nn.Module) -> str:
    """Name of the last linear layer as registered. Raises ValueError where there is none."""
    names = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    require(names, f"{type(network).__name__} has no linear layer, which would give the scores")
    return names[-1]


def random_rescaling(network: nn.Module, seed: int) -> tuple[list[int], int]:
    """Exponents for `rescale`, drawn uniformly from -4..4, that of the output layer without 0."""
    rng = np.random.default_rng(seed)
    exponents = rng.integers(-4, 5, size=len(rescalable_layers(network)))
    return exponents.tolist(), int(rng.choice([k for k in range(-4, 5) if k]))


@torch.no_grad()
def rescale(network: nn.Module, exponents: Sequence[int], output_exponent: int) -> nn.Module:
    """A copy of `network` whose scores are 2^output_exponent times the same, in evaluation mode.

    exponents: k of the factors 2^k, one for each of its `rescalable_layers`, else ValueError.
    """
    pairs, given = rescalable_layers(network), len(exponents)
    require(given == len(pairs), f"{given} exponents for {len(pairs)} layers; expected one each")
    rescaled = copy.deepcopy(network)
    modules = dict(rescaled.named_modules())
    for (name, after), exponent in zip(pairs, exponents, strict=True):
        _multiply(modules[name], 2.0**exponent)
        if isinstance(modules[after], _NORMS):
            modules[after].running_mean.mul_(2.0**exponent)
        modules[after].weight.div_(2.0**exponent)
    _multiply(modules[output_layer(rescaled)], 2.0**output_exponent)
    return rescaled


def _multiply(layer: nn.Module, factor: float) -> None:
    for tensor in (layer.weight, layer.bias):
        if tensor is not None:
            tensor.mul_(factor)
