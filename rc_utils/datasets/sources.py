"""Where arrays come from: drawn, scikit-learn's digits, a cached file, or a download through torchvision."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from rc_utils.datasets.cache import Arrays, read_cache, write_cache
from rc_utils.datasets.shapes import SHAPE_NAMES, make_shapes
from rc_utils.datasets.subsets import balanced_order, resolve_classes, stream

_MNIST_PARTS = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
# Name -> the class of torchvision, the archives that it takes, and where below its root it looks for them.
DOWNLOADS = {
    "cifar10": ("CIFAR10", ["cifar-10-python.tar.gz"], "."),
    "cifar100": ("CIFAR100", ["cifar-100-python.tar.gz"], "."),
    "mnist": ("MNIST", [f"{part}-ubyte.gz" for part in _MNIST_PARTS], "MNIST/raw"),
}


def shapes(image_size, *, n_train, n_test, classes, seed):
    """Ten drawn shapes; 2,000 training and 4,000 test images of 16 x 16 where it is left open."""
    indices = resolve_classes(classes, SHAPE_NAMES)
    settings = {"image_size": image_size or 16, "seed": seed, "classes": indices}
    x_train, y_train = make_shapes(n_train or 2000, split="train", **settings)
    x_test, y_test = make_shapes(n_test or 4000, split="test", **settings)
    names = tuple(SHAPE_NAMES[i] for i in indices)
    return Arrays(x_train, y_train, x_test, y_test, names, source=f"rc_utils shapes, seed {seed}")


def digits(seed):
    """Scikit-learn's 1,797 digits of 8 x 8: the seed sets 360 apart for testing, 36 of each class."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    # The stored values are 0 to 16.
    images = np.rint(images.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8)
    order = balanced_order(labels, stream(seed, "split"))
    test, train = order[:360], order[360:]
    names = tuple(map(str, range(10)))
    return Arrays(images[train], labels[train], images[test], labels[test], names, source="scikit-learn load_digits")


def stored(name, folder):
    """The dataset cached as folder/name.npz, downloaded first if it is one that can be and is not there yet."""
    path = folder / f"{name}.npz"
    if name in DOWNLOADS and not path.exists():
        write_cache(path, _download(name, folder))
    arrays = read_cache(path, can_be_made_again=name in DOWNLOADS)
    return replace(arrays, source=arrays.source or path.name)


def _download(name, folder):
    """Arrays of a dataset fetched by torchvision, which checks the archives; those already in folder are used."""
    dataset, archives, subfolder = DOWNLOADS[name]
    folder.mkdir(parents=True, exist_ok=True)
    # Several processes may do this at once: each in a folder of its own, and the cache appears by renaming.
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}-") as root:
        target = Path(root, subfolder)
        target.mkdir(parents=True, exist_ok=True)
        for archive in archives:
            if (folder / archive).exists():
                shutil.copy(folder / archive, target)
        try:
            from torchvision import datasets

            make = getattr(datasets, dataset)
            train, test = (make(root, train=is_train, download=True) for is_train in (True, False))
        except (ImportError, OSError, RuntimeError) as error:
            raise FileNotFoundError(
                f"{name} is not cached and could not be downloaded ({error}). Put {name}.npz, made by this call on "
                f"another machine, or the intact {' and '.join(archives)} into {folder.resolve()}."
            ) from error
        names = tuple(label.split(" - ")[0] for label in train.classes)  # MNIST says "0 - zero"
        images = [np.asarray(part.data) for part in (train, test)]
        labels = [np.asarray(part.targets) for part in (train, test)]
    return Arrays(images[0], labels[0], images[1], labels[1], names, source=f"torchvision {dataset}")
