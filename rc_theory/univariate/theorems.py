"""Statements of Safran et al., tested on students trained by gradient flow."""

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd
import torch
from scipy.stats import binomtest

from rc_theory.univariate.flow import Flow, gradient_flow
from rc_theory.univariate.networks import (
    CONVERGED,
    draw_crossings,
    draw_samples,
    draw_students,
    kkt_residual,
    linear_regions,
    outputs,
)


def region_bound(label_changes: int) -> int:
    """Upper bound of Theorem 4.2 on the linear regions: 32 r + 67, r >= 1.

    r may be a sample's label changes, which the proof counts (Safran Sec. 4.2).
    """
    return 32 * max(1, label_changes) + 67


def train_students(
    sign_changes: int, width: int, num_samples: int, num_students: int, seed: int, **flow: object
) -> tuple[pd.DataFrame, Flow]:
    """Train students, each with its own teacher, sample and start; one row per student, and `Flow`.

    Columns: sign_changes, width, num_samples, label_changes (in the sample), least_loss, residual,
    converged (least_loss < log(2) / n, so that all samples are classified correctly, and residual <
    1e-3), regions (tolerances of 0.001), regions_coarse (kinks within 0.01 merged) and regions_fine
    (tolerances of 1e-5). `flow`: options of `gradient_flow`.
    """
    crossings = draw_crossings(num_students, sign_changes, seed)
    x, y = draw_samples(crossings, num_samples, seed + 1)
    theta = draw_students(num_students, width, seed + 2)
    trained = gradient_flow(theta, x, y, **flow)
    table = pd.DataFrame({"least_loss": trained.least_loss, "residual": trained.residual})
    table = table.assign(sign_changes=sign_changes, width=width, num_samples=num_samples)
    table["label_changes"] = (y.diff(dim=1) != 0).sum(1).numpy()
    fitted = table["least_loss"] < math.log(2) / num_samples
    table["converged"] = fitted & (table["residual"] < CONVERGED)
    coarse = {"position_tolerance": 1e-2}
    fine = {"position_tolerance": 1e-5, "slope_tolerance": 1e-5}
    for name, options in (("regions", {}), ("regions_coarse", coarse), ("regions_fine", fine)):
        table[name] = [linear_regions(network, **options) for network in trained.theta]
    return table, trained


def train_settings(
    settings: Iterable[tuple[int, int, int]], num_students: int, seed: int, **flow: object
) -> pd.DataFrame:
    """Table of `train_students` for all settings (sign_changes, width, num_samples)."""
    tables = [train_students(*setting, num_students, seed, **flow)[0] for setting in settings]
    return pd.concat(tables, ignore_index=True)


def theorem_31(
    sign_changes: int, num_samples: int, delta: float, num_students: int, seed: int, **flow: object
) -> pd.DataFrame:
    """Train students at the width and start of Theorem 3.1; one row per student.

    Width 6144 log(24 r / delta) / rho, the least sigma_h and the largest sigma_o, for data uniform
    on [-1, 1]. The sign changes are evenly spaced, with intervals of rho = 2 / (r + 1). Columns:
    ratio, 2 n times the least loss; the relative change of either layer; width and both sigmas.
    """
    r, rho = sign_changes, 2 / (sign_changes + 1)
    width = math.ceil(6144 * math.log(24 * r / delta) / rho)
    hidden = 4200 * num_samples**2 * 0.5 * math.sqrt(r * width) / (delta * rho)
    output = 1 / (4 * width * hidden * math.log(6 * width / delta))
    crossings = torch.linspace(-1, 1, r + 2, dtype=torch.float64)[1:-1].expand(num_students, -1)
    x, y = draw_samples(crossings, num_samples, seed)
    theta = draw_students(num_students, width, seed + 1, hidden, output)
    settings = {"num_steps": 100, "check_every": 5, "residuals": False} | flow
    trained = gradient_flow(theta, x, y, stop_loss=1 / (2 * num_samples), **settings)
    start = theta.norm(dim=2)
    moved = (trained.theta - theta).norm(dim=2)
    table = pd.DataFrame({"ratio": 2 * num_samples * trained.least_loss})
    table["hidden_change"] = (moved[:, :2].norm(dim=1) / start[:, :2].norm(dim=1)).numpy()
    table["output_change"] = (moved[:, 2] / start[:, 2]).numpy()
    return table.assign(width=width, sigma_hidden=hidden, sigma_output=output)


def certified_loss(theta: torch.Tensor, sign_changes: int) -> np.ndarray:
    """Lower bound, (S,), on the loss of any training from theta (S, 3, k), with r sign changes.

    The points are i / (r + 1), i = 1..r + 1, with alternating labels. A neuron active on none never
    moves, and m active neurons change sign at most m + 1 times. Each misclassified point accounts
    for at most two of the r - m - 1 missing changes, at a loss of log 2 or more.
    """
    first_and_last = torch.tensor([1 / (sign_changes + 1), 1], dtype=torch.float64)
    ends = theta[:, 0, :, None] * first_and_last + theta[:, 1, :, None]
    active = (ends > 0).any(2).sum(1).numpy()
    missing = np.ceil(np.maximum(sign_changes - active - 1, 0) / 2)
    return math.log(2) * missing / (sign_changes + 1)


def certified_share(
    sign_changes: int, width_ratios: Iterable[float], num_initializations: int, seed: int
) -> pd.DataFrame:
    """Share of initializations with a `certified_loss` of Theorem 3.2's bound or more, by width.

    Nothing is trained. Columns: sign_changes, width_ratio, n, and share with low and high, its
    exact 95 % interval. Ratios of 4/3 and more, where the bound is 0 or less, are left out.
    """
    columns = ["sign_changes", "width_ratio", "n", "share", "low", "high"]
    rows = []
    for ratio in width_ratios:
        bound = (1 - 0.75 * ratio) / 4
        if bound > 0:
            width = math.floor(ratio * sign_changes + 1e-9)
            theta = draw_students(num_initializations, width, seed)
            certified = int((certified_loss(theta, sign_changes) >= bound).sum())
            found = share(certified, num_initializations)
            rows.append([sign_changes, ratio, num_initializations, *found])
    return pd.DataFrame(rows, columns=columns)


def share(successes: int, trials: int) -> tuple[float, float, float]:
    """Share of successes and its exact (Clopper-Pearson) 95 % interval."""
    interval = binomtest(successes, trials).proportion_ci()
    return successes / trials, float(interval.low), float(interval.high)


def example_1() -> dict[str, object]:
    """Example 1: the limit of gradient flow, and a better solution.

    limit, better: (3, 2), the limit scaled to a smallest margin of 1; limit_norm, better_norm:
    squared norms; limit_residual: KKT residual; better_margins: at both samples.
    """
    x, y = torch.tensor([[4.0, -4.0]], dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    start = torch.tensor([[[0, 0], [1, 0], [1, 0]]], dtype=torch.float64)
    trained = gradient_flow(start, x, y, tolerance=0.0, num_steps=200)
    limit = trained.theta / (y * outputs(trained.theta, x)).min().sqrt()
    better = torch.tensor([[0.5, -0.5], [0, 0], [0.5, 0.5]], dtype=torch.float64)
    return {
        "limit": limit[0],
        "better": better,
        "limit_norm": float(limit.square().sum()),
        "better_norm": float(better.square().sum()),
        "limit_residual": kkt_residual(limit[0], x[0], y[0]),
        "better_margins": (y * outputs(better[None], x))[0].tolist(),
    }
