"""Recorded runs trained again and compared with their records: `python -m rc_utils.sweep NAME --verify N`.

On the same kind of processor a run is repeated to the last bit. On another one sums are rounded differently; training
enlarges that, and the network comes out as different as that of another seed. So the tolerance is a little more than
seeds of a cell differ by in the committed records of `cifar10-small`, on segments between images. Of counts in more
dimensions and along random directions there is one seed: cells of other weight decay differ in them up to three times
as much, and so did an EfficientNetB0 along random directions that was trained with two sets of instructions, by 31 %.
A processor can be held to the instructions of an older one (`OLDER`): then it repeats the older one's records too.
"""

import dataclasses
import math
import random

import numpy as np

from rc_utils.checks import check_count
from rc_utils.sweep import records, run
from rc_utils.sweep.job import torch_threads
from rc_utils.sweep.knowledge import find_count
from rc_utils.sweep.provenance import hardware, instructions

ACCURACY_TOLERANCE = 0.04  # of an accuracy
COUNT_TOLERANCE = 0.12  # of a mean count, as a share of it, beside three standard errors of the difference
FURTHER_TOLERANCE = 0.36  # the same in more dimensions than one and along random directions
# What holds torch and oneDNN to the instructions that every x86 processor of the last ten years has.
OLDER = "ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A run trained again beside its record.

    accuracy: largest difference of an accuracy; NaN where the data are not those of the record, so that nothing was
    trained. count: largest difference of a mean count, as a share of the recorded one; simplices: share of simplices
    whose counts differ; both NaN where the record has no count with the campaign's settings. alike: the record was made
    on this kind of machine and must be met to the last bit. close: every difference is within the tolerance.
    instructions: of the processor that made the record, "" where it does not say.
    """

    run_id: str
    accuracy: float
    count: float
    simplices: float
    alike: bool
    close: bool
    instructions: str = ""

    @property
    def equal(self):
        """The same accuracies and the same count on every simplex."""
        return self.accuracy == 0 and self.close and not (self.count > 0 or self.simplices > 0)

    @property
    def agrees(self):
        """Whether the run is what its record says it is."""
        return self.equal or (self.close and not self.alike)

    def __str__(self):
        if math.isnan(self.accuracy):
            return f"{self.run_id}: other data than the record has"
        if self.equal:
            return f"{self.run_id}: equal to the last bit"
        counts = f"a mean count by {self.count:.1%} ({self.simplices:.1%} of the simplices)"
        if math.isnan(self.count):
            counts = "no count to compare"
        verdict = "within" if self.close else "beyond"
        text = f"{self.run_id}: an accuracy differs by {self.accuracy:.2g}, {counts}: {verdict} what seeds differ by"
        return text + (", on the same kind of machine" if self.alike else "")


def verify(campaign, number, seed=0, device="cpu", threads=1):
    """Train `number` random recorded runs again; yields a `Comparison` of each with its record. Writes nothing."""
    check_count("number", number, 1)
    check_count("threads", threads, 1)
    plans = campaign.runs()
    found = records.find_records(plans, campaign.folder / "runs.jsonl")
    complete = sorted(key for key, (record, _) in found.items() if record["status"] == "ok")
    for key in random.Random(seed).sample(complete, min(number, len(complete))):
        old = found[key][0]
        if not run.has_same_data(old, plans[key], device):
            made = old["provenance"].get("instructions", "")
            yield Comparison(key, math.nan, math.nan, math.nan, alike=False, close=False, instructions=made)
            continue
        with torch_threads(threads):
            new, _ = run.train_run(plans[key], device)
        yield _compare(old, new)


def _compare(old, new):
    accuracy = max(abs(old["results"][k] - new["results"][k]) for k in ("train_accuracy", "test_accuracy"))
    close = old["status"] == new["status"] and accuracy <= ACCURACY_TOLERANCE
    differences, unequal = [], []
    for entry in new["counts"]:
        recorded = find_count(old["counts"], entry["settings"])
        if recorded is not None:
            was, now = np.asarray(recorded["counts"], float), np.asarray(entry["counts"], float)
            differences.append(abs((was - now).mean()) / was.mean())
            error = (was - now).std() / math.sqrt(len(was)) / was.mean()
            close = close and differences[-1] <= _tolerance(entry["settings"]) + 3 * error
            unequal.append(was != now)
    return Comparison(
        old["run_id"],
        accuracy,
        max(differences, default=math.nan),
        float(np.concatenate(unequal).mean()) if unequal else math.nan,
        alike=_is_alike(old, new),
        close=bool(close and (differences or not new["counts"])),
        instructions=old["provenance"].get("instructions", ""),
    )


def _tolerance(settings):
    further = settings.get("dim", 1) > 1 or settings.get("sampling") == "random_direction"
    return FURTHER_TOLERANCE if further else COUNT_TOLERANCE


def _is_alike(old, new):
    """Whether sums are rounded alike: not on a graphics card, and not known of records that do not say enough."""
    old, new = old["provenance"], new["provenance"]
    same = all(old.get(key) == new[key] for key in ("device", "hardware", "instructions", "threads"))
    return same and new["device"] == "cpu" and old["versions"]["torch"] == new["versions"]["torch"]


def print_verification(rows, device="cpu"):
    """Print each `Comparison` and the verdict; returns an exit status, 0 where each was compared and agrees."""
    compared = []
    for row in rows:
        print(row, flush=True)
        compared.append(row)
    if not compared:
        print("nothing to verify: no finished run has a record")
        return 1
    equal = sum(row.equal for row in compared)
    counted = f"{equal} of {len(compared)} to the last bit, on {hardware(device)} with {instructions()}"
    verified = all(row.agrees for row in compared)
    print(f"verified: {counted}" if verified else f"NOT reproduced: {counted}")
    if instructions() == "AVX512" and any(row.instructions != "AVX512" for row in compared):
        print(f"records of a processor without AVX-512 can be repeated to the last bit with {OLDER}")
    return 0 if verified else 1
