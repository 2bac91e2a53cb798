"""Correlations of rows that are counted several times, which a bootstrap takes of its resamples."""

from __future__ import annotations

import numpy as np


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
