"""Datasets on disk: one npz file of plain arrays a dataset, written atomically and checked when read."""

import errno
import io
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rc_utils.files import write_atomically
from rc_utils.paths import project_root

_REQUIRED = ("x_train", "y_train", "x_test", "y_test")
_OPTIONAL = ("classes", "source", "note")
# What numpy and zipfile raise, depending on which bytes of a file are wrong.
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    EOFError,
    NotImplementedError,
    AttributeError,
    TypeError,  # a single array, which is no archive
)


class CacheError(ValueError):
    """A cached dataset cannot be trusted: truncated, corrupted, or not of the expected format."""


@dataclass(frozen=True)
class Arrays:
    """A dataset as stored: images (N, H, W, C) uint8, labels (N,) int64, class names, and where it came from."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    classes: tuple
    source: str = ""
    note: str = ""


def data_folder(data_dir=None):
    """The folder of cached datasets: data_dir, else the environment variable RC_DATA, else the project's data/."""
    return Path(data_dir or os.environ.get("RC_DATA") or project_root() / "data")


def write_cache(path, arrays):
    """Write arrays to path (npz, not compressed), whole or not at all."""
    contents = {key: getattr(arrays, key) for key in _REQUIRED}
    contents |= {key: np.array(getattr(arrays, key)) for key in _OPTIONAL if getattr(arrays, key)}
    archive = io.BytesIO()
    np.savez(archive, **contents)
    write_atomically(path, archive.getbuffer())


def read_cache(path):
    """Read and check the npz file at path.

    Expected arrays: x_train and x_test uint8 (N, H, W, C) or (N, H, W) with H = W, y_train and y_test integers (N,)
    in [0, number of classes); optional `classes` (names), `source` and `note` (strings). Nothing is unpickled, and
    the checksums of the zip archive are verified.

    Raises:
        CacheError: the file is truncated or corrupted, or an array is missing or not as expected.
        OSError: the file is not there, not to be read by this user, or on a disk that fails.
    """
    try:
        # Opened here because NumPy leaves a file open that it cannot read.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            stored = {key: archive[key] for key in archive.files if key in _REQUIRED + _OPTIONAL}
    except (*_UNREADABLE, OSError) as error:
        # zipfile seeks where a damaged archive sends it; any other fault of a disk says nothing of the file.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise CacheError(
            f"{path} cannot be read as an npz file of plain arrays ({error}): it is truncated or corrupted. "
            "Delete it so that it is made again, or put an intact copy in its place."
        ) from error
    problem = _problem(stored)
    if problem:
        raise CacheError(f"{path} is not a cached dataset: {problem}. Delete it or put an intact copy in its place.")
    return _arrays(stored)


def _arrays(stored):
    images = {key: stored[key] for key in ("x_train", "x_test")}
    images = {key: x[..., None] if x.ndim == 3 else x for key, x in images.items()}
    labels = {key: stored[key].astype(np.int64) for key in ("y_train", "y_test")}
    names = stored["classes"].tolist() if "classes" in stored else range(labels["y_train"].max() + 1)
    texts = {key: str(stored[key]) for key in ("source", "note") if key in stored}
    return Arrays(**images, **labels, classes=tuple(map(str, names)), **texts)


def _problem(stored):
    """What is wrong with the stored arrays, or None."""
    missing = [key for key in _REQUIRED if key not in stored]
    if missing:
        return f"arrays missing: {', '.join(missing)}"
    for split in ("train", "test"):
        problem = _problem_of_split(split, stored[f"x_{split}"], stored[f"y_{split}"])
        if problem:
            return problem
    if stored["x_train"].shape[1:] != stored["x_test"].shape[1:]:
        return f"x_train has images of shape {stored['x_train'].shape[1:]}, x_test of {stored['x_test'].shape[1:]}"
    if "classes" in stored and stored["classes"].ndim != 1:
        return f"classes has shape {stored['classes'].shape}, expected one name for each class"
    num_classes = len(stored["classes"]) if "classes" in stored else stored["y_train"].max() + 1
    for key in ("y_train", "y_test"):
        low, high = stored[key].min(), stored[key].max()
        if low < 0 or high >= num_classes:
            return f"{key} has labels from {low} to {high}, expected 0 to {num_classes - 1}"
    return None


def _problem_of_split(split, x, y):
    if x.dtype != np.uint8:
        return f"x_{split} is {x.dtype}, expected uint8"
    if x.ndim not in (3, 4) or x.shape[1] != x.shape[2]:
        return f"x_{split} has shape {x.shape}, expected square images (N, H, W, C) or (N, H, W)"
    if y.dtype.kind not in "iu" or y.ndim != 1:
        return f"y_{split} is {y.dtype} of shape {y.shape}, expected integers (N,)"
    if len(x) != len(y) or not len(x):
        return f"x_{split} has {len(x)} images and y_{split} {len(y)} labels, expected the same number, at least one"
    if 0 in x.shape:
        return f"x_{split} has shape {x.shape}, which holds no pixel"
    return None
