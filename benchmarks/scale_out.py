"""What Dask costs a run, and what two worker processes gain over one process."""

import contextlib
import os
import shutil
import tempfile
import time
from unittest import mock

import torch

from benchmarks.registry import Row, at_least, at_most, benchmark
from benchmarks.timing import in_turns
from rc_utils.checks import results_dir
from rc_utils.sweep.campaign import parse_campaign
from rc_utils.sweep.cluster import local_cluster, on_dask
from rc_utils.sweep.execute import sweep
from rc_utils.sweep.job import Outcome

# Seconds that scheduling a run may take.
TOLERATED = 0.005
DATASET = {"name": "shapes", "n_train": 500, "n_test": 100, "image_size": 16}
EPOCHS = 5


def campaign(num_runs):
    """ResNet18/8 on shapes of 16 x 16, one cell and so many seeds."""
    table = {
        "title": "one cell, many seeds",
        "dataset": DATASET,
        "train": {"epochs": EPOCHS},
        "networks": {"ResNet18": {"width": 8}},
        "counts": {"main": {"num_samples": 10}},
        "experiments": [
            {"name": "main", "networks": ["ResNet18"], "seeds": list(range(num_runs)), "grid": {"lr": [0.01]}}
        ],
    }
    return parse_campaign(table, "scale-out")


@benchmark("scheduling")
def scheduling(scale):
    """Seconds a run from handing runs that do nothing to a scheduler to having all outcomes, two workers."""
    todo = list(campaign(scale.runs[0]).runs().values())
    with local_cluster(2) as cluster:

        def seconds_a_run():
            started = time.perf_counter()
            outcomes = list(on_dask(todo, no_op, 0, cluster.scheduler_address))
            assert len(outcomes) == len(todo), f"{len(outcomes)} outcomes of {len(todo)} runs"
            return (time.perf_counter() - started) / len(todo)

        (ours,) = in_turns([seconds_a_run], scale.repeats)
    name = f"scheduling a run, {len(todo):,} runs that do nothing"
    yield Row(name, f"{1000 * TOLERATED:g} ms", ours, (TOLERATED,) * len(ours), at_most(1))


def no_op(planned):
    """An outcome without any work."""
    return Outcome(planned.spec.run_id, "done")


@benchmark("workers")
def workers(scale):
    """A small campaign on two worker processes of one thread, in one process, and in one process with two threads.

    The workers are started before: what is compared is the work. Two processes need two idle cores.
    """
    runs = campaign(scale.runs[1])
    with empty_results(), local_cluster(2) as cluster:
        sides = [
            lambda: seconds(runs, scheduler=cluster.scheduler_address),
            lambda: seconds(runs, threads=1),
            lambda: seconds(runs, threads=2),
        ]
        ours, one_thread, two_threads = in_turns(sides, scale.repeats)
    name = f"sweep of {len(runs.runs())} runs, two workers of one thread"
    yield Row(name, "one process, one thread", ours, one_thread, at_least(1.7))
    yield Row(name, "one process, two threads", ours, two_threads, at_least(1))


def seconds(runs, **options):
    """Seconds of a sweep that does all runs; the number of torch threads of this process is as before."""
    shutil.rmtree(results_dir(), ignore_errors=True)
    threads, started = torch.get_num_threads(), time.perf_counter()
    outcomes = sweep(runs, **options)
    elapsed = time.perf_counter() - started
    torch.set_num_threads(threads)
    assert {outcome.status for outcome in outcomes} == {"done"}, outcomes
    return elapsed


@contextlib.contextmanager
def empty_results():
    """A folder of its own for records and weights inside this block, for this process and those it starts."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, RC_RESULTS=os.path.join(folder, "results")),
    ):
        yield
