"""Recorded runs trained again and compared with their records: `python -m rc_utils.sweep NAME --verify N`."""

import math
import random
import statistics

from rc_utils import ledger, runs
from rc_utils.provenance import hardware, instructions


def verify(campaign, number, seed=0, device="cpu", threads=1):
    """Train `number` random recorded runs again and compare them with their records.

    Yields (run id, largest difference of an accuracy, largest difference of a mean count, share of simplices whose
    counts differ). Zeros mean the same results to the last bit of the accuracies and the regions on every simplex. NaN:
    the data are not those of the record, so that nothing was trained, or it has no count with the campaign's settings.
    """
    plans = campaign.runs()
    found = ledger.find_records(plans, campaign.folder / "runs.jsonl")
    complete = sorted(key for key, (record, _) in found.items() if record["status"] == "ok")
    for key in random.Random(seed).sample(complete, min(number, len(complete))):
        old = found[key][0]
        if not runs.has_same_data(old, plans[key], device):
            yield key, math.nan, math.nan, math.nan
            continue
        with runs.torch_threads(threads):
            new, _ = runs.train_run(plans[key], device)
        accuracy = max(abs(old["results"][k] - new["results"][k]) for k in ("train_accuracy", "test_accuracy"))
        counts = [(entry["counts"], ledger.find_count(old["counts"], entry["settings"])) for entry in new["counts"]]
        counts = [(ours, theirs["counts"]) for ours, theirs in counts if theirs]
        means = max((abs(statistics.fmean(a) - statistics.fmean(b)) for a, b in counts), default=math.nan)
        differ = [a != b for ours, theirs in counts for a, b in zip(ours, theirs, strict=True)]
        yield key, accuracy, means, statistics.fmean(differ) if differ else math.nan


def print_verification(rows):
    """Print the rows of `verify` and the verdict; returns an exit status, 0 where each was compared and agrees.

    Another kind of processor rounds differently, so that half a per cent of accuracy and 0.05 regions are tolerated.
    """
    same, compared = True, 0
    for key, accuracy, count, share in rows:
        counts = f"mean count by {count:.2e} ({share:.1%} of the simplices)"
        differs = f"accuracy differs by {accuracy:.2e}, {'no count to compare' if math.isnan(count) else counts}"
        print(f"{key}: {'other data than the record has' if math.isnan(accuracy) else differs}")
        same &= accuracy <= 0.005 and count <= 0.05
        compared += 1
    if not compared:
        print("nothing to verify: no finished run has a record")
        return 1
    here = f"{hardware()}, {instructions()}"
    print("verified" if same else f"NOT reproduced on {here}; records made on another processor say so (`provenance`)")
    return 0 if same else 1
