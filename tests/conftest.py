"""Fixtures that several test files use; every test keeps its results in a folder of its own."""

import os

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from rc_utils.datasets import load_dataset

EXAMPLES = int(os.environ.get("RC_EXAMPLES", 500))  # `make fuzz` draws more, and others each time
FUZZ = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 500, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    """An empty folder for records and weights."""
    folder = tmp_path / "results"
    monkeypatch.setenv("RC_RESULTS", str(folder))
    return folder


@pytest.fixture(autouse=True)
def one_thread():
    """Tests run side by side: one torch thread each."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_data():
    """Two hundred shapes of 8 x 8 pixels."""
    return load_dataset("shapes", n_train=200, n_test=100, image_size=8, seed=0)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
