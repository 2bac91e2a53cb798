"""Figures of the page on what training reveals (Loukas et al., Figures 2 to 9), two narrow panels a
row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from rc_theory.complexity.regions import RegionBound
from rc_utils.plotting import BLUE, GREEN, ORANGE, PINK, SKY, YELLOW

WIDTH = 6.2
LEVELS = {"mse": "frequency", "bce": "corruption"}
_LOOKS = (
    (BLUE, "-"),
    (GREEN, "--"),
    (YELLOW, "-."),
    (ORANGE, ":"),
    (PINK, (0, (5, 1, 1, 1))),
    (SKY, (0, (1, 2))),
)


def log_axis(ax: Axes) -> None:
    """A logarithmic vertical axis with plain numbers at 1, 3, 10, ..., also where it spans less
    than a decade.
    """
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()


def curve_grid(columns: Mapping[str, tuple], log: Collection[str], xlabel: str) -> Figure:
    """Means over groups of models as lines and their ranges as bands, one row a quantity.

    columns: {title: (x, {quantity: values (K, M)}, {group: models (M,) of bool})}, with the same
    quantities in each; log names those on a logarithmic axis.
    """
    number = len(next(iter(columns.values()))[1])
    fig, axes = plt.subplots(number, 2, figsize=(WIDTH, 0.9 + 2.1 * number), sharex="col")
    for place, (title, (x, quantities, groups)) in enumerate(columns.items()):
        column = axes[:, place]
        for ax, (label, values) in zip(column, quantities.items(), strict=True):
            for (name, models), (colour, style) in zip(groups.items(), _LOOKS, strict=False):
                chosen = values[:, models]
                ax.plot(x, chosen.mean(1), color=colour, linestyle=style, linewidth=1.6, label=name)
                ax.fill_between(
                    x, chosen.min(1), chosen.max(1), color=colour, alpha=0.15, linewidth=0
                )
            if label in log:
                log_axis(ax)
            ax.set_ylabel("" if place else label)
        column[0].legend(fontsize=9, loc="lower center", bbox_to_anchor=(0.5, 1.02), title=title)
        column[-1].set_xlabel(xlabel)
    return fig


def region_maps(
    bound: RegionBound,
    target: Callable[[np.ndarray], np.ndarray],
    learned: Callable[[np.ndarray], np.ndarray],
    points,
) -> Figure:
    """Fig 6: target, learned function, Lipschitz constants of all regions, and Theorem 2's bound of
    the empty ones.

    target, learned: from points (..., 2) of the plane to values. In the last panel white regions
    hold a training point and black ones are out of the theorem's reach; both lower panels share
    their colours, which end at the 95 % quantile of what they show.
    """
    fig, axes = plt.subplots(2, 2, figsize=(WIDTH, 6), sharex=True, sharey=True)
    side = np.linspace(-1, 1, 201)
    grid = np.stack(np.meshgrid(side, side), -1)
    polygons = [region.polygon for region in bound.regions]
    for ax, function, title in zip(axes[0], (target, learned), ("target", "learned"), strict=True):
        shown = ax.imshow(
            function(grid), extent=(-1, 1, -1, 1), origin="lower", cmap="cividis", vmin=-1, vmax=1
        )
        ax.plot(*points.T, "o", color=SKY, markeredgecolor="0.2", markersize=3, markeredgewidth=0.4)
        ax.set_title(title)
    axes[0, 1].add_collection(
        PolyCollection(polygons, facecolors="none", edgecolors="black", linewidths=0.4)
    )
    fig.colorbar(shown, ax=axes[0], label="value", shrink=0.8)
    limits = np.concatenate([bound.lipschitz, bound.bound[bound.applies]])
    norm = mpl.colors.Normalize(0, np.quantile(limits, 0.95))
    colours = mpl.colormaps["viridis"]
    of_bound = colours(norm(np.where(bound.applies, bound.bound, 0)))
    of_bound[bound.filled], of_bound[~bound.filled & ~bound.applies] = (1, 1, 1, 1), (0, 0, 0, 1)
    titles = ("steepness", "bound of Theorem 2")
    for ax, faces, title in zip(
        axes[1], (colours(norm(bound.lipschitz)), of_bound), titles, strict=True
    ):
        ax.add_collection(
            PolyCollection(polygons, facecolors=faces, edgecolors="0.4", linewidths=0.3)
        )
        ax.set_title(title)
    fig.colorbar(
        mpl.cm.ScalarMappable(norm, colours),
        ax=axes[1],
        label="$|\\nabla f|$",
        shrink=0.8,
        extend="max",
    )
    for ax in axes.flat:
        ax.set(aspect="equal", xlim=(-1, 1), ylim=(-1, 1))
        ax.grid(False)
    return fig
