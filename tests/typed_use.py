"""A reader's use of the package: not run, but read by the type checker."""

from typing import assert_type

import numpy as np
import pandas as pd
import torch

import rc_utils as rc
from rc_exact import exact_segment


def use(frame: pd.DataFrame, array: np.ndarray) -> None:
    data = rc.load_dataset("shapes", n_train=100, classes=[0, "ring"], device=torch.device("cpu"))
    network = rc.build_network("ResNet18", num_classes=data.num_classes, width=8)
    config = rc.TrainConfig(lr=0.1)
    run = rc.train(network, data, config, measure=lambda network, epoch: epoch, measure_epochs=[0])
    assert_type(run.gap, float)
    assert_type(rc.region_count(run.network, data.x_train, num_samples=10).mean, float)
    rc.region_count(lambda batch: batch[:, 0] > 0, frame, strategy="grid")
    assert_type(exact_segment(run.network, data.x_train[0], data.x_train[1]).count, int)
    assert_type(rc.count_components(torch.zeros(1, 2, 2)), torch.Tensor)
    assert_type(rc.load_runs("shapes-tiny", num_samples=10), pd.DataFrame)
    rc.train(network, array, config)  # type: ignore[arg-type]
