"""The page on univariate networks: tables of trained students, and our results for the statements of Safran et al."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from rc_utils.correlation import slope
from rc_utils.paper.verdict import Result
from rc_utils.theory.univariate.networks import FINE_TOLERANCE
from rc_utils.theory.univariate.theorems import ERROR_GRID, example_1, least_constant, region_bound, share

CAMPAIGN = "univariate students"


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


def _region_result(id_: str, table: pd.DataFrame) -> Result:
    """Largest number of regions over 32 c + 67, with c the label changes of a student's sample, which may stand for r.

    Over converged students of more than 32 r + 66 neurons: others cannot exceed it. Counted to both tolerances, the
    larger of which is taken.
    """
    kept = table[table["converged"] & (table["width"] >= table["sign_changes"].map(region_bound))]
    kept = kept.reset_index(drop=True)
    if kept.empty:
        detail = (
            f"no student wider than 32 r + 66 neurons converged; {len(table)} narrower ones cannot exceed the bound"
        )
        return Result(id_, CAMPAIGN, math.nan, n=0, detail=detail)
    bound = kept["label_changes"].map(region_bound)
    ratio = kept[["regions", "regions_fine"]].max(axis=1) / bound
    worst = kept.loc[ratio.idxmax()]
    detail = (
        f"students whose samples change label {kept['label_changes'].max()} times at most; the largest ratio is "
        f"{worst[['regions', 'regions_fine']].max():.0f} regions, to tolerances 0.001 and {FINE_TOLERANCE:g}, where a "
        f"width of {worst['width']:.0f} allows {worst['width'] + 1:.0f}"
    )
    return Result(id_, CAMPAIGN, float(ratio.max()), n=len(kept), detail=detail)


def _result_23(table: pd.DataFrame) -> Result:
    """No value where the students are narrower than the theorem asks for: what it claims is then only illustrated."""
    short = table[table["width"] < table["stated_width"]]
    if short.empty:
        return _region_result("safran/theorem-2.3", table)
    kept = table[table["converged"]]
    regions = f", with at most {kept['regions'].max():.0f} linear regions" if len(kept) else ""
    detail = (
        f"asks for {short['stated_width'].min():.0f} to {short['stated_width'].max():.0f} neurons for these teachers, "
        f"and for a sample size whose constant C_0 is not given; students of {short['width'].max():.0f} neurons with "
        f"the stated variances only illustrate it ({len(kept)} of {len(table)} converged{regions})"
    )
    return Result("safran/theorem-2.3", CAMPAIGN, math.nan, n=len(kept), detail=detail)


def _result_31(stated: pd.DataFrame, delta: float) -> Result:
    """The share that the theorem promises over the share that got there, with its exact interval.

    Those that did not get there within our steps may do so later, which leaves the ratio without a low end.
    """
    reached, low, high = share(int((stated["ratio"] <= 1).sum()), len(stated))
    worst = stated.loc[stated["ratio"].idxmax()]
    detail = (
        f"{reached:.0%} of {len(stated)} students [{low:.0%}, {high:.0%}] got there, {1 - delta:.0%} are promised; r = "
        f"{worst['sign_changes']:.0f}, n = {worst['num_samples']:.0f}, width {worst['width']:.0f}; 2 n times the least "
        f"loss met is {worst['ratio']:.2g} at most"
    )
    value, least, most = _inverse(1 - delta, reached, low, high)
    least = least if reached == 1 else 0.0
    return Result("safran/theorem-3.1", CAMPAIGN, value, least, most, len(stated), detail)


def _result_32(certified: pd.DataFrame, sign_changes: int) -> Result:
    """0.25 over the least share of initializations that no training can bring below the bound, at r = sign_changes."""
    here = certified[certified["sign_changes"] == sign_changes]
    if here.empty:
        return Result("safran/theorem-3.2", CAMPAIGN, math.nan, detail="no width below 4 r / 3, where the bound begins")
    least = here.loc[here["share"].idxmin()]
    others = certified[certified["sign_changes"] != sign_changes].groupby("sign_changes")["share"].min()
    also = ", ".join(f"{value:.2f} at r = {r}" for r, value in others.items())
    detail = (
        f"r = {sign_changes}: whatever the training, {least['share']:.3f} [{least['low']:.3f}, {least['high']:.3f}] of "
        f"the initializations at width {least['width_ratio']:g} r, the least of {len(here)} widths; the certificate "
        f"gives {also}; points chosen by us, the paper's are not in the text we have"
    )
    values = _inverse(0.25, least["share"], least["low"], least["high"])
    return Result("safran/theorem-3.2", CAMPAIGN, *values, int(least["n"]), detail)


def _inverse(promised: float, found: float, low: float, high: float) -> tuple[float, float, float]:
    """promised / share, with its interval."""
    return tuple(promised / max(value, 1e-12) for value in (found, high, low))


def _result_51(errors: pd.DataFrame, samples: pd.DataFrame, delta: float) -> Result:
    """No value: the constant C_0 is not given, and some C_0 allows any finite number of students."""
    if errors.empty:
        return Result("safran/corollary-5.1", CAMPAIGN, math.nan, detail="no student converged")
    slope, low, high = error_slope(samples)
    detail = (
        f"the constant C_0 is not given; C_0 = {errors['constant'].max():.2g} would allow the errors of all "
        f"{errors['n_students'].sum()} converged students at delta = {delta:g}; the error goes as n to the power "
        f"{slope:.2f} [{low:.2f}, {high:.2f}], the corollary's as 1 / n but for a logarithm"
    )
    return Result("safran/corollary-5.1", CAMPAIGN, math.nan, n=int(errors["n_students"].sum()), detail=detail)


def results_from_students(
    students: pd.DataFrame,
    from_stated: pd.DataFrame,
    stated: pd.DataFrame,
    certified: pd.DataFrame,
    narrow_r: int,
    by_samples: pd.DataFrame,
    delta: float,
    delta_error: float,
) -> list[Result]:
    """The results for the scorecard: students of `train_cells`, tables of `theorem_23`, `theorem_31` and
    `certified_share`, of which r = narrow_r is judged, students of several sample sizes, and `example_1`, run here."""
    example = example_1()
    detail_1 = (
        f"limit {example['limit_norm']:.4f} with KKT residual {example['limit_residual']:.1g}, better solution "
        f"{example['better_norm']:.4f} with margins {example['better_margins']}"
    )
    return [
        _result_23(from_stated),
        _result_31(stated, delta),
        _result_32(certified, narrow_r),
        _region_result("safran/theorem-4.2", students),
        _result_51(error_table(by_samples, delta_error), by_samples, delta_error),
        Result("safran/example-1", CAMPAIGN, example["better_norm"] / example["limit_norm"], n=1, detail=detail_1),
    ]
