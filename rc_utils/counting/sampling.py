"""Data points as they come, and the vertices of simplices that are drawn from them."""

import numpy as np
import pandas as pd
import torch

from rc_utils.checks import check_count, check_name, check_number, require

NOISE = 0.1  # standard deviation of each number of the authors' random directions
NUM_LENGTH_PAIRS = 200  # of which the median distance is the default length of a direction
BLOCK_BYTES = 1 << 24  # vertices and labels that a region count holds at once


def sample_vertices(
    points, *, dim=1, num_samples=100, sampling="pairs", seed=0, direction_length=None
):
    """Draw the dim + 1 vertices of each of `num_samples` simplices.

    "pairs": distinct data points, uniformly (v1 Definition 4).
    "random_direction": v_0 = x_i and v_k = x_i + L u_k, u_k uniform on the unit sphere (v1 Table
    8). The paper does not print L; None takes the median distance between data points.
    "noise": v_k = x_i + L z_k with z_k standard normal, L = 0.1 by default: the random directions
    of the authors' code (`AUTHORS`), of length 5.5 or so on standardised 32 x 32 images.

    The draw depends on `seed` and the points `(N, *shape)` only, never on the model or the device,
    and the first n simplices are the same for every num_samples >= n. Only points drawn are read.

    Returns a tensor `(num_samples, dim + 1, *shape)` where the points are, float64 for points in
    double precision, else float32. Raises ValueError for too few or not finite points and for bad
    settings.
    """
    points = as_points(points)
    length = checked_length(points, dim, num_samples, sampling, seed, direction_length)
    draw = (int(dim), int(num_samples), sampling, seed, length, None, precision_of(points))
    return torch.cat(list(vertex_blocks(points, *draw)))


def vertex_blocks(points, dim, num_samples, sampling, seed, length, device, dtype, labels=0):
    """The vertices of `sample_vertices` in blocks, of BLOCK_BYTES with `labels` labels for each."""
    distinct = dim + 1 if sampling == "pairs" else 1
    index = vertex_indices(len(points), num_samples=num_samples, distinct=distinct, seed=seed)
    directions = np.random.default_rng([int(seed), 1])
    numbers = gather(points, index[:1, :1], dtype=dtype).numel()
    simplex_bytes = dtype.itemsize * (dim + 1) * numbers + 4 * labels
    blocks = min(num_samples, -(-num_samples * simplex_bytes // BLOCK_BYTES))
    for part in np.array_split(index, blocks):
        vertices = gather(points, part, device, dtype)
        if sampling != "pairs":
            step = directions.standard_normal((len(part), dim, numbers))
            if sampling == "random_direction":
                step /= np.linalg.norm(step, axis=2, keepdims=True)
            step = torch.from_numpy(length * step).view(len(part), dim, *vertices.shape[2:])
            vertices = torch.cat([vertices, vertices + step.to(vertices)], dim=1)
        yield vertices


def checked_length(points, dim, num_samples, sampling, seed, direction_length):
    """The length L of `sample_vertices`, None for pairs; ValueError for an invalid setting."""
    check_name("sampling", sampling, ("pairs", "random_direction", "noise"))
    check_count("dim", dim, 1)
    check_count("num_samples", num_samples, 1)
    check_count("seed", seed, 0)
    if direction_length is not None:
        belongs = "belongs to sampling 'random_direction' or 'noise'"
        require(sampling != "pairs", f"direction_length={direction_length!r} {belongs}")
        check_number("direction_length", direction_length, 0, above=True)
    if sampling == "pairs" or direction_length is not None:
        return direction_length
    return NOISE if sampling == "noise" else median_distance(points, seed)


def median_distance(points, seed=0):
    """Median Euclidean distance of 200 random pairs of distinct points."""
    points = as_points(points)
    index = draw_distinct(np.random.default_rng([int(seed), 2]), len(points), NUM_LENGTH_PAIRS, 2)
    pairs = gather(points, index, dtype=torch.float64).flatten(2)
    length = float((pairs[:, 1] - pairs[:, 0]).norm(dim=1).median())
    require(length > 0, "the median distance of the points is 0: give direction_length")
    return length


def vertex_indices(num_points, *, num_samples, distinct, seed):
    """Indices (num_samples, distinct) of the data points that span the simplices of `seed`."""
    return draw_distinct(np.random.default_rng([int(seed), 0]), num_points, num_samples, distinct)


def draw_distinct(rng, num_points, num_samples, distinct):
    """Indices (num_samples, distinct), uniform, without repetition within a row, row by row."""
    few = f"{distinct} distinct points are needed for each simplex, but there are {num_points}"
    require(num_points >= distinct, f"{few}; give more points or a smaller dim")
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


def as_points(points):
    """Data frames and lists as arrays, all else as it is; ValueError for no array (N, *shape)."""
    if isinstance(points, pd.DataFrame):
        others = list(points.select_dtypes(exclude=["number", "bool", "boolean"]))
        require(not others, f"points have columns that are no numbers, {others}: leave them out")
        numbers = points.to_numpy()
        # As booleans beside numbers come, and columns that may miss a value.
        is_mixed = numbers.dtype == object
        points = points.to_numpy(np.float64, na_value=np.nan) if is_mixed else numbers
    elif isinstance(points, list | tuple):
        tensor = as_tensor(points)
        points = tensor if points and isinstance(points[0], torch.Tensor) else tensor.numpy()
    # Sparse matrices and datasets make no array.
    is_array = hasattr(points, "__array__") and len(points.shape) > 1
    expected = "a dense array or tensor (N, *shape), such as torch.stack([x for x, *_ in dataset])"
    require(not np.ma.is_masked(points), "points have masked entries: leave these out")
    shape = f" of shape {tuple(points.shape)}" if hasattr(points, "shape") else ""
    require(is_array, f"points are a {type(points).__name__}{shape}; expected {expected}")
    return points


def as_tensor(values):
    """A tensor of an array, a tensor or a list of numbers or of tensors."""
    if isinstance(values, list | tuple) and values and isinstance(values[0], torch.Tensor):
        return torch.stack(list(values))
    if isinstance(values, torch.Tensor):
        return values
    # torch takes no read-only memory and no negative stride.
    return torch.from_numpy(np.require(values, requirements=["C", "W", "E"]))


def precision_of(points):
    """float64 for points in double precision or integers beyond float32's, else float32."""
    name = str(getattr(points, "dtype", "")).removeprefix("torch.")
    wide = name in ("float64", "int64", "uint64", "int32", "uint32")
    return torch.float64 if wide else torch.float32


def gather(points, index, device=None, dtype=torch.float32):
    """points[index] as a tensor (*index.shape, *shape); ValueError if a value is not finite."""
    flat = index.ravel()
    is_tensor = isinstance(points, torch.Tensor)
    taken = points[torch.from_numpy(flat).to(points.device) if is_tensor else flat]
    taken = as_tensor(taken).to(device=device, dtype=dtype)
    bad = (~torch.isfinite(taken).flatten(1).all(1)).nonzero()
    if len(bad):
        name = f"points[{flat[int(bad[0])]}]"
        raise ValueError(f"{name} holds NaN or infinity (or passes {dtype}); remove it")
    return taken.view(*index.shape, *taken.shape[1:])
