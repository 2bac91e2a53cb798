"""What learning rate and batch size do to the count: slopes, fits, and equal updates."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from rc_utils.checks import require
from rc_utils.correlation import HYPERPARAMETERS, average_seeds, finished, require_columns
from rc_utils.pages import plotting


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
    have three coefficients. Seeds, and cells that differ in weight decay alone, are averaged. Raises ValueError for
    cells without a number.
    """
    require_columns(runs, ["network", "cell", "lr", "batch_size", column])
    cells = finished(average_seeds(runs))
    without = int(cells[column].isna().sum())
    require(not without, f"{without} of {len(cells)} cells have no {column}; leave out runs that were not counted")
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


def quotient_panel(runs: pd.DataFrame, column: str = "count") -> Figure:
    """`column` against learning rate / batch size, a line for each network, a point for each setting of the two.

    Points are means over seeds and weight decays. Raises ValueError for a missing column.
    """
    require_columns(runs, ["network", "cell", "lr", "batch_size", column])
    cells = finished(average_seeds(runs))
    fig, ax = plt.subplots(figsize=(plotting.width(), 4))
    for network, group in cells.groupby("network", sort=False):
        units = group.groupby(["lr", "batch_size"])[column].mean().reset_index()
        units = units.assign(quotient=units["lr"] / units["batch_size"]).sort_values("quotient")
        look = plotting.network_style(str(network))
        ax.plot(units["quotient"], units[column], color=look.color, marker=look.marker, linewidth=1, label=network)
    ax.set_xscale("log")
    ax.set(xlabel="learning rate / batch size", ylabel=plotting.label_of(column))
    ax.legend()
    return fig
