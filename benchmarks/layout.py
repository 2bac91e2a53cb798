"""Memory layouts in training: channels-last, the default of `train`, against contiguous."""

from benchmarks.epoch import epoch_seconds
from benchmarks.networks import narrow_network, one_epoch, shapes
from benchmarks.registry import Row, at_least, benchmark
from benchmarks.timing import in_turns

NETWORKS = {"ResNet18": 8, "EfficientNetB0": 16}


@benchmark("layout")
def layout(scale):
    """An epoch with channels-last images and kernels against one with contiguous ones."""
    data, config = shapes(scale.images // 2), one_epoch()
    for name, width in NETWORKS.items():
        # Two networks: `train` changes the layout of the one it is given.
        sides = [_epoch(narrow_network(name, width), data, config, last) for last in (True, False)]
        ours, other = in_turns(sides, scale.repeats)
        yield Row(f"channels-last epoch, {name}/{width}", "contiguous", ours, other, at_least(1))


def _epoch(network, data, config, channels_last):
    return lambda: epoch_seconds(network, data, config, channels_last=channels_last)
