"""`load_dataset`: one call for every dataset, and which of its samples are used."""

import hashlib
import os
from collections.abc import Sequence
from numbers import Real
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from rc_utils import paths
from rc_utils.checks import check_count, require, unknown_name
from rc_utils.datasets.cache import DOWNLOADS, class_folders, decoded, stored
from rc_utils.datasets.images import Dataset, ImageTensor, area_average, channel_stats
from rc_utils.datasets.shapes import SHAPE_NAMES, make_shapes

# Second entry of the seed of each random choice, so that no two choices share a stream.
_STREAMS = {"train": 2, "test": 3, "label noise": 4, "split": 5}


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
    root: str | os.PathLike | None = None,
) -> Dataset:
    """Load a dataset, or part of one, as arrays on a device.

    Args:
        name: "shapes" (drawn, no download), "digits", "cifar10", "cifar100", "mnist", "imagenet"
            (class folders), or any other name, of a file <name>.npz in data_dir with x_train,
            x_test uint8 (N, H, W, C) or (N, H, W), y_train, y_test integers (N,) and optionally
            names `classes`.
        n_train, n_test: number of samples, balanced by class and drawn by seed; None for all
            (shapes: 2,000, 4,000). A smaller draw is the start of a larger one.
        image_size: side in pixels. Stored images are made smaller by area averaging; shapes are
            drawn at any size from 8 (default 16), class folders are resized to it (default 224).
        label_noise: fraction in [0, 1] of training labels that are replaced by another class.
        classes: indices or names of the classes to keep, relabelled 0, 1, ... in this order.
        seed: of every draw above, and of the images themselves for shapes.
        data_dir: folder of cached datasets; default the environment variable RC_DATA, else data/.
        root: for "imagenet" only, the folder of train/ and val/; default data_dir/imagenet.

    Raises ValueError for an unknown name or class, a value that does not fit and a damaged file,
    and FileNotFoundError, saying which file to put where, for data that cannot be downloaded.
    """
    folder = folder_with(name, data_dir)
    fraction = isinstance(label_noise, Real) and 0 <= label_noise <= 1
    require(fraction, f"label_noise is {label_noise!r}; expected a fraction from 0 to 1")
    for key, value in {"n_train": n_train, "n_test": n_test, "image_size": image_size}.items():
        check_count(key, 1 if value is None else value, 1)
    check_count("seed", seed, 0)
    chosen = {"n_train": n_train, "n_test": n_test, "seed": seed, "classes": classes}
    if name == "shapes":
        arrays = _shapes(image_size or 16, **chosen)
    elif name == "imagenet":
        root, size = Path(root or folder / "imagenet"), image_size or 224
        arrays = decoded(choose(class_folders(root, size), **chosen), root, size, folder)
    else:
        arrays = choose(_digits(seed) if name == "digits" else stored(name, folder), **chosen)
    return _dataset(name, arrays, image_size, label_noise, seed).to(device)


def folder_with(name, data_dir=None):
    """The data folder, where a dataset is known by its name or there; else ValueError."""
    folder = Path(data_dir or paths.data_dir())
    files = [path.stem for path in folder.glob("*.npz")]
    known = {"shapes", "digits", "imagenet", *DOWNLOADS, *files}
    fault = f"{folder / str(name)}.npz has the name of a dataset that is built in: rename it"
    require(name not in {"shapes", "digits", "imagenet"} & set(files), fault)
    if name not in known:
        stem = str(name).removesuffix(".npz")
        advice = f"put {stem}.npz, with x_train, y_train, x_test, y_test, into {folder.resolve()}"
        raise ValueError(f"{unknown_name('dataset', name, known)}. Or {advice}")
    return folder


def _shapes(image_size, *, n_train, n_test, classes, seed):
    check_count("image_size", image_size, 8)
    indices = resolve_classes(classes, SHAPE_NAMES)
    names = tuple(SHAPE_NAMES[i] for i in indices)
    arrays = {"classes": names, "source": f"rc_utils shapes, seed {seed}"}
    for split, n in (("train", n_train or 2000), ("test", n_test or 4000)):
        drawn = make_shapes(n, image_size=image_size, split=split, seed=seed, classes=indices)
        arrays[f"x_{split}"], arrays[f"y_{split}"] = drawn
    return arrays


def _digits(seed):
    """Scikit-learn's 1,797 digits of 8 x 8: the seed sets 36 of each class apart for testing."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    # The stored values are 0 to 16.
    images = np.rint(images.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8)
    order = balanced_order(labels, _stream(seed, "split"))
    arrays = {"classes": tuple("0123456789"), "source": "scikit-learn load_digits"}
    for split, part in (("train", order[360:]), ("test", order[:360])):
        arrays |= {f"x_{split}": images[part], f"y_{split}": labels[part]}
    return arrays


def _dataset(name, arrays, image_size, label_noise, seed):
    """The `Dataset` of arrays: images smaller and standardised, labels noisy, a hash of it all."""
    classes, images = arrays["classes"], {}
    for split in ("train", "test"):
        x = np.ascontiguousarray(arrays[f"x_{split}"].transpose(0, 3, 1, 2))
        images[split] = area_average(x, image_size or x.shape[-1])
    labels = add_label_noise(arrays["y_train"], label_noise, len(classes), seed)
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
        num_classes=len(classes),
        class_names=classes,
        provenance={key: text for key, text in texts.items() if text},
        y_train_true=torch.from_numpy(arrays["y_train"]) if label_noise else None,
    )


def choose(arrays, *, n_train, n_test, classes, seed):
    """The chosen classes and samples of a dataset; labels are positions among the classes.

    arrays: as of `read_cache`. n_train, n_test: None for all samples of these classes, in their
    stored order; fewer are drawn by seed, class counts as equal as the data allow.
    """
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
            kept = kept[balanced_order(labels[kept], _stream(seed, split))[:n]]
        chosen |= {f"x_{split}": arrays[f"x_{split}"][kept], f"y_{split}": labels[kept]}
    return chosen


def _stream(seed, purpose):
    return np.random.default_rng([seed, _STREAMS[purpose]])


def balanced_order(labels, rng):
    """A random permutation that goes round the classes: every start of it is balanced."""
    shuffled = rng.permutation(len(labels))
    turn = pd.Series(shuffled).groupby(labels[shuffled]).cumcount()
    return shuffled[np.argsort(turn, kind="stable")]


def resolve_classes(classes, names):
    """Indices of the chosen classes, given by index or by name; all of them for None."""
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
    """Replace round(fraction * N) random labels, each by another class drawn uniformly."""
    rng = _stream(seed, "label noise")
    wrong = rng.permutation(len(labels))[: round(fraction * len(labels))]
    noisy = labels.copy()
    noisy[wrong] = (labels[wrong] + rng.integers(1, num_classes, len(wrong))) % num_classes
    return noisy
