"""Region counts in input space: data, networks, training, counting and the table of runs.

Each name is imported at its first use, so that records are read without torch.
"""

import importlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rc_utils.datasets import load_dataset
    from rc_utils.networks import build_network
    from rc_utils.regions import count_components, predict_labels, region_count
    from rc_utils.sweep.records import load_evolution, load_runs
    from rc_utils.training import TrainConfig, train

_MODULES = {
    "TrainConfig": "training",
    "build_network": "networks",
    "count_components": "regions",
    "load_dataset": "datasets",
    "load_evolution": "sweep.records",
    "load_runs": "sweep.records",
    "predict_labels": "regions",
    "region_count": "regions",
    "train": "training",
}
__all__ = [
    "TrainConfig",
    "build_network",
    "count_components",
    "load_dataset",
    "load_evolution",
    "load_runs",
    "predict_labels",
    "region_count",
    "train",
]

if not TYPE_CHECKING:

    def __getattr__(name):
        if name in _MODULES:
            return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
        if name in ("datasets", "networks", "regions", "sweep", "training"):
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*globals(), *__all__]


# glibc returns the memory of temporaries to the system as soon as they are freed, and gets it back page by page, until
# the process has freed one large block; 32 MiB is the most that it learns from. Nothing is written to this one. Dask's
# workers have a fixed threshold, from which glibc does not depart: see `DASK_SETTINGS` of rc_utils.sweep.cluster.
np.empty(31 << 20, np.uint8)
