"""All results from a campaign's records, page by page, for the scorecard."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rc_utils.correlation import average_replicates, correlate_settings, finished
from rc_utils.pages import training_evolution
from rc_utils.pages.augmentation import AUGMENTATIONS, results_from_augmentation
from rc_utils.pages.beyond_the_grid import results_from_counts
from rc_utils.pages.main_correlation import plain_runs, results_from_measures, results_from_runs
from rc_utils.published import (
    ARCHITECTURES_COLUMNS,
    HYPERPLANES_COLUMNS,
    MAIN_NETWORKS,
    NETWORKS,
    OPTIMIZERS_COLUMNS,
    RANGE,
    Result,
    published,
    scorecard,
)
from rc_utils.sweep import records
from rc_utils.sweep.campaign import Campaign, read_campaign, reference_campaigns


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
    with contextlib.suppress(training_evolution.NothingCounted):
        results += training_evolution.results_from_evolution(training_evolution.evolution_runs(name, **read), seed=seed)
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
