"""Find a network outside this package by its name "module:Class"."""

import functools
import hashlib
import importlib
import inspect
import os
import sys
import sysconfig
import time
import typing
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from torch import nn

# Name that a module gets for the hash of the file that it was loaded from.
_LOADED = "_rc_utils_loaded_from"
# Files that have changed since may be others than what was imported before; when that was nobody knows.
_STARTED = time.time()


def find_user_network(name: str) -> Callable[..., nn.Module]:
    """The class (or function that returns a module) which "package.module:Class" names.

    The module may lie in the current working directory or anywhere Python finds modules; it is imported. A function of
    a library is taken if its annotation says that it returns a module: a name such as "subprocess:run" in somebody's
    campaign calls nothing. A module whose file was edited since this function last found it is loaded again; the
    modules that it imports are not. Raises ModuleNotFoundError where there is no such module, AttributeError where it
    has no such class, TypeError where that is no `torch.nn.Module` and no such function. An error inside the user's
    module comes through as it is.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or module_name.startswith(".") or not attribute.isidentifier():
        raise ValueError(f'network {name!r} is not of the form "module:Class", such as "my_module:MyNet"')
    module = _import_module(module_name, name)
    if not hasattr(module, attribute):
        candidates = sorted(key for key, value in vars(module).items() if _is_network_class(value))
        raise AttributeError(
            f"network {name!r}: {getattr(module, '__file__', module_name)} has no {attribute!r}; "
            f"its torch.nn.Module classes are {', '.join(candidates) or 'none'}"
        )
    target = getattr(module, attribute)
    if not _is_network_class(target):
        _check_function(name, target)
    return target


def _check_function(name: str, target: Any) -> None:
    """Raise TypeError unless `target` is a function, and one of a library says that it makes a network.

    The name may come from somebody else's campaign, and its options with it: what it calls has to be a network.
    """
    function = inspect.unwrap(target.func if isinstance(target, functools.partial) else target)
    if isinstance(function, FunctionType) and not _is_of_library(function.__code__.co_filename):
        return
    try:
        made = typing.get_type_hints(function).get("return")
    except Exception:  # whatever has no annotations, or raises for them
        made = None
    if not isinstance(function, FunctionType) or not _is_network_class(made):
        raise TypeError(
            f"network {name!r} is {target!r}: expected a class derived from torch.nn.Module, or a function that "
            "returns one, and one of a library says so by its annotation"
        )


def source_hash(name: str) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of the file that the network "module:Class" is loaded from.

    Raises ValueError for a module without a file, and as `find_user_network`.
    """
    find_user_network(name)
    digest = vars(sys.modules[name.split(":")[0]])[_LOADED]
    if not digest:
        raise ValueError(f"network {name!r} is of a module without a file: write it to one, so that edits are noticed")
    return digest


def _is_network_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module)


def _import_module(module_name: str, network_name: str) -> ModuleType:
    """The module, looked for in the working directory first, and loaded again where its file was edited."""
    importlib.invalidate_caches()
    path = list(sys.path)
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
        _load_again_if_edited(module)
        return module
    except ModuleNotFoundError as error:
        if error.name != module_name and not module_name.startswith(f"{error.name}."):
            raise  # of a module that the user's imports
        raise ModuleNotFoundError(
            f"network {network_name!r}: no module {error.name!r} in {os.getcwd()} or on Python's path; expected "
            '"module:Class" without ".py", run from the folder that holds the module'
        ) from error
    finally:
        sys.path[:] = path


def _is_of_library(path: str) -> bool:
    """Whether a file belongs to a library or to this package, which may lie elsewhere."""
    folders = [sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib")]
    return any(Path(path).is_relative_to(folder) for folder in (*folders, Path(__file__).parents[1]))


def _load_again_if_edited(module: ModuleType) -> None:
    """Execute a module's file in it where that has changed: since we saw it, or since we started if somebody else did.

    From its source, since Python takes bytecode for that of an edit of equal length within the same second.
    """
    path = getattr(module, "__file__", None)
    source = Path(path).read_bytes() if path else b""
    digest = hashlib.sha256(source).hexdigest()[:16] if path else ""
    if path and module.__name__ != "__main__":
        known = vars(module).get(_LOADED)
        edited = known != digest if known else os.stat(path).st_mtime >= _STARTED
        if edited:
            exec(compile(source, path, "exec"), vars(module))
    setattr(module, _LOADED, digest)
