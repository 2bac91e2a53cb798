"""Networks by name: the registry and `build_network`."""

import inspect
import os
import pkgutil
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from rc_utils.evaluation import own_random_state
from rc_utils.validation import check_count, check_name, check_number, require

NETWORKS: dict[str, Callable[..., nn.Module]] = {}
"""Registered name -> class or function that builds the network."""


def is_ours(function: Any) -> bool:
    """Whether a network or a measure is of this package, and not a reader's."""
    return getattr(function, "__module__", "").startswith("rc_utils.")


def register_network(name: str) -> Callable[[Any], Any]:
    """Decorate a class or function that `build_network(name)` is to call.

    Raises ValueError for a name of the paper's networks.
    """

    def register(builder):
        allowed = is_ours(builder) or not is_ours(NETWORKS.get(name))
        require(allowed, f"network {name!r} is the paper's: give yours another name")
        NETWORKS[name] = builder
        return builder

    return register


def build_network(
    name: str,
    *,
    num_classes: int = 10,
    in_channels: int = 3,
    image_size: int = 32,
    width: float | None = None,
    seed: int = 0,
    **options: Any,
) -> nn.Module:
    """A new network: (N, in_channels, image_size, image_size) -> logits (N, num_classes).

    `name` is a key of `NETWORKS` or "module:Class" for a class of your own, which gets those of
    num_classes, in_channels, image_size and width that its signature names, and num_classes if it
    takes any key. The nine image networks take any image of at least 8 x 8. Width 64 is the
    published network, and the default if your class has none; width w has w / 64 times the channels
    in every layer, at least one. The MLP, and a class that names no width, are built without it.
    `options` are the network's own. Weights are PyTorch's default initialisation drawn from `seed`;
    the same seed gives the same bits and the global random state stays as it was.

    Raises ValueError for an unknown network or option (with the nearest valid name), a size that is
    not positive and a seed that is no integer from 0 to 2^63 - 1. A class of your own that cannot
    be imported or needs another argument raises ModuleNotFoundError, AttributeError or TypeError.
    """
    shape: dict[str, float] = {"num_classes": num_classes, "in_channels": in_channels}
    shape |= {"image_size": image_size}
    parameters = check_network(name, **options)
    if width is not None:
        shape["width"] = width
    elif "width" in parameters and parameters["width"].default is inspect.Parameter.empty:
        shape["width"] = 64
    for key, value in shape.items():
        check_number(key, value, 0, above=True)
    check_count("seed", seed, 0)
    given = {key: value for key, value in shape.items() if key in parameters}
    if takes_any_key(parameters):  # as the networks of torchvision
        given["num_classes"] = num_classes
    with own_random_state(seed=seed):
        return find_builder(name)(**given, **options)


def check_network(name: str, **options: Any) -> Mapping[str, inspect.Parameter]:
    """Parameters of what builds the network; ValueError for an unknown network or option."""
    parameters = inspect.signature(find_builder(name)).parameters
    for key in options:
        if key == "width" or not takes_any_key(parameters):  # it might be lost
            check_name(f"option of network {name!r}", key, parameters)
    check_number("width", options.get("width", 64), 0, above=True)
    return parameters


def takes_any_key(parameters: Mapping[str, inspect.Parameter]) -> bool:
    """Whether a function with these parameters has one like **options."""
    return any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def find_builder(name: str) -> Callable[..., nn.Module]:
    """The class or function of a registered name, or that "package.module:Class" names."""
    if ":" not in name:
        check_name("network", name, [*NETWORKS, "module:Class"])
        return NETWORKS[name]
    path = list(sys.path)
    sys.path.insert(0, os.getcwd())  # Dask's workers do not look there by themselves
    try:
        target = pkgutil.resolve_name(name)
    finally:
        sys.path[:] = path
    made = typing.get_type_hints(target).get("return") if inspect.isfunction(target) else target
    # Nothing else is called: a name in somebody's campaign must not run any function there is.
    if not (isinstance(made, type) and issubclass(made, nn.Module)):
        expected = "a subclass of torch.nn.Module, or a function annotated as returning one"
        raise TypeError(f"network {name!r} is {target!r}: expected {expected}")
    return target
