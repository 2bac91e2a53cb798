"""Sweeps over several processes, killed while they work."""

import multiprocessing
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from distributed import LocalCluster
from test_sweep_execute import TABLE

from rc_utils.sweep import records
from rc_utils.sweep.campaign import parse_campaign
from rc_utils.sweep.execute import sweep
from rc_utils.sweep.records import missing_runs


def many_runs(num_seeds):
    """A campaign of one cell and so many seeds, whose runs take a moment each."""
    cell = {"seeds": list(range(num_seeds)), "grid": {"lr": [0.1]}}
    return parse_campaign(TABLE | {"experiments": [TABLE["experiments"][0] | cell]}, "many")


def whole_records():
    """The record files that can be read, by run id."""
    paths = records.results_dir().glob("records/*")
    names = [path.stem for path in paths if not path.name.startswith(".")]
    return {name: records.live_record(name) for name in names}


def wait_for_records(more_than=0):
    while len(list(records.results_dir().glob("records/*.json"))) <= more_than:
        time.sleep(0.01)


@pytest.mark.slow
def test_a_killed_worker_loses_and_doubles_nothing():
    campaign = many_runs(20)

    def kill_at_work(nanny):
        doomed = nanny.pid
        wait_for_records()
        os.kill(doomed, signal.SIGKILL)
        return doomed

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**options) as cluster, ThreadPoolExecutor() as pool:
        killed = pool.submit(kill_at_work, cluster.workers[0])
        outcomes = sweep(campaign, scheduler=cluster.scheduler_address)
        assert killed.result() != cluster.workers[0].pid
    assert sorted(outcome.run_id for outcome in outcomes) == sorted(campaign.runs())
    assert {outcome.status for outcome in outcomes} == {"done"}
    assert whole_records().keys() == campaign.runs().keys()


A_SWEEP = """
import os
from rc_utils.sweep import sweep
os.environ["RC_RESULTS"] = folder
sweep(campaign)
"""


@pytest.mark.slow
def test_a_sweep_that_is_killed_again_and_again_loses_no_finished_record(results):
    """Each time at some moment of its work: what is there is whole, and only ever grows."""
    context = multiprocessing.get_context("forkserver")  # a fork of one that has imported it all
    context.set_forkserver_preload(["rc_utils.sweep.execute"])
    rng, seen, campaign = random.Random(0), {}, many_runs(300)
    for _ in range(3):
        names = {"folder": str(results), "campaign": campaign}
        child = context.Process(target=exec, args=(A_SWEEP, names), daemon=True)
        child.start()
        wait_for_records(more_than=len(seen))
        time.sleep(rng.uniform(0, 0.3))
        child.kill()
        child.join()
        now = whole_records()
        assert seen.items() <= now.items()
        seen = now
    assert len(missing_runs(campaign)) == 300 - len(seen) > 0
