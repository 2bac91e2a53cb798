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

from rc_utils.networks.plain import conv_norm, register_blocks

GROUP_WIDTH = 8  # channels of each group of RegNet's 3x3 convolutions, whatever the width
SQUEEZE_REDUCTION = 16  # channels for each squeezed one


class ResidualBlock(nn.Module):
    """activation(residual(x) + shortcut(x)), where there is a shortcut and an activation."""

    def __init__(self, residual, shortcut, activation=None):
        super().__init__()
        self.residual, self.shortcut, self.activation = residual, shortcut, activation

    def forward(self, x):
        total = self.residual(x)
        if self.shortcut is not None:
            total = total + self.shortcut(x)
        return total if self.activation is None else self.activation(total)


def projection_shortcut(in_channels, out_channels, stride):
    """The identity where the shape stays, else a 1x1 `conv_norm` (He et al. 2016, option B)."""
    if stride == 1 and in_channels == out_channels:
        return nn.Identity()
    return conv_norm(in_channels, out_channels, 1, stride=stride)


def basic_block(in_channels, out_channels, stride):
    """Two 3x3 convolutions, the first with `stride` (He et al., eq. 1-2)."""
    residual = nn.Sequential(
        conv_norm(in_channels, out_channels, 3, nn.ReLU, stride=stride),
        conv_norm(out_channels, out_channels, 3),
    )
    shortcut = projection_shortcut(in_channels, out_channels, stride)
    return ResidualBlock(residual, shortcut, nn.ReLU())


def x_block(in_channels, out_channels, stride):
    """A 1x1, a grouped 3x3 and a 1x1 convolution, bottleneck ratio 1."""
    groups = out_channels // min(GROUP_WIDTH, out_channels)
    residual = nn.Sequential(
        conv_norm(in_channels, out_channels, 1, nn.ReLU),
        conv_norm(out_channels, out_channels, 3, nn.ReLU, stride=stride, groups=groups),
        conv_norm(out_channels, out_channels, 1),
    )
    shortcut = projection_shortcut(in_channels, out_channels, stride)
    return ResidualBlock(residual, shortcut, nn.ReLU())


class SqueezeExcitation(nn.Module):
    """x * sigmoid(W2 act(W1 mean(x) + b1) + b2), the mean over pixels (Hu et al. 2018, eq. 2-4).

    W1 maps the channels to `squeezed` ones, at least two.
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
            self.left = basic_block(in_channels, out_channels, stride)
            self.right = basic_block(out_channels, out_channels, 1)
        else:
            self.left = AggregationTree(in_channels, out_channels, stride, level - 1)
            self.right = AggregationTree(out_channels, out_channels, 1, level - 1)
        self.root = conv_norm(2 * out_channels, out_channels, 1, nn.ReLU)

    def forward(self, x):
        left = self.left(x)
        return self.root(torch.cat((left, self.right(left)), dim=1))


# Each stage: channels, blocks, stride of the first block.
STAGES_18 = ((64, 2, 1), (128, 2, 2), (256, 2, 2), (512, 2, 2))
STAGES_34 = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
STAGES_REGNET = ((24, 1, 1), (56, 1, 1), (152, 4, 2), (368, 7, 2))
STAGES_DLA = ((64, 1, 1, 1), (128, 1, 2, 2), (256, 1, 2, 2), (512, 1, 2, 1))  # and the level

# With 11,173,962, 21,282,122, 11,260,354, 2,321,946 and 15,142,970 parameters at ten classes.
register_blocks("ResNet18", stem=[64], block=basic_block, stages=STAGES_18)
register_blocks("ResNet34", stem=[64], block=basic_block, stages=STAGES_34)
register_blocks("SENet18", stem=[64], block=PreActivationSEBlock, stages=STAGES_18)
register_blocks(
    "RegNetX_200MF", stem=[64], block=x_block, stages=STAGES_REGNET, divisor=GROUP_WIDTH
)
register_blocks("SimpleDLA", stem=[16, 16, 32], block=AggregationTree, stages=STAGES_DLA)
