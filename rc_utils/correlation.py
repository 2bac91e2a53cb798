"""One estimate, one interval: correlations, slopes, means and shares, over settings.

A *setting* is one combination of what really differs: learning rate, batch size, whatever else a
grid varies. Seeds are its replicates, and so are weight decays of at most `NEGLIGIBLE_DECAY`, which
leave a network nearly as it is: they are averaged and count as one. Networks share a setting, and
their rows are not independent, so intervals count settings, the *units* of an estimate.
"""

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special, stats

from rc_utils.training.config import NEGLIGIBLE_DECAY, TrainConfig
from rc_utils.validation import check_name, require

# With fewer units most resamples are alike, and a bootstrap misses the truth far too often.
MIN_UNITS = 7
LOGS = {"lr": "log2_lr", "batch_size": "log2_batch"}  # columns of `with_logs`


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval, NaN where there is none, over `n` units such as settings."""

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    unit: str = "settings"

    def __str__(self) -> str:
        unit = self.unit.removesuffix("s") if self.n == 1 else self.unit
        return f"{interval_text(self.value, self.low, self.high)} ({self.n} {unit})"


def without_units(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose estimates are `value [low, high]`, without the number of units they rest on."""
    return table.map(
        lambda e: interval_text(e.value, e.low, e.high) if isinstance(e, Estimate) else e
    )


def interval_text(value: float, low: float = math.nan, high: float = math.nan) -> str:
    """`value [low, high]` with as many decimals as the interval earns; a dash for no value.

    Two for a width of 0.12 to 1.2, one fewer for each factor of ten; over three only below 0.01.
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "unbounded"
    if not (math.isfinite(low) and math.isfinite(high)):
        if abs(value) >= 100:
            return f"{value:,.0f}"
        return f"{value + 0.0:.2f}" if value == 0 or abs(value) >= 0.01 else f"{value:.2g}"
    width = high - low if high - low > 1e-9 * abs(value) else 1.0
    decimals = max(0, 2 - math.floor(math.log10(width / 0.12)))
    decimals = min(decimals, 3 if abs(value) >= 0.01 else 12)
    # An end beside 0 keeps its sign, where five decimals show it.
    showing = [d for d in range(decimals, 6) if all(not v or round(v, d) for v in (low, high))]
    decimals = showing[0] if showing else decimals
    # Adding zero turns -0.0 into 0.0.
    numbers = [f"{round(v, decimals) + 0.0:.{decimals}f}" for v in (value, low, high)]
    return f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"


def fisher_interval(
    r: float, n: float, freedom: float = math.inf, variance: float = 1.0
) -> tuple[float, float]:
    """tanh(atanh(r) ± t sqrt(variance / (n - 3))); (NaN, NaN) where undefined.

    n: number of independent rows, less how many numbers were taken out of both variables before.
    freedom: of Student's quantile t, infinite where n is known and not estimated.
    """
    if not (n > 3 and abs(r) < 1 - 1e-12):  # NaN included
        return math.nan, math.nan
    # Not by scipy.stats, which checks its arguments for a tenth of a millisecond every time.
    quantile = special.stdtrit(freedom, 0.975) if freedom < math.inf else special.ndtri(0.975)
    half = quantile * math.sqrt(variance / (n - 3))
    return math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)


def correlate(
    x: Sequence[float],
    y: Sequence[float],
    method: str = "pearson",
    units: Sequence[Hashable] | None = None,
    *,
    controls: float = 0,
    unit: str = "settings",
) -> Estimate:
    """Correlation of x and y, both (n,), with Fisher's interval for the `effective_number` of rows.

    Args:
        method: "pearson" or "spearman", which is Pearson's of the ranks.
        units: name of the unit of each row, every row its own by default.
        controls: how many numbers were taken out of both variables before.

    The interval is that of normal x and y. For few rows of skewed values it is too narrow: take the
    logarithm of counts that range over several-fold, or ranks. It is too narrow as well where few
    of the units have most of the rows.

    NaN for a constant x or y and for fewer than three rows. Raises ValueError for an unknown
    method, vectors of unequal length and rows that are not finite.
    """
    check_name("method", method, ("pearson", "spearman"))
    x, y, codes, number = _rows(x, y, units)
    scaled_x, scaled_y = _scaled(x), _scaled(y)
    if len(x) < 3 or not (scaled_x.any() and scaled_y.any()):
        return Estimate(math.nan, n=number, unit=unit)
    if method == "pearson":
        x, y = scaled_x, scaled_y
    else:  # not of scaled values: scaling makes ties of values that are close beside an outlier
        x, y = stats.rankdata(x), stats.rankdata(y)
    value = float(stats.pearsonr(x, y).statistic)
    # Controls of dependent rows are worth as little as the rows.
    worth = effective_number(x, y, codes)
    freedom = number - 1 if number < len(x) else math.inf
    lost = controls * worth / len(x)
    # Of atanh(r) times n - 3 (Bonett and Wright 2000).
    variance = 1 + value**2 / 2 if method == "spearman" else 1.0
    low, high = fisher_interval(value, worth - lost, freedom, variance)
    return Estimate(value, low, high, number, unit)


def effective_number(x: np.ndarray, y: np.ndarray, units: np.ndarray) -> float:
    """Effective sample size of a correlation between dependent rows.

    n times the variance of r if all rows were independent, over its cluster-robust variance; both
    from the influence of each row on r, summed over rows and over the m units (numbered from 0).
    """
    influence = _influence(x, y)
    by_unit = np.bincount(units, influence)
    together = float(by_unit @ by_unit)
    worth = len(x) * float(influence @ influence) / together if together > 0 else 0.0
    return float(np.clip(worth, len(by_unit), len(x)))


def correlation_lead(
    x: Sequence[float], rival: Sequence[float], y: Sequence[float], units: Sequence, controls=0
) -> Estimate:
    """r(x, y) - r(rival, y), with an interval from those of both (Zou 2007).

    The errors of the two correlations are correlated: by how much is estimated from the influence
    of every unit's rows on each. It is too narrow where theirs are, as with a few far rows. Source:
    Zou, Toward using confidence intervals to compare correlations, Psychological Methods 12, 2007.
    Raises ValueError as `correlate`.
    """
    one = correlate(x, y, units=units, controls=controls)
    other = correlate(rival, y, units=units, controls=controls)
    if math.isnan(one.value) or math.isnan(other.value):
        return Estimate(math.nan, n=one.n)
    x, gap, codes, _ = _rows(x, y, units)
    rival, gap, codes, _ = _rows(rival, y, units)
    first = np.bincount(codes, _influence(x, gap))
    second = np.bincount(codes, _influence(rival, gap))
    together = math.sqrt((first @ first) * (second @ second))
    shared = 2 * float(first @ second) / together if together > 0 else math.nan

    def reach(a: float, b: float) -> float:
        return math.sqrt(max(a * a + b * b - shared * a * b, 0.0))

    ahead = one.value - other.value
    low = ahead - reach(one.value - one.low, other.high - other.value)
    high = ahead + reach(one.high - one.value, other.value - other.low)
    return Estimate(ahead, low, high, one.n)


def partial_correlation(
    rows: pd.DataFrame, x: str, y: str, formula: str, units: Sequence[Hashable] | None = None
) -> Estimate:
    """Correlation of what least squares on the right-hand side `formula` leaves of two columns.

    formula: of statsmodels, such as "C(network) + log2_lr". NaN where nothing is left of a column,
    or a single number, with which any two columns correlate at 1 or -1. Raises ValueError for rows
    without a value, no intercept, and as `correlate`.
    """
    model, _ = _least_squares(f"_one ~ {formula}", rows.assign(_one=1.0))  # for its design alone
    design = model.exog
    require(model.k_constant, f"{formula!r} has no intercept, which a correlation needs")
    left, rank = [], int(np.linalg.matrix_rank(design))
    for values in map(_scaled, _rows(rows[x], rows[y], units)[:2]):
        residuals = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
        is_left = (len(rows) - rank > 1) & (np.abs(residuals) > 1e-11)
        left.append(np.where(is_left, residuals, 0.0))
    return correlate(*left, units=units, controls=rank - 1)


def slope(
    rows: pd.DataFrame, formula: str, term: str, units: Sequence[Hashable], unit: str = "settings"
) -> Estimate:
    """Coefficient `term` of a least-squares `formula`, with an interval over units.

    formula: of statsmodels, such as "count ~ C(network) + log2_lr". Cluster-robust where units have
    several rows: for m units and k coefficients that differ between them the variance is enlarged
    by m / (m - k), Student's freedom is m - k. NaN where the rows do not vary the term; no interval
    where nothing is left to estimate the error. Raises ValueError for rows without a value.
    """
    codes, number = _unit_codes(units)
    model, largest = _least_squares(formula, rows)
    check_name("term", term, model.exog_names)
    rank = np.linalg.matrix_rank(model.exog)
    others = np.delete(model.exog, model.exog_names.index(term), axis=1)
    if np.linalg.matrix_rank(others) == rank:
        return Estimate(math.nan, n=number, unit=unit)
    plain = model.fit()
    is_rounding = abs(plain.params[term]) <= 1e-12 * np.abs(model.endog).max()
    value = 0.0 if is_rounding else float(plain.params[term] / largest[term])
    freedom = number - int(np.linalg.matrix_rank(pd.DataFrame(model.exog).groupby(codes).mean()))
    if freedom < 1 or len(rows) <= rank:
        return Estimate(value, n=number, unit=unit)
    error, rounding = plain.bse[term], 1e-10 * np.abs(model.endog).max()
    if number < len(rows):
        robust = model.fit(cov_type="cluster", cov_kwds={"groups": codes, "use_correction": False})
        variance = max(0.0, robust.cov_params().loc[term, term])  # by rounding it may be below 0
        error = math.sqrt(variance) * math.sqrt(number / freedom)
    # Residuals may also cancel within each unit, as where the means over networks lie on a plane,
    # or be none of those that the term rests on: the root of a rounding is left of the error.
    if plain.ssr <= rounding**2 or error <= max(rounding, 1e-3 * plain.bse[term]):
        return Estimate(value, n=number, unit=unit)
    half = float(stats.t.ppf(0.975, freedom) * error / largest[term])
    return Estimate(value, value - half, value + half, number, unit)


def _least_squares(formula, rows):
    """The model of statsmodels in columns divided by their largest values, and these by name.

    Small columns beside large ones would pass for rounding, and rows with a missing value be left
    out in silence.
    """
    import statsmodels.formula.api as smf
    from statsmodels.regression.linear_model import OLS

    model = smf.ols(formula, rows)
    found = f"{len(rows) - len(model.endog)} of {len(rows)} rows lack a value of {formula!r}"
    require(len(model.endog) == len(rows), f"{found}; leave them out")
    require(np.isfinite(model.endog).all(), f"a value of {formula!r} is infinite: leave it out")
    design = pd.DataFrame(model.exog, columns=model.exog_names)
    largest = design.abs().max().replace(0, 1)
    return OLS(model.endog, design / largest), largest


def mean(values: Sequence[float], unit: str = "settings") -> Estimate:
    """Mean of independent values (n,) with Student's interval; none for one value or equal ones."""
    require(not np.ma.is_masked(values), "masked values: leave them out")
    values = np.asarray(values, dtype=float)
    n = len(values)
    value = float(values.mean()) if n else math.nan
    if n < 2 or not _scaled(values).any():
        return Estimate(value, n=n, unit=unit)
    half = stats.t.ppf(0.975, n - 1) * stats.sem(values)
    return Estimate(value, value - half, value + half, n, unit)


def bootstrap(
    statistic: Callable[[np.ndarray], np.ndarray],
    units: Sequence[Hashable],
    *,
    num_resamples: int = 10_000,
    seed: int = 0,
    unit: str = "settings",
) -> Estimate:
    """A statistic with its expanded percentile interval from drawing m whole units.

    units: (n,) name of the unit of each row. statistic: from weights (B, n), how often each row is
    counted, to (B,) values; with weights of one it is the value. The interval holds it; it is none
    below `MIN_UNITS` units or where the resamples do not vary, and too narrow of a share near 0 or
    1. Source: Hesterberg, What teachers should know about the bootstrap, The American Statistician
    69, 2015.
    """
    codes, number = _unit_codes(units)
    value = float(statistic(np.ones((1, len(codes))))[0]) if number else math.nan
    if number < MIN_UNITS or not np.isfinite(value):
        return Estimate(value, n=number, unit=unit)
    resampled = statistic(_draws(number, num_resamples, seed)[:, codes])
    usable = resampled[np.isfinite(resampled)]
    if not len(usable) or np.ptp(usable) <= 1e-12 * max(1.0, np.abs(usable).max()):
        return Estimate(value, n=number, unit=unit)
    # The variance within m drawn units is too small by (m - 1) / m, and itself estimated.
    tail = stats.norm.cdf(stats.t.ppf(0.025, number - 1) * math.sqrt(number / (number - 1)))
    low, high = np.quantile(usable, [tail, 1 - tail])
    return Estimate(value, min(float(low), value), max(float(high), value), number, unit)


# Drawing takes longer than most statistics, of which a page compares many.
@functools.lru_cache(maxsize=4)
def _draws(number, num_resamples, seed):
    """Number of times each unit is drawn, (num_resamples, number)."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(number, np.full(number, 1 / number), num_resamples).astype(float)


def weighted_pearson(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Pearson's r (B,) of x, y (n,) or (B, n) with rows counted `weights` (B, n) times.

    For `bootstrap`. NaN where a resample is constant.
    """
    total = weights.sum(1, keepdims=True)
    dx = x - (weights * x).sum(1, keepdims=True) / total
    dy = y - (weights * y).sum(1, keepdims=True) / total
    sxx = (weights * dx * dx).sum(1)
    syy = (weights * dy * dy).sum(1)
    sxy = (weights * dx * dy).sum(1)
    # A variance this small against the values is rounding.
    floor = 1e-24 * total[:, 0]
    usable = (sxx > floor * np.abs(x).max(-1) ** 2) & (syy > floor * np.abs(y).max(-1) ** 2)
    return np.divide(sxy, np.sqrt(sxx * syy), out=np.full(len(weights), np.nan), where=usable)


def finished(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that did not diverge."""
    return runs[runs["status"] == "ok"] if "status" in runs.columns else runs


def average_replicates(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per network and setting: numeric columns averaged over the runs that finished.

    Rows are kept apart by campaign, experiment, network, `setting` and epoch, if `runs` has them.
    `interpolates` holds where every run interpolates; other columns are kept where the runs agree;
    run_id, seed and weight decays that are all negligible give way to num_seeds, num_runs. A number
    that is missing in one run is missing in the mean. The mean of count_std_error is an
    upper bound, since runs share their simplices.
    """
    runs = finished(runs).infer_objects()  # a column may hold None where a run diverged
    dropped = ["run_id", "seed", "status"]
    if "weight_decay" in runs.columns:
        decays = runs["weight_decay"]
        if not (decays > NEGLIGIBLE_DECAY).any():
            dropped.append("weight_decay")
        # One value, or a setting that lacks one of them would be a level of its own in a formula.
        negligible = decays <= NEGLIGIBLE_DECAY
        runs = runs.assign(weight_decay=decays.mask(negligible, decays[negligible].max()))
    runs = runs.reset_index(drop=True)
    keys = [k for k in ("campaign", "experiment", "network", "setting", "epoch") if k in runs]
    values = [column for column in runs.columns if column not in (*keys, *dropped)]
    code = runs.groupby(keys, sort=False, dropna=False).ngroup()
    rows = runs[[*keys, *values]][~code.duplicated()].reset_index(drop=True)
    groups = runs.groupby(code)
    agree = groups[values].nunique(dropna=False) == 1
    for name in agree.columns[~agree.all()]:
        averages = pd.Series(None, dtype=object, index=rows.index)
        if pd.api.types.is_bool_dtype(runs[name]):
            averages = groups[name].all()
        elif pd.api.types.is_numeric_dtype(runs[name]):
            # Averaging the others would hide a missing number.
            complete = groups[name].count() == groups.size()
            averages = groups[name].mean().where(complete)
        rows[name] = rows[name].astype(averages.dtype).where(agree[name], averages)
    rows["num_runs"] = groups.size()
    rows["num_seeds"] = groups["seed"].nunique() if "seed" in runs.columns else rows["num_runs"]
    return rows


def distinct_settings(runs: pd.DataFrame) -> pd.DataFrame:
    """Rows of `average_replicates`, where a run that several experiments share counts once.

    Raises ValueError for runs without a network or setting, which would be replicates.
    """
    for key in ("network", "setting"):
        check_name("column of the runs", key, runs.columns)
    lacking = {"network", "setting", "run_id", "status"} & {*runs.columns[runs.isna().any()]}
    require(not lacking, f"some of the runs have no {lacking}: give them one, or leave them out")
    once = [key for key in ("run_id", "epoch") if key in runs.columns]
    return average_replicates(runs.drop_duplicates(once) if "run_id" in once else runs)


def with_logs(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with log2_lr, log2_batch and log2_ratio: of lr, batch size and batch size / lr."""
    lr = np.log2(rows["lr"].astype(float))
    batch = np.log2(rows["batch_size"].astype(float))
    return rows.assign(log2_lr=lr, log2_batch=batch, log2_ratio=batch - lr)


def regression_formula(rows: pd.DataFrame) -> str:
    """Regression formula for the count: a level per network, a slope in log lr and log batch size.

    "count ~ C(network) + log2_lr + log2_batch", as far as these differ; for whatever else levels,
    or a slope where a value occurs once, as where values are drawn.
    """
    known = [k for k in ("network", *vars(TrainConfig())) if k in rows and k != "seed"]
    varied = [k for k in known if rows[k].nunique(dropna=False) > 1]
    repeated = [k for k in varied if rows[k].duplicated(keep=False).all()]
    terms = [f"C({k})" if k in repeated else k for k in varied if k not in LOGS]
    terms += [log for key, log in LOGS.items() if key in varied]
    return f"count ~ {' + '.join(terms) or '1'}"


def change_per_doubling(runs: pd.DataFrame, factor: str, column: str = "count") -> Estimate:
    """Change of `column` when `factor`, "lr" or "batch_size", doubles, by `regression_formula`.

    Replicates are averaged, and errors are clustered by setting where networks share it. NaN where
    the factor does not vary. Raises ValueError for rows without a value.
    """
    check_name("factor", factor, LOGS)
    rows = distinct_settings(runs)
    if rows[factor].nunique() < 2:
        return Estimate(math.nan)
    # A formula would take a hyphen in a column's name for a minus.
    rows = with_logs(rows).assign(count=rows[column])
    return slope(rows, regression_formula(rows), LOGS[factor], rows["setting"])


def correlate_settings(rows: pd.DataFrame, x: str, y: str, method: str = "pearson") -> Estimate:
    """`correlate` of two columns of runs, or of rows of `average_replicates`, over settings."""
    return correlate(rows[x], rows[y], method, rows["setting"].to_numpy())


def _rows(x, y, units):
    """x and y as vectors of finite numbers, the number of each row's unit, the number of units."""
    require(not (np.ma.is_masked(x) or np.ma.is_masked(y)), "masked rows: leave them out")
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    codes, number = _unit_codes(range(len(x)) if units is None else units)
    shapes = f"x has shape {x.shape}, y {y.shape} and units {codes.shape}"
    equal = x.ndim == 1 and x.shape == y.shape == codes.shape
    require(equal, f"{shapes}; expected three vectors of equal length")
    bad = np.flatnonzero(~(np.isfinite(x) & np.isfinite(y)))
    if len(bad):
        found = f"{len(bad)} of {len(x)} rows are not finite (first: row {bad[0]})"
        raise ValueError(f"{found}; leave out runs that diverged or were not counted")
    return x, y, codes, number


def _unit_codes(units):
    """Codes (n,) from 0 of the names of units, and how many there are; a tuple is one name."""
    index = pd.Index(units, tupleize_cols=False)
    lack = index.isna().sum()
    require(not lack, f"{lack} of {len(index)} rows name no unit (None or NaN): leave them out")
    codes, names = pd.factorize(index)
    return codes, len(names)


def _scaled(values):
    """Values moved and scaled to [0, 1] to lose no digits; zeros where only rounding parts them."""
    if not len(values) or np.ptp(values) <= 1e-12 * np.abs(values).max():
        return np.zeros_like(values)
    return (values - values.min()) / np.ptp(values)


def _influence(x, y):
    """z_x z_y - r (z_x² + z_y²) / 2 of each row, (n,)."""
    zx, zy = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    return zx * zy - np.mean(zx * zy) * (zx**2 + zy**2) / 2
