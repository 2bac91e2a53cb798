"""The paper's nine architectures, a multilayer perceptron, and networks of one's own, by name."""

from rc_utils.networks import (  # noqa: F401  (each registers its networks)
    dla,
    efficientnet,
    mlp,
    mobilenet,
    regnet,
    resnet,
    senet,
    shufflenet,
    vgg,
)
from rc_utils.networks.registry import NETWORKS, build_network, check_network, network_options, register_network

__all__ = ["NETWORKS", "build_network", "check_network", "network_options", "register_network"]
