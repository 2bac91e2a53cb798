"""Find a network outside this package by its name "module:Class"."""

import hashlib
import importlib
import importlib.util
import os
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from torch import nn

# Name that a module gets for the hash of the file that it was loaded from.
_LOADED = "_rc_utils_loaded_from"
# Files that have changed since may be others than what was imported before; when that was nobody knows.
_STARTED = time.time()


def find_user_network(name: str) -> Callable[..., nn.Module]:
    """The class (or function that returns a module) which "package.module:Class" names.

    The module may lie in the current working directory or anywhere Python finds modules. One whose file was
    edited since this function last found it is loaded again; the modules that it imports are not. Raises
    ModuleNotFoundError where there is no such module, AttributeError where it has no such class, TypeError
    where that is no `torch.nn.Module`. An error inside the user's module comes through as it is.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute.isidentifier():
        raise ValueError(f'network {name!r} is not of the form "module:Class", such as "my_module:MyNet"')
    module = _import_module(module_name, name)
    if not hasattr(module, attribute):
        candidates = sorted(key for key, value in vars(module).items() if _is_network_class(value))
        raise AttributeError(
            f"network {name!r}: {getattr(module, '__file__', module_name)} has no {attribute!r}; "
            f"its torch.nn.Module classes are {', '.join(candidates) or 'none'}"
        )
    target = getattr(module, attribute)
    is_function = callable(target) and not isinstance(target, (type, nn.Module))
    if not (_is_network_class(target) or is_function):
        raise TypeError(
            f"network {name!r} is {target!r}: expected a class derived from torch.nn.Module, or a function that "
            "returns one"
        )
    return target


def source_hash(name: str) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of the file that the network "module:Class" is loaded from.

    Raises ValueError for a module without a file, and as `find_user_network`.
    """
    find_user_network(name)
    digest = getattr(sys.modules[name.split(":")[0]], _LOADED)
    if not digest:
        raise ValueError(f"network {name!r} is of a module without a file: write it to one, so that edits are noticed")
    return digest


def _file_hash(module: ModuleType) -> str:
    path = getattr(module, "__file__", None)
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16] if path else ""


def _is_network_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module)


def _import_module(module_name: str, network_name: str) -> ModuleType:
    if module_name.startswith("."):
        raise ModuleNotFoundError(f'network {network_name!r}: expected "module:Class", as in an import, not a path')
    importlib.invalidate_caches()
    try:
        with _working_directory_first():
            module = sys.modules.get(module_name)
            if module is None:
                _forget_bytecode(importlib.util.find_spec(module_name))
                module = importlib.import_module(module_name)
            elif _was_edited(module):
                _forget_bytecode(module.__spec__)
                module = importlib.reload(module)
            setattr(module, _LOADED, _file_hash(module))
            return module
    except ModuleNotFoundError as error:
        is_asked_for = error.name == module_name or module_name.startswith(f"{error.name}.")
        if not is_asked_for:
            raise
        raise ModuleNotFoundError(
            f"network {network_name!r}: no module {error.name!r} in {os.getcwd()} or on Python's path; expected "
            '"module:Class" without ".py", run from the folder that holds the module',
            name=error.name,
        ) from error


def _was_edited(module: ModuleType) -> bool:
    """Whether a module's file is another than it was loaded from; one that somebody else imported, since we started."""
    path = getattr(module, "__file__", None)
    if path is None or module.__name__ == "__main__" or _is_installed(path):
        return False
    if _LOADED in vars(module):
        return vars(module)[_LOADED] != _file_hash(module)
    return os.stat(path).st_mtime >= _STARTED


def _is_installed(path: str) -> bool:
    """Whether a file belongs to a library."""
    return any(Path(path).is_relative_to(sysconfig.get_path(kind)) for kind in ("purelib", "platlib", "stdlib"))


def _forget_bytecode(spec: ModuleSpec | None) -> None:
    """Remove a module's bytecode, which Python takes for that of an edit of equal length within the same second."""
    if spec is not None and spec.cached and not _is_installed(spec.cached):
        with suppress(OSError):
            Path(spec.cached).unlink()


@contextmanager
def _working_directory_first() -> Iterator[None]:
    """Look for modules in the working directory first, inside this block only."""
    before = list(sys.path)
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path[:] = before
