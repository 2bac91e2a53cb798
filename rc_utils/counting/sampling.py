"""Data points as they come, and the vertices of simplices that are drawn from them."""

import numpy as np
import pandas as pd
import torch

from rc_utils.validation import check_count, check_name, check_number, require

NOISE = 0.5  # standard deviation of each number of the authors' random directions
NUM_LENGTH_PAIRS = 200  # of which the median distance is the default length of a direction
BLOCK_BYTES = 1 << 24  # vertices and labels that a region count holds at once


def sample_vertices(
    points, *, dim=1, num_samples=100, sampling="pairs", seed=0, direction_length=None
):
    """Draw the dim + 1 vertices of each of `num_samples` simplices.

    "pairs": distinct data points, uniformly (v1 Definition 4).
    "random_direction": v_0 = x_i and v_k = x_i + L u_k, u_k uniform on the unit sphere (v1 Table
    8). The paper does not print L; None takes the median distance between data points.
    "noise": v_k = x_i + L z_k with z_k standard normal, L = 0.5 by default: the random directions
    of the authors' records (`AUTHORS`), of length 28 or so on standardised 32 x 32 images.

    The draw depends on `seed` and the points `(N, *shape)` only, never on the model or the device,
    and the first n simplices are the same for every num_samples >= n. Only points drawn are read.

    Returns a tensor `(num_samples, dim + 1, *shape)` where the points are, float64 for points in
    double precision, else float32. Raises ValueError for too few or not finite points and for bad
    settings.
    """
    draw = Draw(points, dim, num_samples, sampling, seed, direction_length)
    return torch.cat(list(draw.blocks(dtype=precision_of(draw.points))))


class Draw:
    """The arguments of `sample_vertices`, checked, with defaults; `blocks` draws by them."""

    def __init__(self, points, dim, num_samples, sampling, seed, direction_length):
        check_name("sampling", sampling, ("pairs", "random_direction", "noise"))
        self.points, self.sampling = as_points(points), sampling
        self.dim = check_count("dim", dim, 1)
        self.num_samples = check_count("num_samples", num_samples, 1)
        self.seed = check_count("seed", seed, 0)
        if direction_length is not None:
            belongs = "belongs to sampling 'random_direction' or 'noise'"
            require(sampling != "pairs", f"direction_length={direction_length!r} {belongs}")
            check_number("direction_length", direction_length, 0, above=True)
        elif sampling == "noise":
            direction_length = NOISE
        elif sampling == "random_direction":
            direction_length = median_distance(self.points, self.seed)
        self.direction_length = direction_length

    def blocks(self, device=None, dtype=torch.float32, num_labels=0):
        """Yield vertices (n, dim + 1, *shape), as fit BLOCK_BYTES with `num_labels` labels each."""
        n, dim = self.num_samples, self.dim
        distinct = dim + 1 if self.sampling == "pairs" else 1
        index = vertex_indices(len(self.points), num_samples=n, distinct=distinct, seed=self.seed)
        directions = np.random.default_rng([self.seed, 1])
        point_size = int(np.prod(self.points.shape[1:]))
        simplex_bytes = dtype.itemsize * (dim + 1) * point_size + 4 * num_labels
        for part in np.array_split(index, min(n, -(-n * simplex_bytes // BLOCK_BYTES))):
            vertices = gather(self.points, part, device, dtype)
            if self.sampling != "pairs":
                step = directions.standard_normal((len(part), dim, point_size))
                if self.sampling == "random_direction":
                    step /= np.linalg.norm(step, axis=2, keepdims=True)
                step = torch.from_numpy(self.direction_length * step).to(vertices)
                step = step.view(len(part), dim, *vertices.shape[2:])
                vertices = torch.cat([vertices, vertices + step], dim=1)
                fault = f"direction_length={self.direction_length} leads beyond {dtype}: lower it"
                require(vertices.isfinite().all(), fault)
            yield vertices


def median_distance(points, seed=0):
    """Median Euclidean distance of 200 random pairs of distinct points."""
    points = as_points(points)
    rng = np.random.default_rng([check_count("seed", seed, 0), 2])
    index = draw_distinct(rng, len(points), NUM_LENGTH_PAIRS, 2)
    pairs = gather(points, index, dtype=torch.float64).flatten(2)
    length = float((pairs[:, 1] - pairs[:, 0]).norm(dim=1).median())
    require(length > 0, "the median distance of the points is 0: give direction_length")
    return length


def vertex_indices(num_points, *, num_samples, distinct, seed):
    """Indices (num_samples, distinct) of the data points that span the simplices of `seed`."""
    rng = np.random.default_rng([check_count("seed", seed, 0), 0])
    return draw_distinct(rng, num_points, num_samples, distinct)


def draw_distinct(rng, num_points, num_samples, distinct):
    """Indices (num_samples, distinct), uniform, without repetition within a row, row by row."""
    few = f"{distinct} distinct points are needed for each simplex, but there are {num_points}"
    require(num_points >= distinct, f"{few}; give more points or a smaller dim")
    uniform = rng.random((num_samples, distinct))
    index = np.zeros((num_samples, 0), dtype=np.int64)
    for k in range(distinct):
        rank = (uniform[:, k] * (num_points - k)).astype(np.int64)
        # The rank counts the points not yet drawn: step over those drawn, in increasing order.
        for taken in np.sort(index, axis=1).T:
            rank += rank >= taken
        index = np.column_stack([index, rank])
    return index


def as_points(points):
    """The points, of a data frame as an array; ValueError unless they are dense, (N, *shape)."""
    if isinstance(points, pd.DataFrame):
        others = list(points.select_dtypes(exclude=["number", "bool", "boolean"]))
        require(not others, f"points have columns that are no numbers, {others}: leave them out")
        array = points.to_numpy()
        if array.dtype == object:  # booleans beside numbers, or columns that may miss a value
            array = points.to_numpy(np.float64, na_value=np.nan)
        points = array
    # Lists, sparse matrices and datasets are no arrays.
    is_array = hasattr(points, "__array__") and len(points.shape) > 1 and 0 not in points.shape[1:]
    is_dense = getattr(points, "layout", torch.strided) is torch.strided
    is_real = "complex" not in str(getattr(points, "dtype", ""))
    expected = "a dense array or tensor (N, *shape) of real numbers, such as "
    expected += "data.x_train or torch.stack([x for x, *_ in dataset])"
    shape = f" of shape {tuple(points.shape)}" if hasattr(points, "shape") else ""
    require(not np.ma.is_masked(points), "points have masked entries: leave these out")
    fits = is_array and is_dense and is_real
    require(fits, f"points are a {type(points).__name__}{shape}; expected {expected}")
    # Arrays of other libraries, such as JAX and h5py, have other rules for an array as an index.
    return points if are_of_torch(points) else np.asarray(points)


def are_of_torch(points):
    """Whether points are a tensor or images on a device of torch."""
    return isinstance(getattr(points, "device", None), torch.device)


def as_tensor(values):
    """A tensor of an array, a tensor or a list of numbers."""
    if isinstance(values, torch.Tensor):
        return values
    require(not np.ma.is_masked(values), "an array has masked entries: leave these out")
    values = np.asarray(values)
    found = f"an array holds {values.dtype}; expected numbers, and integers as labels"
    require(values.dtype.kind in "buifc", found)
    # torch takes no read-only memory, no negative stride and no other byte order.
    return torch.from_numpy(np.require(values, values.dtype.newbyteorder("="), ["C", "W", "E"]))


def precision_of(points):
    """float64 for points in double precision or integers beyond float32's, else float32."""
    dtype = getattr(points, "dtype", "")
    name = getattr(dtype, "name", str(dtype).removeprefix("torch."))  # in any byte order
    wide = name in ("float64", "int64", "uint64", "int32", "uint32")
    return torch.float64 if wide else torch.float32


def gather(points, index, device=None, dtype=torch.float32):
    """points[index] as a tensor (*index.shape, *shape); ValueError if a value is not finite."""
    flat = index.ravel()
    at = torch.from_numpy(flat).to(points.device) if are_of_torch(points) else flat
    taken = as_tensor(points[at]).to(device=device, dtype=dtype)
    bad = (~torch.isfinite(taken).flatten(1).all(1)).nonzero()
    if len(bad):
        name = f"points[{flat[int(bad[0])]}]"
        raise ValueError(f"{name} holds NaN or infinity (or passes {dtype}); remove it")
    return taken.view(*index.shape, *taken.shape[1:])
