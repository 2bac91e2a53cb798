"""Which measure predicts the gap: a table of measures and statistics, and what is left of the region count's
correlation when hyper-parameters are held fixed, with intervals that draw cells and segments again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd

from rc_utils.correlation import (
    FEWEST_ROWS,
    MIN_CELLS,
    bias_corrected_interval,
    fisher_interval,
    is_constant,
    percentile_interval,
    require_columns,
    weighted_kendall,
    weighted_pearson,
    weighted_spearman,
)
from rc_utils.pages.statistics import predictors as p
from rc_utils.pages.statistics.cells import Cells, Draws, draw

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
    # No measure of a network: what the settings alone say.
    "batch_over_lr": "batch size / learning rate",
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

_CHUNK = 3_000_000  # Numbers in one array of resampled pairs: some tens of megabytes.


def available(cells: Cells) -> tuple[list[str], list[str]]:
    """(those of `MEASURES` that all runs have, those that are missing)."""
    has = [m for m in MEASURES if m in cells.runs.columns and np.isfinite(cells.runs[m].to_numpy(float)).all()]
    return has, [m for m in MEASURES if m not in has]


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
    to 99 % (`python -m benchmarks --only coverage`); the others, of pairs of cells, as their functions in `predictors`
    say, with cells that differ in weight decay alone as one, since the test set does not resolve their gaps. A partial
    correlation or information is unknown where what it is given has one value: there is nothing to hold fixed.
    Everything is unknown of fewer than three cells, whose order is right or wrong altogether.
    """
    if len(cells.factors) < FEWEST_ROWS:
        return p.UNKNOWN
    if statistic in _CORRELATIONS:
        control, function = _CORRELATIONS[statistic]
        if control and is_constant(cells.means(control)):
            return p.UNKNOWN
        return _resampled(cells, [measure, "gap", *([control] if control else [])], function, draws, confidence)
    cells = cells.merged()
    x, y = cells.means(measure), cells.means("gap")
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
    return functions[statistic](x, y, p.neighbours(cells.factors, cells.units), confidence)


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
    """`function(*columns, weights)` at the cells, with its interval from the resamples."""
    n = len(cells.factors)
    value = float(function(*(cells.means(c)[None] for c in columns), np.ones((1, n)))[0])
    resampled = _over_draws(function, columns, draws)
    if not np.isfinite(value):
        return p.UNKNOWN
    drawn = len(set(cells.units))
    if function in (weighted_spearman, weighted_kendall):
        return p.Estimate(value, *bias_corrected_interval(resampled, value, drawn, confidence))
    return p.Estimate(value, *fisher_interval(resampled, value, drawn, confidence))


def _over_draws(function, columns: Sequence[str], draws: Draws) -> np.ndarray:
    """`function(*columns, weights)` in every resample, (B,), a part of them at a time."""
    step = max(1, _CHUNK // draws.weights.shape[1] ** 2)
    parts = [slice(start, start + step) for start in range(0, len(draws.weights), step)]
    return np.concatenate([function(*(draws.columns[c][s] for c in columns), draws.weights[s]) for s in parts])


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

    measures: default all that the runs have. Raises ValueError for a measure that they do not have, or not as a number
    in every run.
    """
    measures = available(cells)[0] if measures is None else list(measures)
    controls = [_CORRELATIONS[s][0] for s in statistics if s in _CORRELATIONS and _CORRELATIONS[s][0]]
    require_columns(cells.runs, [*measures, *controls])
    draws = draw(cells, dict.fromkeys(["gap", *controls, *measures]), num_resamples, seed)
    options = {"confidence": confidence, "num_permutations": num_permutations, "seed": seed}
    rows = [
        {"measure": m, "statistic": s, **dataclasses.asdict(estimate(cells, m, s, draws, **options))}
        for m in measures
        for s in statistics
    ]
    return pd.DataFrame(rows, columns=["measure", "statistic", "value", "low", "high"])


def beside_the_count(
    cells: Cells, measures: Sequence[str], *, num_resamples: int = 1000, confidence: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """Correlation of the count and the gap less that of a rival, in the same resamples: who is ahead, and who is level.

    One row a rival in `measures` and correlation, linear or of ranks: statistic, measure, value, low, high, with the
    expanded percentile interval of the difference.
    """
    rivals = [m for m in measures if m != "count"]
    draws = draw(cells, ["count", "gap", *rivals], num_resamples, seed)
    drawn, one, rows = len(set(cells.units)), np.ones((1, len(cells.factors))), []
    for statistic in ("pearson", "spearman", "kendall"):
        function = _CORRELATIONS[statistic][1]

        def both(measure, function=function):
            value = function(cells.means(measure)[None], cells.means("gap")[None], one)
            return float(value[0]), _over_draws(function, [measure, "gap"], draws)

        count, counts = both("count")
        for rival in rivals:
            value, values = both(rival)
            low, high = percentile_interval(counts - values, drawn, confidence, expanded=True)
            rows.append((statistic, rival, count - value, low, high))
    return pd.DataFrame(rows, columns=["statistic", "measure", "value", "low", "high"])


def within(
    cells: Cells,
    names: Sequence[str],
    measure: str = "count",
    *,
    groups: np.ndarray | None = None,
    controls: Sequence[np.ndarray] = (),
    num_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> p.Estimate:
    """Pearson's r of a measure and the gap within the strata of cells that agree in the factors `names`.

    The mean of each stratum is taken out of both, then what least squares on `controls`, (n,) each, explains of them,
    and what is left is pooled. Strata that differ in weight decay alone
    repeat each other: at least `MIN_CELLS` groups of them, or of the cells with equal codes in `groups` (n,), are drawn
    whole; where there are fewer, the strata are kept and the groups of their cells (`Cells.units`) are drawn. Fisher's
    interval of the draws.
    """
    strata = p.strata_of(cells.factors, names)
    whole = p.strata_of(cells.factors, [n for n in names if n != "weight_decay"]) if groups is None else groups
    units = whole if len(np.unique(whole)) >= MIN_CELLS else cells.units
    draws = draw(cells, [measure, "gap"], num_resamples, seed, units)
    one = np.ones((1, len(strata)))
    value = float(p.partial_pearson(cells.means(measure), cells.means("gap"), one, controls, strata)[0])
    resampled = p.partial_pearson(draws.columns[measure], draws.columns["gap"], draws.weights, controls, strata)
    if not np.isfinite(value) or len(strata) < FEWEST_ROWS:
        return p.UNKNOWN
    return p.Estimate(value, *fisher_interval(resampled, value, len(set(units)), confidence))


def held_fixed(cells: Cells, measure: str = "count", **options) -> pd.DataFrame:
    """What is left of the correlation of a measure and the gap when factors are held fixed, by `within`.

    Rows: nothing held; each factor; the network and one other; all factors but one; where learning rates and batch
    sizes differ, `SMOOTH`; and, where there are several seeds, the cell. Columns: fixed (in words), within, runs,
    n_cells, n_strata, value, low, high, for `runs` "all" and "interpolating".
    """
    rows = []
    for name, part in (("all", cells), ("interpolating", cells.interpolating())):
        for names in _ladder(cells.factors):
            n_strata = len(np.unique(p.strata_of(part.factors, names)))
            found = within(part, names, measure, **options) if len(part.factors) > n_strata else p.UNKNOWN
            rows.append((_words(names), name, len(part.factors), n_strata, found.value, found.low, found.high))
        if {"lr", "batch_size"} <= set(p.varying(cells.factors)):
            found = beyond_settings(part, measure, **options)
            n_networks = part.factors["network"].nunique()
            rows.append((SMOOTH, name, len(part.factors), n_networks, found.value, found.low, found.high))
        if len(cells.runs) > len(cells.factors):
            single = part.as_runs()
            groups = part.units[part.cell]
            found = within(single, ["cell"], measure, groups=groups, **options) if len(part.runs) else p.UNKNOWN
            numbers = (len(part.factors), len(part.factors))
            rows.append(("everything but the seed", name, *numbers, found.value, found.low, found.high))
    return pd.DataFrame(rows, columns=["fixed", "runs", "n_cells", "n_strata", "value", "low", "high"])


# A smooth function of one number that the settings give knows nothing of a network.
SMOOTH = "network and a parabola in log(batch / lr)"


def beyond_settings(cells: Cells, measure: str = "count", **options) -> p.Estimate:
    """`within` the networks, with a parabola in log(batch size / learning rate) for each of them as the controls.

    The resamples have fewer different cells for as many coefficients: the interval is too wide rather than too narrow
    (`python -m benchmarks --only coverage`).
    """
    if not len(cells.factors):
        return p.UNKNOWN
    networks, ratio = cells.factors["network"].to_numpy(), cells.means("batch_over_lr")
    ratio = ratio - ratio.mean()
    controls = [np.where(networks == name, ratio**power, 0) for name in pd.unique(networks) for power in (1, 2)]
    return within(cells, ["network"], measure, controls=controls, **options)


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

    Cells that differ in weight decay alone are one here: permuting repeated cells would make the null too narrow.
    Columns: given (in words), pairs (per value of the conditioning, on average), value (plug-in), null (array, of
    permutations within the strata), null_mean, null_high (95 % of the null lie below), p (share of the null that is not
    below the value, the value itself counted), adjusted, low, high.
    """
    cells = cells.merged()
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
    columns = ["given", "pairs", "value", "null", "null_mean", "null_high", "p", "adjusted", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def axis_table(cells: Cells, measures: Sequence[str]) -> pd.DataFrame:
    """Kendall's tau along each axis but weight decay, one row each: measure, axis, pairs, value, low, high."""
    cells = cells.merged()
    pairs, y = p.neighbours(cells.factors, cells.units), cells.means("gap")
    rows = [
        {"measure": m, "axis": axis, "pairs": int((pairs.axis == a).sum()), **dataclasses.asdict(found)}
        for m in measures
        for a, (axis, found) in enumerate(p.axis_kendall(cells.means(m), y, pairs).items())
    ]
    return pd.DataFrame(rows, columns=["measure", "axis", "pairs", "value", "low", "high"])


def environment_table(cells: Cells, measures: Sequence[str]) -> pd.DataFrame:
    """Share of wrongly ordered pairs in each environment but weight decay's: measure, environment, pairs, error."""
    cells = cells.merged()
    pairs, y = p.neighbours(cells.factors, cells.units), cells.means("gap")
    sizes = np.bincount(pairs.environment, minlength=len(pairs.environments))
    rows = [
        {"measure": m, "environment": name, "pairs": int(size), "error": float(error)}
        for m in measures
        for name, size, error in zip(
            pairs.environments, sizes, p.environment_errors(cells.means(m), y, pairs), strict=True
        )
    ]
    return pd.DataFrame(rows, columns=["measure", "environment", "pairs", "error"])
