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

from rc_utils.networks.plain import ImageClassifier, conv_norm, scale_channels, staged
from rc_utils.networks.registry import register_network
from rc_utils.networks.residual import SqueezeExcitation, projection_shortcut

# (channels, blocks, stride of the first, expansion)
MOBILENET_STAGES = (
    (16, 1, 1, 1), (24, 2, 1, 6), (32, 3, 2, 6), (64, 4, 2, 6),
    (96, 3, 1, 6), (160, 3, 2, 6), (320, 1, 1, 6),
)  # fmt: skip
# (channels, blocks, stride of the first, expansion, kernel size)
EFFICIENTNET_STAGES = (
    (16, 1, 1, 1, 3), (24, 2, 2, 6, 3), (40, 2, 2, 6, 5), (80, 3, 2, 6, 3),
    (112, 3, 1, 6, 5), (192, 4, 2, 6, 5), (320, 1, 1, 6, 3),
)  # fmt: skip
SQUEEZE_REDUCTION = 4  # input channels for each squeezed one
SHUFFLENET_STAGES = ((116, 4), (232, 8), (464, 4))  # channels, blocks with the halving one


class InvertedResidual(nn.Module):
    """Expand by 1x1, filter each channel by 3x3, project by 1x1 without activation.

    Sandler et al., Table 1. The shortcut exists at stride 1 only.
    """

    def __init__(self, in_channels, out_channels, stride, expansion):
        super().__init__()
        expanded = expansion * in_channels
        self.residual = nn.Sequential(
            conv_norm(in_channels, expanded, 1, nn.ReLU),
            conv_norm(expanded, expanded, 3, nn.ReLU, stride=stride, groups=expanded),
            conv_norm(expanded, out_channels, 1),
        )
        self.shortcut = projection_shortcut(in_channels, out_channels, 1) if stride == 1 else None

    def forward(self, x):
        return self.residual(x) if self.shortcut is None else self.residual(x) + self.shortcut(x)


@register_network("MobileNetV2")
def mobilenet_v2(*, num_classes, in_channels, width) -> ImageClassifier:
    """17 inverted residuals, stem of 32, head of 1280; 2,296,922 parameters at ten classes."""
    stem, head = scale_channels(32, width), scale_channels(1280, width)
    first = conv_norm(in_channels, stem, 3, nn.ReLU)
    blocks, channels = staged(MOBILENET_STAGES, stem, width, InvertedResidual)
    last = conv_norm(channels, head, 1, nn.ReLU)
    return ImageClassifier([first, *blocks, last], head, num_classes)


class DropConnect(nn.Module):
    """Drop a residual branch for whole samples with probability `rate` in training.

    Huang et al. 2016. Kept samples are divided by 1 - rate, so that the expectation is the input.
    """

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.training or self.rate == 0:
            return x
        keep = 1 - self.rate
        return x * (torch.empty_like(x[:, :1, :1, :1]).bernoulli_(keep) / keep)


class MBConv(nn.Module):
    """Inverted residual with squeeze-and-excitation and swish (Tan, Le, Sec. 4).

    The squeezed channels are a quarter of the input's, not of the expanded ones. At expansion 1 no
    convolution expands. The residual is added, through drop-connect, where the shape stays.
    """

    def __init__(self, in_channels, out_channels, stride, expansion, kernel_size, rate):
        super().__init__()
        expanded = expansion * in_channels
        layers = [
            conv_norm(expanded, expanded, kernel_size, nn.SiLU, stride=stride, groups=expanded),
            SqueezeExcitation(expanded, in_channels // SQUEEZE_REDUCTION, nn.SiLU),
            conv_norm(expanded, out_channels, 1),
        ]
        if expansion != 1:
            layers.insert(0, conv_norm(in_channels, expanded, 1, nn.SiLU))
        self.has_shortcut = stride == 1 and in_channels == out_channels
        if self.has_shortcut:
            layers.append(DropConnect(rate))
        self.residual = nn.Sequential(*layers)

    def forward(self, x):
        return self.residual(x) + x if self.has_shortcut else self.residual(x)


@register_network("EfficientNetB0")
def efficientnet_b0(
    *, num_classes, in_channels, width, dropout=0.2, drop_connect=0.2
) -> ImageClassifier:
    """16 MBConv blocks and a linear layer from 320 channels; 3,598,598 parameters at ten classes.

    The published CIFAR form counts 1,088 more: an expanding convolution in the first block that
    expansion 1 never uses. `dropout` is the rate before the linear layer; `drop_connect` grows
    linearly from 0 at the first block towards this rate at the end (stochastic depth). The public
    CIFAR code of this size asks for 0.2 as well, but never counts its blocks, so that its rate
    stays 0.
    """
    num_blocks = sum(depth for _, depth, *_ in EFFICIENTNET_STAGES)
    rates = (drop_connect * index / num_blocks for index in range(num_blocks))
    stem = scale_channels(32, width)
    first = conv_norm(in_channels, stem, 3, nn.SiLU)

    def block(*settings):
        return MBConv(*settings, next(rates))

    blocks, channels = staged(EFFICIENTNET_STAGES, stem, width, block)
    return ImageClassifier([first, *blocks], channels, num_classes, dropout)


def shuffle_halves(x):
    """Interleave the halves of the channels, h and c to place 2 c + h: (N, C, H, W), C even."""
    return x.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)


class ShuffleBlock(nn.Module):
    """Half the channels pass, half are convolved, then both are shuffled (Ma et al., Fig. 3 c)."""

    def __init__(self, channels):
        super().__init__()
        half = channels // 2
        self.branch = nn.Sequential(
            conv_norm(half, half, 1, nn.ReLU),
            conv_norm(half, half, 3, groups=half),
            conv_norm(half, half, 1, nn.ReLU),
        )

    def forward(self, x):
        halves = x.chunk(2, dim=1)
        return shuffle_halves(torch.cat((halves[0], self.branch(halves[1])), dim=1))


class DownsamplingShuffleBlock(nn.Module):
    """Two branches at stride 2, half of `out_channels` each, and shuffled (Ma et al., Fig. 3 d)."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        half = out_channels // 2
        self.left = nn.Sequential(
            conv_norm(in_channels, in_channels, 3, stride=2, groups=in_channels),
            conv_norm(in_channels, half, 1, nn.ReLU),
        )
        self.right = nn.Sequential(
            conv_norm(in_channels, half, 1, nn.ReLU),
            conv_norm(half, half, 3, stride=2, groups=half),
            conv_norm(half, half, 1, nn.ReLU),
        )

    def forward(self, x):
        return shuffle_halves(torch.cat((self.left(x), self.right(x)), dim=1))


@register_network("ShuffleNetV2")
def shufflenet_v2(*, num_classes, in_channels, width) -> ImageClassifier:
    """Stem 24, stages 116 232 464 of 4 8 4 blocks, head 1024; 1,263,854 parameters, ten classes."""
    channels, head = scale_channels(24, width), scale_channels(1024, width)
    layers = [conv_norm(in_channels, channels, 3, nn.ReLU)]
    for published, depth in SHUFFLENET_STAGES:
        out_channels = scale_channels(published, width, divisor=2)
        layers.append(DownsamplingShuffleBlock(channels, out_channels))
        layers += [ShuffleBlock(out_channels) for _ in range(depth - 1)]
        channels = out_channels
    return ImageClassifier([*layers, conv_norm(channels, head, 1, nn.ReLU)], head, num_classes)
