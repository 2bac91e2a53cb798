"""The inequalities of v1 Lemma 7, Lemma 8 and Theorem 6 (v3 Lemmas 6.4, 6.5, Theorem 6.3).

Each is returned as what was measured and what is allowed. The label of a point is 1[f > 0].
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rc_theory.two_layer.examples import line_network, orthonormal_network, tight_segment
from rc_theory.two_layer.networks import (
    Networks,
    active_neurons,
    mean_count,
    pair_counts,
    pairs,
    random_networks,
    sharpness,
)
from rc_theory.two_layer.training import Training

LEMMA_7, LEMMA_8, THEOREM_6 = "theory/lemma-7", "theory/lemma-8", "theory/theorem-6"
# Shapes (p, d, N) of the random networks: narrow and wide, few and many inputs, more and fewer
# points than inputs.
SHAPES = (
    (4, 2, 4),
    (4, 2, 32),
    (16, 2, 16),
    (64, 2, 16),
    (4, 10, 16),
    (16, 10, 4),
    (16, 10, 32),
    (64, 10, 16),
    (64, 40, 16),
)
# Of the constructed networks on orthonormal points.
BENDS = 16
# Sums of some thousand float64 terms and the eigenvalue of a matrix of some hundred rows: relative
# error below 1e-12.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Inequality:
    """measured <= allowed, checked in one case an entry; float64 arrays of one shape."""

    measured: np.ndarray
    allowed: np.ndarray

    @property
    def ratios(self) -> np.ndarray:
        """measured / allowed where anything is allowed."""
        return self.measured[self.allowed > 0] / self.allowed[self.allowed > 0]

    @property
    def largest_ratio(self) -> float:
        """The tightest case, to 12 decimals, beyond which rounding decides; NaN without a case."""
        return round(float(self.ratios.max()), 12) if self.ratios.size else math.nan

    @property
    def violations(self) -> int:
        """How many cases exceed what is allowed by more than rounding."""
        return int((self.measured > self.allowed * (1 + ROUNDING)).sum())

    def __len__(self) -> int:
        return self.measured.size


def radius(x: Tensor) -> Tensor:
    """r of Assumption 1, the smallest norm of a training point, (M,)."""
    return x.norm(dim=2).amin(1)


def _inequality(measured: Tensor, allowed: Tensor) -> Inequality:
    return Inequality(*(t.double().cpu().numpy().ravel() for t in (measured, allowed)))


def join(parts: Iterable[Inequality]) -> Inequality:
    """All cases of several inequalities as one."""
    parts = list(parts)
    return Inequality(
        *(np.concatenate([getattr(p, name) for p in parts]) for name in ("measured", "allowed"))
    )


def check_all(networks: Networks, x: Tensor) -> dict[str, Inequality]:
    """The three inequalities on networks and points x (M, N, d), by the id of their statement.

    Lemma 7: R(x_a, x_b) <= N(x_a) + N(x_b) + 2, one case a pair of points. Lemma 8: r^2 / N^2 sum_i
    N(x_i) <= lambda_max, r = min_i |x_i|. Theorem 6: mean count over the N^2 pairs <= 2N / r^2
    lambda_max + 2 (last line of v1's proof). One case a network each.
    """
    n = x.shape[1]
    counts, active = pair_counts(networks, x), active_neurons(networks, x)
    r2, sharp = radius(x) ** 2, sharpness(networks, x)
    i, j = pairs(n)
    return {
        LEMMA_7: _inequality(counts, active[:, i] + active[:, j] + 2),
        LEMMA_8: _inequality(r2 / n**2 * active.sum(1), sharp),
        THEOREM_6: _inequality(mean_count(counts, n), 2 * n / r2 * sharp + 2),
    }


def check_random(number: int, *, seed: int = 0, device: str = "cpu") -> dict[str, Inequality]:
    """The three inequalities on `number` random networks of each of SHAPES."""
    checks = []
    for index, (hidden, dim, n) in enumerate(SHAPES):
        networks = random_networks(
            number, hidden, dim, seed=seed * len(SHAPES) + index, device=device
        )
        generator = torch.Generator().manual_seed(seed * len(SHAPES) + index)
        x = torch.randn(number, n, dim, generator=generator, dtype=torch.float64).to(device)
        checks.append(check_all(networks, x))
    return _join_all(checks)


def check_trained(trainings: Iterable[Training], every: int = 1) -> dict[str, Inequality]:
    """The three inequalities on trained networks, at every `every`-th kept step.

    A network that has not moved until the next of these steps, since it diverged or died, is
    checked there alone.
    """
    checks = []
    for t in trainings:
        indices = list(range(len(t.steps) - 1, -1, -every))
        for index, later in zip(indices, [None, *indices], strict=False):
            moved = torch.ones(len(t.lr), dtype=torch.bool, device=t.x.device)
            if later is not None:
                moved = (t.weights[index] != t.weights[later]).flatten(1).any(1)
            if moved.any():
                checks.append(
                    check_all(Networks(t.weights[index][moved], t.signs[moved]), t.x[moved])
                )
    return _join_all(checks)


def _join_all(checks: list[dict[str, Inequality]]) -> dict[str, Inequality]:
    return {key: join(check[key] for check in checks) for key in checks[0]}


def line_allowed(networks: Networks, x: Tensor) -> Tensor:
    """2 + 16 log2(N) lambda_max / r^2, (M,): at least the mean count of points on a line.

    Of the points in their order along the line, a neuron that bends after the g-th is active at the
    first g or the last N - g; let m = min(g, N - g) and 2^s <= m < 2^(s + 1). The mean count is at
    most 2 + 2/N sum_j m_j. All neurons of one s and one side share 2^s points at that end, half of
    which at least lie on one side of the foot of the perpendicular from 0, where x_i . x_k >= r^2;
    the unit vector on these gives lambda_max >= r^2/N 2^(s - 1) times their number, and so they add
    at most 4 N lambda_max / r^2 to sum_j m_j. There are at most 2 log2(N) such groups.
    """
    return 2 + 16 * math.log2(x.shape[1]) * sharpness(networks, x) / radius(x) ** 2


def sharpness_cap(x: Tensor, hidden: int) -> Tensor:
    """p lambda_max(X X^T) / N, (M,): no p neurons have a larger sharpness on points x (M, N, d).

    The matrix of `sharpness` is a sum over neurons of D_j X X^T D_j / N, with D_j diagonal of zeros
    and ones.
    """
    return hidden * torch.linalg.eigvalsh(x @ x.transpose(1, 2))[:, -1] / x.shape[1]


def growth_with_n(name: str, sizes: Iterable[int]) -> pd.DataFrame:
    """One row per N of a constructed family, `line` or `orthonormal`."""
    rows = []
    for n in sizes:
        if name == "line":
            t = torch.linspace(-1, 1, n, dtype=torch.float64)
            networks, x = line_network(n), torch.stack([torch.ones_like(t), t], 1).unsqueeze(0)
        else:
            networks, x = orthonormal_network(n, BENDS)
        result = check_all(networks, x)[THEOREM_6]
        on_line = float(line_allowed(networks, x)) if name == "line" else math.nan
        sharp = float(sharpness(networks, x) / radius(x) ** 2)
        rows.append((n, result.measured[0], sharp, result.allowed[0], on_line))
    return pd.DataFrame(rows, columns=["N", "mean_count", "sharpness", "allowed", "line_allowed"])


def check_constructed() -> dict[str, Inequality]:
    """The three inequalities on `tight_segment` and `orthonormal_network`."""
    cases = [tight_segment(), *(orthonormal_network(n, BENDS) for n in (2, 4, 8, 16, 32))]
    return _join_all([check_all(*case) for case in cases])


def slopes(counts: np.ndarray, factors: Sequence[float]) -> np.ndarray:
    """Slope of each row of counts (M, rates) per doubling of the rate; NaN if an end is."""
    rates = np.log2(factors)
    found = np.full(len(counts), np.nan)
    for index, row in enumerate(counts):
        known = np.isfinite(row)
        if known[0] and known[-1]:
            found[index] = np.polyfit(rates[known], row[known], 1)[0]
    return found
