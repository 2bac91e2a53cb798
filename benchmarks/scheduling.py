"""Overhead of Dask per run."""

import time

from benchmarks.registry import Row, at_most, benchmark
from benchmarks.timing import in_turns
from rc_utils.sweep.campaign import parse_campaign
from rc_utils.sweep.execute import DASK_SETTINGS, Outcome, on_dask

TOLERATED = 0.005  # seconds that scheduling a run may take


@benchmark("scheduling")
def scheduling(scale):
    """Seconds per run for Dask to schedule, on two workers, runs that do nothing."""
    # Imported here, because a machine with a graphics card may lack Dask.
    import dask
    from distributed import LocalCluster

    table = {
        "title": "one setting, many seeds",
        "dataset": {"name": "shapes", "n_train": 500, "n_test": 100, "image_size": 16},
        "networks": {"ResNet18": {"width": 8}},
        "counts": {"main": {"num_samples": 10}},
        "experiments": [{"name": "main", "networks": ["ResNet18"], "seeds": [*range(scale.runs)]}],
    }
    todo = list(parse_campaign(table, "scale-out").runs().values())
    dask.config.set(DASK_SETTINGS)
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 0}
    with LocalCluster(**options, dashboard_address="127.0.0.1:0") as cluster:

        def seconds_per_run():
            started = time.perf_counter()
            outcomes = list(on_dask(todo, no_op, 0, cluster.scheduler_address))
            assert len(outcomes) == len(todo), f"{len(outcomes)} outcomes of {len(todo)} runs"
            return (time.perf_counter() - started) / len(todo)

        (ours,) = in_turns([seconds_per_run], scale.repeats)
    name = f"scheduling a run, {len(todo):,} runs that do nothing"
    yield Row(name, f"{1000 * TOLERATED:g} ms", ours, (TOLERATED,) * len(ours), at_most(1))


def no_op(planned):
    """An outcome without any work."""
    return Outcome(planned.spec.run_id, "done")
