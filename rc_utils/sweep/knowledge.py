"""What a record knows of its run: what it lacks of a plan, and what two records of one run know together."""

from rc_utils.sweep.specification import PlannedRun, canonical_json


def find_count(entries, settings):
    """The entry of a record's list of counts that was made with `settings`, or None."""
    return next((entry for entry in entries if entry["settings"] == settings), None)


def data_sha256(record):
    """The hash of the data that a record was made with, None where it does not say."""
    return record["provenance"].get("data", {}).get("sha256")


def is_complete(record, planned):
    """Whether `record` holds everything that `planned` asks for, or is of a run that diverged, which holds no more."""
    return record["status"] != "ok" or not _missing(record, planned)


def needs_training(record, planned):
    """Whether a look during training is missing."""
    return any(when is not None for when, _ in _missing(record, planned))


def _missing(record, planned):
    """What `planned` asks for and `record` does not hold, in the form of `_known`."""
    epochs, asked = list(planned.evolution_epochs), _facts(None, planned.counts.values(), planned.measures)
    if planned.evolution_loss is not None:
        asked.add(("loss", planned.evolution_loss))
        reached = (record.get("reached") or {}).get("epoch")
        epochs += [] if reached is None else [reached]
    for epoch in epochs:
        asked |= _facts(epoch, planned.evolution_counts.values(), planned.evolution_measures)
    return asked - _known(record)


def _known(record):
    """What a record holds, as a set: (epoch, a count's settings or a measure), the epoch None for the end."""
    known = {("loss", record["reached"]["loss"])} if record.get("reached") else set()
    for point in (record, *record["evolution"]):
        settings = [entry["settings"] for entry in point["counts"]]
        known |= _facts(point.get("epoch"), settings, point.get("measures", ()))
    return known


def _facts(epoch, counts, measures):
    return {(epoch, "look"), *((epoch, canonical_json(c)) for c in counts), *((epoch, name) for name in measures)}


def wishes(record):
    """What a record holds, as a plan that asks for it; without measures that this process cannot take."""
    looks = record["evolution"]
    return PlannedRun(
        spec=None,
        counts=_counts_of([record]),
        measures=_measures_of([record]),
        evolution_epochs=tuple(point["epoch"] for point in looks),
        evolution_counts=_counts_of(looks),
        evolution_loss=(record.get("reached") or {}).get("loss"),
        evolution_measures=_measures_of(looks),
    )


def _counts_of(points):
    return {canonical_json(entry["settings"]): entry["settings"] for point in points for entry in point["counts"]}


def _measures_of(points):
    from rc_utils.measures import MEASURES

    names = [name for point in points for name in point.get("measures", ()) if name in MEASURES]
    return tuple(dict.fromkeys(names))


def richer(live, reference):
    """(record, origin) of two records of a run: the live one, unless the reference knows more."""
    mine, theirs = _known(live), _known(reference)
    if theirs <= mine:
        return live, "live"
    if same_network(live, reference):
        return merge_records(live, reference), "reference"
    # Networks of two machines: what this one was asked for beyond the reference is not to be asked for again.
    return (reference, "reference") if mine < theirs else (live, "live")


def same_network(one, other):
    """Whether two records of a run are of one network: trained on equal data to equal accuracies and losses."""
    ok = one["status"] == other["status"] == "ok"
    return ok and one["results"] == other["results"] and data_sha256(one) == data_sha256(other)


def merge_records(record, other):
    """`record` with the counts, measures and epochs that `other` has beyond it; as it is if that is another network."""
    if not same_network(record, other):
        return record
    looks = {point["epoch"]: point for point in other["evolution"]}
    for point in record["evolution"]:
        looks[point["epoch"]] = _united(point, looks.get(point["epoch"], point))
    return _united(record, other) | {"evolution": [looks[epoch] for epoch in sorted(looks)]}


def _united(mine, theirs):
    """Two records, or two looks at one epoch, with the counts and measures of both."""
    more = [entry for entry in theirs["counts"] if find_count(mine["counts"], entry["settings"]) is None]
    united = theirs | mine | {"counts": mine["counts"] + more}
    if "measures" in united:
        united["measures"] = theirs.get("measures", {}) | mine.get("measures", {})
    return united
