"""Count the regions of a model in a file or module: `python -m rc_utils.count MODEL DATA`."""

import argparse
import collections
import importlib
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
from rc_utils.datasets.cache import decode

_KEYS = ("x_train", "x", "points", "images")


def load_model(name):
    """The model that `name` says, for `region_count`.

    - "module:name": a torch module, scikit-learn classifier or function of a batch; a class
      is called without arguments.
    - a file ".pt2" of torch.export, ".pt", ".pth" or ".ts" of TorchScript, ".onnx" (needs onnxruntime;
      "model.onnx:scores" names one of several outputs).

    Raises ValueError for another name, FileNotFoundError, and what the import of a module or the reader
    of a file raises.
    """
    file, _, output = name.partition(".onnx:")
    path = pathlib.Path(f"{file}.onnx" if output else name)
    if path.suffix in (".pt2", ".pt", ".pth", ".ts", ".onnx"):
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        if path.suffix == ".onnx":
            return _onnx(path, output)
        return _exported(path) if path.suffix == ".pt2" else _torchscript(path)
    module, _, attribute = name.partition(":")
    require(module and attribute.isidentifier(), f"model {name!r} is neither module:name nor a .pt2, .pt or .onnx file")
    if "" not in sys.path:
        sys.path.insert(0, "")
    found = importlib.import_module(module)
    require(hasattr(found, attribute), f"module {module} has no {attribute!r}")
    model = getattr(found, attribute)
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
    require(not objects, f"{path} holds objects that are not tensors ({', '.join(objects)}): these are not unpickled")
    try:
        with mock.patch.dict(os.environ, TORCH_FORCE_WEIGHTS_ONLY_LOAD="1"):
            module = torch.export.load(path).module()  # it has no modes: it is what it was exported as
    except pickle.UnpicklingError as error:
        raise ValueError(f"{path} holds pickled objects that are not tensors: these are not unpickled") from error
    return lambda batch: module(torch.from_numpy(batch))


def _onnx(path, output):
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    outputs = [found.name for found in session.get_outputs()]
    output = output or (outputs[0] if len(outputs) == 1 else "")
    known = ", ".join(f"{path}:{found}" for found in outputs)
    require(output in outputs, f"name one of the outputs of {path}: {known}")
    name = session.get_inputs()[0].name
    return lambda batch: session.run([output], {name: np.asarray(batch, dtype=np.float32)})[0]


def load_points(path, key=None, image_size=None):
    """Points (N, *shape) float32 as the model sees them.

    An .npz file: the array `key`, else the first of x_train, x, points, images that it has, else its only one. An .npy
    file: its array. Numbers are taken as they are, bytes as images (N, H, W, C) or (N, H, W). A folder: its images in
    RGB, links followed and hidden files passed over, cropped at the centre and resized to `image_size`. Images become
    (N, C, H, W) between 0 and 1.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        require(image_size, "the images of a folder are resized: give the model's size with --image-size")
        points = np.stack([decode(file, image_size) for file in _images_below(path)])
    elif path.suffix == ".npy":
        require(key is None, f"{path} holds one array: leave --points out")
        points = np.load(path, allow_pickle=False)
    else:
        require(path.suffix == ".npz", f"{path} is no .npz or .npy file and no folder: use np.savez(..., x=points)")
        with np.load(path, allow_pickle=False) as arrays:
            names = arrays.files
            key = key or next((k for k in _KEYS if k in names), names[0] if len(names) == 1 else None)
            require(key in names, f"{path} has the arrays {', '.join(names)}: name one with --points")
            points = arrays[key]
    require(points.dtype.kind in "buif", f"{path} holds points of type {points.dtype}, expected real numbers")
    if points.dtype != np.uint8:
        return points.astype(np.float32)
    images = points[..., None] if points.ndim == 3 else points
    fits = images.ndim == 4 and images.shape[-1] in (1, 3, 4)
    require(fits, f"bytes of shape {points.shape} are no images; expected (N, H, W) or (N, H, W, C), C = 1, 3 or 4")
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32) / 255


def _images_below(folder):
    """The files of images below a folder; prints how many they are, and how many others of each kind."""
    from PIL import Image

    known, files, others, entered = Image.registered_extensions(), [], collections.Counter(), set()
    for here, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if os.path.realpath(here) in entered:  # links may lead round in circles
            folders[:] = names[:] = []
        entered.add(os.path.realpath(here))
        for file in (pathlib.Path(here, name) for name in names if not name.startswith(".")):
            if file.suffix.lower() in known:
                files.append(file)
            else:
                others[file.suffix.lower() or "without a suffix"] += 1
    passed_over = [f"{number} {suffix}" for suffix, number in sorted(others.items())]
    found = f"{len(files)} images in {folder}" + (f"; not read: {', '.join(passed_over)}" if others else "")
    require(files, found)
    print(found)
    return sorted(files)


def standardise(points, mean, std):
    """(points - mean) / std, with one value or one per channel, the second axis."""
    for name, values in (("mean", mean), ("std", std)):
        fits = len(values) in (1, points.shape[1]) and np.isfinite(values).all()
        fits = fits and (name == "mean" or min(values) > 0)
        require(
            fits,
            f"--{name} is {' '.join(map(str, values))}; expected one finite number or one for each of the "
            f"{points.shape[1]} channels{', above 0' if name == 'std' else ''}",
        )
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
    add("--mean", type=float, nargs="+", default=[0.0], help="subtracted, one value or one per channel")
    add("--std", type=float, nargs="+", default=[1.0], help="divided by, one value or one per channel")
    add("--dim", type=int, default=1, help="1 counts on segments, 2 on triangles (default: 1)")
    add("--num-samples", type=int, default=100, help="segments or triangles (default: 100)")
    add("--resolution", type=int, help="points on each edge")
    add("--strategy", default="grid", help="grid or adaptive (default: grid)")
    add("--coarse", type=int, help="intervals that adaptive segments begin with: 8 for large networks")
    add("--seed", type=int, default=0, help="draws the segments (default: 0)")
    add("-o", "--output", default="regions.svg", help="the picture (default: regions.svg)")
    return parser


def main(argv=None):
    """The command line; returns the exit status."""
    args = _parser().parse_args(argv)
    try:
        model = load_model(args.model)
        points = standardise(load_points(args.data, args.points, args.image_size), args.mean, args.std)
        names = ("dim", "num_samples", "resolution", "strategy", "coarse", "seed")
        settings = {name: getattr(args, name) for name in names}
        count = region_count(model, points, **settings, progress=True)
        print(f"regions, with a 95 % interval: {correlation.mean(count.counts, 'samples')}")
        print(count)
        draw(model, points, args.output, args.seed)
    except Exception as error:  # models and readers of their files raise what they like
        print(f"error: {str(error) or repr(error)}", file=sys.stderr)
        return 1
    print(f"picture: {args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
