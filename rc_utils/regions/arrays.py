"""Points and labels as they come - NumPy arrays, torch tensors, image tensors, data frames - as float tensors."""

import numpy as np
import torch

from rc_utils.checks import require


def as_tensor(array):
    """A tensor of an array or tensor, sharing its memory where torch can; integers of any width become signed."""
    if isinstance(array, torch.Tensor):
        return array
    array = np.asarray(array)
    if array.dtype.kind == "u":
        array = array.astype(np.int64)
    # torch takes neither read-only memory nor negative strides, which NumPy allows where an axis has one entry.
    array = np.require(array, requirements=["C", "W"])
    return torch.from_numpy(array.copy() if min(array.strides, default=0) < 0 else array)


def as_points(points):
    """Data frames and lists as arrays; everything else as it is."""
    if hasattr(points, "to_numpy"):
        points = points.to_numpy()
    elif isinstance(points, list | tuple):
        points = np.asarray(points)
    require(
        hasattr(points, "__getitem__") and hasattr(points, "__len__") and getattr(points, "ndim", 1) > 0,
        f"points are {type(points).__name__}; expected an array or tensor (N, *shape)",
    )
    if isinstance(points, np.ndarray):
        require(points.dtype.kind in "fiubc", f"points are of type {points.dtype}; expected numbers alone")
    return points


def precision_of(points):
    """float64 for points in double precision or in integers that float32 does not hold, else float32."""
    name = str(getattr(points, "dtype", "")).removeprefix("torch.")
    return torch.float64 if name in ("float64", "int64", "uint64", "int32", "uint32") else torch.float32


def gather(points, index, device=None, dtype=torch.float32):
    """points[index] as a tensor (*index.shape, *shape) of `dtype`; ValueError if a value is not finite."""
    flat = np.ascontiguousarray(index.reshape(-1))
    if isinstance(points, torch.Tensor):
        flat = torch.from_numpy(flat).to(points.device)
    taken = as_tensor(points[flat])
    require(not taken.is_complex(), f"points are {taken.dtype}; expected real numbers")
    taken = taken.to(device=device, dtype=dtype)
    require(taken.ndim >= 2, "points are one-dimensional; expected (N, *shape), so (N, 1) for one feature")
    require(0 not in taken.shape[1:], f"points of shape {tuple(taken.shape[1:])} hold no number; expected at least one")
    finite = torch.isfinite(taken).flatten(1).all(1)
    if not bool(finite.all()):
        first = int(index.reshape(-1)[int((~finite).nonzero()[0, 0])])
        raise ValueError(f"points[{first}] holds NaN or infinity (or passes {dtype}); remove it from the points")
    return taken.view(*index.shape, *taken.shape[1:])
