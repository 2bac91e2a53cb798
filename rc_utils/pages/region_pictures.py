"""Pictures of regions: the labels on a triangle and along segments, one colour a class."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch, Polygon

from rc_utils.checks import require
from rc_utils.pages.plotting import width

# Tol's muted scheme: ten colours that also differ for colour-blind readers; class k has colour k mod 10.
CLASS_COLOURS = (
    *("#CC6677", "#332288", "#DDCC77", "#117733", "#88CCEE"),
    *("#882255", "#44AA99", "#999933", "#AA4499", "#DDDDDD"),
)

TRIANGLE = np.array([[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
"""Corners of an equilateral triangle in a picture."""


def class_colour(label: int) -> str:
    """The colour of a class; white for -1, which stands for outside."""
    return "white" if label < 0 else CLASS_COLOURS[int(label) % len(CLASS_COLOURS)]


def decision_regions(labels: np.ndarray, coordinates: np.ndarray, ax: Axes, *, vertices: np.ndarray = TRIANGLE) -> Axes:
    """Picture of the labels on the lattice of a triangle, one cell a lattice point (v1 Fig 6).

    `labels` (P,) are classes, -1 outside; `coordinates` (P, 3) are barycentric, as a `Lattice` has them; `vertices`
    (3, 2) place the three corners in the picture (default: an equilateral triangle), with equal scale on both axes.
    Raises ValueError for other shapes.
    """
    labels, coordinates = np.asarray(labels), np.asarray(coordinates, dtype=float)
    require(
        coordinates.shape == (*labels.shape, 3) and labels.ndim == 1,
        f"labels have shape {labels.shape} and coordinates {coordinates.shape}; expected (P,) and (P, 3)",
    )
    steps = np.diff(np.unique(np.round(coordinates[:, 1], 9)))
    hexagon = np.array([[2, -1, -1], [1, 1, -2], [-1, 2, -1], [-2, 1, 1], [-1, -1, 2], [1, -2, 1]]) / 3
    cells = coordinates[:, None, :] + (steps.min() if len(steps) else 1.0) * hexagon
    return _draw_labels(ax, cells, labels, np.asarray(vertices, dtype=float), None, linewidths=0.6)


def interpolated_regions(
    polygons: Sequence[np.ndarray], labels: np.ndarray, ax: Axes, class_names: Sequence[str] | None = None
) -> Axes:
    """Picture of the regions of a triangle as polygons (k, 3) in barycentric coordinates, each with its label."""
    return _draw_labels(ax, polygons, labels, TRIANGLE, class_names, linewidths=0, antialiased=False)


def _draw_labels(ax, polygons, labels, vertices, class_names, **look) -> Axes:
    colours = [class_colour(label) for label in labels]
    cells = PolyCollection([p @ vertices for p in polygons], facecolors=colours, edgecolors=colours, **look)
    cells.set_rasterized(True)  # thousands of cells: in a vector graphic they stay a picture
    outline = Polygon(vertices, fill=False, edgecolor="0.2", linewidth=1.2)
    ax.add_collection(cells)
    ax.add_patch(outline)
    cells.set_clip_path(outline)
    ax.set_aspect("equal")
    ax.autoscale_view()
    ax.axis("off")
    for index, vertex in enumerate(vertices):
        away = vertex - vertices.mean(0)
        away = away / (np.linalg.norm(away) or 1.0)
        place = {"textcoords": "offset points", "xytext": 13 * away, "ha": "center", "va": "center"}
        ax.annotate(f"$x_{index + 1}$", vertex, **place)
    _class_legend(ax, labels, class_names)
    return ax


def _class_legend(ax: Axes, labels: np.ndarray, class_names: Sequence[str] | None) -> None:
    present = [int(label) for label in np.unique(labels) if label >= 0]
    names = [f"class {label}" if class_names is None else str(class_names[label]) for label in present]
    patches = [Patch(color=class_colour(label), label=name) for label, name in zip(present, names, strict=True)]
    ax.legend(handles=patches, loc="center left", bbox_to_anchor=(1.02, 0.5), title="predicted")


def segment_strip(labels: np.ndarray, ax: Axes | None = None, *, class_names: Sequence[str] | None = None) -> Axes:
    """Strips that show the label along segments, with the number of regions beside each (v1 Fig 6).

    `labels` (P,) or (B, P), one row a segment, of points at equal distances. A label reaches half way to the next.
    """
    labels = np.atleast_2d(labels)
    alpha = np.linspace(0, 1, labels.shape[1])
    ax = plt.subplots(figsize=(width(), 1.2 + 0.4 * len(labels)))[1] if ax is None else ax
    edges = np.concatenate([alpha[:1], (alpha[1:] + alpha[:-1]) / 2, alpha[-1:]])
    for row, line in enumerate(labels):
        starts = np.concatenate([[0], np.flatnonzero(np.diff(line)) + 1])
        left, right = edges[starts], edges[np.append(starts[1:], len(line))]
        colours = [class_colour(label) for label in line[starts]]
        ax.barh(row, right - left, 0.7, left, color=colours, edgecolor="white", linewidth=0.8)
        ax.text(1, row, f"  {len(starts)}", va="center")
    ax.set(xlabel=r"position $\alpha$ on the segment", ylabel="segment", xlim=(0, 1))
    ax.set_yticks(range(len(labels)), [str(row + 1) for row in range(len(labels))])
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.set_title("regions", loc="right")
    ax.grid(False)
    _class_legend(ax, labels, class_names)
    ax.get_legend().set_bbox_to_anchor((1.06, 0.5))
    return ax
