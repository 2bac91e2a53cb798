"""What an augmentation does to count and gap, in the same settings (v1 Fig 7 and 8, v3 Fig 6 and 7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rc_utils.correlation import Estimate, average_replicates, finished, mean, require_columns, slope
from rc_utils.published import Result, correlation_result

AUGMENTATIONS = {"mixup": ("count", "gap"), "crop-flip": ("count", "test_accuracy")}
_MATCH = ("network", "lr", "batch_size", "weight_decay", "optimizer")


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


def matched_settings(runs: pd.DataFrame, augmented: str, plain: str = "main") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Settings of the experiments `plain` and `augmented`, row by row the same network and hyper-parameters.

    Averaged over the runs that finished in both with the same seed, so that a difference between the rows is none
    between seeds; settings without such a seed are left out. The number of epochs may differ. Raises ValueError for a
    missing column or an experiment that `runs` does not hold.
    """
    require_columns(runs, ["experiment", "network", "cell", "count", "gap", "test_accuracy"])
    known = list(pd.unique(runs["experiment"]))
    for name in (plain, augmented):
        if name not in known:
            raise ValueError(f"no runs of experiment {name!r}; there are {', '.join(known) or 'none'}")
    tables = [finished(runs[runs["experiment"] == name]).set_index([*_MATCH, "seed"]) for name in (plain, augmented)]
    shared = tables[0].index.intersection(tables[1].index)
    first, second = (average_replicates(table.loc[shared].reset_index()) for table in tables)
    keys = [key for key in _MATCH if key in first.columns]  # without a weight decay that does nothing
    first, second = first.set_index(keys), second.set_index(keys)
    return first.reset_index(), second.loc[first.index].reset_index()


def paired_difference(without: pd.DataFrame, with_: pd.DataFrame, column: str) -> Estimate:
    """Mean of `column` with less without, over the rows of `matched_settings`."""
    return mean(with_[column].to_numpy(float) - without[column].to_numpy(float))


def vertical_shift(without: pd.DataFrame, with_: pd.DataFrame) -> Shift:
    """Change of the gap at equal count: the coefficient s of gap = a + b count + s [with] (common slope b).

    Least squares of "gap ~ count + augmented" with errors clustered by setting (`slope`). A shift is vertical if s is
    not 0 and explains more than the change of the count does; compare the slopes of the groups before believing in a
    common one (`Shift.crosses`). Value NaN where the count is constant.
    """
    n, nan = len(without), float("nan")
    rows = pd.concat([without.assign(augmented=0.0), with_.assign(augmented=1.0)], ignore_index=True)
    common = slope(rows, "gap ~ count + augmented", "count", rows["setting"]).value if n > 1 else nan
    if not np.isfinite(common):
        return Shift(nan, nan, nan, n, nan, nan, nan)
    shift = slope(rows, "gap ~ count + augmented", "augmented", rows["setting"])
    slopes, lines = [], []
    for table in (without, with_):
        count, gap = table["count"].to_numpy(float), table["gap"].to_numpy(float)
        own = np.polyfit(count, gap, 1) if np.ptp(count) > 1e-12 else np.array([nan, nan])
        slopes.append(float(own[0]))
        lines.append(np.polyval(own, [rows["count"].min(), rows["count"].max()]))
    crosses = bool(np.prod(lines[1] - lines[0]) < 0)
    return Shift(shift.value, shift.low, shift.high, n, common, *slopes, crosses)


def results_from_augmentation(runs: pd.DataFrame, campaign: str, augmented: str, plain: str = "main") -> list[Result]:
    """Our results for mixup/{count, gap, correlation} or crop-flip/{count, test-accuracy, shift, correlation}.

    And for crop-flip/{shift, accuracy, count}-beyond-mixup, where the campaign has settings of both.
    augmented: "mixup" or "crop-flip", the name of the experiment. A campaign without it, or without matching settings,
    gives no result.
    """
    if not {plain, augmented} <= set(runs["experiment"]):
        return []
    without, with_ = matched_settings(runs, augmented, plain)
    if len(without) < 2:
        return []
    results = []
    for column in AUGMENTATIONS[augmented]:
        results.append(_difference_result(f"{augmented}/{column.replace('_', '-')}", campaign, without, with_, column))
    if augmented == "crop-flip":
        shift = vertical_shift(without, with_)
        if np.isfinite(shift.value):
            results.append(_shift_result("crop-flip/shift", shift, campaign, with_))
        results += _beyond_mixup(runs, campaign)
    return [*results, *correlation_result(f"{augmented}/correlation", campaign, with_.assign(cell=""), "gap")]


def _difference_result(id_: str, campaign: str, without: pd.DataFrame, with_: pd.DataFrame, column: str) -> Result:
    d = paired_difference(without, with_, column)
    differences = with_[column] - without[column]
    words = f"mean difference over {d.n} matched settings, {differences.min():+.2g} to {differences.max():+.2g}"
    words += f"; with the augmentation {int(with_['interpolates'].sum())} of them interpolate"
    return Result(id_, campaign, d.value, d.low, d.high, d.n, words)


def _beyond_mixup(runs: pd.DataFrame, campaign: str) -> list[Result]:
    """What crop and flip change beyond mixup, over the settings that were trained with either."""
    if "mixup" not in set(runs["experiment"]):
        return []
    mixed, cropped = matched_settings(runs, "crop-flip", "mixup")
    shift = vertical_shift(mixed, cropped)
    if not np.isfinite(shift.value):
        return []
    results = [_shift_result("crop-flip/shift-beyond-mixup", shift, campaign, cropped)]
    for name, column in (("accuracy", "test_accuracy"), ("count", "count")):
        results.append(_difference_result(f"crop-flip/{name}-beyond-mixup", campaign, mixed, cropped, column))
    return results


def _shift_result(id_: str, shift: Shift, campaign: str, with_: pd.DataFrame) -> Result:
    """A shift of the gap; without a value where the two lines cross or run opposite ways: no shift is vertical then."""
    fitted = f"{int(with_['interpolates'].sum())} of {shift.n} settings with crop and flip interpolate"
    words = f"slopes of gap on count {shift.slope_without:.2g} and {shift.slope_with:.2g}; {fitted}"
    if shift.crosses or shift.opposed:
        how = "cross among the counts" if shift.crosses else "run opposite ways"
        words += f": the lines {how}, and the change depends on the count at which it is read"
        return Result(id_, campaign, float("nan"), n=shift.n, detail=words)
    return Result(id_, campaign, shift.value, shift.low, shift.high, shift.n, words)
