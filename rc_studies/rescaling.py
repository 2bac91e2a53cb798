"""Rescaling the weights of a network so that all scores change by the same positive factor.

Two rescalings, with a factor c > 0:
- a convolution or linear layer followed by batch normalisation (with a scale and a running mean):
  weight, bias and running mean times c, scale divided by c. In evaluation mode
  (g / c) (c z - c m) / sqrt(v + eps) + b = g (z - m) / sqrt(v + eps) + b.
- a linear layer followed by a ReLU and a linear layer: weight and bias of the first times c, weight
  of the second divided by c, since relu(c z) = c relu(z) (Neyshabur et al. 2015).
Multiplying the output layer by c multiplies every score and changes no label. If c is a power of
two, every step is exact in floating point, short of overflow: labels and region counts are equal.
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
    """Names of (layer, layer that compensates for it): rescaling both keeps the function.

    Only layers inside `nn.Sequential`s are found, where it is known what follows a layer. There are
    none if the network uses a parameter twice.
    """
    pairs, uses = [], list(network.named_parameters(remove_duplicate=False))
    if len(uses) > len(list(network.parameters())):
        return pairs
    sequentials = [(n, m) for n, m in network.named_modules() if isinstance(m, nn.Sequential)]
    for prefix, module in sequentials:
        # Not `named_children`, which lists a module that is used twice only once.
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
    """Name of the linear layer registered last. Raises ValueError if there is none."""
    names = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    require(names, f"{type(network).__name__} has no linear layer; expected one for the scores")
    return names[-1]


def random_rescaling(network: nn.Module, seed: int) -> tuple[list[int], int]:
    """Exponents for `rescale`, drawn uniformly from -4..4, for the output layer without 0."""
    rng = np.random.default_rng(seed)
    exponents = rng.integers(-4, 5, size=len(rescalable_layers(network)))
    return exponents.tolist(), int(rng.choice([k for k in range(-4, 5) if k]))


@torch.no_grad()
def rescale(network: nn.Module, exponents: Sequence[int], output_exponent: int) -> nn.Module:
    """Rescaled copy of `network`: scores in evaluation mode times 2^output_exponent.

    exponents: k of the factor 2^k for each of `rescalable_layers`, else ValueError.
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
