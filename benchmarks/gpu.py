"""A graphics card against the CPU: the same counts and measures, and how much faster; no rows where there is none."""

import copy
import time

import numpy as np
import torch
from torch.nn import functional as F

from benchmarks.networks import narrow_network, shapes
from benchmarks.registry import Row, at_least, at_most, benchmark
from rc_exact import exact_segment
from rc_utils.counting import region_count
from rc_utils.counting.evaluation import full_precision
from rc_utils.datasets import load_dataset
from rc_utils.measures import MEASURES, measure_all
from rc_utils.networks import build_network
from rc_utils.training import TrainConfig, train

WIDTH, IMAGE_SIZE, BATCH_SIZE = 64, 32, 512  # the paper's network and one of its batches
COUNTS = ({}, {"strategy": "adaptive"}, {"dim": 2, "resolution": 15}, {"dim": 3, "resolution": 15})
WAYS = ("float32", "tfloat32", "bfloat16")


@benchmark("gpu")
def gpu(scale, device="cuda"):
    """Whether results on a card are those of the CPU, and images a second of the paper's network, by precision."""
    if device == "cuda" and not torch.cuda.is_available():
        return
    yield from _checks(scale, device)
    yield from _rates(scale, device)


def _checks(scale, device):
    data = shapes(scale.images // 4)
    config = TrainConfig(lr=0.01, batch_size=len(data.y_train) // 4, epochs=5)
    initial = narrow_network()
    here, there = (
        train(copy.deepcopy(initial), data, config, device=where) for where in ("cpu", device)
    )
    yield _row(
        "loss after twenty steps, relative difference",
        abs(here.train_loss / there.train_loss - 1),
        1e-2,
    )

    x, weight = torch.randn(16, 64, 32, 32, device=device), torch.randn(64, 64, 3, 3, device=device)
    with full_precision():
        full = F.conv2d(x.double(), weight.double())
        error = float((F.conv2d(x, weight) - full).abs().max() / full.abs().max())
    yield _row("float32 convolution, relative error", error, 1e-5)

    network = here.network.eval()
    pair = network, copy.deepcopy(network).to(device)
    for how in COUNTS:
        one, other = (
            region_count(net, data.x_train, num_samples=scale.segments, **how).counts
            for net in pair
        )
        name = f"simplices counted otherwise, {how or 'grid'}"
        yield _row(name, float(np.mean(one != other)), 0.01 if how.get("dim", 1) == 1 else 0.05)
    one, other = (
        exact_segment(net, *data.x_train[:2].to(next(net.parameters()).device)) for net in pair
    )
    yield _row(
        "exact boundaries, difference",
        float(np.abs(one.boundaries - other.boundaries).max(initial=0)),
        1e-9,
    )
    names = [name for name in MEASURES if name != "linear_pieces"]  # which is slow
    one, other = (
        measure_all(names, net, copy.deepcopy(initial).to(where), data.to(where))
        for net, where in zip(pair, ("cpu", device), strict=True)
    )
    differences = {
        n: np.max(np.abs(np.subtract(one[n], other[n])) / np.maximum(np.abs(one[n]), 1e-3))
        for n in names
    }
    worst = max(differences, key=differences.get)
    yield _row(
        f"measures, relative difference of the worst, {worst}", float(differences[worst]), 1e-3
    )


def _row(name, found, most):
    return Row(f"card: {name}", "the most allowed", (found,), (most,), at_most(1), "")


def _rates(scale, device):
    number = 16 * BATCH_SIZE if device == "cuda" else scale.images
    data = load_dataset("shapes", n_train=number, n_test=10, image_size=IMAGE_SIZE)
    network = build_network("ResNet18", width=WIDTH, image_size=IMAGE_SIZE)
    seconds = {}
    for precision in WAYS if device == "cuda" else WAYS[:1]:
        config = TrainConfig(
            lr=0.01, batch_size=BATCH_SIZE, epochs=1 + scale.repeats, precision=precision
        )
        history = train(copy.deepcopy(network), data, config, device=device).history
        seconds[precision] = tuple(row["seconds"] for row in history[1:])  # the first warms up
    for precision, found in seconds.items():
        rate = tuple(number / each for each in found)
        base = tuple(number / each for each in seconds["float32"])
        yield Row(
            f"card: training ResNet18/{WIDTH}, {precision}", "float32", rate, base, None, "images/s"
        )
    for strategy in ("grid", "adaptive"):
        found = []
        for where in (device, "cpu"):
            started = time.perf_counter()
            here = copy.deepcopy(network).to(where).eval()
            region_count(here, data.x_train, num_samples=scale.segments, strategy=strategy)
            found.append((time.perf_counter() - started,))
        yield Row(
            f"card: {scale.segments} segments, {strategy}, ResNet18/{WIDTH}",
            "the CPU",
            *found,
            at_least(1),
        )
