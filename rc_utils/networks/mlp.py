"""A multilayer perceptron. The width factor of the image networks does not touch it: it has an option of its own."""

from collections.abc import Sequence

from torch import Tensor, nn

from rc_utils.checks import check_count
from rc_utils.networks.registry import register_network


@register_network("MLP")
class MLP(nn.Module):
    """ReLU network x -> W_L relu(... relu(W_1 x + b_1) ...) + b_L on flattened inputs.

    Input (N, in_channels, image_size, image_size), output (N, num_classes). `widths` are the hidden layers, none for
    a linear classifier.
    """

    def __init__(
        self,
        *,
        num_classes: int = 10,
        in_channels: int = 3,
        image_size: int = 32,
        widths: Sequence[int] = (64, 64),
    ):
        super().__init__()
        fan_in = in_channels * image_size**2
        layers: list[nn.Module] = [nn.Flatten()]
        for fan_out in widths:
            check_count("widths", fan_out, 1)
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
            fan_in = fan_out
        self.layers = nn.Sequential(*layers, nn.Linear(fan_in, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)
