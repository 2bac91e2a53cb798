"""ResNet18 and ResNet34 for small images.

He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition, CVPR 2016, Table 1, with the 7x7 stem and
its max-pool replaced by a 3x3 stem at stride 1.
"""

from collections.abc import Callable

from torch import Tensor, nn

from rc_utils.networks.layers import ImageClassifier, conv_norm, conv_norm_act, projection_shortcut, scale_channels
from rc_utils.networks.registry import register_network

STAGE_CHANNELS = (64, 128, 256, 512)
STAGE_STRIDES = (1, 2, 2, 2)


class BasicBlock(nn.Module):
    """relu(F(x) + shortcut(x)) with F two 3x3 convolutions, the first with `stride` (He et al., eq. 1-2)."""

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1):
        super().__init__()
        self.residual = nn.Sequential(
            conv_norm_act(in_channels, out_channels, 3, stride=stride),
            conv_norm(out_channels, out_channels, 3),
        )
        self.shortcut = projection_shortcut(in_channels, out_channels, stride)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.residual(x) + self.shortcut(x))


def residual_network(
    block: Callable[[int, int, int], nn.Module],
    depths: tuple[int, ...],
    num_classes: int,
    in_channels: int,
    width: float,
) -> ImageClassifier:
    """A stem and four stages of `block`s, functions of input channels, output channels and stride."""
    channels = scale_channels(64, width)
    layers: list[nn.Module] = [conv_norm_act(in_channels, channels, 3)]
    for depth, published, stage_stride in zip(depths, STAGE_CHANNELS, STAGE_STRIDES, strict=True):
        out_channels = scale_channels(published, width)
        for index in range(depth):
            layers.append(block(channels, out_channels, stage_stride if index == 0 else 1))
            channels = out_channels
    return ImageClassifier(nn.Sequential(*layers), channels, num_classes)


@register_network("ResNet18")
def resnet18(*, num_classes: int = 10, in_channels: int = 3, width: float = 64) -> ImageClassifier:
    """Basic blocks 2-2-2-2; 11,173,962 parameters at ten classes."""
    return residual_network(BasicBlock, (2, 2, 2, 2), num_classes, in_channels, width)


@register_network("ResNet34")
def resnet34(*, num_classes: int = 10, in_channels: int = 3, width: float = 64) -> ImageClassifier:
    """Basic blocks 3-4-6-3; 21,282,122 parameters at ten classes."""
    return residual_network(BasicBlock, (3, 4, 6, 3), num_classes, in_channels, width)
