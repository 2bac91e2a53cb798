"""What the correlation of count and gap is worth where cells do not interpolate: training that ended early."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from rc_utils import evolution, figures, ledger, plotting
from rc_utils.correlation import MIN_CELLS, average_seeds, correlate_cells, finished, interval_text

QUANTITIES = {"gap": "gap", "test_accuracy": "test accuracy"}


def interpolation_table(name: str, *, num_resamples: int = 10_000, seed: int = 0, **read) -> pd.DataFrame:
    """One row a grid of cells of the campaign `name` that were trained alike, the least fitted first.

    The grids: every network of the experiments `main` and `short`, and the network of the evolution after every counted
    epoch but 0. Grids of fewer than `MIN_CELLS` cells are left out. Columns: grid (in words), network, train_accuracy
    (mean), n_cells, n_interpolating, and for both of `QUANTITIES` Pearson's correlation with the count over cells,
    seeds averaged: the quantity's name, and with `_low` and `_high` its interval. read: `origin` and `num_samples` of
    `load_runs`.
    """
    rows = []
    for words, network, runs in _grids(name, **read):
        cells = finished(average_seeds(runs))
        if len(cells) < MIN_CELLS or not cells["count"].notna().all():
            continue
        fitted = int((cells["train_accuracy"] >= ledger.INTERPOLATES).sum())
        row = {"grid": words, "network": network, "train_accuracy": cells["train_accuracy"].mean()}
        row |= {"n_cells": len(cells), "n_interpolating": fitted}
        for quantity in QUANTITIES:
            c = correlate_cells(cells, "count", quantity, num_resamples=num_resamples, seed=seed)
            row |= {quantity: c.value, f"{quantity}_low": c.low, f"{quantity}_high": c.high}
        rows.append(row)
    columns = ["grid", "network", "train_accuracy", "n_cells", "n_interpolating"]
    columns += [q + end for q in QUANTITIES for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=columns).sort_values("train_accuracy", ignore_index=True)


def _grids(name: str, **read):
    runs = ledger.load_runs(name, **read)
    if runs.empty:
        return
    for (experiment, network), group in runs.groupby(["experiment", "network"], sort=False):
        if experiment in ("main", "short"):
            yield f"{network}, {int(group['epochs'].max())} epochs", network, group
    try:
        counted = evolution.evolution_runs(name, **read)
    except evolution.NothingCounted:
        return
    for epoch, group in counted.groupby("epoch"):
        if 0 < epoch < counted["epoch"].max():
            network = group["network"].iloc[0]
            yield f"{network} at epoch {epoch} of {int(counted['epoch'].max())}", network, group


def show_interpolation(table: pd.DataFrame) -> Figure:
    """Correlation of count with gap and with test accuracy against the mean training accuracy of a grid."""
    if table.empty:
        return figures.not_run("grids of cells")
    fig, axes = plt.subplots(1, 2, figsize=(plotting.width(), 3.2), sharex=True)
    for ax, (quantity, words) in zip(axes, QUANTITIES.items(), strict=True):
        for network, group in table.groupby("network", sort=False):
            style = plotting.network_style(network)
            value = group[quantity].to_numpy()
            errors = np.abs(group[[f"{quantity}_low", f"{quantity}_high"]].to_numpy().T - value)
            look = {"color": style.color, "marker": style.marker, "linestyle": "none", "capsize": 2, "label": network}
            ax.errorbar(group["train_accuracy"], value, errors, **look)
        ax.axhline(0, color="0.6", linewidth=0.8)
        ax.set(title=f"count and {words}", xlabel="mean training accuracy", ylim=(-1.05, 1.05))
    axes[0].set_ylabel("correlation")
    axes[0].legend()
    return fig


def texts(table: pd.DataFrame) -> pd.DataFrame:
    """`interpolation_table` as a page shows it."""
    shown = pd.DataFrame({"Trained": table["grid"], "Training accuracy": table["train_accuracy"].map("{:.3f}".format)})
    shown["Interpolate"] = [f"{a} of {b}" for a, b in zip(table["n_interpolating"], table["n_cells"], strict=True)]
    for quantity, words in QUANTITIES.items():
        bounds = table[[quantity, f"{quantity}_low", f"{quantity}_high"]].to_numpy()
        shown[f"Count and {words}"] = [interval_text(*row) for row in bounds]
    return shown
