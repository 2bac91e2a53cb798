"""Run what is missing of a campaign: `python -m rc_utils.sweep NAME`.

In this process by default, on local worker processes with --workers, on a Dask cluster with --scheduler. Every finished
run is on the disk at once; a killed sweep loses at most the runs it was in, and the next call does the rest.
"""

import argparse
import dataclasses
import functools
import statistics
import sys
import time

import torch

from rc_utils.checks import check_count, check_number, print_lines, require, results_dir
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.cluster import on_dask
from rc_utils.sweep.cost import DEFAULT_TFLOPS, run_flops
from rc_utils.sweep.job import attempt
from rc_utils.sweep.knowledge import is_complete
from rc_utils.sweep.records import check_writable, find_records, freeze, missing_runs
from rc_utils.sweep.verify import print_verification, verify


def sweep(
    campaign, *, workers=0, scheduler=None, device="cpu", time_budget=None, shard=(0, 1), threads=1, compile=False
):
    """Run what is missing of `campaign` (a Campaign or its name).

    Returns the outcomes (`Outcome`): "done", "late" (the time was up) or "failed" with the error; a run that fails
    does not end the sweep. Their records are on the disk, not in the outcomes.

    workers: local worker processes; 0 runs in this process. scheduler: address of a Dask scheduler instead.
    time_budget: seconds after which no run is begun and runs in progress are given up; what is finished is kept.
    threads: torch threads of each run; one is the default because results then do not depend on the machine's load.
    compile: run the networks through torch.compile.

    Raises OSError before any training if the results cannot be written, and ValueError for a wrong setting or device.
    """
    campaign = load_campaign(campaign) if not hasattr(campaign, "entries") else campaign
    check_count("workers", workers, 0)
    check_count("threads", threads, 1)
    if time_budget is not None:
        check_number("time_budget", time_budget, 0)
    index, parts = shard
    require(0 <= index < parts, f"shard={shard!r}; expected (i, n) with 0 <= i < n, such as (0, 4)")
    if not scheduler:  # whose workers may have what this machine has not
        check_device(device)
    deadline = None if time_budget is None else time.time() + time_budget
    todo = missing_runs(campaign, shard)
    if not todo:
        return []
    check_writable()
    job = functools.partial(attempt, device=device, threads=threads, deadline=deadline, compile=compile)
    if workers or scheduler:
        return _report(on_dask(todo, job, workers, scheduler), len(todo), campaign.name)
    return _report(map(job, todo), len(todo), campaign.name)


def check_device(device):
    """Raise ValueError for a device that is unknown or not in this machine."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} cannot be used: {error}") from error


def _report(outcomes, total, name):
    from tqdm import tqdm

    seen = []
    with tqdm(total=total, desc=name, unit="run", mininterval=2.0) as bar:
        for outcome in outcomes:
            seen.append(dataclasses.replace(outcome, record=None))
            if outcome.status == "failed":
                bar.write(f"run {outcome.run_id} failed:\n{outcome.error}", file=sys.stderr)
            elif outcome.status == "done":
                record = outcome.record
                network, results = record["spec"]["network"]["name"], record["results"]
                accuracies = f"train {results['train_accuracy']:.3f} test {results['test_accuracy']:.3f}"
                bar.set_postfix_str(f"{network} {record['status']} {accuracies}", refresh=False)
                bar.update()
    return seen


def plan(campaign, tflops=DEFAULT_TFLOPS, shard=(0, 1)):
    """Lines that say how many runs each experiment asks for, how many are there, and the hours that are left.

    What is left is that of the `shard`, as in `sweep`: from the median seconds of the finished runs of each network, as
    far as there are some, and from the floating-point operations of what is missing at `tflops` sustained, in TFLOP/s.
    """
    check_number("tflops", tflops, 0, above=True)
    plans, todo = campaign.runs(), missing_runs(campaign, shard)
    found = find_records(plans, campaign.folder / "runs.jsonl")
    yield f"{campaign.name}: {campaign.title}"
    for experiment in campaign.experiments:
        asked = {p.spec.run_id: p for e, _, p in campaign.entries() if e is experiment}
        records = {run_id: found[run_id][0] for run_id in asked if run_id in found}
        complete = sum(is_complete(record, asked[run_id]) for run_id, record in records.items())
        line = f"  {experiment.name}: {complete} of {len(asked)} runs are complete"
        yield line + (f", {len(records) - complete} lack a count or a measure" if complete < len(records) else "")
        for seed, label in experiment.seeds_and_networks() if experiment.ranges else ():
            drawn = ", ".join(f"{key} {value}" for key, value in experiment.drawn(seed).items())
            yield f"    {label}, seed {seed}: {drawn}"
    part = "" if shard[1] == 1 else f" in shard {shard[0]}/{shard[1]}"
    yield f"  {len(todo)} of {len(plans)} distinct runs to do{part}"
    seconds = _median_seconds(record for record, _ in found.values())
    known = [seconds[n] for n in (p.spec.network["name"] for p in todo) if n in seconds]
    if known:
        hours = sum(known) / 3600
        yield f"  about {hours:.2f} process hours for {len(known)} of them, if they take as long as others did"
    try:
        flops = sum(map(run_flops, todo))
    except ValueError as error:
        yield f"  no estimate of the operations: {error}"
    else:
        hours = flops / (tflops * 1e12) / 3600
        yield f"  {flops:.2e} floating-point operations: {hours:.2f} hours at {tflops:g} TFLOP/s sustained"


def _median_seconds(records):
    """Median seconds of a finished run, training and counting, by network."""
    seconds = {}
    for record in records:
        spent = record["provenance"]["seconds_train"] + sum(c["seconds"] for c in record["counts"])
        seconds.setdefault(record["spec"]["network"]["name"], []).append(spent)
    return {network: statistics.median(values) for network, values in seconds.items()}


def _shard(text):
    index, _, number = text.partition("/")
    if not (index.isdigit() and number.isdigit() and 0 <= int(index) < int(number)):
        raise argparse.ArgumentTypeError(f"{text!r} is not i/N with i < N, such as 0/4")
    return int(index), int(number)


def _parser():
    parser = argparse.ArgumentParser(prog="python -m rc_utils.sweep", description=__doc__.split("\n\n")[0])
    parser.add_argument("campaign", help="name of a folder in campaigns/, or the path of one")
    workers = "local worker processes (default: this process alone)"
    parser.add_argument("--workers", type=int, default=0, help=workers)
    parser.add_argument("--scheduler", help="address of a Dask scheduler, for instance tcp://10.0.0.1:8786")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, ... or auto")
    parser.add_argument("--threads", type=int, default=1, help="torch threads a run (default 1)")
    parser.add_argument("--time-budget", type=float, metavar="SECONDS", help="stop cleanly after this time")
    parser.add_argument("--shard", type=_shard, default=(0, 1), metavar="i/N", help="every N-th run, starting at i")
    parser.add_argument("--compile", action="store_true", help="torch.compile the networks")
    parser.add_argument("--experiment", action="append", metavar="NAME", help="this experiment alone; may be repeated")
    tflops = "sustained TFLOP/s assumed by --plan"
    parser.add_argument("--tflops", type=float, default=DEFAULT_TFLOPS, help=tflops)
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--plan", action="store_true", help="say what is missing and how long it takes, run nothing")
    freeze = "write the records to the campaign's runs.jsonl, run nothing"
    one.add_argument("--freeze", action="store_true", help=freeze)
    one.add_argument("--verify", type=int, metavar="N", help="train N recorded runs again and compare")
    return parser


def main(arguments=None):
    """The command line; returns the exit status.

    0 done, 1 a run failed or differs, 2 wrong use or no place to write, 3 runs are left.
    """
    options = _parser().parse_args(arguments)
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        campaign = load_campaign(options.campaign)
        if options.experiment:
            campaign = campaign.restricted(options.experiment)
        return _act(campaign, options, device)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: everything finished is kept, the same command does the rest", file=sys.stderr)
        return 130


def _act(campaign, options, device):
    """Do the one thing that the options ask for; returns the exit status."""
    if options.verify is not None:
        check_device(device)
        return print_verification(verify(campaign, options.verify, device=device, threads=options.threads), device)
    if options.plan:
        print_lines(plan(campaign, options.tflops, options.shard))
        return 0
    if options.freeze:
        path, number = freeze(campaign)
        print(f"{number} records in {path}" if number else f"no record to freeze: run {campaign.name} first")
        return 0 if number else 1
    outcomes = sweep(
        campaign, workers=options.workers, scheduler=options.scheduler, device=device, threads=options.threads,
        time_budget=options.time_budget, shard=options.shard, compile=options.compile,
    )  # fmt: skip
    statuses = [outcome.status for outcome in outcomes]
    done, failed = statuses.count("done"), statuses.count("failed")
    left = len(missing_runs(campaign, options.shard))
    print(f"{campaign.name}: {done} runs finished now, {failed} failed, {left} left; records in {results_dir()}")
    if failed:
        return 1
    return 3 if left else 0
