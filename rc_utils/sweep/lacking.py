"""What a record lacks of what is planned for its run, and what it would take to add it."""

import itertools

from rc_utils.measures import MEASURES
from rc_utils.sweep.merge import find_count
from rc_utils.sweep.specification import PlannedRun, canonical_json


def is_complete(record, planned):
    """Whether `record` holds everything that `planned` asks for, or is of a run that diverged, which holds no more."""
    if record["status"] != "ok":
        return True
    return not (missing_counts(record, planned) or missing_measures(record, planned) or needs_training(record, planned))


def missing_counts(record, planned):
    """Settings of the counts that `planned` asks for and `record` does not have."""
    return [s for s in planned.counts.values() if find_count(record["counts"], s) is None]


def needs_training(record, planned):
    """Whether a look during training is missing."""
    epochs, reached = list(planned.evolution_epochs), record.get("reached") or {}
    if planned.evolution_loss is not None:
        if reached.get("loss") != planned.evolution_loss:
            return True
        epochs += [reached["epoch"]] if reached["epoch"] is not None else []
    points = {point["epoch"]: point for point in record["evolution"]}
    return any(_lacks(points.get(epoch, {}), planned) for epoch in epochs)


def _lacks(point, planned):
    """Whether an epoch of a record lacks a count or a measure that `planned` asks for during training."""
    counts = [find_count(point.get("counts", []), settings) for settings in planned.evolution_counts.values()]
    return None in counts or not set(planned.evolution_measures) <= set(point.get("measures", ()))


def missing_measures(record, planned):
    """Names of the measures that `planned` asks for and `record` does not have."""
    return [name for name in planned.measures if name not in record["measures"]]


def wishes(record):
    """What a record holds, as a plan that asks for it."""
    reached = record.get("reached") or {}
    during = [count for point in record["evolution"] for count in point["counts"]]
    return PlannedRun(
        spec=None,
        counts=_by_settings(record["counts"]),
        measures=_known_measures(record),
        evolution_epochs=tuple(p["epoch"] for p in record["evolution"] if p["epoch"] != reached.get("epoch")),
        evolution_counts=_by_settings(during),
        evolution_loss=reached.get("loss"),
        evolution_measures=tuple(dict.fromkeys(itertools.chain(*map(_known_measures, record["evolution"])))),
    )


def _by_settings(entries):
    return {canonical_json(entry["settings"]): entry["settings"] for entry in entries}


def _known_measures(record):
    """Names of the measures in a record, or at one of its epochs, that this version can take."""
    return tuple(name for name in record.get("measures", ()) if name in MEASURES)
