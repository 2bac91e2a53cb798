"""Our results for the published statements: from a campaign's records, and kept by the pages that compute their own."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from rc_utils.correlation import average_replicates, correlate_settings, finished
from rc_utils.paper.published_tables import MAIN_NETWORKS
from rc_utils.paper.verdict import Result, published
from rc_utils.paths import results_dir, write_atomically

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


def correlation_result(
    id_: str, campaign: str, runs: pd.DataFrame, column: str, options: dict, *, x: str = "count"
) -> Iterator[Result]:
    """The Result `id_`: Pearson's correlation of columns `x` and `column` over settings; nothing where it is undefined.

    Nothing for two settings either, whose correlation is 1 or -1 whatever they are.

    options: num_resamples and seed of `correlate`.
    """
    rows = finished(average_replicates(runs))
    c = correlate_settings(rows, x, column, **options)
    if np.isfinite(c.value):
        yield Result(id_, campaign, c.value, c.low, c.high, c.n, _describe(runs, rows), _same_as(id_, rows))


def _same_as(id_: str, rows: pd.DataFrame) -> str:
    """The id whose number this one repeats with its sign turned: that of the gap where all fit equally well."""
    experiment, _, network = id_.partition("/")
    alike = np.ptp(rows["gap"] + rows["test_accuracy"]) < 0.02 * np.ptp(rows["gap"])
    if experiment != "test-accuracy" or not alike:
        return ""
    return f"main/{network}" if network in MAIN_NETWORKS else f"architectures/{network}/CIFAR-10"


def _describe(runs: pd.DataFrame, rows: pd.DataFrame) -> str:
    words = [f"Pearson over {len(rows)} networks and settings"]
    if "interpolates" in rows.columns:
        words.append(f"{int(rows['interpolates'].sum())} of them interpolate")
    diverged = len(runs) - len(finished(runs))
    return ", ".join([*words, *([f"diverged runs: {diverged}"] if diverged else [])])
