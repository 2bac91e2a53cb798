"""Lattices: the points at which a simplex or a plane is looked at, and which of them are neighbours."""

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np

from rc_utils.checks import check_count, check_name, is_finite_number, require

ADJACENCIES = ("face", "full", "simplex")  # of labels
DOMAINS = ("simplex", "box")
DEFAULT_RESOLUTION = {1: 200, 2: 30, 3: 16, 4: 12, 5: 10}
MAX_POINTS = 5_000_000
MAX_PAIRS = 100_000_000  # of neighbours


@dataclass(frozen=True, eq=False)
class Lattice:
    """Points of a d-dimensional domain and the pairs of them that are neighbours; the same for every simplex.

    Attributes:
        dim: d.
        resolution: points along an edge, ends included.
        domain: "simplex" or "box".
        adjacency: "face", "full", "simplex" or "linear".
        coordinates: (P, d + 1) float64, rows sum to 1. A point is coordinates @ corners, where the corners are
            the vertices of the simplex or, for the box, three corners of the rectangle (`box_corners`).
        indices: (P, d) int64, position of each point in a right-angled grid, in lexicographic order.
        grid_shape: the shape of that grid; a simplex fills one corner of it.
        edges: (E, 2) int32, each pair of neighbours once, the later point first.
    """

    dim: int
    resolution: int
    domain: str
    adjacency: str
    coordinates: np.ndarray
    indices: np.ndarray
    grid_shape: tuple[int, ...]
    edges: np.ndarray

    @property
    def num_points(self):
        """P, the number of points."""
        return len(self.coordinates)

    def to_grid(self, labels):
        """Labels (B, P) as an array (B, *grid_shape), -1 where the grid has no point of the domain."""
        grid = np.full((len(labels), *self.grid_shape), -1, dtype=labels.dtype)
        grid[(slice(None), *self.indices.T)] = labels
        return grid


def default_resolution(dim, domain="simplex"):
    """Points per edge when none are given: v1 Table 2 for d = 1 and 2, Somepalli et al. (2022) for the box."""
    return 50 if domain == "box" else DEFAULT_RESOLUTION.get(dim, 8)


def make_lattice(dim, resolution=None, *, alpha_range=(0.0, 1.0), domain="simplex", adjacency=None):
    """The lattice of a domain; the same arguments give the same (read-only) object.

    simplex: the points with barycentric coordinates k_i / (resolution - 1), k_i >= 0 integers, so that
    P = C(resolution - 1 + d, d). In one dimension `resolution` equally spaced alpha in `alpha_range`, with
    coordinates (1 - alpha, alpha).
    box: resolution x resolution points of a rectangle, as coordinates (1 - p - q, p, q), p and q in [0, 1].

    Neighbours differ by: face - one step along one axis of the grid; full - at most one step along every axis;
    simplex - one unit moved from one coordinate to another. linear: the elements of `lattice_elements` are counted on,
    the neighbours are those of simplex. None takes linear in 2..5 dimensions, beyond which elements are too many, and
    simplex there.

    `resolution` None takes 200, 30, 16, 12, 10 for d = 1..5 and 8 beyond, 50 for the box.

    Raises ValueError for an argument outside these ranges.
    """
    check_count("dim", dim, 1)
    if resolution is None:
        resolution = default_resolution(dim, domain)
    check_count("resolution", resolution, 2)
    if isinstance(alpha_range, list):
        alpha_range = tuple(alpha_range)
    if adjacency is None:
        adjacency = "face" if dim == 1 else "linear" if dim <= 5 else "simplex"
    _check_lattice(dim, resolution, alpha_range, domain, adjacency)
    return _build_lattice(int(dim), int(resolution), alpha_range, domain, adjacency)


@functools.lru_cache(maxsize=32)
def _build_lattice(dim, resolution, alpha_range, domain, adjacency):
    if domain == "box":
        indices = np.stack(np.indices((resolution, resolution)), axis=-1).reshape(-1, 2)
    else:
        indices = _simplex_indices(dim, resolution)
    steps = resolution - 1
    if dim == 1:
        low, high = alpha_range
        alpha = low + (high - low) * indices / steps
        coordinates = np.hstack([1 - alpha, alpha])
    else:
        coordinates = np.hstack([steps - indices.sum(1, keepdims=True), indices]) / steps
    grid_shape = (resolution,) * dim
    edges = neighbour_pairs(indices, grid_shape, adjacency)
    for array in (coordinates, indices, edges):
        array.setflags(write=False)  # shared by all calls
    return Lattice(dim, resolution, domain, adjacency, coordinates, indices, grid_shape, edges)


def _check_lattice(dim, resolution, alpha_range, domain, adjacency):
    """Raise ValueError, naming the setting, unless there is such a lattice."""
    check_name("adjacency", adjacency, (*ADJACENCIES, "linear"))
    check_name("domain", domain, DOMAINS)
    require(domain == "simplex" or dim == 2, f"domain 'box' is a plane and needs dim=2, got dim={dim}")
    pair = isinstance(alpha_range, tuple) and len(alpha_range) == 2
    require(
        pair and all(is_finite_number(a) for a in alpha_range) and alpha_range[0] < alpha_range[1],
        f"alpha_range={alpha_range!r}; expected two finite numbers (low, high) with low < high",
    )
    require(
        dim == 1 or alpha_range == (0.0, 1.0),
        f"alpha_range={alpha_range!r} extends a segment and needs dim=1, got dim={dim}; leave it at (0, 1)",
    )
    too_much = excess(dim, resolution, domain, adjacency)
    require(
        not too_much,
        f"resolution={resolution} in dimension {dim} makes a lattice of {too_much}; lower "
        f"{'the resolution' if resolution > 2 else 'the dimension'}",
    )


def excess(dim, resolution, domain, adjacency):
    """What a lattice would have too much of to be made, in words; "" where it can be made."""
    if dim * math.log2(resolution) >= 63:
        return f"{resolution}^{dim} positions, more than 64 bits can number"
    points = resolution**2 if domain == "box" else math.comb(resolution - 1 + dim, dim)
    if points > MAX_POINTS:
        return f"more than {MAX_POINTS:,} points"
    if adjacency == "linear" and dim * (resolution - 1) ** dim > MAX_PAIRS:
        return f"{(resolution - 1) ** dim:,} elements"
    return excess_of_pairs(points, dim, adjacency)


def excess_of_pairs(points, dim, adjacency):
    """As `excess`, of the neighbours of so many points of a grid."""
    steps = {"face": dim, "full": (3**dim - 1) // 2}.get(adjacency, dim * (dim + 1) // 2)
    too_many = max(points, 100) * steps > MAX_PAIRS  # a step is a pass over all points, few or many
    return f"{points:,} points with {2 * steps:,} neighbours each" if too_many else ""


def _simplex_indices(dim, resolution):
    """(P, dim) integers >= 0 with sum <= resolution - 1, in lexicographic order."""
    indices = np.zeros((1, 0), dtype=np.int64)
    left = np.array([resolution - 1])
    for _ in range(dim):
        repeats = left + 1
        starts = np.repeat(np.cumsum(repeats) - repeats, repeats)
        step = np.arange(repeats.sum()) - starts
        indices = np.column_stack([np.repeat(indices, repeats, axis=0), step])
        left = np.repeat(left, repeats) - step
    return indices


def neighbour_pairs(indices, grid_shape, adjacency):
    """Pairs of neighbours (E, 2) int32 among grid positions (P, d) in lexicographic order, the later one first."""
    keys = np.ravel_multi_index(tuple(indices.T), grid_shape)
    later, earlier = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for offset in _backward_offsets(adjacency, len(grid_shape)):
        moved = indices + offset
        inside = np.flatnonzero(((moved >= 0) & (moved < grid_shape)).all(axis=1))
        moved_keys = np.ravel_multi_index(tuple(moved[inside].T), grid_shape)
        # A backward step from a later key always has an earlier one, so the search never passes the end.
        found = np.searchsorted(keys, moved_keys)
        present = keys[found] == moved_keys
        later.append(inside[present])
        earlier.append(found[present])
    later, earlier = np.concatenate(later), np.concatenate(earlier)
    order = np.lexsort((earlier, later))
    return np.stack([later[order], earlier[order]], axis=1).astype(np.int32)


def _backward_offsets(adjacency, dim):
    """The steps to lexicographically earlier neighbours, arrays of dim integers."""
    if adjacency == "full":
        return [np.array(o) for o in itertools.product((-1, 0, 1), repeat=dim) if o < (0,) * dim]
    axes = np.eye(dim, dtype=np.int64)
    # One unit from k_i to k_0; between two axes, k_0 stays as it is.
    to_first = [-axis for axis in axes]
    if adjacency == "face":
        return to_first
    return to_first + [axes[j] - axes[i] for i, j in itertools.combinations(range(dim), 2)]
