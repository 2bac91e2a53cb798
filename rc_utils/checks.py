"""Messages for wrong names and settings: what was given, what is nearest, what is valid."""

import dataclasses
import difflib
import types
import typing


def unknown_name(kind, name, valid):
    """ValueError that names an unknown `kind`, its nearest valid neighbour and all valid names."""
    valid = sorted(str(v) for v in valid)
    close = difflib.get_close_matches(str(name), valid, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return ValueError(f"unknown {kind} {name!r}.{hint} Valid: {', '.join(valid)}")


def check_keys(where, given, valid):
    """Raise ValueError if the mapping `given` has a key outside `valid`; `where` names the table."""
    for key in given:
        if key not in valid:
            raise unknown_name(f"key in {where}", key, valid)


def settings_from_dict(cls, values, where):
    """Frozen dataclass `cls` from a mapping; unknown keys and values of another type fail, naming the key."""
    fields = {f.name: f for f in dataclasses.fields(cls)}
    check_keys(where, values, fields)
    hints = typing.get_type_hints(cls)
    return cls(**{key: _coerce(value, hints[key], f"{where}.{key}") for key, value in values.items()})


def _coerce(value, hint, where):
    if isinstance(hint, types.UnionType):
        if value is None and type(None) in typing.get_args(hint):
            return None
        hint = next(t for t in typing.get_args(hint) if t is not type(None))
    wanted = typing.get_origin(hint) or hint
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if wanted is tuple and isinstance(value, list):
        return tuple(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise ValueError(f"{where} must be of type {wanted.__name__}, got {value!r} ({type(value).__name__})")
    return value


def require(condition, message):
    """Raise ValueError(message) unless `condition`."""
    if not condition:
        raise ValueError(message)
