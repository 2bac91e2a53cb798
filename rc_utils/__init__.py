"""Region counts in input space: data, networks, training, counting and the table of runs."""

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
