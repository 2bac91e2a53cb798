"""The mean region count of infinitely wide two-layer networks after training (page 08).

f(x) = sum_j a_j relu(w_j . x) with fixed a_j = +-1 starts at w_j ~ N(0, v I / p). With t the angle
between x and z, f tends to a Gaussian process of covariance K(x, z) = v |x| |z| (sin t + (pi - t)
cos t) / (2 pi) as p grows, and its tangent kernel to p T(x, z), T(x, z) = x . z (pi - t) / (2 pi).
"""

import itertools
import math

import numpy as np
from scipy.stats import norm

# v above: f starts with variance 1 at points of norm 1.
VARIANCE = 2.0
# Of the Gauss-Legendre quadrature along a segment.
NODES = 300


def angles(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Angle between each row of x (S, d) and each of z (N, d), (S, N)."""
    norms = np.outer(np.linalg.norm(x, axis=1), np.linalg.norm(z, axis=1))
    return np.arccos(np.clip(x @ z.T / norms, -1, 1))


def count_after_training(x_a: np.ndarray, x_b: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Mean region count on the segment from x_a to x_b once x (N, d), y (N,) is fitted."""
    at, weights = np.polynomial.legendre.leggauss(NODES)
    u = x_b - x_a
    s = x_a + (at[:, None] + 1) / 2 * u
    scale = VARIANCE / (2 * math.pi)
    norms, norms_x = np.linalg.norm(s, axis=1)[:, None], np.linalg.norm(x, axis=1)
    t, dot, along = angles(s, x), s @ x.T, u @ x.T
    own = (s @ u)[:, None]
    # K and 2 pi T between segment and training points, and their derivatives along the segment.
    k = scale * norms * norms_x * (np.sin(t) + (math.pi - t) * np.cos(t))
    dk = scale * (norms_x / norms * np.sin(t) * own + (math.pi - t) * along)
    cosine_slope = along / (norms * norms_x) - dot * own / (norms**3 * norms_x)
    dt = -cosine_slope / np.maximum(np.sin(t), 1e-300)
    tangent = dot * (math.pi - t)
    d_tangent = along * (math.pi - t) - dot * dt
    # Both kernels among the training points; the factor 2 pi cancels in `a`.
    t_x = angles(x, x)
    np.fill_diagonal(t_x, 0)
    inverse = np.linalg.inv((x @ x.T) * (math.pi - t_x))
    k_x = scale * np.outer(norms_x, norms_x) * (np.sin(t_x) + (math.pi - t_x) * np.cos(t_x))
    a, da = tangent @ inverse, d_tangent @ inverse

    def covariance(before, left, left_k, right, right_k):
        crossed = (left * right_k).sum(1) + (right * left_k).sum(1)
        return before - crossed + ((left @ k_x) * right).sum(1)

    # Means and covariances of f and f'. At the ends f = y, which is not 0, without variance.
    f, df = a @ y, da @ y
    ff = np.maximum(covariance(VARIANCE / 2 * norms[:, 0] ** 2, a, k, a, k), 1e-12)
    fd = covariance(VARIANCE / 2 * own[:, 0], a, k, da, dk)
    dd = covariance(VARIANCE / 2 * (u @ u), da, dk, da, dk)
    mean, spread = df - fd * f / ff, np.sqrt(np.maximum(dd - fd**2 / ff, 1e-12))
    slope = 2 * spread * norm.pdf(mean / spread) + mean * (1 - 2 * norm.cdf(-mean / spread))
    density = norm.pdf(f / np.sqrt(ff)) / np.sqrt(ff)
    return 1 + float(weights @ (slope * density)) / 2


def mean_count_after_training(x: np.ndarray, y: np.ndarray) -> float:
    """Mean of `count_after_training` over all pairs of different training points."""
    pairs = itertools.combinations(x, 2)
    return float(np.mean([count_after_training(x_a, x_b, x, y) for x_a, x_b in pairs]))
