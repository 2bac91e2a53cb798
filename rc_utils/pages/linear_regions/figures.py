"""Figures of the page on univariate networks."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rc_utils.pages.linear_regions.tables import above_bound
from rc_utils.pages.plotting import BLACK, BLUE, GREEN, ORANGE
from rc_utils.theory.univariate.flow import Flow
from rc_utils.theory.univariate.networks import kinks, make_teachers, outputs
from rc_utils.theory.univariate.theorems import allowed_error, region_bound


def teacher_and_student(
    crossings: torch.Tensor, start: torch.Tensor, end: torch.Tensor, x: torch.Tensor, y: torch.Tensor
) -> Figure:
    """A teacher (r,), its student at the start and at the end (3, k), all scaled to height 1, with the student's kinks.

    x, y (n,): the sample, as ticks at ±1.2. Kinks outside of the picture are not drawn.
    """
    fig, ax = plt.subplots()
    grid = torch.linspace(-1.15, 1.15, 2001, dtype=torch.float64)
    curves = (
        ("teacher", make_teachers(crossings[None])[0], BLACK, ":"),
        ("student at the start", start, "0.65", "--"),
    )
    for name, network, colour, style in (*curves, ("student, converged", end, BLUE, "-")):
        values = outputs(network[None], grid)[0]
        ax.plot(grid, values / values.abs().max(), style, color=colour, label=name, linewidth=1.8)
    top = outputs(end[None], grid).abs().max()
    places = torch.tensor(kinks(end)[0])
    ax.plot(places, outputs(end[None], places)[0] / top, "o", color=ORANGE, label="its kinks", zorder=3)
    for sign, marker in ((1, "+"), (-1, "_")):
        ax.plot(x[y == sign], np.full(int((y == sign).sum()), 1.2 * sign), marker, color=GREEN, markersize=6)
    ax.plot([], [], "+", color=GREEN, label="samples, by label")
    ax.axhline(0, color="0.5", linewidth=0.8)
    ax.set(xlabel="x", ylabel="N(x), scaled to height 1", xlim=(-1.15, 1.15), ylim=(-1.3, 1.3))
    fig.legend(loc="outside upper center", ncols=3)
    return fig


def regions_against_sign_changes(table: pd.DataFrame) -> Axes:
    """Linear regions of the converged students against r, with the bound 32 r + 67 and the least number possible."""
    ax = plt.subplots()[1]
    kept = table[table["converged"]]
    r = np.arange(1, table["sign_changes"].max() + 1)
    _points(ax, kept["sign_changes"], kept["regions"])
    ax.plot(r, [region_bound(v) for v in r], "--", color=ORANGE, label="bound 32 r + 67 (Theorem 4.2)")
    ax.plot(r, r, ":", color=BLACK, label="r")
    ax.set(xlabel="sign changes of the teacher r", ylabel="linear regions", yscale="log", xticks=r)
    ax.legend(loc="center left", bbox_to_anchor=(0, 0.62))
    return ax


def regions_against_size(by_width: pd.DataFrame, by_samples: pd.DataFrame) -> Figure:
    """Linear regions of the converged students against the width and against the sample size, r fixed."""
    fig, axes = plt.subplots(1, 2, sharey=True)
    panels = ((by_width, "width", "width k (neurons)"), (by_samples, "num_samples", "sample size n"))
    both = pd.concat([by_width, by_samples])
    top = both.loc[both["converged"], "regions"].max()
    for ax, (table, column, name) in zip(axes, panels, strict=True):
        kept = table[table["converged"]]
        _points(ax, kept[column], kept["regions"], log=True)
        values = sorted(table[column].unique())
        ax.set_xscale("log")
        ax.set_xticks(values, [f"{v:g}" for v in values])
        ax.minorticks_off()
        ax.set(xlabel=name, ylim=(0, top + 1 if np.isfinite(top) else None))
    axes[0].set_ylabel("linear regions")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return fig


def success_against_width(narrow: pd.DataFrame, certified: pd.DataFrame) -> Figure:
    """Share of students that fit their points, with exact 95 % intervals, and that stay above the loss of Theorem 3.2
    against width / r; certified: of `certified_share`."""
    fig, axes = plt.subplots(1, 2)
    shares = above_bound(narrow)
    error = (shares["fitted"] - shares["fitted_low"], shares["fitted_high"] - shares["fitted"])
    axes[0].errorbar(shares["width_ratio"], shares["fitted"], error, color=BLUE, marker="o", capsize=3)
    axes[0].axvline(4 / 3, color=ORANGE, linestyle="--", label="4 / 3")
    ticks = [v for v in shares["width_ratio"] if v == int(v)]
    axes[0].set_xscale("log")
    axes[0].set_xticks(ticks, [f"{v:g}" for v in ticks])
    axes[0].minorticks_off()
    axes[0].set(xlabel="width / r", ylabel="share that fits its sample", ylim=(-0.03, 1.03))
    axes[0].legend()
    low = shares.dropna(subset=["above"])
    axes[1].plot(low["width_ratio"], low["above"], "o-", color=BLUE, label="after a finite run")
    error = (certified["share"] - certified["low"], certified["high"] - certified["share"])
    look = {"fmt": "s--", "color": GREEN, "capsize": 3}
    axes[1].errorbar(certified["width_ratio"], certified["share"], error, label="whatever the training", **look)
    axes[1].axhline(0.25, color=ORANGE, linestyle="--", label="0.25 (Theorem 3.2)")
    axes[1].set(xlabel="width / r", ylabel="share above (1 − 0.75 α) / 4", ylim=(-0.03, 1.03))
    axes[1].legend(loc="center left", bbox_to_anchor=(0, 0.5))
    return fig


def residual_course(flow: Flow, limit: float) -> Axes:
    """KKT residual of each student over the steps, one line a student, with the limit below which it is converged."""
    ax = plt.subplots()[1]
    steps = [step for step, _, _ in flow.course]
    values = np.array([residual for _, residual, _ in flow.course])
    values[~np.isfinite(values)] = np.nan
    ax.plot(steps, values, "o-", color=BLUE, alpha=0.6, markersize=4, linewidth=1.2)
    ax.axhline(limit, color=ORANGE, linestyle="--", label=f"converged below {limit:g}")
    ax.set(xlabel="step", ylabel="KKT residual", yscale="log")
    ax.legend()
    return ax


def error_against_samples(errors: pd.DataFrame, delta: float) -> Axes:
    """Error over the population against n, with standard errors, and what Corollary 5.1 allows at the least C_0 that
    allows the largest error at each n."""
    ax = plt.subplots()[1]
    n, constant = errors["num_samples"], errors["constant"].max()
    ax.errorbar(n, errors["mean"], errors["std_error"].fillna(0), color=BLUE, marker="o", capsize=3, label="mean")
    ax.plot(n, errors["largest"], "s-", color=GREEN, label="largest")
    pairs = zip(n, errors["sign_changes"], strict=True)
    allowed = [allowed_error(samples, r, delta, constant) for samples, r in pairs]
    ax.plot(n, allowed, "--", color=ORANGE, label=f"Corollary 5.1 if $C_0$ were {constant:.2g}")
    ax.set(xlabel="sample size n", ylabel="error over the population", xscale="log", yscale="log")
    ax.set_xticks(list(n), [f"{v:g}" for v in n])
    ax.minorticks_off()
    ax.legend()
    return ax


def _points(ax: Axes, x: pd.Series, y: pd.Series, log: bool = False) -> None:
    """Every student as a faint point, moved sideways by its rank among equals, and the mean as a line."""
    spread = np.linspace(-0.12, 0.12, 9)[np.arange(len(x)) % 9]
    ax.plot(
        x * 2**spread if log else x + spread,
        y,
        "o",
        color=BLUE,
        alpha=0.35,
        markersize=6,
        label="converged students",
    )
    mean = y.groupby(x).mean()
    ax.plot(mean.index, mean, "-", color=BLUE, linewidth=1.8, label="mean")
