"""Counting in a process that keeps its memory, as the sweep's Dask workers do, against Dask's default."""

import contextlib
import os
import subprocess
import sys
import time

from benchmarks.networks import narrow_network, shapes
from benchmarks.registry import Row, at_least, benchmark
from benchmarks.timing import in_turns
from rc_utils.regions import region_count
from rc_utils.sweep.cluster import DASK_SETTINGS

DASK_DEFAULT = {"MALLOC_TRIM_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}


@benchmark("allocator")
def allocator(scale):
    """Seconds of a region count in two processes that differ in the environment alone; one thread each."""
    segments = max(1, scale.segments // 2)
    environments = (DASK_SETTINGS["distributed.nanny.pre-spawn-environ"], DASK_DEFAULT)
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(counting_process(e, segments)) for e in environments]
        ours, other = in_turns(sides, scale.repeats)
    name = f"count on {segments} segments, allocator"
    yield Row(name, "Dask's MALLOC_TRIM_THRESHOLD_", ours, other, at_least(1))


@contextlib.contextmanager
def counting_process(environment, num_segments):
    """A process with these environment variables; calling what is yielded counts there and returns the seconds."""
    command = [sys.executable, "-m", "benchmarks.allocator", str(num_segments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=os.environ | environment, **pipes) as process:

        def count():
            process.stdin.write("count\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"the counting process ended with status {process.wait()}; its error is above")
            return float(line)

        yield count
        process.stdin.close()


def serve(num_segments):
    """Count once for every line on stdin and print the seconds."""
    network, points = narrow_network(), shapes(100).x_train
    for _ in sys.stdin:
        started = time.perf_counter()
        region_count(network, points, num_samples=num_segments)
        print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
