"""SENet18: squeeze-and-excitation on a pre-activation ResNet18.

Hu, Shen, Sun: Squeeze-and-Excitation Networks, CVPR 2018, on the blocks of He, Zhang, Ren, Sun: Identity
Mappings in Deep Residual Networks, ECCV 2016.
"""

from torch import Tensor, nn

from rc_utils.networks.layers import ImageClassifier, SqueezeExcitation
from rc_utils.networks.registry import register_network
from rc_utils.networks.resnet import residual_network

REDUCTION = 16  # channels for each squeezed one


class PreActivationSEBlock(nn.Module):
    """shortcut + s(F(z)) with z = relu(norm(x)), F two 3x3 convolutions and s squeeze-and-excitation.

    The shortcut is x itself, or a bare 1x1 convolution of z where the shape changes.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int):
        super().__init__()
        self.preactivation = nn.Sequential(nn.BatchNorm2d(in_channels), nn.ReLU())
        self.residual = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
            SqueezeExcitation(out_channels, out_channels // REDUCTION),
        )
        changes_shape = stride != 1 or in_channels != out_channels
        self.projection = nn.Conv2d(in_channels, out_channels, 1, stride, bias=False) if changes_shape else None

    def forward(self, x: Tensor) -> Tensor:
        activated = self.preactivation(x)
        shortcut = x if self.projection is None else self.projection(activated)
        return self.residual(activated) + shortcut


@register_network("SENet18")
def senet18(*, num_classes: int = 10, in_channels: int = 3, width: float = 64) -> ImageClassifier:
    """Blocks 2-2-2-2 of ResNet18's channels, no final normalisation; 11,260,354 parameters at ten classes."""
    return residual_network(PreActivationSEBlock, (2, 2, 2, 2), num_classes, in_channels, width)
