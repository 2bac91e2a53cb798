"""Mean region count on fixed segments, and the VC dimension that it bounds.

F(M, k) is the class of all functions on M segments whose region count, averaged over the segments,
is at most k. Its VC dimension is floor(M k) for k >= 1 (proof on page 19).
"""

import math

import numpy as np


def vc_dimension(segments: int, mean_count: float) -> int:
    """VC dimension of F(M, k): floor(M k), and 0 for k < 1, where F is empty."""
    return math.floor(segments * mean_count + 1e-9) if mean_count >= 1 else 0  # M k may round down


def largest_deviation(points: np.ndarray, total: int, segments: int = 1) -> np.ndarray:
    """sup |P_n f - P f| over f with at most k regions in total on M unit segments, (T, total).

    Column k - 1 is for k = 1..total. P is uniform on the segments, segment i being [i, i + 1).
    points: (T, n), T samples in any order. Dynamic programming along the segments maximises P_n f -
    P f over the label and the number of regions so far: where f = 1, a point adds 1/n and a gap
    between points subtracts its share of the length. A new segment begins a region of either label.
    1 - f has as many regions and the opposite P_n f - P f, so the maximum is also that of |.|.
    """
    trials, n = points.shape
    starts = np.broadcast_to(np.arange(1.0, segments), (trials, segments - 1))
    marks = np.concatenate([points, starts], 1)
    order = np.argsort(marks, axis=1, kind="stable")
    marks = np.take_along_axis(marks, order, 1)
    begins = order >= n
    gaps = np.diff(marks, axis=1, prepend=0.0, append=float(segments)) / segments
    best = np.full((trials, total, 2), -np.inf)
    best[:, 0] = 0
    for step in range(marks.shape[1] + 1):
        best[:, 1:] = np.maximum(best[:, 1:], best[:, :-1, ::-1])
        best[:, :, 1] -= gaps[:, step, None]
        if step == marks.shape[1]:
            break
        new = begins[:, step]
        changed = np.maximum(best[:, 1:], best[:, :-1, ::-1])
        best[~new, 1:] = changed[~new]
        best[~new, :, 1] += 1 / n
        best[new, 1:] = best[new, :-1].max(2, keepdims=True)
        best[new, 0] = -np.inf
    return np.maximum.accumulate(best.max(2), axis=1)
