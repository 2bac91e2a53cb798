"""Tables of trained students, as the page on univariate networks shows and judges them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from rc_utils.correlation import slope
from rc_utils.theory.univariate.theorems import ERROR_GRID, least_constant, region_bound


def region_table(table: pd.DataFrame, by: str = "sign_changes") -> pd.DataFrame:
    """By the column `by`: n converged students, their share, the mean number of their linear regions, the largest
    number to each tolerance (see `train_students`), the bound 32 r + 67, and reach, (k + 1) / bound at the largest k.

    No network of width k has more than k + 1 regions: where reach is at most 1 the bound cannot fail. NaN where none
    converged.
    """
    rows = []
    for value, group in table.groupby(by):
        kept, bound = group[group["converged"]], region_bound(int(group["sign_changes"].iloc[0]))
        most = [kept[c].max() for c in ("regions_coarse", "regions", "regions_fine", "regions_all")]
        reach = (group["width"].max() + 1) / bound
        rows.append([value, len(kept), len(kept) / len(group), kept["regions"].mean(), *most, bound, reach])
    columns = ["n", "Share", "Mean", "to 0.01", "Most", "to 10⁻⁵", "to 0", "Bound", "Reach"]
    return pd.DataFrame(rows, columns=[by, *columns])


def trend(table: pd.DataFrame, column: str) -> tuple[float, float, float]:
    """Change of the number of linear regions per doubling of `column`, with its 95 % interval, over converged students.

    NaN throughout where fewer than two values of `column` or three students are left.
    """
    kept = table[table["converged"]]
    return _slope(np.log2(kept[column].astype(float)), kept["regions"])


def _slope(x: pd.Series, y: pd.Series) -> tuple[float, float, float]:
    if x.nunique() < 2 or len(x) < 3:
        return math.nan, math.nan, math.nan
    found = slope(pd.DataFrame({"x": x, "y": y}), "y ~ x", "x", range(len(x)), "students")
    return found.value, found.low, found.high


def error_table(table: pd.DataFrame, delta: float) -> pd.DataFrame:
    """By (r, n) over converged students, whose limit the corollary is about: n_students, converged (their share), mean,
    std_error and largest error, and constant, the C_0 at which Corollary 5.1 would just allow the largest."""
    rows = []
    for (r, n), group in table.groupby(["sign_changes", "num_samples"]):
        errors = group.loc[group["converged"], "error"]
        if len(errors):
            constant = least_constant(errors.max(), n, r, delta)
            rows.append(
                [r, n, len(errors), len(errors) / len(group), errors.mean(), errors.sem(), errors.max(), constant]
            )
    columns = ["sign_changes", "num_samples", "n_students", "converged", "mean", "std_error", "largest", "constant"]
    return pd.DataFrame(rows, columns=columns)


def error_slope(table: pd.DataFrame) -> tuple[float, float, float]:
    """Slope of log error on log n over converged students, with its 95 % interval; NaN for fewer than two n."""
    kept = table[table["converged"]]
    return _slope(np.log(kept["num_samples"]), np.log(kept["error"].clip(lower=0.5 / ERROR_GRID)))
