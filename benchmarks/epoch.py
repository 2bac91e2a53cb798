"""An epoch of `train`: time outside the network, and the gain of its memory layout."""

import contextlib
import functools
import time
from unittest import mock

import torch
from torch.nn import functional as F

from benchmarks.networks import narrow_network, one_epoch, shapes
from benchmarks.registry import Row, at_least, at_most, benchmark
from benchmarks.timing import in_turns
from rc_utils.training import train


@benchmark("overhead")
def overhead(scale):
    """Share of an epoch of `train` spent outside forward (with the loss), backward and step."""
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


@benchmark("layout")
def layout(scale):
    """Time of an epoch with channels-last kernels, the default of `train`, and contiguous ones."""
    data, config = shapes(scale.images // 2), one_epoch()
    for name, width in (("ResNet18", 8), ("EfficientNetB0", 16)):
        sides = []
        for last in (True, False):  # each on its own network, whose layout `train` may change
            own = narrow_network(name, width)
            sides.append(functools.partial(epoch_seconds, own, data, config, channels_last=last))
        ours, other = in_turns(sides, scale.repeats)
        yield Row(f"channels-last epoch, {name}/{width}", "contiguous", ours, other, at_least(1))


def epoch_seconds(network, data, config, **settings):
    """Seconds of the one epoch of `config`, without the evaluation that follows it."""
    return train(network, data, config, **settings).history[0]["seconds"]


@contextlib.contextmanager
def work_timer(network):
    """Time each forward pass, loss, backward pass and optimiser step; yields the list of seconds.

    Calls outside training mode are left out, as in the evaluation after the epoch.
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

    places = {network: "forward", F: "cross_entropy"}
    places |= {torch.Tensor: "backward", torch.optim.SGD: "step"}
    with contextlib.ExitStack() as stack:
        for owner, name in places.items():
            stack.enter_context(mock.patch.object(owner, name, timing(getattr(owner, name))))
        yield spent
