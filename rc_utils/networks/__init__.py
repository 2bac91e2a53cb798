"""The paper's nine architectures, small networks for the theory, and networks of one's own, by name."""

from rc_utils.networks.dla import simple_dla
from rc_utils.networks.efficientnet import efficientnet_b0
from rc_utils.networks.mlp import MLP, TwoLayerReLU
from rc_utils.networks.mobilenet import mobilenet_v2
from rc_utils.networks.registry import NETWORKS, build_network, check_network, network_options, register_network
from rc_utils.networks.regnet import regnetx_200mf
from rc_utils.networks.resnet import resnet18, resnet34
from rc_utils.networks.senet import senet18
from rc_utils.networks.shufflenet import shufflenet_v2
from rc_utils.networks.vgg import vgg19

__all__ = [
    "MLP",
    "NETWORKS",
    "TwoLayerReLU",
    "build_network",
    "check_network",
    "efficientnet_b0",
    "mobilenet_v2",
    "network_options",
    "register_network",
    "regnetx_200mf",
    "resnet18",
    "resnet34",
    "senet18",
    "shufflenet_v2",
    "simple_dla",
    "vgg19",
]
