"""Complexity after Loukas et al. beside region counts, on the same classifiers."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import nn

from rc_theory.complexity.stacked import unstack
from rc_theory.complexity.tasks import Task
from rc_theory.complexity.trajectory import Trajectory
from rc_utils.correlation import correlate
from rc_utils.counting import region_count


def accuracies(networks: nn.Sequential, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Training (as labelled) and test accuracy of each classifier of a stack, (M,) each."""
    found = []
    with torch.no_grad():
        for x, y in (task.train, task.test):
            z = networks(x.expand(len(y), *x.shape[1:])).squeeze(-1)
            found.append(((z > 0) == (y > 0.5)).double().mean(1).cpu().numpy())
    return found[0], found[1]


def bridge_table(
    task: Task, networks: nn.Sequential, path: Trajectory, *, num_segments: int, seed: int = 0
) -> pd.DataFrame:
    """One row per classifier: level, repetition, path, steepness, count and gap."""
    counts = []
    for m, template in enumerate(task.networks):
        points = task.train[0][m if len(task.train[0]) > 1 else 0]
        network = unstack(networks, template, m)
        found = region_count(network, points, num_samples=num_segments, resolution=50, seed=seed)
        counts.append(found.mean)
    train, test = accuracies(networks, task)
    values = {"level": task.level, "repetition": task.repetition, "count": counts}
    values |= {"path": path.length[..., 0].sum(0), "steepness": path.lipschitz_mean[-1]}
    return pd.DataFrame(values).assign(gap=train - test)


def agreement(table: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """Spearman's correlations of columns of a `bridge_table`, over all runs and within a level.

    Within: of the ranks less their mean at the level, which leaves out what the level does to both.
    """
    ranks = table[list(dict.fromkeys(column for pair in pairs for column in pair))].rank()
    centred = ranks - ranks.groupby(table["level"]).transform("mean")
    rows = []
    for x, y in pairs:
        pooled = correlate(table[x], table[y], "spearman", table["repetition"], unit="repetitions")
        within = correlate(
            centred[x], centred[y], "pearson", table["repetition"], unit="repetitions"
        )
        rows.append({"x": x, "y": y, "all runs": pooled, "within a level": within})
    return pd.DataFrame(rows)
