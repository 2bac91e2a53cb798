"""ImageNet-style class folders: train/<class>/<image> and val/<class>/<image>."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from rc_utils.datasets.cache import Arrays, read_cache, write_cache
from rc_utils.datasets.subsets import relabel, resolve_classes

_SUFFIXES = {".jpeg", ".jpg", ".png", ".bmp", ".webp"}
_IMAGE_SIZE = 224


def imagenet(choice, folder, root=None):
    """The chosen images below root (by default folder/imagenet), decoded once and cached as an npz file in folder.

    Images are converted to RGB, resized so that their short side is image_size (224 unless chosen), and cropped at
    the centre. Only what is chosen is decoded. The name of the cache depends on the list of files, their sizes and
    image_size, so that a changed folder is decoded anew.

    Raises:
        FileNotFoundError: no such folder, or no images in it.
        ValueError: train/ and val/ have different classes, or a file cannot be decoded.
    """
    root = Path(root or folder / "imagenet")
    names = _class_names(root)
    indices = resolve_classes(choice.classes, names)
    files, labels = {}, {}
    for split, subfolder in (("train", "train"), ("test", "val")):
        every_file, every_label = _list_files(root / subfolder, names)
        relabelled = relabel(every_label, indices)
        kept = choice.select(relabelled, split, len(indices))
        files[split], labels[split] = [every_file[i] for i in kept], relabelled[kept]
    size = choice.image_size or _IMAGE_SIZE
    path = folder / f"imagenet-{size}-{_fingerprint(files, indices, root)}.npz"
    if not path.exists():
        images = {split: _decode_all(files[split], size) for split in files}
        source = f"class folders {root.name}, short side {size}, centre crop"
        chosen = tuple(names[i] for i in indices)
        write_cache(path, Arrays(images["train"], labels["train"], images["test"], labels["test"], chosen, source))
    return read_cache(path)


def _class_names(root):
    found = {}
    for split in ("train", "val"):
        if not (root / split).is_dir():
            raise FileNotFoundError(
                f"{root / split} is not a folder; root={str(root)!r} must hold train/ and val/, "
                "each with one folder of images for each class"
            )
        found[split] = tuple(sorted(path.name for path in (root / split).iterdir() if path.is_dir()))
    if found["train"] != found["val"]:
        different = sorted(set(found["train"]) ^ set(found["val"]))
        raise ValueError(f"train/ and val/ in {root} differ in the classes {', '.join(different[:5])}; make them equal")
    return found["train"]


def _list_files(folder, names):
    """Image files in a stable order and their labels; every class must have one."""
    by_class = [
        sorted(path for path in (folder / name).iterdir() if path.suffix.lower() in _SUFFIXES) for name in names
    ]
    empty = [name for name, files in zip(names, by_class, strict=True) if not files]
    if empty or not names:
        raise FileNotFoundError(f"no images ({', '.join(sorted(_SUFFIXES))}) in {folder / (empty or [''])[0]}")
    labels = np.repeat(np.arange(len(names)), [len(files) for files in by_class])
    return [file for files in by_class for file in files], labels


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
        images = pool.map(lambda file: _decode(file, size), files)
        return np.stack(list(tqdm(images, total=len(files), desc="decoding", mininterval=5)))


def _eight_bits(image):
    """A grey image of more than eight bits with its range, 16 bits unless it is within 8, brought to 8."""
    from PIL import Image

    pixels = np.asarray(image, dtype=np.float64)
    return Image.fromarray((pixels / (257 if pixels.max() > 255 else 1)).clip(0, 255).astype(np.uint8))


def _decode(file, size):
    """One image as (size, size, 3) uint8."""
    from PIL import Image

    try:
        with Image.open(file) as image:
            image = (_eight_bits(image) if image.mode[0] in "IF" else image).convert("RGB")
    except (OSError, SyntaxError) as error:
        raise ValueError(f"{file} cannot be decoded ({error}); replace it, or remove it from the folder") from error
    scale = size / min(image.size)
    width, height = (max(size, round(side * scale)) for side in image.size)
    left, top = (width - size) // 2, (height - size) // 2
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image.crop((left, top, left + size, top + size)))
