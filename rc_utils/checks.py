"""What every room rests on: messages that say what is wrong and what to do, where files lie, how they are written."""

import collections.abc
import contextlib
import dataclasses
import difflib
import functools
import math
import numbers
import os
import pathlib
import sys
import types
import typing
import uuid

_REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


def unknown_name(kind, name, valid):
    """ValueError that names an unknown `kind`, its nearest valid neighbour and all valid names."""
    valid = sorted(str(v) for v in valid)
    close = difflib.get_close_matches(str(name), valid, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return ValueError(f"unknown {kind} {name!r}.{hint} Valid: {', '.join(valid)}")


def check_name(kind, name, valid):
    """Raise ValueError unless `name` is one of the valid names of a `kind`."""
    if name not in list(valid):
        raise unknown_name(kind, name, valid)


def check_keys(where, given, valid):
    """Raise ValueError if the mapping `given` has a key outside `valid`; `where` names the table."""
    for key in given:
        check_name(f"key in {where}", key, valid)


def settings_from_dict(cls, values, where):
    """Frozen dataclass `cls` from a mapping; unknown and missing keys and ill-typed values fail, naming the key."""
    require(isinstance(values, dict), f"{where} must be a table, got {values!r}")
    fields = {f.name: f for f in dataclasses.fields(cls)}
    check_keys(where, values, fields)
    needed = [f.name for f in fields.values() if f.default is f.default_factory is dataclasses.MISSING]
    for name in needed:
        require(name in values, f"{where} has no {name!r}")
    hints = _type_hints(cls)
    return cls(**{key: checked_value(value, hints[key], f"{where}.{key}") for key, value in values.items()})


_type_hints = functools.cache(typing.get_type_hints)


def checked_value(value, hint, where):
    """`value`, as a float where `hint` asks for one; ValueError, naming `where`, for another type, NaN and infinity."""
    if not _fits(value, hint):
        name = (hint.__name__ if isinstance(hint, type) else str(hint)).replace("float", "finite float")
        raise ValueError(f"{where} must be of type {name}, got {value!r} ({type(value).__name__})")
    wants = typing.get_args(hint) or (hint,)
    return float(value) if type(value) is int and float in wants and int not in wants else value


def _fits(value, hint):
    """Whether a value from a file is of the type `hint`; a list may stand for a tuple, a whole number for a float."""
    kind, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind in (types.UnionType, typing.Union):
        return any(_fits(value, option) for option in inner)
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float) and abs(value) <= sys.float_info.max
    if kind in (list, tuple, collections.abc.Sequence):
        return isinstance(value, list | tuple) and all(_fits(item, inner[0]) for item in value if inner)
    if kind is dict and inner:
        return isinstance(value, dict) and all(_fits(item, inner[1]) for item in value.values())
    return isinstance(value, kind)


def check_count(name, value, minimum):
    """Raise ValueError unless `value` is an integer of at least `minimum` that 64 bits hold."""
    integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    require(integer and value >= minimum, f"{name}={value!r}; expected an integer of at least {minimum}")
    require(value < 2**63, f"{name}={value!r}; expected an integer below 2^63")


def is_finite_number(value):
    """Whether `value` is a real number, and neither infinite nor NaN."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def check_number(name, value, minimum, above=False):
    """Raise ValueError unless `value` is a finite number of at least `minimum`, or above it."""
    fits = is_finite_number(value) and (value > minimum if above else value >= minimum)
    require(fits, f"{name}={value!r}; expected a finite number {'above' if above else 'of at least'} {minimum:g}")


def require(condition, message):
    """Raise ValueError(message) unless `condition`."""
    if not condition:
        raise ValueError(message)


def write_atomically(path, content):
    """Write bytes to a temporary name beside `path`, flush them to the disk, rename.

    Raises OSError that names `path` and says what to do; what was there before is then as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        advice = "free disk space or make the folder writable, then run the same command again"
        raise OSError(error.errno, f"{error.strerror}; {advice}", str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def project_root():
    """The folder that holds `campaigns/`: the repository of this package, else the current folder."""
    return _REPOSITORY if (_REPOSITORY / "campaigns").is_dir() else pathlib.Path.cwd()


def campaigns_dir():
    """Folder of the campaigns; the environment variable RC_CAMPAIGNS names another."""
    return pathlib.Path(os.environ.get("RC_CAMPAIGNS") or project_root() / "campaigns")


def results_dir():
    """Folder of the records and weights made on this machine; RC_RESULTS names another."""
    return pathlib.Path(os.environ.get("RC_RESULTS") or project_root() / "results")


def print_lines(lines):
    """Print lines as they come, for as long as somebody reads them, which `head` does not."""
    try:
        for line in lines:
            print(line, flush=True)
    except BrokenPipeError:
        # Python writes what is left at its end, and would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
