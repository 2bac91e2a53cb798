"""The paper's nine architectures, a multilayer perceptron, and networks of one's own, by name."""

from rc_utils.networks import architectures  # noqa: F401 - it registers its networks
from rc_utils.networks.registry import NETWORKS, build_network, register_network

__all__ = ["NETWORKS", "build_network", "register_network"]
