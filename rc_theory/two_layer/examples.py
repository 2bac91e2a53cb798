"""Two-layer ReLU networks for which the inequalities of v1 App. G are tight."""

import torch
from torch import Tensor

from rc_theory.two_layer.networks import Networks


def tight_segment() -> tuple[Networks, Tensor]:
    """Four neurons and two points (1, 2, 2) with R = 6 = N(x_a) + N(x_b) + 2 (Lemma 7).

    f at alpha is sum_j c_j relu(+-(alpha - t_j)). Its signs at the ends and the bends alternate.
    """
    t = torch.tensor([0.3, 0.7, 0.8, 0.9], dtype=torch.float64)
    c = torch.tensor([4.0, -11.0, 14.0, -12.0], dtype=torch.float64)
    turn = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
    weights = torch.stack([-t, 1 - t], 1) * (turn * c.abs()).unsqueeze(1)
    return Networks(weights[None], c.sign()[None]), torch.eye(2, dtype=torch.float64)[None]


def unrepairable_segment() -> tuple[Networks, Tensor]:
    """Four neurons with four regions on a segment, none as the printed proof of Lemma 7 needs."""
    weights = torch.tensor([[2.8, -5.2], [-5.2, 2.8], [1, 5], [3, 3]], dtype=torch.float64)
    signs = torch.tensor([1, -1, 1, -1], dtype=torch.float64)
    return Networks(weights[None], signs[None]), torch.eye(2, dtype=torch.float64)[None]


def orthonormal_network(n: int, m: int) -> tuple[Networks, Tensor]:
    """N orthonormal points, p = N m neurons, 2m + 1 regions between any two: (1, N, N).

    m neurons belong to each point e_i. On the way from e_i to any other e_j they make f zigzag with
    m bends in the first half; the neurons of e_j mirror them in the second. lambda_max = m / N, so
    Lemma 8 is an equality. Theorem 6 reads (2m + 1) - 2m / N <= 2m + 2. Requires N, m >= 2.
    """
    at = torch.arange(m + 1, dtype=torch.float64) / (2 * m + 1)
    # +1 at the last bend but one, alternating back to the data point, 0 from the last bend on.
    values = torch.cat([(-1.0) ** torch.arange(m - 1, -1, -1), torch.zeros(1)]).double()
    slopes = torch.cat([values.diff() / at.diff(), torch.zeros(1, dtype=torch.float64)])
    rise = slopes.diff()
    own, other = rise.abs() * at[1:], -rise.abs() * (1 - at[1:])
    eye = torch.eye(n, dtype=torch.float64).unsqueeze(1)
    weights = own[:, None] * eye + other[:, None] * (1 - eye)
    signs = rise.sign().repeat(n)
    return Networks(weights.reshape(1, n * m, n), signs.unsqueeze(0)), eye.reshape(1, n, n)


def line_network(n: int) -> Networks:
    """Network of n neurons that fits the training set "line" of n points exactly; n >= 4, even.

    Each point of the left half has a neuron that bends three quarters of a step to its right and is
    active to the left of the bend. The right half mirrors it.
    """
    t = torch.linspace(-1, 1, n, dtype=torch.float64)
    side = torch.cat([-torch.ones(n // 2), torch.ones(n // 2)]).double()
    bend = t - side * 0.75 * (t[1] - t[0])
    direction = torch.stack([-side * bend, side], 1)
    x = torch.stack([torch.ones_like(t), t], 1)
    y = ((-1.0) ** torch.arange(n)).double()
    heights = torch.linalg.solve(torch.relu(x @ direction.T), y)
    return Networks((direction * heights.abs()[:, None])[None], heights.sign()[None])
