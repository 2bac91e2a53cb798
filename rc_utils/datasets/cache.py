"""Datasets on disk: npz files of plain arrays, those that torchvision downloads, and class folders."""

import hashlib
import io
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rc_utils import paths
from rc_utils.checks import require

_REQUIRED = ("x_train", "y_train", "x_test", "y_test")
_MNIST_PARTS = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
# Name -> the class of torchvision, its archives, and where below its root it looks for them.
DOWNLOADS = {
    "cifar10": ("CIFAR10", ["cifar-10-python.tar.gz"], "."),
    "cifar100": ("CIFAR100", ["cifar-100-python.tar.gz"], "."),
    "mnist": ("MNIST", [f"{part}-ubyte.gz" for part in _MNIST_PARTS], "MNIST/raw"),
}


class CacheError(ValueError):
    """A cached dataset cannot be trusted: truncated, corrupted, or not of the expected format."""


@dataclass(frozen=True)
class Arrays:
    """Images (N, H, W, C) uint8, labels (N,) int64, class names, and where they came from."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    classes: tuple
    source: str = ""
    note: str = ""


def data_folder(data_dir=None):
    """Folder of cached datasets: data_dir, else RC_DATA of the environment, else data/."""
    return Path(data_dir) if data_dir else paths.data_dir()


def write_cache(path, arrays):
    """Write arrays to path (npz, not compressed), whole or not at all."""
    archive = io.BytesIO()
    np.savez(archive, **vars(arrays))
    paths.write_atomically(path, archive.getbuffer())


def read_cache(path, can_be_made_again=False):
    """Read and check the npz file at path: the arrays of `load_dataset`, `source` and `note`.

    Nothing is unpickled, and the checksums of the zip archive are verified. can_be_made_again:
    whether its error may say to delete the file. Raises CacheError for a damaged file and arrays
    that are missing or not as expected, OSError where it cannot be opened.
    """
    with open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                known = [key for key in archive.files if key in (*_REQUIRED, "classes", "source", "note")]
                return _checked({key: archive[key] for key in known})
        except Exception as error:  # of whatever kind, depending on which bytes are wrong
            # Only what can be made again may be deleted, and never a reader's own file.
            first = "Delete it so that it is made again" if can_be_made_again else "Correct it"
            raise CacheError(
                f"{path} is not a dataset as expected, or damaged ({error}). {first}, or put an "
                "intact copy in its place."
            ) from error


def _checked(stored):
    missing = [key for key in _REQUIRED if key not in stored]
    require(not missing, f"arrays missing: {', '.join(missing)}")
    for split in ("train", "test"):
        y = stored[f"y_{split}"]
        integers = y.dtype.kind in "iu" and y.ndim == 1 and len(y) > 0
        require(integers, f"y_{split} is {y.dtype} of shape {y.shape}, expected integers (N,)")
    names = stored.get("classes", np.arange(int(stored["y_train"].max()) + 1))
    for split in ("train", "test"):
        x, y = stored[f"x_{split}"], stored[f"y_{split}"]
        require(x.dtype == np.uint8, f"x_{split} is {x.dtype}, expected uint8")
        square = x.ndim in (3, 4) and x.shape[1] == x.shape[2] and x.size > 0
        expected = "expected square images (N, H, W, C) or (N, H, W)"
        require(square, f"x_{split} has shape {x.shape}, {expected}")
        require(len(x) == len(y), f"x_{split} has {len(x)} images and y_{split} {len(y)} labels")
        valid = y.min() >= 0 and y.max() < len(names)
        found = f"y_{split} has labels from {y.min()} to {y.max()}"
        require(valid, f"{found}, expected 0 to {len(names) - 1}")
        stored[f"x_{split}"] = x if x.ndim == 4 else x[..., None]
        stored[f"y_{split}"] = y.astype(np.int64)
    empty = sorted(set(range(len(names))) - set(stored["y_train"].tolist()))
    found = f"no training image has label {', '.join(map(str, empty[:5]))} of {len(names)} classes"
    require(not empty, f"{found}: labels are 0, 1, ... without a gap")
    train, test = stored["x_train"].shape[1:], stored["x_test"].shape[1:]
    require(train == test, f"x_train has images of shape {train}, x_test of {test}")
    texts = {key: str(stored.get(key, "")) for key in ("source", "note")}
    return Arrays(**stored | texts | {"classes": tuple(map(str, names.tolist()))})


def stored(name, folder):
    """The dataset cached as folder/name.npz, downloaded first if it can be and is not there."""
    path = folder / f"{name}.npz"
    if name in DOWNLOADS and not path.exists():
        write_cache(path, _download(name, folder))
    arrays = read_cache(path, can_be_made_again=name in DOWNLOADS)
    return replace(arrays, source=arrays.source or path.name)


def _download(name, folder):
    """Arrays fetched by torchvision, which checks the archives; those already there are used."""
    dataset, archives, subfolder = DOWNLOADS[name]
    folder.mkdir(parents=True, exist_ok=True)
    # Several processes may do this at once: each has a folder of its own.
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}-") as root:
        target = Path(root, subfolder)
        target.mkdir(parents=True, exist_ok=True)
        for archive in archives:
            if (folder / archive).exists():
                shutil.copy(folder / archive, target)
        try:
            from torchvision import datasets

            make = getattr(datasets, dataset)
            train, test = make(root, download=True), make(root, train=False, download=True)
        except (ImportError, OSError, RuntimeError) as error:
            raise FileNotFoundError(
                f"{name} is not cached and could not be downloaded ({error}). Put {name}.npz, made "
                f"by this call on another machine, or the intact {' and '.join(archives)} into "
                f"{folder.resolve()}."
            ) from error
        names = tuple(label.split(" - ")[0] for label in train.classes)  # MNIST says "0 - zero"
        arrays = [np.asarray(a) for part in (train, test) for a in (part.data, part.targets)]
    return Arrays(*arrays, names, source=f"torchvision {dataset}")


def class_folders(root, folder, image_size, choose):
    """Images of root/{train,val}/<class>/, decoded once and cached as an npz file in folder.

    choose: from all that is listed, as `Arrays` of file names, to what is decoded. Images are RGB,
    their short side image_size (None for 224), cropped at the centre. The cache's name depends on
    the files, their sizes and dates, so that a changed folder is decoded anew.

    Raises FileNotFoundError for no such folder or a class without images, ValueError where train/
    and val/ have different classes or a file cannot be decoded.
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
    arrays = choose(Arrays(*listed, train.classes, source))
    files = [*map(Path, arrays.x_train), *map(Path, arrays.x_test)]
    listing = [(file.relative_to(root).as_posix(), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    digest = hashlib.sha256(repr((arrays.classes, listing)).encode()).hexdigest()
    path = folder / f"imagenet-{size}-{digest[:12]}.npz"
    if not path.exists():
        decoded = thread_map(lambda file: decode(file, size), files, desc="decoding", mininterval=5, tqdm_class=tqdm)
        images, n_train = np.stack(decoded), len(arrays.x_train)
        write_cache(path, replace(arrays, x_train=images[:n_train], x_test=images[n_train:]))
    return read_cache(path, can_be_made_again=True)


def decode(file, size):
    """One image as (size, size, 3) uint8, its middle resized; 16 bits are brought to 8.

    The depth is that of the file's mode, whatever its brightness. Raises ValueError for what is no
    image, and for pixels of unknown range: floating-point numbers, integers beyond 16 bits.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as image:
            if image.mode[0] in "IF":
                pixels = np.asarray(image)
                known = image.mode[0] == "I" and pixels.min() >= 0 and pixels.max() < 1 << 16
                advice = "whose range is unknown: save it with 8 or 16 bits"
                require(known, f"{file} has pixels of mode {image.mode}, {advice}")
                image = Image.fromarray((pixels / 257).round().astype(np.uint8))
            image = image.convert("RGB")
    except (OSError, SyntaxError) as error:
        advice = "replace it, or remove it from the folder"
        raise ValueError(f"{file} cannot be decoded ({error}); {advice}") from error
    return np.asarray(ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR))
