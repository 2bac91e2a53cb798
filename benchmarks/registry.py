"""The registry of benchmarks, their sizes, and the rows they yield."""

import statistics
from dataclasses import dataclass, replace
from typing import NamedTuple

BENCHMARKS = {}


def benchmark(name):
    """Register a function (Scale) -> iterable of Row, so that `--only name` runs it."""

    def register(function):
        BENCHMARKS[name] = function
        return function

    return register


@dataclass(frozen=True)
class Scale:
    """Size of a benchmark."""

    repeats: int  # times each side is measured, in turns
    grids: int  # label grids of 30 x 30; fewer in higher dimensions
    images: int  # training images per epoch
    segments: int  # of a region count, 200 points each
    truth: int  # segments per network, compared with a count taken as the truth
    triangles: int  # per network, likewise
    many_segments: tuple  # of region counts whose memory is compared
    runs: int  # of a campaign that does nothing


FULL = Scale(
    repeats=7, grids=1000, images=1280, segments=100, truth=24, triangles=60,
    many_segments=(100, 1000, 10000), runs=10000,
)  # fmt: skip
QUICK = replace(FULL, repeats=3, images=640, segments=20, truth=6, triangles=5)
QUICK = replace(QUICK, many_segments=(100,), runs=1000)
TINY = replace(FULL, repeats=1, grids=12, images=48, segments=2, truth=2, triangles=1)
TINY = replace(TINY, many_segments=(20,), runs=20)


class Target(NamedTuple):
    """Bound on the ratio: ">=" a limit on other / ours, or "<=" one on ours / other."""

    sign: str
    limit: float


def at_least(limit):
    """Require ours to be at least `limit` times as fast as the other."""
    return Target(">=", limit)


def at_most(limit):
    """Require ours to take at most `limit` times as long as the other."""
    return Target("<=", limit)


@dataclass(frozen=True)
class Row:
    """One comparison: seconds of both sides, measured in turns, or amounts of another `unit`.

    The ratio of a turn is other / ours, but ours / other where the target is `at_most`.
    """

    benchmark: str
    against: str
    ours: tuple
    other: tuple
    target: Target | None = None
    unit: str = "s"

    @property
    def ratios(self):
        """The ratio of each turn."""
        above, below = self.other, self.ours
        if self.target is not None and self.target.sign == "<=":
            above, below = below, above
        return [_quotient(a, b) for a, b in zip(above, below, strict=True)]

    @property
    def ratio(self):
        """Median over the turns."""
        return statistics.median(self.ratios)

    @property
    def verdict(self):
        """ "yes" or "NO": whether the median ratio meets the target; "-" without one."""
        if self.target is None:
            return "-"
        ratio, limit = self.ratio, self.target.limit
        return "yes" if (ratio >= limit if self.target.sign == ">=" else ratio <= limit) else "NO"


def _quotient(a, b):
    """a / b, with 0 / 0 = 1 and a / 0 = inf."""
    if a == b:
        return 1.0
    return a / b if b else float("inf")
