"""Forty small networks trained by SGD on one sample a step: stacked against one after the other."""

import contextlib
import itertools
import time

import torch
from torch import nn

from benchmarks.registry import Row, at_least, benchmark
from benchmarks.timing import in_turns
from rc_utils.theory.complexity.stacked import draw_samples, stack, train_stacked, unstack

NUM_MODELS = 40
NUM_POINTS = 100
NUM_STEPS = 200
INPUTS = 10
LR = 0.01
# Summing in another order: a few times float32's 1.2e-7, on parameters of order one, over the steps.
TOLERANCE = 1e-4


@benchmark("stacked")
def stacked(scale):
    """40 multilayer perceptrons 10-10-64-64-64-1, float32, batch size 1, one thread; both sides end equal."""
    networks, x, y = make_networks(NUM_MODELS), *make_data(NUM_MODELS)
    samples = draw_samples(range(NUM_MODELS), NUM_STEPS, NUM_POINTS)
    trained = {}

    def together():
        trained["stacked"] = stack(networks)
        return seconds(lambda: train_stacked(trained["stacked"], x, y, samples, loss="mse", lr=LR))

    def one_after_the_other():
        trained["loop"] = [unstack(stack(networks), networks[0], m) for m in range(NUM_MODELS)]
        return seconds(lambda: train_in_a_loop(trained["loop"], x, y, samples))

    with one_thread():
        ours, other = in_turns([together, one_after_the_other], scale.repeats)
    check_equal(trained["stacked"], trained["loop"])
    name = f"{NUM_STEPS} steps of {NUM_MODELS} MLPs, batch size 1"
    yield Row(name, "a loop over the models", ours, other, at_least(10))


def make_networks(number):
    """`number` multilayer perceptrons 10-10-64-64-64-1, each with its own initialisation."""
    networks = []
    for seed in range(number):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            networks.append(multilayer_perceptron((INPUTS, INPUTS, 64, 64, 64, 1)))
    return networks


def multilayer_perceptron(widths):
    """Linear layers of these widths with ReLUs between them."""
    layers = [layer for a, b in itertools.pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def make_data(number):
    """Normal points (number, 100, 10) and targets (number, 100), a set for each network."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(number, NUM_POINTS, INPUTS, generator=generator)
    return x, torch.cos(x[..., 0]) * torch.cos(x[..., 1])


def train_in_a_loop(networks, x, y, samples):
    """The usual way: each network with torch's own SGD, one after the other."""
    for m, network in enumerate(networks):
        optimizer = torch.optim.SGD(network.parameters(), lr=LR)
        for batch in samples[:, m]:
            loss = 0.5 * nn.functional.mse_loss(network(x[m, batch]).squeeze(-1), y[m, batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def check_equal(stacked_networks, networks):
    """AssertionError unless every parameter of both sides is equal within rounding."""
    for name, value in stacked_networks.state_dict().items():
        looped = torch.stack([network.state_dict()[name] for network in networks])
        difference = float((value - looped).abs().max())
        if not difference <= TOLERANCE:
            raise AssertionError(f"{name} of the stacked and the looped networks differs by {difference:.2g}")


def seconds(function):
    """Seconds of one call."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


@contextlib.contextmanager
def one_thread():
    """One torch thread while it lasts."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
