"""Checks of the numbers that describe a network; each error names the number."""

from numbers import Integral, Real


def check_positive_integer(**values: object) -> None:
    """Raise ValueError for the first keyword argument that is not an integer of at least 1."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} = {value!r}: expected a positive integer")


def check_positive(**values: object) -> None:
    """Raise ValueError for the first keyword argument that is not a number above 0."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Real) or not value > 0:
            raise ValueError(f"{name} = {value!r}: expected a positive number")


def check_rate(**values: object) -> None:
    """Raise ValueError for the first keyword argument that is not a probability below 1."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value < 1:
            raise ValueError(f"{name} = {value!r}: expected a number in [0, 1), 0 to switch it off")


def check_seed(seed: object) -> None:
    """Raise ValueError unless `seed` is an integer that every random generator takes."""
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= seed < 2**63:
        raise ValueError(f"seed = {seed!r}: expected an integer in 0..2^63 - 1")
