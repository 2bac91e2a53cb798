"""`load_dataset`: one call for every dataset. Where it comes from, and which samples are used.

Wherever they come from, the arrays of a dataset are a dict: x_train and x_test (N, H, W, C) uint8,
y_train and y_test (N,) int64, names of the `classes`, and texts `source` and, if any, `note`.
"""

import hashlib
import io
import os
from collections.abc import Sequence
from numbers import Real
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from rc_utils import paths
from rc_utils.datasets.images import Dataset, ImageTensor, area_average, channel_stats
from rc_utils.datasets.shapes import SHAPE_NAMES, make_shapes
from rc_utils.validation import check_count, check_name, require, unknown_name

DOWNLOADS = ("cifar10", "cifar100", "mnist")  # torchvision's classes have the names in capitals
# Second entry of the seed of each random choice, so that no two choices share a stream.
STREAMS = {"train": 2, "test": 3, "label noise": 4, "split": 5}


def load_dataset(
    name: str,
    *,
    n_train: int | None = None,
    n_test: int | None = None,
    image_size: int | None = None,
    label_noise: float = 0.0,
    classes: Sequence[int | str] | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    data_dir: str | os.PathLike | None = None,
) -> Dataset:
    """Load a dataset, or part of one, as arrays on a device.

    Args:
        name: "shapes" (drawn, no download), "digits", "cifar10", "cifar100", "mnist", or any other
            name, of a file <name>.npz in data_dir with x_train, x_test uint8 (N, H, W, C) or
            (N, H, W), y_train, y_test integers (N,) and optionally names `classes`.
        n_train, n_test: number of samples, balanced by class and drawn by seed; None for all
            (shapes: 2,000, 4,000). A smaller draw is the start of a larger one.
        image_size: side in pixels. Stored images are made smaller by area averaging; shapes are
            drawn at any size from 8 (default 16).
        label_noise: fraction in [0, 1] of training labels that are replaced by another class.
        classes: indices or names of the classes to keep, relabelled 0, 1, ... in this order.
        seed: of every draw above, and of the images themselves for shapes.
        data_dir: folder of cached datasets; default the environment variable RC_DATA, else data/.

    Raises ValueError for an unknown name or class, a value that does not fit and a damaged file,
    and FileNotFoundError, saying which file to put where, for data that cannot be downloaded.
    """
    folder = folder_with(name, data_dir)
    fraction = isinstance(label_noise, Real) and label_noise is not True and 0 <= label_noise <= 1
    require(fraction, f"label_noise is {label_noise!r}; expected a fraction from 0 to 1")
    for key, value in {"n_train": n_train, "n_test": n_test, "image_size": image_size}.items():
        check_count(key, 1 if value is None else value, 1)
    check_count("seed", seed, 0)
    chosen = {"n_train": n_train, "n_test": n_test, "seed": seed, "classes": classes}
    if name == "shapes":
        arrays = shapes(image_size or 16, **chosen)
    elif name == "digits":
        arrays = choose(digits(seed), **chosen)
    else:
        arrays = choose(stored(name, folder), **chosen)

    names, images = arrays["classes"], {}
    for split in ("train", "test"):
        x = np.ascontiguousarray(arrays[f"x_{split}"].transpose(0, 3, 1, 2))
        images[split] = area_average(x, image_size or x.shape[-1])
    labels = add_label_noise(arrays["y_train"], label_noise, len(names), seed)
    digest = hashlib.sha256()
    for array in (images["train"], labels, images["test"], arrays["y_test"]):
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    texts = {"source": arrays["source"], "note": arrays.get("note"), "sha256": digest.hexdigest()}
    mean, std = channel_stats(images["train"])
    return Dataset(
        name=name,
        x_train=ImageTensor(torch.from_numpy(images["train"]), mean, std),
        y_train=torch.from_numpy(labels),
        x_test=ImageTensor(torch.from_numpy(images["test"]), mean, std),
        y_test=torch.from_numpy(arrays["y_test"]),
        num_classes=len(names),
        class_names=names,
        provenance={key: text for key, text in texts.items() if text},
        y_train_true=torch.from_numpy(arrays["y_train"]) if label_noise else None,
    ).to(device)


def folder_with(name, data_dir=None):
    """The data folder; ValueError for a dataset that is neither known nor in it."""
    folder = Path(data_dir or paths.data_dir()).expanduser()
    files, built_in = {path.stem for path in folder.glob("*.npz")}, {"shapes", "digits"}
    fault = f"{folder / str(name)}.npz has the name of a dataset that is built in: rename it"
    require(name not in built_in & files, fault)
    known = built_in | files | set(DOWNLOADS)
    if name not in known:
        stem = str(name).removesuffix(".npz")
        advice = f"put {stem}.npz, with x_train, y_train, x_test, y_test, into {folder.resolve()}"
        raise ValueError(f"{unknown_name('dataset', name, known)}. Or {advice}")
    return folder


def shapes(image_size, *, n_train, n_test, classes, seed):
    """The dataset of drawn shapes, in the size and number asked for."""
    check_count("image_size", image_size, 8)
    indices = resolve_classes(classes, SHAPE_NAMES)
    names = tuple(SHAPE_NAMES[i] for i in indices)
    arrays = {"classes": names, "source": f"rc_utils shapes, seed {seed}"}
    for split, n in (("train", n_train or 2000), ("test", n_test or 4000)):
        drawn = make_shapes(n, image_size=image_size, split=split, seed=seed, classes=indices)
        arrays[f"x_{split}"], arrays[f"y_{split}"] = drawn
    return arrays


def digits(seed):
    """Scikit-learn's 1,797 digits of 8 x 8: the seed sets 36 of each class apart for testing."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    # The stored values are 0 to 16.
    images = np.rint(images.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8)
    order = balanced_order(labels, [seed, STREAMS["split"]])
    arrays = {"classes": tuple("0123456789"), "source": "scikit-learn load_digits"}
    for split, part in (("train", order[360:]), ("test", order[:360])):
        arrays |= {f"x_{split}": images[part], f"y_{split}": labels[part]}
    return arrays


def stored(name, folder):
    """The dataset of folder/name.npz, downloaded first if it can be and is not there.

    It is read without unpickling. Raises ValueError for a file that is damaged or no dataset.
    """
    path = folder / f"{name}.npz"
    if name in DOWNLOADS and not path.exists():
        archive = io.BytesIO()  # so that the file is written whole or not at all
        np.savez(archive, **downloaded(name, folder))
        paths.write_atomically(path, archive.getbuffer())
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return checked(archive, path.name)
    except Exception as error:  # of any class, depending on which bytes are wrong
        fault = f"{path} is not a dataset as expected, or damaged ({error})"
        advice = "Correct it, or put an intact copy in its place"
        raise ValueError(f"{fault}. {advice}; what was downloaded may be deleted.") from error


def downloaded(name, folder):
    """Arrays fetched by torchvision into `folder`; archives already there are checked and used."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        from filelock import FileLock
        from torchvision import datasets

        make = getattr(datasets, name.upper())
        with FileLock(folder / f".{name}.lock"):  # one of several processes downloads
            train, test = make(folder, download=True), make(folder, train=False, download=True)
    except (ImportError, OSError, RuntimeError) as error:
        fault = f"{name} is not cached and torchvision could not download it ({error})"
        advice = f"install it if missing, or put {name}.npz, made by this call elsewhere, into"
        raise FileNotFoundError(f"{fault}: {advice} {folder.resolve()}") from error
    names = tuple(label.split(" - ")[0] for label in train.classes)  # MNIST says "0 - zero"
    arrays = {"classes": names, "source": f"torchvision {name.upper()}"}
    for split, part in (("train", train), ("test", test)):
        arrays |= {f"x_{split}": np.asarray(part.data), f"y_{split}": np.asarray(part.targets)}
    return arrays


def checked(archive, name):
    """Arrays of the file `name` as every dataset has them; ValueError where they cannot be."""
    arrays = {}
    for split in ("train", "test"):
        x, y = archive[f"x_{split}"], archive[f"y_{split}"]
        found = f"x_{split} is {x.dtype} of shape {x.shape}, y_{split} {y.dtype} of {y.shape}"
        expected = "expected square uint8 images, (N, S, S, C) or (N, S, S), an integer for each"
        square = x.dtype == np.uint8 and x.ndim in (3, 4) and x.shape[1] == x.shape[2]
        fits = square and y.dtype.kind in "iu" and y.shape == x.shape[:1]
        require(fits, f"{found}; {expected}")
        x = x if x.ndim == 4 else x[..., None]
        arrays |= {f"x_{split}": x, f"y_{split}": y.astype(np.int64)}
    train, test = arrays["x_train"].shape[1:], arrays["x_test"].shape[1:]
    require(train == test, f"x_train has images of shape {train}, x_test of {test}")
    labels = np.unique(arrays["y_train"])
    names = archive.get("classes", labels).astype(str).tolist()
    found = f"y_train has the labels {labels[:9]} for {len(names)} classes"
    in_order = np.array_equal(labels, np.arange(len(names)))
    require(in_order, f"{found}, expected 0, 1, ... without a gap")
    others = np.setdiff1d(arrays["y_test"], labels)
    require(not len(others), f"y_test has the labels {others[:9]}, which y_train has not")
    texts = {"source": str(archive.get("source", name)), "note": str(archive.get("note", ""))}
    return arrays | texts | {"classes": tuple(names)}


def choose(arrays, *, n_train, n_test, classes, seed):
    """Chosen classes, relabelled 0, 1, ..., and samples drawn by seed; None keeps all, in order."""
    names = arrays["classes"]
    indices = resolve_classes(classes, names)
    positions = np.full(len(names), -1)
    positions[list(indices)] = np.arange(len(indices))
    chosen = arrays | {"classes": tuple(names[i] for i in indices)}
    for split, n in (("train", n_train), ("test", n_test)):
        labels = positions[arrays[f"y_{split}"]]
        kept = np.flatnonzero(labels >= 0)
        found = f"there are {len(kept)} {split} samples in the {len(indices)} chosen classes"
        require(len(kept) >= (n or 1), f"n_{split} is {n}, but {found}")
        if n is not None:
            kept = kept[balanced_order(labels[kept], [seed, STREAMS[split]])[:n]]
        chosen |= {f"x_{split}": arrays[f"x_{split}"][kept], f"y_{split}": labels[kept]}
    return chosen


def balanced_order(labels, seed):
    """A random permutation that takes the classes in turn, so that its first n are balanced."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    turn = pd.Series(shuffled).groupby(labels[shuffled]).cumcount()
    return shuffled[np.argsort(turn, kind="stable")]


def resolve_classes(classes, names):
    """Indices of the chosen classes, given by index or by name; all of them for None."""
    if classes is None:
        return tuple(range(len(names)))
    for chosen in (classes := list(classes)):
        check_name("class", chosen, names if isinstance(chosen, str) else range(len(names)))
        several = f"several classes are named {chosen!r}: choose them by index"
        require(names.count(chosen) < 2, several)
    indices = tuple(names.index(c) if isinstance(c, str) else int(c) for c in classes)
    different = len(indices) == len(set(indices)) > 1
    require(different, f"classes is {classes!r}; expected at least two different classes")
    return indices


def add_label_noise(labels, fraction, num_classes, seed):
    """Replace round(fraction * N) random labels, each by another class drawn uniformly."""
    rng = np.random.default_rng([seed, STREAMS["label noise"]])
    require(num_classes > 1 or not fraction, "label_noise needs two classes or more")
    wrong = rng.permutation(len(labels))[: round(fraction * len(labels))]
    noisy = labels.copy()
    noisy[wrong] = (labels[wrong] + rng.integers(1, num_classes, len(wrong))) % num_classes
    return noisy
