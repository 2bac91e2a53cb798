"""How often the paper's grid miscounts, and whether its conclusions move when counts are right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

import rc_utils as rc
from rc_utils.correlation import (
    average_replicates,
    bootstrap,
    change_per_doubling,
    correlate,
    finished,
    mean,
    proportion,
    weighted_pearson,
)
from rc_utils.published import Result
from rc_utils.sweep.campaign import read_campaign
from rc_utils.sweep.records import find_count, find_records, load_runs


def counts_by_simplex(name: str, labels: Sequence[str], origin: str | None = None) -> pd.DataFrame:
    """The counts of single simplices, for every run of the campaign `name` that has all the counts `labels`.

    One row a run and count: run_id, network (in the campaign's order), lr, batch_size, count (its label), method (how
    it was counted), counts (an array over the simplices that all the labels share, the first ones), evaluations and
    seconds of a simplex.
    """
    campaign = read_campaign(name)
    plans, rows = {planned.spec.run_id: (network, planned) for _, network, planned in campaign.entries()}, []
    order = list(campaign.networks)
    found = find_records(campaign.runs(), campaign.folder / "runs.jsonl", origin)
    for run_id in sorted(found, key=lambda run_id: order.index(plans[run_id][0])):
        (network, planned), (record, _) = plans[run_id], found[run_id]
        entries = {label: find_count(record["counts"], campaign.counts.get(label)) for label in labels}
        if None in entries.values():
            continue
        shared = min(len(entry["counts"]) for entry in entries.values())
        for label, entry in entries.items():
            n = len(entry["counts"])
            row = {"run_id": run_id, "network": network, "lr": planned.spec.train.lr, "count": label}
            row |= {"batch_size": planned.spec.train.batch_size, "counts": np.array(entry["counts"][:shared])}
            row |= {"method": describe_count(campaign.counts[label])}
            rows.append(row | {"evaluations": entry["num_evaluations"] / n, "seconds": entry["seconds"] / n})
    return pd.DataFrame(rows)


def describe_count(settings: dict) -> str:
    """How a count of a campaign is made, in a few words: "grid of 200 points", "adaptive, alpha in [-3, 4]",
    "grid of 30 points an edge, face"."""
    low, high = settings.get("alpha_range", (0, 1))
    span = "" if (low, high) == (0, 1) else f", alpha in [{low:g}, {high:g}]"
    dim = settings.get("dim", 1)
    domain = settings.get("domain", "simplex")
    points = settings.get("resolution") or rc.counting.lattice.default_resolution(dim, domain)
    if settings.get("strategy") == "adaptive":
        return f"adaptive{span}" if dim == 1 else f"mesh from {points:,} points an edge"
    reading = f" an edge, {settings.get('adjacency', 'face')}" if dim > 1 else ""
    return f"grid of {points:,} points{reading}{span}"


def miscounts(counted: pd.DataFrame, reference: str, by: Sequence[str] = ()) -> pd.DataFrame:
    """How often each count of `counts_by_simplex` differs from the count `reference` of the same simplex.

    One row a group of `by` and count: method, n (simplices), wrong (their number), share with `low` and `high`, mean
    count, missed (mean of reference - count), evaluations and seconds of a simplex. The interval is Wilson's
    over the simplices, which all runs share.
    """
    truth = counted[counted["count"] == reference].set_index("run_id")["counts"]
    rows = counted.assign(difference=[truth[r] - c for r, c in zip(counted["run_id"], counted["counts"], strict=True)])
    records = []
    for key, group in rows.groupby([*by, "count"], sort=False):
        wrong = np.stack([difference != 0 for difference in group["difference"]])
        share = proportion(wrong.mean(0).sum(), wrong.shape[1], "simplices")
        records.append(
            dict(zip([*by, "count"], key, strict=True))
            | {"method": group["method"].iloc[0]}
            | {"n": wrong.size, "wrong": wrong.sum(), "share": share.value, "low": share.low, "high": share.high}
            | {"mean": np.concatenate(list(group["counts"])).mean()}
            | {"missed": np.concatenate(list(group["difference"])).mean()}
            | {"evaluations": group["evaluations"].mean(), "seconds": group["seconds"].mean()}
        )
    return pd.DataFrame(records)


# A count and one on more points, or on a longer range, of the same simplices, by their names in a campaign.
CHANGES = {
    "grid-size/1d/change": ("grid", "fine"),
    "grid-size/2d/change": ("planes", "planes-fine"),
    "range/trend": ("main", "range3"),
}


def results_from_counts(name: str, *, origin: str | None = None) -> list[Result]:
    """Our results for the `CHANGES` of the mean count and for sample-size/change, from the records of a campaign.

    The first are what the mean count gains from one count to the other over the same simplices (v1 Tables 2 and 4); the
    last is the mean of the first 500 segments less that of the first 100 (v1 Table 3), in all runs with so many.
    Student's interval is over the simplices, which all runs share.
    """
    results, campaign = [], read_campaign(name)
    for id_, labels in CHANGES.items():
        table = counts_by_simplex(name, labels, origin)
        if table.empty:
            continue
        by_run = table.pivot(index="run_id", columns="count", values="counts")
        gained = np.stack(list(by_run[labels[1]] - by_run[labels[0]]))
        first, last = (describe_count(campaign.counts[label]) for label in labels)
        detail = f"{first}, then {last}; {gained.shape[0]} runs, {gained.shape[1]} simplices each"
        m = mean(gained.mean(0), "simplices")
        results.append(Result(id_, campaign.name, m.value, m.low, m.high, m.n, detail))
    return results + _more_segments(campaign.name, origin)


def _more_segments(name: str, origin: str | None) -> list[Result]:
    """sample-size/change, from the runs of a campaign that have enough segments."""
    few, many = 100, 500
    table = counts_by_simplex(name, ["main"], origin)
    counts = [row[:many] for row in table["counts"] if len(row) >= many] if len(table) else []
    if not counts:
        return []
    # The mean of these is the change, and each segment adds its own error to it.
    centred = np.array(counts, dtype=float) - np.mean(counts, axis=1, keepdims=True)
    parts = centred * np.where(np.arange(many) < few, 1 - many / few, 1)
    error = np.std(np.mean(counts, axis=0), ddof=1) / np.sqrt(few)
    detail = f"{len(parts)} runs, the same segments in all: their mean over {few} has a standard error of {error:.2g}"
    m = mean(parts.mean(0), "simplices")
    return [Result("sample-size/change", name, m.value, m.low, m.high, m.n, detail)]


def conclusions(name: str, experiment: str, first: str, second: str, seed: int = 0) -> pd.DataFrame:
    """The paper's statements with the counts `first` and `second` of the same segments of the same runs.

    One row a statement: the correlation of count and gap for each network and, of several, overall; and the change of
    the count with a doubling of learning rate and batch size; n settings, its value with each count, and the difference
    second - first with its interval (low, high). Empty where a count is missing.
    """
    columns = [f"count_{first}", f"count_{second}"]
    campaign = read_campaign(name)
    if not {first, second} <= set(campaign.counts):
        return pd.DataFrame()
    shared = min(campaign.counts[label].get("num_samples", 100) for label in (first, second))
    runs = load_runs(name, num_samples=shared)
    runs = runs[runs["experiment"] == experiment] if len(runs) else runs
    if not set(columns) <= set(runs.columns):
        return pd.DataFrame()
    runs = finished(runs).dropna(subset=columns)
    cells = average_replicates(runs)
    groups = [(network, cells[cells["network"] == network]) for network in pd.unique(cells["network"])]
    if len(groups) > 1:
        groups.append(("overall", cells))
    rows = [
        _correlations(f"correlation of count and gap, {network}", group, columns, seed) for network, group in groups
    ]
    for factor, what in (("lr", "learning rate"), ("batch_size", "batch size")):
        if cells[factor].nunique() > 1:
            rows.append(_changes(f"change of the count when the {what} doubles", runs, factor, columns))
    table = pd.DataFrame(rows, columns=["statement", "n", "first", "second", "low", "high"])
    return table.assign(difference=table["second"] - table["first"])


def _correlations(statement: str, cells: pd.DataFrame, columns: Sequence[str], seed: int) -> tuple:
    gap, values = cells["gap"].to_numpy(), [cells[column].to_numpy() for column in columns]
    first, second = (correlate(v, gap).value for v in values)

    def change(weights: np.ndarray) -> np.ndarray:
        return weighted_pearson(values[1], gap, weights) - weighted_pearson(values[0], gap, weights)

    moved = bootstrap(change, cells["setting"], seed=seed)
    return statement, moved.n, first, second, moved.low, moved.high


def _changes(statement: str, runs: pd.DataFrame, factor: str, columns: Sequence[str]) -> tuple:
    first, second = (change_per_doubling(runs, factor, column) for column in columns)
    moved = runs.assign(moved=runs[columns[1]] - runs[columns[0]])
    difference = change_per_doubling(moved, factor, "moved")
    return statement, first.n, first.value, second.value, difference.low, difference.high
