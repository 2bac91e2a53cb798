"""Checks of the numbers that describe a network; each error names the number."""

from numbers import Real


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
