"""The compiled kernel; imported only where components are counted on a CPU, because it needs numba."""

import warnings

import numba
import numpy as np

LABELS = numba.types.Array(numba.int32, 2, "C", readonly=True)
FLAGS = numba.types.Array(numba.uint8, 1, "C", readonly=True)
PAIRS = numba.types.Array(numba.uint32, 2, "C", readonly=True)


def compiled(signature):
    """Decorate a function with the compiler, which keeps what it makes on disk, where it can and that is sound."""

    def decorate(function):
        try:
            return numba.njit(signature, cache=True, nogil=True)(function)
        except Exception as error:  # no folder to write to, a full disk, and whatever reading a damaged file raises
            warnings.warn(
                f"the compiled counting is not kept on disk, each process compiles it anew ({error}); NUMBA_CACHE_DIR "
                "names a folder for it, and one that is damaged can be removed",
                stacklevel=2,
            )
            return numba.njit(signature, nogil=True)(function)

    return decorate


def prepare(edges, size):
    """Edges (E, 2) of `neighbour_pairs` among `size` points, in the form that the kernel works on.

    Returns (follows, across, parallel). follows (size,) uint8: whether point i is a neighbour of i - 1. across (A, 2)
    uint32: all other edges (i, j). parallel (A,) uint8: whether (i - 1, j - 1) is an edge as well and both ends
    follow, so that equal labels at all four points join i to j without this edge.
    """
    later, earlier = edges.T.astype(np.int64)
    step = later - earlier == 1
    follows = np.zeros(size, np.uint8)
    follows[later[step]] = 1
    across = edges[~step]
    later, earlier = later[~step], earlier[~step]
    shifted = np.isin((later - 1) * size + earlier - 1, later * size + earlier)
    parallel = follows[later] & follows[earlier] & shifted
    return follows, across.astype(np.uint32), parallel.astype(np.uint8)


@compiled(numba.int64[::1](LABELS, FLAGS, PAIRS, FLAGS))
def count_by_union_find(labels, follows, across, parallel):
    """Number of components of each row of labels (B, P), -1 outside, joined along the edges of `prepare`.

    Every run of equal labels of consecutive points starts as a tree; every other edge between equal labels joins two
    trees or finds them joined. Where two runs lie side by side, only the first edge between them is looked up. What
    is to be looked up is found without branches: at the boundaries between labels they are mispredicted.
    """
    batch, size = labels.shape
    counts = np.empty(batch, np.int64)
    parent = np.empty(size, np.uint32)
    continues = np.zeros(size, np.uint8)
    joining = np.empty(len(across) + 1, np.uint32)
    for b in range(batch):
        row = labels[b]
        for i in range(1, size):
            continues[i] = follows[i] & (row[i] == row[i - 1])
        count = 0
        root = np.uint32(0)
        for i in range(size):
            root = root if continues[i] else np.uint32(i)
            parent[i] = root
            count += (continues[i] == 0) & (row[i] >= 0)
        num_joining = 0
        for e in range(len(across)):
            i, j = across[e, 0], across[e, 1]
            joining[num_joining] = e
            beside = parallel[e] & continues[i] & continues[j]
            num_joining += (row[i] == row[j]) & (row[i] >= 0) & (beside == 0)
        for k in range(num_joining):
            i, j = across[joining[k], 0], across[joining[k], 1]
            root_i, root_j = parent[i], parent[j]
            if root_i == root_j:
                continue
            while parent[root_i] != root_i:
                root_i = parent[root_i]
            while parent[root_j] != root_j:
                up = parent[root_j]
                parent[root_j] = parent[up]
                root_j = up
            root = min(root_i, root_j)
            count -= root_i != root_j
            parent[root_i] = parent[root_j] = root
            parent[i] = parent[j] = root
        counts[b] = count
    return counts
