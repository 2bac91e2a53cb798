"""Class folders, train/<class>/<image> and val/<class>/<image>, and one image as an array."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from rc_utils.checks import require
from rc_utils.datasets.cache import Arrays, read_cache, write_cache


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
    differ = f"train/ and val/ in {root} differ in the classes {', '.join(different[:5])}"
    require(not different, differ)
    size = image_size or 224
    listed = [np.array(part) for found in (train, test) for part in zip(*found.samples, strict=True)]
    source = f"class folders {root.name}, short side {size}, centre crop"
    arrays = choose(Arrays(*listed, train.classes, source))
    files = [*map(Path, arrays.x_train), *map(Path, arrays.x_test)]
    listing = []
    for file in files:
        stat = file.stat()
        listing.append((file.relative_to(root).as_posix(), stat.st_size, stat.st_mtime_ns))
    digest = hashlib.sha256(repr((arrays.classes, listing)).encode()).hexdigest()
    path = folder / f"imagenet-{size}-{digest[:12]}.npz"
    if not path.exists():
        options = {"desc": "decoding", "mininterval": 5, "tqdm_class": tqdm}
        images = np.stack(thread_map(lambda file: decode(file, size), files, **options))
        n_train = len(arrays.x_train)
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
