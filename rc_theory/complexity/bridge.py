"""The bridge from the complexity of Loukas et al. to region counts: both on the same runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import nn

from rc_exact import exact_segment
from rc_theory.complexity.stacked import unstack
from rc_theory.complexity.tasks import Task
from rc_theory.complexity.trajectory import Trajectory
from rc_utils.correlation import correlate
from rc_utils.counting import region_count, sample_vertices


def accuracies(networks: nn.Sequential, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Training (as labelled) and test accuracy of each classifier of a stack, (M,) each."""
    found = []
    with torch.no_grad():
        for x, y in (task.train, task.test):
            z = networks(x.expand(len(y), *x.shape[1:])).squeeze(-1)
            found.append(((z > 0) == (y > 0.5)).double().mean(1).cpu().numpy())
    return found[0], found[1]


def bridge_table(
    task: Task,
    networks: nn.Sequential,
    path: Trajectory,
    *,
    num_segments: int = 1500,
    num_exact: int = 10,
    seed: int = 0,
) -> pd.DataFrame:
    """One row a run: both notions of complexity, and what they are to predict.

    level, repetition; total (trajectory length); lipschitz (mean at the training points at the
    end); count (regions of equal label on `num_segments` segments between training points, of 50
    points each; NaN for regression, which has no labels); pieces (linear pieces on the first
    `num_exact` of them, solved for); gap (training less test accuracy, or for regression the test
    loss less the training loss).
    """
    rows = []
    for m, template in enumerate(task.networks):
        network = unstack(networks, template, m)
        points = task.train[0][m if len(task.train[0]) > 1 else 0]
        count = np.nan
        if task.loss == "bce":
            count = region_count(
                network, points, num_samples=num_segments, resolution=50, seed=seed
            ).mean
        ends = sample_vertices(points.cpu(), dim=1, num_samples=num_exact, seed=seed)
        pieces = [exact_segment(network, *pair).num_linear_regions for pair in ends]
        rows.append({"count": count, "pieces": np.mean(pieces)})
    if task.loss == "bce":
        train, test = accuracies(networks, task)
        gap = train - test
    else:
        gap = path.test_loss[-1] - path.train_loss[-1]
    values = {
        "level": task.level,
        "repetition": task.repetition,
        "total": path.length[..., 0].sum(0),
        "gap": gap,
    }
    return pd.DataFrame(rows).assign(**values, lipschitz=path.lipschitz_mean[-1])


PAIRS = (
    *(("total", "gap"), ("lipschitz", "gap"), ("count", "gap"), ("pieces", "gap")),
    *(("total", "count"), ("lipschitz", "count"), ("total", "pieces"), ("lipschitz", "pieces")),
)


def agreement(
    table: pd.DataFrame, pairs: Sequence[tuple[str, str]] = PAIRS, *, seed: int = 0
) -> pd.DataFrame:
    """Spearman's correlations of the columns of a `bridge_table`, pooled and within a level, a row
    a pair.

    Within: of the ranks less their mean at the level, which leaves out what the level does to both.
    Intervals are bootstrapped over repetitions. Columns: x, y, pooled, pooled_low, pooled_high,
    within, within_low, within_high.
    """
    ranks = table[list(dict.fromkeys(c for pair in pairs for c in pair))].rank()
    centred = ranks - ranks.groupby(table["level"]).transform("mean")
    rows = []
    for x, y in pairs:
        pooled = correlate(table[x], table[y], "spearman", table["repetition"])
        within = correlate(centred[x], centred[y], "pearson", table["repetition"])
        row = {"x": x, "y": y}
        for key, c in (("pooled", pooled), ("within", within)):
            row |= {key: c.value, f"{key}_low": c.low, f"{key}_high": c.high}
        rows.append(row)
    return pd.DataFrame(rows)
