"""From a table of runs to results that stand beside the published ones: the main correlation and its two biases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from rc_utils.correlation import (
    MIN_CELLS,
    average_seeds,
    bootstrap_weights,
    correlate,
    finished,
    percentile_interval,
    require_columns,
)
from rc_utils.paper import Result
from rc_utils.published_tables import MAIN_NETWORKS, NETWORKS

_HYPERPARAMETERS = (
    *("lr", "batch_size", "weight_decay", "optimizer", "epochs"),
    *("momentum", "mixup_alpha", "crop_padding", "flip_probability"),
)


@dataclass(frozen=True)
class Change:
    """Mean change of a quantity per doubling of a hyper-parameter, over `n_groups` groups of `n_cells` cells."""

    value: float
    low: float
    high: float
    n_groups: int
    n_cells: int


def change_per_doubling(
    runs: pd.DataFrame,
    factor: str,
    column: str = "count",
    *,
    num_resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Change:
    """Mean change of `column` when `factor` doubles and all else stays, with its interval.

    Seeds are averaged; cells that differ in `factor` alone form a group; each group with at least two values of
    `factor` gives the least-squares slope of `column` on log2(factor); the value is the mean slope. The interval comes
    from resampling whole groups (expanded percentile), or is Student's where there are fewer than `MIN_CELLS` groups.
    NaN without any group, and no interval from a single one. In units of `column` per doubling. Raises ValueError for
    a missing column or a factor that is not positive.
    """
    require_columns(runs, ["network", "cell", factor, column])
    cells = finished(average_seeds(runs))
    if not (cells[factor] > 0).all():
        raise ValueError(f"{factor} has the value {cells[factor].min()}; expected positive numbers, to be doubled")
    slopes, n_cells = _slopes(cells, factor, column)
    if not len(slopes):
        return Change(float("nan"), float("nan"), float("nan"), 0, 0)
    low, high = mean_interval(slopes, num_resamples, confidence, seed)
    return Change(float(slopes.mean()), low, high, len(slopes), n_cells)


def _slopes(cells: pd.DataFrame, factor: str, column: str) -> tuple[np.ndarray, int]:
    others = [key for key in ("campaign", "experiment", "origin", "network", *_HYPERPARAMETERS) if key in cells.columns]
    others.remove(factor)
    slopes, n_cells = [], 0
    for _, group in cells.groupby(others, sort=False, dropna=False):
        if group[factor].nunique() > 1:
            slopes.append(np.polyfit(np.log2(group[factor].astype(float)), group[column], 1)[0])
            n_cells += len(group)
    return np.array(slopes), n_cells


def mean_interval(
    values: np.ndarray, num_resamples: int = 2000, confidence: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Interval of the mean of independent `values` (n,): expanded percentile, or Student's under `MIN_CELLS` values.

    (NaN, NaN) for fewer than two, or where all are equal, which measures no uncertainty.
    """
    n = len(values)
    if n >= MIN_CELLS:
        means = bootstrap_weights(range(n), num_resamples, seed) @ values / n
        return percentile_interval(means, n, confidence, expanded=True)
    if n < 2 or np.ptp(values) <= 1e-12 * np.abs(values).max():
        return float("nan"), float("nan")
    half = stats.t.ppf((1 + confidence) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n)
    return float(values.mean() - half), float(values.mean() + half)


def select_campaign(runs: pd.DataFrame, campaign: str, experiment: str | None = None) -> pd.DataFrame:
    """The runs of one campaign and, where it holds several, of one experiment.

    Raises ValueError where there are none, or where the campaign holds several experiments and none was named: runs
    with and without mixup, say, do not belong in one correlation.
    """
    for column, wanted in (("campaign", campaign), ("experiment", experiment)):
        if column not in runs.columns:
            continue
        known = sorted(map(str, runs[column].unique()))
        if wanted is None and len(known) > 1:
            raise ValueError(f"campaign {campaign!r} holds the experiments {', '.join(known)}; name the one to use")
        if wanted is not None:
            runs = runs[runs[column] == wanted]
        if not len(runs):
            raise ValueError(f"no runs of {column} {wanted!r}; there is {', '.join(known) or 'none'}")
    return runs


def results_from_runs(
    runs: pd.DataFrame, campaign: str, experiment: str | None = None, *, num_resamples: int = 2000, seed: int = 0
) -> list[Result]:
    """Our results for the main correlation, the two biases and test accuracy, from one campaign's runs.

    Ids: main/<network> and main/overall (v1 Fig 2 left, Pearson of count and gap), bias/lr/... and bias/batch-size/...
    (v1 Fig 3, change of count per doubling), test-accuracy/<network> (v1 Fig 5, Pearson). Networks without a published
    value are left out but count towards the overall ones, which need three networks of at least `MIN_CELLS` cells; what
    the runs cannot answer (one lr) gives no result. Seeds are averaged first. Raises ValueError as `select_campaign`
    and `correlate`.
    """
    runs = select_campaign(runs, campaign, experiment)
    require_columns(runs, ["network", "cell", "count", "gap", "test_accuracy"])
    options = {"num_resamples": num_resamples, "seed": seed}
    groups = {str(network): group for network, group in runs.groupby("network", sort=False)}
    results: list[Result] = []
    for network, group in groups.items():
        if network in MAIN_NETWORKS:
            results += correlation_result(f"main/{network}", campaign, group, "gap", options)
            results += _biases(network, campaign, group, options)
        if network in NETWORKS:
            results += correlation_result(f"test-accuracy/{network}", campaign, group, "test_accuracy", options)
    several = _networks_with_enough_cells(runs)
    if len(several) >= len(MAIN_NETWORKS):
        across = runs[runs["network"].isin(several)]
        results += correlation_result("main/overall", campaign, across, "gap", options)
        results += _biases("overall", campaign, across, options)
    return results


def _networks_with_enough_cells(runs: pd.DataFrame) -> list[str]:
    """The networks that a statement about several rests on: one with a few cells would be there in name only."""
    cells = finished(average_seeds(runs))["network"].value_counts(sort=False)
    return list(cells.index[cells >= MIN_CELLS])


def correlation_result(
    id_: str, campaign: str, runs: pd.DataFrame, column: str, options: dict, *, x: str = "count"
) -> Iterator[Result]:
    """The Result `id_`: Pearson's correlation of columns `x` and `column` over cells; nothing where it is undefined.

    Nothing for two cells either, whose correlation is 1 or -1 whatever they are.

    options: num_resamples and seed of `correlate`.
    """
    cells = finished(average_seeds(runs))
    c = correlate(cells[x], cells[column], **options)
    if np.isfinite(c.value) and c.n_cells > 2:
        yield Result(id_, campaign, c.value, c.low, c.high, c.n_cells, _describe(runs, cells))


def _describe(runs: pd.DataFrame, cells: pd.DataFrame) -> str:
    words = [f"Pearson over {len(cells)} cells"]
    if "interpolates" in cells.columns:
        words.append(f"{int(cells['interpolates'].sum())} of them interpolate")
    diverged = len(runs) - len(finished(runs))
    return ", ".join([*words, *([f"diverged runs: {diverged}"] if diverged else [])])


def _biases(name: str, campaign: str, runs: pd.DataFrame, options: dict) -> Iterator[Result]:
    for factor, column in (("lr", "lr"), ("batch-size", "batch_size")):
        change = change_per_doubling(runs, column, **options)
        if np.isfinite(change.value):
            detail = f"mean over {change.n_groups} groups of cells that differ in {column} alone"
            yield Result(
                f"bias/{factor}/{name}", campaign, change.value, change.low, change.high, change.n_cells, detail
            )


MEASURE_IDS = {"distance_from_init": "motivation/distance", "margin": "motivation/margin"}


def results_from_measures(
    runs: pd.DataFrame, campaign: str, experiment: str | None = None, *, num_resamples: int = 2000, seed: int = 0
) -> list[Result]:
    """Our results for motivation/distance and motivation/margin (v1 Fig 4), from the runs of ResNet18 of a campaign.

    Pearson of d(W) or the margin with the gap over cells. Runs without ResNet18 or without these measures give no
    result. Raises ValueError as `select_campaign`.
    """
    runs = select_campaign(runs, campaign, experiment)
    runs = runs[runs["network"] == "ResNet18"]
    results: list[Result] = []
    for column, id_ in MEASURE_IDS.items():
        if len(runs) and column in runs.columns and finished(runs)[column].notna().all():
            options = {"num_resamples": num_resamples, "seed": seed}
            results += correlation_result(id_, campaign, runs, "gap", options, x=column)
    return results
