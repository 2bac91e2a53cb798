"""What the records answer where the papers are silent, and what a count says of networks that do not fit their data."""

from __future__ import annotations

import pandas as pd

from rc_utils.correlation import MIN_UNITS, average_replicates, correlate_settings, finished, interval_text
from rc_utils.pages import scorecard
from rc_utils.sweep import records

QUANTITIES = {"gap": "gap", "test_accuracy": "test accuracy"}
MIN_POINTS = 3
"""Of fewer settings no correlation is shown."""


def answers_from_runs(runs: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """The correlation of count and gap over the settings of `main`, and with one choice made otherwise, a row each.

    The choices: the coefficient, test accuracy for the gap, the settings that fit, test pairs for training pairs, and
    no momentum, where the campaign has it. Empty where nothing was counted.
    """
    main = finished(runs[runs["experiment"] == "main"])
    if main.empty or not main["count"].notna().any():
        return pd.DataFrame()
    cells = finished(average_replicates(main))
    fitted = cells[cells["interpolates"].astype(bool)]
    rows = [
        _answer(f"{method.capitalize()}, gap", cells, seed, method=method)
        for method in ("pearson", "spearman", "kendall")
    ]
    rows.append(_answer("test accuracy", cells, seed, y="test_accuracy"))
    rows.append(_answer("settings that fit, gap", fitted, seed))
    rows.append(_answer("settings that fit, test accuracy", fitted, seed, y="test_accuracy"))
    if "count_test" in main.columns and main["count_test"].notna().any():
        both = finished(average_replicates(main[main["count_test"].notna()]))
        rows += [_answer("training pairs, gap", both, seed), _answer("test pairs, gap", both, seed, x="count_test")]
    if "no-momentum" in set(runs["experiment"]):
        plain = finished(runs[runs["experiment"] == "no-momentum"])
        # The runs that differ from them in momentum and learning rate alone.
        keys = [key for key in ("network", "batch_size", "weight_decay", "seed") if key in runs.columns]
        same = main.merge(plain[keys].drop_duplicates(), on=keys)
        networks = ", ".join(plain["network"].unique())
        for words, part in (("momentum 0.9", same), ("no momentum", plain)):
            rates = f"{part['lr'].min():g} to {part['lr'].max():g}"
            rows.append(
                _answer(f"{networks}, {words}, learning rates {rates}", finished(average_replicates(part)), seed)
            )
    return pd.DataFrame(rows)


def _answer(
    words: str, cells: pd.DataFrame, seed: int, x: str = "count", y: str = "gap", method: str = "pearson"
) -> dict[str, object]:
    row = {"With": words, "Rows": len(cells)}
    row |= {"Mean count": f"{cells[x].mean():.2f}" if len(cells) else "", "Correlation": "too few settings"}
    if len(cells) >= MIN_POINTS:
        c = correlate_settings(cells, x, y, method)
        row["Correlation"] = interval_text(c.value, c.low, c.high)
    return row


def interpolation_table(name: str, *, seed: int = 0, **read) -> pd.DataFrame:
    """One row a grid of cells of the campaign `name` that were trained alike, the least fitted first.

    The grids: every network of the experiments `main` and `short`, and the network of the evolution after every counted
    epoch but 0. Grids of fewer than `MIN_UNITS` cells are left out. Columns: grid (in words), network, train_accuracy
    (mean), n_cells, n_interpolating, and by the name of each of `QUANTITIES` the `Estimate` of Pearson's correlation
    with the count over cells, seeds averaged. read: `origin` and `num_samples` of `load_runs`.
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
            row[quantity] = correlate_settings(cells, "count", quantity)
        rows.append(row)
    columns = ["grid", "network", "train_accuracy", "n_cells", "n_interpolating", *QUANTITIES]
    return pd.DataFrame(rows, columns=columns).sort_values("train_accuracy", ignore_index=True)


def _grids(name: str, **read):
    runs = records.load_runs(name, **read)
    if runs.empty:
        return
    for (experiment, network), group in runs.groupby(["experiment", "network"], sort=False):
        if experiment in ("main", "short"):
            yield f"{network}, {int(group['epochs'].max())} epochs", network, group
    try:
        counted = scorecard.evolution_runs(name, **read)
    except scorecard.NothingCounted:
        return
    for epoch, group in counted.groupby("epoch"):
        if 0 < epoch < counted["epoch"].max():
            network = group["network"].iloc[0]
            yield f"{network} at epoch {epoch} of {int(counted['epoch'].max())}", network, group
