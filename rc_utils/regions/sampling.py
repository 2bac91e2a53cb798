"""Vertices of the simplices at which a classifier is looked at."""

import math

import numpy as np
import torch

from rc_utils.checks import check_count, check_name, check_number, require
from rc_utils.regions.arrays import as_points, gather, precision_of

SAMPLINGS = ("pairs", "random_direction")
# Pairs of data points whose median distance is the default length of a random direction.
NUM_LENGTH_PAIRS = 200
# Vertices and labels that a region count holds at once.
BLOCK_BYTES = 1 << 24


def sample_vertices(points, *, dim=1, num_samples=100, sampling="pairs", seed=0, direction_length=None, device=None):
    """Draw the dim + 1 vertices of each of `num_samples` simplices.

    "pairs": distinct data points, uniformly (v1 Definition 4).
    "random_direction": v_0 = x_i and v_k = x_i + L u_k, where u_k is uniform on the unit sphere (v1 Table 8). The paper
    does not print the length L; None takes the median distance between data points (`median_distance`).

    The draw depends on `seed` and the points only, never on the model or the device, and the first n simplices are the
    same for every num_samples >= n.

    Args:
        points: data (N, *shape) with a length and integer-array indexing: NumPy array, torch tensor, image tensor.
            Only the points that are drawn are read.
        device: where the vertices go; None leaves them where the points are.

    Returns:
        Tensor (num_samples, dim + 1, *shape), float64 for points in double precision, else float32.

    Raises ValueError for fewer than dim + 1 points, for points that are not finite, and for bad settings.
    """
    points = as_points(points)
    dtype = precision_of(points)
    return torch.cat(list(vertex_blocks(points, num_samples, dim, sampling, seed, direction_length, device, dtype)))


def vertex_blocks(
    points,
    num_samples,
    dim=1,
    sampling="pairs",
    seed=0,
    direction_length=None,
    device=None,
    dtype=torch.float32,
    labels=0,
):
    """The vertices of `sample_vertices` in blocks of at most BLOCK_BYTES, one simplex at least.

    labels: numbers of four bytes that are kept for each simplex beside its vertices.
    """
    check_sampling(sampling, dim, num_samples, seed, direction_length)
    distinct = dim + 1 if sampling == "pairs" else 1
    index = vertex_indices(len(points), num_samples=num_samples, distinct=distinct, seed=seed)
    if sampling == "random_direction" and direction_length is None:
        direction_length = median_distance(points, seed)
    directions = _generator(seed, 1)
    simplex_bytes = dtype.itemsize * (dim + 1) * gather(points, index[:1, :1]).numel() + 4 * labels
    for part in np.array_split(index, min(num_samples, -(-num_samples * simplex_bytes // BLOCK_BYTES))):
        vertices = gather(points, part, device, dtype)
        yield vertices if sampling == "pairs" else _with_directions(vertices, dim, direction_length, directions)


def _with_directions(vertices, dim, length, rng):
    """First vertices (n, 1, *shape) -> (n, dim + 1, *shape), the others a step of `length` away in any direction."""
    shape = vertices.shape[2:]
    normal = rng.standard_normal((len(vertices), dim, math.prod(shape)))
    unit = normal / np.linalg.norm(normal, axis=2, keepdims=True)
    step = torch.from_numpy(length * unit).to(vertices.dtype).view(len(vertices), dim, *shape)
    return torch.cat([vertices, vertices + step.to(vertices.device)], dim=1)


def check_sampling(sampling, dim, num_samples, seed, direction_length):
    """Raise ValueError, naming the setting, unless all of them are valid."""
    check_name("sampling", sampling, SAMPLINGS)
    check_count("dim", dim, 1)
    check_count("num_samples", num_samples, 1)
    check_count("seed", seed, 0)
    if direction_length is not None:
        require(
            sampling == "random_direction",
            f"direction_length={direction_length!r} belongs to sampling 'random_direction', got sampling {sampling!r}",
        )
        check_number("direction_length", direction_length, 0, above=True)


def median_distance(points, seed=0):
    """Median Euclidean distance of 200 random pairs of distinct points, the default length of a random direction."""
    points = as_points(points)
    index = draw_distinct(_generator(seed, 2), len(points), NUM_LENGTH_PAIRS, 2)
    pairs = gather(points, index, dtype=torch.float64).flatten(2)
    length = float((pairs[:, 1] - pairs[:, 0]).norm(dim=1).median())
    require(length > 0, "the median distance of the points is 0: most of them are the same; give direction_length")
    return length


def vertex_indices(num_points, *, num_samples, distinct, seed):
    """Indices (num_samples, distinct) of the data points that span the simplices drawn with `seed`."""
    return draw_distinct(_generator(seed, 0), num_points, num_samples, distinct)


def draw_distinct(rng, num_points, num_samples, distinct):
    """Indices (num_samples, distinct), uniform without repetition within a row, row by row from the generator."""
    require(
        num_points >= distinct,
        f"{distinct} distinct points are needed for each simplex, but there are {num_points}; "
        "give more points or a smaller dim",
    )
    uniform = rng.random((num_samples, distinct))
    index = np.zeros((num_samples, 0), dtype=np.int64)
    for k in range(distinct):
        left = num_points - k
        rank = np.minimum((uniform[:, k] * left).astype(np.int64), left - 1)
        # The rank counts the points not yet drawn: step over those drawn, in increasing order.
        for taken in np.sort(index, axis=1).T:
            rank += rank >= taken
        index = np.column_stack([index, rank])
    return index


def _generator(seed, stream):
    return np.random.default_rng([int(seed), stream])
