"""The paper's nine architectures on small images, and a multilayer perceptron.

Every network is made of `torch.nn` modules, `+`, `*` and `torch.cat`, with no control flow that
depends on data, so that `torch.fx.symbolic_trace` sees a graph of known operations, and no
activation in place: a hook or an FX interpreter may keep every intermediate value.

ResNet: He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition, CVPR 2016, Table 1, with
the 7x7 stem and its max-pool replaced by a 3x3 stem at stride 1.
SENet: Hu, Shen, Sun: Squeeze-and-Excitation Networks, CVPR 2018, on the blocks of He, Zhang, Ren,
Sun: Identity Mappings in Deep Residual Networks, ECCV 2016.
SimpleDLA: Yu, Wang, Shelhamer, Darrell: Deep Layer Aggregation, CVPR 2018, Sec. 3.2. Simplified: a
tree's root sees its two subtrees only, not the ancestors' outputs that Fig. 2 f routes into it.
RegNet: Radosavovic, Kosaraju, Girshick, He, Dollar: Designing Network Design Spaces, CVPR 2020,
its X block and RegNetX-200MF, with a 3x3 stem of 64 channels and strides 1 1 2 2.
MobileNetV2: Sandler, Howard, Zhu, Zhmoginov, Chen: Inverted Residuals and Linear Bottlenecks, CVPR
2018, Table 2. The CIFAR form: stride 1 in the stem and in the 24-channel stage, ReLU instead of
ReLU6, and a projection on the shortcut where a stride-1 block changes the number of channels.
EfficientNetB0: Tan, Le: Rethinking Model Scaling for Convolutional Neural Networks, ICML 2019,
Table 1. The CIFAR form: stride 1 in the stem, strides 2 in stages 3, 4, 5 and 7, no head of 1280
channels.
ShuffleNetV2: Ma, Zhang, Zheng, Sun: Practical Guidelines for Efficient CNN Architecture Design,
ECCV 2018, Table 5, with a 3x3 stem at stride 1 and no max-pool.
VGG19: Simonyan, Zisserman: Very Deep Convolutional Networks for Large-Scale Image Recognition, ICLR
2015, Table 1, column E, with batch normalisation after each convolution and one linear layer
instead of three.
"""

import torch
from torch import nn

from rc_utils.networks.registry import register_network

PUBLISHED_WIDTH = 64
GROUP_WIDTH = 8  # channels of each group of RegNet's 3x3 convolutions, whatever the width
# Squeeze-and-excitation: channels of SENet's block, and of EfficientNet's input, per squeezed one.
SENET_REDUCTION, EFFICIENTNET_REDUCTION = 16, 4


def scale_channels(channels, width, divisor=1):
    """Published channels times `width` / 64, to the nearest non-zero multiple of `divisor`."""
    multiple = int(channels * width / PUBLISHED_WIDTH / divisor + 0.5)
    return divisor * max(1, multiple)


def conv_norm(in_channels, out_channels, kernel_size, activation=None, *, stride=1, groups=1):
    """Convolution without bias that keeps the size at stride 1, batch norm, optional activation."""
    options = {"stride": stride, "padding": kernel_size // 2, "groups": groups, "bias": False}
    convolution = nn.Conv2d(in_channels, out_channels, kernel_size, **options)
    layers = nn.Sequential(convolution, nn.BatchNorm2d(out_channels))
    return layers if activation is None else layers.append(activation())


class ImageClassifier(nn.Module):
    """Feature maps, mean over pixels, linear: (N, C, H, W) -> logits (N, num_classes)."""

    def __init__(self, features, channels, num_classes):
        super().__init__()
        self.features = nn.Sequential(*features)
        linear = nn.Linear(channels, num_classes)
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear)

    def forward(self, x):
        return self.classifier(self.features(x))


def network_of_blocks(
    num_classes, in_channels, width, stem, block, stages, head=None, divisor=1, activation=nn.ReLU
):
    """3x3 convolutions, stages of blocks, a 1x1 convolution to `head` channels, a classifier.

    stem: the published channels of each convolution. stages: (published channels, number of blocks,
    stride of the first, further arguments of `block`); block: makes one from its input and output
    channels, stride and these. divisor: the channels of a stage are rounded to a multiple of it, or
    left as they are if they are fewer.
    """
    layers, channels = [], in_channels
    for published in stem:
        layers.append(conv_norm(channels, scale_channels(published, width), 3, activation))
        channels = scale_channels(published, width)
    for published, depth, first_stride, *settings in stages:
        whole = min(divisor, scale_channels(published, width))
        out_channels = scale_channels(published, width, whole)
        for stride in [first_stride] + [1] * (depth - 1):
            layers.append(block(channels, out_channels, stride, *settings))
            channels = out_channels
    if head is not None:
        layers.append(conv_norm(channels, scale_channels(head, width), 1, activation))
        channels = scale_channels(head, width)
    return ImageClassifier(layers, channels, num_classes)


class ResidualBlock(nn.Module):
    """activation(residual(x) + shortcut(x)); shortcut and activation may be None."""

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
            SqueezeExcitation(out_channels, out_channels // SENET_REDUCTION),
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


class DropConnect(nn.Dropout3d):
    """In training drop whole samples with probability `p`, divide others by 1 - p.

    Huang, Sun, Liu, Sedra, Weinberger: Deep Networks with Stochastic Depth, ECCV 2016.
    """

    def forward(self, x):
        # As the channels of a single volume, of which Dropout3d drops whole ones.
        return super().forward(x.unsqueeze(0)).squeeze(0)


def mb_conv(in_channels, out_channels, stride, expansion, kernel_size):
    """Inverted residual with squeeze-and-excitation and swish (Tan, Le, Sec. 4).

    At expansion 1 no convolution expands. The shortcut exists where the shape stays.
    """
    expanded = expansion * in_channels
    residual = nn.Sequential(
        conv_norm(expanded, expanded, kernel_size, nn.SiLU, stride=stride, groups=expanded),
        SqueezeExcitation(expanded, in_channels // EFFICIENTNET_REDUCTION, nn.SiLU),
        conv_norm(expanded, out_channels, 1),
    )
    if expansion != 1:  # made last: modules draw their initial weights in the order of creation
        residual.insert(0, conv_norm(in_channels, expanded, 1, nn.SiLU))
    if stride != 1 or in_channels != out_channels:
        return ResidualBlock(residual, None)
    return ResidualBlock(residual.append(DropConnect(0.0)), nn.Identity())


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


# Each stage: channels, blocks, stride of the first block; then what the block takes beside.
STAGES_18 = ((64, 2, 1), (128, 2, 2), (256, 2, 2), (512, 2, 2))
STAGES_34 = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
REGNET_STAGES = ((24, 1, 1), (56, 1, 1), (152, 4, 2), (368, 7, 2))
DLA_STAGES = ((64, 1, 1, 1), (128, 1, 2, 2), (256, 1, 2, 2), (512, 1, 2, 1))  # level of the tree
SHUFFLENET_STAGES = ((116, 4, 2), (232, 8, 2), (464, 4, 2))
MOBILENET_STAGES = (  # expansion
    (16, 1, 1, 1), (24, 2, 1, 6), (32, 3, 2, 6), (64, 4, 2, 6),
    (96, 3, 1, 6), (160, 3, 2, 6), (320, 1, 1, 6),
)  # fmt: skip
EFFICIENTNET_STAGES = (  # expansion, kernel size
    (16, 1, 1, 1, 3), (24, 2, 2, 6, 3), (40, 2, 2, 6, 5), (80, 3, 2, 6, 3),
    (112, 3, 1, 6, 5), (192, 4, 2, 6, 5), (320, 1, 1, 6, 3),
)  # fmt: skip
VGG_STAGES = ((2, 64), (2, 128), (4, 256), (4, 512), (4, 512))  # convolutions, channels


def register_blocks(name, *parts):
    """Register the `network_of_blocks` with these parts under a name."""

    @register_network(name)
    def build(*, num_classes, in_channels, width) -> ImageClassifier:
        return network_of_blocks(num_classes, in_channels, width, *parts)


# Stem, block, stages, head, divisor; the number of parameters is at ten classes.
register_blocks("ResNet18", [64], basic_block, STAGES_18)  # 11,173,962
register_blocks("ResNet34", [64], basic_block, STAGES_34)  # 21,282,122
register_blocks("SENet18", [64], PreActivationSEBlock, STAGES_18)  # 11,260,354
register_blocks("RegNetX_200MF", [64], x_block, REGNET_STAGES, None, GROUP_WIDTH)  # 2,321,946
register_blocks("SimpleDLA", [16, 16, 32], AggregationTree, DLA_STAGES)  # 15,142,970
register_blocks("MobileNetV2", [32], inverted_residual, MOBILENET_STAGES, 1280)  # 2,296,922
register_blocks("ShuffleNetV2", [24], ShuffleBlock, SHUFFLENET_STAGES, 1024, 2)  # 1,263,854


@register_network("EfficientNetB0")
def efficientnet_b0(
    *, num_classes, in_channels, width, dropout=0.2, drop_connect=0.2
) -> ImageClassifier:
    """16 MBConv blocks and a linear layer from 320 channels; 3,598,598 parameters at ten classes.

    The published CIFAR form counts 1,088 more: an expanding convolution in the first block that
    expansion 1 never uses. `dropout` is the rate before the linear layer. The rate of `DropConnect`
    grows linearly from 0 in the first block towards `drop_connect`. The public CIFAR code asks for
    0.2 as well, but never counts its blocks, so that its rate stays 0.
    """
    parts = ([32], mb_conv, EFFICIENTNET_STAGES)
    network = network_of_blocks(num_classes, in_channels, width, *parts, activation=nn.SiLU)
    if dropout:
        network.classifier.insert(2, nn.Dropout(dropout))
    blocks = network.features[1:]
    for index, block in enumerate(blocks):
        if block.shortcut is not None:
            block.residual[-1].p = drop_connect * index / len(blocks)
    return network


@register_network("VGG19")
def vgg19(*, num_classes, in_channels, width) -> ImageClassifier:
    """16 biased 3x3 convolutions in five stages, each with a max-pool; 20,040,522 parameters.

    At ten classes. The pools round the image size up: odd sizes keep their last row and column, and
    below 32 x 32 the late pools work on single pixels and change nothing.
    """
    layers, channels = [], in_channels
    for depth, published in VGG_STAGES:
        out_channels = scale_channels(published, width)
        for _ in range(depth):
            layers.append(nn.Conv2d(channels, out_channels, 3, padding=1))
            layers += [nn.BatchNorm2d(out_channels), nn.ReLU()]
            channels = out_channels
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    return ImageClassifier(layers, channels, num_classes)


@register_network("MLP")
class MLP(nn.Module):
    """ReLU network x -> W_L relu(... relu(W_1 x + b_1) ...) + b_L on flattened inputs.

    Input (N, in_channels, image_size, image_size), output (N, num_classes). `widths` are the hidden
    layers, none for a linear classifier; the width of the image networks has no part in it.
    """

    def __init__(self, *, num_classes, in_channels, image_size, widths=(64, 64)):
        super().__init__()
        layers, fan_in = [nn.Flatten()], in_channels * image_size**2
        for fan_out in widths:
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
            fan_in = fan_out
        self.layers = nn.Sequential(*layers, nn.Linear(fan_in, num_classes))

    def forward(self, x):
        return self.layers(x)
