"""Where arrays come from: drawn, scikit-learn's digits, a cached file, or a download through torchvision.

Every loader takes a `Choice` and returns `Arrays` that hold the chosen classes and samples, and no others.
"""

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rc_utils.datasets.cache import Arrays, CacheError, read_cache, write_cache
from rc_utils.datasets.shapes import SHAPE_NAMES, make_shapes
from rc_utils.datasets.subsets import balanced_order, relabel, resolve_classes, stream

_SHAPES_TRAIN, _SHAPES_TEST, _SHAPES_SIZE = 2000, 4000, 16
_DIGITS_TEST = 360


@dataclass(frozen=True)
class _Download:
    """One of torchvision's datasets: its class there, the archives it takes, where below its root, and its format."""

    dataset: str
    archives: tuple
    subfolder: str
    image_shape: tuple
    num_classes: int


_MNIST_PARTS = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
DOWNLOADS = {
    "cifar10": _Download("CIFAR10", ("cifar-10-python.tar.gz",), ".", (32, 32, 3), 10),
    "cifar100": _Download("CIFAR100", ("cifar-100-python.tar.gz",), ".", (32, 32, 3), 100),
    "mnist": _Download("MNIST", tuple(f"{part}-ubyte.gz" for part in _MNIST_PARTS), "MNIST/raw", (28, 28, 1), 10),
}


def choose(arrays, choice):
    """The chosen classes and samples of arrays; labels are positions among the chosen classes."""
    indices = resolve_classes(choice.classes, arrays.classes)
    chosen = {"classes": tuple(arrays.classes[i] for i in indices)}
    for split in ("train", "test"):
        labels = relabel(getattr(arrays, f"y_{split}"), indices)
        kept = choice.select(labels, split, len(indices))
        chosen |= {f"x_{split}": getattr(arrays, f"x_{split}")[kept], f"y_{split}": labels[kept]}
    return replace(arrays, **chosen)


def shapes(choice):
    """Ten drawn shapes; 2,000 training and 4,000 test images of 16 x 16 where the choice leaves it open."""
    indices = resolve_classes(choice.classes, SHAPE_NAMES)
    settings = {"image_size": choice.image_size or _SHAPES_SIZE, "seed": choice.seed, "classes": indices}
    x_train, y_train = make_shapes(choice.n_train or _SHAPES_TRAIN, split="train", **settings)
    x_test, y_test = make_shapes(choice.n_test or _SHAPES_TEST, split="test", **settings)
    names = tuple(SHAPE_NAMES[i] for i in indices)
    return Arrays(x_train, y_train, x_test, y_test, names, source=f"rc_utils shapes, seed {choice.seed}")


def digits(choice):
    """Scikit-learn's 1,797 digits of 8 x 8: the seed sets 360 apart for testing, 36 of each class."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    # The stored values are 0 to 16.
    images = np.rint(images.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8)
    order = balanced_order(labels, stream(choice.seed, "split"))
    test, train = order[:_DIGITS_TEST], order[_DIGITS_TEST:]
    names = tuple(map(str, range(10)))
    arrays = Arrays(images[train], labels[train], images[test], labels[test], names, source="scikit-learn load_digits")
    return choose(arrays, choice)


def stored(name, choice, folder):
    """The dataset cached as folder/name.npz, downloaded first if it is one that can be and is not there yet."""
    path = folder / f"{name}.npz"
    if name in DOWNLOADS and not path.exists():
        write_cache(path, _download(name, folder))
    arrays = read_cache(path)
    if name in DOWNLOADS:
        _check_format(path, arrays, DOWNLOADS[name])
    return choose(replace(arrays, source=arrays.source or path.name), choice)


def _check_format(path, arrays, expected):
    found = arrays.x_train.shape[1:], len(arrays.classes)
    if found != (expected.image_shape, expected.num_classes):
        raise CacheError(
            f"{path} has images of shape {found[0]} in {found[1]} classes; {expected.dataset} has "
            f"{expected.image_shape} in {expected.num_classes}. Delete it, or give it another name."
        )


def _download(name, folder):
    """Arrays of a dataset fetched by torchvision, which checks the archives; those already in folder are used."""
    wanted = DOWNLOADS[name]
    folder.mkdir(parents=True, exist_ok=True)
    # Several processes may do this at once: each in a folder of its own, and the cache appears by renaming.
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}-") as root:
        target = Path(root, wanted.subfolder)
        target.mkdir(parents=True, exist_ok=True)
        for archive in wanted.archives:
            if (folder / archive).exists():
                shutil.copy(folder / archive, target)
        try:
            from torchvision import datasets

            make = getattr(datasets, wanted.dataset)
            train, test = (make(root, train=is_train, download=True) for is_train in (True, False))
        except (ImportError, OSError, RuntimeError) as error:
            raise FileNotFoundError(
                f"{name} is not cached and could not be downloaded ({error}). Put {name}.npz, made by this call on "
                f"another machine, or the intact {' and '.join(wanted.archives)} into {folder.resolve()}."
            ) from error
        names = tuple(label.split(" - ")[0] for label in train.classes)  # MNIST says "0 - zero"
        images = [np.asarray(part.data).reshape(-1, *wanted.image_shape) for part in (train, test)]
        labels = [np.asarray(part.targets, dtype=np.int64) for part in (train, test)]
    return Arrays(images[0], labels[0], images[1], labels[1], names, source=f"torchvision {wanted.dataset}")
