"""RegNetX_200MF for small images.

Radosavovic, Kosaraju, Girshick, He, Dollar: Designing Network Design Spaces, CVPR 2020, Fig. 11 and Appendix
D, with a 3x3 stem of 64 channels and strides 1 1 2 2.
"""

from torch import Tensor, nn

from rc_utils.networks.layers import ImageClassifier, conv_norm, conv_norm_act, projection_shortcut, scale_channels
from rc_utils.networks.registry import register_network

# (channels, blocks, stride of the first)
STAGES = ((24, 1, 1), (56, 1, 1), (152, 4, 2), (368, 7, 2))
GROUP_WIDTH = 8


class XBlock(nn.Module):
    """relu(F(x) + shortcut(x)) with F a 1x1, a grouped 3x3 and a 1x1 convolution, bottleneck ratio 1."""

    def __init__(self, in_channels: int, out_channels: int, stride: int, group_width: int):
        super().__init__()
        groups = out_channels // group_width
        self.residual = nn.Sequential(
            conv_norm_act(in_channels, out_channels, 1),
            conv_norm_act(out_channels, out_channels, 3, stride=stride, groups=groups),
            conv_norm(out_channels, out_channels, 1),
        )
        self.shortcut = projection_shortcut(in_channels, out_channels, stride)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.residual(x) + self.shortcut(x))


def compatible_widths(channels: int, width: float) -> tuple[int, int]:
    """(scaled channels, group width): a stage narrower than a group is one group, others are whole groups."""
    group_width = min(GROUP_WIDTH, scale_channels(channels, width))
    return scale_channels(channels, width, divisor=group_width), group_width


@register_network("RegNetX_200MF")
def regnetx_200mf(*, num_classes: int = 10, in_channels: int = 3, width: float = 64) -> ImageClassifier:
    """Stages 24 56 152 368 with 1 1 4 7 blocks; 2,321,946 parameters at ten classes.

    The groups of the 3x3 convolutions have 8 channels each, whatever the width.
    """
    channels = scale_channels(64, width)
    layers = [conv_norm_act(in_channels, channels, 3)]
    for published, depth, stage_stride in STAGES:
        out_channels, group_width = compatible_widths(published, width)
        for index in range(depth):
            stride = stage_stride if index == 0 else 1
            layers.append(XBlock(channels, out_channels, stride, group_width))
            channels = out_channels
    return ImageClassifier(nn.Sequential(*layers), channels, num_classes)
