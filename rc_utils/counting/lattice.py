"""Lattices of a simplex, their neighbours, and connected components of equal label."""

import itertools
import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from rc_utils.counting.sampling import as_tensor
from rc_utils.validation import check_count, check_name, require

Labels = TypeVar("Labels", np.ndarray, torch.Tensor)
ADJACENCIES = ("face", "full", "simplex")  # of labels
DEFAULT_RESOLUTION = {1: 200, 2: 30, 3: 16, 4: 12, 5: 10}  # 1 and 2: v1 Table 2
MAX_POINTS = 5_000_000
BLOCK = 1 << 22  # pairs of neighbours that are compared at once


@dataclass(frozen=True, eq=False)
class Lattice:
    """Points of a d-dimensional simplex and their neighbours, the same for every simplex.

    Attributes:
        dim, resolution, adjacency: as in `make_lattice`.
        coordinates: (P, d + 1) float64, rows sum to 1. A point is coordinates @ vertices.
        indices: (P, d) int64, position in a right-angled grid, of which a simplex fills one corner,
            in lexicographic order.
        edges: (E, 2) int32, each pair of neighbours once, the later point first.
    """

    dim: int
    resolution: int
    adjacency: str
    coordinates: np.ndarray
    indices: np.ndarray
    edges: np.ndarray

    def to_grid(self, labels):
        """Labels (B, P) as an array `(B, *grid)`, -1 where the grid has no point."""
        grid = np.full((len(labels), *[self.resolution] * self.dim), -1, dtype=labels.dtype)
        grid[(slice(None), *self.indices.T)] = labels
        return grid


def make_lattice(dim, resolution=None, *, alpha_range=(0.0, 1.0), adjacency=None):
    """The lattice of a simplex.

    The points with barycentric coordinates k_i / (resolution - 1), k_i >= 0 integers; in one
    dimension `resolution` equally spaced alpha in `alpha_range`, as (1 - alpha, alpha).

    Neighbours differ by: face - one step along one axis of the grid; full - at most one step along
    every axis; simplex - one unit moved from one coordinate to another. linear: as simplex, and
    scores are interpolated (`count_pieces`). None takes linear in 2..5 dimensions, simplex beyond.

    Raises ValueError for an argument outside these ranges and for more than five million points.
    """
    dim = check_count("dim", dim, 1)
    if resolution is None:
        resolution = DEFAULT_RESOLUTION.get(dim, 8)
    resolution = check_count("resolution", resolution, 2)
    if adjacency is None:
        adjacency = "face" if dim == 1 else "linear" if dim <= 5 else "simplex"
    check_name("adjacency", adjacency, (*ADJACENCIES, "linear"))
    fits = np.shape(alpha_range) == (2,) and alpha_range[0] != alpha_range[1]
    require(fits, f"alpha_range={alpha_range!r}; expected (low, high), two different numbers")
    low, high = alpha_range
    extended = dim > 1 and (low, high) != (0, 1)
    require(not extended, f"alpha_range={alpha_range!r} extends a segment and needs dim=1")
    steps = resolution - 1
    number = math.comb(steps + dim, dim)
    fault = f"dim={dim}: a lattice of {number:,} points is too large: lower the resolution"
    require(number <= MAX_POINTS, fault)
    fault = f"dim={dim}: adjacency 'linear' takes too much memory beyond seven dimensions"
    require(adjacency != "linear" or dim <= 7, f"{fault}, use 'simplex' or 'face'")
    # Of all ways to put `dim` bars among `steps` stars, the stars between one bar and the next.
    bars = itertools.chain.from_iterable(itertools.combinations(range(steps + dim), dim))
    indices = np.diff(np.fromiter(bars, np.int64).reshape(-1, dim), axis=1, prepend=-1) - 1
    if dim == 1:
        alpha = low + (high - low) * indices / steps
        coordinates = np.hstack([1 - alpha, alpha])
    else:
        coordinates = np.hstack([steps - indices.sum(1, keepdims=True), indices]) / steps
    edges = neighbour_pairs(indices, (resolution,) * dim, adjacency)
    return Lattice(dim, resolution, adjacency, coordinates, indices, edges)


def neighbour_pairs(indices, grid_shape, adjacency):
    """Neighbours (E, 2) int32 among grid positions (P, d) in lexicographic order, later first."""
    keys = np.ravel_multi_index(tuple(indices.T), grid_shape)
    axes = np.eye(len(grid_shape), dtype=np.int64)
    # Of the two opposite steps between neighbours, the one to the earlier point.
    offsets = list(-axes)
    if adjacency == "full":
        zero = (0,) * len(axes)
        offsets = [o for o in itertools.product((-1, 0, 1), repeat=len(axes)) if o < zero]
    elif adjacency != "face":
        # One unit moved between two axes; the steps along one axis move it to or from k_0.
        offsets += [other - axis for axis, other in itertools.combinations(axes, 2)]
    pairs = []
    for offset in offsets:
        moved = indices + np.array(offset)
        inside = np.flatnonzero(((moved >= 0) & (moved < grid_shape)).all(axis=1))
        moved_keys = np.ravel_multi_index(tuple(moved[inside].T), grid_shape)
        # A backward step from a later key has an earlier one: the search never passes the end.
        found = np.searchsorted(keys, moved_keys)
        present = keys[found] == moved_keys
        pairs.append(np.stack([inside[present], found[present]], axis=1))
    return np.concatenate(pairs).astype(np.int32)


def count_components(labels: Labels, adjacency: str = "face") -> Labels:
    """Number of connected components of equal label in each of B grids.

    Args:
        labels: integers `(B, *grid)` in any number of grid dimensions, below 0 for cells outside
            the domain; a NumPy array, or a torch tensor on any device.
        adjacency: which cells are neighbours: "face", "full" or "simplex", as in `make_lattice`.

    Returns (B,) int64, of the same kind and on the same device as `labels`. Raises ValueError for
    labels that are not integers.
    """
    check_name("adjacency", adjacency, ADJACENCIES)
    given = as_tensor(labels)
    found = f"labels are {given.dtype} of shape {tuple(given.shape)}"
    fits = given.ndim > 1 and not (given.is_floating_point() or given.is_complex())
    require(fits, f"{found}; expected integers (B, *grid), the argmax of scores")
    flat = given.cpu().flatten(1).numpy()
    # A lattice of a simplex fills only about 1 / d! of its grid: drop the cells that no grid uses.
    used = np.flatnonzero((flat >= 0).any(0))
    grid_shape = tuple(given.shape[1:])
    indices = np.stack(np.unravel_index(used, grid_shape), axis=1)
    counts = count_along_edges(flat[:, used], neighbour_pairs(indices, grid_shape, adjacency))
    return torch.from_numpy(counts).to(given.device) if isinstance(labels, torch.Tensor) else counts


def count_along_edges(labels, edges):
    """Components (B,) int64 of labels (B, P), -1 outside, joined along edges (E, 2)."""
    size = labels.shape[1]
    counts = [np.zeros(0, dtype=np.int64)]
    block = max(1, BLOCK // max(size, len(edges), 1))
    for start in range(0, len(labels), block):
        part = labels[start : start + block]
        ends = part[:, edges]
        row, edge = ((ends[..., 0] == ends[..., 1]) & (ends[..., 0] >= 0)).nonzero()
        links = size * row[:, None] + edges[edge]
        owners = np.repeat(np.arange(len(part)), size)
        counts.append(graph_components(links, owners, len(part)) - (part < 0).sum(1))
    return np.concatenate(counts)


def graph_components(links, owners, number):
    """Components (number,) of each owner's part of a graph, links (L, 2) among nodes (N,)."""
    size = len(owners)
    graph = coo_array((np.ones(len(links), dtype=bool), links.T), shape=(size, size))
    components, component = connected_components(graph, directed=False)
    owner = np.zeros(components, dtype=np.int64)
    owner[component] = owners
    return np.bincount(owner, minlength=number)
