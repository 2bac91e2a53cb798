"""Residual networks for small images: ResNet18 and 34, SENet18, SimpleDLA, RegNetX_200MF.

ResNet: He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition, CVPR 2016, Table 1, with
the 7x7 stem and its max-pool replaced by a 3x3 stem at stride 1.
SENet: Hu, Shen, Sun: Squeeze-and-Excitation Networks, CVPR 2018, on the blocks of He, Zhang, Ren,
Sun: Identity Mappings in Deep Residual Networks, ECCV 2016.
SimpleDLA: Yu, Wang, Shelhamer, Darrell: Deep Layer Aggregation, CVPR 2018, Sec. 3.2. Simplified: a
tree's root sees its two subtrees only, not the ancestors' outputs that Fig. 2 f routes into it.
RegNet: Radosavovic, Kosaraju, Girshick, He, Dollar: Designing Network Design Spaces, CVPR 2020,
its X block and RegNetX-200MF, with a 3x3 stem of 64 channels and strides 1 1 2 2.
"""

import torch
from torch import nn

from rc_utils.networks.plain import ImageClassifier, conv_norm, scale_channels, staged
from rc_utils.networks.registry import register_network

# (channels, blocks, stride of the first)
STAGES_18 = ((64, 2, 1), (128, 2, 2), (256, 2, 2), (512, 2, 2))
STAGES_34 = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
REGNET_STAGES = ((24, 1, 1), (56, 1, 1), (152, 4, 2), (368, 7, 2))
GROUP_WIDTH = 8
DLA_STEM = (16, 16, 32)
DLA_TREES = ((64, 1, 1, 1), (128, 1, 2, 2), (256, 1, 2, 2), (512, 1, 2, 1))  # the last is the level
SQUEEZE_REDUCTION = 16  # channels for each squeezed one


def projection_shortcut(in_channels, out_channels, stride):
    """The identity where the shape stays, else a 1x1 `conv_norm` (He et al. 2016, option B)."""
    if stride == 1 and in_channels == out_channels:
        return nn.Identity()
    return conv_norm(in_channels, out_channels, 1, stride=stride)


class ResidualBlock(nn.Module):
    """relu(F(x) + shortcut(x)), F the `residual`."""

    def __init__(self, residual, shortcut):
        super().__init__()
        self.residual, self.shortcut, self.relu = residual, shortcut, nn.ReLU()

    def forward(self, x):
        return self.relu(self.residual(x) + self.shortcut(x))


class BasicBlock(ResidualBlock):
    """F: two 3x3 convolutions, the first with `stride` (He et al., eq. 1-2)."""

    def __init__(self, in_channels, out_channels, stride=1):
        residual = nn.Sequential(
            conv_norm(in_channels, out_channels, 3, nn.ReLU, stride=stride),
            conv_norm(out_channels, out_channels, 3),
        )
        super().__init__(residual, projection_shortcut(in_channels, out_channels, stride))


class XBlock(ResidualBlock):
    """F: a 1x1, a grouped 3x3 and a 1x1 convolution, bottleneck ratio 1."""

    def __init__(self, in_channels, out_channels, stride):
        groups = out_channels // min(GROUP_WIDTH, out_channels)
        residual = nn.Sequential(
            conv_norm(in_channels, out_channels, 1, nn.ReLU),
            conv_norm(out_channels, out_channels, 3, nn.ReLU, stride=stride, groups=groups),
            conv_norm(out_channels, out_channels, 1),
        )
        super().__init__(residual, projection_shortcut(in_channels, out_channels, stride))


class SqueezeExcitation(nn.Module):
    """x * sigmoid(W2 act(W1 mean(x) + b1) + b2), the mean over pixels (Hu et al. 2018, eq. 2-4).

    W1 maps the channels to `squeezed` ones, at least two. On one pixel a linear layer is a 1x1
    convolution.
    """

    def __init__(self, channels, squeezed, activation=nn.ReLU):
        super().__init__()
        squeezed = max(2, squeezed)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(channels, squeezed),
            activation(),
            nn.Linear(squeezed, channels),
            nn.Sigmoid(),
            nn.Unflatten(1, (channels, 1, 1)),
        )

    def forward(self, x):
        return x * self.gate(x)


class PreActivationSEBlock(nn.Module):
    """shortcut + s(F(z)) with z = relu(norm(x)), F two 3x3 convolutions, s squeeze-and-excitation.

    The shortcut is x itself, or a bare 1x1 convolution of z where the shape changes.
    """

    def __init__(self, in_channels, out_channels, stride):
        super().__init__()
        self.preactivation = nn.Sequential(nn.BatchNorm2d(in_channels), nn.ReLU())
        self.residual = nn.Sequential(
            *conv_norm(in_channels, out_channels, 3, nn.ReLU, stride=stride),
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
            SqueezeExcitation(out_channels, out_channels // SQUEEZE_REDUCTION),
        )
        self.projection = None
        if stride != 1 or in_channels != out_channels:
            self.projection = nn.Conv2d(in_channels, out_channels, 1, stride, bias=False)

    def forward(self, x):
        activated = self.preactivation(x)
        shortcut = x if self.projection is None else self.projection(activated)
        return self.residual(activated) + shortcut


class AggregationTree(nn.Module):
    """relu(norm(conv([left(x), right(left(x))]))): two subtrees in sequence, and a 1x1 convolution.

    At level 1 the subtrees are residual blocks. The first of them carries the stride.
    """

    def __init__(self, in_channels, out_channels, stride, level):
        super().__init__()
        if level == 1:
            self.left = BasicBlock(in_channels, out_channels, stride)
            self.right = BasicBlock(out_channels, out_channels)
        else:
            self.left = AggregationTree(in_channels, out_channels, stride, level - 1)
            self.right = AggregationTree(out_channels, out_channels, 1, level - 1)
        self.root = conv_norm(2 * out_channels, out_channels, 1, nn.ReLU)

    def forward(self, x):
        left = self.left(x)
        return self.root(torch.cat((left, self.right(left)), dim=1))


def _network(stages, num_classes, in_channels, width, block, divisor=1):
    """A stem of 64 channels, and the stages of blocks."""
    stem = conv_norm(in_channels, scale_channels(64, width), 3, nn.ReLU)
    blocks, channels = staged(stages, scale_channels(64, width), width, block, divisor)
    return ImageClassifier([stem, *blocks], channels, num_classes)


@register_network("ResNet18")
def resnet18(*, num_classes, in_channels, width) -> ImageClassifier:
    """Basic blocks 2-2-2-2; 11,173,962 parameters at ten classes."""
    return _network(STAGES_18, num_classes, in_channels, width, BasicBlock)


@register_network("ResNet34")
def resnet34(*, num_classes, in_channels, width) -> ImageClassifier:
    """Basic blocks 3-4-6-3; 21,282,122 parameters at ten classes."""
    return _network(STAGES_34, num_classes, in_channels, width, BasicBlock)


@register_network("SENet18")
def senet18(*, num_classes, in_channels, width) -> ImageClassifier:
    """ResNet18's channels, no final normalisation; 11,260,354 parameters at ten classes."""
    return _network(STAGES_18, num_classes, in_channels, width, PreActivationSEBlock)


@register_network("RegNetX_200MF")
def regnetx_200mf(*, num_classes, in_channels, width) -> ImageClassifier:
    """Stages 24 56 152 368 with 1 1 4 7 blocks; 2,321,946 parameters at ten classes.

    The groups of the 3x3 convolutions have 8 channels each, whatever the width; a stage that is
    narrower is one group.
    """
    return _network(REGNET_STAGES, num_classes, in_channels, width, XBlock, GROUP_WIDTH)


@register_network("SimpleDLA")
def simple_dla(*, num_classes, in_channels, width) -> ImageClassifier:
    """Convolutions 16 16 32, trees 64 128 256 512 of levels 1 2 2 1; 15,142,970 parameters."""
    layers, channels = [], in_channels
    for published in DLA_STEM:
        layers.append(conv_norm(channels, scale_channels(published, width), 3, nn.ReLU))
        channels = scale_channels(published, width)
    trees, channels = staged(DLA_TREES, channels, width, AggregationTree)
    return ImageClassifier([*layers, *trees], channels, num_classes)
