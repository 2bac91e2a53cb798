"""Networks without shortcuts: VGG19 with batch normalisation for small images, and a multilayer perceptron.

VGG19: Simonyan, Zisserman: Very Deep Convolutional Networks for Large-Scale Image Recognition, ICLR
2015, Table 1, column E, with batch normalisation after each convolution and one linear layer instead
of three.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from rc_utils.checks import check_count
from rc_utils.networks.layers import ImageClassifier, scale_channels
from rc_utils.networks.registry import register_network

# (convolutions, channels) between one max-pool and the next
VGG_STAGES = ((2, 64), (2, 128), (4, 256), (4, 512), (4, 512))


@register_network("VGG19")
def vgg19(*, num_classes: int = 10, in_channels: int = 3, width: float = 64) -> ImageClassifier:
    """16 biased 3x3 convolutions, a max-pool after each of five stages; 20,040,522 parameters at ten classes.

    The pools round the image size up: odd sizes keep their last row and column, and below 32 x 32
    the late pools work on single pixels and change nothing. At 32 x 32 every size is even and this
    is the published network.
    """
    layers: list[nn.Module] = []
    channels = in_channels
    for depth, published in VGG_STAGES:
        out_channels = scale_channels(published, width)
        for _ in range(depth):
            layers.append(nn.Conv2d(channels, out_channels, 3, padding=1))
            layers += [nn.BatchNorm2d(out_channels), nn.ReLU()]
            channels = out_channels
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    return ImageClassifier(nn.Sequential(*layers), channels, num_classes)


@register_network("MLP")
class MLP(nn.Module):
    """ReLU network x -> W_L relu(... relu(W_1 x + b_1) ...) + b_L on flattened inputs.

    Input (N, in_channels, image_size, image_size), output (N, num_classes). `widths` are the hidden
    layers, none for a linear classifier; the width of the image networks has no part in it.
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
