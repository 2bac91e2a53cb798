"""Count, gap and their correlation during training (v1 Table 6, v3 Table 3)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rc_utils.correlation import average_replicates, bootstrap, correlate_settings, finished, mean, weighted_pearson
from rc_utils.published import EVOLUTION, Result
from rc_utils.sweep.campaign import Campaign, Experiment, read_campaign
from rc_utils.sweep.records import load_evolution

PUBLISHED_EPOCHS = 200
# A published epoch is matched by one of ours at most this share of training away.
TOLERANCE = 0.02


class NothingCounted(ValueError):
    """A campaign that counts nothing during training, or has not done so yet."""


def evolution_experiment(name: str, experiment: str = "") -> tuple[Campaign, Experiment]:
    """The campaign and its experiment that counts during training: the one named, or the first that does.

    Raises NothingCounted where there is none.
    """
    campaign = read_campaign(name)
    measured = [e for e in campaign.experiments if e.evolution_epochs and e.evolution_counts]
    for found in measured:
        if experiment in ("", found.name):
            return campaign, found
    have = ", ".join(e.name for e in measured) or "none"
    wanted = f"experiment {experiment!r} of campaign" if experiment else "campaign"
    raise NothingCounted(
        f"{wanted} {name!r} counts nothing during training; its experiments that do: {have}. Give one "
        "evolution_epochs and evolution_counts"
    )


def evolution_runs(name: str, experiment: str = "", network: str = "", **read) -> pd.DataFrame:
    """One row a run and epoch of one network: `load_evolution` with `count` and `fraction` (of training, in [0, 1]).

    read: `origin` and `num_samples` of `load_evolution`.
    count: the first of the experiment's evolution_counts. network: default ResNet18, the paper's, or else the first.
    Raises ValueError for a network that is not in the experiment, NothingCounted where nothing is counted during
    training, or no record of it is there yet.
    """
    campaign, chosen = evolution_experiment(name, experiment)
    if not network:
        network = "ResNet18" if "ResNet18" in chosen.networks else chosen.networks[0]
    if network not in chosen.networks:
        raise ValueError(f"experiment {chosen.name!r} has no network {network!r}; it has {', '.join(chosen.networks)}")
    table = load_evolution(campaign, **read)
    if len(table):
        table = table[(table["experiment"] == chosen.name) & (table["network"] == network)].reset_index(drop=True)
    if table.empty:
        raise NothingCounted(
            f"no run of {network} in campaign {name!r} has been counted during training yet: "
            f"`python -m rc_utils.sweep {name} --experiment {chosen.name}` does it"
        )
    column = f"count_{chosen.evolution_counts[0]}"
    planned = next(p for e, label, p in campaign.entries() if e is chosen and label == network)
    return table.assign(count=table[column], fraction=table["epoch"] / planned.spec.train.epochs)


def evolution_table(table: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """One row an epoch of `evolution_runs`: means and the correlation over settings, replicates averaged first.

    Columns: epoch, fraction, published_epoch (the paper's at the same share of its 200 epochs within 2 %, or NaN),
    n_settings, and value, `_low` and `_high` of count, gap and correlation (Pearson). There is no
    correlation at epoch 0, where all runs of a seed are one network, whose numbers differ at most by rounding.
    """
    rows = []
    for epoch, group in table.groupby("epoch"):
        cells = finished(average_replicates(group))
        fraction = float(group["fraction"].iloc[0])
        row = {"epoch": epoch, "fraction": fraction, "published_epoch": published_epoch(fraction)}
        row |= {"n_settings": len(cells)}
        for column in ("count", "gap"):
            m = mean(cells[column])
            row |= {column: m.value, f"{column}_low": m.low, f"{column}_high": m.high}
        trained = cells if fraction > 0 else cells[:0]
        r = correlate_settings(trained, "count", "gap")
        rows.append(row | {"correlation": r.value, "correlation_low": r.low, "correlation_high": r.high})
    return pd.DataFrame(rows)


def published_epoch(fraction: float) -> float:
    """The epoch of v1 Table 6 at this share of training; NaN if none is within 2 % of training.

    Its epoch 0, the initialisation, is that of no network in training.
    """
    epochs = np.array([row[0] for row in EVOLUTION])
    nearest = epochs[np.abs(epochs / PUBLISHED_EPOCHS - fraction).argmin()]
    near = abs(nearest / PUBLISHED_EPOCHS - fraction) <= TOLERANCE and (nearest == 0) == (fraction == 0)
    return float(nearest) if near else float("nan")


def results_from_evolution(table: pd.DataFrame, *, seed: int = 0) -> list[Result]:
    """Our results for evolution/correlation/<epoch>, at epochs of ours that match a published one, and evolution/trend.

    trend: correlation at the last epoch less that at the first after training began, its interval from a bootstrap over
    the settings of both together. Mean counts and gaps are levels, which only the paper's own setting can test, and are
    left out. A correlation that is not defined gives no result.
    """
    campaign, network = table["campaign"].iloc[0], table["network"].iloc[0]
    results = []
    for row in evolution_table(table, seed=seed).itertuples():
        if np.isfinite(row.published_epoch) and row.published_epoch > 0 and np.isfinite(row.correlation):
            id_ = f"evolution/correlation/{row.published_epoch:.0f}"
            found = (row.correlation, row.correlation_low, row.correlation_high, row.n_settings)
            detail = f"{network}, epoch {row.epoch}, Pearson over {row.n_settings} settings"
            results.append(Result(id_, campaign, *found, detail))
    return results + _trend(table, campaign, network, seed)


def _trend(table, campaign, network, seed):
    epochs = sorted(e for e in table["epoch"].unique() if e > 0)
    if len(epochs) < 2:
        return []
    both = [table[table["epoch"] == epoch] for epoch in (epochs[0], epochs[-1])]
    ends = [finished(average_replicates(rows)).set_index("setting") for rows in both]
    cells = ends[0].index.intersection(ends[1].index)
    if len(cells) < 3:
        return []
    first, last = (end.loc[cells, ["count", "gap"]].to_numpy(float).T for end in ends)

    def rise(weights: np.ndarray) -> np.ndarray:
        return weighted_pearson(*last, weights) - weighted_pearson(*first, weights)

    found = bootstrap(rise, cells, seed=seed)
    if not np.isfinite(found.value):
        return []
    detail = f"{network}, epoch {epochs[-1]} less epoch {epochs[0]}, {len(cells)} settings"
    return [Result("evolution/trend", campaign, found.value, found.low, found.high, found.n, detail)]
