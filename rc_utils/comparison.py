"""From a table of runs to results that stand beside the published ones: the main correlation and its two biases."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from rc_utils.correlation import (
    HYPERPARAMETERS,
    MIN_CELLS,
    average_seeds,
    bootstrap_interval,
    correlate,
    correlate_cells,
    finished,
    require_columns,
)
from rc_utils.paper import Result
from rc_utils.published_tables import MAIN_NETWORKS, NETWORKS
from rc_utils.specification import Campaign


@dataclass(frozen=True)
class Change:
    """Change of a quantity per doubling of a hyper-parameter, common to `n_groups` groups of `n_cells` cells."""

    value: float
    low: float
    high: float
    n_groups: int
    n_cells: int


def change_per_doubling(runs: pd.DataFrame, factor: str, column: str = "count", *, confidence: float = 0.95) -> Change:
    """Change of `column` when `factor` doubles and all else stays, with Student's interval.

    Seeds are averaged, and so are cells that differ in weight decay alone, which repeat each other. Cells that differ
    in `factor` alone form a group; those with at least two values of it are fitted by least squares with a level of
    their own and one slope in common, y = a_g + b log2(factor). The interval is that of b from the residuals, so that
    curvature, and slopes that differ between groups, count as error; those of several networks are averaged in each
    setting first, since the curvature that networks share is one error. NaN without any group, and no interval where
    nothing is left to estimate the error from. In units of `column` per doubling. Raises ValueError for
    a missing column, a number of it that is missing or infinite, or a factor that is not positive.
    """
    require_columns(runs, ["network", "cell", factor, column])
    cells = finished(average_seeds(runs))
    if not (cells[factor] > 0).all():
        raise ValueError(f"{factor} has the value {cells[factor].min()}; expected positive numbers, to be doubled")
    others = [key for key in ("campaign", "experiment", "network", *HYPERPARAMETERS) if key in cells.columns]
    others = [key for key in others if key not in (factor, "weight_decay")]
    cells = cells[cells.groupby(others, dropna=False)[factor].transform("nunique") > 1]
    missing = int((~np.isfinite(cells[column].to_numpy(float))).sum())
    if missing:
        raise ValueError(f"{column} is missing or infinite in {missing} of {len(cells)} cells; leave these runs out")
    units = cells.groupby([*others, factor], dropna=False)[column].mean().reset_index()
    if units.empty:
        return Change(float("nan"), float("nan"), float("nan"), 0, 0)
    groups = units.groupby(others, dropna=False).ngroup()
    x, y = (v - v.groupby(groups).transform("mean") for v in (np.log2(units[factor].astype(float)), units[column]))
    value = float((x * y).sum() / (x**2).sum())
    half = _shared_half_width(units.assign(x=x, residual=y - value * x), factor, others, confidence)
    return Change(value, value - half, value + half, int(groups.nunique()), len(cells))


def _shared_half_width(units: pd.DataFrame, factor: str, others: list[str], confidence: float) -> float:
    """`_half_width` with the mean over networks in each setting, of which there is one error."""
    settings = [key for key in others if key != "network"]
    means = units.groupby([*settings, factor], dropna=False)[["x", "residual"]].mean().reset_index()
    number = means.groupby(settings, dropna=False).ngroup().nunique() if settings else 1
    return _half_width(means["x"], means["residual"], len(means) - number - 1, confidence)


def changes_by_level(runs: pd.DataFrame, column: str = "count") -> pd.DataFrame:
    """`change_per_doubling` of learning rate and batch size at each value of the other, from its smallest on, as texts.

    One row a network and hyper-parameter.
    """
    rows = []
    for (network, group), (factor, other) in itertools.product(
        runs.groupby("network", sort=False), (("lr", "batch_size"), ("batch_size", "lr"))
    ):
        levels = sorted(group[other].unique())
        changes = [change_per_doubling(group[group[other] == level], factor, column).value for level in levels]
        texts = [f"{c:+.2f} at {level:g}" for c, level in zip(changes, levels, strict=True) if np.isfinite(c)]
        row = {"Network": network, "Doubled": factor, "At each": other, "Change of the count": "; ".join(texts) or "–"}
        rows.append(row)
    return pd.DataFrame(rows)


def _half_width(x: pd.Series, residuals: pd.Series, freedom: int, confidence: float) -> float:
    """Half of Student's interval of a least-squares slope on centred x; NaN where the residuals say nothing."""
    square = (residuals**2).sum()
    if freedom < 1 or not (x**2).sum() > 0 or square <= 1e-24 * max(1.0, (residuals.abs() + x.abs()).max() ** 2):
        return float("nan")
    return float(stats.t.ppf((1 + confidence) / 2, freedom) * np.sqrt(square / freedom / (x**2).sum()))


def settings_fit(runs: pd.DataFrame, column: str = "count") -> pd.DataFrame:
    """What two smooth functions of the settings explain of `column`: R² of least squares, one row a network, as texts.

    With a plane in log(learning rate) and log(batch size), and with a parabola in the logarithm of their quotient; both
    have three coefficients. Seeds, and cells that differ in weight decay alone, are averaged.
    """
    require_columns(runs, ["network", "cell", "lr", "batch_size", column])
    cells = finished(average_seeds(runs))
    rows = []
    for network, group in cells.groupby("network", sort=False):
        units = group.groupby(["lr", "batch_size"])[column].mean().reset_index()
        lr, batch = (np.log2(units[key].to_numpy(float)) for key in ("lr", "batch_size"))
        designs = {"R², lr and batch size": (lr, batch)}
        designs["R², lr / batch size"] = (lr - batch, (lr - batch) ** 2)
        fits = {name: _explained(units[column].to_numpy(float), terms) for name, terms in designs.items()}
        rows.append({"Network": network, "Settings": len(units)} | {name: f"{fit:.2f}" for name, fit in fits.items()})
    return pd.DataFrame(rows)


def _explained(y: np.ndarray, terms: tuple[np.ndarray, ...]) -> float:
    """R² of least squares of y on the terms and a constant; NaN for as few values as coefficients."""
    if len(y) <= len(terms) + 1 or np.ptp(y) == 0:
        return float("nan")
    design = np.column_stack([np.ones(len(y)), *terms])
    residuals = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return float(1 - residuals.var() / y.var())


def at_equal_updates(runs: pd.DataFrame, column: str = "count") -> pd.DataFrame:
    """What a larger batch does to `column` at equal epochs, and at about as many updates.

    One row a network, learning rate and pair of batch sizes and of epochs whose numbers of updates, epochs / batch
    size, are within a factor of 1.5: network, lr, small, large (batch sizes), short, long (epochs), updates (those of
    the large batch over those of the small), equal_epochs (large less small batch, both trained long), equal_updates
    (large batch trained long less small batch trained short). Runs of several experiments are compared where they agree
    in all else, seed and weight decay too, and then averaged. No row where all runs have as many epochs.
    """
    require_columns(runs, ["network", "lr", "batch_size", "epochs", "seed", column])
    keys = [key for key in ("network", *HYPERPARAMETERS, "seed") if key in runs.columns]
    keys = [key for key in keys if key not in ("batch_size", "epochs")]
    runs = finished(runs).drop_duplicates([*keys, "batch_size", "epochs"])
    runs = runs[[*keys, "batch_size", "epochs", column]]
    small, large = (
        runs.rename(columns={"batch_size": size, column: value}) for size, value in (("small", "s"), ("large", "l"))
    )
    pairs = small.rename(columns={"epochs": "short"}).merge(large.rename(columns={"epochs": "long"}), on=keys)
    pairs["updates"] = (pairs["long"] / pairs["large"]) / (pairs["short"] / pairs["small"])
    pairs = pairs[(pairs["small"] < pairs["large"]) & pairs["updates"].between(1 / 1.5, 1.5)]
    trained_long = small.rename(columns={"epochs": "long", "s": "same"})
    pairs = pairs.merge(trained_long, on=[*keys, "small", "long"])
    pairs = pairs.assign(equal_epochs=pairs["l"] - pairs["same"], equal_updates=pairs["l"] - pairs["s"])
    by = ["network", "lr", "small", "large", "short", "long"]
    return pairs.groupby(by, sort=False)[["updates", "equal_epochs", "equal_updates"]].mean().reset_index()


def mean_interval(
    values: np.ndarray, num_resamples: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Interval of the mean of independent `values` (n,): expanded percentile, or Student's under `MIN_CELLS` values.

    (NaN, NaN) for fewer than two, or where all are equal, which measures no uncertainty.
    """
    n = len(values)
    if n >= MIN_CELLS:
        drawn = {"num_resamples": num_resamples, "confidence": confidence, "seed": seed}
        return bootstrap_interval(lambda weights: weights @ values / n, range(n), **drawn)
    if n < 2 or np.ptp(values) <= 1e-12 * np.abs(values).max():
        return float("nan"), float("nan")
    half = stats.t.ppf((1 + confidence) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n)
    return float(values.mean() - half), float(values.mean() + half)


def plain_runs(runs: pd.DataFrame, campaign: Campaign) -> pd.DataFrame:
    """The runs of all experiments that train as `[train]` says, with nothing of their own: one row a run, as "main".

    A campaign may spread its networks over several experiments, and count the same runs again in others.
    """
    plain = [experiment.name for experiment in campaign.experiments if not experiment.train]
    kept = runs[runs["experiment"].isin(plain)].assign(experiment="main")
    return kept.drop_duplicates("run_id") if "run_id" in kept.columns else kept


def select_campaign(runs: pd.DataFrame, campaign: str, experiment: str | None = None) -> pd.DataFrame:
    """The runs of one campaign and, where it holds several, of one experiment.

    Raises ValueError where there are none, or where the campaign holds several experiments and none was named: runs
    with and without mixup, say, do not belong in one correlation.
    """
    for column, wanted in (("campaign", str(pathlib.PurePath(campaign))), ("experiment", experiment)):
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
    runs: pd.DataFrame, campaign: str, experiment: str | None = None, *, num_resamples: int = 10_000, seed: int = 0
) -> list[Result]:
    """Our results for the main correlation, the two biases and test accuracy, from one campaign's runs.

    Ids: main/<network> and main/overall (v1 Fig 2 left, Pearson of count and gap), bias/lr/... and bias/batch-size/...
    (v1 Fig 3, change of count per doubling), test-accuracy/<network> (v1 Fig 5, Pearson). The overall ones are over the
    paper's three networks and need at least `MIN_CELLS` cells of each; what the runs cannot answer (one lr) gives no
    result. Seeds are averaged first. Raises ValueError as `select_campaign`
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
            results += _biases(network, campaign, group)
        if network in NETWORKS:
            results += correlation_result(f"test-accuracy/{network}", campaign, group, "test_accuracy", options)
    cells = finished(average_seeds(runs))["network"].value_counts()
    if all(cells.get(network, 0) >= MIN_CELLS for network in MAIN_NETWORKS):
        across = runs[runs["network"].isin(MAIN_NETWORKS)]
        results += correlation_result("main/overall", campaign, across, "gap", options)
        results += _biases("overall", campaign, across)
    return results


def correlation_result(
    id_: str, campaign: str, runs: pd.DataFrame, column: str, options: dict, *, x: str = "count"
) -> Iterator[Result]:
    """The Result `id_`: Pearson's correlation of columns `x` and `column` over cells; nothing where it is undefined.

    Nothing for two cells either, whose correlation is 1 or -1 whatever they are.

    options: num_resamples and seed of `correlate`.
    """
    cells = finished(average_seeds(runs))
    c = correlate_cells(cells, x, column, **options)
    if np.isfinite(c.value):
        yield Result(id_, campaign, c.value, c.low, c.high, c.n, _describe(runs, cells), _same_as(id_, cells))


def _same_as(id_: str, cells: pd.DataFrame) -> str:
    """The id whose number this one repeats with its sign turned: that of the gap where all cells fit equally well."""
    experiment, _, network = id_.partition("/")
    alike = np.ptp(cells["gap"] + cells["test_accuracy"]) < 0.02 * np.ptp(cells["gap"])
    if experiment != "test-accuracy" or not alike:
        return ""
    return f"main/{network}" if network in MAIN_NETWORKS else f"architectures/{network}/CIFAR-10"


def _describe(runs: pd.DataFrame, cells: pd.DataFrame) -> str:
    words = [f"Pearson over {len(cells)} cells"]
    if "interpolates" in cells.columns:
        words.append(f"{int(cells['interpolates'].sum())} of them interpolate")
    diverged = len(runs) - len(finished(runs))
    return ", ".join([*words, *([f"diverged runs: {diverged}"] if diverged else [])])


def _biases(name: str, campaign: str, runs: pd.DataFrame) -> Iterator[Result]:
    for factor, column in (("lr", "lr"), ("batch-size", "batch_size")):
        change = change_per_doubling(runs, column)
        if np.isfinite(change.value):
            detail = f"common to {change.n_groups} groups of cells that differ in {column} alone"
            if "epochs" in runs.columns and runs["epochs"].nunique() == 1:
                detail += f", all trained for {runs['epochs'].iloc[0]} epochs"
            yield Result(
                f"bias/{factor}/{name}", campaign, change.value, change.low, change.high, change.n_cells, detail
            )


MEASURE_IDS = {"distance_from_init": "motivation/distance", "margin": "motivation/margin"}


def results_from_measures(
    runs: pd.DataFrame, campaign: str, experiment: str | None = None, *, num_resamples: int = 10_000, seed: int = 0
) -> list[Result]:
    """Our results for motivation/distance and motivation/margin (v1 Fig 4), from the runs of ResNet18 of a campaign.

    Pearson of d(W) or the margin with the gap over cells; the detail says how well learning rate / batch size alone
    orders the measure. Runs without ResNet18 or without these measures give no result. Raises ValueError as
    `select_campaign`.
    """
    runs = select_campaign(runs, campaign, experiment)
    runs = runs[runs["network"] == "ResNet18"]
    results: list[Result] = []
    for column, id_ in MEASURE_IDS.items():
        if len(runs) and column in runs.columns and finished(runs)[column].notna().all():
            options = {"num_resamples": num_resamples, "seed": seed}
            cells = finished(average_seeds(runs))
            order = correlate(cells[column], cells["lr"] / cells["batch_size"], "spearman", num_resamples=1).value
            words = f"; Spearman with learning rate / batch size {order:.2f}"
            found = correlation_result(id_, campaign, runs, "gap", options, x=column)
            results += [dataclasses.replace(result, detail=result.detail + words) for result in found]
    return results
