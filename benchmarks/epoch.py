"""An epoch of `train`: how much of it is not the network."""

import contextlib
import functools
import time
from unittest import mock

import torch
from torch.nn import functional as F

from benchmarks.networks import narrow_network, one_epoch, shapes
from benchmarks.registry import Row, at_most, benchmark
from rc_utils.training import train


@benchmark("overhead")
def overhead(scale):
    """The share of an epoch of `train` spent outside forward (with the loss), backward and step."""
    data = shapes(scale.images)
    for batch_size in (32, 128):
        network, config = narrow_network(), one_epoch(batch_size)
        train(network, data, config)
        total, inside = [], []
        for _ in range(scale.repeats):
            with work_timer(network) as spent:
                total.append(epoch_seconds(network, data, config))
            inside.append(sum(spent))
        outside = tuple(t - i for t, i in zip(total, inside, strict=True))
        name = f"outside forward, backward, step; batch {batch_size}"
        yield Row(name, "whole epoch", outside, tuple(total), at_most(0.05))


def epoch_seconds(network, data, config):
    """Seconds of the one epoch of `config`, without the evaluation that follows it."""
    return train(network, data, config).history[0]["seconds"]


@contextlib.contextmanager
def work_timer(network):
    """Yields a list that collects the seconds of each forward pass, loss, backward pass and optimiser step.

    Only while the network is in training mode: the evaluation after the epoch is not part of it.
    """
    spent = []

    def timing(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            started = time.perf_counter()
            result = function(*args, **kwargs)
            if network.training:
                spent.append(time.perf_counter() - started)
            return result

        return wrapped

    places = ((network, "forward"), (F, "cross_entropy"), (torch.Tensor, "backward"), (torch.optim.SGD, "step"))
    with contextlib.ExitStack() as stack:
        for owner, name in places:
            stack.enter_context(mock.patch.object(owner, name, timing(getattr(owner, name))))
        yield spent
