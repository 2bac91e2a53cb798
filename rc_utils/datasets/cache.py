"""Datasets as plain arrays: npz files, and the classes and samples that are taken of them."""

import io
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rc_utils import paths
from rc_utils.checks import require, unknown_name

_REQUIRED = ("x_train", "y_train", "x_test", "y_test")
_OPTIONAL = ("classes", "source", "note")
# Second entry of the seed of each random choice, so that no two choices share a stream.
_STREAMS = {"train": 2, "test": 3, "label noise": 4, "split": 5}


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


def read_cache(path):
    """Read and check the npz file at path.

    Expected arrays: x_train and x_test uint8 (N, H, W, C) or (N, H, W) with H = W, y_train and
    y_test integers (N,) in [0, number of classes); optional `classes` (names), `source` and `note`
    (strings). Nothing is unpickled. Raises CacheError for a damaged file and for other arrays, and
    OSError where it is not there or cannot be opened.
    """
    with open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                stored = {key: archive[key] for key in archive.files if key in _REQUIRED + _OPTIONAL}
            return _checked(stored)
        except Exception as error:  # of whatever kind, depending on which bytes are wrong
            raise CacheError(
                f"{path} is not a dataset as expected, or damaged ({error}). Correct it, or put an "
                "intact copy in its place; a downloaded dataset is made again where its file is gone."
            ) from error


def _checked(stored):
    """`Arrays` of what a file holds. Raises ValueError for what is missing or not as expected."""
    missing = [key for key in _REQUIRED if key not in stored]
    require(not missing, f"arrays missing: {', '.join(missing)}")
    for split in ("train", "test"):
        x, y = stored[f"x_{split}"], stored[f"y_{split}"]
        square = x.dtype == np.uint8 and x.ndim in (3, 4) and x.shape[1] == x.shape[2] and x.size > 0
        expected = "expected uint8, square images (N, H, W, C) or (N, H, W)"
        require(square, f"x_{split} is {x.dtype} of shape {x.shape}; {expected}")
        integers = y.dtype.kind in "iu" and y.shape == (len(x),) and y.min() >= 0
        expected = f"expected integers from 0 on for each of {len(x)} images"
        require(integers, f"y_{split} is {y.dtype} of shape {y.shape}; {expected}")
        stored[f"x_{split}"] = x if x.ndim == 4 else x[..., None]
        stored[f"y_{split}"] = y.astype(np.int64)
    names = stored.get("classes", np.arange(int(stored["y_train"].max()) + 1))
    for split in ("train", "test"):
        highest = stored[f"y_{split}"].max()
        require(highest < len(names), f"y_{split} has label {highest}, expected 0 to {len(names) - 1}")
    empty = sorted(set(range(len(names))) - set(stored["y_train"].tolist()))
    require(not empty, f"no training image has label {empty[:5]} of {len(names)} classes")
    train, test = stored["x_train"].shape[1:], stored["x_test"].shape[1:]
    require(train == test, f"x_train has images of shape {train}, x_test of {test}")
    stored["classes"] = tuple(map(str, names.tolist()))
    for key in ("source", "note"):
        stored[key] = str(stored.get(key, ""))
    return Arrays(**stored)


def stream(seed, purpose):
    """The random generator of one purpose ("train", "test", "label noise", "split") under a seed."""
    return np.random.default_rng([seed, _STREAMS[purpose]])


def choose(arrays, *, n_train, n_test, classes, seed):
    """The chosen classes and samples of `Arrays`; labels are positions among the classes.

    classes: names or indices, None for all. n_train, n_test: None for all samples of these classes, in their stored
    order; fewer are drawn by seed, class counts as equal as the data allow, and the choice of fewer is the start of
    the choice of more. Raises ValueError where there are not as many, or none.
    """
    indices = resolve_classes(classes, arrays.classes)
    positions = np.full(len(arrays.classes), -1)
    positions[list(indices)] = np.arange(len(indices))
    chosen = {"classes": tuple(arrays.classes[i] for i in indices)}
    for split, n in (("train", n_train), ("test", n_test)):
        labels = positions[getattr(arrays, f"y_{split}")]
        kept = np.flatnonzero(labels >= 0)
        found = f"there are {len(kept)} {split} samples in the {len(indices)} chosen classes"
        require(len(kept) >= (n or 1), f"n_{split} is {n}, but {found}")
        if n is not None:
            kept = kept[balanced_order(labels[kept], stream(seed, split))[:n]]
        chosen |= {f"x_{split}": getattr(arrays, f"x_{split}")[kept], f"y_{split}": labels[kept]}
    return replace(arrays, **chosen)


def balanced_order(labels, rng):
    """A random permutation of the samples that goes round the classes: every start of it is as balanced as can be."""
    shuffled = rng.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    first_of_class = np.searchsorted(labels[by_class], labels[by_class])
    turn = np.empty(len(labels), dtype=np.int64)
    turn[by_class] = np.arange(len(labels)) - first_of_class
    return shuffled[np.argsort(turn[shuffled], kind="stable")]


def resolve_classes(classes, names):
    """Indices of the chosen classes, given by index or by name; all of them for None.

    Raises ValueError for an unknown class, with the nearest name, fewer than two, and the same class twice.
    """
    if classes is None:
        return tuple(range(len(names)))
    indices = []
    for chosen in classes:
        if chosen not in (names if isinstance(chosen, str) else range(len(names))):
            raise unknown_name(f"class (names or indices 0 to {len(names) - 1})", chosen, names)
        indices.append(names.index(chosen) if isinstance(chosen, str) else int(chosen))
    different = len(indices) > 1 and len(set(indices)) == len(indices)
    require(different, f"classes is {classes!r}; expected at least two different classes")
    return tuple(indices)


def add_label_noise(labels, fraction, num_classes, seed):
    """Replace round(fraction * N) labels, drawn without replacement, each by another class drawn uniformly."""
    rng = stream(seed, "label noise")
    wrong = rng.permutation(len(labels))[: round(fraction * len(labels))]
    noisy = labels.copy()
    noisy[wrong] = (labels[wrong] + rng.integers(1, num_classes, len(wrong))) % num_classes
    return noisy
