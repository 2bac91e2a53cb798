"""How often the intervals of the statistics page hold the truth, on simulated campaigns, against a plain bootstrap."""

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.registry import benchmark
from rc_utils.correlation import weighted_kendall, weighted_pearson, weighted_spearman
from rc_utils.pages.statistics import league, predictors
from rc_utils.pages.statistics.cells import cells_of, draw

NUM_RESAMPLES = 400
NUM_PERMUTATIONS = 40
TOLERANCE = 0.03
HELD = {
    "within_lr": ["lr"],
    "within_lr_network": ["lr", "network"],
    "within_all_but_batch": ["lr", "network", "weight_decay"],
}
STATISTICS = (*league.STATISTICS, *HELD, "beyond_settings")
# Their intervals are meant to hold the truth at least at the nominal rate.
CONSERVATIVE = ("worst_sign_error", "beyond_settings")
GRID = {"network": ["A", "B", "C"], "lr": [0.02, 0.014, 0.01], "batch_size": [25, 50, 100]}


@dataclass(frozen=True)
class Setting:
    """How campaigns are simulated: counts and gaps of cells are jointly normal.

    rho: correlation of count and gap between cells. lr_effect: what the logarithm of the learning rate adds to both,
    in standard deviations of cells. seeds: of each cell, with a noise of 0.3 in both. weight_decays: cells that repeat
    each setting of the grid but for the noise of their seeds. segment_error: the standard error of a count from its
    segments, half of its variance shared by all runs.
    """

    name: str
    rho: float
    lr_effect: float = 0.0
    seeds: int = 1
    weight_decays: int = 1
    segment_error: float = 0.15


SETTINGS = (
    Setting("no dependence", 0.0),
    Setting("one seed", 0.7),
    Setting("three seeds", 0.9, seeds=3),
    Setting("lr matters", 0.5, lr_effect=1.0),
    Setting("weight decay does nothing", 0.7, weight_decays=3),
)


@dataclass(frozen=True)
class Coverage:
    """Shares of trials whose intervals held the truth: `ours`, and of a plain percentile bootstrap over cells, `other`.

    at_least: more than nominal is no fault of this interval.
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
        return (
            self.benchmark, "percentile bootstrap over cells", f"{self.ours:.1%}", _percent(self.other), "-",
            f"{spread.low:.1%}-{spread.high:.1%}", target, "yes" if self.is_met else "NO",
        )  # fmt: skip

    @property
    def is_met(self):
        """Whether our share is within the tolerance of 95 %."""
        return self.ours >= 0.95 - TOLERANCE and (self.at_least or self.ours <= 0.95 + TOLERANCE)


def _percent(share):
    return "-" if np.isnan(share) else f"{share:.1%}"


@benchmark("coverage")
def coverage(scale):
    """Coverage of the 95 % intervals of each statistic over 27 cells, and over 81 of which three repeat each other."""
    for setting in SETTINGS:
        yield from coverage_of(setting, scale.trials)


def coverage_of(setting, trials, seed=0):
    """A `Coverage` for each statistic; the truth is that of a grid of very many cells, measured in the same way."""
    rng = np.random.default_rng(seed)
    truth = true_values(setting, rng)
    held = {statistic: [] for statistic in STATISTICS}
    for trial in range(trials):
        cells = simulate(setting, rng)
        ours, plain = our_intervals(cells, trial), plain_intervals(cells, rng)
        for s in STATISTICS:
            other = plain.get(s, (np.nan, np.nan))
            held[s].append([_holds(ours[s].low, ours[s].high, truth[s]), _holds(*other, truth[s])])
    for s, pairs in held.items():
        ours, other = np.mean(pairs, axis=0)
        yield Coverage(f"{s}, {setting.name}", float(ours), float(other), trials, s in CONSERVATIVE)


def _holds(low, high, value):
    return np.nan if np.isnan(low) else float(low <= value <= high)


def simulate(setting, rng, replicates=1, num_segments=50):
    """`Cells` of a simulated campaign, every setting of the grid `replicates` times."""
    grid = pd.DataFrame(itertools.product(range(replicates), *GRID.values()), columns=["replicate", *GRID])
    log_lr = np.log(grid["lr"])
    effect = setting.lr_effect * ((log_lr - log_lr.mean()) / log_lr.std()).to_numpy()
    normal = rng.normal(size=(2, len(grid)))
    latent = np.stack([normal[0], setting.rho * normal[0] + np.sqrt(1 - setting.rho**2) * normal[1]]) + effect
    latent = latent.repeat(setting.weight_decays, axis=1)
    grid = grid.merge(pd.DataFrame({"weight_decay": np.arange(setting.weight_decays)}), how="cross")
    n, seeds = len(grid), setting.seeds
    count, gap = (np.repeat(v, seeds) + 0.3 * rng.normal(size=n * seeds) for v in latent)
    noise = rng.normal(size=num_segments) + rng.normal(size=(n * seeds, num_segments))
    segments = count[:, None] + setting.segment_error * np.sqrt(num_segments / 2) * noise
    runs = grid.loc[np.repeat(np.arange(n), seeds)].reset_index(drop=True)
    runs = runs.assign(seed=np.tile(np.arange(seeds), n), cell=np.repeat(np.arange(n), seeds))
    # A training accuracy that has to do with neither leaves the same partial correlation.
    runs = runs.assign(count=segments.mean(1), gap=gap, train_accuracy=rng.normal(size=n * seeds))
    return cells_of(runs, segments)


def true_values(setting, rng):
    """The value of each statistic in the population of cells."""
    cells = simulate(setting, rng, replicates=400)
    x, y, factors = cells.means("count"), cells.means("gap"), cells.factors
    strata = {name: predictors.strata_of(factors, held) for name, held in HELD.items()}
    one = np.ones((1, len(x)))
    # Cells that repeat each other are one in statistics of pairs.
    merged = [v.reshape(-1, setting.weight_decays).mean(1) for v in (x, y)]
    values = {
        "pearson": stats.pearsonr(x, y)[0], "spearman": stats.spearmanr(x, y)[0], "kendall": stats.kendalltau(x, y)[0],
        "given_lr": predictors.partial_pearson(x, y, one, [cells.means("log_lr")])[0],
        "given_train_accuracy": stats.pearsonr(x, y)[0],
        "information": predictors.conditional_information(
            *(v[:2700] for v in merged), strata["within_lr"][:: setting.weight_decays][:2700]
        ),
        "beyond_settings": league.beyond_settings(cells, num_resamples=1).value,
    }  # fmt: skip
    values |= {name: predictors.partial_pearson(x, y, one, strata=codes)[0] for name, codes in strata.items()}
    size = 27
    pairs = predictors.neighbours(factors.drop(columns="weight_decay")[:: setting.weight_decays][:size])
    grids = list(zip(*(v.reshape(-1, size) for v in merged), strict=True))
    values["granulated"] = np.mean([predictors.granulated_kendall(*grid, pairs).value for grid in grids])
    errors = np.mean([predictors.environment_errors(*grid, pairs) for grid in grids], axis=0)
    return values | {"sign_error": errors.mean(), "worst_sign_error": errors.max()}


def our_intervals(cells, seed):
    """The `Estimate` of each statistic."""
    draws = draw(cells, ["count", "gap", "log_lr", "train_accuracy"], NUM_RESAMPLES, seed)
    options = {"num_permutations": NUM_PERMUTATIONS, "seed": seed}
    found = {s: league.estimate(cells, "count", s, draws, **options) for s in league.STATISTICS}
    held = {name: league.within(cells, h, num_resamples=NUM_RESAMPLES, seed=seed) for name, h in HELD.items()}
    return found | held | {"beyond_settings": league.beyond_settings(cells, num_resamples=NUM_RESAMPLES, seed=seed)}


def plain_intervals(cells, rng):
    """Percentile intervals from resampling cells alone: {statistic: (low, high)}."""
    x, y, n = cells.means("count"), cells.means("gap"), len(cells.factors)
    weights = rng.multinomial(n, np.full(n, 1 / n), size=NUM_RESAMPLES).astype(float)
    pairs = predictors.neighbours(cells.factors)
    pair_weights = weights[:, pairs.first] * weights[:, pairs.second]
    granulated = pair_weights @ predictors.agreement(x, y, pairs) / pair_weights.sum(1)
    environment = np.eye(len(pairs.environments))[pairs.environment]
    wrong = (pair_weights * (1 - predictors.agreement(x, y, pairs)) / 2) @ environment
    errors = wrong / np.maximum(pair_weights @ environment, 1)
    strata = {name: predictors.strata_of(cells.factors, held) for name, held in HELD.items()}
    resampled = {
        "pearson": weighted_pearson(x, y, weights),
        "spearman": weighted_spearman(x, y, weights),
        "kendall": weighted_kendall(x, y, weights),
        "given_lr": predictors.partial_pearson(x, y, weights, [cells.means("log_lr")]),
        "given_train_accuracy": predictors.partial_pearson(x, y, weights, [cells.means("train_accuracy")]),
        "granulated": granulated,
        "sign_error": (1 - granulated) / 2,
        "worst_sign_error": errors.max(1),
    }
    resampled |= {name: predictors.partial_pearson(x, y, weights, strata=codes) for name, codes in strata.items()}
    return {name: np.nanquantile(values, [0.025, 0.975]) for name, values in resampled.items()}
