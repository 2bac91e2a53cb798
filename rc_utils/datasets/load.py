"""`load_dataset`: one call for every dataset."""

import hashlib
import os
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rc_utils.checks import check_count, unknown_name
from rc_utils.datasets import folders, sources
from rc_utils.datasets.cache import data_folder
from rc_utils.datasets.images import Dataset, ImageTensor, area_average, channel_stats
from rc_utils.datasets.subsets import add_label_noise, choose


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
    **unknown: Any,
) -> Dataset:
    """Load a dataset, or part of one, as arrays on a device.

    name: "shapes" (drawn, no download), "digits", "cifar10", "cifar100", "mnist", "imagenet" (class folders), or the
        name of a file <name>.npz in data_dir with arrays x_train, x_test uint8 (N, H, W, C) or (N, H, W),
        y_train, y_test integers (N,) and optionally class names `classes`.
    n_train, n_test: number of samples, balanced by class and drawn by seed; None for all (shapes: 2,000, 4,000).
        A smaller draw is the start of a larger one.
    image_size: side in pixels. Stored images are made smaller by area averaging; shapes are drawn at any size
        from 8 (default 16), class folders are resized to it (default 224).
    label_noise: fraction in [0, 1] of training labels that are replaced by another class.
    classes: indices or names of the classes to keep, which are relabelled 0, 1, ... in this order.
    seed: of every draw above, and of the images themselves for shapes.
    data_dir: folder of cached datasets; by default the environment variable RC_DATA, else the project's data/.
    root: for "imagenet" only, the folder that holds train/ and val/; by default data_dir/imagenet.

    Raises ValueError for an unknown name, option or class and a value that does not fit, `CacheError` for a damaged
    cache, and FileNotFoundError, saying which file to put where, for data that cannot be downloaded.
    """
    folder = data_folder(data_dir)
    _check_request(name, folder, unknown, root, classes)
    check_values(n_train=n_train, n_test=n_test, image_size=image_size, label_noise=label_noise, seed=seed)
    chosen = {"n_train": n_train, "n_test": n_test, "classes": classes, "seed": seed}
    arrays = _arrays(name, folder, root, image_size, chosen)
    return _dataset(name, arrays, image_size, label_noise, seed).to(device)


def _arrays(name, folder, root, image_size, chosen):
    if name == "shapes":
        return sources.shapes(image_size, **chosen)
    if name == "imagenet":
        return folders.imagenet(Path(root or folder / "imagenet"), folder, image_size, **chosen)
    arrays = sources.digits(chosen["seed"]) if name == "digits" else sources.stored(name, folder)
    return choose(arrays, **chosen)


def _dataset(name, arrays, image_size, label_noise, seed):
    size = image_size or arrays.x_train.shape[1]
    x_train = area_average(np.ascontiguousarray(arrays.x_train.transpose(0, 3, 1, 2)), size)
    x_test = area_average(np.ascontiguousarray(arrays.x_test.transpose(0, 3, 1, 2)), size)
    y_train = add_label_noise(arrays.y_train, label_noise, len(arrays.classes), seed)
    mean, std = channel_stats(x_train)
    sha256 = _fingerprint(x_train, y_train, x_test, arrays.y_test)
    texts = {"source": arrays.source, "note": arrays.note, "sha256": sha256}
    return Dataset(
        name=name,
        x_train=ImageTensor(torch.from_numpy(x_train), mean, std),
        y_train=torch.from_numpy(y_train),
        x_test=ImageTensor(torch.from_numpy(x_test), mean, std),
        y_test=torch.from_numpy(arrays.y_test),
        num_classes=len(arrays.classes),
        class_names=arrays.classes,
        provenance={key: text for key, text in texts.items() if text},
        y_train_true=torch.from_numpy(arrays.y_train) if label_noise else None,
    )


def _fingerprint(*arrays):
    """SHA-256, in hexadecimal, of the types, shapes and contents of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _check_request(name, folder, unknown, root, classes):
    known = {path.stem for path in folder.glob("*.npz")}.union(("shapes", "digits", "imagenet", *sources.DOWNLOADS))
    if name not in known:
        own = f"put {name}.npz, with x_train, y_train, x_test, y_test, into {folder.resolve()}"
        raise ValueError(f"{unknown_name('dataset', name, known)}. Or {own}")
    for option in unknown:
        raise unknown_name("option of load_dataset", option, load_dataset.__kwdefaults__)
    if root is not None and name != "imagenet":
        raise ValueError(f"root is {str(root)!r}, but only 'imagenet' is read from class folders, not {name!r}")
    if isinstance(classes, str):
        raise ValueError(f"classes is {classes!r}; expected a list of class indices or names")


def check_values(*, n_train=None, n_test=None, image_size=None, label_noise=0.0, seed=0):
    """Raise ValueError for a value of these settings of `load_dataset` that no dataset could have."""
    if not isinstance(label_noise, Real) or not 0 <= label_noise <= 1:
        raise ValueError(f"label_noise is {label_noise!r}; expected a fraction from 0 to 1")
    for key, value in {"n_train": n_train, "n_test": n_test, "image_size": image_size}.items():
        if value is not None:
            check_count(key, value, 1)
    check_count("seed", seed, 0)
