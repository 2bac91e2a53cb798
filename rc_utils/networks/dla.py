"""SimpleDLA: deep layer aggregation with binary trees, for small images.

Yu, Wang, Shelhamer, Darrell: Deep Layer Aggregation, CVPR 2018, Sec. 3.2. Simplified: a tree's root sees its
two subtrees only, not the ancestors' outputs that Fig. 2 f routes into it.
"""

import torch
from torch import Tensor, nn

from rc_utils.networks.layers import ImageClassifier, conv_norm_act, scale_channels
from rc_utils.networks.registry import register_network
from rc_utils.networks.resnet import BasicBlock

STEM_CHANNELS = (16, 16, 32)
# (channels, levels, stride)
TREES = ((64, 1, 1), (128, 2, 2), (256, 2, 2), (512, 1, 2))


class AggregationTree(nn.Module):
    """relu(norm(conv([left(x), right(left(x))]))): two subtrees in sequence, aggregated by a 1x1 convolution.

    At level 1 the subtrees are residual blocks. The first of them carries the stride.
    """

    def __init__(self, in_channels: int, out_channels: int, level: int, stride: int):
        super().__init__()
        if level == 1:
            self.left = BasicBlock(in_channels, out_channels, stride)
            self.right = BasicBlock(out_channels, out_channels)
        else:
            self.left = AggregationTree(in_channels, out_channels, level - 1, stride)
            self.right = AggregationTree(out_channels, out_channels, level - 1, 1)
        self.root = conv_norm_act(2 * out_channels, out_channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        left = self.left(x)
        return self.root(torch.cat((left, self.right(left)), dim=1))


@register_network("SimpleDLA")
def simple_dla(*, num_classes: int = 10, in_channels: int = 3, width: float = 64) -> ImageClassifier:
    """Convolutions 16 16 32, trees 64 128 256 512 of levels 1 2 2 1; 15,142,970 parameters at ten classes."""
    channels = in_channels
    layers: list[nn.Module] = []
    for published in STEM_CHANNELS:
        out_channels = scale_channels(published, width)
        layers.append(conv_norm_act(channels, out_channels, 3))
        channels = out_channels
    for published, level, stride in TREES:
        out_channels = scale_channels(published, width)
        layers.append(AggregationTree(channels, out_channels, level, stride))
        channels = out_channels
    return ImageClassifier(nn.Sequential(*layers), channels, num_classes)
