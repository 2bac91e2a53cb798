"""Where the papers are silent, disagree or look wrong: what this book does about it, and what can be computed."""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from rc_utils.correlation import average_replicates, correlate_settings, finished, interval_text
from rc_utils.correlation.estimates import MIN_UNITS
from rc_utils.pages import plotting, training_evolution
from rc_utils.paper.published_tables import ARCHITECTURES, EVOLUTION, GRID_SIZE, HYPERPLANES, NETWORKS, RANGE
from rc_utils.sweep import records

QUANTITIES = {"gap": "gap", "test_accuracy": "test accuracy"}


@dataclass(frozen=True)
class Question:
    """One open question: where it arises, what is the matter, and what this book does."""

    id: str
    where: str
    matter: str
    done: str


DOUBTS = (
    Question("evolution-gap", "v1 Table 6, v3 Table 3",
             "the gaps part from epoch 80 on; counts and correlations are equal", "both stand beside ours"),
    Question("swapped-columns", "v1/v3 Table 8", "the column Test equals the main results, which use training pairs",
             "training pairs are used for everything; the columns are compared as labelled"),
    Question("crop-flip-count", "v1 Fig 8, v3 Sec. 7",
             "v1: fewer regions under crop and flip, as under mixup; v3: the two affect the count differently",
             "both changes are computed in 06_augmentation, and each has its verdict"),
    Question("distribution-shift", "v3 Sec. 2", "announces a study under distribution shifts, which the text lacks",
             "none here either"),
    Question("spanned", "v1 App. E, v3 Sec. 7", "planes spanned by 2 to 5 points; dimensions 2 to 5 need 3 to 6",
             "the dimension of the tables' columns is taken"),
    Question("theorem-6-sum", "v1 Theorem 6", "the bound names x_1 and x_2 inside a double sum over i and j",
             "read as x_i and x_j"),
    Question("initial-correlation", "v1 Table 6 and its text",
             "the text calls the correlation very low at initialisation; the table prints none there and -0.53 next",
             "the table is taken"),
    Question("mean-counts", "v3 Tables 3, 4 and 6", "three mean counts for what reads as one setting",
             "no mean count is held against ours outside the paper's own setting"),
    Question("loukas-prints", "Loukas App. A.1", "prints z(1) twice", "z(1) and z(2) are taken"),
    Question("constants", "Safran Corollary 5.1, Theorem 2.3", "constants are named, but not given",
             "the constant that would do is computed in 09_linear_regions"),
    Question("gap-or-accuracy", "v1 App. D.1, v3 Sec. 1",
             "v1 never defines the gap, and calls what Table 4 correlates test accuracy; v3 defines it",
             "training less test accuracy, as v3; where it differs, test accuracy is shown as well"),
)  # fmt: skip
SILENCES = (
    Question("coefficient", "v1 Sec. 3", "which correlation coefficient", "Pearson; Spearman and Kendall beside it"),
    Question("connectivity", "v1 App. D.1, v3 App. B", "which grid points are neighbours",
             "one step along a grid axis (v3 refers to an Algorithm 1 that the text at hand lacks)"),
    Question("grid", "v1 Table 5", "the grid for d = 3, 4, 5", "16, 12 and 10 points an edge"),
    Question("fit", "v1 Sec. 3", "whether every cell fits its training data",
             "cells below 99 % training accuracy are marked, and left out in tables of their own"),
    Question("momentum", "v1 App. C.1", "the momentum of SGD", "0.9"),
    Question("mode", "v1 Sec. 2.1", "evaluation or training mode while counting", "evaluation mode"),
    Question("shufflenet", "v1 Table 5", "the width of ShuffleNetV2", "x1, 1,263,854 parameters"),
    Question("drop-connect", "v1 Sec. 3", "whether EfficientNetB0 drops connections, as its own paper does",
             "not in the papers' settings: the public CIFAR code asks for 0.2, but its rate stays 0"),
    Question("direction", "v1 Table 8", "the length of the random direction",
             "the median distance between data points"),
    Question("mixup", "v1 Fig 7", "the parameter of mixup's Beta distribution",
             "a setting of the campaign, `mixup_alpha`"),
    Question("optimizers", "v1 Table 7", "the learning rates of Adam and Adagrad",
             "a setting of the experiment, `grid.lr`"),
)  # fmt: skip


def question_table(questions, answers: dict[str, str]) -> pd.DataFrame:
    """Questions as texts, with the computed answer by id where there is one."""
    return pd.DataFrame(
        [
            {"Where": q.where, "Open": q.matter, "What this book does": q.done, "Computed": answers.get(q.id, "–")}
            for q in questions
        ]
    )


def answers_from_print() -> dict[str, str]:
    """Answers that need the printed tables and short computations only."""
    gaps = [(epoch, v1 - v3) for epoch, _, v1, v3, _ in EVOLUTION if v1 is not None]
    parts = [epoch for epoch, difference in gaps if abs(difference) > 0.01]
    test = np.array(HYPERPLANES)[:, 0]
    main = np.array(ARCHITECTURES)[:, 0]
    counts = ", ".join(f"{v:.2f}" for v in (EVOLUTION[-1][1], GRID_SIZE[1][2][1], RANGE[0][1]))
    return {
        "evolution-gap": f"they differ by up to {max(abs(d) for _, d in gaps):.2f}, first at epoch {parts[0]}",
        "swapped-columns": f"Test equals the main results for {int((test == main).sum())} of {len(NETWORKS)} networks",
        "mean-counts": f"{counts}",
    }


def answers_from_runs(runs: pd.DataFrame, *, seed: int = 0) -> dict[str, str]:
    """Answers from a campaign's table of runs (all experiments), as far as it can give them; all cells of `main`."""
    main = finished(runs[runs["experiment"] == "main"])
    if main.empty or not main["count"].notna().any():
        return {}
    cells = finished(average_replicates(main))
    methods = ("pearson", "spearman", "kendall")
    text = ", ".join(f"{m} {_text(cells, 'count', 'gap', m, seed)}" for m in methods)
    networks = ", ".join(cells["network"].unique())
    fitted = cells[cells["interpolates"].astype(bool)]
    answers = {
        "coefficient": f"over {len(cells)} networks and settings of {networks}: {text}",
        "gap-or-accuracy": (
            f"all {len(cells)} of {networks}: gap {_text(cells, 'count', 'gap', seed=seed)}, test accuracy "
            f"{_text(cells, 'count', 'test_accuracy', seed=seed)}; the {len(fitted)} that interpolate: gap "
            f"{_text(fitted, 'count', 'gap', seed=seed)}, test accuracy "
            f"{_text(fitted, 'count', 'test_accuracy', seed=seed)}"
        ),
    }
    if "count_test" in main.columns and main["count_test"].notna().any():
        both = finished(average_replicates(main[main["count_test"].notna()]))
        pairs = {"training": "count", "test": "count_test"}
        text = ", ".join(f"{name} pairs {_text(both, column, 'gap', seed=seed)}" for name, column in pairs.items())
        answers["swapped-columns"] = f"here, over the {len(both)} settings with both: {text}"
    if "no-momentum" in set(runs["experiment"]):
        plain = finished(runs[runs["experiment"] == "no-momentum"])
        # The runs that differ from them in momentum and learning rate alone.
        keys = [key for key in ("network", "batch_size", "weight_decay", "seed") if key in runs.columns]
        same = main.merge(plain[keys].drop_duplicates(), on=keys)
        with_it, without = (_momentum_text(finished(average_replicates(part)), seed) for part in (same, plain))
        networks = " and ".join(plain["network"].unique())
        answers["momentum"] = f"{networks}: with 0.9 {with_it}; without {without}"
    return answers


def _momentum_text(cells: pd.DataFrame, seed: int) -> str:
    if cells.empty:
        return "no setting"
    return (
        f"{len(cells)} settings with learning rates {cells['lr'].min():g} to {cells['lr'].max():g}, correlation "
        f"{_text(cells, 'count', 'gap', seed=seed)}, mean count {cells['count'].mean():.2f}"
    )


def _text(cells: pd.DataFrame, x: str, y: str, method: str = "pearson", seed: int = 0) -> str:
    if len(cells) < 3:
        return "too few settings"
    c = correlate_settings(cells, x, y, method, seed=seed)
    return interval_text(c.value, c.low, c.high)


def interpolation_table(name: str, *, num_resamples: int = 10_000, seed: int = 0, **read) -> pd.DataFrame:
    """One row a grid of cells of the campaign `name` that were trained alike, the least fitted first.

    The grids: every network of the experiments `main` and `short`, and the network of the evolution after every counted
    epoch but 0. Grids of fewer than `MIN_UNITS` cells are left out. Columns: grid (in words), network, train_accuracy
    (mean), n_cells, n_interpolating, and for both of `QUANTITIES` Pearson's correlation with the count over cells,
    seeds averaged: the quantity's name, and with `_low` and `_high` its interval. read: `origin` and `num_samples` of
    `load_runs`.
    """
    rows = []
    for words, network, runs in _grids(name, **read):
        cells = finished(average_replicates(runs))
        if len(cells) < MIN_UNITS or not cells["count"].notna().all():
            continue
        fitted = int((cells["train_accuracy"] >= records.INTERPOLATES).sum())
        row = {"grid": words, "network": network, "train_accuracy": cells["train_accuracy"].mean()}
        row |= {"n_cells": len(cells), "n_interpolating": fitted}
        for quantity in QUANTITIES:
            c = correlate_settings(cells, "count", quantity, num_resamples=num_resamples, seed=seed)
            row |= {quantity: c.value, f"{quantity}_low": c.low, f"{quantity}_high": c.high}
        rows.append(row)
    columns = ["grid", "network", "train_accuracy", "n_cells", "n_interpolating"]
    columns += [q + end for q in QUANTITIES for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=columns).sort_values("train_accuracy", ignore_index=True)


def _grids(name: str, **read):
    runs = records.load_runs(name, **read)
    if runs.empty:
        return
    for (experiment, network), group in runs.groupby(["experiment", "network"], sort=False):
        if experiment in ("main", "short"):
            yield f"{network}, {int(group['epochs'].max())} epochs", network, group
    try:
        counted = training_evolution.evolution_runs(name, **read)
    except training_evolution.NothingCounted:
        return
    for epoch, group in counted.groupby("epoch"):
        if 0 < epoch < counted["epoch"].max():
            network = group["network"].iloc[0]
            yield f"{network} at epoch {epoch} of {int(counted['epoch'].max())}", network, group


def show_interpolation(table: pd.DataFrame) -> Figure:
    """Correlation of count with gap and with test accuracy against the mean training accuracy of a grid."""
    if table.empty:
        return plotting.not_run("grids of cells")
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
