"""Batches of two-layer ReLU networks: loss, sharpness and exact region counts.

f(x) = sum_i a_i relu(w_i . x) with fixed signs a_i = +-1 and the quadratic loss L(W) = 1/(2N) sum_i
(y_i - f(x_i))^2 (v1 App. G, v3 Sec. 6.2). Weights (M, p, d), inputs (M, N, d), targets (M, N).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rc_utils.validation import check_count

# Outputs of neurons that are looked at together: what fits in a processor's cache.
CHUNK = 1 << 20


@dataclass(frozen=True, eq=False)
class Networks:
    """M two-layer networks: weights (M, p, d) and signs (M, p), float64, on one device."""

    weights: Tensor
    signs: Tensor


def random_networks(
    number: int, hidden: int, dim: int, *, seed: int = 0, device: str = "cpu"
) -> Networks:
    """Draw `number` networks, w_ij ~ N(0, 1 / dim) and a_i = +-1 equally likely (v1 App. G)."""
    for name, value in {"number": number, "hidden": hidden, "dim": dim}.items():
        check_count(name, value, 1)
    generator, shape = torch.Generator().manual_seed(seed), (number, hidden, dim)
    weights = torch.randn(shape, generator=generator, dtype=torch.float64) / math.sqrt(dim)
    signs = 2.0 * torch.randint(0, 2, shape[:2], generator=generator).double() - 1
    return Networks(weights.to(device), signs.to(device))


def outputs(networks: Networks, x: Tensor) -> Tensor:
    """f(x_i) of each network, (M, N), at its own points x (M, N, d)."""
    hidden = torch.relu(x @ networks.weights.mT)
    return (hidden @ networks.signs.unsqueeze(2)).squeeze(2)


def quadratic_loss(networks: Networks, x: Tensor, y: Tensor) -> Tensor:
    """L(W) = 1/(2N) sum_i (y_i - f(x_i))^2 of each network, (M,)."""
    return (outputs(networks, x) - y).square().mean(1) / 2


def active_neurons(networks: Networks, x: Tensor) -> Tensor:
    """N(x_i, W), (M, N) int64: number of j with w_j . x_i > 0."""
    return (x @ networks.weights.mT > 0).sum(2)


def sharpness(networks: Networks, x: Tensor) -> Tensor:
    """Largest eigenvalue of the Hessian of L, (M,).

    relu'' vanishes off the kinks, so the Hessian is J J^T / N, where the columns of J are the
    gradients of f(x_i). J^T J / N has the same largest eigenvalue, and J^T J has the entries
    (x_i . x_k) |{j active at x_i and x_k}|.
    """
    active = (x @ networks.weights.mT > 0).double()
    gram = (active @ active.mT) * (x @ x.mT)
    return torch.linalg.eigvalsh(gram)[:, -1].clamp(min=0) / x.shape[1]


@torch.no_grad()
def segment_counts(networks: Networks, x_a: Tensor, x_b: Tensor) -> Tensor:
    """Exact region counts R on the segments from x_a to x_b, both (M, S, d): (M, S) int64.

    The label is 1[f > 0], so that f = 0 counts as negative. With u = w_j . x_a and v = w_j . x_b,
    neuron j bends f at u / (u - v) if exactly one of u, v is positive; the slope of f rises there
    by a_j |v - u|. f is summed up from bend to bend. Values below the rounding of that sum, 4 p eps
    sum_j (|u_j| + |v_j|), are taken for 0.
    """
    rows = max(1, CHUNK // max(1, x_a.shape[1] * networks.signs.shape[1]))
    parts = zip(*(t.split(rows) for t in (networks.weights, networks.signs, x_a, x_b)), strict=True)
    return torch.cat([_segment_counts(*part) for part in parts])


def _segment_counts(weights: Tensor, signs: Tensor, x_a: Tensor, x_b: Tensor) -> Tensor:
    u, v = x_a @ weights.mT, x_b @ weights.mT
    signs = signs.unsqueeze(1)
    bends = (u > 0) != (v > 0)
    at, order = torch.where(bends, u / torch.where(bends, u - v, 1.0), 1.0).sort(2)
    rise = (signs * (v - u).abs() * bends).gather(2, order)
    slope = (signs * (v - u) * (u > 0)).sum(2, keepdim=True)
    slopes = torch.cat([slope, slope + rise.cumsum(2)], 2)
    zero, one = torch.zeros_like(slope), torch.ones_like(slope)
    lengths = torch.cat([zero, at, one], 2).diff(dim=2)
    start = (signs * torch.relu(u)).sum(2, keepdim=True)
    values = torch.cat([start, start + (slopes * lengths).cumsum(2)], 2)
    eps = torch.finfo(values.dtype).eps
    positive = values > 4 * eps * u.shape[2] * (u.abs() + v.abs()).sum(2, keepdim=True)
    return 1 + (positive[:, :, 1:] != positive[:, :, :-1]).sum(2)


def pairs(n: int) -> tuple[Tensor, Tensor]:
    """Indices i and j of all pairs i < j of n points, (n (n - 1) / 2,) each."""
    return tuple(torch.triu_indices(n, n, 1))


def pair_counts(networks: Networks, x: Tensor) -> Tensor:
    """R(x_i, x_j, W) for all i < j in the order of `pairs`, (M, N (N - 1) / 2)."""
    i, j = pairs(x.shape[1])
    return segment_counts(networks, x[:, i], x[:, j])


def mean_count(counts: Tensor, n: int) -> Tensor:
    """Mean of R over all N^2 ordered pairs, (M,), from `pair_counts`.

    R is symmetric, and R(x_i, x_i, W) = 1.
    """
    return (n + 2 * counts.sum(1)) / n**2
