"""How well a measure predicts the gap: statistics of the cells of a grid, beyond one correlation coefficient.

`x` and `y` are the measure and the gap of n cells, (n,), and `factors` has a row a cell and a column a factor: the
hyper-parameters and the network. Sources: Jiang et al. 2020, Fantastic generalization measures and where to find them
(granulated Kendall coefficient, conditional mutual information); Dziugaite et al. 2020, In search of robust measures
of generalization (sign-error over environments).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from rc_utils.checks import check_count
from rc_utils.correlation import MIN_CELLS, weighted_pearson


@dataclass(frozen=True)
class Estimate:
    """A statistic with the interval that bounds it; NaN where it, or its interval, cannot be had."""

    value: float
    low: float = float("nan")
    high: float = float("nan")


UNKNOWN = Estimate(float("nan"))


@dataclass(frozen=True)
class Pairs:
    """The P pairs of cells that differ in exactly one factor.

    first, second: (P,) indices of cells; units: (n,) codes of the groups of cells that repeat each other. axis: (P,)
    which factor differs; group: (P,) which setting of all others they share; environment: (P,) which factor differs
    between which two values. axes, environments: the names of the codes.
    """

    first: np.ndarray
    second: np.ndarray
    units: np.ndarray
    axis: np.ndarray
    group: np.ndarray
    environment: np.ndarray
    axes: tuple[str, ...]
    environments: tuple[str, ...]


def varying(factors: pd.DataFrame) -> list[str]:
    """The columns of `factors` with more than one value."""
    return [column for column in factors.columns if factors[column].nunique() > 1]


def neighbours(factors: pd.DataFrame, units: np.ndarray | None = None) -> Pairs:
    """The `Pairs` of a grid. A factor that does not vary is no axis, and one without a pair neither.

    units: (n,) codes of groups of cells that repeat each other (`Cells.units`); default: each cell is its own.
    Raises ValueError where two cells agree in every factor.
    """
    if factors.duplicated().any():
        setting = factors[factors.duplicated()].iloc[0].to_dict()
        raise ValueError(f"two cells have the factors {setting}; average the seeds, and name every factor that varies")
    columns = varying(factors)
    codes = np.stack([pd.factorize(factors[c], sort=True)[0] for c in columns], 1) if columns else np.zeros((0, 1), int)
    first, second = np.triu_indices(len(codes), 1)
    differs = codes[first] != codes[second]
    alone = differs.sum(1) == 1
    first, second, differs = first[alone], second[alone], differs[alone]
    names = [columns[a] for a in differs.argmax(1)]
    shared = np.where(differs, -2, codes[first])  # Tells groups of different axes apart; -1 is a missing factor.
    levels = [tuple(sorted(factors[name].iloc[[i, j]])) for name, i, j in zip(names, first, second, strict=True)]
    environments = [f"{name} {_text(a)} / {_text(b)}" for name, (a, b) in zip(names, levels, strict=True)]
    (axis, axes), (group, _), (environment, known) = map(_codes, (names, map(tuple, shared), environments))
    units = np.arange(len(factors)) if units is None else units
    return Pairs(first, second, units, axis, group, environment, axes, known)


def _codes(names) -> tuple[np.ndarray, tuple]:
    known: dict = {}
    codes = np.array([known.setdefault(name, len(known)) for name in names], dtype=int)
    return codes, tuple(known)


def _text(value) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def agreement(x: np.ndarray, y: np.ndarray, pairs: Pairs) -> np.ndarray:
    """sign(x_i - x_j) sign(y_i - y_j) of every pair, (P,): 1 for the same order, -1 for the opposite, 0 for a tie."""
    sign_x, sign_y = (np.sign(v[pairs.first] - v[pairs.second]) for v in (x, y))
    return sign_x * sign_y


def axis_kendall(x: np.ndarray, y: np.ndarray, pairs: Pairs, confidence: float = 0.95) -> dict[str, Estimate]:
    """Kendall's tau along each axis: the mean over the groups of cells that differ in that axis alone.

    In a group tau = mean over pairs of `agreement`, so that a tie counts as 0 (Jiang et al. 2020, Sec. 2.2). The
    intervals are those of `pair_mean`.
    """
    shares = _axis_shares(pairs)
    return {
        name: pair_mean(agreement(x, y, pairs), np.where(pairs.axis == a, shares, 0), pairs, confidence)
        for a, name in enumerate(pairs.axes)
    }


def granulated_kendall(x: np.ndarray, y: np.ndarray, pairs: Pairs, confidence: float = 0.95) -> Estimate:
    """Psi, the mean of `axis_kendall` over the axes (Jiang et al. 2020, Sec. 2.2), in [-1, 1]."""
    return pair_mean(agreement(x, y, pairs), _axis_shares(pairs) / max(1, len(pairs.axes)), pairs, confidence)


def _axis_shares(pairs: Pairs) -> np.ndarray:
    """What each pair counts in the tau of its axis: one over the groups of the axis and the pairs of the group."""
    groups = np.array([len(np.unique(pairs.group[pairs.axis == a])) for a in range(len(pairs.axes))], dtype=int)
    return 1 / (groups[pairs.axis] * np.bincount(pairs.group)[pairs.group]) if len(pairs.axis) else np.zeros(0)


def sign_error(x: np.ndarray, y: np.ndarray, pairs: Pairs, confidence: float = 0.95) -> Estimate:
    """Mean over environments of the share of pairs that the measure orders wrongly, in [0, 1]; a tie is half an error.

    An environment is two values of one factor; its pairs are equal in all else. 0 is always right, 1/2 a coin, or a
    measure that cannot tell the two apart (Dziugaite et al. 2020, Sec. 4, whose environments are single pairs).
    """
    shares = 1 / (len(pairs.environments) * np.bincount(pairs.environment)[pairs.environment])
    order = pair_mean(agreement(x, y, pairs), shares, pairs, confidence)
    return Estimate((1 - order.value) / 2, (1 - order.high) / 2, (1 - order.low) / 2)


def environment_errors(x: np.ndarray, y: np.ndarray, pairs: Pairs) -> np.ndarray:
    """The share of wrongly ordered pairs in each environment, (environments,)."""
    errors = (1 - agreement(x, y, pairs)) / 2
    return np.bincount(pairs.environment, errors) / np.bincount(pairs.environment) if len(errors) else errors


def worst_sign_error(x: np.ndarray, y: np.ndarray, pairs: Pairs, confidence: float = 0.95) -> Estimate:
    """Maximum of `environment_errors`: the robust sign-error (Dziugaite et al. 2020, Sec. 3).

    The maximum of noisy shares lies above the share of the environment that is truly worst; the interval does not. It
    joins the exact binomial intervals of the environments, whose pairs have no cell in common and count as one where
    they join the same two units: its upper end is the largest upper end, its lower end the largest lower end, this one
    at a level divided by the number of environments. It covers at least at the nominal rate.
    """
    errors = environment_errors(x, y, pairs)
    if not len(errors):
        return UNKNOWN
    independent = np.unique(np.stack([pairs.environment, _joined_units(pairs)[0]]), axis=1)
    size, tail = np.bincount(independent[0]), (1 - confidence) / 2
    wrong = errors * size
    low = stats.beta.ppf(tail / len(errors), np.maximum(wrong, 1e-9), size - wrong + 1)
    high = stats.beta.ppf(1 - tail, wrong + 1, np.maximum(size - wrong, 1e-9))
    return Estimate(float(errors.max()), float(low.max()), float(high.max()))


def pair_mean(values: np.ndarray, shares: np.ndarray, pairs: Pairs, confidence: float = 0.95) -> Estimate:
    """Weighted mean of `values` in [-1, 1] of pairs of cells, with its interval; shares (P,) sum to 1.

    Pairs that touch the same unit are dependent. The variance is the dyadic cluster-robust one, the sum of the products
    of residuals over all pairs of pairs with a unit in common (Fafchamps and Gubert 2007; Aronow, Samii and Assenova
    2015), not less than if pairs were dependent only where they join the same two units; Student's interval on Fisher's
    scale atanh. Resampling cells, or leaving one out, counts each pair's own variance more than once, and covers 98 to
    99 % where this covers 94 to 97 % (`python -m benchmarks --only coverage`). No interval with fewer than `MIN_CELLS`
    units, or where all pairs agree.
    """
    used = shares > 0
    if not used.any():
        return UNKNOWN
    value = float(shares @ values)
    residuals = shares * (values - value)
    joined, one, other = _joined_units(pairs)
    apart = one != other
    by_joined = np.bincount(joined, residuals)
    by_unit = np.bincount(np.concatenate([one, other[apart]]), np.concatenate([residuals, residuals[apart]]))
    # Pairs that join the same two units have both in common, and are in the first sum twice.
    twice = np.bincount(joined[apart], residuals[apart], minlength=1)
    variance = max(float(by_unit @ by_unit - twice @ twice), float(by_joined @ by_joined))
    units = len(np.unique(np.concatenate([one[used], other[used]])))
    variance *= units / max(1, units - 1)
    if units < MIN_CELLS or variance < 1e-20:
        return Estimate(value)
    half = stats.t.ppf((1 + confidence) / 2, units - 1) * np.sqrt(variance) / (1 - value**2)
    low, high = np.tanh(np.arctanh(value) + np.array([-half, half]))
    return Estimate(value, float(low), float(high))


def _joined_units(pairs: Pairs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A code of the two units, or the one unit, that each pair joins, and the units themselves, (P,) each."""
    ends = np.stack([pairs.units[pairs.first], pairs.units[pairs.second]])
    one, other = ends.min(0), ends.max(0)
    return one * (pairs.units.max(initial=0) + 1) + other, one, other


def partial_pearson(
    x: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    controls: Sequence[np.ndarray] = (),
    strata: np.ndarray | None = None,
) -> np.ndarray:
    """Pearson's r of what least squares on the controls leaves of x and y, in each of B resamples, (B,).

    x, y, and each of `controls`: (n,) or (B, n); weights: (B, n), how often each cell counts. strata: (n,) codes,
    within each of which the means are taken out first: the correlation within strata. A control that is constant
    within the strata controls for nothing; NaN where nothing is left of x or y.
    """
    x, y, *controls = (_centred(np.broadcast_to(v, weights.shape), weights, strata) for v in (x, y, *controls))
    while controls:
        control, *controls = controls
        x, y, *controls = (_residual(v, control, weights) for v in (x, y, *controls))
    return weighted_pearson(x, y, weights)


def _centred(values: np.ndarray, weights: np.ndarray, strata: np.ndarray | None) -> np.ndarray:
    member = np.ones((values.shape[1], 1)) if strata is None else np.eye(strata.max() + 1)[strata]
    total = weights @ member
    means = np.divide((weights * values) @ member, total, out=np.zeros(total.shape), where=total > 0)
    return _without_rounding(values - means @ member.T, values)


def _residual(values: np.ndarray, control: np.ndarray, weights: np.ndarray) -> np.ndarray:
    square, product = ((weights * control * v).sum(1, keepdims=True) for v in (control, values))
    slope = np.divide(product, square, out=np.zeros(square.shape), where=square > 0)
    return _without_rounding(values - control * slope, values)


def _without_rounding(left: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`left` with zeros where it is rounding against the size of the `values` that it is left of."""
    return np.where(np.abs(left) > 1e-11 * np.abs(values).max(), left, 0.0)


def conditionings(factors: pd.DataFrame, largest: int = 2) -> dict[tuple[str, ...], np.ndarray]:
    """Strata (n,) by every set of at most `largest` factors that leaves several cells in some stratum."""
    result = {}
    for size in range(largest + 1):
        for names in itertools.combinations(varying(factors), size):
            strata = strata_of(factors, names)
            if np.bincount(strata, minlength=1).max() > 1:
                result[names] = strata
    return result


def strata_of(factors: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    """Codes (n,) of the cells that agree in the factors `names`; one stratum without names."""
    if not names:
        return np.zeros(len(factors), dtype=int)
    return factors.groupby(list(names), sort=False, dropna=False).ngroup().to_numpy()


def conditional_information(x: np.ndarray, y: np.ndarray, strata: np.ndarray) -> float:
    """Normalised mutual information of the order in x and the order in y, given the strata of both cells, in [0, 1].

    Over all ordered pairs of cells V_x = sign(x_i - x_j), V_y = sign(y_i - y_j), U = (stratum of i, stratum of j):
    I(V_x; V_y | U) / H(V_y | U), plug-in estimates (Jiang et al. 2020, Sec. 2.2); a tie is a third value of the sign.
    strata: (n,) codes from 0. NaN where U determines V_y. Biased upwards, the more the fewer pairs there are for each
    value of U: compare with `information_null`.
    """
    number = int(strata.max()) + 1
    apart = ~np.eye(len(strata), dtype=bool)
    u = (strata[:, None] * number + strata[None, :])[apart]
    v_x, v_y = (np.sign(v[:, None] - v[None, :])[apart].astype(int) + 1 for v in (x, y))
    joint = np.bincount((u * 3 + v_x) * 3 + v_y, minlength=9 * number**2).reshape(-1, 3, 3)
    h_xy, h_x, h_y, h = (_entropy(joint.sum(axes)) for axes in ((), (2,), (1,), (1, 2)))
    return (h_x + h_y - h_xy - h) / (h_y - h) if h_y - h > 1e-12 else float("nan")


def _entropy(counts: np.ndarray) -> float:
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log2(p)).sum())


def information_null(x: np.ndarray, y: np.ndarray, strata: np.ndarray, number: int = 200, seed: int = 0) -> np.ndarray:
    """`conditional_information` after each of `number` permutations of x within the strata, (number,)."""
    check_count("num_permutations", number, 1)
    rng, order = np.random.default_rng(seed), np.argsort(strata, kind="stable")
    values, shuffled = np.empty(number), np.empty_like(x)
    for k in range(number):
        shuffled[order] = x[np.lexsort((rng.random(len(x)), strata))]
        values[k] = conditional_information(shuffled, y, strata)
    return values


def adjusted_information(
    x: np.ndarray, y: np.ndarray, strata: np.ndarray, null_mean: float, confidence: float = 0.95
) -> Estimate:
    """(I - m) / (1 - m), the information I above its mean m under permutation: 0 for no dependence, 1 for certainty.

    Student's interval from leaving out one cell at a time (jackknife): resampled cells tie with themselves, which adds
    information that is not there. An interval that reaches below 0 says that no dependence is resolved. No interval
    with fewer than `MIN_CELLS` cells.
    """
    value, n = conditional_information(x, y, strata), len(x)
    adjusted = (value - null_mean) / (1 - null_mean) if null_mean < 1 else float("nan")
    if n < MIN_CELLS or not np.isfinite(adjusted):
        return Estimate(adjusted)
    kept = ~np.eye(n, dtype=bool)
    left_out = np.array([conditional_information(x[k], y[k], strata[k]) for k in kept])
    error = np.sqrt((n - 1) * left_out.var()) / (1 - null_mean)
    if not np.isfinite(error) or error < 1e-12:
        return Estimate(adjusted)
    half = stats.t.ppf((1 + confidence) / 2, n - 1) * error
    return Estimate(adjusted, adjusted - half, min(1.0, adjusted + half))
