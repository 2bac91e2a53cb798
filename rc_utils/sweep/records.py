"""Run records on disk, and one table of them.

A record is the JSON of one run in `results/records/<run id>.json`, shared by all campaigns that ask
for the run. Those of a reference campaign are frozen in `campaigns/<name>/runs.jsonl`, one per
line, sorted by run id. A checksum in each record tells of damage and edits.
"""

import hashlib
import json
import os
import shlex
import uuid
import warnings

import numpy as np
import pandas as pd

from rc_utils.paths import results_dir, write_atomically
from rc_utils.sweep.campaign import (
    SCHEMA,
    TRAIN_DEFAULTS,
    Campaign,
    RunSpec,
    canonical_json,
    load_campaign,
)
from rc_utils.training.config import NEGLIGIBLE_DECAY, TrainConfig
from rc_utils.validation import check_count, check_name, require

INTERPOLATES = 0.99
KEYS = {"status", "results", "measures", "counts", "evolution", "provenance"}
RESULTS = ("train_accuracy", "test_accuracy", "train_loss", "test_loss")
# Columns that every table of runs has beside the counts and the measures.
RUN_COLUMNS = (
    *("run_id", "campaign", "experiment", "network", "setting", "origin", "status"),
    *TRAIN_DEFAULTS,
    *RESULTS,
    *("gap", "interpolates", "count", "count_std_error", "seconds_train", "seconds_count"),
)
# Columns that some tables have: a measure can have none of these names either.
FURTHER_COLUMNS = ("epoch", "reached_loss", "unused_accuracy", "train_accuracy_true_labels")


def record_path(run_id):
    """File of the record of a run made on this machine."""
    return results_dir() / "records" / f"{run_id}.json"


def sealed(record):
    """The record with the checksum of its content."""
    content = {key: value for key, value in record.items() if key != "checksum"}
    return content | {"checksum": hashlib.sha256(canonical_json(content).encode()).hexdigest()}


def spec_of(record):
    """The `RunSpec` of a record."""
    return RunSpec(**record["spec"] | {"train": TrainConfig(**record["spec"]["train"])})


def write_record(record):
    """Write `record` (a dict of JSON values with `run_id`) to its place; returns the path."""
    path = record_path(record["run_id"])
    write_atomically(path, json.dumps(sealed(record), indent=1, allow_nan=False).encode() + b"\n")
    return path


def check_writable(size=0):
    """Raise OSError if a record and `size` bytes cannot be written: before hours of training."""
    probe = results_dir() / "records" / f".writable.{uuid.uuid4().hex[:8]}"
    write_atomically(probe, bytes(size + (1 << 20)))  # as large as records are at most
    probe.unlink()


def _trusted(text, where, run_id=None):
    """The record in a JSON text; None, with a warning, if it is damaged or of another run."""
    try:
        record = json.loads(text)
        require(record == sealed(record), "its checksum says it was damaged or edited")
        schema = record["schema"]
        require(schema == SCHEMA, f"it has schema {schema}, this version reads {SCHEMA}")
        expected = spec_of(record).run_id
        same = record["run_id"] == expected and run_id in (None, expected)
        require(same, f"its settings are those of run {expected}")
        missing = KEYS - record.keys() or set(RESULTS) - record["results"].keys()
        require(not missing, f"it has no {missing}")
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        advice = "delete this record alone and run the sweep again"
        warnings.warn(f"{where} is not a whole record, {error!r}: {advice}", stacklevel=3)
        return None
    return record


def live_record(run_id):
    """The record of a run made on this machine, or None; a corrupt one is named in a warning."""
    path = record_path(run_id)
    return _trusted(path.read_bytes(), path, run_id) if path.exists() else None


def read_frozen(path, lose_nothing=False):
    """The records of a runs.jsonl by run id, none if there is no file; warns of corrupt lines.

    lose_nothing: raise ValueError where there are such lines.
    """
    lines = path.read_bytes().splitlines() if path.exists() else []
    found = [_trusted(line, f"{path}, line {i}") for i, line in enumerate(lines, 1) if line.strip()]
    lost = f"{path} has damaged lines: restore them, or delete them to make their runs again"
    require(not lose_nothing or None not in found, lost)
    records = {record["run_id"]: record for record in found if record is not None}
    twice = [r["run_id"] for r in found if r is not None and r is not records[r["run_id"]]]
    require(not twice, f"{path} has runs on several lines, {twice}: delete all but one of each")
    return records


def find_records(plans, origin=None):
    """Records that are there: {run id: (record, origin)}, origin "live" or "reference".

    plans: {run id: PlannedRun}. origin: look for records of this one alone. A live record goes
    before a frozen one, unless only the frozen one is complete. Warns of corrupt records, and of
    records whose dataset has the same settings and different data.
    """
    found = {}
    if origin != "live":
        for path in {planned.frozen for planned in plans.values()}:
            committed = read_frozen(path)
            found |= {key: (committed[key], "reference") for key in committed if key in plans}
    if origin != "reference":
        for run_id, planned in plans.items():
            live = live_record(run_id)
            frozen_is_complete = run_id in found and is_complete(found[run_id][0], planned)
            if live is not None and (is_complete(live, planned) or not frozen_is_complete):
                found[run_id] = (live, "live")
    hashes = {}
    for run_id, (record, _) in found.items():
        dataset, data = canonical_json(record["spec"]["dataset"]), record["provenance"]["data"]
        hashes.setdefault(dataset, {}).setdefault(data["sha256"], run_id)
    for dataset, runs in hashes.items():
        if len(runs) > 1:
            mixed = f"runs {', '.join(runs.values())} have different data of the same name"
            advice = "rename the dataset, or delete the old records"
            warnings.warn(f"{mixed}, {dataset}: {advice}", stacklevel=2)
    return found


def freeze(campaign):
    """Write every record of `campaign` to its runs.jsonl, beside those that are there.

    A complete one gives way to one that holds all of it, another to a complete one that did not
    diverge. Returns (path, number of records). Raises ValueError if a damaged line would be lost.
    """
    from filelock import FileLock

    path, plans = campaign.folder / "runs.jsonl", campaign.runs()
    if not (found := find_records(plans)):
        return path, 0
    with FileLock(campaign.folder / ".runs.lock"):
        records = read_frozen(path, lose_nothing=True)
        for key, (record, _) in found.items():
            old = records.get(key)
            keeps = held(old) if old and is_complete(old, plans[key]) else plans[key].asked
            is_whole = record["status"] == "ok" and is_complete(record, plans[key].also(keeps))
            if old is None or is_whole:
                records[key] = record
        lines = [canonical_json(sealed(records[run_id])) + "\n" for run_id in sorted(records)]
        if lines:
            write_atomically(path, "".join(lines).encode())
    return path, len(lines)


def counted_with(entry):
    """The settings of an entry of a record's list of counts."""
    # Older records name no adjacency; theirs was "face".
    older = {} if entry["settings"].get("dim", 1) == 1 else {"adjacency": "face"}
    return older | entry["settings"]


def find_count(entries, settings):
    """The entry of a record's list of counts that was made with `settings`, or None."""
    return next((entry for entry in entries if counted_with(entry) == settings), None)


def held(record):
    """Contents of a record in the form of `PlannedRun.asked`, with the same keys."""
    looks = record["evolution"]
    look = looks[0] if looks else {"counts": []}  # all looks of a record hold the same
    return {
        "counts": [counted_with(entry) for entry in record["counts"]],
        "measures": list(record["measures"]),
        "per_image": [True] if "per_image" in record else [],
        "evolution_epochs": [look["epoch"] for look in looks],
        "evolution_loss": [record["reached"]["loss"]] if "reached" in record else [],
        "evolution_counts": [counted_with(entry) for entry in look["counts"]],
        "evolution_measures": list(look.get("measures", ())),
        "evolution_weights": [True] if "weights_sha256" in record["provenance"] else [],
    }


def is_complete(record, planned):
    """Whether a record holds all that is asked for, or is of a diverged run."""
    there, asked = held(record), planned.asked
    if not record["evolution"]:  # the loss to count at was never reached: nothing to count
        there |= {key: asked[key] for key in ("evolution_counts", "evolution_measures")}
    holds_all = all(item in there[key] for key, items in asked.items() for item in items)
    return holds_all or record["status"] != "ok"


def missing_runs(campaign, shard=(0, 1)):
    """Planned runs without a complete record, in order; shard (i, n): of every n-th run from i."""
    require(0 <= shard[0] < shard[1], f"shard={shard!r}; expected (i, n) with i < n")
    plans = campaign.runs()
    found, mine = find_records(plans), list(plans.items())[shard[0] :: shard[1]]
    return [p for key, p in mine if key not in found or not is_complete(found[key][0], p)]


def load_runs(
    name: str | os.PathLike | Campaign, origin: str | None = None, num_samples: int | None = None
) -> pd.DataFrame:
    """One row per recorded run and experiment of the campaign `name`.

    Args:
        origin: "live" or "reference" keeps the records made on this machine or the committed ones.
        num_samples: take means over the first so many simplices, if there are; None or 0 for all.

    Columns: run_id, campaign, experiment, network, setting (without the seed and negligible weight
    decays), origin, status, all training settings, train_accuracy, test_accuracy, gap =
    train_accuracy - test_accuracy, train_loss, test_loss, interpolates (training accuracy >= 0.99),
    the measures by name (a list as name_0, name_1, ...), for every count c `count_<c>` and
    `count_<c>_std_error` (of the mean over simplices), with `count` short for `count_main`, and
    seconds_train, seconds_count. Raises ValueError for an unknown campaign or origin. Warns as
    `find_records`, and of settings or networks whose runs are equal to the last digit.
    """
    check_count("num_samples", num_samples or 0, 0)
    campaign, entries = _recorded(name, origin)
    rows = [head | record_row(record, campaign.counts, num_samples) for head, record in entries]
    table = pd.DataFrame(rows, columns=None if rows else list(RUN_COLUMNS))
    end = ["seed", *RESULTS]
    once = table[table["status"] == "ok"].drop_duplicates([*end, "network", "setting"])
    if copies := once.duplicated(end).sum():
        words = "end exactly as one of another setting or network: what differs has no effect"
        warnings.warn(f"{copies} runs of {campaign.name!r} {words}", stacklevel=2)
    return table


def load_evolution(name: str | os.PathLike | Campaign, origin: str | None = None) -> pd.DataFrame:
    """One row per run, experiment and epoch at which the run was looked at during training.

    The columns of `load_runs` that identify the run, epoch, accuracies, train_loss, gap, counts,
    measures, and reached_loss: the loss that it fell below for the first time, NaN elsewhere.
    """
    campaign, entries = _recorded(name, origin)
    rows = []
    for head, record in entries:
        reached, train = record.get("reached", {}), record["spec"]["train"]
        head |= {"status": record["status"]} | {k: train[k] for k in ("seed", "lr", "batch_size")}
        for look in record["evolution"]:
            row = head | {key: look[key] for key in ("epoch", "train_accuracy", "test_accuracy")}
            row["train_loss"] = float(look.get("train_loss", "nan"))
            row["gap"] = look["train_accuracy"] - look["test_accuracy"]
            is_reached = reached.get("epoch") == look["epoch"]
            row["reached_loss"] = reached["loss"] if is_reached else float("nan")
            rows.append(row | _columns(look, campaign.counts))
    return pd.DataFrame(rows, columns=None if rows else [*RUN_COLUMNS, "epoch", "reached_loss"])


def load_counts(name, labels):
    """Counts of single simplices: one row per run with all of the counts `labels`, and count.

    Columns: run_id, network, lr, batch_size, count (its label), counts (an array over the first
    simplices, the same in all runs and in labels that draw alike), evaluations, seconds of one.
    """
    campaign, entries = _recorded(name)
    for label in labels:
        check_name(f"count of campaign {campaign.name}", label, campaign.counts)
    rows, distinct = [], {head["run_id"]: (head, record) for head, record in entries}
    for head, record in distinct.values():
        found = [find_count(record["counts"], campaign.counts[label]) for label in labels]
        if None in found:
            continue
        settings = head | record["spec"]["train"]
        shared = min(len(entry["counts"]) for entry in found)
        for label, entry in zip(labels, found, strict=True):
            row = {key: settings[key] for key in ("run_id", "network", "lr", "batch_size")}
            row |= {"count": label, "counts": np.array(entry["counts"][:shared])}
            row["evaluations"] = entry["num_evaluations"] / len(entry["counts"])
            row["seconds"] = entry["seconds"] / len(entry["counts"])
            rows.append(row)
    return pd.DataFrame(rows)


def _recorded(name, origin=None):
    """The campaign, and for each of its runs on record (identifying columns, record)."""
    check_name("origin", origin or "live", ("live", "reference"))
    campaign = name if isinstance(name, Campaign) else load_campaign(name)
    found, entries = find_records(campaign.runs(), origin), []
    for experiment, label, planned in campaign.entries():
        run_id = planned.spec.run_id
        if run_id in found:
            record, where = found[run_id]
            setting = setting_name(vars(planned.spec.train), experiment.grid | experiment.ranges)
            head = {"run_id": run_id, "campaign": campaign.name, "experiment": experiment.name}
            entries.append((head | {"network": label, "setting": setting, "origin": where}, record))
    return campaign, entries


def setting_name(settings, varied):
    """Name of a setting, its keys in one order, so that equal settings of experiments agree."""
    negligible = {"weight_decay"} if settings["weight_decay"] <= NEGLIGIBLE_DECAY else set()
    keys = [key for key in TRAIN_DEFAULTS if key in varied and key not in negligible]
    return ", ".join(f"{key}={settings[key]}" for key in keys)


def record_row(record, counts, num_samples=None):
    """Values of one record as a flat dict; `counts` maps the names of counts to their settings."""
    results = {key: float(value) for key, value in record["results"].items()}
    row = {"status": record["status"], **TRAIN_DEFAULTS, **record["spec"]["train"], **results}
    row["gap"] = results["train_accuracy"] - results["test_accuracy"]
    row["interpolates"] = results["train_accuracy"] >= INTERPOLATES
    row |= _columns(record, counts, num_samples)
    row["count"] = row.get("count_main", float("nan"))
    row["count_std_error"] = row.get("count_main_std_error", float("nan"))
    row["seconds_train"] = record["provenance"]["seconds_train"]
    row["seconds_count"] = 0.0
    for entry in record["counts"]:  # not by sum(), which rounds differently from Python 3.12 on
        row["seconds_count"] += entry["seconds"]
    return row


def _columns(point, counts, num_samples=None):
    """Measures and mean counts at the end of a run (its record) or at a look during training."""
    columns = {}
    # A measure that is not finite is kept in a record by its name.
    for name, value in point.get("measures", {}).items():
        if isinstance(value, list):
            columns |= {f"{name}_{i}": float(number) for i, number in enumerate(value)}
        else:
            columns[name] = value if isinstance(value, int) else float(value)
    for name, settings in counts.items():
        entry = find_count(point["counts"], settings)
        if entry is not None:
            values = np.asarray(entry["counts"][: num_samples or None], dtype=float)
            spread = values.std(ddof=1) if len(values) > 1 else np.nan
            columns[f"count_{name}"] = values.mean()
            columns[f"count_{name}_std_error"] = spread / len(values) ** 0.5
    return columns


def campaign_runs(name, experiment="", num_samples=0, count="main"):
    """The runs that a page shows: `load_runs` of a campaign, of one experiment if it is named.

    count: the one that the page needs, "" for none. Raises ValueError, which says what to run, if
    there is no record, if all runs diverged, and if runs lack a count that their experiment takes.
    """
    campaign, command = load_campaign(name), f"python -m rc_utils.sweep {shlex.quote(str(name))}"
    runs = load_runs(campaign, num_samples=num_samples)
    if experiment:
        runs = runs[runs["experiment"] == campaign.experiment(experiment).name]
        command += f" --experiment {shlex.quote(experiment)}"
    require(len(runs), f"there is no record of campaign {name!r} yet: `{command}` trains its runs")
    diverged = f"all {len(runs)} runs chosen of campaign {name!r} diverged: lower their lr"
    require((runs["status"] == "ok").any(), diverged)
    if count:
        absent = runs.get(f"count_{count}", pd.Series(np.nan, runs.index)).isna()
        asked = [e.name for e in campaign.experiments if count in e.counts]
        lack = (runs["experiment"].isin(asked) & (runs["status"] == "ok") & absent).sum()
        again = f"{lack} of {len(runs)} runs lack the count {count!r}: `{command}` makes them again"
        require(not lack, again)
        none = f"no run chosen of campaign {name!r} has a count {count!r}, which the page shows"
        require(not absent.all(), f"{none}: let it count")
    return runs.reset_index(drop=True)


def experiments_like(name, experiment="", training=True):
    """Names of a campaign's experiments with the data and network options of one of them.

    experiment: its name, by default the first; an unknown one gives []. training: with the same
    changes of training, too.
    """
    campaign, kinds = load_campaign(name), {}
    for e in campaign.experiments:
        # With the defaults, which a file may name or leave out.
        train = TRAIN_DEFAULTS | campaign.train | e.train if training else {}
        kinds[e.name] = (campaign.dataset | e.dataset, e.options, e.own_draw, train)
    wanted = kinds.get(experiment or campaign.experiments[0].name)
    return [name for name, kind in kinds.items() if kind == wanted]


def plain_runs(name, num_samples=0, experiment=""):
    """`campaign_runs` of all experiments alike to one, default the first: one row per run.

    A campaign may spread its networks over several experiments. Left out are those that change
    training (mixup, another optimiser), the data or the networks' options, runs without the count
    "main", and runs that differ in a setting that `experiment` does not vary, other than learning
    rate, batch size, weight decay. The name of a setting has all that one of them varies.
    """
    campaign = load_campaign(name)
    chosen = campaign.experiment(experiment)
    names = experiments_like(name, chosen.name)
    runs = campaign_runs(name, "", num_samples)
    runs = runs[runs["experiment"].isin(names)].drop_duplicates("run_id")
    runs = runs[runs["count"].notna() | (runs["status"] != "ok")]
    varied = {key for e in campaign.experiments if e.name in names for key in e.grid | e.ranges}
    usual = TRAIN_DEFAULTS | campaign.train | chosen.train
    for key in varied - {*chosen.grid, *chosen.ranges, "lr", "batch_size", "weight_decay"}:
        runs = runs[runs[key] == usual[key]]
    settings = [setting_name(row, varied) for row in runs.to_dict("records")]
    return runs.assign(experiment="main", setting=settings).reset_index(drop=True)


def describe_runs(runs):
    """Summary of the runs of `campaign_runs` in two lines, and the campaign's note."""
    campaign, distinct = load_campaign(runs["campaign"].iloc[0]), runs.drop_duplicates("run_id")
    plans, ids = campaign.runs(), set(distinct["run_id"])
    found = find_records({run_id: plans[run_id] for run_id in ids})
    machines = {record["provenance"]["hardware"] for record, _ in found.values()}
    shown = {e.name: e for e, _, planned in campaign.entries() if planned.spec.run_id in ids}
    # As the file has them: the plans of an experiment with own draws have a dataset per seed.
    datasets = [campaign.dataset | experiment.dataset for experiment in shown.values()]
    keys = dict.fromkeys(key for dataset in datasets for key in dataset)
    values = {key: dict.fromkeys(str(d.get(key, "default")) for d in datasets) for key in keys}
    data = ", ".join(f"{key} {' or '.join(texts)}" for key, texts in values.items())
    fitted, failed = distinct["interpolates"].sum(), (distinct["status"] != "ok").sum()
    numbers = {name: distinct[name].nunique() for name in ("network", "seed")}
    words = ", ".join(f"{n} {name}{'s' * (n != 1)}" for name, n in numbers.items())
    made = f"{len(distinct)} of its {len(plans)} runs were read, {words}"
    return (
        f"campaign {campaign.name}: {made}; {data}\n"
        f"{fitted} fit their training images (accuracy at least {INTERPOLATES}), "
        f"{failed} diverged; made on {', '.join(sorted(machines))}\n{campaign.note}"
    ).strip()
