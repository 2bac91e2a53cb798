"""Which measure predicts the gap: a table of measures and statistics, and what is left of the region count's
correlation when hyper-parameters are held fixed, with intervals that draw cells and segments again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from rc_utils import ledger
from rc_utils import predictors as p
from rc_utils.campaign import load_campaign
from rc_utils.correlation import (
    MIN_CELLS,
    bias_corrected_interval,
    finished,
    fisher_interval,
    require_columns,
    weighted_kendall,
    weighted_pearson,
    weighted_spearman,
)

# Oriented so that theory expects more of it to go with a larger gap.
MEASURES = {
    "count": "region count",
    "distance_from_init": "distance from initialization",
    "minus_margin": "output margin (negative)",
    "sharpness": "sharpness",
    "log_spectral_product": "log product of spectral norms",
    "input_gradient": "input gradient",
    "num_parameters": "number of parameters",
    "train_loss": "training loss",
}

STATISTICS = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "kendall": "Kendall's tau-b",
    "granulated": "granulated Kendall",
    "given_lr": "partial, given log lr",
    "given_train_accuracy": "partial, given training accuracy",
    "information": "information given lr",
    "sign_error": "sign-error",
    "worst_sign_error": "worst sign-error",
}

_FACTORS = (
    *("network", "lr", "batch_size", "weight_decay", "optimizer", "epochs"),
    *("momentum", "mixup_alpha", "crop_padding", "flip_probability"),
)
_CHUNK = 3_000_000  # Numbers in one array of resampled pairs: some tens of megabytes.


@dataclasses.dataclass(frozen=True)
class Cells:
    """The runs of one experiment, R in n cells.

    runs: R rows with numbers in `columns`; cell: (R,) the cell of each; factors: n rows, the factors of each cell;
    segments: (R, S) the region count of every segment, the same S segments for all runs, or None.
    """

    runs: pd.DataFrame
    cell: np.ndarray
    factors: pd.DataFrame
    segments: np.ndarray | None = None

    @functools.cached_property
    def _shares(self) -> np.ndarray:
        """(R, n) what each run counts in the mean of its cell."""
        member = np.eye(len(self.factors))[self.cell]
        return member / np.maximum(member.sum(0), 1)

    def means(self, column: str) -> np.ndarray:
        """Mean of a column over the seeds of each cell, (n,)."""
        return self.runs[column].to_numpy(float) @ self._shares

    def interpolating(self) -> Cells:
        """The cells of which every run interpolates."""
        whole = np.bincount(self.cell, ~self.runs["interpolates"].astype(bool), len(self.factors)) == 0
        return self._only(whole)

    def as_runs(self) -> Cells:
        """Every run as a cell of its own, with its cell and its seed as factors."""
        factors = pd.DataFrame({"cell": self.cell, "seed": self.runs["seed"].to_numpy()})
        return dataclasses.replace(self, cell=np.arange(len(self.runs)), factors=factors)

    def _only(self, chosen: np.ndarray) -> Cells:
        rows, codes = chosen[self.cell], np.cumsum(chosen) - 1
        return Cells(
            self.runs[rows].reset_index(drop=True),
            codes[self.cell[rows]],
            self.factors[chosen].reset_index(drop=True),
            None if self.segments is None else self.segments[rows],
        )


def cells_of(runs: pd.DataFrame, segments: np.ndarray | None = None) -> Cells:
    """The `Cells` of a table of runs (see `load_runs`) of one experiment; diverged runs are left out.

    segments: (rows of `runs`, S) counts by segment (see `segment_counts`). Adds the columns log_lr and minus_margin.
    Raises ValueError without the columns network, cell, lr and gap, or with two runs of a cell and a seed.
    """
    require_columns(runs, ["network", "cell", "lr", "gap", "seed"])
    done = runs.index.isin(finished(runs).index)
    kept = runs[done].reset_index(drop=True)
    if kept.duplicated(["network", "cell", "seed"]).any():
        raise ValueError("the runs hold a cell and seed more than once; choose the runs of one experiment")
    kept = kept.assign(log_lr=np.log(kept["lr"]))
    if "margin" in kept.columns:
        kept["minus_margin"] = -kept["margin"]
    cell = kept.groupby(["network", "cell"], sort=False).ngroup().to_numpy()
    factors = kept.drop_duplicates(["network", "cell"])[[c for c in _FACTORS if c in kept.columns]]
    return Cells(kept, cell, factors.reset_index(drop=True), None if segments is None else segments[done])


def segment_counts(name: str, runs: pd.DataFrame, num_samples: int = 0) -> np.ndarray | None:
    """Region counts of the campaign's count `main` by run and segment, (rows of `runs`, S).

    num_samples: the first so many segments; 0 takes all. None where a finished run has no such count or another number
    of segments; the rows of diverged runs are NaN.
    """
    campaign = load_campaign(name)
    found = ledger.find_records(runs["run_id"], campaign.folder / "runs.jsonl")
    entries = [ledger.find_count(found[r][0]["counts"], campaign.counts.get("main")) for r in runs["run_id"]]
    rows = [entry["counts"][: num_samples or None] if entry else [] for entry in entries]
    ok = np.isin(np.arange(len(runs)), np.flatnonzero(runs.index.isin(finished(runs).index)))
    sizes = {len(row) for row, fine in zip(rows, ok, strict=True) if fine}
    if len(sizes) != 1 or 0 in sizes:
        return None
    size = sizes.pop()
    return np.array([row if fine else [np.nan] * size for row, fine in zip(rows, ok, strict=True)], dtype=float)


def available(cells: Cells) -> tuple[list[str], list[str]]:
    """(those of `MEASURES` that all runs have, those that are missing)."""
    has = [m for m in MEASURES if m in cells.runs.columns and np.isfinite(cells.runs[m].to_numpy(float)).all()]
    return has, [m for m in MEASURES if m not in has]


@dataclasses.dataclass(frozen=True)
class Draws:
    """B resamples of the same cells: weights (B, n), and the mean of every column in every cell, (B, n) each."""

    weights: np.ndarray
    columns: dict[str, np.ndarray]


def draw(
    cells: Cells,
    columns: Sequence[str],
    number: int,
    seed: int = 0,
    units: np.ndarray | None = None,
    *,
    seeds_again: bool = False,
) -> Draws:
    """Resamples, the same for all columns: cells with replacement, each with its seeds, and the segments.

    The segments are drawn once for all runs of a resample, because all runs share them; a run's count is the mean over
    the segments drawn. units: (n,) codes of groups of cells that are drawn whole; default every cell. seeds_again: draw
    the seeds within each cell with replacement, too. The differences between cells hold the noise of the seeds already,
    so that this counts it twice (Davison and Hinkley 1997, Sec. 3.8): for three seeds and a correlation of 0.9 the
    intervals of Pearson's r then covered 98.0 to 98.5 % in 400 simulated campaigns.
    """
    rng = np.random.default_rng(seed)
    units = np.arange(len(cells.factors)) if units is None else units
    n_units = int(units.max()) + 1
    weights = rng.multinomial(n_units, np.full(n_units, 1 / n_units), size=number)[:, units].astype(float)
    of_runs = np.ones((number, len(cells.runs)))
    for code in range(len(cells.factors) if seeds_again else 0):
        seeds = np.flatnonzero(cells.cell == code)
        of_runs[:, seeds] = rng.multinomial(len(seeds), np.full(len(seeds), 1 / len(seeds)), size=number)
    means = {}
    for column in columns:
        values = cells.runs[column].to_numpy(float)
        if column == "count" and cells.segments is not None:
            size = cells.segments.shape[1]
            values = rng.multinomial(size, np.full(size, 1 / size), size=number) @ cells.segments.T / size
        means[column] = (of_runs * values) @ cells._shares
    return Draws(weights, means)


def estimate(
    cells: Cells,
    measure: str,
    statistic: str,
    draws: Draws,
    *,
    confidence: float = 0.95,
    num_permutations: int = 200,
    seed: int = 0,
) -> p.Estimate:
    """One of `STATISTICS` of a measure and the gap, with its interval.

    draws: of the measure, the gap, log_lr and train_accuracy. Pearson's and partial correlations have Fisher's interval
    of the draws, rank correlations their bias-corrected percentiles, because plain percentiles cover 91 to 95 % and 95
    to 99 % (`python -m benchmarks --only coverage`); the others as their functions in `predictors` say. A partial
    correlation or information is unknown where what it is given has one value: there is nothing to hold fixed.
    """
    x, y = cells.means(measure), cells.means("gap")
    if statistic in _CORRELATIONS:
        control, function = _CORRELATIONS[statistic]
        if control and np.ptp(cells.means(control)) == 0:
            return p.UNKNOWN
        return _resampled(cells, [measure, "gap", *([control] if control else [])], function, draws, confidence)
    if statistic == "information":
        if cells.factors["lr"].nunique() < 2:
            return p.UNKNOWN
        strata = p.strata_of(cells.factors, ["lr"])
        null = p.information_null(x, y, strata, num_permutations, seed).mean()
        return p.adjusted_information(x, y, strata, null, confidence)
    functions = {
        "granulated": p.granulated_kendall,
        "sign_error": p.sign_error,
        "worst_sign_error": p.worst_sign_error,
    }
    return functions[statistic](x, y, p.neighbours(cells.factors), confidence)


def _partial(x, y, control, weights):
    return p.partial_pearson(x, y, weights, [control])


_CORRELATIONS = {
    "pearson": (None, weighted_pearson),
    "spearman": (None, weighted_spearman),
    "kendall": (None, weighted_kendall),
    "given_lr": ("log_lr", _partial),
    "given_train_accuracy": ("train_accuracy", _partial),
}


def _resampled(cells: Cells, columns: Sequence[str], function, draws: Draws, confidence: float) -> p.Estimate:
    """`function(*columns, weights)` at the cells and in the resamples, a part of these at a time."""
    n = len(cells.factors)
    value = float(function(*(cells.means(c)[None] for c in columns), np.ones((1, n)))[0])
    step = max(1, _CHUNK // n**2)
    parts = [slice(start, start + step) for start in range(0, len(draws.weights), step)]
    resampled = np.concatenate([function(*(draws.columns[c][s] for c in columns), draws.weights[s]) for s in parts])
    if not np.isfinite(value):
        return p.UNKNOWN
    if function in (weighted_spearman, weighted_kendall):
        return p.Estimate(value, *bias_corrected_interval(resampled, value, n, confidence))
    return p.Estimate(value, *fisher_interval(resampled, value, n, confidence))


def league_table(
    cells: Cells,
    measures: Sequence[str] | None = None,
    statistics: Sequence[str] = tuple(STATISTICS),
    *,
    num_resamples: int = 1000,
    confidence: float = 0.95,
    num_permutations: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """One row a measure and statistic: measure, statistic, value, low, high. All measures share their resamples.

    measures: default all that the runs have. Raises ValueError for a measure that they do not have.
    """
    measures = available(cells)[0] if measures is None else list(measures)
    require_columns(cells.runs, measures)
    draws = draw(cells, dict.fromkeys(["gap", "log_lr", "train_accuracy", *measures]), num_resamples, seed)
    options = {"confidence": confidence, "num_permutations": num_permutations, "seed": seed}
    rows = [
        {"measure": m, "statistic": s, **dataclasses.asdict(estimate(cells, m, s, draws, **options))}
        for m in measures
        for s in statistics
    ]
    return pd.DataFrame(rows, columns=["measure", "statistic", "value", "low", "high"])


def within(
    cells: Cells,
    names: Sequence[str],
    measure: str = "count",
    *,
    num_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> p.Estimate:
    """Pearson's r of a measure and the gap within the strata of cells that agree in the factors `names`.

    The mean of each stratum is taken out of both, and what is left is pooled. At least `MIN_CELLS` strata are drawn
    whole, fewer are kept and their cells are drawn. Fisher's interval of the draws.
    """
    strata = p.strata_of(cells.factors, names)
    number = len(np.unique(strata))
    units = strata if number >= MIN_CELLS else None
    draws = draw(cells, [measure, "gap"], num_resamples, seed, units)
    one = np.ones((1, len(strata)))
    value = float(p.partial_pearson(cells.means(measure), cells.means("gap"), one, strata=strata)[0])
    resampled = p.partial_pearson(draws.columns[measure], draws.columns["gap"], draws.weights, strata=strata)
    if not np.isfinite(value):
        return p.UNKNOWN
    drawn = len(strata) if units is None else number
    return p.Estimate(value, *fisher_interval(resampled, value, drawn, confidence))


def held_fixed(cells: Cells, measure: str = "count", **options) -> pd.DataFrame:
    """What is left of the correlation of a measure and the gap when factors are held fixed, by `within`.

    Rows: nothing held; each factor; the network and one other; all factors but one; and, where there are several seeds,
    the cell. Columns: fixed (in words), within, runs, n_cells, n_strata, value, low, high, for `runs` "all" and
    "interpolating".
    """
    rows = []
    for name, part in (("all", cells), ("interpolating", cells.interpolating())):
        for names in _ladder(cells.factors):
            n_strata = len(np.unique(p.strata_of(part.factors, names)))
            found = within(part, names, measure, **options) if len(part.factors) > n_strata else p.UNKNOWN
            rows.append((_words(names), name, len(part.factors), n_strata, found.value, found.low, found.high))
        if len(cells.runs) > len(cells.factors):
            single = part.as_runs()
            found = within(single, ["cell"], measure, **options) if len(part.runs) else p.UNKNOWN
            numbers = (len(part.factors), len(part.factors))
            rows.append(("everything but the seed", name, *numbers, found.value, found.low, found.high))
    return pd.DataFrame(rows, columns=["fixed", "runs", "n_cells", "n_strata", "value", "low", "high"])


def _ladder(factors: pd.DataFrame) -> list[tuple[str, ...]]:
    names = p.varying(factors)
    pairs = [("network", name) for name in names if name != "network"] if "network" in names else []
    all_but_one = [tuple(n for n in names if n != left) for left in names]
    rungs = [(), *((name,) for name in names), *pairs, *all_but_one]
    return list(dict.fromkeys(tuple(sorted(rung, key=names.index)) for rung in rungs if len(rung) < max(1, len(names))))


def _words(names: Sequence[str]) -> str:
    return " and ".join({"lr": "learning rate"}.get(n, n.replace("_", " ")) for n in names) or "nothing"


def information_table(cells: Cells, measure: str = "count", *, num_permutations: int = 200, seed: int = 0):
    """Conditional mutual information of a measure and the gap for every conditioning of `conditionings`.

    Columns: given (in words), pairs (per value of the conditioning, on average), value (plug-in), null (array, of
    permutations within the strata), null_mean, null_high (95 % of the null lie below), p (share of the null that is not
    below the value, the value itself counted), adjusted, low, high.
    """
    x, y, rows = cells.means(measure), cells.means("gap"), []
    for names, strata in p.conditionings(cells.factors).items():
        value = p.conditional_information(x, y, strata)
        if not np.isfinite(value):
            continue
        null = p.information_null(x, y, strata, num_permutations, seed)
        found = p.adjusted_information(x, y, strata, null.mean())
        n, number = len(strata), len(np.unique(strata))
        row = {"given": _words(names), "pairs": n * (n - 1) / number**2, "value": value, "null": null}
        row |= {"null_mean": null.mean(), "null_high": np.quantile(null, 0.95)}
        row |= {"p": (1 + np.sum(null >= value - 1e-12)) / (1 + num_permutations)}
        rows.append(row | {"adjusted": found.value, "low": found.low, "high": found.high})
    return pd.DataFrame(rows)


def axis_table(cells: Cells, measures: Sequence[str]) -> pd.DataFrame:
    """Kendall's tau along each axis: one row a measure and axis; measure, axis, pairs, value, low, high."""
    pairs, y = p.neighbours(cells.factors), cells.means("gap")
    rows = [
        {"measure": m, "axis": axis, "pairs": int((pairs.axis == a).sum()), **dataclasses.asdict(found)}
        for m in measures
        for a, (axis, found) in enumerate(p.axis_kendall(cells.means(m), y, pairs).items())
    ]
    return pd.DataFrame(rows, columns=["measure", "axis", "pairs", "value", "low", "high"])


def environment_table(cells: Cells, measures: Sequence[str]) -> pd.DataFrame:
    """Share of wrongly ordered pairs in every environment: measure, environment, pairs, error."""
    pairs, y = p.neighbours(cells.factors), cells.means("gap")
    sizes = np.bincount(pairs.environment, minlength=len(pairs.environments))
    rows = [
        {"measure": m, "environment": name, "pairs": int(size), "error": float(error)}
        for m in measures
        for name, size, error in zip(
            pairs.environments, sizes, p.environment_errors(cells.means(m), y, pairs), strict=True
        )
    ]
    return pd.DataFrame(rows, columns=["measure", "environment", "pairs", "error"])
