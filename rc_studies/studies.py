"""Committed runs of the studies, their axes, arms and rivals."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import find_records, is_complete, load_runs
from rc_utils.validation import require

COUNT = "log count"
SIDE = 240  # side length of a drawn triangle, in the units of its SVG paths
STUDIES = {
    "seeds": "Seeds alone",
    "transfer": "Transfer, with rivals",
    "intervene": "Intervene on the count",
    "axes": "Axes",
    "independent": "Independent settings",
}
# Axes of study 4: for each experiment, in the order of its levels, the level in words.
AXES = {
    "number of images": {"images-1500": "1,500 images", "base": "3,000 images",
                         "images-6000": "6,000 images"},
    "width": {"width-4": "width 4", "base": "width 8", "width-16": "width 16"},
    "label noise": {"base": "no wrong labels", "noise-10": "10 % wrong labels",
                    "noise-30": "30 % wrong labels"},
    "flip": {"base": "no flips", "flip": "flips"},
    "crop and flip": {"base": "neither", "crop-flip": "crops and flips"},
    "weight decay": {"base": "weight decay 1e-6", "decay-1e-3": "weight decay 1e-3",
                     "decay-1e-2": "weight decay 1e-2"},
    "sharpness-aware minimisation": {"base": "plain SGD", "sam": "sharpness-aware"},
}  # fmt: skip
# Arms of study 3, and the prefix of the names of their experiments.
ARMS = {
    "random labels first": "random-labels-",
    "midpoints of a third class": "third-class-",
    "points of the nearer class": "nearer-class-",
    "input-gradient penalty": "gradient-penalty-",
}
# Rivals of the region count: column in the table of runs, and name in words. The boundary thickness
# of the first round is left out because it counted places where a third class wins.
RIVALS = {
    "train_loss": "training loss",
    "distance_from_init": "distance from initialisation",
    "margin": "output margin",
    "sharpness": "sharpness",
    "log_spectral_product": "spectral norms",
    "input_gradient": "input gradient",
    "num_parameters": "parameters",
    "log_path_norm": "path norm",
    "jacobian_norm": "Jacobian norm",
    "mixup_accuracy": "mixup accuracy",
    "gi_score_inter": "Gi-score, between classes",
    "gi_score_intra": "Gi-score, within a class",
    "pal_score_inter": "Pal-score, between classes",
    "pal_score_intra": "Pal-score, within a class",
    "linear_pieces": "linear pieces",
    "local_complexity": "local complexity",
    "margin_over_gradient": "margin over gradient",  # this and the next two: second round only
    "boundary_thickness_own": "boundary thickness",
    "disagreement": "disagreement of seeds",
}


@dataclass(frozen=True)
class Study:
    """Finished runs of a study, one row each, and how many of the `asked` runs are `made`.

    left_out: runs that diverged (not in `runs`) or do not interpolate. records: by run id.
    """

    name: str
    runs: pd.DataFrame
    left_out: pd.DataFrame
    made: int
    asked: int
    records: dict

    def require_complete(self) -> None:
        """Raise ValueError unless every run is made, without which no result may be looked at."""
        part = f"{self.name} has {self.made} of {self.asked} runs; results need all of them"
        require(self.made == self.asked, f"{part}: run `python -m rc_utils.sweep {self.name}`")


def study_runs(campaign: str) -> Study:
    """`Study` of the committed runs of a campaign of the protocol, with log(count)."""
    asked = load_campaign(campaign).runs()
    found = find_records(asked, "reference")
    records = {run_id: record for run_id, (record, _) in found.items()}
    made = sum(is_complete(record, asked[run_id]) for run_id, record in records.items())
    runs = load_runs(campaign, origin="reference")
    finished = runs[runs["status"] == "ok"].reset_index(drop=True)
    finished = finished.assign(**{COUNT: np.log(finished["count"].astype(float))})
    left_out = runs[(runs["status"] != "ok") | ~runs["interpolates"].astype(bool)]
    return Study(campaign, finished, left_out, made, len(asked), records)


def first_round() -> dict[str, Study]:
    """`study_runs` of the five studies by name. Raises ValueError if one is not complete."""
    found = {name: study_runs(f"study-{name}") for name in STUDIES}
    for study in found.values():
        study.require_complete()
    return found


def on_true_labels(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with the gap from the training accuracy on the true labels if some are wrong."""
    right = runs["train_accuracy_true_labels"].fillna(runs["train_accuracy"])
    return runs.assign(gap=right - runs["test_accuracy"])


def decision(supports: bool, refutes: bool) -> str:
    """Decision of a study on the claim, in one word."""
    if supports:
        return "supports"
    return "refutes" if refutes else "inconclusive"
