"""How often the intervals of `rc_utils.correlation` hold the truth, on simulated campaigns of nine settings."""

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from tqdm import tqdm

from benchmarks.registry import benchmark
from rc_utils.correlation import (
    bootstrap,
    correlate,
    correlation_lead,
    mean,
    partial_correlation,
    proportion,
    slope,
    weighted_pearson,
    with_logs,
)

NUM_RESAMPLES = 400
TOLERANCE = 0.03
GRID = {"network": ["A", "B", "C"], "lr": [0.04, 0.02, 0.01], "batch_size": [25, 50, 100]}
FORMULA = "C(network) + log2_lr + log2_batch"
PARABOLA = "C(network) + log2_ratio + I(log2_ratio**2)"


@dataclass(frozen=True)
class Setting:
    """How campaigns are simulated: count x and gap y of each network and setting are jointly normal.

    rho: their correlation. shared: which part of the variance of both the networks have in common at a setting.
    lr_effect: what a doubling of the learning rate adds to both.
    """

    name: str
    rho: float
    shared: float = 0.0
    lr_effect: float = 0.0


SETTINGS = (
    Setting("no dependence", 0.0),
    Setting("dependence", 0.8),
    Setting("networks alike", 0.8, shared=0.7),
    Setting("lr matters", 0.5, shared=0.3, lr_effect=-1.0),
)


@dataclass(frozen=True)
class Coverage:
    """Shares of trials whose intervals held the truth: `ours`, and of a bootstrap over units, `other`.

    at_least: more than nominal is no fault, where the settings of a grid differ by design and are not drawn.
    """

    benchmark: str
    ours: float
    other: float
    trials: int
    at_least: bool = False

    @property
    def texts(self):
        """The columns of the report."""
        spread = stats.binomtest(round(self.ours * self.trials), self.trials).proportion_ci(method="wilson")
        target = f">= {0.95 - TOLERANCE:.0%}" if self.at_least else f"{0.95 - TOLERANCE:.0%}-{0.95 + TOLERANCE:.0%}"
        other = "-" if np.isnan(self.other) else f"{self.other:.1%}"
        return (
            self.benchmark, "bootstrap over units", f"{self.ours:.1%}", other, "-",
            f"{spread.low:.1%}-{spread.high:.1%}", target, "yes" if self.is_met else "NO",
        )  # fmt: skip

    @property
    def is_met(self):
        """Whether our share is within the tolerance of 95 %."""
        return self.ours >= 0.95 - TOLERANCE and (self.at_least or self.ours <= 0.95 + TOLERANCE + 1e-9)


@benchmark("coverage")
def coverage(scale):
    """Coverage of the 95 % intervals of each statistic, over nine settings of three networks."""
    for setting in SETTINGS:
        yield from coverage_of(setting, scale.trials)


def coverage_of(setting, trials, seed=0):
    """A `Coverage` for each statistic; the truth is what very many campaigns have together."""
    rng = np.random.default_rng(seed)
    truth, held = true_values(setting, rng), {}
    for trial in tqdm(range(trials), desc=setting.name, unit="trial", disable=None):
        rows = simulate(setting, rng)
        for name, found in estimates(rows, trial).items():
            held.setdefault(name, []).append(found.low <= truth[name.removesuffix(" (bootstrap)")] <= found.high)
    for name, hits in held.items():
        if not name.endswith("(bootstrap)"):
            other = np.mean(held.get(f"{name} (bootstrap)", [np.nan]))
            yield Coverage(
                f"{name}, {setting.name}", float(np.mean(hits)), float(other), trials, setting.lr_effect != 0
            )


def simulate(setting, rng, replicates=1):
    """Rows of a simulated campaign, one a network and setting; `replicates` of them beside each other."""
    grid = pd.DataFrame(itertools.product(range(replicates), *GRID.values()), columns=["replicate", *GRID])
    grid["setting"] = grid.groupby(["replicate", "lr", "batch_size"], sort=False).ngroup()
    common = rng.normal(size=(2, grid["setting"].nunique()))[:, grid["setting"]]
    own = rng.normal(size=(2, len(grid)))
    x, other = np.sqrt(setting.shared) * common + np.sqrt(1 - setting.shared) * own
    grid = with_logs(grid)
    effect = setting.lr_effect * (grid["log2_lr"] - grid["log2_lr"].mean())
    y = setting.rho * x + np.sqrt(1 - setting.rho**2) * other
    return grid.assign(count=x + effect, gap=y + effect, rival=rng.normal(size=len(grid)) + y)


def estimates(rows, seed):
    """The `Estimate` of each statistic, and of correlations that of a bootstrap beside Fisher's."""
    x, y, units = rows["count"].to_numpy(), rows["gap"].to_numpy(), rows["setting"].to_numpy()
    one = rows[rows["network"] == "A"]
    options = {"num_resamples": NUM_RESAMPLES, "seed": seed}
    return {
        "Pearson": correlate(x, y, units=units),
        "Pearson (bootstrap)": bootstrap(lambda w: weighted_pearson(x, y, w), units, **options),
        "Pearson, one network": correlate(one["count"], one["gap"]),
        "partial, given lr": partial_correlation(rows, "count", "gap", "C(lr)", units),
        "partial, given a parabola": partial_correlation(rows, "count", "gap", PARABOLA, units),
        "Spearman": correlate(x, y, "spearman", units),
        "Kendall": correlate(x, y, "kendall", units),
        "two correlations": correlation_lead(x, rows["rival"], y, units),
        "slope": slope(rows, f"count ~ {FORMULA}", "log2_lr", units),
        "slope, one network": slope(one, "count ~ log2_lr + log2_batch", "log2_lr", one["setting"]),
        "mean": mean(one["count"]),
        "share": proportion((one["count"] > 0).sum(), len(one)),
    }


def true_values(setting, rng, replicates=300):
    """The values of the statistics in very many settings."""
    rows = simulate(setting, rng, replicates)
    one = rows[rows["network"] == "A"]
    values = {"slope": setting.lr_effect, "slope, one network": setting.lr_effect, "mean": 0.0}
    values["Pearson"] = np.corrcoef(rows["count"], rows["gap"])[0, 1]
    values["Pearson, one network"] = np.corrcoef(one["count"], one["gap"])[0, 1]
    values["Spearman"] = stats.spearmanr(rows["count"], rows["gap"])[0]
    values["Kendall"] = stats.kendalltau(rows["count"], rows["gap"])[0]
    values["two correlations"] = values["Pearson"] - np.corrcoef(rows["rival"], rows["gap"])[0, 1]
    for name, formula in (("partial, given lr", "C(lr)"), ("partial, given a parabola", PARABOLA)):
        values[name] = partial_correlation(rows, "count", "gap", formula).value
    values["share"] = float((one["count"] > 0).mean())
    return values
