"""All results from a campaign's records, page by page, for the scorecard."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

import rc_utils as rc
from rc_utils.checks import require
from rc_utils.correlation import (
    MIN_UNITS,
    Estimate,
    average_replicates,
    bootstrap,
    change_per_doubling,
    correlate,
    correlate_settings,
    finished,
    mean,
    regression_formula,
    require_columns,
    slope,
    weighted_pearson,
)
from rc_utils.published import (
    ARCHITECTURES_COLUMNS,
    EVOLUTION,
    HYPERPLANES_COLUMNS,
    MAIN_NETWORKS,
    NETWORKS,
    OPTIMIZERS_COLUMNS,
    RANGE,
    Result,
    correlation_result,
    published,
    scorecard,
)
from rc_utils.sweep import records
from rc_utils.sweep.campaign import Campaign, Experiment, read_campaign, reference_campaigns
from rc_utils.sweep.records import find_count, find_records, load_evolution


def results_from_campaign(
    name: str, *, origin: str | None = None, num_samples: int | None = None, seed: int = 0
) -> list[Result]:
    """Our results from the campaign `name`: one for each statement that it can test, none without records.

    Reads the experiments that train as the campaign's `[train]` says, the others (mixup, crop-flip, adam, adagrad) by
    name, and whatever counts during training. origin, num_samples: which records, and how many simplices of each, as in
    `load_runs`.
    """
    campaign, read = read_campaign(name), {"origin": origin, "num_samples": num_samples}
    table = records.counted(records.load_runs(campaign, **read), campaign)
    if table.empty:
        return []
    results = []
    plain = plain_runs(table, campaign)
    if len(plain):
        results += results_from_runs(plain, campaign.name, seed=seed)
        results += results_from_measures(plain, campaign.name, seed=seed)
    for augmentation in AUGMENTATIONS:
        results += results_from_augmentation(table, campaign.name, augmentation)
    with contextlib.suppress(NothingCounted):
        results += results_from_evolution(evolution_runs(name, **read), seed=seed)
    results += results_from_counts(name, origin=origin)
    for layout in TABLES:
        cells = ablation_cells(layout, name, [], seed=seed, **read)
        results += results_from_ablations(cells, layout)
    return results


def verdict_table(results: Sequence[Result]) -> pd.DataFrame:
    """Results beside what is claimed, in five narrow columns, in their order; the scorecard's own page says more.

    Of a statement that was tested more than once, the first words of the result's detail say on what.
    """
    ids, rows = [result.id for result in results], []
    for result in results:
        card = scorecard([result])
        row = card[card["campaign"] != ""].iloc[0]
        on = f"; {re.split('[,;]', result.detail)[0]}" if ids.count(result.id) > 1 else ""
        shown = {"Statement": f"{row['claim']} ({row['where']}{on})", "Claimed": row["published"]}
        shown |= {"Found": row["ours"], "n": f"{row['n']:,}"}
        rows.append(shown | {"Verdict": row["verdict"]})
    return pd.DataFrame(rows)


# until the scorecard reads kept results: of page module ablations


@dataclass(frozen=True)
class Source:
    """Where a column of a table comes from: an experiment, one of its counts, and a dataset if it must be that one.

    stand_in: a dataset that is taken where there is no campaign on `dataset`; its cells say so.
    """

    experiment: str = "main"
    count: str = "main"
    dataset: str = ""
    stand_in: str = ""


_DATASETS = {
    "CIFAR-10": Source(dataset="cifar10"),
    "CIFAR-100": Source(dataset="cifar100"),
    "ImageNet": Source(dataset="imagenet", stand_in="tiny-imagenet-20"),
}


TABLES = {
    "architectures": {c: _DATASETS.get(c) or Source(count=f"dim{c[2:]}") for c in ARCHITECTURES_COLUMNS},
    "optimizers": {c: Source(experiment="main" if c == "SGD" else c.lower()) for c in OPTIMIZERS_COLUMNS},
    "hyperplanes": {c: Source(count="main" if c == "Train" else c.lower()) for c in HYPERPLANES_COLUMNS},
    "range": {span: Source(count=f"range{i}" if i else "main") for i, (span, _, _) in enumerate(RANGE)},
}


def ablation_cells(name: str, campaign: str, others: list[str] | None = None, *, seed: int = 0, **read) -> pd.DataFrame:
    """One row an entry of the table `name`: network, column, published, value, low, high, n, interpolating, lr, seeds,
    campaign, needs, stand_in.

    name: "architectures" (v1 Table 5: datasets, and d = 2..5), "optimizers" (Table 7), "hyperplanes" (Table 8), or
    "range" (Table 4, which has ResNet18 alone).
    The columns of a dataset take the first of `campaign` and `others` (default: every campaign) on that dataset which
    has the network, else one on a dataset that stands in for it and is named in `stand_in`; all other columns take
    `campaign`. value is Pearson's correlation of count and gap over n settings, up to `seeds` seeds averaged in each;
    `interpolating` of them interpolate, and `lr` is the tuple of their learning rates.
    Where there is none it is NaN and `needs` says what is missing. read: `origin` and `num_samples` of `load_runs`.
    Raises ValueError for an unknown campaign.
    """
    found = {c.name: c for c in reference_campaigns()} if others is None else {c: read_campaign(c) for c in others}
    campaigns = {campaign: read_campaign(campaign)} | found
    load = functools.cache(lambda name: records.load_runs(campaigns[name], **read))
    rows = []
    for column, source in TABLES[name].items():
        chosen = _candidates(source, campaigns)
        tables = {c: _runs_of(campaigns[c], load(c), name, source) for c in chosen}
        for network in ("ResNet18",) if name == "range" else NETWORKS:
            row = {"network": network, "column": column, "published": published(_id(name, network, column)).value}
            cell = _cell(tables, network, source, seed)
            used = campaigns[cell["campaign"]].dataset["name"] if cell["campaign"] and source.stand_in else ""
            rows.append(row | cell | {"stand_in": used if used == source.stand_in else ""})
    return pd.DataFrame(rows)


def _candidates(source: Source, campaigns: dict[str, Campaign]) -> list[str]:
    """The campaigns that a column may take its results from, the best first."""
    if not source.dataset:
        return [next(iter(campaigns))]
    wanted = [source.dataset] + [source.stand_in] * bool(source.stand_in)
    return [name for dataset in wanted for name, c in campaigns.items() if c.dataset["name"] == dataset]


def _runs_of(campaign: Campaign, runs: pd.DataFrame, name: str, source: Source) -> pd.DataFrame:
    """Of the runs of a campaign those that a column may take; "range" wants all its counts, as far as any has them."""
    if source.experiment == "main" and len(runs):
        runs = plain_runs(runs, campaign)
    counts = [f"count_{s.count}" for s in TABLES[name].values()] if name == "range" else []
    whole = runs.dropna(subset=[count for count in counts if count in runs.columns])
    return whole if len(whole) else runs


def _id(name: str, network: str, column: str) -> str:
    return f"range/{column}/correlation" if name == "range" else f"{name}/{network}/{column}"


def _cell(tables: dict[str, pd.DataFrame], network: str, source: Source, seed: int) -> dict:
    empty = {"value": float("nan"), "low": float("nan"), "high": float("nan"), "n": 0, "campaign": ""}
    empty |= {"interpolating": 0, "lr": (), "seeds": 0}
    needs = ""
    for campaign, runs in tables.items():
        found, lacking = _select(runs, network, source)
        needs = needs or (f"runs of {campaign}" if lacking == "runs" else lacking)
        if found is None:
            continue
        cells = finished(average_replicates(found))
        c = correlate_settings(cells, "selected", "gap")
        if np.isfinite(c.value):
            trained = {"interpolating": int(cells["interpolates"].sum()), "lr": tuple(sorted(set(cells["lr"])))}
            numbers = {"value": c.value, "low": c.low, "high": c.high, "n": len(cells)}
            return numbers | trained | {"seeds": cells["num_seeds"].max(), "campaign": campaign, "needs": ""}
        needs = needs or ("three settings" if len(cells) < 3 else "settings that differ")
    return empty | {"needs": needs or f"a campaign on {source.dataset}"}


def _select(runs: pd.DataFrame, network: str, source: Source) -> tuple[pd.DataFrame | None, str]:
    """The runs of one cell of a table with the wanted count as `selected`, or None and what is missing."""
    if runs.empty:
        return None, "runs"
    count = runs.get(f"count_{source.count}", pd.Series(np.nan, runs.index))
    wanted = {f"experiment {source.experiment}": runs["experiment"] == source.experiment}
    wanted |= {"network": runs["network"] == network, f"count {source.count}": count.notna()}
    for what, holds in wanted.items():
        runs = runs[holds[runs.index]]
        if runs.empty:
            return None, what
    return runs.assign(selected=count), ""


def results_from_ablations(cells: pd.DataFrame, name: str) -> list[Result]:
    """Our results for the published cells of the table `name`, of the cells that were run.

    The paper prints its main results in a column of each table; their rows say whose number they repeat.
    """
    results = []
    for c in cells[np.isfinite(cells["value"])].itertuples():
        detail = f"Pearson over {c.n} settings" + (f" of {c.stand_in}, which stands in" if c.stand_in else "")
        detail += f", {c.interpolating} of them interpolate"
        same = _same_as(name, c.network, c.column)
        results.append(Result(_id(name, c.network, c.column), c.campaign, c.value, c.low, c.high, c.n, detail, same))
    return results


def _same_as(name: str, network: str, column: str) -> str:
    """The id whose number this cell of a table repeats: the main result, or its cell in the table of networks."""
    source = TABLES[name][column]
    if (source.experiment, source.count) != ("main", "main") or source.dataset not in ("", "cifar10"):
        return ""
    if network in MAIN_NETWORKS:
        return f"main/{network}"
    return "" if name == "architectures" else f"architectures/{network}/CIFAR-10"


# until the scorecard reads kept results: of page module augmentation


AUGMENTATIONS = {"mixup": ("count", "gap"), "crop-flip": ("count", "test_accuracy")}


_MATCH = ("network", "lr", "batch_size", "weight_decay", "optimizer")


@dataclass(frozen=True)
class Shift:
    """Change of the gap at equal count, and the slopes of gap on count: common, without and with the augmentation.

    crosses: lines of their own slopes, one fitted to each group, cross between the least and the largest count, so that
    the sign of the change depends on the count at which it is read. opposed: their slopes have opposite signs, so that
    there is no common one.
    """

    value: float
    low: float
    high: float
    n: int
    slope: float
    slope_without: float
    slope_with: float
    crosses: bool = False

    @property
    def opposed(self) -> bool:
        return self.slope_without * self.slope_with < 0


def matched_settings(runs: pd.DataFrame, augmented: str, plain: str = "main") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Settings of the experiments `plain` and `augmented`, row by row the same network and hyper-parameters.

    Averaged over the runs that finished in both with the same seed, so that a difference between the rows is none
    between seeds; settings without such a seed are left out. The number of epochs may differ. Raises ValueError for a
    missing column or an experiment that `runs` does not hold.
    """
    require_columns(runs, ["experiment", "network", "cell", "count", "gap", "test_accuracy"])
    known = list(pd.unique(runs["experiment"]))
    for name in (plain, augmented):
        if name not in known:
            raise ValueError(f"no runs of experiment {name!r}; there are {', '.join(known) or 'none'}")
    tables = [finished(runs[runs["experiment"] == name]).set_index([*_MATCH, "seed"]) for name in (plain, augmented)]
    shared = tables[0].index.intersection(tables[1].index)
    first, second = (average_replicates(table.loc[shared].reset_index()) for table in tables)
    keys = [key for key in _MATCH if key in first.columns]  # without a weight decay that does nothing
    first, second = first.set_index(keys), second.set_index(keys)
    return first.reset_index(), second.loc[first.index].reset_index()


def paired_difference(without: pd.DataFrame, with_: pd.DataFrame, column: str) -> Estimate:
    """Mean of `column` with less without, over the rows of `matched_settings`."""
    return mean(with_[column].to_numpy(float) - without[column].to_numpy(float))


def vertical_shift(without: pd.DataFrame, with_: pd.DataFrame) -> Shift:
    """Change of the gap at equal count: the coefficient s of gap = a + b count + s [with] (common slope b).

    Least squares of "gap ~ count + augmented" with errors clustered by setting (`slope`). A shift is vertical if s is
    not 0 and explains more than the change of the count does; compare the slopes of the groups before believing in a
    common one (`Shift.crosses`). Value NaN where the count is constant.
    """
    n, nan = len(without), float("nan")
    rows = pd.concat([without.assign(augmented=0.0), with_.assign(augmented=1.0)], ignore_index=True)
    common = slope(rows, "gap ~ count + augmented", "count", rows["setting"]).value if n > 1 else nan
    if not np.isfinite(common):
        return Shift(nan, nan, nan, n, nan, nan, nan)
    shift = slope(rows, "gap ~ count + augmented", "augmented", rows["setting"])
    slopes, lines = [], []
    for table in (without, with_):
        count, gap = table["count"].to_numpy(float), table["gap"].to_numpy(float)
        own = np.polyfit(count, gap, 1) if np.ptp(count) > 1e-12 else np.array([nan, nan])
        slopes.append(float(own[0]))
        lines.append(np.polyval(own, [rows["count"].min(), rows["count"].max()]))
    crosses = bool(np.prod(lines[1] - lines[0]) < 0)
    return Shift(shift.value, shift.low, shift.high, n, common, *slopes, crosses)


def results_from_augmentation(runs: pd.DataFrame, campaign: str, augmented: str, plain: str = "main") -> list[Result]:
    """Our results for mixup/{count, gap, correlation} or crop-flip/{count, test-accuracy, shift, correlation}.

    And for crop-flip/{shift, accuracy, count}-beyond-mixup, where the campaign has settings of both.
    augmented: "mixup" or "crop-flip", the name of the experiment. A campaign without it, or without matching settings,
    gives no result.
    """
    if not {plain, augmented} <= set(runs["experiment"]):
        return []
    without, with_ = matched_settings(runs, augmented, plain)
    if len(without) < 2:
        return []
    results = []
    for column in AUGMENTATIONS[augmented]:
        results.append(_difference_result(f"{augmented}/{column.replace('_', '-')}", campaign, without, with_, column))
    if augmented == "crop-flip":
        shift = vertical_shift(without, with_)
        if np.isfinite(shift.value):
            results.append(_shift_result("crop-flip/shift", shift, campaign, with_))
        results += _beyond_mixup(runs, campaign)
    return [*results, *correlation_result(f"{augmented}/correlation", campaign, with_.assign(cell=""), "gap")]


def _difference_result(id_: str, campaign: str, without: pd.DataFrame, with_: pd.DataFrame, column: str) -> Result:
    d = paired_difference(without, with_, column)
    differences = with_[column] - without[column]
    words = f"mean difference over {d.n} matched settings, {differences.min():+.2g} to {differences.max():+.2g}"
    words += f"; with the augmentation {int(with_['interpolates'].sum())} of them interpolate"
    return Result(id_, campaign, d.value, d.low, d.high, d.n, words)


def _beyond_mixup(runs: pd.DataFrame, campaign: str) -> list[Result]:
    """What crop and flip change beyond mixup, over the settings that were trained with either."""
    if "mixup" not in set(runs["experiment"]):
        return []
    mixed, cropped = matched_settings(runs, "crop-flip", "mixup")
    shift = vertical_shift(mixed, cropped)
    if not np.isfinite(shift.value):
        return []
    results = [_shift_result("crop-flip/shift-beyond-mixup", shift, campaign, cropped)]
    for name, column in (("accuracy", "test_accuracy"), ("count", "count")):
        results.append(_difference_result(f"crop-flip/{name}-beyond-mixup", campaign, mixed, cropped, column))
    return results


def _shift_result(id_: str, shift: Shift, campaign: str, with_: pd.DataFrame) -> Result:
    """A shift of the gap; without a value where the two lines cross or run opposite ways: no shift is vertical then."""
    fitted = f"{int(with_['interpolates'].sum())} of {shift.n} settings with crop and flip interpolate"
    words = f"slopes of gap on count {shift.slope_without:.2g} and {shift.slope_with:.2g}; {fitted}"
    if shift.crosses or shift.opposed:
        how = "cross among the counts" if shift.crosses else "run opposite ways"
        words += f": the lines {how}, and the change depends on the count at which it is read"
        return Result(id_, campaign, float("nan"), n=shift.n, detail=words)
    return Result(id_, campaign, shift.value, shift.low, shift.high, shift.n, words)


# until the scorecard reads kept results: of page module training_evolution


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


# until the scorecard reads kept results: of page module beyond_the_grid


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


# until the scorecard reads kept results: of page module main_correlation


def plain_runs(runs: pd.DataFrame, campaign: Campaign) -> pd.DataFrame:
    """The runs of all experiments that train as `[train]` says, with nothing of their own: one row a run, as "main".

    A campaign may spread its networks over several experiments, and count the same runs again in others.
    """
    plain = [experiment.name for experiment in campaign.experiments if not experiment.train]
    return runs[runs["experiment"].isin(plain)].assign(experiment="main").drop_duplicates("run_id")


def check_one_experiment(runs: pd.DataFrame) -> None:
    """Raise ValueError for runs of several experiments: with and without mixup, say, belong in no one correlation."""
    known = sorted(set(runs["experiment"]))
    require(len(known) < 2, f"the runs are of the experiments {', '.join(known)}; choose those of one")


def results_from_runs(runs: pd.DataFrame, campaign: str, *, seed: int = 0) -> list[Result]:
    """Our results for the main correlation, the two biases and test accuracy, from the runs of one experiment.

    Ids: main/<network> and main/overall (v1 Fig 2 left, Pearson of count and gap), bias/lr/... and bias/batch-size/...
    (v1 Fig 3, change of count per doubling), test-accuracy/<network> (v1 Fig 5, Pearson). The overall ones are over the
    paper's three networks and need at least `MIN_UNITS` settings of each; what the runs cannot answer (one lr) gives no
    result. Replicates are averaged first. Raises ValueError as `check_one_experiment` and `correlate`.
    """
    check_one_experiment(runs)
    require_columns(runs, ["network", "cell", "count", "gap", "test_accuracy"])
    results: list[Result] = []
    for network, group in runs.groupby("network", sort=False):
        if network in MAIN_NETWORKS:
            results += correlation_result(f"main/{network}", campaign, group, "gap")
            results += _biases(network, campaign, group)
        if network in NETWORKS:
            results += correlation_result(f"test-accuracy/{network}", campaign, group, "test_accuracy")
    settings = finished(average_replicates(runs))["network"].value_counts()
    if all(settings.get(network, 0) >= MIN_UNITS for network in MAIN_NETWORKS):
        across = runs[runs["network"].isin(MAIN_NETWORKS)]
        results += correlation_result("main/overall", campaign, across, "gap")
        results += _biases("overall", campaign, across)
    return results


def _biases(name: str, campaign: str, runs: pd.DataFrame) -> Iterator[Result]:
    for factor, column in (("lr", "lr"), ("batch-size", "batch_size")):
        change = change_per_doubling(runs, column)
        if np.isfinite(change.value):
            detail = f"least squares of {regression_formula(finished(average_replicates(runs)))}, clustered by setting"
            if runs["epochs"].nunique() == 1:
                detail += f", all trained for {runs['epochs'].iloc[0]} epochs"
            found = (change.value, change.low, change.high, change.n)
            yield Result(f"bias/{factor}/{name}", campaign, *found, detail)


MEASURE_IDS = {"distance_from_init": "motivation/distance", "margin": "motivation/margin"}


def results_from_measures(runs: pd.DataFrame, campaign: str, *, seed: int = 0) -> list[Result]:
    """Our results for motivation/distance and motivation/margin (v1 Fig 4), from an experiment's runs of ResNet18.

    Pearson of d(W) or the margin with the gap over settings; the detail says how well learning rate / batch size alone
    orders the measure. Runs without ResNet18 or without these measures give no result. Raises ValueError as
    `check_one_experiment`.
    """
    check_one_experiment(runs)
    runs = runs[runs["network"] == "ResNet18"]
    results: list[Result] = []
    for column, id_ in MEASURE_IDS.items():
        if len(runs) and column in runs.columns and finished(runs)[column].notna().all():
            rows = finished(average_replicates(runs))
            order = correlate(rows[column], rows["lr"] / rows["batch_size"], "spearman").value
            words = f"; Spearman with learning rate / batch size {order:.2f}"
            found = correlation_result(id_, campaign, runs, "gap", x=column)
            results += [dataclasses.replace(result, detail=result.detail + words) for result in found]
    return results
