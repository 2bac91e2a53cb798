"""Layers that the image networks share, and networks without shortcuts: VGG19 and MLP.

Every network is made of `torch.nn` modules, `+`, `*` and `torch.cat`, with no control flow that
depends on data, so that `torch.fx.symbolic_trace` sees a graph of known operations, and no
activation in place: a hook or an FX interpreter may keep every intermediate value.

VGG19: Simonyan, Zisserman: Very Deep Convolutional Networks for Large-Scale Image Recognition, ICLR
2015, Table 1, column E, with batch normalisation after each convolution and one linear layer
instead of three.
"""

from torch import nn

from rc_utils.networks.registry import register_network

PUBLISHED_WIDTH = 64
# (convolutions, channels) between one max-pool and the next
VGG_STAGES = ((2, 64), (2, 128), (4, 256), (4, 512), (4, 512))


def scale_channels(channels, width, divisor=1):
    """Published channels times `width` / 64, to the nearest non-zero multiple of `divisor`."""
    multiple = int(channels * width / PUBLISHED_WIDTH / divisor + 0.5)
    return divisor * max(1, multiple)


def conv_norm(in_channels, out_channels, kernel_size, activation=None, *, stride=1, groups=1):
    """A convolution without bias that keeps the image's size at stride 1, a norm, an activation."""
    options = {"stride": stride, "padding": kernel_size // 2, "groups": groups, "bias": False}
    convolution = nn.Conv2d(in_channels, out_channels, kernel_size, **options)
    layers = nn.Sequential(convolution, nn.BatchNorm2d(out_channels))
    return layers if activation is None else layers.append(activation())


class ImageClassifier(nn.Module):
    """Feature maps, mean over pixels, dropout, linear: (N, C, H, W) -> logits (N, num_classes)."""

    def __init__(self, features, channels, num_classes, dropout=0.0):
        super().__init__()
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        if dropout:
            self.classifier.append(nn.Dropout(dropout))
        self.classifier.append(nn.Linear(channels, num_classes))

    def forward(self, x):
        return self.classifier(self.features(x))


def network_of_blocks(
    num_classes, in_channels, width, *, stem, block, stages, head=None, activation=nn.ReLU,
    divisor=1, dropout=0.0,
):  # fmt: skip
    """3x3 convolutions, stages of blocks, a 1x1 convolution to `head` channels, a classifier.

    stem: the published channels of each convolution. stages: (published channels, number of blocks,
    stride of the first, further arguments of `block`); block: makes one from its input and output
    channels, stride and these. divisor: the channels of a stage are a multiple of it, where it has
    as many.
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
    return ImageClassifier(layers, channels, num_classes, dropout)


def register_blocks(name, **parts):
    """Register the `network_of_blocks` with these parts under a name."""

    @register_network(name)
    def build(*, num_classes, in_channels, width) -> ImageClassifier:
        return network_of_blocks(num_classes, in_channels, width, **parts)


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
