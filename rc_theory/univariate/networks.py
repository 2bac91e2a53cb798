"""Univariate two-layer ReLU networks: linear regions and KKT points (Safran et al.).

A network of width k is N(x) = sum_j v_j relu(w_j x + b_j). A batch of S networks is one float64
tensor `theta` of shape (S, 3, k) that holds w, b and v; a single network has shape (3, k). Data are
x (S, n), one sorted sample per network, and labels y in {-1, 1}. A neuron of zeros is absent.
"""

import numpy as np
import torch
from scipy.optimize import nnls

from rc_utils.validation import require

# Kinks closer than this count as one, and a kink closer than this to a sample lies on it: neurons
# that merge in the limit are still apart when the flow stops. The samples lie in [-1, 1].
POSITION_TOLERANCE = 1e-3
# A kink counts if its change of slope is more than this share of the sum of all changes.
SLOPE_TOLERANCE = 1e-3
# KKT residual below which a direction has converged.
CONVERGED = 1e-3
# Weight in the residual of a multiplier outside of the subdifferential.
_OUTSIDE = 100.0


def outputs(theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """N(x) of S networks (S, 3, k) at points (S, n) or (n,): (S, n)."""
    w, b, v = theta.unbind(1)
    x = x.expand(len(theta), -1)
    return ((x[:, :, None] * w[:, None] + b[:, None]).clamp_min(0) @ v[:, :, None])[:, :, 0]


def make_teachers(crossings: torch.Tensor) -> torch.Tensor:
    """Networks of width r that change sign at `crossings` (S, r), increasing: (S, 3, r).

    N is 0 left of the first crossing, which counts as negative (Safran Sec. 2). From there it is a
    zigzag of slopes ±1 with kinks half way between crossings.
    """
    middles = (crossings[:, 1:] + crossings[:, :-1]) / 2
    kinks = torch.cat([crossings[:, :1], middles], 1)
    signs = torch.full_like(kinks, 2.0)
    signs[:, 1::2] = -2.0
    signs[:, 0] = 1.0
    return torch.stack([torch.ones_like(kinks), -kinks, signs], 1)


def draw_crossings(num_teachers: int, sign_changes: int, seed: int) -> torch.Tensor:
    """Draw the sign changes of teachers in [-1, 1], (S, r), at least 1 / (r + 1) apart.

    Raises ValueError if r is less than 1.
    """
    require(sign_changes > 0, f"got {sign_changes} sign changes; a teacher needs at least one")
    even = torch.linspace(-1, 1, sign_changes + 2, dtype=torch.float64)[1:-1]
    return even + (_rand(seed, num_teachers, sign_changes) - 0.5) / (sign_changes + 1)


def label(crossings: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Sign in {-1, 1} at x (S, n) or (n,) of teachers with sign changes (S, r): (S, n)."""
    x = x.expand(len(crossings), -1)
    passed = (x[:, :, None] > crossings[:, None]).sum(2)
    return (2 * (passed % 2) - 1).to(torch.float64)


def draw_samples(
    crossings: torch.Tensor, num_samples: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw sorted samples, uniform on [-1, 1], and label them by the teachers: x, y (S, n)."""
    x = (2 * _rand(seed, len(crossings), num_samples) - 1).sort(1).values
    return x, label(crossings, x)


def draw_students(
    num_students: int,
    width: int,
    seed: int,
    sigma_hidden: float = 1.0,
    sigma_output: float | None = None,
) -> torch.Tensor:
    """Draw students (S, 3, k): w, b ~ N(0, sigma_hidden²), v ~ N(0, sigma_output²).

    sigma_output: by default 1 / sqrt(k), so that the output's size does not depend on the width.
    """
    generator = torch.Generator().manual_seed(seed)
    theta = torch.randn(num_students, 3, width, dtype=torch.float64, generator=generator)
    sigma_output = width**-0.5 if sigma_output is None else sigma_output
    scales = torch.tensor([sigma_hidden, sigma_hidden, sigma_output], dtype=torch.float64)
    return theta * scales[:, None]


def kinks(
    theta: torch.Tensor,
    position_tolerance: float = POSITION_TOLERANCE,
    slope_tolerance: float = SLOPE_TOLERANCE,
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of one network's kinks, increasing, and changes of slope there: (m,) each.

    A neuron changes the slope at -b / w by v |w|. Successive kinks at most `position_tolerance`
    apart are merged, at their mean weighted by |change|, and their changes added up. A kink is
    dropped if its |change| is at most `slope_tolerance` of the sum of all |changes|.
    """
    w, b, v = theta.detach().cpu().numpy().astype(float)
    bends = v * w != 0
    position, change = -b[bends] / w[bends], v[bends] * np.abs(w[bends])
    order = np.argsort(position)
    position, change = position[order], change[order]
    # Without this, negligible neurons would link distant kinks into one.
    heavy = np.abs(change) > 1e-3 * slope_tolerance * np.abs(change).sum()
    position, change = position[heavy], change[heavy]
    if not len(position):
        return position, change
    group = np.concatenate([[0], np.cumsum(np.diff(position) > position_tolerance)])
    size, total = np.bincount(group, np.abs(change)), np.bincount(group, change)
    kept = np.abs(total) > slope_tolerance * size.sum()
    return (np.bincount(group, np.abs(change) * position) / size)[kept], total[kept]


def linear_regions(theta: torch.Tensor, **tolerances: float) -> int:
    """Number of linear pieces of one network on the whole line: one more than its `kinks`."""
    return len(kinks(theta, **tolerances)[0]) + 1


def kkt_residual(theta: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> float:
    """Distance of one network's direction from a KKT point (Safran Problem 4), >= 0.

    theta (3, k), x and y (n,). With u = theta / |theta|, margins q_i = y_i N_u(x_i) and their
    minimum q, the minimum over lambda >= 0 of the norm of (u - sum_i lambda_i ∂q_i, 2 sum_i
    lambda_i (q_i - q)): stationarity and complementary slackness. ∂ is Clarke's subdifferential:
    where |w_j x_i + b_j| <= POSITION_TOLERANCE |(w_j, b_j)|, the derivative of the relu is any
    number in [0, 1], chosen for each (i, j). Infinite if a sample is misclassified.
    """
    u = (theta / theta.norm()).detach().cpu().numpy()
    x, y = x.cpu().numpy(), y.cpu().numpy()
    w, b, v = u
    before = np.outer(x, w) + b
    active = np.maximum(before, 0)
    margins = y * (active @ v)
    if not margins.min() > 0:  # or NaN
        return np.inf
    size = np.hypot(w, b)
    free = (np.abs(before) <= POSITION_TOLERANCE * size) & (v != 0) & (size > 1e-9)
    slope = y[:, None] * v * ((before > 0) & ~free)
    excess = 2 * (margins - margins.min())[:, None]
    fixed = np.concatenate([slope * x[:, None], slope, y[:, None] * active, excess], 1)
    # Each free derivative has a multiplier t >= 0, and a slack: t + slack = lambda_i.
    i, j = np.nonzero(free)
    pair = np.arange(len(i))
    chosen = np.zeros((fixed.shape[1], len(i)))
    chosen[j, pair], chosen[len(w) + j, pair] = y[i] * v[j] * x[i], y[i] * v[j]
    whole = np.zeros((len(i), len(x)))
    whole[pair, i] = _OUTSIDE
    part = _OUTSIDE * np.eye(len(i))
    system = np.block([[fixed.T, chosen, np.zeros_like(chosen)], [whole, -part, -part]])
    target = np.concatenate([u.flatten(), np.zeros(1 + len(i))])
    return float(nnls(system, target, maxiter=30 * system.shape[1])[1])


def _rand(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
