"""Figures of the page on what training reveals (Loukas et al., Figures 2 to 10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from rc_utils.pages import plotting
from rc_utils.pages.plotting import BLUE, GREEN, ORANGE, PINK, SKY, YELLOW
from rc_utils.theory.complexity.regions import RegionBound
from rc_utils.theory.complexity.tasks import Task
from rc_utils.theory.complexity.trajectory import Trajectory

LEVELS = {"mse": "frequency", "bce": "corruption"}
_LOOKS = (
    (BLUE, "-", "o"),
    (GREEN, "--", "s"),
    (YELLOW, "-.", "^"),
    (ORANGE, ":", "D"),
    (PINK, (0, (5, 1, 1, 1, 1, 1)), "v"),
    (SKY, (0, (1, 2)), "P"),
)


def _width():
    return plotting.width()


def _curves(ax: Axes, x, values, groups: Mapping[str, np.ndarray], *, log: bool = False) -> None:
    """Mean of values (K, M) over each group of models, and its range as a band; the line styles differ too."""
    for (name, models), (colour, style, _) in zip(groups.items(), _LOOKS, strict=False):
        mean = values[:, models].mean(1)
        ax.plot(x, mean, color=colour, linestyle=style, linewidth=1.6, label=name)
        ax.fill_between(x, values[:, models].min(1), values[:, models].max(1), color=colour, alpha=0.15, linewidth=0)
    if log:
        ax.set_yscale("log")


def _groups(task: Task) -> dict[str, np.ndarray]:
    name = LEVELS[task.loss]
    return {f"{name} {level:g}": task.level == level for level in np.unique(task.level)}


def _legend(fig: Figure, ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=4)


def training_curves(rows: Sequence[tuple[str, Task, Trajectory]]) -> Figure:
    """Fig 2: training loss, normalised length of the bias's path an epoch, and test loss; a row for each task."""
    fig, axes = plt.subplots(len(rows), 3, squeeze=False, figsize=(_width(), 0.4 + 2.7 * len(rows)))
    for row, (name, task, path) in zip(axes, rows, strict=True):
        epochs = np.arange(1, len(path.steps) + 1)
        for ax, values, label in zip(
            row,
            (path.train_loss, path.length[..., 0], path.test_loss),
            ("training loss", "bias trajectory an epoch", "test loss"),
            strict=True,
        ):
            _curves(ax, epochs, values, _groups(task), log=label != "bias trajectory an epoch")
            ax.set(xlabel="epoch", ylabel=label, title=name if ax is row[1] else "")
        row[2].legend(fontsize=8, handlelength=2.2, loc="center left", bbox_to_anchor=(1, 0.5))
    return fig


def ends(panels: Sequence[tuple[str, str, Task, np.ndarray]], *, log: Sequence[bool] = ()) -> Figure:
    """Fig 3 and 4: a value (M,) of each run against its level, a panel each: (title, label, task, values).

    Points are runs, a line joins the runs of one repetition, the thick line their means.
    """
    rows = -(-len(panels) // 2)
    fig, axes = plt.subplots(rows, 2, squeeze=False, figsize=(_width(), 2.9 * rows))
    for index, (ax, (title, label, task, values)) in enumerate(zip(axes.flat, panels, strict=False)):
        for repetition in np.unique(task.repetition):
            runs = task.repetition == repetition
            ax.plot(task.level[runs], values[runs], "-o", color=SKY, alpha=0.5, linewidth=0.8, markersize=4)
        levels = np.unique(task.level)
        means = [values[task.level == level].mean() for level in levels]
        ax.plot(levels, means, "-s", color=BLUE, linewidth=2.2, markersize=6)
        ax.set(title=title, xlabel=LEVELS[task.loss], ylabel=label)
        ax.set_xticks(levels)
        if index < len(log) and log[index]:
            ax.set_yscale("log")
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    return fig


def total_lengths(rows: Sequence[tuple[str, Task, Trajectory]]) -> Figure:
    """Fig 7: length of the whole path of the first bias up to each epoch, and against the training loss reached."""
    fig, axes = plt.subplots(len(rows), 2, squeeze=False, figsize=(_width(), 2.9 * len(rows)))
    for (left, right), (name, task, path) in zip(axes, rows, strict=True):
        total = path.length[..., 0].cumsum(0)
        _curves(left, np.arange(1, len(total) + 1), total, _groups(task))
        left.set(xlabel="epoch", ylabel="total trajectory length", title=name)
        for (label, models), (colour, style, _) in zip(_groups(task).items(), _LOOKS, strict=False):
            mean_loss, mean_total = path.train_loss[:, models].mean(1), total[:, models].mean(1)
            right.plot(mean_loss, mean_total, color=colour, linestyle=style, linewidth=1.6, label=label)
        right.set(xscale="log", yscale="log", xlabel="training loss reached", ylabel="total trajectory length")
        right.invert_xaxis()
        right.legend(fontsize=8)
    return fig


def compare_curves(runs: Mapping[str, Trajectory], every: int) -> Figure:
    """Fig 8 and 9: training loss, trajectory length and test loss of several stacks over `every` iterations."""
    fig, axes = plt.subplots(1, 3, figsize=(_width(), 3.2))
    for (name, path), look in zip(runs.items(), _LOOKS, strict=False):
        for ax, values, label in zip(
            axes,
            (path.train_loss, path.length[..., 0], path.test_loss),
            ("training loss", f"trajectory in {every} steps", "test loss"),
            strict=True,
        ):
            ax.plot(path.steps, values.mean(1), color=look[0], linestyle=look[1], linewidth=1.6, label=name)
            ax.fill_between(path.steps, values.min(1), values.max(1), color=look[0], alpha=0.15, linewidth=0)
            ax.set(xlabel="step", ylabel=label)
    axes[0].set_yscale("log")
    axes[2].set_yscale("log")
    _legend(fig, axes[0])
    return fig


def layer_curves(task: Task, path: Trajectory) -> Figure:
    """Fig 10: losses, and the trajectory an epoch of the bias of every layer."""
    layers = path.length.shape[2]
    panels = [("training loss", path.train_loss, True), ("test loss", path.test_loss, True)]
    panels += [(f"trajectory, layer {layer + 1}", path.length[..., layer], False) for layer in range(layers)]
    rows = -(-len(panels) // 3)
    fig, axes = plt.subplots(rows, 3, squeeze=False, figsize=(_width(), 0.5 + 2.4 * rows))
    for ax, (label, values, log) in zip(axes.flat, panels, strict=False):
        _curves(ax, np.arange(1, len(path.steps) + 1), values, _groups(task), log=log)
        ax.set(xlabel="epoch", ylabel=label)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    _legend(fig, axes.flat[0])
    return fig


def sinusoids(
    target: Callable[[np.ndarray, float], np.ndarray], frequencies: Sequence[float], points: np.ndarray
) -> Figure:
    """Fig 5: the functions to be fitted on [-1, 1]^2 and the training points (N, 2)."""
    fig, axes = plt.subplots(1, len(frequencies), figsize=(_width(), 2.4), sharey=True)
    side = np.linspace(-1, 1, 101)
    grid = np.stack(np.meshgrid(side, side), -1)
    for ax, frequency in zip(np.atleast_1d(axes), frequencies, strict=True):
        image = ax.imshow(
            target(grid, frequency), extent=(-1, 1, -1, 1), origin="lower", cmap="cividis", vmin=-1, vmax=1
        )
        ax.plot(*points.T, "o", color="white", markeredgecolor="0.2", markersize=2.5, markeredgewidth=0.4)
        ax.set(title=f"frequency {frequency:g}", xlabel="$z_1$", aspect="equal")
        ax.grid(False)
    np.atleast_1d(axes)[0].set_ylabel("$z_2$")
    fig.colorbar(image, ax=axes, label="target", shrink=0.8)
    return fig


def region_maps(
    bound: RegionBound, target: Callable[[np.ndarray], np.ndarray], learned: Callable[[np.ndarray], np.ndarray], points
) -> Figure:
    """Fig 6: target, learned function, Lipschitz constants of all regions, and Theorem 2's bound of the empty ones.

    target, learned: from points (..., 2) of the plane to values. In the last panel white regions hold a training point
    and black ones are out of the theorem's reach; both lower panels share their colours, which end at the 95 % quantile
    of what they show.
    """
    fig, axes = plt.subplots(2, 2, figsize=(_width(), 7.0), sharex=True, sharey=True)
    side = np.linspace(-1, 1, 201)
    grid = np.stack(np.meshgrid(side, side), -1)
    polygons = [region.polygon for region in bound.regions]
    for ax, function, title in zip(axes[0], (target, learned), ("target", "learned, with its regions"), strict=True):
        shown = ax.imshow(function(grid), extent=(-1, 1, -1, 1), origin="lower", cmap="cividis", vmin=-1, vmax=1)
        ax.plot(*points.T, "o", color=SKY, markeredgecolor="0.2", markersize=3, markeredgewidth=0.4)
        ax.set_title(title)
    axes[0, 1].add_collection(PolyCollection(polygons, facecolors="none", edgecolors="black", linewidths=0.4))
    fig.colorbar(shown, ax=axes[0], label="value", shrink=0.8)
    limits = np.concatenate([bound.lipschitz, bound.bound[bound.applies]])
    norm = mpl.colors.Normalize(0, np.quantile(limits, 0.95))
    colours = mpl.colormaps["viridis"]
    of_bound = colours(norm(np.where(bound.applies, bound.bound, 0)))
    of_bound[bound.filled], of_bound[~bound.filled & ~bound.applies] = (1, 1, 1, 1), (0, 0, 0, 1)
    titles = ("Lipschitz constant", "bound of Theorem 2, empty regions")
    for ax, faces, title in zip(axes[1], (colours(norm(bound.lipschitz)), of_bound), titles, strict=True):
        ax.add_collection(PolyCollection(polygons, facecolors=faces, edgecolors="0.4", linewidths=0.3))
        ax.set_title(title)
    fig.colorbar(mpl.cm.ScalarMappable(norm, colours), ax=axes[1], label="$|\\nabla f|$", shrink=0.8, extend="max")
    for ax in axes.flat:
        ax.set(aspect="equal", xlim=(-1, 1), ylim=(-1, 1))
        ax.grid(False)
    return fig


def side_histograms(sides: tuple[np.ndarray, np.ndarray]) -> Figure:
    """The ratios of `both_sides`, a panel a side; at most 1 if Lemma 1 holds."""
    fig, axes = plt.subplots(1, 2, figsize=(_width(), 2.8))
    titles = (r"lower side: $\lambda\,/\,(\sigma_1 u)$", r"upper side: $\sigma_n u\,/\,\lambda$")
    for ax, ratios, title, colour in zip(axes, sides, titles, (BLUE, ORANGE), strict=True):
        ax.hist(ratios, bins=40, color=colour)
        ax.axvline(1, color="black", linestyle="--", linewidth=1.2)
        ax.set(title=f"{title}, {np.mean(ratios > 1):.1%} above 1", xlabel="found / allowed", ylabel="networks")
    return fig


def factors(bounds: Sequence[RegionBound]) -> Figure:
    """Bound of Theorem 2 over Lipschitz constant, a point a region, a column a network, with the medians."""
    fig, ax = plt.subplots(figsize=(_width(), 3.2))
    rng = np.random.default_rng(0)
    for index, bound in enumerate(bounds):
        ratios = bound.ratios
        ax.plot(index + 1 + rng.uniform(-0.2, 0.2, len(ratios)), ratios, "o", color=SKY, alpha=0.5, markersize=4)
        if len(ratios):
            ax.hlines(np.median(ratios), index + 0.7, index + 1.3, color=BLUE, linewidth=2.5)
    ax.axhline(1, color="0.4", linewidth=1)
    ax.axhline(4, color=ORANGE, linewidth=1.2, linestyle="--", label="the paper's factor, about 4")
    ax.set(yscale="log", xlabel="network", ylabel="bound / Lipschitz constant")
    ax.set_xticks(range(1, len(bounds) + 1))
    ax.legend()
    return fig


def bridge(tables: Mapping[str, tuple[pd.DataFrame, str, str, str]]) -> Figure:
    """Complexity against complexity: {title: (bridge table, level's name, column of regions and its label)}.

    A row a table: trajectory length and Lipschitz constant against the count, then count against the gap.
    """
    fig, axes = plt.subplots(len(tables), 3, squeeze=False, figsize=(_width(), 0.4 + 2.8 * len(tables)))
    names = {"total": "trajectory length", "lipschitz": "mean Lipschitz constant", "gap": "gap"}
    for row, (title, (table, level_name, column, label)) in zip(axes, tables.items(), strict=True):
        pairs = ((column, "total"), (column, "lipschitz"), (column, "gap"))
        for ax, (x, y) in zip(row, pairs, strict=True):
            for (level, runs), (colour, _, marker) in zip(table.groupby("level"), _LOOKS, strict=False):
                ax.plot(
                    runs[x], runs[y], marker, color=colour, alpha=0.8, markersize=5, label=f"{level_name} {level:g}"
                )
            ax.set(xlabel=label, ylabel=names[y])
        row[1].set_title(title)
        row[2].legend(fontsize=8, handletextpad=0.1, loc="center left", bbox_to_anchor=(1, 0.5))
    return fig
