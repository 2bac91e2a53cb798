"""Figures of the statistics page, in the style of `plotting`: dots with intervals."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rc_utils.pages import plotting
from rc_utils.pages.plotting import BLACK, BLUE, GREEN, ORANGE, PINK
from rc_utils.pages.statistics import league

_GREY = "0.35"
# What a useless measure has, and the ends of the axis.
_SCALES = {"sign_error": (0.5, 0, 1)}


def league_panels(table: pd.DataFrame) -> Figure:
    """A `league_table`: one panel a statistic, one row a measure, a dot with its interval; the region count in blue.

    The line in each panel is the value of a measure that says nothing.
    """
    statistics, measures = (list(dict.fromkeys(table[key])) for key in ("statistic", "measure"))
    rows = -(-len(statistics) // 3)
    height = 0.5 + rows * (0.75 + 0.24 * len(measures))
    size = (plotting.width(), height)
    fig, axes = plt.subplots(rows, 3, sharey=True, squeeze=False, figsize=size)
    for ax, statistic in zip(axes.flat, statistics, strict=False):
        part = table[table["statistic"] == statistic].set_index("measure").loc[measures]
        neutral, low, high = _SCALES.get(statistic, (0.0, -1, 1))
        ax.axvline(neutral, color="0.6", linewidth=1, zorder=0)
        for row, (measure, found) in enumerate(part.iterrows()):
            ours = measure == "count"
            _dot(ax, row, found, BLUE if ours else _GREY, "o" if ours else "s")
        ax.set(xlim=(low - 0.05, high + 0.05), ylim=(len(measures) - 0.4, -0.6))
        ax.set_title(league.STATISTICS[statistic].replace(", ", ",\n"), fontsize=11)
        ax.set_yticks(range(len(measures)), [league.MEASURES[m] for m in measures], fontsize=10)
        ax.tick_params(axis="x", labelsize=10)
    for ax in axes.flat[len(statistics) :]:
        ax.set_visible(False)
    return fig


def _dot(ax: Axes, row: float, found: pd.Series, colour: str, marker: str, label: str | None = None) -> None:
    ax.hlines(row, found["low"], found["high"], color=colour, linewidth=2, alpha=0.6)
    ax.plot(found["value"], row, marker, color=colour, markersize=6, label=label, linestyle="none", clip_on=False)


def held_fixed_dots(table: pd.DataFrame) -> Figure:
    """A `held_fixed` table: one row what is held fixed, dots with intervals for all and for interpolating settings."""
    names = list(dict.fromkeys(table["fixed"]))
    fig, ax = plt.subplots(figsize=(plotting.width(), 1.2 + 0.42 * len(names)))
    ax.axvline(0, color="0.6", linewidth=1, zorder=0)
    looks = {
        "all": (BLUE, "o", "all settings"),
        "interpolating": (ORANGE, "^", "interpolating settings only"),
    }
    for k, (runs, (colour, marker, label)) in enumerate(looks.items()):
        for _, found in table[table["runs"] == runs].iterrows():
            row = names.index(found["fixed"])
            _dot(ax, row + 0.3 * (k - 0.5), found, colour, marker, label if row == 0 else None)
    ax.set_yticks(range(len(names)), [f"{name} held fixed" for name in names])
    ax.set(xlim=(-1.05, 1.05), ylim=(len(names) - 0.4, -0.6), xlabel="correlation of region count and gap")
    fig.legend(loc="outside upper center", ncols=2)
    return fig


def within_panels(rows: pd.DataFrame, measure: str = "count") -> Figure:
    """Gap against a measure, a panel for each learning rate, a marker and a least-squares line for each network."""
    frame = rows.assign(x=rows[measure], y=rows["gap"])
    rates = sorted(frame["lr"].unique(), reverse=True)
    number = -(-len(rates) // 3)
    size = (plotting.width(), 0.8 + 2.7 * number)
    fig, axes = plt.subplots(number, min(3, len(rates)), squeeze=False, sharex=True, sharey=True, figsize=size)
    for ax, lr in zip(axes.flat, rates, strict=False):
        for network, group in frame[frame["lr"] == lr].groupby("network", sort=False):
            style = plotting.network_style(str(network))
            ax.plot(group["x"], group["y"], color=style.color, marker=style.marker, linestyle="none", label=network)
            if group["x"].nunique() > 1:
                ends = np.array([group["x"].min(), group["x"].max()])
                ax.plot(ends, np.polyval(np.polyfit(group["x"], group["y"], 1), ends), color=style.color, alpha=0.4)
        ax.set_title(f"learning rate {lr:g}")
        ax.set_xlabel("region count" if measure == "count" else league.MEASURES[measure])
    for ax in axes[:, 0]:
        ax.set_ylabel("generalisation gap")
    for ax in axes.flat[len(rates) :]:
        ax.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=min(4, len(labels)))
    return fig


def information_null(table: pd.DataFrame) -> Figure:
    """An `information_table`: the estimate of each conditioning over its null distribution, one row a conditioning."""
    fig, ax = plt.subplots(figsize=(plotting.width(), 1.3 + 0.42 * len(table)))
    if table.empty:
        ax.text(0.5, 0.5, "too few settings to condition on anything", ha="center", transform=ax.transAxes)
    for row, found in enumerate(table.itertuples()):
        low, high = np.quantile(found.null, [0.025, 0.975])
        label = row == 0
        offsets = np.random.default_rng(0).uniform(-0.25, 0.25, len(found.null))
        ax.plot(found.null, row + offsets, ".", color="0.7", markersize=3, label="permuted" if label else None)
        ax.hlines(row, low, high, color=_GREY, linewidth=2, label="95 % of the permuted" if label else None)
        ax.plot(found.null_mean, row, "|", color="black", markersize=14, label="their mean" if label else None)
        ax.plot(found.value, row, "o", color=BLUE, label="region count" if label else None, clip_on=False)
    ax.set_yticks(range(len(table)), [f"given {name}" for name in table["given"]])
    ax.set(xlim=(-0.02, 1.02), ylim=(len(table) - 0.4, -0.6))
    ax.set_xlabel("normalized conditional mutual information (plug-in)")
    if len(table):
        fig.legend(loc="outside upper center", ncols=4)
    return fig


def environment_strips(table: pd.DataFrame) -> Figure:
    """An `environment_table`: the sign-error of each measure in every environment, a colour and marker a factor."""
    measures = list(dict.fromkeys(table["measure"]))
    factors = table["environment"].str.split(" ").str[0]
    names = list(dict.fromkeys(factors))
    fig, ax = plt.subplots(figsize=(plotting.width(), 1.3 + 0.42 * len(measures)))
    ax.axvline(0.5, color="0.6", linewidth=1, zorder=0)
    looks = (
        (BLUE, "o"),
        (ORANGE, "s"),
        (GREEN, "^"),
        (PINK, "D"),
        (BLACK, "v"),
    )
    for k, name in enumerate(names):
        colour, marker = looks[k % len(looks)]
        part = table[factors == name]
        rows = part["measure"].map(measures.index) + 0.5 * ((k + 0.5) / len(names) - 0.5)
        label = f"{name.replace('lr', 'learning rate').replace('_', ' ')} differs"
        ax.plot(part["error"], rows, marker, color=colour, alpha=0.7, label=label, clip_on=False)
    ax.set_yticks(range(len(measures)), [league.MEASURES[m] for m in measures])
    ax.set(xlim=(-0.03, 1.03), ylim=(len(measures) - 0.4, -0.6))
    ax.set_xlabel("share of pairs ordered wrongly, one marker an environment")
    fig.legend(loc="outside upper center", ncols=min(4, len(names)))
    return fig
