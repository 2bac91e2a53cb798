"""All results from a campaign's records, page by page, for the scorecard."""

from __future__ import annotations

import contextlib

from rc_utils.pages import ablations, training_evolution
from rc_utils.pages.augmentation import AUGMENTATIONS, results_from_augmentation
from rc_utils.pages.beyond_the_grid import results_from_counts
from rc_utils.pages.main_correlation import plain_runs, results_from_measures, results_from_runs
from rc_utils.paper.verdict import Result
from rc_utils.sweep import records
from rc_utils.sweep.campaign import load_campaign


def results_from_campaign(
    name: str, *, origin: str | None = None, num_samples: int | None = None, seed: int = 0
) -> list[Result]:
    """Our results from the campaign `name`: one for each statement that it can test, none without records.

    Reads the experiments that train as the campaign's `[train]` says, the others (mixup, crop-flip, adam, adagrad) by
    name, and whatever counts during training. origin, num_samples: which records, and how many simplices of each, as in
    `load_runs`.
    """
    campaign, read = load_campaign(name), {"origin": origin, "num_samples": num_samples}
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
    for layout in ablations.TABLES:
        cells = ablations.ablation_cells(layout, name, [], seed=seed, **read)
        results += ablations.results_from_ablations(cells, layout)
    return results
