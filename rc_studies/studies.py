"""The runs of the five studies: those that are committed, or a reader's own first few."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from tqdm import tqdm

from rc_utils import sweep
from rc_utils.sweep.campaign import Campaign, PlannedRun, read_campaign
from rc_utils.sweep.records import find_records, is_complete, load_runs

COUNT = "log count"
STUDIES = {
    "seeds": "Seeds alone",
    "transfer": "Transfer, with rivals",
    "intervene": "Intervene on the count",
    "axes": "Axes",
    "independent": "Independent settings",
}
# The experiments of study 4 by axis, each axis in its order.
AXES = {
    "number of images": ["images-1500", "base", "images-6000"],
    "width": ["width-4", "base", "width-16"],
    "label noise": ["base", "noise-10", "noise-30"],
    "flip": ["base", "flip"],
    "crop and flip": ["base", "crop-flip"],
    "weight decay": ["base", "decay-1e-3", "decay-1e-2"],
    "sharpness-aware minimisation": ["base", "sam"],
}
# What the names of the experiments of study 3 begin with, by treatment.
ARMS = {
    "random labels first": "random-labels-",
    "midpoints of a third class": "third-class-",
    "points of the nearer class": "nearer-class-",
    "input-gradient penalty": "gradient-penalty-",
}


@dataclass(frozen=True)
class Study:
    """The runs of a study that there are; `complete` where all are made, which it takes to be looked at.

    left_out: those that diverged, which are not among `runs`, or do not interpolate.
    """

    name: str
    runs: pd.DataFrame
    left_out: pd.DataFrame
    made: int
    asked: int
    complete: bool


def study_runs(name: str, number: int = 0) -> Study:
    """The finished runs of the campaign `study-<name>`, with log(count).

    number: the first so many runs of each network and experiment alone, live ones too; 0 takes all committed ones.
    """
    campaign = read_campaign(f"study-{name}")
    asked = first_runs(campaign, number)
    origin = None if number else "reference"
    records = find_records(asked, campaign.folder / "runs.jsonl", origin)
    made = sum(is_complete(record, asked[run_id]) for run_id, (record, _) in records.items())
    runs = load_runs(campaign.name, origin=origin)
    runs = runs[runs["run_id"].isin(asked)]
    finished = runs[runs["status"] == "ok"]
    finished = finished.assign(**{COUNT: np.log(finished["count"])}).reset_index(drop=True)
    left_out = runs[(runs["status"] != "ok") | ~runs["interpolates"].astype(bool)]
    return Study(name, finished, left_out, made, len(asked), made == len(asked))


def all_studies(name: str = "", number: int = 0) -> dict[str, Study]:
    """The `study_runs` of each study; of the study `name` alone only the first `number` of each kind, if given.

    Study 3 is complete where study 2 is, too: its slopes are compared with one of all runs of that study.
    """
    found = {study: study_runs(study, number if study == name else 0) for study in STUDIES}
    transfer = found["transfer"].complete and not (number and name == "transfer")
    found["intervene"] = replace(found["intervene"], complete=found["intervene"].complete and transfer)
    return found


def on_true_labels(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with the gap from the training accuracy on the true labels, where labels are noisy."""
    if "train_accuracy_true_labels" not in runs.columns:
        return runs
    return runs.assign(gap=runs["train_accuracy_true_labels"].fillna(runs["train_accuracy"]) - runs["test_accuracy"])


def first_runs(campaign: Campaign, number: int = 0) -> dict[str, PlannedRun]:
    """The planned runs of a campaign by id, of each network and experiment the first `number`; all of them for 0."""
    chosen: dict[str, PlannedRun] = {}
    seen: Counter = Counter()
    for experiment, label, planned in campaign.entries():
        seen[experiment.name, label] += 1
        if not number or seen[experiment.name, label] <= number:
            chosen[planned.spec.run_id] = planned
    return chosen


def make_runs(name: str, number: int, device: str = "cpu") -> None:
    """Train those of the `first_runs` of a study that have no record."""
    campaign = read_campaign(f"study-{name}")
    chosen = first_runs(campaign, number)
    known = find_records(chosen, campaign.folder / "runs.jsonl")
    for run_id in tqdm(sorted(set(chosen) - set(known)), desc=campaign.name):
        sweep.complete_run(campaign.runs()[run_id], device)
