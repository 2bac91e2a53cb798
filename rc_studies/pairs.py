"""Statistics of pairs of settings: how often a measure orders two of them as the gap does.

`x` and `y` are the measure and the gap, (n,), one a row, and `factors` has a column for each factor: the network and
the hyper-parameters. Sources: Jiang et al. 2020, Fantastic generalization measures and where to find them (granulated
Kendall coefficient); Dziugaite et al. 2020, In search of robust measures of generalization (sign-error over
environments). Intervals are those of `bootstrap` over units. A resample that draws a unit twice does not compare it
with itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rc_utils.correlation import Estimate, _unit_codes, bootstrap


@dataclass(frozen=True)
class Pairs:
    """The P pairs of rows that differ in exactly one factor.

    first, second: (P,) indices of rows; axis: (P,) which factor differs; group: (P,) which values of all others they
    share; environment: (P,) which factor differs between which two values. axes, environments: the names of the codes.
    """

    first: np.ndarray
    second: np.ndarray
    axis: np.ndarray
    group: np.ndarray
    environment: np.ndarray
    axes: tuple[str, ...]
    environments: tuple[str, ...]


def neighbours(factors: pd.DataFrame) -> Pairs:
    """The `Pairs` of a grid. A factor that does not vary is no axis, and one without a pair neither.

    Raises ValueError where two rows agree in every factor.
    """
    if factors.duplicated().any():
        setting = factors[factors.duplicated()].iloc[0].to_dict()
        raise ValueError(f"two rows have the factors {setting}; average replicates, and name every factor that varies")
    columns = [column for column in factors.columns if factors[column].nunique() > 1]
    codes = np.stack([pd.factorize(factors[c], sort=True)[0] for c in columns], 1) if columns else np.zeros((0, 1), int)
    first, second = np.triu_indices(len(codes), 1)
    differs = codes[first] != codes[second]
    alone = differs.sum(1) == 1
    first, second, differs = first[alone], second[alone], differs[alone]
    names = [columns[a] for a in differs.argmax(1)]
    shared = np.where(differs, -2, codes[first])  # Tells groups of different axes apart; -1 is a missing factor.
    levels = [tuple(sorted(factors[name].iloc[[i, j]])) for name, i, j in zip(names, first, second, strict=True)]
    environments = [f"{name} {_text(a)} / {_text(b)}" for name, (a, b) in zip(names, levels, strict=True)]
    axis, axes = pd.factorize(np.array(names, dtype=object))
    environment, known = pd.factorize(np.array(environments, dtype=object))
    return Pairs(first, second, axis, _unit_codes(list(map(tuple, shared))), environment, tuple(axes), tuple(known))


def _text(value) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _agreement(x: np.ndarray, y: np.ndarray, pairs: Pairs) -> np.ndarray:
    """sign(x_i - x_j) sign(y_i - y_j) of every pair, (P,): 1 for the same order, -1 for the opposite, 0 for a tie."""
    return np.sign(x[pairs.first] - x[pairs.second]) * np.sign(y[pairs.first] - y[pairs.second])


def _pair_weights(weights: np.ndarray, first: np.ndarray, second: np.ndarray, units: np.ndarray) -> np.ndarray:
    """How often each pair is there, (B, P): weights of both rows multiplied, or of the one unit that they belong to."""
    one, other = weights[:, first], weights[:, second]
    return np.where(units[first] == units[second], one, one * other)


def _grouped_means(values: np.ndarray, weights: np.ndarray, codes: np.ndarray, number: int) -> np.ndarray:
    """Weighted means of values (P,) by code, (B, number); NaN for a code without weight."""
    member = np.eye(number)[codes]
    total = weights @ member
    return np.divide((weights * values) @ member, total, out=np.full(total.shape, np.nan), where=total > 0)


def _mean_of_those_there(values: np.ndarray) -> np.ndarray:
    """Row means of (B, k) without NaN, (B,); NaN where nothing else is."""
    return pd.DataFrame(values).mean(axis=1).to_numpy()


def axis_kendall(x: np.ndarray, y: np.ndarray, pairs: Pairs, units: Sequence, **options) -> dict[str, Estimate]:
    """Kendall's tau along each axis: the mean over the groups of rows that differ in that axis alone.

    In a group tau = mean over its pairs of sign(x_i - x_j) sign(y_i - y_j): a tie counts as 0 (Jiang et al., Sec. 2.2).
    """
    codes = _unit_codes(units)
    return {
        name: bootstrap(lambda weights, a=a: _taus(x, y, pairs, codes, weights)[:, a], codes, **options)
        for a, name in enumerate(pairs.axes)
    }


def _taus(x: np.ndarray, y: np.ndarray, pairs: Pairs, units: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(B, axes) the taus of `axis_kendall` in each resample."""
    drawn = _pair_weights(weights, pairs.first, pairs.second, units)
    groups = int(pairs.group.max(initial=-1)) + 1
    means = _grouped_means(_agreement(x, y, pairs), drawn, pairs.group, groups)
    axis_of_group = np.zeros(groups, dtype=int)
    axis_of_group[pairs.group] = pairs.axis
    taus = [_mean_of_those_there(means[:, axis_of_group == a]) for a in range(len(pairs.axes))]
    return np.stack(taus, 1) if taus else np.full((len(weights), 1), np.nan)


def granulated_kendall(x: np.ndarray, y: np.ndarray, pairs: Pairs, units: Sequence, **options) -> Estimate:
    """Psi, the mean of `axis_kendall` over the axes (Jiang et al., Sec. 2.2), in [-1, 1]."""
    codes = _unit_codes(units)
    return bootstrap(lambda weights: _mean_of_those_there(_taus(x, y, pairs, codes, weights)), codes, **options)


def environment_errors(x: np.ndarray, y: np.ndarray, pairs: Pairs) -> np.ndarray:
    """The share of pairs that the measure orders wrongly in each environment, (environments,); a tie is half an error.

    An environment is two values of one factor; its pairs are equal in all else.
    """
    one = np.ones((1, len(pairs.first)))
    return _grouped_means((1 - _agreement(x, y, pairs)) / 2, one, pairs.environment, len(pairs.environments))[0]


def sign_error(x: np.ndarray, y: np.ndarray, pairs: Pairs, units: Sequence, **options) -> Estimate:
    """Mean of `environment_errors`, in [0, 1]: 0 is always right, 1/2 a coin (Dziugaite et al., Sec. 4, whose
    environments are single pairs)."""
    codes, wrong = _unit_codes(units), (1 - _agreement(x, y, pairs)) / 2

    def errors(weights: np.ndarray) -> np.ndarray:
        drawn = _pair_weights(weights, pairs.first, pairs.second, codes)
        return _mean_of_those_there(_grouped_means(wrong, drawn, pairs.environment, len(pairs.environments)))

    return bootstrap(errors, codes, **options)
