"""From a table of runs to results that stand beside the published ones: the main correlation and its two biases."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pandas as pd

from rc_utils.checks import require
from rc_utils.correlation import (
    MIN_UNITS,
    average_replicates,
    change_per_doubling,
    correlate,
    finished,
    regression_formula,
    require_columns,
)
from rc_utils.published import MAIN_NETWORKS, NETWORKS, Result, correlation_result
from rc_utils.sweep.campaign import Campaign


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
