"""Fully connected networks: a multilayer perceptron and the two-layer network of the theory.

Their hidden widths are given by their own options; the width factor of the image networks does not touch
them.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rc_utils.checks import check_count
from rc_utils.networks.registry import register_network


@register_network("MLP")
class MLP(nn.Module):
    """ReLU network x -> W_L relu(... relu(W_1 x + b_1) ...) + b_L on flattened inputs.

    Input (N, ...) with `in_features` numbers a sample, output (N, num_classes). `in_features` is in_channels
    * image_size^2 unless given. `widths` are the hidden layers, none for a linear classifier. `bias=False`
    leaves out every b_l: the network is then positively homogeneous.
    """

    def __init__(
        self,
        *,
        num_classes: int = 10,
        in_channels: int = 3,
        image_size: int = 32,
        in_features: int | None = None,
        widths: Sequence[int] = (64, 64),
        bias: bool = True,
    ):
        super().__init__()
        fan_in = _in_features(in_features, in_channels, image_size)
        layers: list[nn.Module] = [nn.Flatten()]
        for fan_out in widths:
            check_count("widths", fan_out, 1)
            layers += [nn.Linear(fan_in, fan_out, bias=bias), nn.ReLU()]
            fan_in = fan_out
        self.layers = nn.Sequential(*layers, nn.Linear(fan_in, num_classes, bias=bias))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@register_network("TwoLayerReLU")
class TwoLayerReLU(nn.Module):
    """f(x) = sum_i a_i relu(w_i^T x), signs a_i = +-1 drawn once, never trained (v1 App. G, v3 Sec. 6.2).

    Input (N, ...) with `in_features` numbers a sample, output (N, 1): a score whose sign is the label of a
    binary problem. `hidden` is the paper's p. There are no biases: append a constant to x where one is
    needed.
    """

    def __init__(self, *, in_channels: int = 3, image_size: int = 32, in_features: int | None = None, hidden: int = 64):
        super().__init__()
        fan_in = _in_features(in_features, in_channels, image_size)
        check_count("hidden", hidden, 1)
        signs = 2.0 * torch.randint(0, 2, (1, hidden)) - 1.0
        output = nn.Linear(hidden, 1, bias=False)
        # A buffer: optimisers, weight decay and distances from initialisation see parameters only.
        del output.weight
        output.register_buffer("weight", signs)
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(fan_in, hidden, bias=False), nn.ReLU(), output)

    @property
    def signs(self) -> Tensor:
        """a, shape (hidden,)."""
        return self.layers[-1].weight[0]

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def _in_features(in_features: int | None, in_channels: int, image_size: int) -> int:
    if in_features is None:
        return in_channels * image_size**2
    check_count("in_features", in_features, 1)
    return in_features
