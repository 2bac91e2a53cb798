"""One style for every figure, and the figures that several pages share.

Networks keep their colour and marker on every page. Class k has colour k of a scheme for
colour-blind readers, or in a picture with classes from 10 on a colour of its own.
"""

import colorsys
import itertools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Polygon
from matplotlib.ticker import LogLocator, NullFormatter

from rc_utils.correlation import Estimate, correlate, distinct_settings
from rc_utils.validation import check_keys, require

# Okabe and Ito's colours without yellow, which is too faint for markers on white.
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
YELLOW, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
# A ramp for what is ordered, such as batch sizes, without the colours that stand for networks.
BLUES = mpl.colors.ListedColormap(mpl.colormaps["Blues"](np.linspace(0.45, 1, 256)))
# Tol's muted scheme.
CLASS_COLOURS = (
    *("#CC6677", "#332288", "#DDCC77", "#117733", "#88CCEE"),
    *("#882255", "#44AA99", "#999933", "#AA4499", "#DDDDDD"),
)
TRIANGLE = np.array([[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])  # corners of a triangle in a picture

_NETWORKS = {
    "ResNet18": (BLUE, "o"),
    "EfficientNetB0": (ORANGE, "s"),
    "SENet18": (GREEN, "^"),
    "ResNet34": (SKY, "D"),
    "VGG19": (YELLOW, "v"),
    "MobileNetV2": (PINK, "P"),
    "ShuffleNetV2": (BLACK, "X"),
    "RegNetX_200MF": (BLUE, "<"),
    "SimpleDLA": (ORANGE, ">"),
    "MLP": (GREEN, "p"),
    "DecisionTree": (PINK, "h"),
    "RandomForest": (BLACK, "*"),
}
# Purple, brown, crimson, grey; a thin diamond and stars: not easily taken for a known network's.
_OTHER_COLOURS = ("#6A3D9A", "#8C510A", "#A50026", "#666666")
_OTHER_MARKERS = ("d", (4, 1, 0), (6, 1, 0), (8, 1, 0))

LABELS = {
    "count": "region count (mean number of regions)",
    "gap": "generalisation gap (train − test accuracy)",
    "train_accuracy": "training accuracy",
    "distance_from_init": "distance from initialisation",
    "margin": "output margin",
    "lr": "learning rate",
    "batch_size": "batch size (images)",
}


def use_style() -> None:
    """Set the style of all figures that follow: SVG in a notebook, 6 inches wide.

    On a phone such a figure is little more than half as wide, and its letters can still be read.
    Tables in a notebook show whole sentences, and no index that only counts their rows.
    """
    plt.style.use("rc_utils.figures")  # figures.mplstyle beside this file
    pd.set_option("display.max_colwidth", None)
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        shell.run_line_magic("config", "InlineBackend.figure_format = 'svg'")
        shell.display_formatter.formatters["text/html"].for_type(pd.DataFrame, _table)


def _table(frame):
    """A table as HTML, without an index that only counts its rows."""
    if frame.index.nlevels == frame.columns.nlevels == 1 and frame.columns.name is None:
        # The index's name above it, not in a row of its own.
        frame = frame.rename_axis(index=None, columns=frame.index.name)
    look = {"border": 0, "na_rep": "", "max_rows": pd.get_option("display.max_rows")}
    only_counts = isinstance(frame.index, pd.RangeIndex) and frame.columns.name is None
    return frame.to_html(index=not only_counts, **look)


def width() -> float:
    """Width of a figure in inches, once the style is set."""
    return mpl.rcParams["figure.figsize"][0]


def network_styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """{"color", "marker"} of each network of a figure; those not known here take others in turn."""
    styles: dict[str, tuple] = dict(_NETWORKS)
    others = [name for name in dict.fromkeys(names) if name not in _NETWORKS]
    for i, name in enumerate(others):  # four differ in both, sixteen in one
        styles[name] = _OTHER_COLOURS[i % 4], _OTHER_MARKERS[(i + i // 4) % 4]
    return {name: {"color": styles[name][0], "marker": styles[name][1]} for name in names}


def label_of(column: str) -> str:
    """Axis label of a column of the runs, with its unit."""
    return LABELS.get(column, column.replace("_", " "))


def _settings(runs, columns):
    """Finished runs averaged over replicates, unless they are rows of settings already."""
    check_keys("the runs", columns, runs.columns)
    return distinct_settings(runs) if "run_id" in runs.columns else runs


def scatter_count_gap(
    runs: pd.DataFrame, *, x: str = "count", y: str = "gap", ax: Axes | None = None
) -> Axes:
    """Scatter of two columns with a marker and a least-squares line for each network (v1 Fig 2, 5).

    One point per setting, replicates averaged, diverged runs left out; hollow points do not
    interpolate; the legend gives Pearson's r. Raises ValueError for a missing column.
    """
    points = _settings(runs, ["network", "interpolates", x, y])
    ax = plt.subplots()[1] if ax is None else ax
    handles, styles = [], network_styles(points["network"])
    for network, group in points.groupby("network", sort=False):
        style, text = styles[network], network
        fits = group["interpolates"].isin([True])
        for rows, face in ((group[fits], style["color"]), (group[~fits], "none")):
            look = {"marker": style["marker"], "edgecolor": style["color"], "facecolor": face}
            ax.scatter(rows[x], rows[y], s=50, alpha=0.85, linewidth=1.2, **look)
        r = correlate(group[x], group[y]).value
        if np.isfinite(r):
            text += f", r = {r:.2f}"
            low, high = group[x].min(), group[x].max()
            # Many points, since on a logarithmic axis the line is a curve.
            along = np.geomspace(low, high, 50) if low > 0 else np.array([low, high])
            line = np.polyval(np.polyfit(group[x], group[y], 1), along)
            ax.plot(along, line, color=style["color"], alpha=0.4, linewidth=1.5, zorder=1)
        handles.append(Line2D([], [], label=text, **style, linestyle="none"))
    if not points["interpolates"].isin([True]).all():
        look = {"color": "0.3", "marker": "o", "mfc": "none", "linestyle": "none"}
        handles.append(Line2D([], [], label="training accuracy\nbelow 0.99", **look))
    ax.set(xlabel=label_of(x), ylabel=label_of(y))
    beside = {"loc": "upper left", "bbox_to_anchor": (1, 1), "fontsize": 9}
    ax.legend(handles=handles, **beside if len(handles) > 5 else {"loc": "best"})
    return ax


def intervals(
    ax: Axes,
    found: Mapping[str, Estimate],
    *,
    color: str | Sequence[str] = BLUE,
    marker: str = "o",
    shift: float = 0.0,
    label: str | None = None,
) -> None:
    """Estimates with their 95 % intervals, a row for each name; NaN leaves a row empty."""
    colors = [color] * len(found) if isinstance(color, str) else color
    ax.set_yticks(range(len(found)), found)
    for row, (estimate, own) in enumerate(zip(found.values(), colors, strict=True)):
        ax.plot([estimate.low, estimate.high], [row + shift] * 2, color=own, linewidth=2)
        ax.plot(estimate.value, row + shift, marker, color=own, label=label if row == 0 else None)


def lr_batch_panels(runs: pd.DataFrame, column: str = "count") -> Figure:
    """`column` against the learning rate, a line per batch size, a panel per network (v1 Fig 3).

    Points are means over the other hyper-parameters after averaging replicates. More than eight
    batch sizes have a colour bar in place of a legend. A network without values has no panel.
    """
    needed = ["network", "lr", "batch_size", column]
    points = _settings(runs, needed).dropna(subset=needed)
    require(len(points), f"no run has a value of {column!r}: nothing can be shown")
    networks = points["network"].unique()
    means = points.pivot_table(column, ["network", "lr"], "batch_size")
    few, norm = len(means.columns) <= 8, mpl.colors.LogNorm(*means.columns[[0, -1]])
    ramp = BLUES(np.linspace(0, 1, len(means.columns)) if few else norm(means.columns))
    rows = math.ceil(len(networks) / 3)
    size = (width(), 0.4 + 3.2 * rows)
    fig, axes = plt.subplots(rows, min(3, len(networks)), squeeze=False, figsize=size)
    for ax, network in zip(axes.flat, networks, strict=False):
        own = means.loc[network]
        markers = itertools.cycle("os^Dv<>")
        for color, marker, batch in zip(ramp, markers, means.columns, strict=False):
            line, look = own[batch].dropna(), {"color": color, "marker": marker, "linewidth": 1.5}
            ax.plot(line.index, line, label=f"batch size {batch:g}", **look)
        ax.set(title=network, xscale="log", xlabel=label_of("lr"))
        if few:
            ax.set_xticks(own.index, [f"{lr:g}" for lr in own.index], fontsize=10)
            ax.minorticks_off()
        else:
            plain_ticks(ax.xaxis)
    for ax in axes.flat[len(networks) :]:
        ax.set_visible(False)
    fig.supylabel(label_of(column))
    if few:
        handles, labels = axes.flat[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=min(4, len(labels)))
    else:  # as where settings are drawn from ranges
        fig.colorbar(mpl.cm.ScalarMappable(norm, BLUES), ax=axes, label=label_of("batch_size"))
    return fig


def plain_ticks(axis: Axis) -> None:
    """Label a logarithmic axis in plain numbers: at 1, 2, 5, 10, ... or powers of ten alone."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high <= 100 * low else (1,)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def class_colours(labels: np.ndarray) -> dict[int, str]:
    """Colour of each class among `labels`."""
    present, colours = np.unique(labels).tolist(), {}
    for place, label in enumerate(present):
        colours[label] = CLASS_COLOURS[label % len(CLASS_COLOURS)]
        if present[-1] >= len(CLASS_COLOURS):
            # Golden-ratio steps around the colour circle, in three lightnesses: all differ.
            hue, light = place * 0.618034 % 1, (0.35, 0.55, 0.75)[place % 3]
            colours[label] = mpl.colors.to_hex(colorsys.hls_to_rgb(hue, light, 0.65))
    return colours


def decision_regions(
    labels: np.ndarray, ax: Axes, class_names: Sequence[str] | None = None
) -> Axes:
    """Picture of the labels (R, R) of a triangle on a grid, -1 outside, by hexagons (v1 Fig 6)."""
    inside, steps = np.argwhere(labels >= 0), len(labels) - 1
    places = np.column_stack([steps - inside.sum(1), inside])  # barycentric, times `steps`
    hexagon = [[2, -1, -1], [1, 1, -2], [-1, 2, -1], [-2, 1, 1], [-1, -1, 2], [1, -2, 1]]
    polygons = (places[:, None, :] + np.array(hexagon) / 3) / steps
    return interpolated_regions(polygons, labels[labels >= 0], ax, class_names)


def interpolated_regions(
    polygons: Sequence,
    labels: np.ndarray,
    ax: Axes,
    class_names: Sequence[str] | None = None,
    *,
    bare: bool = False,
) -> Axes:
    """Picture of the regions of a triangle as polygons (k, 3) in barycentric coordinates.

    bare: without a legend and names of the corners.
    """
    colour_of = class_colours(labels)
    colours = [colour_of[int(label)] for label in labels]
    places = [polygon @ TRIANGLE for polygon in polygons]
    cells = PolyCollection(places, facecolors=colours, linewidths=0, antialiased=False)
    cells.set_rasterized(True)  # thousands of polygons would swell an SVG
    outline = Polygon(TRIANGLE, fill=False, edgecolor="0.2", linewidth=1.2)
    ax.add_collection(cells)
    ax.add_patch(outline)
    cells.set_clip_path(outline)
    ax.set_aspect("equal")
    ax.autoscale_view()
    ax.axis("off")
    if not bare:
        for index, vertex in enumerate(TRIANGLE):
            away = vertex - TRIANGLE.mean(0)
            place = {"textcoords": "offset points", "xytext": 13 * away / np.linalg.norm(away)}
            ax.annotate(f"$x_{index + 1}$", vertex, ha="center", va="center", **place)
        _class_legend(ax, colour_of, class_names, 1.02)
    return ax


def _class_legend(ax, colours, class_names, left):
    names = dict(enumerate([] if class_names is None else class_names))
    patches = [Patch(color=c, label=names.get(k, f"class {k}")) for k, c in colours.items()]
    ax.legend(handles=patches, loc="center left", bbox_to_anchor=(left, 0.5), title="predicted")


def segment_strip(
    labels: np.ndarray, ax: Axes | None = None, *, class_names: Sequence[str] | None = None
) -> Axes:
    """Strips of the labels along segments, with the number of regions beside each (v1 Fig 6).

    labels: (P,) or (B, P), a row per segment, at equal distances; each reaches halfway to the next.
    """
    labels = np.atleast_2d(labels)
    alpha = np.linspace(0, 1, labels.shape[1])
    ax = plt.subplots(figsize=(width(), 1.2 + 0.4 * len(labels)))[1] if ax is None else ax
    edges = np.concatenate([alpha[:1], (alpha[1:] + alpha[:-1]) / 2, alpha[-1:]])
    colour_of = class_colours(labels)
    for row, line in enumerate(labels):
        starts = np.concatenate([[0], np.flatnonzero(np.diff(line)) + 1])
        left, right = edges[starts], edges[np.append(starts[1:], len(line))]
        colours = [colour_of[int(label)] for label in line[starts]]
        ax.barh(row, right - left, 0.7, left, color=colours, edgecolor="white", linewidth=0.8)
        ax.text(1, row, f"  {len(starts)}", va="center")
    ax.set(xlabel=r"position $\alpha$ on the segment", ylabel="segment")
    ax.set(xlim=(0, 1), ylim=(len(labels) - 0.5, -0.5))
    ax.set_yticks(range(len(labels)), range(1, len(labels) + 1))
    ax.set_title("regions", loc="right")
    ax.grid(False)
    _class_legend(ax, colour_of, class_names, 1.06)
    return ax
