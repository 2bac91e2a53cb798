"""Pretrained ImageNet networks in the book: the guide's table, the first page's picture.

    python campaigns/imagenet/hero.py

is a part of `make imagenet`, which installs what it needs. It draws the regions of
EfficientNet-Lite0 between three photographs, as the adaptive count finds them, and writes their
numbers into the caption.
"""

import base64
import colorsys
import html
import importlib
import io
import pathlib
import re

import numpy as np
import pandas as pd
import torch
from matplotlib.path import Path
from PIL import Image

from campaigns.imagenet.count import BATCH_SIZE, RESULTS, SIZES, load_network, segment_table
from rc_utils.correlation import interval_text
from rc_utils.counting import outlines, triangle_regions
from rc_utils.counting.mesh import area
from rc_utils.paths import write_atomically

BOOK = pathlib.Path(__file__).resolve().parents[2] / "book"
PICTURE = BOOK / "_static" / "hero.svg"
# CC0 by Stefan van der Walt and by Rachel Michetti, public domain by SpaceX (`skimage.data`).
PHOTOGRAPHS = {"cat": "chelsea.png", "cup of coffee": "coffee.png", "rocket": "rocket.jpg"}
START, END = "<!-- hero: written by `python campaigns/imagenet/hero.py` -->", "<!-- end of hero -->"
CORNERS = np.array([[45, 680], [675, 680], [360, 680 - 630 * 0.75**0.5]])
SQUARES = ((2, 425), (598, 425), (300, 2))  # where the photographs lie, 120 wide
FONTS = {22: 0.9, 18: 0.7}  # font size -> least share of a name that lies inside its region


def photographs(size):
    """The middle squares of three photographs, (3, 3, size, size) in [0, 1], and as images."""
    folder, squares = pathlib.Path(importlib.import_module("skimage").__file__).parent / "data", []
    for name in PHOTOGRAPHS.values():
        image = Image.open(folder / name).convert("RGB")
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        square = image.crop((left, top, left + side, top + side))
        squares.append(square.resize((size, size), Image.Resampling.BICUBIC))
    arrays = np.stack([np.asarray(square, np.float32) / 255 for square in squares])
    return torch.from_numpy(arrays.transpose(0, 3, 1, 2)), squares


def straightened(path):
    """A closed path (n, 2) without the points on the line between their neighbours."""
    before, after = path - np.roll(path, 1, 0), np.roll(path, -1, 0) - path
    bend = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    return path[np.abs(bend) > 0.02]


def inside(paths, places):
    """Boolean array (P,): whether places (P, 2) lie inside closed paths."""
    found = np.zeros(len(places), dtype=bool)
    for path in paths:
        found ^= Path(path).contains_points(places)
    return found


def place_of_name(paths, half):
    """Centre of the box of half size `half` (2,) that lies inside the paths most, and that share.

    Boxes that leave the triangle do not count.
    """
    box = np.stack(np.meshgrid(*[np.linspace(-1, 1, 7)] * 2), -1).reshape(-1, 2) * half
    points = np.concatenate(paths)
    axes = [np.linspace(*ends, 50) for ends in zip(points.min(0), points.max(0), strict=True)]
    places = np.stack(np.meshgrid(*axes), -1).reshape(-1, 2)
    boxes = (places[:, None] + box).reshape(-1, 2)
    covered = inside(paths, boxes).reshape(len(places), -1).mean(1)
    covered *= inside([CORNERS], boxes).reshape(len(places), -1).all(1)
    best = places[covered > covered.max() - 1e-9]
    away = best - best.mean(0)
    return best[np.hypot(away[:, 0], away[:, 1]).argmin()], covered.max()


def name_of(paths, rows, taken):
    """SVG elements of a name's lines, none if it fits nowhere; adds its place to `taken`."""
    for font, least in FONTS.items():
        half = np.array([0.28 * font * max(map(len, rows)), 0.5 * font * len(rows)])
        place, covered = place_of_name(paths, half)
        hides = any((np.abs(place - other) < half + size).all() for other, size in taken)
        if covered >= least and not hides:
            taken.append((place, half))
            heights = place[1] + font * (np.arange(len(rows)) - len(rows) / 2 + 0.8)
            return [
                f'<text x="{place[0]:.0f}" y="{y:.0f}" font-size="{font}">{html.escape(row)}</text>'
                for y, row in zip(heights, rows, strict=True)
            ]
    return []


def picture(polygons, labels, regions, names, squares, words):
    """SVG of the named regions of a triangle, with the images `squares` at its corners."""
    paths = outlines([polygon @ CORNERS for polygon in polygons], labels)
    areas = {label: sum(area(path) for path in own) for label, own in paths.items()}
    whole, largest_first = sum(areas.values()), sorted(areas, key=areas.get, reverse=True)
    shares = {label: areas[label] / whole for label in largest_first}
    parts, texts, taken = [], [], []
    for rank, (label, share) in enumerate(shares.items()):
        lightness = (0.78, 0.68, 0.86)[rank % 3]
        rgb = colorsys.hls_to_rgb(rank * 0.618034 % 1, lightness, 0.6)
        colour = "#" + "".join(f"{round(255 * one):02x}" for one in rgb)
        lines = "".join(
            "M" + " ".join(f"{x:.1f},{y:.1f}" for x, y in straightened(path)) + "Z"
            for path in paths[label]
        )
        title = f"{html.escape(names[label])}: {100 * share:.1f} % of the triangle"
        parts.append(f'<path fill="{colour}" d="{lines}"><title>{title}</title></path>')
        texts += name_of(paths[label], names[label].split(), taken)
    frames = []
    for (x, y), corner, square in zip(SQUARES, CORNERS, squares, strict=True):
        line = f"M{x + 60},{y + 120}L{corner[0]:.0f},{corner[1]:.0f}"
        frames.append(f'<path stroke="currentColor" d="{line}"/>')
        buffer = io.BytesIO()
        square.resize((200, 200)).save(buffer, "JPEG", quality=80)
        data = f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"
        frames.append(f'<image x="{x}" y="{y}" width="120" height="120" href="{data}"/>')
    told = told_of(shares, regions, names, words)
    drawn = 'stroke="#222" stroke-width="1.2" stroke-linejoin="round" fill-rule="evenodd"'
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="rc-hero" viewBox="0 0 720 700" role="img" '
        f'aria-label="{told}" font-family="sans-serif"><g {drawn}>{"".join(parts)}</g>'
        f'<g text-anchor="middle" fill="#111" pointer-events="none">{"".join(texts)}</g>'
        f"{''.join(frames)}</svg>\n"
    )


def told_of(shares, regions, names, words):
    """Description of the picture for screen readers, as HTML."""
    largest = ", ".join(names[label] for label in list(shares)[:5])
    return html.escape(
        f"A triangle whose corners are photographs of a {words[0]}, a {words[1]} and a {words[2]}. "
        "Each point is a mixture of the three, coloured by the class that EfficientNet-Lite0 "
        f"predicts: {len(shares)} classes in {regions} regions. The largest are {largest}."
    )


def main():
    """Write the guide's table, counts between photographs, the picture and its caption."""
    shown_table(pd.read_csv(RESULTS)).to_csv(BOOK / "guide" / "imagenet.csv", index=False)
    count_between()
    draw_picture()


def shown_table(results):
    """Results as the guide's table: one column per network, intervals as text."""
    shown = {"accuracy on ImageNet, %": results["accuracy"].astype(str)}
    heads = {"regions": "regions", "labels": "different labels"}
    heads |= {"foreign_share": "share with neither end's label", "more": "regions more than Lite0"}
    for column, head in heads.items():
        bounds = results[[column, f"{column}_low", f"{column}_high"]].to_numpy()
        shown[head] = [interval_text(*row) if np.ptp(row) else "–" for row in bounds]
    shown["segments"] = results["segments"].astype(str)
    shown["evaluations a segment"] = results["evaluations"].round(1).astype(str)
    table = pd.DataFrame(shown).set_axis(results["network"].str.removeprefix("EfficientNet-")).T
    return table.rename_axis(index="network", columns=None).reset_index()


def count_between():
    """Write campaigns/imagenet/photographs.csv: counts on the segments between photographs."""
    words, tables = list(PHOTOGRAPHS), []
    for name, size in SIZES.items():
        pairs = photographs(size)[0][torch.tensor([[0, 1], [1, 2], [2, 0]])]
        table = segment_table(load_network(name), pairs, batch_size=BATCH_SIZE).round(3)
        table.insert(0, "segment", [f"{words[k]} to {words[(k + 1) % 3]}" for k in range(3)])
        tables.append(table.assign(network=f"EfficientNet-{name.capitalize()}"))
    RESULTS.parent.mkdir(exist_ok=True)
    pd.concat(tables).to_csv(RESULTS.with_name("photographs.csv"), index=False)


def draw_picture():
    """Write the picture, and insert it with its caption into the first page."""
    network, (images, squares) = load_network("lite0"), photographs(224)
    names = importlib.import_module("torchvision.models._meta")._IMAGENET_CATEGORIES
    polygons, labels, regions = triangle_regions(network, images[None])
    drawn = picture(polygons, labels, regions, names, squares, list(PHOTOGRAPHS))
    write_atomically(PICTURE, drawn.encode())
    page = BOOK / "intro.md"
    text, block = page.read_text(encoding="utf-8"), caption(len(np.unique(labels)), regions)
    replaced = re.sub(f"{re.escape(START)}.*{re.escape(END)}", lambda _: block, text, flags=re.S)
    write_atomically(page, replaced.encode())


def caption(number, regions):
    """Markdown of the picture and its caption for the first page."""
    shown = "```{raw} html\n:file: _static/hero.svg\n```"
    told = (
        "*EfficientNet-Lite0 (ImageNet) between a cat, coffee and a rocket: "
        f"{number} classes in {regions} regions. "
        "[Photographs](guide/your_model.md#a-pretrained-imagenet-network).*"
    )
    return "\n\n".join([START, shown, told, END])


if __name__ == "__main__":
    main()
