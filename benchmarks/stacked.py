"""Forty small networks trained by SGD on one sample a step: stacked against one after the other."""

import time

import torch
from torch import nn

from benchmarks.registry import Row, at_least, benchmark
from benchmarks.timing import in_turns
from rc_theory.complexity.stacked import draw_samples, stack, train_stacked
from rc_theory.complexity.tasks import multilayer_perceptron

NUM_MODELS = 40
NUM_POINTS = 100
NUM_STEPS = 200
LR = 0.01


@benchmark("stacked")
def stacked(scale):
    """40 multilayer perceptrons 10-10-64-64-64-1, float32, batch size 1."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(NUM_MODELS, NUM_POINTS, 10, generator=generator)
    y = torch.cos(x[..., 0]) * torch.cos(x[..., 1])
    samples = draw_samples(range(NUM_MODELS), NUM_STEPS, NUM_POINTS)

    def together():
        networks = stack(make_networks())
        started = time.perf_counter()
        train_stacked(networks, x, y, samples, loss="mse", lr=LR)
        return time.perf_counter() - started

    def one_after_the_other():
        networks = make_networks()
        started = time.perf_counter()
        train_in_a_loop(networks, x, y, samples)
        return time.perf_counter() - started

    ours, other = in_turns([together, one_after_the_other], scale.repeats)
    name = f"{NUM_STEPS} steps of {NUM_MODELS} MLPs, batch size 1"
    yield Row(name, "a loop over the models", ours, other, at_least(10))


def make_networks():
    """The networks, each with its own initialisation."""
    return [multilayer_perceptron(10, (64, 64, 64), seed=seed) for seed in range(NUM_MODELS)]


def train_in_a_loop(networks, x, y, samples):
    """The usual way: each network with torch's own SGD, one after the other."""
    for m, network in enumerate(networks):
        optimizer = torch.optim.SGD(network.parameters(), lr=LR)
        for batch in samples[:, m]:
            loss = 0.5 * nn.functional.mse_loss(network(x[m, batch]).squeeze(-1), y[m, batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
