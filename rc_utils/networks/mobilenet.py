"""MobileNetV2 for small images.

Sandler, Howard, Zhu, Zhmoginov, Chen: MobileNetV2: Inverted Residuals and Linear Bottlenecks, CVPR 2018,
Table 2. The CIFAR form: stride 1 in the stem and in the 24-channel stage, ReLU instead of ReLU6, and a
projection on the shortcut where a stride-1 block changes the number of channels.
"""

from torch import Tensor, nn

from rc_utils.networks.layers import ImageClassifier, conv_norm, conv_norm_act, projection_shortcut, scale_channels
from rc_utils.networks.registry import register_network

# (expansion, channels, blocks, stride of the first)
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class InvertedResidual(nn.Module):
    """Expand by 1x1, filter each channel by 3x3, project by 1x1 without activation (Sandler et al., Table 1).

    The shortcut exists at stride 1 only.
    """

    def __init__(self, in_channels: int, out_channels: int, expansion: int, stride: int):
        super().__init__()
        expanded = expansion * in_channels
        self.residual = nn.Sequential(
            conv_norm_act(in_channels, expanded, 1),
            conv_norm_act(expanded, expanded, 3, stride=stride, groups=expanded),
            conv_norm(expanded, out_channels, 1),
        )
        self.shortcut = projection_shortcut(in_channels, out_channels, 1) if stride == 1 else None

    def forward(self, x: Tensor) -> Tensor:
        if self.shortcut is None:
            return self.residual(x)
        return self.residual(x) + self.shortcut(x)


@register_network("MobileNetV2")
def mobilenet_v2(*, num_classes: int = 10, in_channels: int = 3, width: float = 64) -> ImageClassifier:
    """17 inverted residuals, stem of 32 and head of 1280 channels; 2,296,922 parameters at ten classes."""
    channels = scale_channels(32, width)
    layers = [conv_norm_act(in_channels, channels, 3)]
    for expansion, published, depth, stage_stride in STAGES:
        out_channels = scale_channels(published, width)
        for index in range(depth):
            stride = stage_stride if index == 0 else 1
            layers.append(InvertedResidual(channels, out_channels, expansion, stride))
            channels = out_channels
    head = scale_channels(1280, width)
    layers.append(conv_norm_act(channels, head, 1))
    return ImageClassifier(nn.Sequential(*layers), head, num_classes)
