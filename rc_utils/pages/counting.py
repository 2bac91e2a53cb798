"""What counts are right: labels that win on a simplex, and a triangle's regions as polygons."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog


def labels_that_win(scores: np.ndarray) -> int:
    """How many labels have the highest score on some part of a simplex, from linear scores (d + 1, C) at its corners.

    For each label a linear program looks for the point where its lead over all others is largest.
    """
    corners, classes = scores.shape
    won = 0
    for label in range(classes):
        behind = np.delete(scores - scores[:, [label]], label, axis=1).T
        limits = np.column_stack([behind, np.ones(classes - 1)])
        inside = np.append(np.ones(corners), 0)[None]
        bounds = [(0, None)] * corners + [(None, None)]
        objective = np.append(np.zeros(corners), -1)
        lead = -linprog(objective, limits, np.zeros(classes - 1), inside, [1], bounds).fun
        won += lead > 0
    return won
