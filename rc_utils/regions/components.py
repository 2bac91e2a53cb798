"""Counting connected components of equal label, by union-find where numba is installed, else by scipy."""

import functools
import importlib
from typing import TypeVar

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from rc_utils.checks import check_name, require
from rc_utils.regions.arrays import as_tensor
from rc_utils.regions.lattice import ADJACENCIES, excess_of_pairs, neighbour_pairs

Labels = TypeVar("Labels", np.ndarray, torch.Tensor)

# Elements of the largest temporary array of what scipy counts at once.
BLOCK_ELEMENTS = 1 << 22


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
    check_name("adjacency", adjacency, ADJACENCIES)
    given = as_tensor(labels)
    require(given.ndim >= 2, f"labels have shape {tuple(given.shape)}; expected (B, *grid)")
    require(
        not (given.is_floating_point() or given.is_complex()),
        f"labels are {given.dtype}; expected integers (argmax of the scores)",
    )
    points, dim = given[0:1].numel(), given.ndim - 1
    too_much = excess_of_pairs(points, dim, adjacency)
    require(not too_much, f"labels of shape {tuple(given.shape)} make grids of {too_much}; use adjacency 'face'")
    flat = given.cpu().flatten(1).numpy()
    lowest = flat.min(initial=0)
    require(lowest >= -1, f"labels hold {lowest}; expected classes from 0 on, and -1 for cells outside")
    # A lattice of a simplex fills only about 1 / d! of its grid: drop the cells that no grid uses.
    used = (flat >= 0).any(0)
    edges = _grid_edges(tuple(given.shape[1:]), adjacency, used.tobytes())
    counts = count_along_edges(flat if used.all() else flat[:, used], edges)
    return torch.from_numpy(counts).to(given.device) if isinstance(labels, torch.Tensor) else counts


@functools.lru_cache(maxsize=16)
def _grid_edges(grid_shape, adjacency, used):
    """Neighbours among the cells of a grid that the bytes of a boolean mask name."""
    cells = np.flatnonzero(np.frombuffer(used, dtype=bool))
    indices = np.stack(np.unravel_index(cells, grid_shape), axis=1)
    edges = neighbour_pairs(indices, grid_shape, adjacency)
    edges.setflags(write=False)  # shared by all calls
    return edges


def count_along_edges(labels, edges):
    """Components (B,) int64 of each row of integer labels (B, P), -1 outside, joined along edges (E, 2).

    By compiled union-find where numba is installed.
    """
    count = _compiled_kernel() or count_by_graph
    return count(np.ascontiguousarray(labels, dtype=np.int64), edges)


@functools.cache
def _compiled_kernel():
    try:
        return importlib.import_module("rc_utils.regions._union_find").count_by_union_find
    except ImportError:  # numba is not there, or not for this version of NumPy
        return None


def non_negative(labels):
    """Labels from 0 on: where some are below it, their ranks."""
    return labels if labels.min() >= 0 else np.unique(labels, return_inverse=True)[1].reshape(labels.shape)


def count_by_graph(labels, edges):
    """As `count_along_edges`, by scipy."""
    later, earlier = edges.T.astype(np.int64)
    size = labels.shape[1]
    counts = []
    block = max(1, BLOCK_ELEMENTS // max(size, len(edges), 1))
    for part in np.split(labels, range(block, len(labels), block)):
        joined = (part[:, later] == part[:, earlier]) & (part[:, later] >= 0)
        row, edge = joined.nonzero()
        links = np.stack([row * size + later[edge], row * size + earlier[edge]], axis=1)
        nodes = graph_components(links, np.repeat(np.arange(len(part)), size), len(part))
        counts.append(nodes - (part < 0).sum(1))
    return np.concatenate(counts)


def graph_components(links, owners, number):
    """Components (number,) of each owner's part of a graph with links (L, 2) among nodes with `owners`."""
    size = len(owners)
    graph = coo_array((np.ones(len(links), dtype=bool), links.T), shape=(size, size))
    component = connected_components(graph, directed=False)[1]
    first = np.unique(component, return_index=True)[1]
    return np.bincount(owners[first], minlength=number)
