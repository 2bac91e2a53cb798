"""All results from a campaign's records, page by page, for the scorecard."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

import pandas as pd

from rc_utils.pages import ablations, training_evolution
from rc_utils.pages.augmentation import AUGMENTATIONS, results_from_augmentation
from rc_utils.pages.beyond_the_grid import results_from_counts
from rc_utils.pages.main_correlation import plain_runs, results_from_measures, results_from_runs
from rc_utils.published import Result, scorecard
from rc_utils.sweep import records
from rc_utils.sweep.campaign import read_campaign


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
    for layout in ablations.TABLES:
        cells = ablations.ablation_cells(layout, name, [], seed=seed, **read)
        results += ablations.results_from_ablations(cells, layout)
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
