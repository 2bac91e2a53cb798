"""The inequalities of v1 Lemma 7, Lemma 8 and Theorem 6 (v3 Lemmas 6.4, 6.5, Theorem 6.3).

Each gives a table of `measured` and `allowed` values. The label of a point is 1[f > 0].
"""

import math
from collections.abc import Iterable, Sequence

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
from rc_utils.validation import check_name

LEMMA_7, LEMMA_8, THEOREM_6 = "theory/lemma-7", "theory/lemma-8", "theory/theorem-6"
# (p, d, N) of random networks: narrow and wide, few and many inputs, few and many points.
SHAPES = (
    (4, 2, 4), (4, 2, 32), (16, 2, 16), (64, 2, 16), (4, 10, 16), (16, 10, 4), (16, 10, 32),
    (64, 10, 16), (64, 40, 16),
)  # fmt: skip
# Bends for each point of `orthonormal_network`.
BENDS = 16
# Relative rounding error of eigenvalues and of sums of some thousand float64 terms.
ROUNDING = 1e-12


def largest_ratio(cases: pd.DataFrame) -> float:
    """Largest measured / allowed where allowed > 0, rounded to 12 decimals; NaN without a case."""
    positive = cases[cases["allowed"] > 0]
    return round(float((positive["measured"] / positive["allowed"]).max()), 12)


def violations(cases: pd.DataFrame) -> int:
    """Number of cases that exceed the bound by more than rounding."""
    return int((cases["measured"] > cases["allowed"] * (1 + ROUNDING)).sum())


def radius(x: Tensor) -> Tensor:
    """r of Assumption 1, the smallest norm of a training point, (M,)."""
    return x.norm(dim=2).amin(1)


def check_all(networks: Networks, x: Tensor) -> dict[str, pd.DataFrame]:
    """Check the three inequalities on networks and points x (M, N, d); tables by statement id.

    Lemma 7: R(x_a, x_b) <= N(x_a) + N(x_b) + 2, one row per pair of points. Lemma 8: r^2 / N^2
    sum_i N(x_i) <= lambda_max, r = min_i |x_i|, and Theorem 6: mean count over the N^2 pairs <=
    2N / r^2 lambda_max + 2 (last line but one of v1's proof), one row per network.
    """
    n, (i, j) = x.shape[1], pairs(x.shape[1])
    counts, active = pair_counts(networks, x), active_neurons(networks, x)
    r2, sharp = radius(x) ** 2, sharpness(networks, x)
    sides = {
        LEMMA_7: (counts, active[:, i] + active[:, j] + 2),
        LEMMA_8: (r2 / n**2 * active.sum(1), sharp),
        THEOREM_6: (mean_count(counts, n), 2 * n / r2 * sharp + 2),
    }
    cases = {}
    for id_, both in sides.items():
        measured, allowed = (side.double().cpu().numpy().ravel() for side in both)
        cases[id_] = pd.DataFrame({"measured": measured, "allowed": allowed})
    return cases


def join(checks: Iterable[dict[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """Concatenate the tables of several results of `check_all`, id by id."""
    checks = list(checks)
    return {id_: pd.concat([check[id_] for check in checks]) for id_ in checks[0]}


def check_random(number: int, *, seed: int = 0, device: str = "cpu") -> dict[str, pd.DataFrame]:
    """Check the three inequalities on `number` random networks of each of SHAPES."""
    checks = []
    for index, (hidden, dim, n) in enumerate(SHAPES, seed * len(SHAPES)):
        networks = random_networks(number, hidden, dim, seed=index, device=device)
        generator = torch.Generator().manual_seed(index)
        x = torch.randn(number, n, dim, generator=generator, dtype=torch.float64).to(device)
        checks.append(check_all(networks, x))
    return join(checks)


def check_trained(trainings: Iterable[Training], every: int = 1) -> dict[str, pd.DataFrame]:
    """Check the three inequalities on trained networks, at every `every`-th kept step.

    A network that stops moving, because it diverged or died, is checked only at the last of these.
    """
    checks = []
    for t in trainings:
        later = torch.full_like(t.weights[-1], torch.nan)  # differs from all weights
        for weights in t.weights.flip(0)[::every]:
            moved = (weights != later).flatten(1).any(1)
            later = weights
            if moved.any():
                checks.append(check_all(Networks(weights[moved], t.signs[moved]), t.x[moved]))
    return join(checks)


def check_constructed() -> dict[str, pd.DataFrame]:
    """Check the three inequalities on `tight_segment` and `orthonormal_network`."""
    cases = [tight_segment(), *(orthonormal_network(n, BENDS) for n in (2, 4, 8, 16, 32))]
    return join(check_all(*case) for case in cases)


def line_allowed(networks: Networks, x: Tensor) -> Tensor:
    """Upper bound 2 + 16 log2(N) lambda_max / r^2, (M,), on the mean count of points on a line.

    Proof. By the proof of Lemma 7, a segment has at most two more regions than neurons that bend on
    it. A neuron that bends after the g-th point bends for 2 g (N - g) <= 2 N m ordered pairs, m =
    min(g, N - g), so the mean count is at most 2 + 2/N sum m. Group the neurons by s = floor(log2
    m) and by the side on which they are active. The q neurons of a group are all active at the 2^s
    outermost points of that side. At least half of these points lie on one side of the foot of the
    perpendicular from 0, so that x_i . x_k >= r^2 among them. The unit vector with equal entries
    there gives lambda_max >= 2^(s - 1) q r^2 / N. Hence the group adds at most q 2^(s + 1) <= 4 N
    lambda_max / r^2 to sum m, and there are at most 2 log2(N) groups.
    """
    return 2 + 16 * math.log2(x.shape[1]) * sharpness(networks, x) / radius(x) ** 2


def sharpness_cap(x: Tensor, hidden: int) -> Tensor:
    """Upper bound p lambda_max(X X^T) / N, (M,), on the sharpness of p neurons on x (M, N, d).

    J^T J / N is the sum over neurons of D_j X X^T D_j / N, with D_j diagonal of zeros and ones.
    """
    return hidden * torch.linalg.eigvalsh(x @ x.mT)[:, -1] / x.shape[1]


def growth_with_n(name: str, sizes: Iterable[int]) -> pd.DataFrame:
    """Both sides of Theorem 6 by N, for a constructed family: "line" or "orthonormal"."""
    check_name("family", name, ("line", "orthonormal"))
    rows = []
    for n in sizes:
        if name == "line":
            t = torch.linspace(-1, 1, n, dtype=torch.float64)
            networks, x = line_network(n), torch.stack([torch.ones_like(t), t], 1)[None]
        else:
            networks, x = orthonormal_network(n, BENDS)
        count, allowed = check_all(networks, x)[THEOREM_6].loc[0]
        on_line = float(line_allowed(networks, x)) if name == "line" else math.nan
        sharp = float(sharpness(networks, x) / radius(x) ** 2)
        rows.append((n, count, sharp, allowed, on_line))
    return pd.DataFrame(rows, columns=["N", "mean_count", "sharpness", "allowed", "line_allowed"])


def slopes(counts: np.ndarray, factors: Sequence[float]) -> np.ndarray:
    """Slope of each row of counts (M, rates) per doubling of the rate; NaN if either end is."""
    log_rates, known = np.log2(factors), np.isfinite(counts)
    found = np.full(len(counts), np.nan)
    for index in np.flatnonzero(known[:, 0] & known[:, -1]):
        values = counts[index, known[index]]
        slope = np.polyfit(log_rates[known[index]], values, 1)[0]
        found[index] = slope if np.ptp(values) else 0.0  # without the rounding of the fit
    return found
