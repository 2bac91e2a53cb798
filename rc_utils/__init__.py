"""Region counts in input space: data, networks, training, counting and the table of runs."""

import numpy as np

from rc_utils.datasets import load_dataset
from rc_utils.ledger import load_evolution, load_runs
from rc_utils.networks import build_network
from rc_utils.regions import count_components, exact_segment, predict_labels, region_count
from rc_utils.training import TrainConfig, train

__all__ = [
    "TrainConfig",
    "build_network",
    "count_components",
    "exact_segment",
    "load_dataset",
    "load_evolution",
    "load_runs",
    "predict_labels",
    "region_count",
    "train",
]

# glibc returns the memory of temporaries to the system as soon as they are freed, and gets it back page by page, until
# the process has freed one large block; 32 MiB is the most that it learns from. Nothing is written to this one. Dask's
# workers have a fixed threshold, from which glibc does not depart: see `DASK_SETTINGS` of rc_utils.sweep.
np.empty(31 << 20, np.uint8)
