"""The figures of the five studies."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rc_studies.decisions import MOVED, best_rival, changes_from_control, predictions
from rc_studies.studies import AXES, COUNT
from rc_utils import plotting

DRAWS = {"seeds": "the seed draws weights and order", "draws": "and the training images"}


def seeds_panels(runs: pd.DataFrame, draws: dict[str, str] = DRAWS) -> Figure:
    """Studies 1, 6 and 7: log(count) and gap minus the means of the experiment, one dot per run.

    One panel per network. draws: what the seed draws in each experiment; "" for no legend.
    """
    networks, size = list(runs["network"].unique()), (plotting.width(), 3.6)
    fig, axes = plt.subplots(1, len(networks), figsize=size, sharey=True, squeeze=False)
    styles = plotting.network_styles(networks)
    for ax, network in zip(axes[0], networks, strict=True):
        color = styles[network]["color"]
        for name, words in draws.items():
            group = runs[(runs["network"] == network) & (runs["experiment"] == name)]
            x, y = group[COUNT] - group[COUNT].mean(), group["gap"] - group["gap"].mean()
            face = "white" if name == "draws" else color
            ax.scatter(x, y, s=30, edgecolors=color, facecolors=face, label=words)
        ax.set(title=network, xlabel="log(count) less its mean")
        ax.locator_params(axis="x", nbins=5)
    axes[0, 0].set_ylabel("gap less its mean")
    if all(draws.values()):
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig


def splits_figure(splits: pd.DataFrame, averaged: dict[str, pd.DataFrame]) -> Figure:
    """Study 5: histogram of r with one partition into folds; r and the best rival's, averaged.

    splits: table of `split_by_split`. averaged: {name: table of `partial_correlations`}.
    """
    fig, (above, below) = plt.subplots(2, 1, figsize=(plotting.width(), 6.4))
    colours = {"supports": plotting.BLUE, "inconclusive": "0.6", "refutes": plotting.ORANGE}
    parts = [splits.loc[splits["decision"] == decision, "r"] for decision in colours]
    words = [f"{decision}: {len(part)}" for decision, part in zip(colours, parts, strict=True)]
    bins = np.arange(0.2, 0.56, 0.02)
    above.hist(parts, bins=bins, stacked=True, color=list(colours.values()), label=words)
    above.set(xlabel="r by one partition into folds", ylabel="seeds of the partition")
    above.set_title("as registered")
    above.legend(fontsize=10)
    for row, table in enumerate(averaged.values()):
        found, rival = table.set_index("measure")["r"], best_rival(table)
        for name, words, colour, shift in (
            (COUNT, "log count", plotting.BLUE, -0.12),
            (rival, "best rival, without its sign", plotting.ORANGE, 0.12),
        ):
            r, sign = found[name], np.sign(found[name].value)
            ends = sorted((sign * r.low, sign * r.high))
            below.plot(ends, [row + shift] * 2, color=colour, linewidth=2)
            label = words if row == 0 else None
            below.plot(sign * r.value, row + shift, "o", color=colour, label=label)
    below.axvline(0.2, color="0.3", linestyle="--", linewidth=1)
    below.set_yticks(range(len(averaged)), averaged)
    below.set(ylim=(len(averaged) - 0.5, -0.9), xlabel="r, 95 % interval")
    below.set_title("200 partitions averaged")
    below.legend(fontsize=10, loc="upper right")
    return fig


def transfer_panels(runs: pd.DataFrame, rival: str) -> Figure:
    """Study 2: gap against the gap predicted by the network's SGD line, one dot per setting.

    The line is in log(count) on the left, in the measure `rival` on the right.
    """
    predicted = predictions(runs)
    others = predicted[predicted["experiment"] != "sgd"]
    ends = np.array([others["gap"].min(), others["gap"].max()])
    fig, axes = plt.subplots(1, 2, figsize=(plotting.width(), 4.0), sharey=True)
    styles = plotting.network_styles(others["network"])
    for ax, measure in zip(axes, (COUNT, rival), strict=True):
        for network, group in others.groupby("network", sort=False):
            ax.scatter(group[f"by {measure}"], group["gap"], s=30, **styles[network], label=network)
        ax.plot(ends, ends, color="0.5", linewidth=1)
        ax.set(title=measure, xlabel="predicted gap")
    axes[0].set_ylabel("gap")
    handles = axes[0].get_legend_handles_labels()
    fig.legend(*handles, loc="outside lower center", ncols=3, fontsize=10)
    return fig


def intervention_panel(runs: pd.DataFrame, across: float) -> Figure:
    """Study 3: changes of log(count) and gap under a treatment, one dot per run.

    A larger dot is a larger dose. across: the slope across settings, drawn as a line; half of it,
    which decides, is dashed. Dotted: how far the mean change of log(count) has to go to decide.
    """
    changes = changes_from_control(runs)
    fig, ax = plt.subplots(figsize=(plotting.width(), 4.6))
    colours = (plotting.BLUE, plotting.ORANGE, plotting.GREEN, plotting.PINK)
    arms = changes.groupby("arm", sort=False)
    for (arm, group), colour, marker in zip(arms, colours, "os^D", strict=False):
        look = {"color": colour, "marker": marker, "alpha": 0.8}
        sizes = 20 + 30 * pd.factorize(group["experiment"])[0]
        ax.scatter(group["x"], group["y"], s=sizes, **look, label=arm)
    ends = np.array([min(changes["x"].min(), 0), max(changes["x"].max(), 0)])
    ax.plot(ends, across * ends, color="0.3", label="slope across settings")
    ax.plot(ends, across / 2 * ends, color="0.3", linestyle="--", label="half of it")
    look = {"color": "0.3", "linestyle": ":", "linewidth": 1}
    ax.axvline(MOVED, **look, label="mean change needed to decide")
    ax.set(xlabel="change of log(count) from the control", ylabel="change of the gap")
    ax.legend(fontsize=10)
    return fig


def axes_panels(runs: pd.DataFrame) -> Figure:
    """Study 4: one panel per axis, one line per base setting and seed; later levels larger."""
    fig, axes = plt.subplots(3, 3, figsize=(plotting.width(), 6.4), sharex=True, sharey=True)
    small, large = plotting.BLUES([0.0, 1.0])
    for ax, (axis, levels) in zip(axes.flat, AXES.items(), strict=False):
        own = runs[runs["experiment"].isin(levels)]
        own = own.assign(level=own["experiment"].map(list(levels).index)).sort_values("level")
        for (lr, _), unit in own.groupby(["lr", "seed"]):
            colour = small if lr == runs["lr"].min() else large
            ax.plot(unit[COUNT], unit["gap"], color=colour, linewidth=0.8, alpha=0.6)
            ax.scatter(unit[COUNT], unit["gap"], s=8 + 14 * unit["level"], color=colour)
        ax.set_title(axis.replace("sharpness-aware minimisation", "sharpness-aware"), fontsize=11)
    for lowest, empty in zip(axes[1, 1:], axes[2, 1:], strict=True):
        lowest.tick_params(labelbottom=True)
        empty.set_visible(False)
    fig.supxlabel("log(count)", fontsize=12)
    fig.supylabel("gap", fontsize=12)
    handles = [Line2D([], [], color=c, marker="o") for c in (small, large)]
    words = [f"learning rate {lr:g}" for lr in sorted(runs["lr"].unique())]
    fig.legend(handles, words, loc="lower right", bbox_to_anchor=(0.95, 0.15))
    return fig
