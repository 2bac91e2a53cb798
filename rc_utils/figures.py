"""Figures of single pages, in the style of `plotting`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from rc_utils import plotting
from rc_utils.correlation import average_seeds, correlate, finished, require_columns
from rc_utils.plotting import BLUE, GREEN, ORANGE
from rc_utils.reparametrise import FACTORS


def evolution_panels(summary: pd.DataFrame) -> Figure:
    """Count, gap and correlation over the epochs of an `evolution_table`, a panel each, intervals as bars."""
    fig, axes = plt.subplots(1, 3, figsize=(plotting.width(), 3.4))
    names = {"count": "region count", "gap": "generalisation gap", "correlation": "correlation of the two"}
    looks = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"))
    for ax, (column, label), (colour, marker) in zip(axes, names.items(), looks, strict=True):
        value, low, high = (summary[column + end].to_numpy(float) for end in ("", "_low", "_high"))
        ax.plot(summary["epoch"], value, color=colour, marker=marker, linewidth=1.5)
        ax.vlines(summary["epoch"], low, high, color=colour, linewidth=1.5, alpha=0.6)
        ax.set(xlabel="epoch", ylabel=label)
    axes[2].axhline(0, color="0.6", linewidth=1)
    axes[2].set_ylim(-1.05, 1.05)
    return fig


def region_panels(grids: Mapping[int, object], class_names: Sequence[str] | None = None) -> Figure:
    """Decision regions of the first simplex of each {epoch: LabelGrid}, a panel each, three in a row, one legend."""
    if not grids:
        raise ValueError("no grid to show: give at least one epoch")
    rows = -(-len(grids) // 3)
    width = plotting.width()
    fig, axes = plt.subplots(rows, 3, squeeze=False, figsize=(width, 0.7 + 2.6 * rows))
    present: set[int] = set()
    for ax, (epoch, grid) in zip(axes.flat, grids.items(), strict=False):
        labels = grid.labels[0][tuple(grid.lattice.indices.T)]
        plotting.decision_regions(labels, grid.lattice.coordinates, ax)
        ax.get_legend().remove()
        ax.set_title(f"epoch {epoch}", fontsize=11, pad=14)
        present |= set(np.unique(labels).tolist())
    for ax in axes.flat[len(grids) :]:
        ax.set_visible(False)
    names = [str(k) if class_names is None else class_names[k] for k in sorted(present)]
    patches = [Patch(color=plotting.class_colour(k), label=n) for k, n in zip(sorted(present), names, strict=True)]
    fig.legend(handles=patches, loc="outside lower center", ncols=5, title="predicted")
    return fig


def overlay(plain: pd.DataFrame, augmented: pd.DataFrame, name: str, y: str = "gap") -> Figure:
    """Scatter of `y` against the count for the same cells without (circles) and with (triangles) an augmentation.

    Both are tables of cells of one network or several; each has its least-squares line, and Pearson's r in the legend.
    """
    fig, ax = plt.subplots()
    for cells, label, colour, marker in (
        (plain, "without", BLUE, "o"),
        (augmented, f"with {name}", ORANGE, "^"),
    ):
        r = correlate(cells["count"], cells[y], num_resamples=1).value
        text = f"{label}, r = {r:.2f}" if np.isfinite(r) else label
        ax.plot(cells["count"], cells[y], marker, color=colour, alpha=0.85, label=text)
        if cells["count"].nunique() > 1:
            line = np.polyfit(cells["count"], cells[y], 1)
            ends = np.array([cells["count"].min(), cells["count"].max()])
            ax.plot(ends, np.polyval(line, ends), color=colour, alpha=0.4, linewidth=1.5)
    ax.set(xlabel=plotting.label_of("count"), ylabel=plotting.label_of(y))
    ax.legend(loc="best")
    return fig


def not_run(what: str) -> Figure:
    """A small figure that says that `what` was not run, in the place of one that would be empty."""
    fig, ax = plt.subplots(figsize=(plotting.width(), 1.0))
    ax.text(0.5, 0.5, f"{what}: not run in this campaign", ha="center", va="center", color="0.3")
    ax.axis("off")
    return fig


def quotient_panel(runs: pd.DataFrame, column: str = "count") -> Figure:
    """`column` against learning rate / batch size, a line for each network, a point for each setting of the two.

    Points are means over seeds and weight decays. Raises ValueError for a missing column.
    """
    require_columns(runs, ["network", "cell", "lr", "batch_size", column])
    cells = finished(average_seeds(runs))
    fig, ax = plt.subplots(figsize=(plotting.width(), 4))
    for network, group in cells.groupby("network", sort=False):
        units = group.groupby(["lr", "batch_size"])[column].mean().reset_index()
        units = units.assign(quotient=units["lr"] / units["batch_size"]).sort_values("quotient")
        look = plotting.network_style(str(network))
        ax.plot(units["quotient"], units[column], color=look.color, marker=look.marker, linewidth=1, label=network)
    ax.set_xscale("log")
    ax.set(xlabel="learning rate / batch size", ylabel=plotting.label_of(column))
    ax.legend()
    return fig


def rescaling_strips(table: pd.DataFrame) -> Figure:
    """Factors of the region count and of the measures in `FACTORS`, a strip each, over the rows of a `rescaling_table`;
    log axis."""
    fig, ax = plt.subplots(figsize=(plotting.width(), 3))
    strips = {"region count": table["count"] / table["count_before"]}
    strips |= {words.replace(" of ", " of\n"): table[column] for column, words in FACTORS.items()}
    for row, (values, marker) in enumerate(zip(strips.values(), "os^D", strict=True)):
        offsets = np.linspace(-0.25, 0.25, len(values))
        ax.plot(
            values,
            row + offsets,
            marker,
            color=ORANGE if row else BLUE,
            alpha=0.6,
            markersize=5,
        )
    ax.set_xscale("log", base=2)
    ax.axvline(1, color="0.6", linewidth=1, zorder=0)
    ax.set_yticks(range(len(strips)), list(strips))
    ax.set_ylim(-0.5, len(strips) - 0.5)
    ax.set_xlabel("value after rescaling / before")
    return fig


def correlation_heatmap(cells: pd.DataFrame) -> Figure:
    """The paper's correlations and ours side by side, from `ablation_cells`.

    What was not run is a dash on grey, a value without an interval stands in parentheses on grey.
    """
    fig, axes = plt.subplots(1, 2, sharey=True, figsize=(plotting.width(), 4.2))
    columns, networks = (list(dict.fromkeys(cells[key])) for key in ("column", "network"))
    for ax, (value, title) in zip(axes, (("published", "paper"), ("value", "here")), strict=True):
        wide, low = (
            cells.pivot(index="network", columns="column", values=v).loc[networks, columns].to_numpy(float)
            for v in (value, "low")
        )
        loose = np.isfinite(wide) & ~np.isfinite(low) & (value == "value")
        colours = mpl.colormaps["RdBu_r"].with_extremes(bad="#EEEEEE")
        shown = np.ma.masked_where(loose | ~np.isfinite(wide), wide)
        image = ax.imshow(shown, cmap=colours, vmin=-1, vmax=1, aspect="auto")
        for (i, j), number in np.ndenumerate(wide):
            dark = np.isfinite(number) and abs(number) > 0.6 and not loose[i, j]
            text = f"{number:.2f}" if np.isfinite(number) else "–"
            text = f"({text})" if loose[i, j] else text
            size = 8 if loose[i, j] else 9
            ax.text(j, i, text, ha="center", va="center", fontsize=size, color="white" if dark else "0.2")
        ax.set_xticks(range(len(columns)), columns, rotation=45, ha="right", fontsize=10)
        ax.set_yticks(range(len(networks)), networks, fontsize=10)
        ax.set_title(title)
        ax.grid(False)
    fig.colorbar(image, ax=axes, label="correlation of count and gap", shrink=0.8)
    return fig


def miscount_bars(table: pd.DataFrame, reference: str) -> Figure:
    """Share of miscounted simplices over the learning rate, a panel a network, from `miscounts` by network and lr."""
    table = table[table["count"] != reference]
    networks = list(dict.fromkeys(table["network"]))
    fig, axes = plt.subplots(1, len(networks), sharey=True, squeeze=False, figsize=(plotting.width(), 3.4))
    for ax, network in zip(axes[0], networks, strict=True):
        here = table[table["network"] == network]
        rates = sorted(here["lr"].unique())
        for k, (method, group) in enumerate(here.groupby("method", sort=False)):
            x = np.array([rates.index(rate) for rate in group["lr"]]) + (k - 0.5) * 0.24
            colour, marker = _TWO_LOOKS[k % 2]
            ax.plot(x, 100 * group["share"], marker, color=colour, label=method, clip_on=False)
            ax.vlines(x, 100 * group["low"], 100 * group["high"], color=colour, linewidth=2, alpha=0.6)
        ax.set(title=network, xlabel="learning rate")
        ax.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
        ax.set_xlim(-0.6, len(rates) - 0.4)
    axes[0, 0].set_ylabel("miscounted segments, %")
    axes[0, 0].set_ylim(bottom=0)
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return fig


def conclusion_dots(table: pd.DataFrame, names: tuple[str, str]) -> Figure:
    """Two values of each statement of `conclusions`, a line a statement; `names` says what they are."""
    fig, ax = plt.subplots(figsize=(plotting.width(), 0.9 + 0.45 * len(table)))
    rows = np.arange(len(table))[::-1]
    for column, name, (colour, marker), shift in zip(("first", "second"), names, _TWO_LOOKS, (0.1, -0.1), strict=True):
        ax.plot(table[column], rows + shift, marker, color=colour, label=name)
    ax.axvline(0, color="0.6", linewidth=1, zorder=0)
    ax.set_yticks(rows, table["statement"])
    ax.set_xlabel("correlation, or regions a doubling")
    ax.set_ylim(-0.6, len(table) - 0.4)
    fig.legend(loc="outside upper center", ncols=2)
    return fig


_TWO_LOOKS = ((ORANGE, "s"), (BLUE, "o"))
