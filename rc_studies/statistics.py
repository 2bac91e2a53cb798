"""Which measure predicts the gap, and what is left of the region count's correlation when something is held fixed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rc_studies import pairs as p
from rc_utils.correlation import (
    HYPERPARAMETERS,
    Estimate,
    average_replicates,
    correlate_settings,
    finished,
    partial_correlation,
    require_columns,
    setting_names,
    with_logs,
)
from rc_utils.pages.rivals import LESS_IS_WORSE, RIVALS

# Oriented so that theory expects more of it to go with a larger gap.
MEASURES = {
    "count": "region count",
    **{name: words for name, words in RIVALS.items() if name not in LESS_IS_WORSE},
    **{f"minus_{name}": f"minus {RIVALS[name]}" for name in LESS_IS_WORSE},
    # No measure of a network: what the settings alone say.
    "log2_ratio": "batch size / learning rate",
}
# What rows of two experiments must share to be compared.
MATCHED = ("network", "lr", "batch_size", "weight_decay", "optimizer")
STATISTICS = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "kendall": "Kendall's tau-b",
    "within": "within network",
    "given_lr": "given network and lr",
    "given_train_accuracy": "given training accuracy",
    "granulated": "granulated Kendall",
    "sign_error": "sign-error",
}
_FORMULAS = {"within": "C(network)", "given_lr": "C(network):C(lr)", "given_train_accuracy": "train_accuracy"}
# What may be taken out of count and gap before they are correlated, for each network apart.
CONTROLS = {
    "nothing": "1",
    "network": "C(network)",
    "network and learning rate": "C(network):C(lr)",
    "network and batch size": "C(network):C(batch_size)",
    "a line in log(batch / lr)": "C(network) * log2_ratio",
    "a parabola in log(batch / lr)": "C(network) * (log2_ratio + I(log2_ratio**2))",
    "a cubic in log(batch / lr)": "C(network) * (log2_ratio + I(log2_ratio**2) + I(log2_ratio**3))",
    "a plane in log lr and log batch": "C(network) * (log2_lr + log2_batch)",
    "a full quadratic in log lr and log batch": (
        "C(network) * (log2_lr * log2_batch + I(log2_lr**2) + I(log2_batch**2))"
    ),
}


def settings_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Rows of `average_replicates` of one experiment that did not diverge, with logarithms.

    Raises ValueError without the columns network, cell, lr, gap and seed, or with two runs of a cell and a seed.
    """
    require_columns(runs, ["network", "cell", "lr", "gap", "seed"])
    if runs.duplicated(["network", "cell", "seed"]).any():
        raise ValueError("the runs hold a cell and seed more than once; choose the runs of one experiment")
    rows = with_logs(finished(average_replicates(runs))).reset_index(drop=True)
    return rows.assign(**{f"minus_{name}": -rows[name] for name in LESS_IS_WORSE if name in rows.columns})


def factors_of(rows: pd.DataFrame) -> pd.DataFrame:
    """The network and the hyper-parameters of each row."""
    return rows[[c for c in ("network", *HYPERPARAMETERS) if c in rows.columns]]


def varies(rows: pd.DataFrame, formula: str) -> bool:
    """Whether the rows vary all that a formula of `CONTROLS` names."""
    needed = {"lr": "lr", "ratio": "lr", "batch": "batch_size"}
    columns = {column for word, column in needed.items() if word in formula}
    return all(column in rows.columns and rows[column].nunique() > 1 for column in columns)


def estimate(rows: pd.DataFrame, measure: str, statistic: str, **options) -> Estimate:
    """One of `STATISTICS` of a measure and the gap. options: num_resamples and seed."""
    if statistic in ("pearson", "spearman", "kendall"):
        return correlate_settings(rows, measure, "gap", statistic)
    if statistic in _FORMULAS:
        formula = _FORMULAS[statistic]
        if not varies(rows, formula):
            formula = "C(network)"
        return partial_correlation(rows, measure, "gap", formula, rows["setting"])
    x, y = rows[measure].to_numpy(float), rows["gap"].to_numpy(float)
    function = p.granulated_kendall if statistic == "granulated" else p.sign_error
    return function(x, y, p.neighbours(factors_of(rows)), rows["setting"], **options)


def seeds_alone(runs: pd.DataFrame) -> tuple[Estimate, int]:
    """Correlation of count and gap at one setting of one network, between the means of seeds, and how many means.

    Weight decays that do nothing are averaged; networks with one seed are left out. NaN without any.
    """
    done = finished(runs)
    means = done.assign(setting=setting_names(done)).groupby(["network", "setting", "seed"], as_index=False)
    rows = means[["count", "gap"]].mean()
    rows = rows[rows.groupby(["network", "setting"])["seed"].transform("nunique") > 1]
    if rows.empty:
        return Estimate(float("nan")), 0
    rows = rows.assign(stratum=rows["network"] + ", " + rows["setting"])
    return partial_correlation(rows, "count", "gap", "C(stratum)", rows["setting"]), len(rows)


def networks_table(rows: pd.DataFrame) -> pd.DataFrame:
    """For each network, all together, and within networks: rows, settings, and the correlations (`Estimate`s) of the
    gap with the count, its logarithm, and batch size / learning rate.

    rows: of `settings_of`, or of `every_setting`, where the last is left out of rows with several optimisers.
    """
    rows = rows.assign(log_count=np.log(rows["count"].astype(float)))
    columns = {"count": "count", "log_count": "log_count", "ratio": "log2_ratio"}
    groups = [(str(network), group, "1") for network, group in rows.groupby("network", sort=False)]
    if len(groups) > 1:
        groups += [("all together", rows, "1"), ("all, within network", rows, "C(network)")]
    found = []
    for words, group, formula in groups:
        row = {"network": words, "rows": len(group), "settings": group["setting"].nunique()}
        for name, column in columns.items():
            row[name] = partial_correlation(group, column, "gap", formula, group["setting"])
        found.append(row)
    return pd.DataFrame(found)


def every_setting(runs: pd.DataFrame) -> pd.DataFrame:
    """Rows of `average_replicates` of all experiments of a campaign, whose same runs count once, that interpolate."""
    rows = finished(average_replicates(runs.drop_duplicates("run_id")))
    rows = rows[rows["interpolates"].astype(bool) & rows["count"].notna()]
    others = [name for name in HYPERPARAMETERS if name in rows.columns and name not in ("lr", "batch_size")]
    trained_as = rows[others].map(str).agg(" ".join, axis=1)
    return with_logs(rows.assign(setting=rows["setting"] + ", " + trained_as)).reset_index(drop=True)


def matched_settings(runs: pd.DataFrame, augmented: str, plain: str = "main") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Settings of two experiments, row by row the same network and hyper-parameters.

    Averaged over the runs that finished in both with the same seed; settings without such a seed
    are left out. The number of epochs may differ. Raises ValueError for an experiment that `runs`
    does not hold.
    """
    known = list(pd.unique(runs["experiment"]))
    for name in (plain, augmented):
        if name not in known:
            raise ValueError(f"no runs of experiment {name!r}; there are {', '.join(known) or 'none'}")
    tables = [finished(runs[runs["experiment"] == name]) for name in (plain, augmented)]
    tables = [table.set_index([*MATCHED, "seed"]) for table in tables]
    shared = tables[0].index.intersection(tables[1].index)
    first, second = (average_replicates(table.loc[shared].reset_index()) for table in tables)
    keys = [key for key in MATCHED if key in first.columns]  # without a weight decay that does nothing
    first, second = first.set_index(keys), second.set_index(keys)
    return first.reset_index(), second.loc[first.index].reset_index()
