"""A reader's use of the package: not run, but read by the type checker."""

from typing import Any, assert_type

import numpy as np
import pandas as pd
import torch

import rc_utils as rc
from rc_exact import exact_segment


def train_and_count() -> None:
    data = rc.load_dataset("shapes", n_train=100, classes=[0, "ring"], device=torch.device("cpu"))
    network = rc.build_network("ResNet18", num_classes=data.num_classes, width=8)
    config = rc.TrainConfig(lr=0.1)
    run = rc.train(network, data, config, measure=lambda network, epoch: epoch, measure_epochs=[0])
    assert_type(run.gap, float)
    count = rc.region_count(run.network, data.x_train, num_samples=10)
    assert_type(count.mean, float)
    exact = exact_segment(run.network, data.x_train[0], data.x_train[1])
    assert_type(exact.count, int)


def other_kinds(frame: pd.DataFrame, array: np.ndarray, tensor: torch.Tensor, tree: Any) -> None:
    rc.region_count(lambda batch: batch[:, 0] > 0, array)
    rc.region_count(tree, frame, strategy="grid")
    assert_type(rc.count_components(tensor), torch.Tensor)
    assert_type(rc.load_runs("shapes-tiny", num_samples=10), pd.DataFrame)


def wrong(array: np.ndarray) -> None:
    rc.train(torch.nn.Linear(2, 3), array, rc.TrainConfig())  # type: ignore[arg-type]
