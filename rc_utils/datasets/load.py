"""`load_dataset`: one call for every dataset, drawn, downloaded, or of the reader's own files."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path

import numpy as np
import torch

from rc_utils.checks import check_count, require, unknown_name
from rc_utils.datasets.cache import (
    Arrays,
    add_label_noise,
    balanced_order,
    choose,
    data_folder,
    read_cache,
    resolve_classes,
    stream,
    write_cache,
)
from rc_utils.datasets.images import Dataset, ImageTensor, area_average, channel_stats
from rc_utils.datasets.shapes import SHAPE_NAMES, make_shapes

_MNIST_PARTS = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
# Name -> the class of torchvision, the archives that it takes, and where below its root it looks for them.
DOWNLOADS = {
    "cifar10": ("CIFAR10", ["cifar-10-python.tar.gz"], "."),
    "cifar100": ("CIFAR100", ["cifar-100-python.tar.gz"], "."),
    "mnist": ("MNIST", [f"{part}-ubyte.gz" for part in _MNIST_PARTS], "MNIST/raw"),
}


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

    Raises ValueError for an unknown name or class and a value that does not fit, `CacheError` for a damaged
    cache, and FileNotFoundError, saying which file to put where, for data that cannot be downloaded.
    """
    folder = data_folder(data_dir)
    known = {path.stem for path in folder.glob("*.npz")}.union(("shapes", "digits", "imagenet", *DOWNLOADS))
    if name not in known:
        own = f"put {name}.npz, with x_train, y_train, x_test, y_test, into {folder.resolve()}"
        raise ValueError(f"{unknown_name('dataset', name, known)}. Or {own}")
    check_values(n_train=n_train, n_test=n_test, image_size=image_size, label_noise=label_noise, seed=seed)
    require(not isinstance(classes, str), f"classes is {classes!r}; expected a list of indices or names")
    require(root is None or name == "imagenet", f"root is {root!r}, but only 'imagenet' has class folders")
    chosen = {"n_train": n_train, "n_test": n_test, "classes": classes, "seed": seed}
    if name == "shapes":
        arrays = shapes(image_size, **chosen)
    elif name == "imagenet":
        arrays = imagenet(Path(root or folder / "imagenet"), folder, image_size, **chosen)
    else:
        arrays = choose(digits(seed) if name == "digits" else stored(name, folder), **chosen)
    return _dataset(name, arrays, image_size, label_noise, seed).to(device)


def check_values(*, n_train=None, n_test=None, image_size=None, label_noise=0.0, seed=0):
    """Raise ValueError for a value of these settings of `load_dataset` that no dataset could have."""
    if not isinstance(label_noise, Real) or not 0 <= label_noise <= 1:
        raise ValueError(f"label_noise is {label_noise!r}; expected a fraction from 0 to 1")
    for key, value in {"n_train": n_train, "n_test": n_test, "image_size": image_size}.items():
        if value is not None:
            check_count(key, value, 1)
    check_count("seed", seed, 0)


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
    arrays = read_cache(path)
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


def imagenet(root, folder, image_size, **chosen):
    """The images below root that `choose` chooses, decoded once and cached as an npz file in folder.

    Images are converted to RGB, resized so that their short side is image_size (None for 224), and cropped at
    the centre. Only what is chosen is decoded. The name of the cache depends on the list of files, their sizes and
    image_size, so that a changed folder is decoded anew. Raises FileNotFoundError for no such folder or a class without
    images, ValueError where train/ and val/ have different classes or a file cannot be decoded.
    """
    from torchvision.datasets import ImageFolder
    from tqdm import tqdm
    from tqdm.contrib.concurrent import thread_map

    train, test = ImageFolder(root / "train"), ImageFolder(root / "val")
    different = sorted(set(train.classes) ^ set(test.classes))
    require(not different, f"train/ and val/ in {root} differ in the classes {', '.join(different[:5])}")
    size = image_size or 224
    listed = [np.array(part) for found in (train, test) for part in zip(*found.samples, strict=True)]
    source = f"class folders {root.name}, short side {size}, centre crop"
    arrays = choose(Arrays(*listed, train.classes, source), **chosen)
    files = [*map(Path, arrays.x_train), *map(Path, arrays.x_test)]
    listing = [(file.relative_to(root).as_posix(), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    digest = hashlib.sha256(repr((arrays.classes, listing)).encode()).hexdigest()
    path = folder / f"imagenet-{size}-{digest[:12]}.npz"
    if not path.exists():
        decoded = thread_map(lambda file: decode(file, size), files, desc="decoding", mininterval=5, tqdm_class=tqdm)
        images = np.stack(decoded)
        n_train = len(arrays.x_train)
        write_cache(path, replace(arrays, x_train=images[:n_train], x_test=images[n_train:]))
    return read_cache(path)


def decode(file, size):
    """One image as (size, size, 3) uint8, its middle resized; 16 bits are brought to 8.

    The depth is that of the file's mode, whatever its brightness. Raises ValueError for what is no image, and for
    pixels whose range the file does not say: floating-point numbers, and integers beyond 16 bits.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as image:
            if image.mode[0] in "IF":
                pixels = np.asarray(image)
                known = image.mode[0] == "I" and pixels.min() >= 0 and pixels.max() < 1 << 16
                require(
                    known, f"{file} has pixels of mode {image.mode}, whose range is unknown: save it with 8 or 16 bits"
                )
                image = Image.fromarray((pixels / 257).round().astype(np.uint8))
            image = image.convert("RGB")
    except (OSError, SyntaxError) as error:
        raise ValueError(f"{file} cannot be decoded ({error}); replace it, or remove it from the folder") from error
    return np.asarray(ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR))
