"""Timings of `rc_utils` side by side with the usual way: `python -m benchmarks`.

A benchmark is a function of a `Scale` that yields `Row`s. `registry.benchmark` registers it under
a name, and `load` imports its module.
"""

import importlib

TOPICS = ("counting", "forward", "epoch", "adaptive", "triangles", "memory", "scheduling", "gpu")


def load():
    """All benchmarks by name, in the order of TOPICS."""
    from benchmarks.registry import BENCHMARKS

    for topic in TOPICS:
        importlib.import_module(f"benchmarks.{topic}")
    return BENCHMARKS
