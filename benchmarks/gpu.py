"""A graphics card against the CPU: agreement and speed; no rows without a card."""

import copy
import dataclasses
import math
import time

import numpy as np
import torch
from torch.nn import functional as F

from benchmarks.networks import narrow_network, shapes
from benchmarks.registry import Row, at_most, benchmark
from rc_exact import exact_segment
from rc_utils.counting import region_count
from rc_utils.datasets import load_dataset
from rc_utils.evaluation import full_precision
from rc_utils.measures import MEASURES, measure
from rc_utils.networks import build_network
from rc_utils.training import TrainConfig, train

WIDTH, IMAGE_SIZE, BATCH_SIZE = 64, 32, 512  # the paper's network and one of its batches
COUNTS = ({}, {"strategy": "adaptive"}, {"dim": 2, "resolution": 15}, {"dim": 3, "resolution": 15})
WAYS = ("float32", "tfloat32", "bfloat16", "bfloat16, compiled")


@benchmark("gpu")
def gpu(scale, device="cuda"):
    """Agreement of a card with the CPU, and its speed in training and counting."""
    if device == "cuda" and not torch.cuda.is_available():
        return
    yield from _checks(scale, device)
    yield from _rates(scale, device)


def _checks(scale, device):
    data, initial, places = shapes(scale.images // 4), narrow_network(), ("cpu", device)
    config = TrainConfig(lr=0.01, batch_size=len(data.y_train) // 4, epochs=5)
    runs = [train(copy.deepcopy(initial), data, config, device=place) for place in places]
    difference = abs(runs[0].train_loss / runs[1].train_loss - 1)
    yield _row("loss after twenty steps, relative difference", difference, 1e-2)
    x, weight = torch.randn(16, 64, 32, 32, device=device), torch.randn(64, 64, 3, 3, device=device)
    with full_precision():
        full = F.conv2d(x.double(), weight.double())
        error = float((F.conv2d(x, weight) - full).abs().max() / full.abs().max())
    yield _row("float32 convolution, relative error", error, 1e-5)
    network = runs[0].network.eval()
    pair = network, copy.deepcopy(network).to(device)
    for how in COUNTS:
        draw = {"num_samples": scale.segments} | how
        one, other = (region_count(net, data.x_train, **draw).counts for net in pair)
        most = 0.01 if how.get("dim", 1) == 1 else 0.05
        yield _row(f"simplices counted otherwise, {how or 'grid'}", np.mean(one != other), most)
    ends = [data.x_train[:2].to(place) for place in places]
    one, other = (exact_segment(net, *end).boundaries for net, end in zip(pair, ends, strict=True))
    yield _row("exact boundaries, difference", np.abs(one - other).max(initial=0), 1e-9)
    names = [name for name in MEASURES if not name.startswith("linear_pieces")]  # slow
    values = []
    for net, place in zip(pair, places, strict=True):
        given = net, copy.deepcopy(initial).to(place), data.to(place)
        values.append({name: measure(name, *given) for name in names})
    one, other = values
    differences = {}
    for name in names:
        size = np.maximum(np.abs(one[name]), 1e-3)
        differences[name] = np.max(np.abs(np.subtract(one[name], other[name])) / size)
    worst = max(differences, key=differences.get)
    yield _row(f"measures, relative difference, worst: {worst}", differences[worst], 1e-3)


def _row(name, found, most):
    return Row(f"card: {name}", "the most allowed", (float(found),), (most,), at_most(1), "")


def _rates(scale, device):
    number = 16 * BATCH_SIZE if device == "cuda" else scale.images
    data = load_dataset("shapes", n_train=number, n_test=10, image_size=IMAGE_SIZE)
    network = build_network("ResNet18", width=WIDTH, image_size=IMAGE_SIZE)
    config, rates = TrainConfig(lr=0.01, batch_size=BATCH_SIZE, epochs=1 + scale.repeats), {}
    for way in WAYS if device == "cuda" else WAYS[:1]:
        precision, _, how = way.partition(", ")
        config, own = dataclasses.replace(config, precision=precision), copy.deepcopy(network)
        history = train(own, data, config, device=device, compile=how == "compiled").history
        # The first epoch warms up.
        rates[way] = tuple(1000 * epoch["seconds"] / number for epoch in history[1:])
    for way, seconds in rates.items():
        yield Row(f"card: 1000 images, width {WIDTH}, {way}", "float32", seconds, rates["float32"])
    for strategy in ("grid", "adaptive"):
        found, few = [], math.ceil(scale.segments / 20)
        for place, segments in ((device, 2), (device, 10 * scale.segments), ("cpu", few)):
            started = time.perf_counter()
            here = copy.deepcopy(network).to(place).eval()
            region_count(here, data.x_train, num_samples=segments, strategy=strategy)
            found.append((1000 * (time.perf_counter() - started) / segments,))
        # The first count warms up.
        yield Row(f"card: 1000 segments, width {WIDTH}, {strategy}", "the CPU", *found[1:])
