"""Figures of the page on the theory, in the style of `plotting`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rc_utils.pages import plotting
from rc_utils.pages.plotting import BLUE, GREEN, ORANGE, PINK
from rc_utils.theory.two_layer import half_spaces
from rc_utils.theory.two_layer.bounds import LEMMA_7, LEMMA_8, THEOREM_6, Inequality
from rc_utils.theory.two_layer.training import Training

_GROUP_LOOKS = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PINK, "D"))


def inequality_panels(groups: Mapping[str, Mapping[str, Inequality]]) -> Figure:
    """Lemma 7, Lemma 8 and Theorem 6, a panel each: measured against allowed for each group, and the diagonal.

    Nothing lies above the diagonal if the statement holds. Equal points are drawn once; zeros are left out.
    """
    names = {
        LEMMA_7: ("Lemma 7", "$N(x_a) + N(x_b) + 2$", "$R(x_a, x_b)$"),
        LEMMA_8: ("Lemma 8", r"$\lambda_{\max}$", r"$(r^2/N^2)\,\sum_i N(x_i)$"),
        THEOREM_6: ("Theorem 6", r"$(2N/r^2)\,\lambda_{\max} + 2$", "mean count"),
    }
    fig, axes = plt.subplots(1, 3, figsize=(plotting.width(), 3.6))
    for ax, (key, (title, allowed, measured)) in zip(axes, names.items(), strict=True):
        for (group, checks), (colour, marker) in zip(groups.items(), _GROUP_LOOKS, strict=False):
            points = np.unique(np.stack([checks[key].allowed, checks[key].measured], 1), axis=0)
            points = points[(points > 0).all(1)]
            look = {"marker": marker, "color": colour, "markersize": 4, "mew": 0.7, "alpha": 0.6}
            look["mfc"] = colour if group == "constructed" else "none"
            ax.plot(*points.T, linestyle="none", label=group, **look)
        _log_log_diagonal(ax)
        ax.set(title=title, xlabel=f"allowed: {allowed}", ylabel=f"measured: {measured}")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(groups))
    return fig


def _log_log_diagonal(ax: Axes) -> None:
    ax.set(xscale="log", yscale="log")
    ends = [min(ax.get_xlim()[0], ax.get_ylim()[0]), max(ax.get_xlim()[1], ax.get_ylim()[1])]
    ax.plot(ends, ends, color="0.3", linewidth=1.2, zorder=0, scalex=False, scaley=False)


def _ramp(number: int) -> np.ndarray:
    """Ordered colours for ordered learning rates, from dark to light, all visible on white."""
    return mpl.colormaps["viridis"](np.linspace(0, 0.9, number))


def sharpness_trajectories(trainings: Mapping[str, Training], factors: Sequence[float]) -> Figure:
    """eta lambda_max along training, a panel a data set, a line a network; the edge of stability is at 2.

    factors: the learning rates of `train_over_rates`, as multiples of 2 / (initial sharpness). A line ends in a cross
    where the network diverged.
    """
    fig, axes = plt.subplots(1, len(trainings), figsize=(plotting.width(), 3.8), sharey=True)
    ramp = _ramp(len(factors))
    for ax, (name, training) in zip(np.atleast_1d(axes), trainings.items(), strict=True):
        edge = (training.lr * training.sharpness).cpu().numpy()
        stopped = training.diverged.cpu().numpy()
        for index in range(edge.shape[1]):
            values = np.where(edge[:, index] > 0, edge[:, index], np.nan)
            last = int(training.stop[index]) if stopped[index] else len(values) - 1
            steps = np.asarray(training.steps[: last + 1]) + 1
            colour = ramp[index % len(factors)]
            ax.plot(steps, values[: last + 1], color=colour, linewidth=1, alpha=0.8)
            if stopped[index]:
                ax.plot(steps[-1], values[last], "x", color=colour, markersize=6, mew=1.5)
        ax.axhline(2, color="black", linewidth=1.2, linestyle="--")
        ax.set(xscale="log", yscale="log", xlabel="step + 1", title=name)
    np.atleast_1d(axes)[0].set_ylabel(r"$\eta\,\lambda_{\max}$")
    handles = [Line2D([], [], color=c, label=f"{f:.2g}") for c, f in zip(ramp, factors, strict=True)]
    handles.append(Line2D([], [], color="black", linestyle="--", label="edge, 2"))
    handles.append(Line2D([], [], color="0.3", marker="x", linestyle="none", label="diverged"))
    title = r"learning rate $\eta$ in units of $2/\lambda_{\max}(W_0)$"
    fig.legend(handles=handles, loc="outside upper center", ncols=6, title=title)
    return fig


def final_sharpness(trainings: Mapping[str, Training]) -> Figure:
    """Sharpness at the end of training against 2 / eta, one point a network; by what became of it."""
    fig, axes = plt.subplots(1, len(trainings), figsize=(plotting.width(), 3.4))
    for ax, (name, training) in zip(np.atleast_1d(axes), trainings.items(), strict=True):
        edge, sharp = (2 / training.lr).cpu().numpy(), training.sharpness[-1].cpu().numpy()
        for mask, label, colour, marker in (
            (training.settled, "settled", BLUE, "o"),
            (training.diverged, "diverged (where it stopped)", ORANGE, "x"),
        ):
            chosen = mask.cpu().numpy() & (sharp > 0)
            ax.plot(edge[chosen], sharp[chosen], marker, color=colour, label=label, mfc="none", markersize=5)
        dead = training.dead.cpu().numpy()
        _log_log_diagonal(ax)
        # Sharpness 0 has no place on the axis: dead networks stand at its foot.
        ax.plot(edge[dead], np.full(dead.sum(), 0.02), "v", color="black", label="dead, 0", markersize=5, clip_on=False,
                transform=ax.get_xaxis_transform())  # fmt: skip
        ax.set(xlabel=r"$2/\eta$", title=name)
    np.atleast_1d(axes)[0].set_ylabel(r"final $\lambda_{\max}$")
    fig.legend(*np.atleast_1d(axes)[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


def count_and_bounds(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Mean count and what Theorem 6 allows against the learning rate, a panel for each `rates_table`."""
    columns = {
        "allowed_edge": (r"$4N/(r^2\eta) + 2$", "black", "", "--"),
        "allowed": (r"$(2N/r^2)\,\lambda_{\max} + 2$", ORANGE, "s", "-"),
        "mean_count": ("mean count, end of training", BLUE, "o", "-"),
    }
    fig, axes = plt.subplots(1, len(tables), figsize=(plotting.width(), 3.6), sharey=True)
    for ax, (name, table) in zip(np.atleast_1d(axes), tables.items(), strict=True):
        for column, (label, colour, marker, line) in columns.items():
            ax.plot(table["lr"], table[column], line, color=colour, marker=marker, label=label, markersize=5)
        ax.set(xscale="log", yscale="log", xlabel=r"learning rate $\eta$", title=name)
    np.atleast_1d(axes)[0].set_ylabel("regions on a segment")
    fig.legend(*np.atleast_1d(axes)[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return fig


def growth_panels(line: pd.DataFrame, orthonormal: pd.DataFrame) -> Figure:
    """Mean count and what Theorem 6 allows against N, for the two families of `growth_with_n`."""
    fig, axes = plt.subplots(1, 2, figsize=(plotting.width(), 3.6), sharey=True)
    titles = ("points on a line, alternating targets", "orthonormal points")
    for ax, table, title in zip(axes, (line, orthonormal), titles, strict=True):
        ax.plot(table["N"], table["allowed"], "-s", color=ORANGE, label=r"$(2N/r^2)\,\lambda_{\max} + 2$")
        if table["line_allowed"].notna().all():
            label = r"$16\,\log_2(N)\,\lambda_{\max}/r^2 + 2$, for any line"
            ax.plot(table["N"], table["line_allowed"], "--", color=PINK, label=label)
        ax.plot(table["N"], table["mean_count"], "-o", color=BLUE, label="mean count")
        ax.plot(table["N"], table["sharpness"], ":^", color=GREEN, label=r"$\lambda_{\max}/r^2$")
        ax.set(xscale="log", yscale="log", xlabel="training points $N$", title=title)
        ax.set_xticks(table["N"], [str(n) for n in table["N"]])
        ax.minorticks_off()
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return fig


def half_plane_panels(seed: int = 0) -> Figure:
    """Three points of the plane with all eight labellings, each given by a half-plane, and a line across each."""
    points, labels = half_spaces.circle(3) @ [[0, 1], [-1, 0]], half_spaces.labellings(3)
    normals, offsets = half_spaces.separating_half_spaces(points, labels)
    fig, axes = plt.subplots(2, 4, figsize=(plotting.width(), 4.2))
    grid = np.stack(np.meshgrid(*[np.linspace(-1.6, 1.6, 600)] * 2), -1)
    rng = np.random.default_rng(seed)
    for ax, w, b, label in zip(axes.flat, normals, offsets, labels, strict=True):
        # Steep to the boundary, so that the line meets it within the frame.
        angle = np.arctan2(w[1], w[0]) + rng.uniform(-0.7, 0.7)
        along = np.linspace(-3, 3, 601)[:, None] * [np.cos(angle), np.sin(angle)] + rng.uniform(-0.3, 0.3, 2)
        _set_panel(ax, grid, grid @ w + b > 0, points, label, along, along @ w + b > 0)
    return fig


def convex_panels(n: int = 8, chosen: Sequence[int] = (0b10101010, 0b11010010, 0b11111111)) -> Figure:
    """n points on a circle, some labellings (as binary numbers), and the convex polygon that gives each of them."""
    labels = half_spaces.labellings(n)[list(chosen)]
    polygons = half_spaces.convex_polygons(labels)
    fig, axes = plt.subplots(1, len(chosen), figsize=(plotting.width(), 2.9))
    grid = np.stack(np.meshgrid(*[np.linspace(-1.6, 1.6, 600)] * 2), -1)
    for ax, polygon, label in zip(axes, polygons, labels, strict=True):
        filled = half_spaces.inside(polygon[None], grid.reshape(-1, 2))[0].reshape(grid.shape[:2])
        along = np.linspace(-3, 3, 1201)[:, None] * [np.cos(0.5), np.sin(0.5)] + [0, 0.25]
        on_line = half_spaces.inside(polygon[None], along)[0]
        _set_panel(ax, grid, filled, half_spaces.circle(n), label, along, on_line)
    return fig


def _set_panel(ax: Axes, grid, filled, points, labels, along, on_line) -> None:
    """A set in light orange, points by label, and a line whose parts inside the set are thick."""
    extent = (grid[..., 0].min(), grid[..., 0].max(), grid[..., 1].min(), grid[..., 1].max())
    colours = np.where(filled[..., None], mpl.colors.to_rgb("#F6C9A6"), mpl.colors.to_rgb("#DCE9F3"))
    ax.imshow(colours, extent=extent, origin="lower", interpolation="nearest")
    ax.plot(*along.T, color="0.25", linewidth=1)
    ax.plot(*np.where(on_line[:, None], along, np.nan).T, color="0.25", linewidth=3.5)
    for value, colour, marker in ((True, ORANGE, "s"), (False, BLUE, "o")):
        ax.plot(*points[labels == value].T, marker, color=colour, mec="white", linestyle="none")
    regions = 1 + int((on_line[1:] != on_line[:-1]).sum())
    ax.set(xlim=extent[:2], ylim=extent[2:], xticks=[], yticks=[])
    ax.set_title(f"{regions} region{'s' if regions > 1 else ''} on the line", fontsize=10)
    ax.set_aspect("equal")


def deviation_lines(constants: pd.DataFrame) -> Figure:
    """The largest deviation times sqrt(n / k) against n, a line a k, from `half_spaces.deviation_constants`."""
    fig, ax = plt.subplots(figsize=(plotting.width(), 3.4))
    shown = [k for k in constants.columns if k > 1]
    for k, colour in zip(shown, _ramp(len(shown)), strict=True):
        ax.plot(constants.index, constants[k], marker="osD^v<>"[k % 7], color=colour, label=str(k), markersize=5)
    ax.set(xscale="log", xlabel="points $n$", ylabel=r"E sup $|P_n f - P f|\,\sqrt{n/k}$", ylim=(0, 1.05))
    ax.legend(title="regions $k$", ncols=4, loc="lower right")
    return fig


def equal_loss_lines(counts: Mapping[str, np.ndarray], factors: Sequence[float]) -> Figure:
    """Mean count at a common loss against the learning rate, a panel a data set: means, and a thin line a training."""
    fig, axes = plt.subplots(1, len(counts), figsize=(plotting.width(), 3.2), squeeze=False)
    for ax, (name, values) in zip(axes[0], counts.items(), strict=True):
        ax.plot(factors, values.T, color=BLUE, alpha=0.12, linewidth=0.8)
        ax.plot(factors, np.nanmean(values, axis=0), "o-", color=ORANGE, label="mean of those that get there")
        ax.axvline(1, color="black", linestyle="--", linewidth=1, label="edge")
        ax.set(xscale="log", xlabel=r"learning rate in units of $2/\lambda_{\max}(W_0)$", title=name)
        ax.set_xticks(factors, [f"{f:.2g}" for f in factors])
        ax.minorticks_off()
    axes[0, 0].set_ylabel("mean count at equal loss")
    axes[0, 0].legend()
    return fig
