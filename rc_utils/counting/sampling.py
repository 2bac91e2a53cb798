"""Data points as they come, and the vertices of simplices that are drawn from them."""

import math

import numpy as np
import torch

from rc_utils.checks import check_count, check_name, check_number, require

SAMPLINGS = ("pairs", "random_direction", "noise")
# Standard deviation of each number of the authors' random directions.
NOISE = 0.1
# Pairs of data points whose median distance is the default length of a random direction.
NUM_LENGTH_PAIRS = 200
# Vertices and labels that a region count holds at once.
BLOCK_BYTES = 1 << 24


def sample_vertices(
    points, *, dim=1, num_samples=100, sampling="pairs", seed=0, direction_length=None, device=None
):
    """Draw the dim + 1 vertices of each of `num_samples` simplices.

    "pairs": distinct data points, uniformly (v1 Definition 4).
    "random_direction": v_0 = x_i and v_k = x_i + L u_k, u_k uniform on the unit sphere (v1 Table
    8). The paper does not print L; None takes the median distance between data points.
    "noise": v_k = x_i + L z_k with z_k standard normal, L = 0.1 by default: the random directions
    of the authors' code (`AUTHORS`), of length 5.5 or so on standardised 32 x 32 images.

    The draw depends on `seed` and the points only, never on the model or the device, and the first
    n simplices are the same for every num_samples >= n.

    points: (N, *shape) with a length and integer-array indexing; only those drawn are read.
    device: where the vertices go; None leaves them where the points are.

    Returns a tensor (num_samples, dim + 1, *shape), float64 for points in double precision, else
    float32. Raises ValueError for fewer than dim + 1 points, points that are not finite, and bad
    settings.
    """
    points = as_points(points)
    draw = (dim, num_samples, sampling, seed, direction_length)
    return torch.cat(list(vertex_blocks(points, *draw, device, precision_of(points))))


def vertex_blocks(
    points, dim, num_samples, sampling, seed, direction_length, device, dtype, labels=0
):
    """The vertices of `sample_vertices` in blocks of at most BLOCK_BYTES, one simplex at least.

    labels: numbers of four bytes that are kept for each simplex beside its vertices.
    """
    check_sampling(sampling, dim, num_samples, seed, direction_length)
    distinct = dim + 1 if sampling == "pairs" else 1
    index = vertex_indices(len(points), num_samples=num_samples, distinct=distinct, seed=seed)
    length, directions = length_of(points, sampling, direction_length, seed), _generator(seed, 1)
    numbers = (dim + 1) * gather(points, index[:1, :1]).numel()
    simplex_bytes = dtype.itemsize * numbers + 4 * labels
    blocks = min(num_samples, -(-num_samples * simplex_bytes // BLOCK_BYTES))
    for part in np.array_split(index, blocks):
        vertices = gather(points, part, device, dtype)
        if sampling != "pairs":
            shape = vertices.shape[2:]
            step = directions.standard_normal((len(part), dim, math.prod(shape)))
            if sampling == "random_direction":
                step /= np.linalg.norm(step, axis=2, keepdims=True)
            step = torch.from_numpy(length * step).to(dtype).view(len(part), dim, *shape)
            vertices = torch.cat([vertices, vertices + step.to(vertices.device)], dim=1)
        yield vertices


def length_of(points, sampling, direction_length, seed):
    """The length L of `sample_vertices`, its default filled in; None for pairs."""
    if sampling == "pairs" or direction_length is not None:
        return direction_length
    return NOISE if sampling == "noise" else median_distance(points, seed)


def check_sampling(sampling, dim, num_samples, seed, direction_length):
    """Raise ValueError, naming the setting, unless all of them are valid."""
    check_name("sampling", sampling, SAMPLINGS)
    check_count("dim", dim, 1)
    check_count("num_samples", num_samples, 1)
    check_count("seed", seed, 0)
    if direction_length is not None:
        require(
            sampling != "pairs",
            f"direction_length={direction_length!r} belongs to sampling 'random_direction' or "
            f"'noise', got sampling {sampling!r}",
        )
        check_number("direction_length", direction_length, 0, above=True)


def median_distance(points, seed=0):
    """Median Euclidean distance of 200 random pairs of distinct points."""
    points = as_points(points)
    index = draw_distinct(_generator(seed, 2), len(points), NUM_LENGTH_PAIRS, 2)
    pairs = gather(points, index, dtype=torch.float64).flatten(2)
    length = float((pairs[:, 1] - pairs[:, 0]).norm(dim=1).median())
    advice = "most of them are the same; give direction_length"
    require(length > 0, f"the median distance of the points is 0: {advice}")
    return length


def vertex_indices(num_points, *, num_samples, distinct, seed):
    """Indices (num_samples, distinct) of the data points that span the simplices of `seed`."""
    return draw_distinct(_generator(seed, 0), num_points, num_samples, distinct)


def draw_distinct(rng, num_points, num_samples, distinct):
    """Indices (num_samples, distinct), uniform, without repetition within a row, row by row."""
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


def as_points(points):
    """Data frames and lists as arrays; everything else as it is.

    Raises ValueError for what is no dense array of real numbers (N, *shape).
    """
    if hasattr(points, "to_numpy"):
        points = points.to_numpy()
    elif isinstance(points, list | tuple):
        points = array_of("points", points)
    indexed = hasattr(points, "__getitem__") and hasattr(points, "__len__")
    require(
        indexed
        and not isinstance(points, str | bytes | dict | torch.utils.data.Dataset)
        and getattr(points, "ndim", 1) > 0,
        f"points are {type(points).__name__}; expected an array or tensor (N, *shape), as "
        "torch.stack([x for x, *_ in dataset]) makes of a dataset",
    )
    check_numbers("points", points)
    return points


def array_of(name, values):
    """An array of (nested) lists; ValueError, naming the argument, where their lengths differ."""
    try:
        if values and all(isinstance(value, torch.Tensor) for value in values):
            return torch.stack(list(values))
        return np.asarray(values)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"{name} make no array: {error}") from error


def as_tensor(array):
    """A tensor of an array or tensor, sharing its memory where torch can, unsigned made signed.

    Raises ValueError for integers of 2^63 or more.
    """
    if isinstance(array, torch.Tensor):
        wide = array.dtype in (torch.uint16, torch.uint32, torch.uint64)
        signed = array.to(torch.int64) if wide else array
    else:
        array = np.asarray(array)
        wide = array.dtype.kind == "u"
        kind = np.int64 if wide else array.dtype.newbyteorder("=")
        if array.dtype.kind == "f" and array.dtype.itemsize > 8:
            kind = np.float64
        # torch takes neither read-only memory nor negative strides.
        signed = np.require(array.astype(kind, copy=False), requirements=["C", "W"])
        signed = torch.from_numpy(signed.copy() if min(signed.strides, default=0) < 0 else signed)
    fits = not wide or bool((signed >= 0).all())
    require(fits, "there are integers of 2^63 or more; expected such as 64 bits hold signed")
    return signed


def check_numbers(name, array):
    """Raise ValueError for an array or tensor that is sparse, masked or not of real numbers."""
    kind, tensor = type(array), isinstance(array, torch.Tensor)
    sparse = array.layout != torch.strided if tensor else kind.__module__.startswith("scipy.sparse")
    dense = "to_dense()" if tensor else "toarray()"
    require(
        not sparse,
        f"{name} are a sparse {kind.__name__}; expected a dense array, as its {dense} gives it",
    )
    masked = isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array)
    require(not masked, f"{name} hold masked entries; fill them with numbers, or leave them out")
    real = not isinstance(array, np.ndarray) or array.dtype.kind in "fiub"
    if tensor:
        require(not array.is_meta, f"{name} are on the meta device and hold no numbers")
        real = not (array.is_complex() or array.is_quantized or array.is_nested)
    dtype = getattr(array, "dtype", kind)
    require(real, f"{name} are of type {dtype}; expected real numbers alone")


def precision_of(points):
    """float64 for points in double precision or integers beyond float32's, else float32."""
    name = str(getattr(points, "dtype", "")).removeprefix("torch.")
    wide = name in ("float64", "int64", "uint64", "int32", "uint32")
    return torch.float64 if wide else torch.float32


def gather(points, index, device=None, dtype=torch.float32):
    """points[index] as a tensor (*index.shape, *shape); ValueError if a value is not finite."""
    flat = np.ascontiguousarray(index.reshape(-1))
    if isinstance(points, torch.Tensor):
        flat = torch.from_numpy(flat).to(points.device)
    taken = points[flat]
    require(
        isinstance(taken, np.ndarray | torch.Tensor) or hasattr(taken, "toarray"),
        f"points are {type(points).__name__}, of which an array of integers takes a "
        f"{type(taken).__name__}; expected an array or tensor (N, *shape)",
    )
    check_numbers("points", taken)
    taken = as_tensor(taken).to(device=device, dtype=dtype)
    shape = tuple(taken.shape[1:])
    require(shape, "points are one-dimensional; expected (N, *shape), so (N, 1) for one feature")
    require(0 not in shape, f"points of shape {shape} hold no number; expected at least one")
    finite = torch.isfinite(taken).flatten(1).all(1)
    if not bool(finite.all()):
        first = int(index.reshape(-1)[int((~finite).nonzero()[0, 0])])
        message = f"holds NaN or infinity (or passes {dtype}); remove it from the points"
        raise ValueError(f"points[{first}] {message}")
    return taken.view(*index.shape, *shape)
