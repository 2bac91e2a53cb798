"""Everything that one campaign's records can say about the published statements."""

from __future__ import annotations

import pandas as pd

from rc_utils import ablations, evolution
from rc_utils.augmentation_effects import AUGMENTATIONS, results_from_augmentation
from rc_utils.campaign import load_campaign
from rc_utils.comparison import results_from_measures, results_from_runs
from rc_utils.paper import Result


def results_from_campaign(name: str, table: pd.DataFrame, *, seed: int = 0) -> list[Result]:
    """Our results from the campaign `name`, whose `load_runs` is `table`: one for each statement that it can test.

    Reads the experiments main, mixup, crop-flip, adam and adagrad by these names, and whatever counts during training.
    Nothing for a table without rows.
    """
    if table.empty:
        return []
    campaign = load_campaign(name)
    results = []
    if "main" in set(table["experiment"]):
        results += results_from_runs(table, campaign.name, "main", seed=seed)
        results += results_from_measures(table, campaign.name, "main", seed=seed)
    for augmentation in AUGMENTATIONS:
        results += results_from_augmentation(table, campaign.name, augmentation, seed=seed)
    if any(e.evolution_epochs and e.evolution_counts for e in campaign.experiments):
        results += evolution.results_from_evolution(evolution.evolution_runs(name), seed=seed)
    for layout in ablations.TABLES:
        results += ablations.results_from_ablations(ablations.ablation_cells(layout, name, [], seed=seed), layout)
    return results
