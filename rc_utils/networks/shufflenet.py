"""ShuffleNetV2 x1 for small images.

Ma, Zhang, Zheng, Sun: ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture Design, ECCV 2018,
Table 5, with a 3x3 stem at stride 1 and no max-pool.
"""

import torch
from torch import Tensor, nn

from rc_utils.networks.layers import ImageClassifier, conv_norm, conv_norm_act, scale_channels
from rc_utils.networks.registry import register_network

# (channels, blocks with the one that halves the image size)
STAGES = ((116, 4), (232, 8), (464, 4))


def shuffle_halves(x: Tensor) -> Tensor:
    """Interleave the two halves of the channels, h and c to place 2 c + h. Shape (N, C, H, W), C even."""
    return x.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)


class ShuffleBlock(nn.Module):
    """Half the channels pass, half are convolved, then both are shuffled (Ma et al., Fig. 3 c)."""

    def __init__(self, channels: int):
        super().__init__()
        half = channels // 2
        self.branch = nn.Sequential(
            conv_norm_act(half, half, 1), conv_norm(half, half, 3, groups=half), conv_norm_act(half, half, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        halves = x.chunk(2, dim=1)
        return shuffle_halves(torch.cat((halves[0], self.branch(halves[1])), dim=1))


class DownsamplingShuffleBlock(nn.Module):
    """Two convolved branches at stride 2, half of `out_channels` each, then shuffled (Ma et al., Fig. 3 d)."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        half = out_channels // 2
        self.left = nn.Sequential(
            conv_norm(in_channels, in_channels, 3, stride=2, groups=in_channels),
            conv_norm_act(in_channels, half, 1),
        )
        self.right = nn.Sequential(
            conv_norm_act(in_channels, half, 1),
            conv_norm(half, half, 3, stride=2, groups=half),
            conv_norm_act(half, half, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return shuffle_halves(torch.cat((self.left(x), self.right(x)), dim=1))


@register_network("ShuffleNetV2")
def shufflenet_v2(*, num_classes: int = 10, in_channels: int = 3, width: float = 64) -> ImageClassifier:
    """Stem 24, stages 116, 232, 464 with 4, 8, 4 blocks, head 1024; 1,263,854 parameters at ten classes."""
    channels = scale_channels(24, width)
    layers = [conv_norm_act(in_channels, channels, 3)]
    for published, depth in STAGES:
        out_channels = scale_channels(published, width, divisor=2)
        layers.append(DownsamplingShuffleBlock(channels, out_channels))
        layers += [ShuffleBlock(out_channels) for _ in range(depth - 1)]
        channels = out_channels
    head = scale_channels(1024, width)
    layers.append(conv_norm_act(channels, head, 1))
    return ImageClassifier(nn.Sequential(*layers), head, num_classes)
