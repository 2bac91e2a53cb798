"""Building blocks shared by the image networks.

Everything is made of `torch.nn` modules, `+`, `*` and `torch.cat`, with no control flow that depends on data,
so that `torch.fx.symbolic_trace` sees each network as a graph of known operations. Activations are not in
place: a forward hook or an FX interpreter may keep every intermediate value.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

PUBLISHED_WIDTH = 64


def scale_channels(channels: int, width: float, divisor: int = 1) -> int:
    """The published number of channels times `width` / 64, to the nearest non-zero multiple of `divisor`.

    `width` 64 returns `channels` where `divisor` divides it.
    """
    multiple = int(channels * width / PUBLISHED_WIDTH / divisor + 0.5)
    return divisor * max(1, multiple)


def staged(
    stages: Sequence[tuple[int, ...]],
    in_channels: int,
    width: float,
    block: Callable[..., nn.Module],
    divisor: int = 1,
) -> tuple[list[nn.Module], int]:
    """Blocks of stages (channels, blocks, stride of the first, *settings of the block), and their channels.

    divisor: the scaled channels of a stage are a multiple of it, where it has as many.
    """
    layers = []
    for published, depth, first_stride, *settings in stages:
        whole = min(divisor, scale_channels(published, width))
        out_channels = scale_channels(published, width, whole)
        for index in range(depth):
            stride = first_stride if index == 0 else 1
            layers.append(block(in_channels, out_channels, stride, *settings))
            in_channels = out_channels
    return layers, in_channels


def conv_norm(
    in_channels: int, out_channels: int, kernel_size: int, *, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """A convolution without bias that keeps the image size at stride 1, and batch normalisation.

    Input (N, in_channels, H, W), output (N, out_channels, ceil(H / stride), ceil(W / stride)): an image of
    one pixel stays an image of one pixel.
    """
    padding = kernel_size // 2
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(out_channels),
    )


def conv_norm_act(
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    *,
    stride: int = 1,
    groups: int = 1,
    activation: type[nn.Module] = nn.ReLU,
) -> nn.Sequential:
    """`conv_norm` followed by an activation; shapes as there."""
    layers = conv_norm(in_channels, out_channels, kernel_size, stride=stride, groups=groups)
    return layers.append(activation())


def projection_shortcut(in_channels: int, out_channels: int, stride: int) -> nn.Module:
    """The identity where the shape stays, else a normalised 1x1 convolution (He et al. 2016, option B)."""
    if stride == 1 and in_channels == out_channels:
        return nn.Identity()
    return conv_norm(in_channels, out_channels, 1, stride=stride)


class SqueezeExcitation(nn.Module):
    """x * sigmoid(W2 act(W1 mean(x) + b1) + b2), the mean over the pixels (Hu et al. 2018, eq. 2-4).

    Shape (N, channels, H, W) in and out. W1 maps to `squeezed` channels, at least two. The two maps are linear
    layers: on one pixel a 1x1 convolution is the same function of the same parameters.
    """

    def __init__(self, channels: int, squeezed: int, activation: type[nn.Module] = nn.ReLU):
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

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


class DropConnect(nn.Module):
    """Drop a residual branch for whole samples with probability `rate` in training (Huang et al. 2016).

    Kept samples are divided by 1 - rate, so that the expectation is the input. The identity in evaluation
    mode.
    """

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return x
        keep = 1 - self.rate
        mask = torch.empty_like(x[:, :1, :1, :1]).bernoulli_(keep)
        return x * (mask / keep)


class ImageClassifier(nn.Module):
    """Feature maps, mean over the pixels, dropout, linear layer: (N, C, H, W) -> logits (N, num_classes).

    The mean is over whatever size the feature maps have. At 32 x 32 input that is the fixed average pool of
    the published networks.
    """

    def __init__(self, features: nn.Module, feature_channels: int, num_classes: int, dropout: float = 0.0):
        super().__init__()
        self.features = features
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        if dropout:
            self.classifier.append(nn.Dropout(dropout))
        self.classifier.append(nn.Linear(feature_channels, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))
