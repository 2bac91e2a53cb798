"""Count the regions of a model in a file or module: `python -m rc_utils.count MODEL DATA`."""

import argparse
import importlib
import inspect
import os
import pathlib
import pickle
import re
import sys
import warnings
import zipfile
from unittest import mock

import numpy as np
import torch

from rc_utils import correlation
from rc_utils.checks import require
from rc_utils.counting import label_grid, region_count, sample_vertices
from rc_utils.datasets.load import decode

_KEYS = ("x_train", "x", "points", "images")


def load_model(name):
    """The model that `name` says, for `region_count`.

    - "module:name": a torch module, scikit-learn classifier or function of a batch; a class
      is called without arguments.
    - a file ".pt2" of torch.export, ".pt", ".pth" or ".ts" of TorchScript, ".onnx" (needs
      onnxruntime).

    Raises ValueError for another name and for a file that cannot be read, FileNotFoundError, and
    what the import of a module raises.
    """
    path = pathlib.Path(name)
    if path.suffix in _READERS:
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        try:
            return _READERS[path.suffix](path)
        except (ValueError, ImportError):
            raise
        except Exception as error:  # readers raise what they like
            raise ValueError(f"{path}: {error}") from error
    module, _, attribute = name.partition(":")
    kinds = ", ".join(_READERS)
    require(module and attribute.isidentifier(), f"model {name!r} is neither module:name nor a {kinds}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    found = importlib.import_module(module)
    require(hasattr(found, attribute), f"module {module} has no {attribute!r}")
    model = getattr(found, attribute)
    takes_none = inspect.isfunction(model) and not inspect.signature(model).parameters
    require(not takes_none, f"{name} is a function without arguments: name the model that it makes")
    return model() if isinstance(model, type) else model


def _torchscript(path):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whoever has such a file cannot change how it was written
            return torch.jit.load(path, map_location="cpu")
    except RuntimeError as error:
        advice = "write a model by torch.jit.script(model).save(...), or name it as module:name"
        raise ValueError(f"{path} is no TorchScript file, and weights alone are no model: {advice}") from error


def _exported(path):
    with zipfile.ZipFile(path) as archive:
        objects = [name for name in archive.namelist() if re.search(r"/(custom|opaque)_obj_\d*$", name)]
    refused = f"{path} holds objects that are not tensors: these are not unpickled"
    require(not objects, refused)
    try:
        with mock.patch.dict(os.environ, TORCH_FORCE_WEIGHTS_ONLY_LOAD="1"):
            module = torch.export.load(path).module()  # it has no modes: it is what it was exported as
    except pickle.UnpicklingError as error:
        raise ValueError(refused) from error
    return lambda batch: module(torch.from_numpy(batch))


def _onnx(path):
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    name, outputs = session.get_inputs()[0].name, session.get_outputs()
    require(len(outputs) == 1, f"{path} has {len(outputs)} outputs: name a function as module:name that picks one")
    return lambda batch: session.run(None, {name: np.asarray(batch, dtype=np.float32)})[0]


_READERS = {".pt2": _exported, **dict.fromkeys((".pt", ".pth", ".ts"), _torchscript), ".onnx": _onnx}


def load_points(path, key=None, image_size=None):
    """Points (N, *shape) float32 as the model sees them.

    An .npz file: the array `key`, else the first of x_train, x, points, images that it has, else
    its only one. An .npy file: its array. Numbers are taken as they are, bytes as images
    (N, H, W, C) or (N, H, W). A folder: the images below it in RGB, cropped at the centre and
    resized to `image_size`. Images become (N, C, H, W) between 0 and 1.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        require(image_size, "the images of a folder are resized: give the model's size with --image-size")
        return _as_images(np.stack([decode(file, image_size) for file in _images_below(path)]))
    require(path.suffix in (".npz", ".npy"), f"{path} is no .npz or .npy file and no folder")
    points = np.load(path, allow_pickle=False)
    if path.suffix == ".npz":
        names = points.files
        key = key or next((k for k in _KEYS if k in names), names[0] if len(names) == 1 else None)
        require(key in names, f"{path} has the arrays {', '.join(names)}: name one with --points")
        points = points[key]
    require(points.dtype.kind in "buif", f"{path} is of type {points.dtype}, expected real numbers")
    return _as_images(points) if points.dtype == np.uint8 else points.astype(np.float32)


def _images_below(folder):
    from PIL import Image

    known = Image.registered_extensions()
    files = [f for f in sorted(folder.rglob("*")) if f.suffix.lower() in known and f.name[0] != "."]
    require(files, f"no images in {folder}")
    print(f"{len(files)} images in {folder}")
    return files


def _as_images(images):
    shape = images.shape
    images = images[..., None] if images.ndim == 3 else images
    fits = images.ndim == 4 and images.shape[-1] in (1, 3, 4)
    require(fits, f"bytes of shape {shape} are no images; expected (N, H, W) or (N, H, W, C), C = 1, 3 or 4")
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32) / 255


def standardise(points, mean, std):
    """(points - mean) / std, with one value or one for each channel, the second axis."""
    fit = all(len(values) in (1, points.shape[1]) and np.isfinite(values).all() for values in (mean, std))
    expected = f"expected one finite number or one for each of {points.shape[1]} channels, std above 0"
    require(fit and min(std) > 0, f"--mean is {mean}, --std is {std}; {expected}")
    shape = (-1, *[1] * (points.ndim - 2))
    return (points - np.float32(mean).reshape(shape)) / np.float32(std).reshape(shape)


def draw(model, points, path, seed=0):
    """Write a picture of the first segments and triangles that `seed` draws."""
    import matplotlib.pyplot as plt

    from rc_utils import plotting

    plotting.use_style()
    fig = plt.figure(figsize=(8, 7.5))
    above, below = fig.subfigures(2, 1, height_ratios=[4, 3])
    segments = sample_vertices(points, dim=1, num_samples=8, seed=seed).numpy()
    plotting.segment_strip(label_grid(model, segments).labels, ax=above.subplots())
    if len(points) > 2:
        triangles = sample_vertices(points, dim=2, num_samples=2, seed=seed).numpy()
        grid = label_grid(model, triangles)
        inside = tuple(grid.lattice.indices.T)
        for labels, corners, ax in zip(grid.labels, grid.vertices, below.subplots(1, 2), strict=True):
            plotting.decision_regions(labels[inside], grid.lattice.coordinates, ax, vertices=corners)
    fig.savefig(path)
    plt.close(fig)


def _parser():
    parser = argparse.ArgumentParser(prog="python -m rc_utils.count", description=__doc__.split(":")[0])
    add = parser.add_argument
    add("model", help="module:name, or a file of TorchScript, torch.export (.pt2) or ONNX")
    add("data", help="an .npz file or a folder of images")
    add("--points", metavar="KEY", help="the array of the .npz file")
    add("--image-size", type=int, help="to which the images of a folder are resized")
    add("--mean", type=float, nargs="+", default=[0.0], help="subtracted, one value or one a channel")
    add("--std", type=float, nargs="+", default=[1.0], help="divided by, one value or one a channel")
    add("--dim", type=int, default=1, help="1 counts on segments, 2 on triangles (default: 1)")
    add("--num-samples", type=int, default=100, help="segments or triangles (default: 100)")
    add("--resolution", type=int, help="points on each edge")
    add("--strategy", default="grid", help="grid or adaptive (default: grid)")
    add("--seed", type=int, default=0, help="draws the segments (default: 0)")
    add("-o", "--output", default="regions.svg", help="the picture (default: regions.svg)")
    return parser


def main(argv=None):
    """The command line; returns the exit status."""
    args = _parser().parse_args(argv)
    try:
        model = load_model(args.model)
        points = standardise(load_points(args.data, args.points, args.image_size), args.mean, args.std)
        settings = {name: getattr(args, name) for name in ("dim", "num_samples", "resolution", "strategy", "seed")}
        count = region_count(model, points, **settings, progress=True)
        print(f"regions, with a 95 % interval: {correlation.mean(count.counts, 'samples')}")
        print(count)
        draw(model, points, args.output, args.seed)
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"picture: {args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
