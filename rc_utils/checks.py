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
    allowed = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    allowed = tuple(typing.get_origin(kind) or kind for kind in allowed)
    if isinstance(value, bool):
        matches = bool in allowed
    elif isinstance(value, int) and float in allowed and int not in allowed:
        return float(value)
    else:
        matches = isinstance(value, allowed)
    if not matches:
        names = " or ".join(kind.__name__ for kind in allowed)
        raise ValueError(f"{where} must be of type {names}, got {value!r} ({type(value).__name__})")
    return value


def require(condition, message):
    """Raise ValueError(message) unless `condition`."""
    if not condition:
        raise ValueError(message)
