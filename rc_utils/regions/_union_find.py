"""The compiled kernel; imported only where components are counted, because it needs numba."""

import warnings

import numba
import numpy as np

LABELS = numba.types.Array(numba.int64, 2, "C", readonly=True)
EDGES = numba.types.Array(numba.int32, 2, "C", readonly=True)
SIGNATURE = numba.int64[::1](LABELS, EDGES)


def compiled(function):
    """The function compiled, and what the compiler makes kept on disk, where it can and that is sound."""
    try:
        return numba.njit(SIGNATURE, cache=True, nogil=True)(function)
    except Exception as error:  # no folder to write to, a full disk, and whatever reading a damaged file raises
        warnings.warn(
            f"the compiled counting is not kept on disk, each process compiles it anew ({error}); NUMBA_CACHE_DIR "
            "names a folder for it, and one that is damaged can be removed",
            stacklevel=2,
        )
        return numba.njit(SIGNATURE, nogil=True)(function)


@compiled
def count_by_union_find(labels, edges):
    """Number of components (B,) int64 of each row of labels (B, P), -1 outside, joined along edges (E, 2).

    Every point starts as a tree; an edge between equal labels joins two trees or finds them joined. The points of an
    edge are hung directly below the root, which keeps the trees flat.
    """
    batch, size = labels.shape
    counts = np.zeros(batch, np.int64)
    parent = np.empty(size, np.int32)
    for b in range(batch):
        row = labels[b]
        for i in range(size):
            parent[i] = i
            counts[b] += row[i] >= 0
        for e in range(len(edges)):
            later, earlier = edges[e, 0], edges[e, 1]
            if row[later] != row[earlier] or row[later] < 0:
                continue
            first, second = parent[later], parent[earlier]
            if first == second:
                continue
            while parent[first] != first:
                first = parent[first]
            while parent[second] != second:
                second = parent[second]
            root = min(first, second)
            counts[b] -= first != second
            parent[first] = parent[second] = root
            parent[later] = parent[earlier] = root
    return counts
