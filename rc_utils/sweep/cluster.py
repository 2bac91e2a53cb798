"""Runs on worker processes: a Dask cluster of this machine, or the scheduler of another one."""

import asyncio
import contextlib
import dataclasses
import logging
import time
import uuid

BLOCK = 1000  # runs submitted to Dask in one message
PAUSE = 0.1  # seconds between two batches of outcomes
DASK_SETTINGS = {
    "distributed.worker.daemon": False,
    "distributed.logging.distributed": "error",
    # A worker that is suspended, as laptops and shared machines do, is not a dead worker.
    "distributed.scheduler.worker-ttl": None,
    # Dask lets the allocator return memory at once, and a network's buffers are then mapped anew in
    # every layer, which more than doubles the time of a count (`make bench`). Both thresholds:
    # setting one switches off the other's rule.
    "distributed.nanny.pre-spawn-environ": {
        "MALLOC_TRIM_THRESHOLD_": str(2**30),
        "MALLOC_MMAP_THRESHOLD_": str(2**25),
        "OMP_NUM_THREADS": "1",
    },
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a planned run ended: "done" with its record, "late" (the time was up), "elsewhere"
    (another sweep is at it), or "failed" with the error's text."""

    run_id: str
    status: str
    record: dict | None = None
    error: str = ""


def local_cluster(workers):
    """Dask cluster of so many processes on this machine, with one thread each."""
    import dask
    from distributed import LocalCluster

    dask.config.set(DASK_SETTINGS)
    # It warns of workers that take seconds to end.
    logging.getLogger("distributed.nanny").setLevel(logging.ERROR)
    options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "memory_limit": 0}
    return LocalCluster(n_workers=workers, **options)


def on_dask(todo, job, workers, scheduler):
    """Outcomes of `job` for planned runs on worker processes, as they are finished.

    A killed worker's run goes to another worker; an error in a job is an outcome. Raises OSError if
    the scheduler goes away.
    """
    import dask
    from distributed import CancelledError, Client, as_completed

    dask.config.set(DASK_SETTINGS)
    # Tasks of equal keys are one task to a scheduler: another sweep may ask it for the same run.
    own = uuid.uuid4().hex[:8]
    ids = {f"rc-{planned.spec.run_id}-{own}": planned.spec.run_id for planned in todo}
    cluster = contextlib.nullcontext(scheduler) if scheduler else local_cluster(min(workers, len(todo)))
    with cluster as address, Client(address) as client:
        options = {"batch_size": BLOCK, "fifo_timeout": 0, "pure": False}
        futures = client.map(job, todo, key=list(ids), **options)
        try:
            # One message per batch instead of one per run: with 10,000 runs messages take the time.
            for batch in as_completed(futures).batches():
                finished = [future for future in batch if future.status == "finished"]
                outcomes = dict(zip(finished, client.gather(finished), strict=True))
                for future in batch:
                    if future.status in ("cancelled", "lost"):
                        raise CancelledError("tasks are lost")
                    error = None if future in outcomes else future.exception()
                    text = f"{type(error).__name__}: {error}"
                    yield outcomes.get(future) or Outcome(ids[future.key], "failed", error=text)
                    future.release()
                time.sleep(PAUSE)
        except (OSError, CancelledError, asyncio.CancelledError) as error:
            raise OSError(
                f"the scheduler {address} is gone ({type(error).__name__}). Records that were "
                "written are kept: start one and its workers, and the same command with its "
                "address does the rest"
            ) from error
