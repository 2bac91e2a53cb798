"""A whole region count against the forward pass that it needs, and the authors' loop.

The loop does what their code does (GitHub lijingwei0502/implicit_bias at commit 6148365), written
anew.
"""

import functools
import itertools

import numpy as np
import torch

from benchmarks.networks import narrow_network, one_epoch, shapes
from benchmarks.registry import FULL, Row, at_least, at_most, benchmark
from benchmarks.timing import compared, in_turns, timed
from rc_utils.counting import make_lattice, region_count, sample_vertices
from rc_utils.datasets import load_dataset
from rc_utils.networks import build_network
from rc_utils.training import train

BATCH_SIZE = 400
WIDTH, IMAGE_SIZE = 64, 32
MOST_EVALUATIONS = 15  # per segment; the grid has 200


@benchmark("forward")
def forward(scale):
    """1-D count of a width-8 ResNet18 against the bare forward pass over its points, and a loop."""
    data = shapes(100)
    network = train(narrow_network(), data, one_epoch(batch_size=10)).network.eval()
    options = {"num_samples": scale.segments}
    ends = sample_vertices(data.x_train, **options)
    points = points_on_segments(ends)

    def count():
        return region_count(network, data.x_train, batch_size=BATCH_SIZE, **options).counts

    def bare():
        labels = bare_forward(network, points, BATCH_SIZE).argmax(1).view(scale.segments, -1)
        return 1 + (labels[:, 1:] != labels[:, :-1]).sum(1).numpy()

    sides = [count, bare, lambda: authors_loop(network, ends)]
    ours, other, loop = compared(sides, scale.repeats)  # ours includes the probe of the model
    name = f"count on {scale.segments} segments, ResNet18/8"
    yield Row(name, "bare forward pass", ours, other, at_most(1.15))
    yield Row(name, "the authors' loop", ours, loop, at_least(1))


@benchmark("full-width")
def full_width(scale):
    """Adaptive segments of an untrained full-width ResNet18 against the fastest bare pass."""
    number, draw = scale.segments, {"num_samples": scale.segments}
    data = load_dataset("shapes", n_train=200, n_test=10, image_size=IMAGE_SIZE)
    network = build_network("ResNet18", width=WIDTH, seed=0).eval()

    def count():
        return region_count(network, data.x_train, **draw, strategy="adaptive", coarse=8)

    evaluations = count().num_evaluations
    points = points_on_segments(sample_vertices(data.x_train, **draw))[:evaluations]
    ways = [functools.partial(bare_forward, network, points, size) for size in (25, 50, 100, 400)]
    best = min(ways, key=lambda way: timed(way)())
    ours, other = in_turns([timed(count), timed(best)], scale.repeats)
    name = f"adaptive count on {number} segments, ResNet18/{WIDTH} at {IMAGE_SIZE} x {IMAGE_SIZE}"
    # The probe's fifty evaluations weigh more on fewer segments.
    most = 1.15 if number >= FULL.segments else 2
    yield Row(name, "bare forward pass of as many points", ours, other, at_most(most))
    each = (evaluations / number,), (MOST_EVALUATIONS,)
    yield Row(f"evaluations, {name}", "the most allowed", *each, at_most(1), "each")
    ends = sample_vertices(data.x_train, num_samples=max(1, number // 20))
    seconds = timed(lambda: authors_loop(network, ends))() * number / len(ends)
    loop = f"the authors' loop, by {len(ends)} of them"
    yield Row(name, loop, ours, (seconds,) * len(ours), at_least(1))


def points_on_segments(ends):
    """Points (B * 200, C, H, W) that `region_count` evaluates on segments (B, 2, C, H, W)."""
    first, second = torch.from_numpy(make_lattice(1).coordinates.astype(np.float32)).T
    start, end = ends[:, :1], ends[:, 1:]
    return (start * first.view(1, -1, 1, 1, 1) + end * second.view(1, -1, 1, 1, 1)).flatten(0, 1)


@torch.inference_mode()
def bare_forward(network, points, batch_size):
    """Logits of each batch of points."""
    return torch.cat([network(batch) for batch in points.split(batch_size)])


@torch.no_grad()
def authors_loop(network, ends):
    """Counts (B,) on segments (B, 2, C, H, W), by 200 points made and compared one at a time."""
    counts = []
    for first, second in ends.double().numpy():
        points = np.zeros((200, *first.shape))
        for i, alpha in enumerate(np.linspace(0, 1, 200)):
            points[i] = (1 - alpha) * first + alpha * second
        labels = network(torch.tensor(points, dtype=torch.float32)).argmax(1).numpy()
        counts.append(1 + sum(one != other for one, other in itertools.pairwise(labels)))
    return np.array(counts)
