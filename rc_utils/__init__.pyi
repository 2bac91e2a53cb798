from . import correlation, counting, datasets, measures, networks, sweep, training
from .counting import count_components, predict_labels, region_count
from .datasets import load_dataset
from .networks import build_network
from .sweep.records import load_evolution, load_runs
from .training import TrainConfig, train

__all__ = [
    "TrainConfig",
    "build_network",
    "correlation",
    "count_components",
    "counting",
    "datasets",
    "load_dataset",
    "load_evolution",
    "load_runs",
    "measures",
    "networks",
    "predict_labels",
    "region_count",
    "sweep",
    "train",
    "training",
]
