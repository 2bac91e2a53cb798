"""Our results for the published statements: from a campaign's records, and kept by the pages that compute their own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Iterable

from rc_utils import ablations, evolution, ledger
from rc_utils.augmentation_effects import AUGMENTATIONS, results_from_augmentation
from rc_utils.beyond_grid import results_from_counts
from rc_utils.campaign import load_campaign
from rc_utils.comparison import plain_runs, results_from_measures, results_from_runs
from rc_utils.files import write_atomically
from rc_utils.paper import Result, published
from rc_utils.paths import results_dir


def results_from_campaign(
    name: str, *, origin: str | None = None, num_samples: int | None = None, seed: int = 0
) -> list[Result]:
    """Our results from the campaign `name`: one for each statement that it can test, none without records.

    Reads the experiments that train as the campaign's `[train]` says, the others (mixup, crop-flip, adam, adagrad) by
    name, and whatever counts during training. origin, num_samples: which records, and how many simplices of each, as in
    `load_runs`.
    """
    campaign, read = load_campaign(name), {"origin": origin, "num_samples": num_samples}
    table = ledger.counted(ledger.load_runs(campaign, **read), campaign)
    if table.empty:
        return []
    results = []
    plain = plain_runs(table, campaign)
    if len(plain):
        results += results_from_runs(plain, campaign.name, seed=seed)
        results += results_from_measures(plain, campaign.name, seed=seed)
    for augmentation in AUGMENTATIONS:
        results += results_from_augmentation(table, campaign.name, augmentation, seed=seed)
    with contextlib.suppress(evolution.NothingCounted):
        results += evolution.results_from_evolution(evolution.evolution_runs(name, **read), seed=seed)
    results += results_from_counts(name, origin=origin, seed=seed)
    for layout in ablations.TABLES:
        cells = ablations.ablation_cells(layout, name, [], seed=seed, **read)
        results += ablations.results_from_ablations(cells, layout)
    return results


PAGE = "RC_BOOK_PAGE"
"""The environment variable with the name of the page that a build of the book executes."""


def findings_path(page: str) -> pathlib.Path:
    """Where the results of a page that trains no campaign are kept."""
    return results_dir() / "findings" / f"{page}.json"


def keep_results(results: Iterable[Result]) -> None:
    """Keep the results that a page computed itself, in place of its former ones; the scorecard shows them.

    Only where a build executes the page: a notebook that is run on its own, with other parameters, changes no other
    page. Raises ValueError for an id that no published statement has.
    """
    rows = []
    for result in results:
        published(result.id)
        values = dataclasses.asdict(result)
        rows.append({k: None if isinstance(v, float) and math.isnan(v) else v for k, v in values.items()})
    if page := os.environ.get(PAGE):
        write_atomically(findings_path(page), json.dumps(rows, indent=1).encode())


def kept_results() -> list[Result]:
    """The results that pages have kept, in the order of the pages' names. Raises ValueError naming a damaged file."""
    results = []
    for path in sorted(findings_path("*").parent.glob("*.json")):
        try:
            rows = json.loads(path.read_text(encoding="utf-8"))
            results += [Result(**{k: math.nan if v is None else v for k, v in row.items()}) for row in rows]
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is damaged ({error}): delete it and run its page again") from error
    return results
