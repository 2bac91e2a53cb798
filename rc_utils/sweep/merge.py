"""Two records of one run: which of them knows more, and what they know together."""

from rc_utils.sweep.specification import canonical_json


def find_count(entries, settings):
    """The entry of a record's list of counts that was made with `settings`, or None."""
    return next((entry for entry in entries if entry["settings"] == settings), None)


def richer(live, reference):
    """(record, origin) of two records of a run: the live one, unless the reference knows more."""
    mine, theirs = _knowledge(live), _knowledge(reference)
    if theirs <= mine:
        return live, "live"
    if same_network(live, reference):
        merged = merge_records(reference, live)
        if "weights_sha256" in live["provenance"]:  # those that this machine keeps
            weights = {"weights_sha256": live["provenance"]["weights_sha256"]}
            merged = merged | {"provenance": merged["provenance"] | weights}
        return merged, "reference"
    # Networks of two machines: what this one was asked for beyond the reference is not to be asked for again.
    return (reference, "reference") if mine < theirs else (live, "live")


def _knowledge(record):
    """The measures, the counts and the epochs with their counts that a record holds, as a set."""
    evolution = {(p["epoch"], canonical_json(c["settings"])) for p in record["evolution"] for c in p["counts"]}
    evolution |= {(p["epoch"], name) for p in record["evolution"] for name in p.get("measures", ())}
    epochs = {point["epoch"] for point in record["evolution"]}
    if record.get("reached"):
        epochs.add(("loss", record["reached"]["loss"]))
    return {canonical_json(c["settings"]) for c in record["counts"]} | evolution | epochs | set(record["measures"])


def same_network(one, other):
    """Whether two records of a run are of one network: trained on equal data to equal accuracies and losses."""
    ok = one["status"] == other["status"] == "ok"
    return ok and one["results"] == other["results"] and data_sha256(one) == data_sha256(other)


def data_sha256(record):
    """The hash of the data that a record was made with, None where it does not say."""
    return record["provenance"].get("data", {}).get("sha256")


def merge_records(record, other):
    """`record` with the counts, measures and epochs that `other` has beyond it; as it is if that is another network."""
    if not same_network(record, other):
        return record
    by_epoch = {point["epoch"]: point for point in other["evolution"]}
    for point in record["evolution"]:
        more = by_epoch.get(point["epoch"], point)
        by_epoch[point["epoch"]] = more | point | {"counts": _union(point["counts"], more["counts"])}
        if "measures" in more:
            by_epoch[point["epoch"]]["measures"] = more["measures"] | point.get("measures", {})
    merged = other | record
    merged["counts"] = _union(record["counts"], other["counts"])
    merged["measures"] = other["measures"] | record["measures"]
    merged["evolution"] = [by_epoch[epoch] for epoch in sorted(by_epoch)]
    return merged


def _union(entries, others):
    return entries + [entry for entry in others if find_count(entries, entry["settings"]) is None]
