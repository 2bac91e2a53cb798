"""A whole region count against the forward pass that it cannot do without."""

import numpy as np
import torch

from benchmarks.networks import narrow_network, one_epoch, shapes
from benchmarks.registry import Row, at_most, benchmark
from benchmarks.timing import in_turns, timed
from rc_utils.counting import make_lattice, region_count, sample_vertices
from rc_utils.training import train

BATCH_SIZE = 400


@benchmark("forward")
def forward(scale):
    """1-D region count of a width-8 ResNet18 against the bare forward pass over the same points."""
    data = shapes(100)
    network = train(narrow_network(), data, one_epoch(batch_size=10)).network.eval()
    points = points_on_segments(data.x_train, scale.segments)

    def count():
        return region_count(network, data.x_train, num_samples=scale.segments, batch_size=BATCH_SIZE)

    def bare():
        return bare_forward(network, points)

    labels = torch.cat([logits.argmax(1) for logits in bare()]).view(scale.segments, -1)
    runs = 1 + (labels[:, 1:] != labels[:, :-1]).sum(1).numpy()
    if not np.array_equal(runs, count().counts):
        raise AssertionError("the region count and the bare forward pass do not see the same labels")
    ours, other = in_turns([timed(count), timed(bare)], scale.repeats)  # with the probe of the model
    yield Row(f"count on {scale.segments} segments, ResNet18/8", "bare forward pass", ours, other, at_most(1.15))


def points_on_segments(x_train, num_segments):
    """The points (num_segments * 200, C, H, W) that `region_count` evaluates with its default settings."""
    vertices = sample_vertices(x_train, num_samples=num_segments)
    first, second = torch.from_numpy(make_lattice(1).coordinates.astype(np.float32)).T
    start, end = vertices[:, :1], vertices[:, 1:]
    return (start * first.view(1, -1, 1, 1, 1) + end * second.view(1, -1, 1, 1, 1)).flatten(0, 1)


@torch.inference_mode()
def bare_forward(network, points):
    """Logits of each batch of points."""
    return [network(batch) for batch in points.split(BATCH_SIZE)]
