"""The figures of the five studies."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rc_studies.decisions import PLAIN, beyond_settings, changes_from_control, predictions
from rc_studies.studies import AXES, COUNT, STUDIES
from rc_utils import plotting
from rc_utils.sweep.campaign import read_campaign

DRAWS = {"seeds": "the seed draws weights and order", "draws": "and the training images"}
# The experiments from which a study starts: in the others it changes or predicts something.
STARTS = ("seeds", "draws", "sgd", "control", "base", "resnet", "vgg")


def designs() -> Figure:
    """The settings of each study's runs: a circle each, its area the number of runs, blue as far as they start it."""
    fig, axes = plt.subplots(2, 3, figsize=(plotting.width(), 5.6), sharex=True, sharey=True)
    for number, (ax, (name, title)) in enumerate(zip(axes.flat, STUDIES.items(), strict=False), start=1):
        campaign = read_campaign(f"study-{name}")
        runs = pd.DataFrame(
            [(p.spec.train.lr, p.spec.train.batch_size, e.name in STARTS) for e, _, p in campaign.entries()],
            columns=["lr", "batch_size", "starts"],
        )
        for part, colour in ((runs, plotting.ORANGE), (runs[runs["starts"]], plotting.BLUE)):
            settings = part.groupby(["lr", "batch_size"], as_index=False).size()
            ax.scatter(settings["lr"], settings["batch_size"], s=10 * settings["size"], color=colour, linewidths=0)
        ax.set(xscale="log", yscale="log", title=f"{number}. {title}\n{len(campaign.runs())} runs")
    axes[0, 0].set_yticks([16, 64, 256], ["16", "64", "256"])
    axes[0, 0].minorticks_off()
    axes.flat[-1].set_visible(False)
    axes[0, 2].tick_params(labelbottom=True)
    fig.supxlabel(plotting.label_of("lr"), fontsize=12)
    fig.supylabel(plotting.label_of("batch_size"), fontsize=12)
    handles = [Line2D([], [], color=c, marker="o", linestyle="none") for c in (plotting.BLUE, plotting.ORANGE)]
    fig.legend(handles, ["to start from", "changed or predicted"], loc="lower right", bbox_to_anchor=(0.98, 0.2))
    return fig


def highlighted(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of a forest plot, the count first within its group and in a colour of its own."""
    is_count = rows["label"].isin([COUNT, PLAIN])
    rows = rows.assign(verdict=np.where(is_count, "count", ""), later=~is_count, order=0)
    if "group" in rows.columns:
        rows["order"] = pd.factorize(rows["group"])[0]
    return rows.sort_values(["order", "later"], kind="stable", ignore_index=True)


def seeds_panels(runs: pd.DataFrame) -> Figure:
    """Study 1: one dot a run, log(count) and gap less the means of its group; a panel a network."""
    networks = list(runs["network"].unique())
    fig, axes = plt.subplots(1, len(networks), figsize=(plotting.width(), 3.6), sharey=True, squeeze=False)
    for ax, network in zip(axes[0], networks, strict=True):
        color = plotting.network_style(network).color
        for name, words in DRAWS.items():
            group = runs[(runs["network"] == network) & (runs["experiment"] == name)]
            x, y = group[COUNT] - group[COUNT].mean(), group["gap"] - group["gap"].mean()
            face = color if name == "seeds" else "white"
            ax.scatter(x, y, s=30, edgecolors=color, facecolors=face, label=words)
        ax.set_title(network)
        ax.set_xlabel("log(count) less its mean")
        ax.locator_params(axis="x", nbins=5)
    axes[0, 0].set_ylabel("gap less its mean")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig


def _scatter_networks(ax, runs, x):
    """One dot a run, the column `x` and the gap, in the style of its network."""
    for network, group in runs.groupby("network", sort=False):
        style = plotting.network_style(network)
        ax.scatter(group[x], group["gap"], s=30, color=style.color, marker=style.marker, label=network)


def independent_panels(runs: pd.DataFrame, *, seed: int = 0) -> Figure:
    """Study 5: one dot a run, log(count) and gap as they are, and what the settings do not predict of both."""
    runs = runs[runs["interpolates"]].reset_index(drop=True)
    columns = [COUNT, "gap"]
    left = runs.assign(**dict(zip(columns, beyond_settings(runs, runs[columns].to_numpy(float), seed).T, strict=True)))
    fig, axes = plt.subplots(1, 2, figsize=(plotting.width(), 3.6))
    labels = (("log(count)", "gap"), ("log(count), residual", "gap, residual"))
    for ax, table, (xlabel, ylabel) in zip(axes, (runs, left), labels, strict=True):
        _scatter_networks(ax, table, COUNT)
        ax.set(xlabel=xlabel, ylabel=ylabel)
    axes[0].set_title("as it is")
    axes[1].set_title("beyond the settings")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig


def transfer_panels(runs: pd.DataFrame, rival: str) -> Figure:
    """Study 2: one dot a predicted setting, its gap against the one that a network's SGD line in a measure predicts.

    rival: the measure of the right panel, beside log(count).
    """
    predicted = predictions(runs)
    others = predicted[predicted["experiment"] != "sgd"]
    ends = np.array([others["gap"].min(), others["gap"].max()])
    fig, axes = plt.subplots(1, 2, figsize=(plotting.width(), 4.0), sharey=True)
    for ax, measure in zip(axes, (COUNT, rival), strict=True):
        _scatter_networks(ax, others, f"by {measure}")
        ax.plot(ends, ends, color="0.5", linewidth=1)
        ax.set(title=measure, xlabel="predicted gap")
    axes[0].set_ylabel("gap")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=9)
    return fig


def intervention_panel(runs: pd.DataFrame, across: float) -> Figure:
    """Study 3: one dot a run, what a treatment changes of log(count) and of the gap; a larger dot is a larger dose.

    across: the slope across settings, whose line is drawn; half of it decides and is dashed.
    """
    changes = changes_from_control(runs)
    fig, ax = plt.subplots(figsize=(plotting.width(), 4.6))
    colours = (plotting.BLUE, plotting.ORANGE, plotting.GREEN, plotting.PINK)
    for (arm, group), colour, marker in zip(changes.groupby("arm", sort=False), colours, "os^D", strict=False):
        sizes = 20 + 30 * pd.factorize(group["experiment"])[0]
        ax.scatter(group["x"], group["y"], s=sizes, color=colour, marker=marker, alpha=0.8, label=arm)
    ends = np.array([min(changes["x"].min(), 0), max(changes["x"].max(), 0)])
    ax.plot(ends, across * ends, color="0.3", label="slope across settings")
    ax.plot(ends, across / 2 * ends, color="0.3", linestyle="--", label="half of it")
    ax.set(xlabel="change of log(count) from the control", ylabel="change of the gap")
    ax.legend(fontsize=9)
    return fig


def axes_panels(runs: pd.DataFrame) -> Figure:
    """Study 4: a panel an axis, a line a base setting and seed through its levels; a larger dot is a later level."""
    fig, axes = plt.subplots(2, 4, figsize=(plotting.width(), 4.8), sharex=True, sharey=True)
    for ax, (axis, levels) in zip(axes.flat, AXES.items(), strict=False):
        own = runs[runs["experiment"].isin(levels)]
        own = own.assign(level=own["experiment"].map(levels.index)).sort_values("level")
        for (lr, _), unit in own.groupby(["lr", "seed"]):
            colour = plotting.BLUE if lr == runs["lr"].min() else plotting.ORANGE
            ax.plot(unit[COUNT], unit["gap"], color=colour, linewidth=0.8, alpha=0.6)
            ax.scatter(unit[COUNT], unit["gap"], s=8 + 14 * unit["level"], color=colour)
        ax.set_title(axis.replace("sharpness-aware minimisation", "sharpness-aware"), fontsize=11)
    axes.flat[-1].set_visible(False)
    axes[0, -1].tick_params(labelbottom=True)
    fig.supxlabel("log(count)", fontsize=12)
    fig.supylabel("gap", fontsize=12)
    handles = [Line2D([], [], color=c, marker="o") for c in (plotting.BLUE, plotting.ORANGE)]
    words = [f"learning rate {lr:g}" for lr in sorted(runs["lr"].unique())]
    fig.legend(handles, words, loc="lower right", bbox_to_anchor=(0.99, 0.2), fontsize=9)
    return fig
