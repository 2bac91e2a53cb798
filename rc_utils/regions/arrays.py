"""Points and labels as they come - NumPy arrays, torch tensors, image tensors, data frames - as float tensors."""

import numpy as np
import torch

from rc_utils.checks import require

UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


def as_tensor(array):
    """A tensor of an array or tensor, sharing its memory where torch can.

    Unsigned integers become signed. Raises ValueError for those from 2^63 on.
    """
    if isinstance(array, torch.Tensor):
        return _signed(array.to(torch.int64)) if array.dtype in UNSIGNED else array
    array = np.asarray(array)
    if array.dtype.kind == "u":
        array = _signed(array.astype(np.int64))
    wider = array.dtype.kind == "f" and array.dtype.itemsize > 8
    array = array.astype(np.float64 if wider else array.dtype.newbyteorder("="), copy=False)
    # torch takes neither read-only memory nor negative strides, which NumPy allows where an axis has one entry.
    array = np.require(array, requirements=["C", "W"])
    return torch.from_numpy(array.copy() if min(array.strides, default=0) < 0 else array)


def _signed(integers):
    require(not bool((integers < 0).any()), "there are integers of 2^63 or more; expected such as 64 bits hold signed")
    return integers


def as_points(points):
    """Data frames and lists as arrays; everything else as it is.

    Raises ValueError for what is no dense array of real numbers, and for an array with masked entries.
    """
    if hasattr(points, "to_numpy"):
        points = points.to_numpy()
    elif isinstance(points, list | tuple):
        points = array_of("points", points)
    require(
        not isinstance(points, str | bytes | dict)
        and hasattr(points, "__getitem__")
        and hasattr(points, "__len__")
        and getattr(points, "ndim", 1) > 0,
        f"points are {type(points).__name__}; expected an array or tensor (N, *shape)",
    )
    check_numbers("points", points)
    return points


def array_of(name, values):
    """An array of (nested) lists; ValueError, naming the argument, where their lengths differ."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} make no array: {error}") from error


def check_numbers(name, array):
    """Raise ValueError, naming the argument, for an array or tensor that is sparse, masked or not of real numbers."""
    kind = type(array)
    sparse = kind.__module__.startswith("scipy.sparse") or getattr(array, "layout", None) not in (None, torch.strided)
    dense = "to_dense()" if isinstance(array, torch.Tensor) else "toarray()"
    require(not sparse, f"{name} are a sparse {kind.__name__}; expected a dense array, as its {dense} gives it")
    masked = isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array)
    require(not masked, f"{name} hold masked entries; fill them with numbers, or leave them out")
    real = not isinstance(array, np.ndarray) or array.dtype.kind in "fiub"
    if isinstance(array, torch.Tensor):
        require(not array.is_meta, f"{name} are on the meta device and hold no numbers")
        real = not (array.is_complex() or array.is_quantized or array.is_nested)
    require(real, f"{name} are of type {getattr(array, 'dtype', kind)}; expected real numbers alone")


def precision_of(points):
    """float64 for points in double precision or in integers that float32 does not hold, else float32."""
    name = str(getattr(points, "dtype", "")).removeprefix("torch.")
    return torch.float64 if name in ("float64", "int64", "uint64", "int32", "uint32") else torch.float32


def gather(points, index, device=None, dtype=torch.float32):
    """points[index] as a tensor (*index.shape, *shape) of `dtype`; ValueError if a value is not finite."""
    flat = np.ascontiguousarray(index.reshape(-1))
    if isinstance(points, torch.Tensor):
        flat = torch.from_numpy(flat).to(points.device)
    taken = points[flat]
    check_numbers("points", taken)
    taken = as_tensor(taken).to(device=device, dtype=dtype)
    require(taken.ndim >= 2, "points are one-dimensional; expected (N, *shape), so (N, 1) for one feature")
    require(0 not in taken.shape[1:], f"points of shape {tuple(taken.shape[1:])} hold no number; expected at least one")
    finite = torch.isfinite(taken).flatten(1).all(1)
    if not bool(finite.all()):
        first = int(index.reshape(-1)[int((~finite).nonzero()[0, 0])])
        raise ValueError(f"points[{first}] holds NaN or infinity (or passes {dtype}); remove it from the points")
    return taken.view(*index.shape, *taken.shape[1:])
