"""The registry of benchmarks, how large they are, and the rows they give."""

import statistics
from dataclasses import dataclass

BENCHMARKS = {}


def benchmark(name):
    """Decorate a function (Scale) -> iterable of Row so that `python -m benchmarks --only name` runs it."""

    def register(function):
        BENCHMARKS[name] = function
        return function

    return register


@dataclass(frozen=True)
class Scale:
    """How much a benchmark measures.

    repeats: times each side is measured, in turns.
    grids: label grids of 30 x 30; fewer in higher dimensions.
    images: training images of an epoch.
    segments: segments of a region count, 200 points each.
    truth: segments of a network that are compared with a count that stands for the truth.
    triangles: of a network, likewise.
    many_segments: of region counts whose memory is compared.
    runs: of a campaign that does nothing.
    """

    repeats: int
    grids: int
    images: int
    segments: int
    truth: int
    triangles: int
    many_segments: tuple
    runs: int


FULL = Scale(
    repeats=7, grids=1000, images=1280, segments=100, truth=24, triangles=60,
    many_segments=(100, 1000, 10000), runs=10000,
)  # fmt: skip
QUICK = Scale(
    repeats=3,
    grids=1000,
    images=640,
    segments=20,
    truth=6,
    triangles=5,
    many_segments=(100,),
    runs=1000,
)
TINY = Scale(
    repeats=1, grids=12, images=48, segments=2, truth=2, triangles=1, many_segments=(20,), runs=20
)


@dataclass(frozen=True)
class Target:
    """Bound on the ratio: ">=" a limit on other / ours, or "<=" one on ours / other."""

    sign: str
    limit: float

    def __str__(self):
        return f"{self.sign} {self.limit:g}"


def at_least(limit):
    """Ours is to be `limit` times as fast as the other."""
    return Target(">=", limit)


def at_most(limit):
    """Ours is to take at most `limit` times the time of the other."""
    return Target("<=", limit)


@dataclass(frozen=True)
class Row:
    """One comparison: seconds of both sides, measured in turns, or what else `unit` says.

    The ratio of a turn is other / ours, or ours / other where the target is `at_most`; without a
    target it is other / ours.
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
    """a / b, where nothing is once as much as nothing."""
    return a / b if b else 1.0 if a == b else float("inf")
