"""Run records on disk, and one table of them.

A record is the JSON of one run in `results/records/<run id>.json`, shared by all campaigns that ask for the run. The
records of a reference campaign are frozen as `campaigns/<name>/runs.jsonl`, one line a record, sorted by run id.
Records are written to a temporary name, flushed to the disk and renamed: a killed writer leaves the old or the new.
Each carries a checksum of its content, so that damage and edits by hand are noticed.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import uuid
import warnings

import numpy as np
import pandas as pd

from rc_utils.campaign import SCHEMA, Campaign, canonical_json, load_campaign
from rc_utils.paths import results_dir

INTERPOLATES = 0.99
ADVICE = "delete it and run the sweep again"


class CorruptRecord(ValueError):
    """A record that cannot be trusted; the message names the file and what to do."""


def record_path(run_id):
    """File of the record of a run made on this machine."""
    return results_dir() / "records" / f"{run_id}.json"


def weights_path(run_id):
    """File of the trained weights of a run made on this machine."""
    return results_dir() / "weights" / f"{run_id}.safetensors"


def write_record(record):
    """Write `record` (a dict of JSON values with `run_id`) to its place, atomically; returns the path."""
    path = record_path(record["run_id"])
    write_atomically(path, json.dumps(_sealed(record), indent=1, allow_nan=False).encode() + b"\n")
    return path


def read_record(path):
    """The record in the file `path`. Raises CorruptRecord if it is damaged, edited, of another run or schema."""
    path = pathlib.Path(path)
    record = _parse(path.read_bytes(), str(path))
    if record["run_id"] != path.stem:
        raise CorruptRecord(f"{path} holds the record of run {record['run_id']}: {ADVICE}")
    return record


def find_records(run_ids, frozen=None, origin=None):
    """Records of the wanted runs that are there: {run id: (record, origin)}, origin "live" or "reference".

    frozen: a runs.jsonl. A record made on this machine comes before a frozen one that knows no more than it.
    origin: look at the records of this origin alone.
    A corrupt record is named in a warning and treated as missing, so that a sweep makes it again.
    """
    found = {}
    reference = read_frozen(frozen) if frozen is not None and origin != "live" else {}
    for run_id in run_ids:
        if run_id in reference:
            found[run_id] = (reference[run_id], "reference")
        path = record_path(run_id)
        if origin != "reference" and path.exists():
            with _warn_if_corrupt():
                record = read_record(path)
                if run_id not in found or len(record["counts"]) >= len(found[run_id][0]["counts"]):
                    found[run_id] = (record, "live")
    return found


def read_frozen(path):
    """The records of a runs.jsonl by run id; {} if there is no such file; corrupt lines are named in a warning."""
    path, records = pathlib.Path(path), {}
    if path.exists():
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            with _warn_if_corrupt():
                record = _parse(line, f"{path}, line {number}")
                records[record["run_id"]] = record
    return records


def freeze(campaign):
    """Write every record that `campaign` has to its runs.jsonl, atomically; returns (path, number of records)."""
    path = campaign.folder / "runs.jsonl"
    found = find_records(campaign.runs(), path)
    lines = [canonical_json(_sealed(record)) for _, (record, _) in sorted(found.items())]
    write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
    return path, len(lines)


def load_runs(
    name: str | os.PathLike | Campaign, origin: str | None = None, num_samples: int | None = None
) -> pd.DataFrame:
    """One row a run and experiment of the campaign `name`, as far as there are records.

    origin: "live" or "reference" keeps the records made on this machine or the committed ones; default both.
    num_samples: means over the first so many simplices of every count; default all.
    Columns: run_id, campaign, experiment, network, cell (the hyper-parameters of the grid without the seed), origin,
    status, all training settings, train_accuracy, test_accuracy, gap = train_accuracy - test_accuracy,
    train_loss, test_loss, interpolates (training accuracy >= 0.99), the measures by name, for every count c
    `count_<c>` and `count_<c>_std_error` (of the mean over simplices), with `count` short for `count_main`, and
    seconds_train, seconds_count. Raises ValueError for an unknown campaign.
    """
    campaign = load_campaign(name) if isinstance(name, str | os.PathLike) else name
    found = find_records(campaign.runs(), campaign.folder / "runs.jsonl", origin)
    rows = []
    for experiment, label, planned in campaign.entries():
        record, where = found.get(planned.spec.run_id, (None, None))
        if record is not None:
            cell = ", ".join(f"{key}={getattr(planned.spec.train, key)}" for key in experiment.grid if key != "seed")
            head = {"run_id": planned.spec.run_id, "campaign": campaign.name, "experiment": experiment.name}
            head |= {"network": label, "cell": cell, "origin": where}
            rows.append(head | record_row(record, campaign.counts, num_samples))
    return pd.DataFrame(rows)


def load_evolution(name: str | os.PathLike | Campaign) -> pd.DataFrame:
    """One row a run and measured epoch: the columns of `load_runs` that identify the run, epoch, accuracies, counts."""
    campaign = load_campaign(name) if isinstance(name, str | os.PathLike) else name
    found = find_records(campaign.runs(), campaign.folder / "runs.jsonl")
    rows = []
    for _, row in load_runs(campaign).iterrows():
        record = found[row.run_id][0]
        head = row[
            [
                "run_id",
                "campaign",
                "experiment",
                "network",
                "cell",
                "origin",
                "status",
                "seed",
                "lr",
                "batch_size",
            ]
        ]
        for point in record["evolution"]:
            values = {k: point[k] for k in ("epoch", "train_accuracy", "test_accuracy")}
            values["gap"] = point["train_accuracy"] - point["test_accuracy"]
            rows.append(dict(head) | values | _count_columns(point["counts"], campaign.counts))
    return pd.DataFrame(rows)


def count_entries(name, labels):
    """The entries of a record's list of counts, with the count of every simplex, for the counts `labels`.

    {run id: {label: entry}} of the runs of the campaign `name` that have them all.
    """
    campaign = load_campaign(name)
    wanted = [campaign.counts.get(label) for label in labels]
    entries = {}
    for run_id, (record, _) in find_records(campaign.runs(), campaign.folder / "runs.jsonl").items():
        found = [find_count(record["counts"], settings) for settings in wanted]
        if None not in found:
            entries[run_id] = dict(zip(labels, found, strict=True))
    return entries


def record_row(record, counts, num_samples=None):
    """The values of one record as a flat dict; `counts` maps the names of counts to their settings."""
    results = {key: float(value) for key, value in record["results"].items()}
    row = {"status": record["status"], **record["spec"]["train"], **results}
    row["gap"] = results["train_accuracy"] - results["test_accuracy"]
    row["interpolates"] = results["train_accuracy"] >= INTERPOLATES
    row |= record["measures"] | _count_columns(record["counts"], counts, num_samples)
    row["count"] = row.get("count_main", float("nan"))
    row["count_std_error"] = row.get("count_main_std_error", float("nan"))
    row["seconds_train"] = record["provenance"]["seconds_train"]
    row["seconds_count"] = sum(c["seconds"] for c in record["counts"])
    return row


def find_count(entries, settings):
    """The entry of a record's list of counts that was made with `settings`, or None."""
    return next((entry for entry in entries if entry["settings"] == settings), None)


def _count_columns(entries, counts, num_samples=None):
    columns = {}
    for name, settings in counts.items():
        entry = find_count(entries, settings)
        if entry is not None:
            values = np.asarray(entry["counts"][:num_samples], dtype=float)
            columns[f"count_{name}"] = values.mean()
            columns[f"count_{name}_std_error"] = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return columns


def _digest(record):
    return hashlib.sha256(canonical_json({k: v for k, v in record.items() if k != "checksum"}).encode()).hexdigest()


def _sealed(record):
    return record | {"checksum": _digest(record)}


def _parse(text, where):
    try:
        record = json.loads(text)
        checksum, digest = record["checksum"], _digest(record)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptRecord(f"{where} is not a whole record ({error}): {ADVICE}") from error
    if checksum != digest:
        raise CorruptRecord(f"{where} does not match its checksum, it was damaged or edited: {ADVICE}")
    if record["schema"] != SCHEMA:
        raise CorruptRecord(f"{where} has schema {record['schema']}, this version reads {SCHEMA}: {ADVICE}")
    return record


@contextlib.contextmanager
def _warn_if_corrupt():
    try:
        yield
    except CorruptRecord as error:
        warnings.warn(str(error), stacklevel=3)


def check_writable():
    """Raise OSError, naming the folder and what to do, if results cannot be written: training would be in vain."""
    for folder in ("records", "weights"):
        probe = results_dir() / folder / f".writable.{uuid.uuid4().hex[:8]}"
        write_atomically(probe, b"")
        probe.unlink()


def write_atomically(path, content):
    """Write bytes to a temporary name beside `path`, flush them to the disk, rename.

    Raises OSError that names `path` and says what to do; what was there before is then as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        advice = "free disk space or make the folder writable, then run the same command again"
        raise OSError(error.errno, f"{error.strerror}; {advice}", str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    _sync_folder(path.parent)


def _sync_folder(folder):
    """Make a rename durable; some file systems refuse to open folders, and then there is nothing to flush."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
