"""ImageNet-style class folders, train/<class>/<image> and val/<class>/<image>, listed by torchvision."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from rc_utils.checks import require
from rc_utils.datasets.cache import Arrays, read_cache, write_cache
from rc_utils.datasets.sources import choose
from rc_utils.datasets.subsets import resolve_classes

_IMAGE_SIZE = 224


def imagenet(choice, folder, root=None):
    """The chosen images below root (by default folder/imagenet), decoded once and cached as an npz file in folder.

    Images are converted to RGB, resized so that their short side is image_size (224 unless chosen), and cropped at
    the centre. Only what is chosen is decoded. The name of the cache depends on the list of files, their sizes and
    image_size, so that a changed folder is decoded anew. Raises FileNotFoundError for no such folder or a class without
    images, ValueError where train/ and val/ have different classes or a file cannot be decoded.
    """
    from torchvision.datasets import ImageFolder

    root = Path(root or folder / "imagenet")
    found = {"train": ImageFolder(root / "train"), "test": ImageFolder(root / "val")}
    names = found["train"].classes
    different = sorted(set(names) ^ set(found["test"].classes))
    require(not different, f"train/ and val/ in {root} differ in the classes {', '.join(different[:5])}")
    size = choice.image_size or _IMAGE_SIZE
    listed = [np.array(part) for split in ("train", "test") for part in zip(*found[split].samples, strict=True)]
    chosen = choose(Arrays(*listed, names, f"class folders {root.name}, short side {size}, centre crop"), choice)
    files = {"train": [Path(name) for name in chosen.x_train], "test": [Path(name) for name in chosen.x_test]}
    path = folder / f"imagenet-{size}-{_fingerprint(files, resolve_classes(choice.classes, names), root)}.npz"
    if not path.exists():
        images = {f"x_{split}": _decode_all(files[split], size) for split in files}
        write_cache(path, replace(chosen, **images))
    return read_cache(path)


def _fingerprint(files, indices, root):
    listing = [
        f"{split} {f.relative_to(root).as_posix()} {f.stat().st_size} {f.stat().st_mtime_ns}"
        for split in files
        for f in files[split]
    ]
    return hashlib.sha256(repr((indices, listing)).encode()).hexdigest()[:12]


def _decode_all(files, size):
    from tqdm import tqdm

    with ThreadPoolExecutor() as pool:
        images = pool.map(lambda file: decode(file, size), files)
        return np.stack(list(tqdm(images, total=len(files), desc="decoding", mininterval=5)))


def decode(file, size):
    """One image of any depth as (size, size, 3) uint8, its middle resized. Raises ValueError for what is no image."""
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as image:
            image = (_eight_bits(image) if image.mode[0] in "IF" else image).convert("RGB")
    except (OSError, SyntaxError) as error:
        raise ValueError(f"{file} cannot be decoded ({error}); replace it, or remove it from the folder") from error
    return np.asarray(ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR))


def _eight_bits(image):
    """A grey image of more than eight bits with its range, 16 bits unless it is within 8, brought to 8."""
    from PIL import Image

    pixels = np.asarray(image, dtype=np.float64)
    return Image.fromarray((pixels / (257 if pixels.max() > 255 else 1)).clip(0, 255).astype(np.uint8))
