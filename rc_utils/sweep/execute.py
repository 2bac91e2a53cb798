"""Run what is missing of a campaign: `python -m rc_utils.sweep NAME`.

In this process by default, on local worker processes with --workers, on a Dask cluster with
--scheduler. Every finished run is on the disk at once; a killed sweep loses at most the runs it was
in, and the next call does the rest.
"""

import argparse
import contextlib
import dataclasses
import functools
import os
import random
import statistics
import sys
import time
import traceback
import uuid

import numpy as np
import torch
from tqdm import tqdm

from rc_utils import measures
from rc_utils.checks import check_arguments, check_count, check_name, check_number, naming, require
from rc_utils.counting import region_count
from rc_utils.datasets.load import check_values as check_dataset
from rc_utils.datasets.load import load_dataset
from rc_utils.networks import check_network
from rc_utils.paths import results_dir, write_atomically
from rc_utils.sweep import records
from rc_utils.sweep.campaign import canonical_json, load_campaign
from rc_utils.sweep.cluster import Outcome, on_dask
from rc_utils.sweep.run import check_networks, complete_run, make_record
from rc_utils.training import StopTraining

# Differences of seeds of one setting in the committed records of cifar10-small, which a run that is
# repeated on another kind of processor may have: of an accuracy, and of a mean count as a share of
# it, in one dimension and in more.
ACCURACY_TOLERANCE, COUNT_TOLERANCE, FURTHER_TOLERANCE = 0.04, 0.12, 0.36

RECORD_SIZE = 1 << 18  # bytes, more than a record of thousands of simplices has


def sweep(
    campaign, *, workers=0, scheduler=None, device="cpu", time_budget=None, shard=(0, 1), threads=1,
    compile=False,
):  # fmt: skip
    """Run what is missing of `campaign` (a Campaign or its name).

    Returns the outcomes (`Outcome`); a run that fails does not end the sweep. Records are on the
    disk, not in the outcomes.

    workers: local worker processes; 0 runs in this process. scheduler: address of a Dask scheduler.
    time_budget: seconds after which no run is begun and runs in progress are given up.
    shard: (i, n), every n-th run from the i-th on. compile: torch.compile the networks.
    threads: torch threads of each run; with one, results do not depend on the machine's load.

    Raises OSError before any training if the results cannot be written, and ValueError for a wrong
    setting, device or value of the campaign, and for a network of the reader's that is not the one
    on record.
    """
    campaign = campaign if hasattr(campaign, "entries") else load_campaign(campaign)
    check_values(campaign)
    check_count("workers", workers, 0)
    check_count("threads", threads, 1)
    check_number("time_budget", time_budget or 0, 0)
    require(0 <= shard[0] < shard[1], f"shard={shard!r}; expected (i, n) with i < n, such as (0, 4)")
    if not scheduler:  # whose workers may have what this machine has not
        check_device(device)
    deadline = None if time_budget is None else time.time() + time_budget
    check_networks(campaign.runs())
    todo = records.missing_runs(campaign, shard)
    if not todo:
        return []
    # A record that cannot be written is noticed before any training.
    probe = results_dir() / "records" / f".writable.{uuid.uuid4().hex[:8]}"
    write_atomically(probe, bytes(RECORD_SIZE))
    probe.unlink()
    options = {"device": device, "threads": threads, "deadline": deadline, "compile": compile}
    job = functools.partial(attempt, **options)
    outcomes = on_dask(todo, job, workers, scheduler) if workers or scheduler else map(job, todo)
    seen = []
    with tqdm(total=len(todo), desc=campaign.name, unit="run", mininterval=2.0) as bar:
        for outcome in outcomes:
            bar.update(outcome.status == "done")
            if line := _reported(outcome):
                bar.write(line, file=sys.stderr)
            seen.append(dataclasses.replace(outcome, record=None))
    return seen


def attempt(planned, device="cpu", threads=1, deadline=None, compile=False):
    """Outcome of a planned run in this process; an error in it is an outcome, too.

    deadline: time.time() after which it is not begun or given up; None for no limit.
    """
    from filelock import Timeout

    run_id = planned.spec.run_id

    def late():
        return deadline is not None and time.time() > deadline

    try:
        if late():
            return Outcome(run_id, "late")
        with torch_threads(threads):
            record = complete_run(planned, device, late, compile=compile, wait=False)
        return Outcome(run_id, "done", record)
    except StopTraining:
        return Outcome(run_id, "late")
    except Timeout:
        return Outcome(run_id, "elsewhere")
    except Exception:
        settings = canonical_json(dataclasses.asdict(planned.spec))
        return Outcome(run_id, "failed", error=f"{traceback.format_exc()}settings: {settings}")


def _reported(outcome):
    """A line on a run that ended; its record is written where its worker shares no file system."""
    if outcome.status == "failed":
        return f"run {outcome.run_id} failed:\n{outcome.error}"
    if outcome.status != "done":
        return ""
    record, results = outcome.record, outcome.record["results"]
    if not records.record_path(outcome.run_id).exists():
        records.write_record(record)
    accuracies = f"train {results['train_accuracy']:.3f}, test {results['test_accuracy']:.3f}"
    return f"{outcome.run_id} {record['spec']['network']['name']} {record['status']}: {accuracies}"


@contextlib.contextmanager
def torch_threads(number):
    """So many torch threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_values(campaign):
    """Try what the campaign asks of datasets, networks, counts and measures before any training.

    Raises ValueError for a wrong name or value; the message says where it stands in the file.
    """
    require("name" in campaign.dataset, f"{campaign.name}, [dataset] has no 'name'")
    networks = [(f"[networks.{label}]", n) for label, n in campaign.networks.items()]
    datasets = [("[dataset]", campaign.dataset)]
    for experiment, label, planned in campaign.entries():
        where = f"experiment {experiment.name!r}"
        for key in ("measures", "evolution_measures"):
            for name in getattr(planned, key):
                check_name(f"{key} of {campaign.name}, {where}", name, measures.MEASURES)
        if experiment.options:
            networks.append((f"{where}, [networks.{label}] with its options", planned.spec.network))
        if experiment.dataset:
            datasets.append((f"{where}, dataset", planned.spec.dataset))
    for where, settings in datasets:
        # Keys that name a place on this machine are no part of a run.
        places = ("device", "data_dir", "root", "unknown")
        check_arguments(load_dataset, settings, f"{campaign.name}, {where}", places)
        values = {key: v for key, v in settings.items() if key not in ("name", "classes")}
        with naming(f"{campaign.name}, {where}"):
            check_dataset(**values)
    for where, network in networks:
        with naming(f"{campaign.name}, {where}"):
            for key in ("num_classes", "in_channels", "image_size", "seed"):
                require(key not in network, f"{key} comes from the dataset or the run")
            for key, value in network.items():
                with naming(key):
                    canonical_json(value)
            check_network(**network)
    model, points = lambda batch: batch[:, :3], np.random.default_rng(0).random((64, 8))
    for label, settings in campaign.counts.items():
        with naming(f"{campaign.name}, counts.{label}"):
            check_name("points", settings["points"], ("train", "test"))
            settings = {key: v for key, v in settings.items() if key != "points"}
            check_arguments(region_count, settings, "counts", ("model", "points", "batch_size"))
            check_count("num_samples", settings.get("num_samples", 1), 1)
            region_count(model, points, **settings | {"num_samples": 1})
    with naming(campaign.name):
        campaign.runs()


def check_device(device):
    """Raise ValueError for a device that is unknown or not in this machine."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} cannot be used: {error}") from error


def plan(campaign, shard=(0, 1)):
    """Lines that say how many runs are there, how many are missing, and the hours that these take.

    By the median seconds of the records of each network, as far as there are some.
    """
    plans, todo = campaign.runs(), records.missing_runs(campaign, shard)
    found = records.find_records(plans, campaign.folder / "runs.jsonl")
    yield f"{campaign.name}: {campaign.title}"
    for experiment in campaign.experiments:
        asked = {p.spec.run_id for e, _, p in campaign.entries() if e is experiment}
        there = [run_id for run_id in asked if run_id in found]
        complete = sum(records.is_complete(found[key][0], plans[key]) for key in there)
        lack = f", {len(there) - complete} lack a count or a measure" if complete < len(there) else ""
        yield f"  {experiment.name}: {complete} of {len(asked)} runs are complete{lack}"
    part = "" if shard[1] == 1 else f" in shard {shard[0]}/{shard[1]}"
    yield f"  {len(todo)} of {len(plans)} distinct runs to do{part}"
    seconds = {}
    for record, _ in found.values():
        spent = record["provenance"]["seconds_train"] + sum(c["seconds"] for c in record["counts"])
        seconds.setdefault(record["spec"]["network"]["name"], []).append(spent)
    known = [p.spec.network["name"] for p in todo if p.spec.network["name"] in seconds]
    if known:
        hours = sum(statistics.median(seconds[name]) for name in known) / 3600
        yield f"  about {hours:.2f} process hours for {len(known)} of them, by the records there are"


def verify(campaign, number, seed=0, device="cpu"):
    """Train `number` random recorded runs again; yields (line for the reader, whether it agrees).

    A run has to be repeated to the last bit on the same kind of machine, and on another one within
    what seeds differ by. Writes nothing.
    """
    check_count("number", number, 1)
    plans = campaign.runs()
    found = records.find_records(plans, campaign.folder / "runs.jsonl")
    finished = sorted(key for key, (record, _) in found.items() if record["status"] == "ok")
    for key in random.Random(seed).sample(finished, min(number, len(finished))):
        old, (new, _) = found[key][0], make_record(plans[key], device)
        if records.data_sha256(old) not in (None, records.data_sha256(new)):
            yield f"{key}: other data than the record has", False
            continue
        was, now = (records.record_row(record, campaign.counts) for record in (old, new))
        accuracy = max(abs(was[k] - now[k]) for k in ("train_accuracy", "test_accuracy"))
        equal = new["status"] == "ok" and accuracy == 0
        close, largest = new["status"] == "ok" and accuracy <= ACCURACY_TOLERANCE, 0.0
        for label, settings in campaign.counts.items():
            pair = [records.find_count(record["counts"], settings) for record in (old, new)]
            if None not in pair:
                share = abs(was[f"count_{label}"] / now[f"count_{label}"] - 1)
                further = {"dim", "sampling"} & set(settings)
                equal = equal and pair[0]["counts"] == pair[1]["counts"]
                close = close and share <= (FURTHER_TOLERANCE if further else COUNT_TOLERANCE)
                largest = max(largest, share)
        keys = ("device", "hardware", "instructions", "threads")
        alike = device == "cpu" and all(old["provenance"].get(k) == new["provenance"][k] for k in keys)
        text = f"an accuracy differs by {accuracy:.2g}, a mean count by {largest:.1%}"
        text += ", on the same kind of machine" if alike else ""
        yield f"{key}: {'equal to the last bit' if equal else text}", equal or (close and not alike)


# The command ----------------------------------------------------------------------------------


def _shard(text):
    index, _, number = text.partition("/")
    if not (index.isdigit() and number.isdigit() and 0 <= int(index) < int(number)):
        raise argparse.ArgumentTypeError(f"{text!r} is not i/N with i < N, such as 0/4")
    return int(index), int(number)


def _parser():
    parser = argparse.ArgumentParser(prog="python -m rc_utils.sweep", description=__doc__.split("\n\n")[0])
    add, one = parser.add_argument, parser.add_mutually_exclusive_group()
    add("campaign", help="name of a folder in campaigns/, or the path of one")
    add("--workers", type=int, default=0, help="local worker processes (default: this process alone)")
    add("--scheduler", help="address of a Dask scheduler, for instance tcp://10.0.0.1:8786")
    add("--device", default="cpu", help="cpu, cuda, cuda:1, ... or auto")
    add("--threads", type=int, default=1, help="torch threads of each run (default 1)")
    add("--time-budget", type=float, metavar="SECONDS", help="stop cleanly after this time")
    add("--shard", type=_shard, default=(0, 1), metavar="i/N", help="every N-th run, from the i-th on")
    add("--compile", action="store_true", help="torch.compile the networks")
    add("--experiment", action="append", metavar="NAME", help="of this one alone; may be repeated")
    one.add_argument("--plan", action="store_true", help="say what is missing, run nothing")
    one.add_argument("--freeze", action="store_true", help="write the records to runs.jsonl, run nothing")
    one.add_argument("--verify", type=int, metavar="N", help="train N recorded runs again and compare")
    return parser


def main(arguments=None):
    """The command line; returns the exit status.

    0 done, 1 a run failed or differs, 2 wrong use or no place to write, 3 runs are left, 130
    interrupted.
    """
    options = _parser().parse_args(arguments)
    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        campaign = load_campaign(options.campaign)
        if options.experiment:
            campaign = campaign.restricted(options.experiment)
        return _act(campaign, options)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the same command does the rest", file=sys.stderr)
        return 130


def _act(campaign, options):
    """Do the one thing that the options ask for; returns the exit status."""
    if not (options.plan or options.freeze or options.verify is not None):
        names = ("workers", "scheduler", "device", "threads", "time_budget", "shard", "compile")
        outcomes = sweep(campaign, **{name: getattr(options, name) for name in names})
        statuses = [outcome.status for outcome in outcomes]
        done, failed = statuses.count("done"), statuses.count("failed")
        left = len(records.missing_runs(campaign, options.shard))
        made = f"{done} runs finished now, {failed} failed, {left} left"
        print(f"{campaign.name}: {made}; records in {results_dir()}")
        return 1 if failed else 3 if left else 0
    check_values(campaign)
    if options.plan:
        try:
            for line in plan(campaign, options.shard):
                print(line, flush=True)
        except BrokenPipeError:  # nobody reads any more, as `head`
            # Python writes what is left at its end, and would complain again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if options.freeze:
        path, number = records.freeze(campaign)
        print(f"{number} records in {path}" if number else f"no record to freeze: run {campaign.name} first")
        return 0 if number else 1
    check_device(options.device)
    agree = []
    with torch_threads(options.threads):
        checked = verify(campaign, options.verify, device=options.device)
        for line, agrees in tqdm(checked, total=options.verify, desc=campaign.name, unit="run"):
            tqdm.write(line)
            agree.append(agrees)
    print(f"{sum(agree)} of {len(agree)} reproduced" if agree else "nothing to verify: no finished run")
    return 0 if agree and all(agree) else 1
