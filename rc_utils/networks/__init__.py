"""The paper's nine architectures, a multilayer perceptron, and networks of one's own, by name."""

# Each registers its networks.
from rc_utils.networks import dla, efficientnet, mlp, mobilenet, regnet, resnet, senet, shufflenet, vgg  # noqa: F401
from rc_utils.networks.registry import NETWORKS, build_network, check_network, network_options, register_network

__all__ = ["NETWORKS", "build_network", "check_network", "network_options", "register_network"]
