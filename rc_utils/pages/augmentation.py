"""What an augmentation does to count and gap: the same cells with and without it (v1 Fig 7 and 8, v3 Fig 6 and 7)."""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from rc_utils.correlation import (
    average_seeds,
    bootstrap_interval,
    correlate,
    finished,
    interval_text,
    mean_interval,
    require_columns,
    sampling_units,
    unit_means,
)
from rc_utils.pages import plotting
from rc_utils.pages.plotting import BLUE, ORANGE
from rc_utils.paper.scorecard import correlation_result
from rc_utils.paper.verdict import Result

AUGMENTATIONS = {"mixup": ("count", "gap"), "crop-flip": ("count", "test_accuracy")}
_MATCH = ("network", "lr", "batch_size", "weight_decay", "optimizer")


@dataclass(frozen=True)
class Difference:
    """Mean over `n` matched cells of a quantity with the augmentation less without, and its interval."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Shift:
    """Change of the gap at equal count, and the slopes of gap on count: common, without and with the augmentation.

    crosses: lines of their own slopes, one fitted to each group, cross between the least and the largest count, so that
    the sign of the change depends on the count at which it is read. opposed: their slopes have opposite signs, so that
    there is no common one.
    """

    value: float
    low: float
    high: float
    n: int
    slope: float
    slope_without: float
    slope_with: float
    crosses: bool = False

    @property
    def opposed(self) -> bool:
        return self.slope_without * self.slope_with < 0

    def __str__(self) -> str:
        return (
            f"gap at equal count {_text(self)} over {self.n} matched cells; slopes of gap on count: "
            f"common {self.slope:.3f}, without {self.slope_without:.3f}, with {self.slope_with:.3f}"
            + (", of opposite signs" if self.opposed else "")
            + (", so that the two lines cross among the counts" if self.crosses else "")
        )


def matched_cells(runs: pd.DataFrame, augmented: str, plain: str = "main") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cells of the experiments `plain` and `augmented`, row by row the same network and hyper-parameters.

    Averaged over the seeds that finished in both, so that a difference between the rows is none between seeds; cells
    without such a seed are left out. The number of epochs may differ. Raises ValueError for a missing column or an
    experiment that `runs` does not hold.
    """
    require_columns(runs, ["experiment", "network", "cell", "count", "gap", "test_accuracy"])
    known = list(pd.unique(runs["experiment"]))
    for name in (plain, augmented):
        if name not in known:
            raise ValueError(f"no runs of experiment {name!r}; there are {', '.join(known) or 'none'}")
    keys = [key for key in _MATCH if key in runs.columns]
    of_run = [*keys, *(["seed"] if "seed" in runs.columns else [])]
    tables = [finished(runs[runs["experiment"] == name]).set_index(of_run) for name in (plain, augmented)]
    shared = tables[0].index.intersection(tables[1].index)
    cells = [average_seeds(table.loc[shared].reset_index()).set_index(keys) for table in tables]
    return tuple(table.loc[cells[0].index].reset_index() for table in cells)


def paired_difference(
    without: pd.DataFrame, with_: pd.DataFrame, column: str, *, num_resamples: int = 10_000, seed: int = 0
) -> Difference:
    """Mean of `column` with less without, over the rows of `matched_cells`."""
    differences = without.assign(difference=with_[column].to_numpy(float) - without[column].to_numpy(float))
    value = float(differences["difference"].mean()) if len(differences) else float("nan")
    bounds = mean_interval(unit_means(differences, "difference"), num_resamples, seed=seed)
    return Difference(value, *bounds, len(differences))


def vertical_shift(
    without: pd.DataFrame,
    with_: pd.DataFrame,
    *,
    x: str = "count",
    y: str = "gap",
    num_resamples: int = 10_000,
    seed: int = 0,
) -> Shift:
    """Change of y at equal x: the coefficient s of y = a + b x + s [with] (analysis of covariance, common slope b).

    b = sum_g S_xy,g / sum_g S_xx,g over both groups, s = (mean y_1 - mean y_0) - b (mean x_1 - mean x_0). The interval
    resamples matched cells, both rows of a cell together. A shift is vertical if s is not 0 and explains more than
    the change of x does; compare the slopes of the groups before believing in a common one (`Shift.crosses`). Value NaN
    where x is constant. Raises ValueError for tables of unequal length.
    """
    if len(without) != len(with_):
        raise ValueError(f"{len(without)} cells without and {len(with_)} with; expected the rows of matched_cells")
    n = len(without)
    if n < 2:
        return Shift(*[float("nan")] * 3, n, *[float("nan")] * 3)
    groups = [(t[x].to_numpy(float), t[y].to_numpy(float)) for t in (without, with_)]

    def slope_and_shift(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second = moments = [_moments(*group, weights) for group in groups]
        slope = _ratio(sum(m["sxy"] for m in moments), sum(m["sxx"] for m in moments))
        return slope, (second["y"] - first["y"]) - slope * (second["x"] - first["x"])

    drawn = {"num_resamples": num_resamples, "seed": seed}
    low, high = bootstrap_interval(lambda weights: slope_and_shift(weights)[1], sampling_units(without), **drawn)
    once = np.ones((1, n))
    slope, shift = (float(v[0]) for v in slope_and_shift(once))
    moments = [_moments(*group, once) for group in groups]
    slopes = [float(_ratio(m["sxy"], m["sxx"])[0]) for m in moments]
    ends = np.array([min(x.min() for x, _ in groups), max(x.max() for x, _ in groups)])
    lines = [m["y"][0] + own * (ends - m["x"][0]) for m, own in zip(moments, slopes, strict=True)]
    crosses = bool(np.prod(lines[1] - lines[0]) < 0)
    return Shift(shift, low, high, n, slope, *slopes, crosses)


def _moments(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Weighted means and centred sums of products; x, y (n,), weights (B, n) -> (B,) each."""
    mean_x, mean_y = (weights @ v / weights.sum(1) for v in (x, y))
    dx, dy = x - mean_x[:, None], y - mean_y[:, None]
    return {"x": mean_x, "y": mean_y, "sxx": (weights * dx * dx).sum(1), "sxy": (weights * dx * dy).sum(1)}


def _ratio(sxy: np.ndarray, sxx: np.ndarray) -> np.ndarray:
    return np.divide(sxy, sxx, out=np.full(len(sxx), np.nan), where=sxx > 1e-24)


def effects_table(without: pd.DataFrame, with_: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Mean of count, gap, training and test accuracy without and with, their paired difference, and the shift."""
    rows = []
    for column in ("count", "gap", "train_accuracy", "test_accuracy"):
        d = paired_difference(without, with_, column, seed=seed)
        row = {
            "Quantity": column.replace("_", " "),
            "Without": f"{without[column].mean():.3f}",
            "With": f"{with_[column].mean():.3f}",
        }
        rows.append(row | {"Difference": _text(d), "Cells": d.n})
    shift = vertical_shift(without, with_, seed=seed)
    rows.append({"Quantity": "gap at equal count", "Difference": _text(shift), "Cells": shift.n})
    return pd.DataFrame(rows)


def _text(d: Difference | Shift) -> str:
    return interval_text(d.value, d.low, d.high, "+.3f")


def results_from_augmentation(
    runs: pd.DataFrame,
    campaign: str,
    augmented: str,
    plain: str = "main",
    *,
    num_resamples: int = 10_000,
    seed: int = 0,
) -> list[Result]:
    """Our results for mixup/{count, gap, correlation} or crop-flip/{count, test-accuracy, shift, correlation}.

    And for crop-flip/{shift, accuracy, count}-beyond-mixup, where the campaign has cells of both.
    augmented: "mixup" or "crop-flip", the name of the experiment. A campaign without it, or without matching cells,
    gives no result. Raises ValueError for another name.
    """
    if augmented not in AUGMENTATIONS:
        raise ValueError(f"augmentation {augmented!r} has no published claim; expected {' or '.join(AUGMENTATIONS)}")
    if not {plain, augmented} <= set(runs["experiment"]):
        return []
    without, with_ = matched_cells(runs, augmented, plain)
    if len(without) < 2:
        return []
    options = {"num_resamples": num_resamples, "seed": seed}
    results = []
    for column in AUGMENTATIONS[augmented]:
        d = paired_difference(without, with_, column, **options)
        id_ = f"{augmented}/{column.replace('_', '-')}"
        results.append(Result(id_, campaign, d.value, d.low, d.high, d.n, "mean difference over matched cells"))
    if augmented == "crop-flip":
        shift = vertical_shift(without, with_, **options)
        if np.isfinite(shift.value):
            results.append(_shift_result("crop-flip/shift", shift, campaign, with_))
        results += _beyond_mixup(runs, campaign, options)
    return [*results, *correlation_result(f"{augmented}/correlation", campaign, with_, "gap", options)]


def _beyond_mixup(runs: pd.DataFrame, campaign: str, options: dict) -> list[Result]:
    """What crop and flip change beyond mixup, over the cells that were trained with either."""
    if "mixup" not in set(runs["experiment"]):
        return []
    mixed, cropped = matched_cells(runs, "crop-flip", "mixup")
    shift = vertical_shift(mixed, cropped, **options)
    if not np.isfinite(shift.value):
        return []
    results = [_shift_result("crop-flip/shift-beyond-mixup", shift, campaign, cropped)]
    for name, column in (("accuracy", "test_accuracy"), ("count", "count")):
        d = paired_difference(mixed, cropped, column, **options)
        id_, words = f"crop-flip/{name}-beyond-mixup", "mean difference over matched cells"
        results.append(Result(id_, campaign, d.value, d.low, d.high, d.n, words))
    return results


def _shift_result(id_: str, shift: Shift, campaign: str, with_: pd.DataFrame) -> Result:
    """A shift of the gap; not checkable where the two lines cross or run opposite ways: no shift is vertical then."""
    fitted = f"{int(with_['interpolates'].sum())} of {shift.n} cells with crop and flip interpolate"
    words = f"slopes of gap on count {shift.slope_without:.2g} and {shift.slope_with:.2g}; {fitted}"
    if shift.crosses or shift.opposed:
        how = "cross among the counts" if shift.crosses else "run opposite ways"
        words += f": the lines {how}, and the change depends on the count at which it is read"
        return Result(id_, campaign, float("nan"), n=shift.n, detail=words)
    return Result(id_, campaign, shift.value, shift.low, shift.high, shift.n, words)


def overlay(plain: pd.DataFrame, augmented: pd.DataFrame, name: str, y: str = "gap") -> Figure:
    """Scatter of `y` against the count for the same cells without (circles) and with (triangles) an augmentation.

    Both are tables of cells of one network or several; each has its least-squares line, and Pearson's r in the legend.
    """
    fig, ax = plt.subplots()
    for cells, label, colour, marker in (
        (plain, "without", BLUE, "o"),
        (augmented, f"with {name}", ORANGE, "^"),
    ):
        r = correlate(cells["count"], cells[y], num_resamples=1).value
        text = f"{label}, r = {r:.2f}" if np.isfinite(r) else label
        ax.plot(cells["count"], cells[y], marker, color=colour, alpha=0.85, label=text)
        if cells["count"].nunique() > 1:
            line = np.polyfit(cells["count"], cells[y], 1)
            ends = np.array([cells["count"].min(), cells["count"].max()])
            ax.plot(ends, np.polyval(line, ends), color=colour, alpha=0.4, linewidth=1.5)
    ax.set(xlabel=plotting.label_of("count"), ylabel=plotting.label_of(y))
    ax.legend(loc="best")
    return fig
