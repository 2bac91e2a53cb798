"""Datasets on disk: npz files of plain arrays, what torchvision downloads, and class folders."""

import hashlib
import io
from pathlib import Path

import numpy as np

from rc_utils import paths
from rc_utils.checks import require

NEEDED = ("x_train", "y_train", "x_test", "y_test")
# Name -> the class of torchvision.
DOWNLOADS = {"cifar10": "CIFAR10", "cifar100": "CIFAR100", "mnist": "MNIST"}


def write_cache(path, arrays):
    """Write the arrays of a dataset to path (npz, not compressed), whole or not at all."""
    archive = io.BytesIO()
    np.savez(archive, **arrays)
    paths.write_atomically(path, archive.getbuffer())


def read_cache(path):
    """The dataset of the npz file at path, checked.

    A dict of x_train and x_test (N, H, W, C) uint8, y_train and y_test (N,) int64, class names as
    `classes`, and the texts `source` and `note`. Nothing is unpickled, and the checksums of the zip
    archive are verified. Raises ValueError for a damaged file and arrays that are not as expected.
    """
    with open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                known = [key for key in (*NEEDED, "classes", "source", "note") if key in archive]
                return _checked({key: archive[key] for key in known})
        except Exception as error:  # of whatever kind, depending on which bytes are wrong
            fault = f"{path} is not a dataset as expected, or damaged ({error})"
            advice = "Correct it, or put an intact copy in its place"
            may_go = "what was downloaded or decoded may be deleted"
            raise ValueError(f"{fault}. {advice}; {may_go}.") from error


def _checked(arrays):
    for split in ("train", "test"):
        x, y = arrays[f"x_{split}"], arrays[f"y_{split}"]
        square = x.ndim in (3, 4) and x.shape[1] == x.shape[2] and x.size > 0
        expected = "expected one or more square uint8 images, (N, H, W, C) or (N, H, W)"
        fits = square and x.dtype == np.uint8
        require(fits, f"x_{split} is {x.dtype} of shape {x.shape}, {expected}")
        fits = y.dtype.kind in "iu" and y.shape == x.shape[:1]
        found = f"y_{split} is {y.dtype} of shape {y.shape}"
        require(fits, f"{found}, expected {len(x)} integers")
        arrays[f"x_{split}"] = x if x.ndim == 4 else x[..., None]
        arrays[f"y_{split}"] = y.astype(np.int64)
    train, test = arrays["x_train"].shape[1:], arrays["x_test"].shape[1:]
    require(train == test, f"x_train has images of shape {train}, x_test of {test}")
    present = np.unique(arrays["y_train"])
    names = arrays.get("classes", present)
    found = f"y_train has the labels {present[:9]} for {len(names)} classes"
    in_order = np.array_equal(present, np.arange(len(names)))
    require(in_order, f"{found}, expected 0, 1, ... without a gap")
    texts = {key: str(arrays.get(key, "")) for key in ("source", "note")}
    return arrays | texts | {"classes": tuple(map(str, names.tolist()))}


def stored(name, folder):
    """The dataset cached as folder/name.npz, downloaded first if it can be and is not there."""
    path = folder / f"{name}.npz"
    if name in DOWNLOADS and not path.exists():
        write_cache(path, _download(name, folder))
    arrays = read_cache(path)
    return arrays | {"source": arrays["source"] or path.name}


def _download(name, folder):
    """Arrays fetched by torchvision into `folder`; archives that lie there are checked and used."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        from filelock import FileLock
        from torchvision import datasets

        make = getattr(datasets, DOWNLOADS[name])
        with FileLock(folder / f".{name}.lock"):  # of several processes one downloads
            train, test = make(folder, download=True), make(folder, train=False, download=True)
    except (ImportError, OSError, RuntimeError) as error:
        raise FileNotFoundError(
            f"{name} is not cached and could not be downloaded ({error}). "
            f"Put {name}.npz, made by this call on another machine, into {folder.resolve()}."
        ) from error
    names = tuple(label.split(" - ")[0] for label in train.classes)  # MNIST says "0 - zero"
    arrays = [np.asarray(a) for part in (train, test) for a in (part.data, part.targets)]
    texts = {"classes": names, "source": f"torchvision {DOWNLOADS[name]}"}
    return dict(zip(NEEDED, arrays, strict=True)) | texts


def class_folders(root, size):
    """The dataset of root/{train,val}/<class>/ with the names of files in the place of images."""
    from torchvision.datasets import ImageFolder

    train, test = ImageFolder(root / "train"), ImageFolder(root / "val")
    different = sorted(set(train.classes) ^ set(test.classes))
    found = f"train/ and val/ in {root} differ in the classes {', '.join(different[:5])}"
    require(not different, found)
    splits = (zip(*split.samples, strict=True) for split in (train, test))
    listed = [np.array(part) for split in splits for part in split]
    source = f"class folders {root.name}, short side {size}, centre crop"
    return dict(zip(NEEDED, listed, strict=True)) | {"classes": train.classes, "source": source}


def decoded(arrays, root, size, folder):
    """The dataset of `class_folders` with its images, decoded once and cached in folder.

    The cache's name depends on root, files, their sizes and dates: a changed folder is read anew.
    """
    from tqdm import tqdm
    from tqdm.contrib.concurrent import thread_map

    files = [*map(Path, arrays["x_train"]), *map(Path, arrays["x_test"])]
    stats = [(file.relative_to(root).as_posix(), file.stat()) for file in files]
    listing = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    contents = str(root.resolve()), arrays["classes"], listing
    digest = hashlib.sha256(repr(contents).encode()).hexdigest()
    path = folder / f"imagenet-{size}-{digest[:12]}.npz"
    if not path.exists():
        bar = {"desc": "decoding", "mininterval": 5, "tqdm_class": tqdm}
        images = thread_map(lambda file: decode(file, size), files, **bar)
        n_train = len(arrays["x_train"])
        train, test = np.stack(images[:n_train]), np.stack(images[n_train:])
        write_cache(path, arrays | {"x_train": train, "x_test": test})
    return read_cache(path)


def decode(file, size):
    """One image as (size, size, 3) uint8, its middle resized.

    Raises ValueError for what is no image, and for pixels of more than 8 bits, whose range is
    unknown.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as image:
            mode, image = image.mode, image.convert("RGB")
    except Exception as error:  # of whatever kind, depending on which bytes are wrong
        raise ValueError(f"{file} cannot be decoded ({error}): replace or remove it") from error
    require(mode[0] not in "IF", f"{file} has pixels of mode {mode}: save it with 8 bits")
    return np.asarray(ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR))
