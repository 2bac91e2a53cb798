"""An estimate with its interval, and the few ways in which one is made.

Correlations have Fisher's interval, differences of two Zou's, means Student's, slopes that of least squares with
cluster-robust errors, shares Wilson's, and everything else a bootstrap. All of them count *units*: what was really
varied and tried again, mostly settings (`rc_utils.correlation.settings`). Rows of one unit are not independent.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from rc_utils.checks import check_count
from rc_utils.correlation.weighted import METHODS, weighted_pearson

NAN = float("nan")
# With fewer units most resamples are alike, and a bootstrap misses the truth far too often.
MIN_UNITS = 7


@dataclass(frozen=True)
class Estimate:
    """A `value` with the ends of its 95 % interval, NaN where it or they cannot be had, over `n` of a `unit`."""

    value: float
    low: float = NAN
    high: float = NAN
    n: int = 0
    unit: str = "settings"

    def __str__(self) -> str:
        return f"{interval_text(self.value, self.low, self.high)} ({self.n} {self.unit})"


def interval_text(value: float | None, low: float = NAN, high: float = NAN, form: str = "") -> str:
    """`value [low, high]` with the digits that the interval earns: two decimals for a width of 0.12 to 1.2, and so on;
    three at most, but for values below 0.01.

    Without an interval two decimals, two digits of a number below 0.01, and none from 100 on; a dash without a value.
    `form` is put before the number of decimals: "+" shows the sign.
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "unbounded"
    if not (math.isfinite(low) and math.isfinite(high)):
        if abs(value) >= 100:
            return f"{value:{form},.0f}"
        return f"{value:{form}.2f}" if value == 0 or abs(value) >= 0.01 else f"{value:{form}.2g}"
    width = high - low if high - low > 1e-9 else 1.0
    decimals = max(0, 2 - math.floor(math.log10(width / 0.12)))
    decimals = min(decimals, 3) if abs(value) >= 0.01 else decimals
    numbers = [f"{round(number, decimals) + 0.0:{form}.{decimals}f}" for number in (value, low, high)]
    return f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"


def is_constant(values: np.ndarray) -> bool:
    """Whether values differ by no more than rounding."""
    return bool(np.ptp(0.5 * values) <= 0.5e-12 * np.abs(values).max())


def scaled(values: np.ndarray) -> np.ndarray:
    """Values moved and scaled to [0, 1], zeros where they are constant: an offset or a size costs no digits, then."""
    if is_constant(values):
        return np.zeros_like(values)
    half = 0.5 * values  # whose range is finite for all finite values
    return (half - half.min()) / np.ptp(half)


def unit_codes(units: Sequence[Hashable]) -> np.ndarray:
    """Codes (n,) from 0 of the names (n,) of units; a tuple is one name."""
    return pd.factorize(pd.Index(units, tupleize_cols=False), use_na_sentinel=False)[0]


def bootstrap(
    statistic: Callable[[np.ndarray], np.ndarray],
    units: Sequence[Hashable],
    *,
    num_resamples: int = 10_000,
    seed: int = 0,
    unit: str = "settings",
) -> Estimate:
    """A statistic with its percentile interval from drawing m whole units with replacement, wider by sqrt(m / (m - 1)).

    `units` (n,) names the unit of each row. `statistic` takes weights (B, n), how often each row is counted, and
    returns (B,) values; with weights of one it is the value, which the interval holds. No interval with fewer than
    `MIN_UNITS` units or where the resamples do not vary. Raises ValueError for `num_resamples` that is no whole number
    from 1 on.
    """
    check_count("num_resamples", num_resamples, 1)
    codes = unit_codes(units)
    number = int(codes.max(initial=-1)) + 1
    value = float(statistic(np.ones((1, len(codes))))[0]) if number else NAN
    if number < MIN_UNITS or not np.isfinite(value):
        return Estimate(value, n=number, unit=unit)
    resampled = statistic(_resamples(number, num_resamples, seed)[:, codes])
    usable = resampled[np.isfinite(resampled)]
    if not len(usable) or np.ptp(usable) <= 1e-12 * max(1.0, np.abs(usable).max()):
        return Estimate(value, n=number, unit=unit)
    # The variance within m drawn units is too small by (m - 1) / m.
    tail = stats.norm.cdf(stats.norm.ppf(0.025) * math.sqrt(number / (number - 1)))
    low, high = np.quantile(usable, [tail, 1 - tail])
    return Estimate(value, min(float(low), value), max(float(high), value), number, unit)


@functools.lru_cache(maxsize=4)
def _resamples(number, num_resamples, seed):
    """How often each unit is drawn, (num_resamples, number) float64; the same for all statistics of as many units."""
    drawn = np.random.default_rng(seed).multinomial(number, np.full(number, 1 / number), size=num_resamples)
    return drawn.astype(float)


def fisher_interval(r: float, n: float, controls: float = 0, freedom: float = math.inf) -> tuple[float, float]:
    """tanh(atanh(r) ± t / sqrt(n - controls - 3)), with Student's quantile t; (NaN, NaN) where that is undefined.

    `n` is the number of independent rows and `controls` how many numbers were taken out of both variables before.
    `freedom` is infinite, which gives the normal quantile, where n is known and not estimated.
    """
    if not n - controls > 3 or not abs(r) < 1 - 1e-12:
        return NAN, NAN
    half = stats.t.ppf(0.975, freedom) / math.sqrt(n - controls - 3)
    return math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)


def effective_number(x: np.ndarray, y: np.ndarray, units: np.ndarray) -> float:
    """How many independent rows n dependent ones are worth for their correlation: from the number of units to n.

    n times the variance of r if all rows were independent, over its cluster-robust variance; both from the influence
    of each row on r, summed over rows and over units.
    """
    influence = _influence(x, y)
    by_unit = np.bincount(units, influence)
    number = int(units.max()) + 1
    together = float(by_unit @ by_unit)
    worth = len(x) * float(influence @ influence) / together if together > 0 else number
    return float(np.clip(worth, number, len(x)))


def _influence(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """z_x z_y - r (z_x² + z_y²) / 2 of each row, (n,)."""
    zx, zy = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    return zx * zy - np.mean(zx * zy) * (zx**2 + zy**2) / 2


def correlation_lead(
    x: Sequence[float], rival: Sequence[float], y: Sequence[float], units: Sequence, controls: float = 0
) -> Estimate:
    """The correlation of x and y less that of a rival and y, with an interval from those of both (Zou 2007).

    The two correlations have errors in common; how much is estimated from the influence of every unit's rows on each.
    `units` and `controls` are those of `correlate`, which also raises ValueError for the same reasons. Source: Zou,
    Toward using confidence intervals to compare correlations, Psychological Methods 12, 2007.
    """
    one, other = (correlate(values, y, units=units, controls=controls) for values in (x, rival))
    _, gap, codes = checked_rows(x, y, units)
    first, second = (np.bincount(codes, _influence(np.asarray(values, float), gap)) for values in (x, rival))
    shared = 2 * float(first @ second) / math.sqrt((first @ first) * (second @ second))

    def reach(a: float, b: float) -> float:
        return math.sqrt(max(a * a + b * b - shared * a * b, 0.0))

    ahead = one.value - other.value
    low = ahead - reach(one.value - one.low, other.high - other.value)
    return Estimate(ahead, low, ahead + reach(one.high - one.value, other.value - other.low), one.n)


def checked_rows(x: Sequence[float], y: Sequence[float], units: Sequence[Hashable] | None) -> tuple[np.ndarray, ...]:
    """x and y as float64 and the codes of the units. Raises ValueError for other lengths or numbers not finite."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    number = len(x) if units is None else len(units)
    if x.ndim != 1 or x.shape != y.shape or number != len(x):
        raise ValueError(
            f"x has shape {x.shape}, y {y.shape} and units ({number},); expected three vectors of equal length"
        )
    bad = np.flatnonzero(~(np.isfinite(x) & np.isfinite(y)))
    if len(bad):
        row = bad[0]
        raise ValueError(
            f"{len(bad)} of {len(x)} rows are not finite (first: row {row}, x = {x[row]}, y = {y[row]}); "
            "leave out runs that diverged or were not counted"
        )
    return x, y, np.arange(len(x)) if units is None else unit_codes(units)


def correlate(
    x: Sequence[float],
    y: Sequence[float],
    method: str = "pearson",
    units: Sequence[Hashable] | None = None,
    *,
    num_resamples: int = 10_000,
    seed: int = 0,
    controls: float = 0,
    unit: str = "settings",
) -> Estimate:
    """Correlation of x and y, both (n,), with an interval.

    `method` is "pearson", with Fisher's interval for the `effective_number` of rows, or "spearman" or "kendall"
    (tau-b), with a `bootstrap`. `units` (n,) names the unit of each row; without it every row is one. `controls`: as in
    `fisher_interval`. A constant x or y, or fewer than three rows, gives NaN.
    Raises ValueError for an unknown method, vectors of unequal length, rows that are not finite, and as `bootstrap`.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; expected one of {', '.join(METHODS)}")
    x, y, codes = checked_rows(x, y, units)
    number = int(codes.max(initial=-1)) + 1
    if len(x) < 3 or is_constant(x) or is_constant(y):
        return Estimate(NAN, n=number, unit=unit)
    x, y = scaled(x), scaled(y)
    if method != "pearson":
        drawn = {"num_resamples": num_resamples, "seed": seed, "unit": unit}
        return bootstrap(lambda weights: METHODS[method](x, y, weights), codes, **drawn)
    value = float(np.clip(weighted_pearson(x, y, np.ones((1, len(x))))[0], -1, 1))
    # The controls of rows that are not independent are as little, and what these are worth is estimated from the units.
    worth = effective_number(x, y, codes)
    freedom = number - 1 if number < len(x) else math.inf
    return Estimate(value, *fisher_interval(value, worth, controls * worth / len(x), freedom), number, unit)


def partial_correlation(
    rows: pd.DataFrame, x: str, y: str, formula: str, units: Sequence[Hashable] | None = None, **options
) -> Estimate:
    """`correlate` of what least squares on the right-hand side `formula` leaves of the columns x and y.

    formula: such as "C(network) + log2_lr", in the columns of `rows`. NaN where it leaves nothing of one of them.
    """
    import statsmodels.formula.api as smf

    first, second, _ = checked_rows(rows[x], rows[y], units)
    design = smf.ols(f"_one ~ {formula}", rows.assign(_one=1.0)).exog
    left = []
    for values in (scaled(first), scaled(second)):
        residuals = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
        left.append(np.where(np.abs(residuals) > 1e-11, residuals, 0.0))
    return correlate(*left, units=units, controls=int(np.linalg.matrix_rank(design)) - 1, **options)


def slope(rows: pd.DataFrame, formula: str, term: str, units: Sequence[Hashable], unit: str = "settings") -> Estimate:
    """The coefficient `term` of least squares with the `formula`, and its cluster-robust interval over units.

    formula: as of `statsmodels`, such as "count ~ C(network) + log2_lr + log2_batch". For m units and k coefficients
    that differ between them, the variance is enlarged by m / (m - k) and Student's quantile has m - k degrees of
    freedom; where every unit has one row, errors are the usual ones. NaN where the rows do not vary the term; no
    interval where nothing is left to estimate the error from.
    """
    import statsmodels.formula.api as smf

    codes = unit_codes(units)
    model = smf.ols(formula, rows)
    number, rank = int(codes.max(initial=-1)) + 1, int(np.linalg.matrix_rank(model.exog))
    others = np.delete(model.exog, model.exog_names.index(term), axis=1)
    if np.linalg.matrix_rank(others) == rank:
        return Estimate(NAN, n=number, unit=unit)
    plain = model.fit()
    value = float(plain.params[term])
    between = pd.DataFrame(model.exog).groupby(codes).mean()
    freedom = number - int(np.linalg.matrix_rank(between))
    if freedom < 1 or len(rows) <= rank or plain.ssr <= 1e-20 * max(1.0, np.abs(model.endog).max() ** 2):
        return Estimate(value, n=number, unit=unit)
    error = float(plain.bse[term])
    if number < len(rows):
        robust = model.fit(cov_type="cluster", cov_kwds={"groups": codes, "use_correction": False})
        error = float(robust.bse[term]) * math.sqrt(number / freedom)
    half = stats.t.ppf(0.975, freedom) * error
    return Estimate(value, value - half, value + half, number, unit)


def mean(values: Sequence[float], unit: str = "settings") -> Estimate:
    """The mean of independent values (n,) with Student's interval; none for one value or equal ones."""
    values = np.asarray(values, dtype=float)
    if not len(values):
        return Estimate(NAN, unit=unit)
    value = float(values.mean())
    if len(values) < 2 or np.ptp(values) <= 1e-12 * np.abs(values).max():
        return Estimate(value, n=len(values), unit=unit)
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return Estimate(value, value - half, value + half, len(values), unit)


def proportion(successes: float, n: int, unit: str = "settings") -> Estimate:
    """A share of n independent trials with Wilson's interval; NaN of none.

    `successes` is no whole number where each trial is itself a share.
    """
    from statsmodels.stats.proportion import proportion_confint

    if n < 1:
        return Estimate(NAN, unit=unit)
    low, high = proportion_confint(successes, n, method="wilson")
    return Estimate(successes / n, float(low), float(high), int(n), unit)
