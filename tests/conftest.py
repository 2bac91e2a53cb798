"""Fixtures that several test files use; every test keeps its results in a folder of its own."""

import os
import pathlib

import numpy as np
import pdf
import pytest
import torch
from hypothesis import HealthCheck, settings

from rc_utils.datasets import load_dataset

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = int(os.environ.get("RC_EXAMPLES", 150))  # `make fuzz` draws more, and others each time
FUZZ = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 150,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


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


def relu_network(weights, biases, last, last_biases=0):
    """Float64 network of one hidden layer: weights (p, d), biases (p,), weights of the last (C, p).

    Scores are last @ relu(weights @ x + biases) + last_biases.
    """
    given = (weights, biases, last, last_biases)
    values = [torch.as_tensor(value, dtype=torch.float64) for value in given]
    (width, dim), classes = values[0].shape, len(values[2])
    network = torch.nn.Sequential(
        torch.nn.Linear(dim, width), torch.nn.ReLU(), torch.nn.Linear(width, classes)
    ).double()
    for parameter, value in zip(network.parameters(), values, strict=True):
        parameter.data = value.expand_as(parameter).clone()
    return network


@pytest.fixture(scope="session")
def chromium():
    """The program; tests that need one are skipped where there is none."""
    try:
        return pdf.chromium()
    except FileNotFoundError:
        pytest.skip("there is no chromium on the path; on Debian: apt-get install chromium")


@pytest.fixture(scope="module")
def browser(chromium):
    """A Chromium cut off from the network."""
    from playwright.sync_api import sync_playwright

    cut_off = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=chromium, args=cut_off)
