"""One figure style for every page: fixed colours and markers, labelled axes, white background, vector friendly."""

from __future__ import annotations

import sys
import zlib
from dataclasses import dataclass

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rc_utils.correlation import average_replicates, correlate, finished, require_columns

# Okabe and Ito's colours without yellow, which is too faint for markers on white.
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
YELLOW, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
_STYLES = {
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
# Purple, brown, crimson, grey; a thin diamond and stars (rays, 1, angle): not easily taken for a known network's.
_OTHER_COLOURS = ("#6A3D9A", "#8C510A", "#A50026", "#666666")
_OTHER_MARKERS = ("d", (4, 1, 0), (6, 1, 0), (8, 1, 0))

LABELS = {
    "count": "region count (mean over simplices)",
    "gap": "generalisation gap (train − test accuracy)",
    "train_accuracy": "training accuracy",
    "lr": "learning rate",
    "batch_size": "batch size (images)",
}

# What a point says of its run, beside the network and the run's id.
_WORDS = {
    "lr": "learning rate",
    "batch_size": "batch size",
    "seed": "seed",
    "count": "region count",
    "train_accuracy": "training accuracy",
    "test_accuracy": "test accuracy",
}

_STYLE = {
    "figure.figsize": (8.0, 4.8),
    "figure.dpi": 100,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E5E5E5",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.labelsize": 12,
    "legend.fontsize": 11,
    "legend.frameon": False,
    "lines.markersize": 7,
    # Text stays text, and the same figure gives the same file.
    "svg.fonttype": "none",
    "svg.hashsalt": "rc_utils",
    "pdf.fonttype": 42,
}


@dataclass(frozen=True)
class NetworkStyle:
    """Colour and marker of a network, the same on every page."""

    color: str
    marker: str | tuple[int, int, int]


def use_style() -> None:
    """Set this project's style for all figures that follow: 8 inches wide at 100 dots an inch, 800 pixels.

    In a notebook, figures are vector graphics (SVG), as the pages of the book offer them for download.
    """
    mpl.rcParams.update(_STYLE)
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        shell.run_line_magic("config", "InlineBackend.figure_format = 'svg'")


def width() -> float:
    """The width of a figure in inches, once the style is set."""
    return mpl.rcParams["figure.figsize"][0]


def network_style(name: str) -> NetworkStyle:
    """The fixed style of a known network; any other name gets one that depends on the name alone.

    Neither colours nor markers of other networks are those of known ones; two others may share a style.
    """
    if name in _STYLES:
        return NetworkStyle(*_STYLES[name])
    code = zlib.crc32(name.encode())
    shape = code // len(_OTHER_COLOURS) % len(_OTHER_MARKERS)
    return NetworkStyle(_OTHER_COLOURS[code % len(_OTHER_COLOURS)], _OTHER_MARKERS[shape])


def label_of(column: str) -> str:
    """The axis label of a column of the runs, with its unit where it has one."""
    return LABELS.get(column, column.replace("_", " "))


def scatter_count_gap(runs: pd.DataFrame, *, x: str = "count", y: str = "gap") -> Axes:
    """Scatter of two columns with a marker and a least-squares line for each network (v1 Fig 2 and 5).

    One point a setting, replicates averaged; hollow points do not interpolate; the legend gives the Pearson correlation
    of each network with more than two points. Diverged runs are left out. Raises ValueError for a missing column.
    """
    require_columns(runs, ["network", "cell", "interpolates", x, y])
    points = finished(average_replicates(runs))
    _, ax = plt.subplots()
    handles = []
    for network, group in points.groupby("network", sort=False):
        style = network_style(str(network))
        fits = group["interpolates"].astype(bool)
        for rows, face in ((group[fits], style.color), (group[~fits], "none")):
            look = {"marker": style.marker, "edgecolor": style.color, "facecolor": face, "linewidth": 1.2}
            ax.scatter(rows[x], rows[y], s=50, alpha=0.85, urls=words_of_points(rows), **look)
        r = correlate(group[x], group[y]).value
        if np.isfinite(r):
            least_squares_line(ax, group[x], group[y], style.color)
        text = f"{network}, r = {r:.2f}" if np.isfinite(r) else str(network)
        handles.append(Line2D([], [], color=style.color, marker=style.marker, linestyle="none", label=text))
    if not points["interpolates"].all():
        handles.append(Line2D([], [], color="0.3", marker="o", mfc="none", linestyle="none", label="not interpolating"))
    ax.set(xlabel=label_of(x), ylabel=label_of(y))
    ax.legend(handles=handles, loc="best")
    return ax


def words_of_points(rows: pd.DataFrame) -> list[str]:
    """What each point of a figure is, as the address of its link in the SVG; the book shows it to who points at it."""
    words = rows["network"].astype(str)
    for column, text in _WORDS.items():
        if column in rows.columns:
            words += [f", {text} {value:.4g}" if np.isfinite(value) else "" for value in rows[column].astype(float)]
    if "run_id" in rows.columns:
        words += ", run " + rows["run_id"]
    return [f"#{word}" for word in words]


def least_squares_line(ax: Axes, x: pd.Series, y: pd.Series, color: str) -> None:
    """The line of y on x over the range of x, which is not constant."""
    slope, intercept = np.polyfit(x, y, 1)
    ends = np.array([x.min(), x.max()])
    ax.plot(ends, slope * ends + intercept, color=color, alpha=0.4, linewidth=1.5, zorder=1)


def lr_batch_panels(runs: pd.DataFrame, column: str = "count") -> Figure:
    """`column` against the learning rate, a line for each batch size, a panel for each network (v1 Fig 3).

    Points are means over the other hyper-parameters after averaging replicates. Raises ValueError for a missing column.
    """
    require_columns(runs, ["network", "cell", "lr", "batch_size", column])
    cells = finished(average_replicates(runs))
    networks, batches = list(pd.unique(cells["network"])), sorted(cells["batch_size"].unique())
    # A ramp, since batch sizes are ordered, and none of the colours that stand for networks.
    ramp = mpl.colormaps["Blues"](np.linspace(0.45, 1, len(batches)))
    rows = -(-len(networks) // 3)
    fig, axes = plt.subplots(rows, min(3, len(networks)), squeeze=False, figsize=(width(), 0.4 + 3.2 * rows))
    for index, (ax, network) in enumerate(zip(axes.flat, networks, strict=False)):
        own = cells[cells["network"] == network]
        for place, batch in enumerate(batches):
            mean = own[own["batch_size"] == batch].groupby("lr")[column].mean()
            look = {"color": ramp[place], "marker": "os^Dv<>"[place % 7], "linewidth": 1.5}
            ax.plot(mean.index.to_numpy(), mean.to_numpy(), label=f"batch size {batch:g}", **look)
        ax.set(title=network, xscale="log", xlabel=label_of("lr"), ylabel=label_of(column) if index % 3 == 0 else "")
        lrs = sorted(own["lr"].unique())
        ax.set_xticks(lrs, [f"{lr:g}" for lr in lrs])
        ax.minorticks_off()
    for ax in axes.flat[len(networks) :]:
        ax.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=min(4, len(labels)))
    return fig


def not_run(what: str, why: str = "not run in this campaign") -> Figure:
    """A small figure that says why `what` is not shown, in the place of one that would be empty."""
    fig, ax = plt.subplots(figsize=(width(), 1.0))
    ax.text(0.5, 0.5, f"{what}: {why}", ha="center", va="center", color="0.3")
    ax.axis("off")
    return fig
