"""Datasets on disk: one npz file of plain arrays a dataset, written atomically and checked when read."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rc_utils import paths
from rc_utils.checks import require

_REQUIRED = ("x_train", "y_train", "x_test", "y_test")
_OPTIONAL = ("classes", "source", "note")


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
    return Path(data_dir) if data_dir else paths.data_dir()


def write_cache(path, arrays):
    """Write arrays to path (npz, not compressed), whole or not at all."""
    archive = io.BytesIO()
    np.savez(archive, **vars(arrays))
    paths.write_atomically(path, archive.getbuffer())


def read_cache(path, can_be_made_again=False):
    """Read and check the npz file at path.

    Expected arrays: x_train and x_test uint8 (N, H, W, C) or (N, H, W) with H = W, y_train and y_test integers (N,)
    in [0, number of classes); optional `classes` (names), `source` and `note` (strings). Nothing is unpickled, and
    the checksums of the zip archive are verified. can_be_made_again: whether its error may say to delete the file.
    Raises CacheError where the file is truncated or corrupted, or an
    array is missing or not as expected, and OSError where it is not there or cannot be opened.
    """
    with open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                stored = {key: archive[key] for key in archive.files if key in _REQUIRED + _OPTIONAL}
            return _checked(stored)
        except Exception as error:  # of whatever kind, depending on which bytes are wrong
            # Only what can be made again may be deleted, and never a reader's own file.
            advice = "Delete it so that it is made again, or put" if can_be_made_again else "Correct it, or put"
            raise CacheError(
                f"{path} is not a dataset as expected, or damaged ({error}). {advice} an intact copy in its place."
            ) from error


def _checked(stored):
    """`Arrays` of what a file holds. Raises ValueError for what is missing or not as expected."""
    missing = [key for key in _REQUIRED if key not in stored]
    require(not missing, f"arrays missing: {', '.join(missing)}")
    for split in ("train", "test"):
        y = stored[f"y_{split}"]
        integers = y.dtype.kind in "iu" and y.ndim == 1 and len(y) > 0
        require(integers, f"y_{split} is {y.dtype} of shape {y.shape}, expected integers (N,), one for each image")
    names = stored.get("classes", np.arange(int(stored["y_train"].max()) + 1))
    for split in ("train", "test"):
        x, y = stored[f"x_{split}"], stored[f"y_{split}"]
        require(x.dtype == np.uint8, f"x_{split} is {x.dtype}, expected uint8")
        square = x.ndim in (3, 4) and x.shape[1] == x.shape[2] and x.size > 0
        require(square, f"x_{split} has shape {x.shape}, expected square images (N, H, W, C) or (N, H, W)")
        require(len(x) == len(y), f"x_{split} has {len(x)} images and y_{split} {len(y)} labels")
        valid = y.min() >= 0 and y.max() < len(names)
        require(valid, f"y_{split} has labels from {y.min()} to {y.max()}, expected 0 to {len(names) - 1}")
        stored[f"x_{split}"] = x if x.ndim == 4 else x[..., None]
        stored[f"y_{split}"] = y.astype(np.int64)
    empty = sorted(set(range(len(names))) - set(stored["y_train"].tolist()))
    lacking = ", ".join(map(str, empty[:5]))
    message = f"no training image has label {lacking} of {len(names)} classes: labels are 0, 1, ... without a gap"
    require(not empty, message)
    train, test = stored["x_train"].shape[1:], stored["x_test"].shape[1:]
    require(train == test, f"x_train has images of shape {train}, x_test of {test}")
    stored["classes"] = tuple(map(str, names.tolist()))
    for key in ("source", "note"):
        stored[key] = str(stored.get(key, ""))
    return Arrays(**stored)
