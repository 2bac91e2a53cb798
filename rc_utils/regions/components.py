"""Counting connected components of equal label: runs in 1-D, union-find on a CPU, label propagation elsewhere."""

import functools
import importlib
import weakref
from typing import TypeVar

import numpy as np
import torch

from rc_utils.checks import require
from rc_utils.regions.arrays import as_tensor, is_uint64
from rc_utils.regions.lattice import check_adjacency, excess_of_pairs, neighbour_pairs

Labels = TypeVar("Labels", np.ndarray, torch.Tensor)

# Elements of the largest temporary array of one block of label propagation.
BLOCK_ELEMENTS = 1 << 25


def count_components(labels: Labels, adjacency: str = "face") -> Labels:
    """Number of connected components of equal label in each of B grids.

    Args:
        labels: integers (B, *grid) in any number of grid dimensions, -1 for cells outside the domain; a NumPy array,
            or a torch tensor on any device.
        adjacency: which cells are neighbours. "face": one step along one axis; "full": at most one step along every
            axis; "simplex": one unit moved between barycentric coordinates, k_0 being what the grid's indices
            k_1..k_d leave (`label_grid` makes such grids).

    Returns:
        (B,) int64, of the same kind and on the same device as `labels`.

    Raises ValueError for labels that are not integers, have no grid dimension or are below -1.
    """
    check_adjacency(adjacency)
    given = as_tensor(labels)
    if given.dtype == torch.bool:
        given = given.to(torch.uint8)
    require(given.ndim >= 2, f"labels have shape {tuple(given.shape)}; expected (B, *grid)")
    require(
        not (given.is_floating_point() or given.is_complex()),
        f"labels are {given.dtype}; expected integers (argmax of the scores)",
    )
    points, dim = given[0:1].numel(), given.ndim - 1
    too_much = excess_of_pairs(points, dim, adjacency)
    require(not too_much, f"labels of shape {tuple(given.shape)} make grids of {too_much}; use adjacency 'face'")
    if given.numel() == 0:
        counts = given.new_zeros(len(given), dtype=torch.int64)
    else:
        lowest = int(given.min())
        # Those from 2^63 on have wrapped around.
        if lowest < -1 and is_uint64(labels):
            given, lowest = ranks(given), 0
        require(lowest >= -1, f"labels hold {lowest}; expected classes from 0 on, and -1 for cells outside")
        counts = _count_grids(given, adjacency, all_inside=lowest >= 0)
    return counts if isinstance(labels, torch.Tensor) else counts.numpy()


def _count_grids(labels, adjacency, all_inside):
    if labels.ndim == 2:
        return count_runs(labels)
    grid_shape = tuple(labels.shape[1:])
    flat = labels.flatten(1)
    if all_inside:
        return count_along_edges(flat, _grid_edges(grid_shape, adjacency, None))
    # A lattice of a simplex fills only about 1 / d! of its grid: drop the cells that no grid uses.
    used = (flat >= 0).any(0)
    edges = _grid_edges(grid_shape, adjacency, used.cpu().numpy().tobytes())
    return count_along_edges(flat[:, used], edges)


@functools.lru_cache(maxsize=16)
def _grid_edges(grid_shape, adjacency, used):
    """Neighbours among the cells of a grid, or among those that the bytes of a boolean mask name."""
    size = int(np.prod(grid_shape))
    cells = np.arange(size) if used is None else np.flatnonzero(np.frombuffer(used, dtype=bool))
    indices = np.stack(np.unravel_index(cells, grid_shape), axis=1)
    edges = neighbour_pairs(indices, grid_shape, adjacency)
    edges.setflags(write=False)  # shared by all calls
    return edges


def count_runs(labels):
    """Number of runs of equal label along each row of (B, P), -1 being outside; (B,) int64."""
    starts = labels >= 0
    starts[:, 1:] &= labels[:, 1:] != labels[:, :-1]
    return starts.sum(1)


def count_along_edges(labels, edges):
    """Components of each row of labels (B, P) int tensor, -1 outside, joined along edges (E, 2): (B,) int64.

    Compiled union-find where the labels are on a CPU and numba is installed, label propagation otherwise; the labels
    stay on their device either way.
    """
    labels = _as_int32(labels)
    kernel = _compiled_kernel() if labels.device.type == "cpu" else None
    if kernel is not None:
        return torch.from_numpy(kernel(labels.contiguous().numpy(), *_prepared(edges, labels.shape[1])))
    return count_by_propagation(labels, edges)


@functools.cache
def _compiled_kernel():
    try:
        importlib.import_module("numba")
    except ImportError:  # not there, or not for this version of NumPy
        return None
    return importlib.import_module("rc_utils.regions._union_find").count_by_union_find


def _prepared(edges, size):
    """`prepare` of the kernel, kept for as long as the array of edges lives, if nobody can write to that."""
    from rc_utils.regions._union_find import prepare

    if edges.flags.writeable:
        return prepare(edges, size)
    key = (id(edges), size)
    if key not in _PREPARED:
        _PREPARED[key] = prepare(edges, size)
        weakref.finalize(edges, _PREPARED.pop, key, None)
    return _PREPARED[key]


_PREPARED = {}


def _as_int32(labels):
    if labels.dtype != torch.int64 or labels.numel() == 0 or int(labels.max()) < 2**31:
        return labels.to(torch.int32)
    outside = labels < 0
    return ranks(labels.clamp(min=-1)).sub(int(outside.any())).to(torch.int32)


def ranks(labels):
    """Labels of any integers replaced by 0, 1, ... in their order."""
    return torch.unique(labels, return_inverse=True)[1]


def non_negative(labels):
    """Labels, some of them below 0, from 0 on: shifted, or by rank where their range is too wide for 64 bits."""
    lowest, highest = int(labels.min()), int(labels.max())
    return labels - lowest if highest - lowest < 2**63 else ranks(labels)


def count_by_propagation(labels, edges):
    """As `count_along_edges`, by label propagation with pointer jumping, on whatever device the labels are."""
    later, earlier = torch.from_numpy(edges.T.astype(np.int64)).to(labels.device)
    block = max(1, BLOCK_ELEMENTS // max(labels.shape[1], len(edges), 1))
    return torch.cat([_propagate(part, later, earlier) for part in labels.split(block)])


def _propagate(labels, later, earlier):
    batch, size = labels.shape
    at_later = labels[:, later]
    joined = (at_later == labels[:, earlier]) & (at_later >= 0)
    row, edge = joined.nonzero(as_tuple=True)
    u, v = row * size + later[edge], row * size + earlier[edge]
    nodes = torch.arange(batch * size, device=labels.device)
    parent = nodes.clone()
    while len(u):
        root_u, root_v = parent[u], parent[v]
        # Every root hooks onto its smallest neighbour: the number of roots at least halves in each round.
        parent.scatter_reduce_(0, torch.maximum(root_u, root_v), torch.minimum(root_u, root_v), "amin")
        parent = _flatten(parent)
        apart = parent[u] != parent[v]
        u, v = u[apart], v[apart]
    return ((parent == nodes).view(batch, size) & (labels >= 0)).sum(1)


def _flatten(parent):
    """Pointer jumping: every node points to its root."""
    while True:
        above = parent[parent]
        if torch.equal(above, parent):
            return parent
        parent = above
