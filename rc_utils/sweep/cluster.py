"""Runs on worker processes: a Dask cluster of this machine, or the scheduler of another one."""

import asyncio
import contextlib
import logging
import time
import uuid

from rc_utils.sweep.job import Outcome
from rc_utils.sweep.weights import keep_record

BLOCK = 1000  # runs submitted to Dask in one message
PAUSE = 0.1  # seconds between two batches of outcomes
DASK_SETTINGS = {
    "distributed.worker.daemon": False,
    "distributed.logging.distributed": "error",
    # A worker that is suspended, as laptops and shared machines do, is not a dead worker.
    "distributed.scheduler.worker-ttl": None,
    # Dask lets the allocator return memory at once, and a network's buffers are then mapped anew in every layer, which
    # more than doubles the time of a count (`make bench`). Both thresholds: setting one switches off the other's rule.
    "distributed.nanny.pre-spawn-environ": {
        "MALLOC_TRIM_THRESHOLD_": str(2**30),
        "MALLOC_MMAP_THRESHOLD_": str(2**25),
        "OMP_NUM_THREADS": "1",
    },
}


def local_cluster(workers):
    """A Dask cluster of so many processes on this machine, with one thread each and the settings of a sweep."""
    import dask
    from distributed import LocalCluster

    dask.config.set(DASK_SETTINGS)
    logging.getLogger("distributed.nanny").setLevel(logging.ERROR)  # It warns of workers that take seconds to end.
    return LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0)


def on_dask(todo, job, workers, scheduler):
    """Outcomes of runs on worker processes: submitted in blocks, earlier ones first, and gathered many at a time.

    A killed worker's run goes to another worker. One message a block or a batch instead of one a run: with 10,000 runs
    the messages are what takes the time. A record from a machine that shares no file system with this one is written
    here. Raises OSError if the scheduler goes away.
    """
    import dask
    from distributed import Client

    dask.config.set(DASK_SETTINGS)
    # Tasks of equal keys are one task to a scheduler: another sweep may ask it for other counts of the same run.
    own = uuid.uuid4().hex[:8]
    run_ids = {f"rc-{planned.spec.run_id}-{own}": planned.spec.run_id for planned in todo}
    cluster = contextlib.nullcontext(scheduler) if scheduler else local_cluster(min(workers, len(todo)))
    with cluster as address, Client(address) as client:
        futures = client.map(job, todo, key=list(run_ids), batch_size=BLOCK, fifo_timeout=0, pure=False)
        for future, outcome in _gathered(client, futures, address):
            if outcome is None:
                error = future.exception()
                outcome = Outcome(run_ids[future.key], "failed", error=f"{type(error).__name__}: {error}")
            if outcome.record is not None:
                keep_record(outcome.record)
            future.release()
            yield outcome


def _gathered(client, futures, address):
    """(future, what it returned or None if it failed) as they are finished, many at a time."""
    from distributed import CancelledError, as_completed

    try:
        for batch in as_completed(futures).batches():
            if any(future.status in ("cancelled", "lost") for future in batch):
                raise CancelledError("tasks are lost")
            finished = [future for future in batch if future.status == "finished"]
            results = dict(zip(finished, client.gather(finished), strict=True))
            yield from ((future, results.get(future)) for future in batch)
            time.sleep(PAUSE)
    except (OSError, CancelledError, asyncio.CancelledError) as error:
        raise OSError(
            f"the scheduler {address} is gone ({type(error).__name__}). Records that were written are kept: start one "
            "and its workers, and the same command with its address does the rest"
        ) from error
