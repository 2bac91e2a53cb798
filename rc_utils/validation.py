"""Errors that name what is wrong, what is valid and what to do: for names, types and numbers."""

import collections.abc
import contextlib
import difflib
import functools
import inspect
import math
import numbers
import sys
import types
import typing

_hints_of, _signature_of = map(functools.cache, (typing.get_type_hints, inspect.signature))


def require(condition, message):
    """Raise ValueError(message) unless `condition`."""
    if not condition:
        raise ValueError(message)


def unknown_name(kind, name, valid):
    """ValueError that names an unknown `kind`, its nearest valid neighbour and all valid names."""
    valid = sorted(map(str, valid)) or ["none"]
    close = difflib.get_close_matches(str(name), valid, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return ValueError(f"unknown {kind} {name!r}.{hint} Valid: {', '.join(valid)}")


def check_name(kind, name, valid):
    """Raise ValueError unless `name` is one of the valid names of a `kind`."""
    if name not in list(valid):  # in a list: a wrong name may be unhashable
        raise unknown_name(kind, name, valid)


def check_keys(where, given, valid):
    """Raise ValueError if `given`, the table that `where` names, has a key outside `valid`."""
    for key in given:
        check_name(f"key in {where}", key, valid)


def _is_finite(value):
    if isinstance(value, numbers.Rational):  # which may be beyond all floats
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return isinstance(value, numbers.Real) and math.isfinite(value)


def check_number(name, value, minimum, above=False):
    """Raise ValueError unless `value` is a finite number of at least `minimum`, or above it."""
    fits = _is_finite(value) and (value > minimum if above else value >= minimum)
    bound = "above" if above else "of at least"
    require(fits, f"{name}={value!r}; expected a finite number {bound} {minimum:g}")


def check_count(name, value, minimum):
    """`value` as an int; ValueError unless it is an integer from `minimum` to 2^63 - 1."""
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    fits = is_integer and minimum <= value < 2**63
    require(fits, f"{name}={value!r}; expected an integer of at least {minimum} and below 2^63")
    return int(value)


def settings_from_dict(cls, values, where, **others):
    """Instance of the dataclass `cls` from a mapping, such as a table of a TOML file.

    others: values of further fields, which the mapping may not have. Raises ValueError for a key
    that is unknown, missing or of a wrong type; the message begins with `where`.
    """
    require(isinstance(values, dict), f"{where} must be a table, got {values!r}")
    return cls(**check_arguments(cls, values, where, others), **others)


def check_arguments(function, values, where, without=()):
    """`values` as arguments of `function`, their keys and types checked; `without` come later."""
    hints = _hints_of(function)
    check_keys(where, values, hints.keys() - {"return", *without})
    checked = {key: checked_value(v, hints[key], f"{where}.{key}") for key, v in values.items()}
    with naming(where):
        _signature_of(function).bind(**checked, **dict.fromkeys(without))
    return checked


def checked_value(value, hint, where):
    """The value, a float where `hint` asks for one; ValueError for another type, NaN, infinity."""
    if not _fits(value, hint):
        name = hint.__name__ if isinstance(hint, type) else str(hint)
        name = name.replace("float", "finite float")
        raise ValueError(f"{where} must be of type {name}, got {value!r} ({type(value).__name__})")
    wanted = typing.get_args(hint) or (hint,)
    if type(value) is int and float in wanted and int not in wanted:
        return float(value)
    return value


def _fits(value, hint):
    """Whether `value` is of type `hint`; a list does for a tuple, a whole number for a float."""
    kind, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind in (types.UnionType, typing.Union):
        return any(_fits(value, option) for option in inner)
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float) and _is_finite(value)
    if kind in (list, tuple, collections.abc.Sequence):
        is_list = isinstance(value, list | tuple)
        return is_list and all(_fits(item, inner[0]) for item in value if inner)
    if kind is dict and inner:
        return isinstance(value, dict) and all(_fits(v, inner[1]) for v in value.values())
    return isinstance(value, kind)


@contextlib.contextmanager
def naming(where):
    """Turn an error caused by a reader's value into a ValueError that says where the value is."""
    try:
        yield
    except (ValueError, TypeError, ImportError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"{where}: {error}") from error
