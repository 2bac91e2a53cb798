"""Forest plots: many estimates with their intervals below each other, one row each."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rc_utils.pages import plotting

LOOKS = {
    "supports": (plotting.GREEN, "o"),
    "inconclusive": (plotting.YELLOW, "s"),
    "contradicts": (plotting.ORANGE, "X"),
    "count": (plotting.PINK, "D"),
    "": (plotting.BLUE, "o"),
}
"""Colour and marker of a verdict; of an estimate that has none; and of the count among its rivals."""


def forest_plot(
    rows: pd.DataFrame, *, xlabel: str, zero: float = 0.0, limits: tuple[float, float] | None = None
) -> Figure:
    """One line of `rows` below the other, under the headings of their groups.

    Columns: label; estimate (with value, low, high, n); and where there are such: group, a heading above its rows;
    published, the paper's number, drawn as an open diamond, NaN for none; verdict, which gives colour and shape;
    claimed, the (low, high) that the claim allows, shaded; url, which the label links to in an SVG.
    zero: where a vertical line is drawn.
    """
    defaults = {"group": "", "published": np.nan, "verdict": "", "claimed": None, "url": ""}
    rows = rows.assign(**{name: [value] * len(rows) for name, value in defaults.items() if name not in rows.columns})
    lines = []  # from the top: the heading of a group, or a row
    for group, part in rows.groupby("group", sort=False):
        if group:
            lines.append(group)
        lines += part.itertuples()
    fig, ax = plt.subplots(figsize=(plotting.width(), 0.32 * (len(lines) + 1.5)))
    ax.axvline(zero, color="#888888", linewidth=0.8, zorder=0)
    lowest, highest = limits or _limits(rows, zero)
    for place, line in enumerate(lines):
        if not isinstance(line, str):
            _draw_row(ax, -place, line, lowest, highest)
    _label_lines(ax, lines)
    ax.set_xlim(lowest, highest)
    ax.set_ylim(0.2 - len(lines), 0.8)
    ax.set_xlabel(xlabel)
    ax.grid(axis="y", visible=False)
    _legend(ax, rows)
    return fig


def _limits(rows, zero):
    ends = [zero, *rows["published"]]
    for estimate in rows["estimate"]:
        ends += [estimate.value, estimate.low, estimate.high]
    margin = 0.05 * (np.nanmax(ends) - np.nanmin(ends) or 1.0)
    return np.nanmin(ends) - margin, np.nanmax(ends) + margin


def _draw_row(ax, y, row, lowest, highest):
    colour, marker = LOOKS[row.verdict]
    if row.claimed is not None:
        left, right = max(row.claimed[0], lowest), min(row.claimed[1], highest)
        ax.barh(y, right - left, left=left, height=0.8, color="#E8EEF4", zorder=0)
    if np.isfinite(row.published):
        ax.plot(row.published, y, marker="D", markerfacecolor="none", markeredgecolor="black", linestyle="none")
    if np.isfinite(row.estimate.low):
        ax.plot([row.estimate.low, row.estimate.high], [y, y], color=colour, linewidth=2)
    ax.plot(row.estimate.value, y, color=colour, marker=marker, linestyle="none")
    ax.annotate(
        f"{row.estimate.n}", (1.02, y), xycoords=("axes fraction", "data"), va="center", fontsize=9, color="#555555"
    )


def _label_lines(ax, lines):
    texts = [line if isinstance(line, str) else line.label for line in lines]
    ax.set_yticks(-np.arange(len(lines)), texts, fontsize=10)
    ax.tick_params(axis="y", length=0)
    for tick, line in zip(ax.get_yticklabels(), lines, strict=True):
        if isinstance(line, str):
            tick.set_fontweight("bold")
        elif line.url:
            tick.set_url(line.url)
    ax.annotate("n", (1.02, 0.8), xycoords=("axes fraction", "data"), va="top", fontsize=9, color="#555555")


def _legend(ax, rows):
    handles = []
    if rows["published"].notna().any():
        handles.append(
            Line2D([], [], marker="D", markerfacecolor="none", color="black", linestyle="none", label="paper")
        )
    for verdict, (colour, marker) in LOOKS.items():
        if verdict and (rows["verdict"] == verdict).any():
            handles.append(Line2D([], [], marker=marker, color=colour, label=verdict))
    if handles:
        ax.figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=9)
