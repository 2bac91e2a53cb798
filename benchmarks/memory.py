"""Peak memory of a region count, whatever the number of segments."""

import pathlib
import resource
import subprocess
import sys

from benchmarks.registry import Row, at_most, benchmark

SCRIPT = """
import torch
torch.set_num_threads(1)
from benchmarks.memory import own_peak
from benchmarks.networks import narrow_network, shapes
from rc_utils.counting import region_count
data = shapes(100)
region_count(narrow_network(), data.x_train, num_samples={segments}, resolution=200)
print(own_peak())
"""


@benchmark("memory")
def memory(scale):
    """Peak memory of counting on many segments against ten, each in a new process, ResNet18/8."""
    few = peak_megabytes(10)
    for segments in scale.many_segments:
        name = f"peak memory, {segments:,} segments of 200 points"
        yield Row(name, "10 segments", (peak_megabytes(segments),), (few,), at_most(1.2), "MB")


def peak_megabytes(segments):
    """Peak resident memory, in MiB, of a new process that counts regions on `segments`."""
    command = [sys.executable, "-c", SCRIPT.format(segments=segments)]
    return int(subprocess.check_output(command, text=True).split()[-1]) / 1024


def own_peak():
    """Peak resident memory of this process so far, in KiB.

    On Linux `ru_maxrss` includes the memory of the parent process; VmHWM does not.
    """
    if sys.platform == "linux":
        status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0])
    bytes_per_unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * bytes_per_unit // 1024
