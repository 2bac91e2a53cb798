"""The figures of the five studies."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from rc_utils.pages import plotting
from rc_utils.pages.under_test.decisions import beyond_settings
from rc_utils.pages.under_test.studies import COUNT

DRAWS = {"seeds": "the seed draws weights and order", "draws": "and the training images"}


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
            points = plotting.words_of_points(group)
            ax.scatter(x, y, s=30, edgecolors=color, facecolors=face, label=words, urls=points)
        ax.set_title(network)
        ax.set_xlabel("log(count) less its mean")
        ax.locator_params(axis="x", nbins=5)
    axes[0, 0].set_ylabel("gap less its mean")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig


def independent_panels(runs: pd.DataFrame, *, seed: int = 0) -> Figure:
    """Study 5: one dot a run, log(count) and gap as they are, and what the settings do not predict of both."""
    runs = runs[runs["interpolates"]].reset_index(drop=True)
    left = runs.assign(
        **{column: beyond_settings(runs, runs[column].to_numpy(float), seed) for column in (COUNT, "gap")}
    )
    fig, axes = plt.subplots(1, 2, figsize=(plotting.width(), 3.6))
    labels = (("log(count)", "gap"), ("log(count), residual", "gap, residual"))
    for ax, table, (xlabel, ylabel) in zip(axes, (runs, left), labels, strict=True):
        for network, group in table.groupby("network", sort=False):
            style = plotting.network_style(network)
            points = plotting.words_of_points(runs.loc[group.index])
            ax.scatter(
                group[COUNT], group["gap"], s=30, color=style.color, marker=style.marker, label=network, urls=points
            )
        ax.set(xlabel=xlabel, ylabel=ylabel)
    axes[0].set_title("as it is")
    axes[1].set_title("beyond the settings")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig
