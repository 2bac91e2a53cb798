"""Run what is missing of a campaign: `python -m rc_utils.sweep NAME`.

A finished run is on the disk at once; after a kill the next call does the others.
"""

import argparse
import dataclasses
import functools
import math
import random
import signal
import sys
import traceback

import numpy as np
import torch
from tqdm import tqdm

from rc_utils import measures
from rc_utils.counting import region_count
from rc_utils.datasets.load import folder_with, load_dataset
from rc_utils.networks.registry import check_network, find_builder
from rc_utils.paths import results_dir
from rc_utils.sweep import records
from rc_utils.sweep.campaign import Campaign, canonical_json, load_campaign
from rc_utils.sweep.run import check_start, complete_run, make_record
from rc_utils.validation import check_arguments, check_count, check_name, naming, require

# By how much seeds of one setting differ in the records of cifar10-small: in an accuracy, and, as
# shares, in a mean count on segments between images and in any other mean count.
ACCURACY_TOLERANCE, COUNT_TOLERANCE, FURTHER_TOLERANCE = 0.05, 0.12, 0.36
DASK_SETTINGS = {
    "distributed.worker.daemon": False,
    "distributed.logging.distributed": "error",  # else warnings of workers that end slowly
    # A worker on a laptop or shared machine that was suspended is not dead.
    "distributed.scheduler.worker-ttl": None,
    "distributed.worker.preload": ["rc_utils.sweep.execute"],  # of local workers: `dask_setup`
    # Else layers map buffers anew, at twice the time. Both: one switches off the other's rule.
    "distributed.nanny.pre-spawn-environ": {
        "MALLOC_TRIM_THRESHOLD_": str(2**30),
        "MALLOC_MMAP_THRESHOLD_": str(2**25),
        "OMP_NUM_THREADS": "1",
    },
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """End of a run: "done", "elsewhere" (another sweep is at it) or "failed"; a text to print."""

    run_id: str
    status: str
    text: str = ""


def sweep(campaign, *, workers=0, scheduler=None, device="cpu", shard=(0, 1), compile=False):
    """Run what is missing of `campaign` (a Campaign or its name).

    Returns an `Outcome` for each run; a run that fails does not end the sweep.

    Args:
        workers: local worker processes; 0 runs in this process.
        scheduler: address of a Dask scheduler.
        shard: (i, n), every n-th run from the i-th on.
        compile: torch.compile the networks.

    Raises OSError before any training if the results cannot be written, ValueError for a wrong
    setting, device or value of the campaign, and for a reader's network that is not as on record.
    """
    campaign = campaign if isinstance(campaign, Campaign) else load_campaign(campaign)
    check_values(campaign)
    check_count("workers", workers, 0)
    todo = records.missing_runs(campaign, shard)
    if not todo:
        return []
    if not scheduler:  # its workers may have what this machine lacks
        check_machine(todo, device)
    records.check_writable()
    networks = [network["name"] for network in campaign.networks.values()]
    job = functools.partial(attempt, device=device, compile=compile, networks=networks)
    outcomes = on_dask(todo, job, workers, scheduler) if workers or scheduler else map(job, todo)
    seen = []
    with tqdm(total=len(todo), desc=campaign.name, unit="run", mininterval=2.0) as bar:
        for outcome in outcomes:
            if outcome.status == "done":
                bar.update()
            if outcome.text:
                bar.write(outcome.text, file=sys.stderr)
            seen.append(outcome)
    return seen


def attempt(planned, device, compile, networks=()):
    """Make a planned run in this process, which knows `networks`; returns its `Outcome`."""
    from filelock import Timeout

    run_id = planned.spec.run_id
    try:
        for name in networks:  # whose modules may register measures, too
            find_builder(name)
        record = complete_run(planned, device, compile=compile)
    except Timeout:
        return Outcome(run_id, "elsewhere")
    except Exception:
        settings = canonical_json(dataclasses.asdict(planned.spec))
        fault = f"run {run_id} failed:\n{traceback.format_exc()}settings: {settings}"
        return Outcome(run_id, "failed", fault)
    results, network = record["results"], planned.spec.network
    name = " ".join([network["name"], *(f"{k}={v}" for k, v in network.items() if k != "name")])
    accuracies = f"train {results['train_accuracy']:.3f}, test {results['test_accuracy']:.3f}"
    setting = "lr {lr:g}, batch size {batch_size}, seed {seed}".format(**record["spec"]["train"])
    return Outcome(run_id, "done", f"{run_id} {name}, {setting}, {record['status']}: {accuracies}")


def dask_setup(worker):
    """Called by Dask in a local worker: leave Ctrl-C, which reaches it too, to the sweep."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def on_dask(todo, job, workers, scheduler):
    """Outcomes of planned runs as they end; those of a killed worker go to another."""
    import dask

    dask.config.set(DASK_SETTINGS)  # before the import, which sets the level of logging
    from distributed import Client, as_completed

    cluster = {"address": scheduler}
    if not scheduler:
        cluster = {"n_workers": min(workers, len(todo)), "threads_per_worker": 1}
        cluster |= {"memory_limit": 0, "dashboard_address": "127.0.0.1:0"}
    with Client(**cluster) as client:
        futures = client.map(job, todo, batch_size=1000, fifo_timeout=0, pure=False)
        ids = {future.key: p.spec.run_id for future, p in zip(futures, todo, strict=True)}
        for future, outcome in as_completed(futures, with_results=True, raise_errors=False):
            if future.status == "error":
                fault = f"run {ids[future.key]} failed: {future.exception()!r}"
                outcome = Outcome(ids[future.key], "failed", fault)
            elif future.status != "finished":
                raise OSError("the scheduler is gone; the same command with another does the rest")
            yield outcome
            future.release()


def check_values(campaign):
    """Try the counts that the campaign asks for, and the names of all else, before any training.

    Raises ValueError for a wrong name, type or count, whose place in the file the message names,
    and for a reader's network that is not as on record. Values that a dataset or a network refuses
    show only when its first run starts.
    """
    for experiment, label, planned in campaign.entries():
        with naming(f"{campaign.name}, experiment {experiment.name!r}, network {label!r}"):
            # Keys that name a place on this machine are no part of a run.
            check_arguments(load_dataset, planned.spec.dataset, "dataset", ("device", "data_dir"))
            given = {"num_classes", "in_channels", "image_size", "seed"} & set(planned.spec.network)
            require(not given, f"the network's {given} come from the dataset or the run")
            check_network(**planned.spec.network)
            # Batches of all images would pass for several settings.
            size, n = planned.spec.train.batch_size, planned.spec.dataset.get("n_train", math.inf)
            varies = "batch_size" in experiment.grid | experiment.ranges
            require(size <= n or not varies, f"batch_size {size} exceeds the {n} images: lower it")
    points = np.random.default_rng(0).random((64, 8))
    for label, settings in campaign.counts.items():
        with naming(f"{campaign.name}, counts.{label}"):
            check_name("points", settings["points"], ("train", "test"))
            settings = {key: v for key, v in settings.items() if key != "points"}
            no_part = ("model", "points", "batch_size", "progress")
            check_arguments(region_count, settings, "counts", no_part)
            check_count("num_samples", settings.get("num_samples", 1), 1)
            region_count(lambda batch: batch[:, :3], points, **settings | {"num_samples": 1})
    with naming(campaign.name):
        for network in campaign.networks.values():  # whose modules may register measures, too
            find_builder(network["name"])
        for planned in campaign.runs().values():  # with what all experiments ask of them
            for name in planned.asked["measures"] + planned.asked["evolution_measures"]:
                taken = f"measure {name!r} has the name of a column of the tables: give it another"
                is_column = name in records.RUN_COLUMNS + records.FURTHER_COLUMNS
                require(not is_column and not name.startswith("count_"), taken)
                check_name("measure", name, measures.MEASURES)
        # The whole campaign's: records of experiments left out are of the same networks.
        for record, _ in records.find_records(campaign.restricted([]).runs()).values():
            check_start(record)


def check_machine(todo, device="cpu"):
    """Raise ValueError if this machine lacks the device or a dataset of the planned runs."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} cannot be used: {error}") from error
    for name in {planned.spec.dataset["name"] for planned in todo}:
        folder_with(name)


def plan(campaign, shard=(0, 1)):
    """Lines that say how many runs are there, how many are missing, and the hours that these take.

    The hours follow from the median seconds of the records with the same network, data and epochs.
    Raises ValueError for a dataset that is not here.
    """
    plans, todo = campaign.runs(), records.missing_runs(campaign, shard)
    check_machine(todo)
    found = records.find_records(plans)
    complete = {key for key, (old, _) in found.items() if records.is_complete(old, plans[key])}
    by_experiment, seconds = {}, {}
    for experiment, _, planned in campaign.entries():
        by_experiment.setdefault(experiment.name, set()).add(planned.spec.run_id)
    for key, (record, _) in found.items():
        spent = record["provenance"]["seconds_train"] + sum(c["seconds"] for c in record["counts"])
        seconds.setdefault(_cost_key(plans[key].spec), []).append(spent)
    yield f"{campaign.name}: {campaign.title}"
    for name, asked in by_experiment.items():
        yield f"  {name}: {len(asked & complete)} of {len(asked)} runs are complete"
    part = "" if shard[1] == 1 else f" in shard {shard[0]}/{shard[1]}"
    again = sum(planned.spec.run_id in found for planned in todo)
    lacks = f", {again} of them again: their records lack a count or a measure" if again else ""
    yield f"  {len(todo)} of {len(plans)} distinct runs to do{part}{lacks}"
    keys = [_cost_key(planned.spec) for planned in todo]
    known = [np.median(seconds[key]) for key in keys if key in seconds]
    if known:
        hours = f"about {sum(known) / 3600:.2g} process hours of training and counting"
        yield f"  {hours} for {len(known)} of them, by the records there are"


def _cost_key(spec):
    """Text that is equal for runs that take about as long."""
    dataset = {key: value for key, value in spec.dataset.items() if key != "seed"}
    return canonical_json([spec.network, dataset, spec.train.epochs])


def verify(campaign, number, seed=0, device="cpu"):
    """Train `number` random recorded runs again; yields (line for the reader, whether it agrees).

    A run agrees if it differs no more than two seeds do; with equal counts, if measures agree, too.
    """
    check_count("number", number, 1)
    plans, complete = campaign.runs(), {}
    for key, (old, _) in records.find_records(plans).items():
        if old["status"] == "ok" and records.is_complete(old, plans[key]):
            complete[key] = old
    require(complete, f"no complete record to verify: run {campaign.name} first")
    chosen = random.Random(seed).sample(sorted(complete), min(number, len(complete)))
    check_machine([plans[key] for key in chosen], device)
    for key in tqdm(chosen, desc=campaign.name, unit="run"):
        old, (new, _) = complete[key], make_record(plans[key], device)
        names, shares = ("train_accuracy", "test_accuracy"), [0.0]
        accuracy = max(abs(old["results"][name] - new["results"][name]) for name in names)
        close = new["status"] == "ok" and accuracy <= ACCURACY_TOLERANCE
        equal = accuracy == 0 and old.get("predictions") in (None, new.get("predictions"))
        for after in new["counts"]:
            before = records.find_count(old["counts"], after["settings"])["counts"]
            further = {"dim", "sampling"} & set(after["settings"])
            shares.append(abs(np.mean(before) / np.mean(after["counts"]) - 1))
            close = close and shares[-1] <= (FURTHER_TOLERANCE if further else COUNT_TOLERANCE)
            equal = equal and before == after["counts"]
        text = f"an accuracy differs by {accuracy:.2g}, a mean count by {max(shares):.1%}"
        if equal:
            now = new["results"] | new["measures"]
            was = now | old["results"] | old["measures"]
            both = {name: np.array([was[name], now[name]], float) for name in now}
            other = [name for name in now if not np.allclose(*both[name], 0.01, equal_nan=True)]
            text, close = "accuracies, predictions and counts are equal", close and not other
            text += f", but not {', '.join(other)}" if other else ""
        same = old["provenance"]["data"]["sha256"] == new["provenance"]["data"]["sha256"]
        yield f"{key}: {text if same else 'other data than the record has'}", close and same


def shard(text):
    """(i, N) of the text "i/N"."""
    index, number = map(int, text.split("/"))
    return index, number


def _parser():
    description = __doc__.split("\n\n")[0]
    parser = argparse.ArgumentParser(prog="python -m rc_utils.sweep", description=description)
    add, add_one = parser.add_argument, parser.add_mutually_exclusive_group().add_argument
    add("campaign", help="name of a folder in campaigns/, or the path of one")
    add("--workers", type=int, default=0, help="local worker processes; 0, this process alone")
    add("--scheduler", help="address of a Dask scheduler, for instance tcp://10.0.0.1:8786")
    add("--device", default="cpu", help="cpu, cuda, cuda:1, ...")
    add("--shard", type=shard, default=(0, 1), metavar="i/N", help="every N-th run from run i < N")
    add("--compile", action="store_true", help="torch.compile the networks")
    add("--experiment", action="append", default=[], metavar="NAME", help="alone; may be repeated")
    add_one("--plan", action="store_true", help="say what is missing, run nothing")
    add_one("--freeze", action="store_true", help="write the records to runs.jsonl, run nothing")
    add_one("--verify", type=int, metavar="N", help="train N recorded runs again and compare")
    return parser


def main(arguments=None):
    """The command line; returns the exit status.

    0 done, 1 a run failed or differs, 2 wrong use or no place to write, 3 runs left, 130 stopped.
    """
    options = _parser().parse_args(arguments)
    try:
        campaign = load_campaign(options.campaign).restricted(options.experiment)
        if options.plan or options.freeze or options.verify is not None:
            check_values(campaign)  # a sweep does so itself
        if options.plan:
            print("\n".join(plan(campaign, options.shard)))
            return 0
        if options.freeze:
            path, number = records.freeze(campaign)
            nothing = f"no record to freeze: run {campaign.name} first"
            print(f"{number} records in {path}" if number else nothing)
            return 0 if number else 1
        if options.verify is not None:
            agree = []
            for line, agrees in verify(campaign, options.verify, device=options.device):
                tqdm.write(line)
                agree.append(agrees)
            print(f"{sum(agree)} of {len(agree)} reproduced")
            return 0 if all(agree) else 1
        return _sweep(campaign, options)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the same command does the rest", file=sys.stderr)
        return 130


def _sweep(campaign, options):
    names = ("workers", "scheduler", "device", "shard", "compile")
    outcomes = sweep(campaign, **{name: getattr(options, name) for name in names})
    statuses = [outcome.status for outcome in outcomes]
    done, failed = statuses.count("done"), statuses.count("failed")
    left = len(records.missing_runs(campaign, options.shard))
    counts = f"{done} runs finished now, {failed} failed, {left} left"
    print(f"{campaign.name}: {counts}; records in {results_dir()}")
    if failed:
        return 1
    return 3 if left else 0
