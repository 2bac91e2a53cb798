"""Sweeps over several processes: a scheduler, workers given by its address, and their deaths."""

import contextlib
import json
import multiprocessing
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import dask
import pytest
from distributed import Client, LocalCluster
from test_sweep_trust import TABLE

from rc_utils.sweep import execute, records
from rc_utils.sweep.campaign import parse_campaign
from rc_utils.sweep.execute import Outcome, sweep
from rc_utils.sweep.records import missing_runs


def table(num_seeds):
    """A campaign of one cell and so many seeds, whose runs take a moment each."""
    return TABLE | {"experiments": [TABLE["experiments"][0] | {"seeds": list(range(num_seeds))}]}


def no_op_but_for_seed_3(planned):
    """An outcome without any work, or an error."""
    if planned.spec.train.seed == 3:
        raise RuntimeError("a job that raises")
    return Outcome(planned.spec.run_id, "done")


@contextlib.contextmanager
def process(*arguments):
    """`python ...` that is killed at the end of the block."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, *arguments], **quiet) as child:
        try:
            yield child
        finally:
            child.kill()


@contextlib.contextmanager
def scheduler(folder):
    """The process of a scheduler on a free port of this machine, and its address."""
    file = folder / f"scheduler-{time.monotonic_ns()}.json"
    options = ("--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
    with process("-m", "dask", "scheduler", "--no-dashboard", *options) as child:
        while not file.exists() or not file.read_bytes().endswith(b"}"):
            assert child.poll() is None
            time.sleep(0.05)
        yield child, json.loads(file.read_bytes())["address"]


def worker(address):
    """One worker process with one thread and nothing that would start it again."""
    options = ("--nthreads", "1", "--no-nanny", "--memory-limit", "0", "--host", "127.0.0.1")
    return process("-m", "dask", "worker", address, "--no-dashboard", *options)


def whole_records():
    """The record files that can be read, by run id."""
    paths = records.results_dir().glob("records/*")
    names = [path.stem for path in paths if not path.name.startswith(".")]
    return {name: records.live_record(name) for name in names}


def num_records():
    return len(list(records.results_dir().glob("records/*.json")))


def kill_at_work(child, before=0):
    """Kill a process as soon as there are more records than before."""
    while num_records() <= before:
        time.sleep(0.01)
    child.kill()


@pytest.mark.slow
def test_a_killed_worker_and_a_killed_scheduler_lose_and_double_nothing(tmp_path):
    """Two workers, one of them killed at work, then more until the scheduler is; the rest here."""
    some, whole = (parse_campaign(table(num_seeds), "many") for num_seeds in (10, 50))
    soon = dask.config.set({"distributed.comm.timeouts.connect": "2s"})
    with soon, scheduler(tmp_path) as (child, address), worker(address) as doomed, worker(address):
        with Client(address) as client:
            client.wait_for_workers(2)
        with ThreadPoolExecutor() as pool:
            pool.submit(kill_at_work, doomed)
            outcomes = sweep(some, scheduler=address)
            assert doomed.wait() == -signal.SIGKILL
            assert sorted(outcome.run_id for outcome in outcomes) == sorted(some.runs())
            assert {outcome.status for outcome in outcomes} == {"done"}
            first = whole_records()
            assert first.keys() == some.runs().keys()
            pool.submit(kill_at_work, child, before=10)
            gone = r"scheduler tcp://.* is gone .* the same command with its address"
            with pytest.raises(OSError, match=gone):
                sweep(whole, scheduler=address)
    second = whole_records()
    assert 10 < len(second) < 50
    assert first.items() <= second.items()
    assert len(sweep(whole)) == 50 - len(second)
    assert whole_records().keys() == whole.runs().keys()
    assert second.items() <= whole_records().items()


A_SWEEP = """
import os, sys
from rc_utils.sweep import sweep
os.environ["RC_RESULTS"] = folder
sys.exit(any(outcome.status not in ("done", "elsewhere") for outcome in sweep(campaign)))
"""


@pytest.fixture
def start_sweep(results):
    """Start a sweep in a process of its own: a fork of one that has imported what it takes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rc_utils.sweep.execute"])
    started = []

    def start(campaign):
        names = {"folder": str(results), "campaign": campaign}
        started.append(context.Process(target=exec, args=(A_SWEEP, names)))
        started[-1].start()
        return started[-1]

    yield start
    for child in started:
        child.kill()
        child.join()


@pytest.mark.slow
def test_a_sweep_that_is_killed_again_and_again_loses_no_finished_record(start_sweep):
    """Each time at some moment of its work: what is there is whole, and only ever grows."""
    rng, seen, whole = random.Random(0), {}, parse_campaign(table(300), "many")
    for _ in range(3):
        child = start_sweep(whole)
        while num_records() == len(seen):
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3))
        child.kill()
        child.join()
        now = whole_records()
        assert seen.items() <= now.items()
        seen = now
    assert len(missing_runs(whole)) == 300 - len(seen) > 0


@pytest.mark.slow
def test_two_sweeps_of_one_campaign_at_once_leave_one_whole_record_a_run(start_sweep):
    campaign = parse_campaign(table(40), "many")
    other = start_sweep(campaign)
    while not num_records():
        time.sleep(0.01)
    outcomes = sweep(campaign)
    other.join(timeout=120)
    assert other.exitcode == 0
    assert {outcome.status for outcome in outcomes} <= {"done", "elsewhere"}
    assert whole_records().keys() == campaign.runs().keys()
    assert missing_runs(campaign) == []
    assert len(records.load_runs(campaign)) == 40
    assert not [path for path in records.results_dir().rglob(".*") if path.is_file()]


def test_many_runs_come_back_once_each_in_order_and_an_error_is_one_outcome(monkeypatch):
    """More runs than one message to the scheduler holds."""
    monkeypatch.setattr(execute, "BLOCK", 100)
    todo = list(parse_campaign(table(300), "many").runs().values())
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with LocalCluster(**options, dashboard_address="127.0.0.1:0") as here:
        address = here.scheduler_address
        outcomes = list(execute.on_dask(todo, no_op_but_for_seed_3, workers=0, scheduler=address))
    ids = [planned.spec.run_id for planned in todo]
    assert sorted(outcome.run_id for outcome in outcomes) == sorted(ids)
    places = [ids.index(outcome.run_id) for outcome in outcomes]
    assert max(abs(place - i) for i, place in enumerate(places)) < 50
    (failed,) = (outcome for outcome in outcomes if outcome.status == "failed")
    assert (failed.run_id, failed.error) == (ids[3], "RuntimeError: a job that raises")
