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
    truth: segments and exact segments of a network that are compared with a count that stands for the truth.
    triangles: of a network, likewise.
    many_segments: of region counts whose memory is compared.
    runs: of a campaign that does nothing.
    """

    repeats: int
    grids: int
    images: int
    segments: int
    truth: tuple
    triangles: int
    many_segments: tuple
    runs: int


FULL = Scale(
    repeats=7, grids=1000, images=1280, segments=100, truth=(24, 3), triangles=60,
    many_segments=(100, 1000, 10000), runs=10000,
)  # fmt: skip
QUICK = Scale(
    repeats=3, grids=1000, images=640, segments=20, truth=(6, 1), triangles=5,
    many_segments=(100,), runs=1000,
)  # fmt: skip
TINY = Scale(
    repeats=1, grids=12, images=48, segments=2, truth=(2, 1), triangles=1,
    many_segments=(20,), runs=20,
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """What the ratio is to be: "faster" means other / ours >= limit, "costs" means ours / other <= limit."""

    kind: str
    limit: float

    def __str__(self):
        return f"{'>=' if self.kind == 'faster' else '<='} {self.limit:g}"

    def is_met(self, ratio):
        """Whether a ratio is on the right side of the limit."""
        return ratio >= self.limit if self.kind == "faster" else ratio <= self.limit


def at_least(limit):
    """Ours is to be `limit` times as fast as the other."""
    return Target("faster", limit)


def at_most(limit):
    """Ours is to take at most `limit` times the time of the other."""
    return Target("costs", limit)


@dataclass(frozen=True)
class Row:
    """One comparison: seconds of both sides, measured in turns, or what else `unit` says.

    The ratio of a turn is other / ours, or ours / other where the target is `at_most`; without a target it is
    other / ours.
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
        pairs = list(zip(self.ours, self.other, strict=True))
        if self.target is not None and self.target.kind == "costs":
            return [_quotient(ours, other) for ours, other in pairs]
        return [_quotient(other, ours) for ours, other in pairs]

    @property
    def ratio(self):
        """Median over the turns."""
        return statistics.median(self.ratios)

    @property
    def verdict(self):
        """ "yes" or "NO": whether the median ratio meets the target; "-" without one."""
        if self.target is None:
            return "-"
        return "yes" if self.target.is_met(self.ratio) else "NO"


def _quotient(a, b):
    """a / b, where nothing is once as much as nothing."""
    return a / b if b else 1.0 if a == b else float("inf")
