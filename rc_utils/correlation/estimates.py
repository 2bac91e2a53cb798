"""An estimate with its interval, and the few ways in which one is made.

Correlations have Fisher's interval, means Student's, slopes that of least squares with cluster-robust errors, shares
Wilson's, and everything else a bootstrap. All of them count *units*: what was really varied and tried again, mostly
settings (`rc_utils.correlation.settings`). Rows of one unit are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from rc_utils.checks import check_count

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
    """`value [low, high]` with the digits that the interval earns: two decimals for a width of 0.12 to 1.2, and so on.

    Two decimals, or two digits where there would be none, without an interval; a dash without a value. `form` is put
    before the number of decimals: "+" shows the sign.
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "unbounded"
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{value:{form}.2f}" if value == 0 or 0.01 <= abs(value) < 100 else f"{value:{form}.2g}"
    width = max(high - low, 1e-12)
    decimals = max(0, 2 - math.floor(math.log10(width / 0.12)))
    numbers = [f"{round(number, decimals) + 0.0:{form}.{decimals}f}" for number in (value, low, high)]
    return f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"


def is_constant(values: np.ndarray) -> bool:
    """Whether values differ by no more than rounding."""
    return bool(np.ptp(0.5 * values) <= 0.5e-12 * np.abs(values).max())


def scaled(values: np.ndarray) -> np.ndarray:
    """Values moved and scaled to [0, 1], zeros where they are constant: an offset or a size costs no digits, then."""
    if is_constant(values):
        return np.zeros_like(values)
    exponent = int(np.frexp(np.abs(values).max())[1])
    low, high = np.ldexp([values.min(), values.max()], -exponent)
    return (np.ldexp(values, -exponent) - low) / (high - low)


def weighted_pearson(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Pearson's r of rows counted `weights` times; x, y (n,) or (B, n), weights (B, n) -> (B,), NaN if degenerate."""
    total = weights.sum(1, keepdims=True)
    dx = x - (weights * x).sum(1, keepdims=True) / total
    dy = y - (weights * y).sum(1, keepdims=True) / total
    sxx, syy, sxy = (weights * dx * dx).sum(1), (weights * dy * dy).sum(1), (weights * dx * dy).sum(1)
    # A variance this small against the range of the values is rounding: the resample is constant.
    floor = 1e-24 * total[:, 0]
    usable = (sxx > floor) & (syy > floor)
    return np.divide(sxy, np.sqrt(sxx * syy), out=np.full(len(weights), np.nan), where=usable)


def weighted_spearman(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Spearman's rho: Pearson's r of the mid-ranks (up to a constant) of each resample; shapes as above."""

    def ranks(values: np.ndarray) -> np.ndarray:
        row, column = values[:, None], values[None, :]
        return weights @ ((row < column) + 0.5 * (row == column))

    return weighted_pearson(ranks(x), ranks(y), weights)


def weighted_kendall(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Kendall's tau-b, w'(S_x S_y)w / sqrt(w'S_x²w · w'S_y²w) with the signs S of all differences; shapes as above."""
    sign_x = (x[:, None] > x[None, :]).astype(float) - (x[:, None] < x[None, :])
    sign_y = (y[:, None] > y[None, :]).astype(float) - (y[:, None] < y[None, :])

    def form(matrix: np.ndarray) -> np.ndarray:
        return ((weights @ matrix) * weights).sum(1)

    scale = form(sign_x**2) * form(sign_y**2)
    return np.divide(form(sign_x * sign_y), np.sqrt(scale), out=np.full(len(weights), np.nan), where=scale > 0)


METHODS = {"pearson": weighted_pearson, "spearman": weighted_spearman, "kendall": weighted_kendall}


def unit_codes(units: Sequence[Hashable]) -> np.ndarray:
    """Codes (n,) from 0 of the names (n,) of units; a tuple is one name."""
    array = np.asarray(units)
    if array.ndim != 1:
        array = np.empty(len(units), dtype=object)
        array[:] = list(map(tuple, units))
    return pd.factorize(array, use_na_sentinel=False)[0]


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
    returns (B,) values; with weights of one it is the value. No interval with fewer than `MIN_UNITS` units or where the
    resamples do not vary. Raises ValueError for `num_resamples` that is no whole number from 1 on.
    """
    check_count("num_resamples", num_resamples, 1)
    codes = unit_codes(units)
    number = int(codes.max(initial=-1)) + 1
    value = float(statistic(np.ones((1, len(codes))))[0]) if number else NAN
    if number < MIN_UNITS or not np.isfinite(value):
        return Estimate(value, n=number, unit=unit)
    drawn = np.random.default_rng(seed).multinomial(number, np.full(number, 1 / number), size=num_resamples)
    resampled = statistic(drawn[:, codes].astype(float))
    usable = resampled[np.isfinite(resampled)]
    if not len(usable) or np.ptp(usable) <= 1e-12 * max(1.0, np.abs(usable).max()):
        return Estimate(value, n=number, unit=unit)
    # The variance within m drawn units is too small by (m - 1) / m.
    tail = stats.norm.cdf(stats.norm.ppf(0.025) * math.sqrt(number / (number - 1)))
    low, high = np.quantile(usable, [tail, 1 - tail])
    return Estimate(value, float(low), float(high), number, unit)


def fisher_interval(r: float, n: float, controls: float = 0) -> tuple[float, float]:
    """tanh(atanh(r) ± z / sqrt(n - controls - 3)), with z the normal quantile; (NaN, NaN) where that is undefined.

    `n` is the number of independent rows and `controls` how many numbers were taken out of both variables before.
    """
    freedom = n - controls - 3
    if not freedom > 0 or not abs(r) < 1 - 1e-12:
        return NAN, NAN
    half = stats.norm.ppf(0.975) / math.sqrt(freedom)
    return math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)


def effective_number(x: np.ndarray, y: np.ndarray, units: np.ndarray) -> float:
    """How many independent rows n dependent ones are worth for their correlation: from the number of units to n.

    n times the variance of r if all rows were independent, over its cluster-robust variance; both from the influence
    z_x z_y - r (z_x² + z_y²) / 2 of each row on r, summed over rows and over units.
    """
    zx, zy = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    influence = zx * zy - np.mean(zx * zy) * (zx**2 + zy**2) / 2
    by_unit = np.bincount(units, influence)
    number = int(units.max()) + 1
    together = float(by_unit @ by_unit)
    worth = len(x) * float(influence @ influence) / together if together > 0 else number
    return float(np.clip(worth, number, len(x)))


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
    check_count("num_resamples", num_resamples, 1)
    x, y, codes = checked_rows(x, y, units)
    number = int(codes.max(initial=-1)) + 1
    if len(x) < 3 or is_constant(x) or is_constant(y):
        return Estimate(NAN, n=number, unit=unit)
    x, y = scaled(x), scaled(y)
    if method != "pearson":
        drawn = {"num_resamples": num_resamples, "seed": seed, "unit": unit}
        return bootstrap(lambda weights: METHODS[method](x, y, weights), codes, **drawn)
    value = float(np.clip(weighted_pearson(x, y, np.ones((1, len(x))))[0], -1, 1))
    # The controls of rows that are not independent are as little.
    worth = effective_number(x, y, codes)
    return Estimate(value, *fisher_interval(value, worth, controls * worth / len(x)), number, unit)


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
