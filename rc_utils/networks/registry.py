"""Networks by name: the registry, its options, and `build_network`."""

import functools
import importlib
import inspect
import os
import sys
import sysconfig
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from rc_utils.checks import check_count, check_number, require, unknown_name

NetworkBuilder = Callable[..., nn.Module]
_Builder = TypeVar("_Builder", bound=NetworkBuilder)

NETWORKS: dict[str, NetworkBuilder] = {}
"""Registered name -> class or function that builds the network."""

SHAPE_ARGUMENTS = ("num_classes", "in_channels", "image_size", "width")
"""Arguments that `build_network` offers to every builder; each gets those that its signature names."""


def register_network(name: str) -> Callable[[_Builder], _Builder]:
    """Decorate a class or function so that `build_network(name)` builds it.

    Raises ValueError where `name` contains a colon or belongs to another builder. Defining the same
    builder again, as a notebook cell run twice does, replaces it.
    """
    kept = f"network name {name!r} contains ':', which is kept for \"module:Class\""
    require(":" not in name, kept)

    def register(builder: _Builder) -> _Builder:
        present = NETWORKS.get(name, builder)
        origins = [f"{one.__module__}.{one.__qualname__}" for one in (present, builder)]
        taken = f"network name {name!r} is taken by {origins[0]}: choose another"
        require(origins[0] == origins[1], taken)
        NETWORKS[name] = builder
        return builder

    return register


def build_network(
    name: str,
    *,
    num_classes: int = 10,
    in_channels: int = 3,
    image_size: int = 32,
    width: float = 64,
    seed: int = 0,
    **options: Any,
) -> nn.Module:
    """A new network: (N, in_channels, image_size, image_size) -> logits (N, num_classes).

    `name` is a key of `NETWORKS` or "module:Class" for a class of your own, which gets those of
    num_classes, in_channels, image_size and width that its signature names. The nine image networks
    take any image of at least 8 x 8. Width 64 is the published network; width w has w / 64 times
    the channels in every layer, at least one. `options` are the network's own, see
    `network_options`. Weights are PyTorch's default initialisation drawn from `seed`; the same seed
    gives the same bits and the global random state stays as it was.

    Raises ValueError for an unknown network or option (with the nearest valid name), a size that is
    not positive or a seed that is no integer from 0 to 2^63 - 1, and the errors of a module that
    cannot be imported: ModuleNotFoundError, AttributeError, TypeError.
    """
    shape = {"num_classes": num_classes, "in_channels": in_channels, "image_size": image_size}
    for key, value in shape.items():
        check_count(key, value, 1)
    check_number("width", width, 0, above=True)
    check_count("seed", seed, 0)
    builder = find_builder(name)
    arguments = _arguments(name, builder, shape | {"width": width}, options)
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would seed the GPUs as well, whose state is not forked here
        torch.default_generator.manual_seed(int(seed))
        network = builder(**arguments)
    if not isinstance(network, nn.Module):
        found = type(network).__name__
        raise TypeError(f"network {name!r} built {found!r}: expected a torch.nn.Module")
    return network


def network_options(name: str) -> dict[str, Any]:
    """The network's own options and their defaults.

    `inspect.Parameter.empty` stands for one that must be given.

    >>> network_options("EfficientNetB0")
    {'dropout': 0.2, 'drop_connect': 0.2}
    """
    named, _ = _parameters(find_builder(name))
    return {key: p.default for key, p in named.items() if key not in SHAPE_ARGUMENTS}


def check_network(name: str, **options: Any) -> None:
    """Raise what `build_network(name, **options)` would for an unknown network or option."""
    builder = find_builder(name)
    if "width" in options:
        check_number("width", options["width"], 0, above=True)
        named, takes_any = _parameters(builder)
        advice = "leave it out, or name it in the network's signature"
        require("width" in named or takes_any, f"network {name!r} takes no width: {advice}")
    own = {key: value for key, value in options.items() if key not in SHAPE_ARGUMENTS}
    _arguments(name, builder, {}, own)


def find_builder(name: str) -> NetworkBuilder:
    """The class or function of a registered name, or that "package.module:Class" names.

    The module may lie in the current folder or anywhere Python finds modules; it is imported, once
    in a process. Raises ValueError, ModuleNotFoundError, AttributeError, and TypeError for what
    makes no network; an error inside the module comes through as it is.
    """
    if ":" not in name:
        if name not in NETWORKS:
            raise unknown_name("network", name, [*NETWORKS, "module:Class"])
        return NETWORKS[name]
    module_name, _, attribute = name.partition(":")
    well_formed = module_name and not module_name.startswith(".") and attribute.isidentifier()
    form = f'network {name!r} is not of the form "module:Class", such as "my_module:MyNet"'
    require(well_formed, form)
    path = list(sys.path)
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name and not module_name.startswith(f"{error.name}."):
            raise  # of a module that the user's imports
        raise ModuleNotFoundError(
            f"network {name!r}: no module {error.name!r} in {os.getcwd()} or on Python's path; "
            'expected "module:Class" without ".py", run from the folder that holds the module'
        ) from error
    finally:
        sys.path[:] = path
    if not hasattr(module, attribute):
        classes = sorted(key for key, value in vars(module).items() if _is_network_class(value))
        raise AttributeError(
            f"network {name!r}: module {module_name} has no {attribute!r}; its torch.nn.Module "
            f"classes are {', '.join(classes) or 'none'}"
        )
    target = getattr(module, attribute)
    if not _makes_networks(target):
        raise TypeError(
            f"network {name!r} is {target!r}: expected a class derived from torch.nn.Module, or a "
            "function that returns one, and one of a library says so by its annotation"
        )
    return target


def _is_network_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module)


def _makes_networks(target: Any) -> bool:
    """Whether a class or function may be called: a name in somebody's campaign must not run a shell."""
    function = inspect.unwrap(target.func if isinstance(target, functools.partial) else target)
    if not inspect.isfunction(function):
        return _is_network_class(target)
    libraries = [sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib")]
    libraries.append(str(Path(__file__).parents[1]))
    file = Path(function.__code__.co_filename)
    if not any(file.is_relative_to(folder) for folder in libraries):
        return True
    try:
        return _is_network_class(typing.get_type_hints(function).get("return"))
    except (NameError, TypeError):  # annotations that cannot be read
        return False


def _arguments(name: str, builder: NetworkBuilder, shape: dict, options: dict) -> dict[str, Any]:
    """Keyword arguments for `builder`: those of `shape` that it names, and `options` once checked."""
    named, takes_any = _parameters(builder)
    own = [key for key in named if key not in SHAPE_ARGUMENTS]
    unknown = [key for key in options if key not in own]
    if unknown and not takes_any:
        valid = [*own, *(key for key in shape if key in named)]
        raise unknown_name(f"option of network {name!r}", unknown[0], valid)
    given = {key: value for key, value in shape.items() if key in named} | options
    missing = [k for k in own if named[k].default is inspect.Parameter.empty and k not in options]
    needed = f"network {name!r} needs the options {', '.join(missing)}: pass them by name"
    require(not missing, needed)
    return given


def _parameters(builder: NetworkBuilder) -> tuple[dict[str, inspect.Parameter], bool]:
    """The named parameters of a builder, and whether it takes any other name as well."""
    every = inspect.signature(builder).parameters.values()
    named = {p.name: p for p in every if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    return named, any(p.kind is p.VAR_KEYWORD for p in every)
