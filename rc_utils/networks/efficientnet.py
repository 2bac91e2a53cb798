"""EfficientNetB0 for small images.

Tan, Le: EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks, ICML 2019, Table 1. The
CIFAR form: stride 1 in the stem, strides 2 in stages 2, 3, 4 and 6, and no 1x1 head of 1280 channels.
"""

from torch import Tensor, nn

from rc_utils.checks import is_finite_number, require
from rc_utils.networks.layers import (
    DropConnect,
    ImageClassifier,
    SqueezeExcitation,
    conv_norm,
    conv_norm_act,
    scale_channels,
)
from rc_utils.networks.registry import register_network

# (expansion, channels, blocks, kernel size, stride of the first)
STAGES = (
    (1, 16, 1, 3, 1),
    (6, 24, 2, 3, 2),
    (6, 40, 2, 5, 2),
    (6, 80, 3, 3, 2),
    (6, 112, 3, 5, 1),
    (6, 192, 4, 5, 2),
    (6, 320, 1, 3, 1),
)
SQUEEZE_REDUCTION = 4  # input channels for each squeezed one


class MBConv(nn.Module):
    """Inverted residual with squeeze-and-excitation and swish (Tan, Le, Sec. 4).

    The squeezed channels are a quarter of the input's, not of the expanded ones. At expansion 1 there is no
    expanding convolution. The residual is added, through drop-connect, where the shape stays.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        expansion: int,
        kernel_size: int,
        stride: int,
        drop_connect: float,
    ):
        super().__init__()
        expanded = expansion * in_channels
        layers = [
            conv_norm_act(expanded, expanded, kernel_size, stride=stride, groups=expanded, activation=nn.SiLU),
            SqueezeExcitation(expanded, in_channels // SQUEEZE_REDUCTION, nn.SiLU),
            conv_norm(expanded, out_channels, 1),
        ]
        if expansion != 1:
            layers.insert(0, conv_norm_act(in_channels, expanded, 1, activation=nn.SiLU))
        self.has_shortcut = stride == 1 and in_channels == out_channels
        if self.has_shortcut:
            layers.append(DropConnect(drop_connect))
        self.residual = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.residual(x) + x if self.has_shortcut else self.residual(x)


@register_network("EfficientNetB0")
def efficientnet_b0(
    *,
    num_classes: int = 10,
    in_channels: int = 3,
    width: float = 64,
    dropout: float = 0.2,
    drop_connect: float = 0.2,
) -> ImageClassifier:
    """16 MBConv blocks and a linear layer from 320 channels; 3,598,598 parameters at ten classes.

    The published CIFAR form counts 1,088 more: an expanding convolution in the first block that expansion 1
    never uses. `dropout` is the rate before the linear layer; `drop_connect` grows linearly from 0 at the
    first block towards this rate at the end, as in the paper. The public CIFAR code of this size asks for 0.2 as
    well, but never counts its blocks, so that its rate stays 0.
    """
    for name, rate in (("dropout", dropout), ("drop_connect", drop_connect)):
        fits = is_finite_number(rate) and 0 <= rate < 1
        require(fits, f"{name}={rate!r}; expected a number in [0, 1), 0 to switch it off")
    channels = scale_channels(32, width)
    layers = [conv_norm_act(in_channels, channels, 3, activation=nn.SiLU)]
    num_blocks = sum(stage[2] for stage in STAGES)
    for expansion, published, depth, kernel_size, stage_stride in STAGES:
        out_channels = scale_channels(published, width)
        for index in range(depth):
            rate = drop_connect * (len(layers) - 1) / num_blocks
            stride = stage_stride if index == 0 else 1
            layers.append(MBConv(channels, out_channels, expansion, kernel_size, stride, rate))
            channels = out_channels
    return ImageClassifier(nn.Sequential(*layers), channels, num_classes, dropout)
