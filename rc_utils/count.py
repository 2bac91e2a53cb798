"""Count the regions of a model in a module or ONNX file: `python -m rc_utils.count MODEL DATA`."""

import argparse
import glob
import importlib
import inspect
import pathlib
import sys

import numpy as np

from rc_utils import correlation
from rc_utils.counting import label_grid, region_count, sample_vertices
from rc_utils.validation import require

_KEYS = ("x_train", "x", "points", "images")


def load_model(name):
    """The model of that name, for `region_count`.

    - "module:name": a torch module, scikit-learn classifier or function of a batch.
    - a file ".onnx" (needs onnxruntime); "model.onnx:scores" names one of several outputs.

    Raises ValueError for another name, and what the import of a module and onnxruntime raise;
    AttributeError where the module has no such name.
    """
    if name.endswith(".onnx") or ".onnx:" in name:
        stem, _, output = name.rpartition(".onnx")
        return _onnx(f"{stem}.onnx", output.removeprefix(":"))
    module, _, attribute = name.partition(":")
    known = "neither module:name nor a file .onnx; name weights by a module that loads them"
    require(module and attribute.isidentifier(), f"model {name!r} is {known}")
    model = getattr(importlib.import_module(module), attribute)
    signature = str(inspect.signature(model)) if inspect.isfunction(model) else ""
    takes_nothing = signature.startswith(("()", "(*,", "(**"))  # no place for a batch
    require(not takes_nothing, f"{name}() takes no batch: give what it returns a name of its own")
    return model


def _onnx(path, output):
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    entry, outputs = session.get_inputs()[0], [found.name for found in session.get_outputs()]
    chosen = [found for found in outputs if output in (found, "")]
    known = ", ".join(f"{path}:{found}" for found in outputs)
    require(len(chosen) == 1, f"name one of the outputs of {path}: {known}")
    dtype = np.float64 if entry.type == "tensor(double)" else np.float32

    def scores(batch):
        rows, found = np.asarray(batch, dtype=dtype), []
        # Many exported models take batches of one size alone: the last is filled with its own rows.
        fixed = [size for size in entry.shape[:1] if isinstance(size, int)]
        size = fixed[0] if fixed else len(rows)
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            whole = np.resize(part, (size, *part.shape[1:]))
            output = session.run(chosen, {entry.name: whole})[0]
            require(len(output) == size, f"{path} gives {len(output)} rows of scores for {size}")
            found.append(output[: len(part)])
        return np.concatenate(found)

    return scores


def load_points(path, key=None, image_size=None):
    """Points (N, *shape) as the model sees them: float32, or float64 where `region_count` has it.

    An .npz file: the array `key`, else the first of x_train, x, points, images that it has, else
    its only one. An .npy file: its array. Numbers are taken as they are, bytes as images
    (N, H, W, C) or (N, H, W). A folder: its images in RGB, links followed and hidden files passed
    over, cropped at the centre and resized to `image_size`. Images become (N, C, H, W) between 0
    and 1.
    """
    path = pathlib.Path(path)
    unused = (key and path.suffix != ".npz") or (image_size and not path.is_dir())
    require(not unused, "--points is for .npz files, --image-size for folders: leave it out")
    points = _images_in(path, image_size) if path.is_dir() else _array_in(path, key)
    if points.dtype != np.uint8:
        return points.astype(np.result_type(points.dtype, np.float32))
    images = points[..., None] if points.ndim == 3 else points
    fits = images.ndim == 4 and images.shape[-1] in (1, 3, 4)
    expected = "expected (N, H, W) or (N, H, W, C), C = 1, 3 or 4"
    require(fits, f"bytes of shape {points.shape} are no images; {expected}")
    images = np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32) / 255
    print(f"bytes are images: {images.shape} of numbers between 0 and 1")
    return images


def _images_in(folder, image_size):
    from PIL import Image

    require(image_size, "images are resized: give the model's size with --image-size")
    found = map(pathlib.Path, glob.glob(f"{glob.escape(str(folder))}/**/*", recursive=True))
    known = Image.registered_extensions()
    files = sorted(file for file in found if file.suffix.lower() in known)
    require(files, f"no images in {folder}")
    print(f"{len(files)} images in {folder}")
    return np.stack([decode(file, image_size) for file in files])


def decode(file, size):
    """The middle of an image as (size, size, 3) uint8; ValueError for none, or more than 8 bits."""
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as image:
            mode, image = image.mode, image.convert("RGB")
    except Exception as error:  # of any class, depending on which bytes are wrong
        raise ValueError(f"{file} cannot be decoded ({error}): replace or remove it") from error
    require(mode[0] not in "IF", f"{file} has pixels of mode {mode}: save it with 8 bits")
    return np.asarray(ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR))


def _array_in(path, key):
    fault = f"{path} is no .npz or .npy file and no folder"
    require(path.suffix in (".npz", ".npy"), f"{fault}: use np.savez(..., x=points)")
    try:
        points = np.load(path)
    except ValueError as error:  # NumPy's advice is to unpickle it
        raise ValueError(f"{path} is damaged, or holds other things than numbers") from error
    if path.suffix == ".npz":
        names = points.files
        only = names[0] if len(names) == 1 else None
        key = key or next((k for k in _KEYS if k in names), only)
        require(key in names, f"{path} has the arrays {', '.join(names)}: name one with --points")
        points = points[key]
    found = f"{path} holds points of type {points.dtype} and shape {points.shape}"
    fits = points.dtype.kind in "buif" and points.ndim > 1
    require(fits, f"{found}, expected real numbers (N, *shape), so (N, 1) for one feature")
    return points


def standardise(points, mean, std):
    """(points - mean) / std, with one value or one per channel, the second axis."""
    for name, values in (("mean", mean), ("std", std)):
        expected = f"expected one finite number or one for each of the {points.shape[1]} channels"
        fits = len(values) in (1, points.shape[1]) and np.isfinite(values).all()
        require(fits, f"--{name} is {values}; {expected}")
    require(min(std) > 0, f"--std is {std}; expected numbers above 0")
    of_bytes = max(*mean, *std) > 1 and points.min() >= 0 and points.max() <= 1
    fault = f"--mean is {mean} and --std is {std}, and points are between 0 and 1"
    require(not of_bytes, f"{fault}: divide by 255 what was taken of bytes")
    shape = (-1, *[1] * (points.ndim - 2))
    mean, std = np.array(mean, points.dtype), np.array(std, points.dtype)
    return (points - mean.reshape(shape)) / std.reshape(shape)


def draw(model, points, path, seed, resolution, batch_size):
    """Write a picture of the first segments, on grids of `resolution`, and of two triangles."""
    import matplotlib.pyplot as plt

    from rc_utils import plotting

    plotting.use_style()
    fig = plt.figure(figsize=(8, 7.5))
    above, below = fig.subfigures(2, 1, height_ratios=[4, 3])
    segments = sample_vertices(points, dim=1, num_samples=8, seed=seed).numpy()
    strips = label_grid(model, segments, resolution=resolution, batch_size=batch_size)
    plotting.segment_strip(strips, ax=above.subplots())
    if len(points) > 2:
        triangles = sample_vertices(points, dim=2, num_samples=2, seed=seed).numpy()
        grids = label_grid(model, triangles, batch_size=batch_size)
        for labels, ax in zip(grids, below.subplots(1, 2), strict=True):
            plotting.decision_regions(labels, ax)
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path)
    plt.close(fig)


def _parser():
    description = __doc__.split(":")[0]
    parser = argparse.ArgumentParser(prog="python -m rc_utils.count", description=description)
    add, floats = parser.add_argument, {"type": float, "nargs": "+"}
    add("model", help="module:name, or an ONNX file")
    rows = "what has predict gets each image as a row, its channels one after the other"
    add("data", help=f"an .npz or .npy file, or a folder of images; {rows}")
    add("--points", metavar="KEY", help="the array of the .npz file")
    add("--image-size", type=int, help="to which the images of a folder are resized")
    add("--mean", **floats, default=[0.0], help="subtracted, one value or one per channel")
    add("--std", **floats, default=[1.0], help="divided by, one value or one per channel")
    add("--dim", type=int, default=1, help="1 counts on segments, 2 on triangles (default: 1)")
    add("--num-samples", type=int, default=100, help="segments or triangles (default: 100)")
    add("--resolution", type=int, help="points on each edge")
    add("--strategy", default="grid", help="grid or adaptive (default: grid)")
    add("--coarse", type=int, help="intervals of adaptive segments: 8 for large networks")
    add("--batch-size", type=int, help="points in one forward pass, where the model takes no other")
    add("--seed", type=int, default=0, help="draws the segments (default: 0)")
    add("-o", "--output", default="regions.svg", help="picture of grids (default: regions.svg)")
    return parser


def main(argv=None):
    """The command line; returns the exit status."""
    args = vars(_parser().parse_args(argv))
    output = args.pop("output")
    try:
        require(pathlib.Path(output).suffix, f"--output {output} has no suffix, such as .svg")
        model = load_model(args.pop("model"))
        points = load_points(args.pop("data"), args.pop("points"), args.pop("image_size"))
        points = standardise(points, args.pop("mean"), args.pop("std"))
        count = region_count(model, points, **args, progress=True)
        unit = {1: "segments", 2: "triangles"}.get(args["dim"], "simplices")
        print(f"regions, with a 95 % interval: {correlation.mean(count.counts, unit)}")
        print(count)
        resolution = args["resolution"] if args["dim"] == 1 else None
        try:
            draw(model, points, output, args["seed"], resolution, args["batch_size"])
        except (ValueError, ImportError) as error:  # a score may look like a probability
            output = f"none ({error})"
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as error:  # those of onnxruntime, zipfile, NumPy and models share no class
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(f"picture: {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
