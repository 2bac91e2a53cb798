"""Networks for small devices, on small images: MobileNetV2, EfficientNetB0, ShuffleNetV2 x1.

MobileNetV2: Sandler, Howard, Zhu, Zhmoginov, Chen: Inverted Residuals and Linear Bottlenecks, CVPR
2018, Table 2. The CIFAR form: stride 1 in the stem and in the 24-channel stage, ReLU instead of
ReLU6, and a projection on the shortcut where a stride-1 block changes the number of channels.
EfficientNetB0: Tan, Le: Rethinking Model Scaling for Convolutional Neural Networks, ICML 2019,
Table 1. The CIFAR form: stride 1 in the stem, strides 2 in stages 3, 4, 5 and 7, no head of 1280
channels.
ShuffleNetV2: Ma, Zhang, Zheng, Sun: Practical Guidelines for Efficient CNN Architecture Design,
ECCV 2018, Table 5, with a 3x3 stem at stride 1 and no max-pool.
"""

import torch
from torch import nn
from torch.nn import functional as F

from rc_utils.networks.plain import ImageClassifier, conv_norm, network_of_blocks, register_blocks
from rc_utils.networks.registry import register_network
from rc_utils.networks.residual import ResidualBlock, SqueezeExcitation, projection_shortcut

# Each stage: channels, blocks, stride of the first block; then the block's expansion, kernel size.
MOBILENET_STAGES = (
    (16, 1, 1, 1), (24, 2, 1, 6), (32, 3, 2, 6), (64, 4, 2, 6),
    (96, 3, 1, 6), (160, 3, 2, 6), (320, 1, 1, 6),
)  # fmt: skip
EFFICIENTNET_STAGES = (
    (16, 1, 1, 1, 3), (24, 2, 2, 6, 3), (40, 2, 2, 6, 5), (80, 3, 2, 6, 3),
    (112, 3, 1, 6, 5), (192, 4, 2, 6, 5), (320, 1, 1, 6, 3),
)  # fmt: skip
SHUFFLENET_STAGES = ((116, 4, 2), (232, 8, 2), (464, 4, 2))
SQUEEZE_REDUCTION = 4  # input channels for each squeezed one


def inverted_residual(in_channels, out_channels, stride, expansion):
    """Expand by 1x1, filter each channel by 3x3, project by 1x1 (Sandler et al., Table 1)."""
    expanded = expansion * in_channels
    residual = nn.Sequential(
        conv_norm(in_channels, expanded, 1, nn.ReLU),
        conv_norm(expanded, expanded, 3, nn.ReLU, stride=stride, groups=expanded),
        conv_norm(expanded, out_channels, 1),
    )
    shortcut = projection_shortcut(in_channels, out_channels, 1) if stride == 1 else None
    return ResidualBlock(residual, shortcut)


class DropConnect(nn.Module):
    """In training drop whole samples with probability `rate`, divide others by 1 - rate.

    Huang, Sun, Liu, Sedra, Weinberger: Deep Networks with Stochastic Depth, ECCV 2016.
    """

    def __init__(self, rate=0.0):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        return F.dropout3d(x.unsqueeze(0), self.rate, self.training).squeeze(0)


def mb_conv(in_channels, out_channels, stride, expansion, kernel_size):
    """Inverted residual with squeeze-and-excitation and swish (Tan, Le, Sec. 4).

    At expansion 1 no convolution expands. The shortcut exists where the shape stays.
    """
    expanded = expansion * in_channels
    filtered = {"stride": stride, "groups": expanded}
    residual = nn.Sequential(
        conv_norm(expanded, expanded, kernel_size, nn.SiLU, **filtered),
        SqueezeExcitation(expanded, in_channels // SQUEEZE_REDUCTION, nn.SiLU),
        conv_norm(expanded, out_channels, 1),
    )
    if expansion != 1:  # made last: the order of making is that of drawing the weights
        residual.insert(0, conv_norm(in_channels, expanded, 1, nn.SiLU))
    if stride != 1 or in_channels != out_channels:
        return ResidualBlock(residual, None)
    return ResidualBlock(residual.append(DropConnect()), nn.Identity())


@register_network("EfficientNetB0")
def efficientnet_b0(
    *, num_classes, in_channels, width, dropout=0.2, drop_connect=0.2
) -> ImageClassifier:
    """16 MBConv blocks and a linear layer from 320 channels; 3,598,598 parameters at ten classes.

    The published CIFAR form counts 1,088 more: an expanding convolution in the first block that
    expansion 1 never uses. `dropout` is the rate before the linear layer; `drop_connect` grows
    linearly from 0 at the first block towards this rate at the end. The public CIFAR code asks for
    0.2 as well, but never counts its blocks, so that its rate stays 0.
    """
    parts = {"stem": [32], "block": mb_conv, "stages": EFFICIENTNET_STAGES}
    parts |= {"activation": nn.SiLU, "dropout": dropout}
    network = network_of_blocks(num_classes, in_channels, width, **parts)
    blocks = network.features[1:]
    for index, block in enumerate(blocks):
        if block.shortcut is not None:
            block.residual[-1].rate = drop_connect * index / len(blocks)
    return network


class ShuffleBlock(nn.Module):
    """Two branches, interleaved: channel c of branch h comes to 2 c + h (Ma et al., Fig. 3 c, d).

    At stride 1 half the channels pass and half are convolved, at stride 2 both branches convolve.
    """

    def __init__(self, in_channels, out_channels, stride):
        super().__init__()
        half, self.left = out_channels // 2, None
        if stride == 2:
            self.left = nn.Sequential(
                conv_norm(in_channels, in_channels, 3, stride=2, groups=in_channels),
                conv_norm(in_channels, half, 1, nn.ReLU),
            )
        self.right = nn.Sequential(
            conv_norm(in_channels if stride == 2 else half, half, 1, nn.ReLU),
            conv_norm(half, half, 3, stride=stride, groups=half),
            conv_norm(half, half, 1, nn.ReLU),
        )

    def forward(self, x):
        if self.left is None:
            left, right = x.chunk(2, dim=1)
        else:
            left, right = self.left(x), x
        both = torch.cat((left, self.right(right)), dim=1)
        return both.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)


# With 2,296,922 and 1,263,854 parameters at ten classes.
register_blocks(
    "MobileNetV2", stem=[32], block=inverted_residual, stages=MOBILENET_STAGES, head=1280
)
register_blocks(
    "ShuffleNetV2", stem=[24], block=ShuffleBlock, stages=SHUFFLENET_STAGES, head=1024, divisor=2
)
