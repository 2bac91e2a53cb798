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
import re
import uuid
import warnings

import numpy as np
import pandas as pd

from rc_utils.checks import check_count, results_dir, unknown_name, write_atomically
from rc_utils.sweep.campaign import read_campaign
from rc_utils.sweep.knowledge import find_count, is_complete, richer
from rc_utils.sweep.specification import RUN_COLUMNS, SCHEMA, TRAIN_DEFAULTS, Campaign, canonical_json

INTERPOLATES = 0.99
ORIGINS = ("live", "reference")
RECORD_SIZE = 1 << 18  # bytes, more than a record of thousands of simplices has
ADVICE = "delete this record alone and run the sweep again"
_EVOLUTION_COLUMNS = ["run_id", "campaign", "experiment", "network", "cell", "origin", "status"]
_EVOLUTION_COLUMNS += ["seed", "lr", "batch_size", "epoch", "train_accuracy", "test_accuracy", "train_loss"]
_EVOLUTION_COLUMNS += ["gap", "reached_loss"]
_RUN_ID = re.compile(rb'"run_id":"([0-9a-f]{16})"')


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
    write_atomically(path, json.dumps(sealed(record), indent=1, allow_nan=False).encode() + b"\n")
    return path


def sealed(record):
    """The record with the checksum of its content."""
    return record | {"checksum": _digest(record)}


def read_record(path):
    """The record in the file `path`. Raises CorruptRecord if it is damaged, edited, of another run or schema."""
    path = pathlib.Path(path)
    record = _parse(path.read_bytes(), str(path))
    if record["run_id"] != path.stem:
        raise CorruptRecord(f"{path} holds the record of run {record['run_id']}: {ADVICE}")
    return record


def find_records(run_ids, frozen=None, origin=None):
    """Records of the wanted runs that are there: {run id: (record, origin)}, origin "live" or "reference".

    frozen: a runs.jsonl. A record made on this machine comes before a frozen one, unless that one knows more: then
    both together, or the frozen one alone where they are not of the same network.
    origin: look at the records of this origin alone.
    A corrupt record is named in a warning and treated as missing, so that a sweep makes it again.
    """
    reference = read_frozen(frozen, set(run_ids)) if frozen is not None and origin != "live" else {}
    found = {run_id: (record, "reference") for run_id, record in reference.items()}
    for run_id in run_ids if origin != "reference" else ():
        path = record_path(run_id)
        if path.exists():
            with _warn_if_corrupt():
                record = read_record(path)
                found[run_id] = richer(record, reference[run_id]) if run_id in reference else (record, "live")
    return found


def missing_runs(campaign, shard=(0, 1)):
    """The planned runs without a complete record, in order; shard (i, n) keeps every n-th run, starting at i."""
    plans = campaign.runs()
    found = find_records(plans, campaign.folder / "runs.jsonl")
    mine = [(key, planned) for i, (key, planned) in enumerate(plans.items()) if i % shard[1] == shard[0]]
    todo = [(key, p) for key, p in mine if key not in found or not is_complete(found[key][0], p)]
    return [planned if key in found else campaign.to_train(key) for key, planned in todo]


def read_frozen(path, run_ids=None):
    """The records of a runs.jsonl by run id, those of `run_ids` alone if given; {} if there is no such file.

    Of two lines of a run the one that knows more is taken. Corrupt lines are named in a warning.
    """
    records = {}
    for where, run_id, line in _lines(path):
        if run_ids is None or run_id is None or run_id in run_ids:
            with _warn_if_corrupt():
                record = _parse(line, where)
                twin = records.get(record["run_id"])
                records[record["run_id"]] = record if twin is None else richer(record, twin)[0]
    return records


def _lines(path):
    """(where, run id or None, line) of every line of a runs.jsonl that is not empty; none if there is no such file."""
    path = pathlib.Path(path)
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), start=1):
        if line.strip():
            run_id = _RUN_ID.search(line)
            yield f"{path}, line {number}", run_id and run_id[1].decode(), line


def freeze(campaign):
    """Write every record of `campaign` to its runs.jsonl, atomically, beside those that are there.

    Returns (path, number of records); without any nothing is written. Raises CorruptRecord where that would lose a
    damaged line of a run that has no other record.
    """
    path = campaign.folder / "runs.jsonl"
    records = read_frozen(path) | {key: record for key, (record, _) in find_records(campaign.runs(), path).items()}
    for where, run_id, _ in _lines(path):
        if run_id not in records:
            raise CorruptRecord(f"{where} is damaged and its run has no other record: restore the file, or {ADVICE}")
    if not records:
        return path, 0
    lines = [canonical_json(sealed(record)) for _, record in sorted(records.items())]
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
    seconds_train, seconds_count. Raises ValueError for an unknown campaign or origin and a number of samples below 1.
    """
    campaign = _campaign_to_read(name, origin, num_samples)
    rows = [head | record_row(record, campaign.counts, num_samples) for head, record in _entries(campaign, origin)]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=list(RUN_COLUMNS))


def counted(table: pd.DataFrame, campaign: Campaign) -> pd.DataFrame:
    """The rows of `load_runs` without finished runs that lack the count `main`; a warning says how many these are.

    A run lacks it between a change of the campaign's count and the sweep that counts again.
    """
    if table.empty:
        return table
    asked = table["experiment"].isin([e.name for e in campaign.experiments if "main" in e.counts])
    without = asked & (table["status"] == "ok") & table["count"].isna()
    if without.any():
        warnings.warn(
            f"{without.sum()} of {len(table)} rows of campaign {campaign.name!r} are left out: their runs are not "
            f"counted as its [counts.main] says, `python -m rc_utils.sweep {campaign.name}` counts them",
            stacklevel=2,
        )
    return table[~without].reset_index(drop=True)


def load_evolution(
    name: str | os.PathLike | Campaign, origin: str | None = None, num_samples: int | None = None
) -> pd.DataFrame:
    """One row a run and measured epoch: the columns of `load_runs` that identify the run, epoch, accuracies, training
    loss, counts, measures, and in `reached_loss` the loss that it fell below for the first time, NaN elsewhere."""
    campaign = _campaign_to_read(name, origin, num_samples)
    rows = []
    for head, record in _entries(campaign, origin):
        reached = record.get("reached") or {}
        head |= {"status": record["status"]} | {k: record["spec"]["train"][k] for k in ("seed", "lr", "batch_size")}
        for point in record["evolution"]:
            values = {k: point[k] for k in ("epoch", "train_accuracy", "test_accuracy")}
            values["train_loss"] = float(point.get("train_loss", "nan"))
            values["gap"] = point["train_accuracy"] - point["test_accuracy"]
            values["reached_loss"] = reached["loss"] if reached.get("epoch") == point["epoch"] else float("nan")
            values |= {name: float(v) for name, v in point.get("measures", {}).items()}
            rows.append(head | values | _count_columns(point["counts"], campaign.counts, num_samples))
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=_EVOLUTION_COLUMNS)


def _campaign_to_read(name, origin, num_samples):
    if origin not in (None, *ORIGINS):
        raise unknown_name("origin", origin, ORIGINS)
    if num_samples is not None:
        check_count("num_samples", num_samples, 1)
    return read_campaign(name) if isinstance(name, str | os.PathLike) else name


def _entries(campaign, origin):
    """(columns that identify a run and its experiment, record) of all that a campaign asks for and has records of."""
    found = find_records(campaign.runs(), campaign.folder / "runs.jsonl", origin)
    for experiment, label, planned in campaign.entries():
        if planned.spec.run_id in found:
            record, where = found[planned.spec.run_id]
            keys = [*experiment.grid, *experiment.ranges]
            cell = ", ".join(f"{key}={getattr(planned.spec.train, key)}" for key in keys)
            head = {"run_id": planned.spec.run_id, "campaign": campaign.name, "experiment": experiment.name}
            yield head | {"network": label, "cell": cell, "origin": where}, record


def record_row(record, counts, num_samples=None):
    """The values of one record as a flat dict; `counts` maps the names of counts to their settings."""
    results = {key: float(value) for key, value in record["results"].items()}
    row = {"status": record["status"], **TRAIN_DEFAULTS, **record["spec"]["train"], **results}
    row["gap"] = results["train_accuracy"] - results["test_accuracy"]
    row["interpolates"] = results["train_accuracy"] >= INTERPOLATES
    # A measure that is not finite is kept by its name.
    row |= _measure_columns(record["measures"])
    row |= _count_columns(record["counts"], counts, num_samples)
    row["count"] = row.get("count_main", float("nan"))
    row["count_std_error"] = row.get("count_main_std_error", float("nan"))
    row["seconds_train"] = record["provenance"]["seconds_train"]
    row["seconds_count"] = sum(c["seconds"] for c in record["counts"])
    return row


def _measure_columns(measures):
    """Measures by name; a list of numbers becomes columns name_0, name_1, ..."""
    columns = {}
    for name, value in measures.items():
        if isinstance(value, list):
            columns |= {f"{name}_{i}": number for i, number in enumerate(value)}
        else:
            columns[name] = float(value) if isinstance(value, str) else value
    return columns


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


def check_writable(weights_size=1):
    """Raise OSError, naming the folder and what to do, if results cannot be written: training would be in vain.

    weights_size: bytes of the weights that are to be written. An empty file would fit on a full disk.
    """
    for folder, size in (("records", RECORD_SIZE), ("weights", weights_size)):
        probe = results_dir() / folder / f".writable.{uuid.uuid4().hex[:8]}"
        write_atomically(probe, bytes(size))
        probe.unlink()
