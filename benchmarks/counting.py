"""Counting components of label grids: `count_components` against labelling grid by grid."""

import numpy as np
from scipy import ndimage
from skimage.measure import label

from benchmarks.registry import Row, at_least, benchmark
from benchmarks.timing import compared
from rc_utils.counting import count_components, make_lattice

NUM_CLASSES, NUM_WAVES = 10, 8
SHARE = {3: 1 / 10, 4: 1 / 50, 5: 1 / 250}  # dimension -> share of Scale.grids, for equal times


@benchmark("counting-2d")
def counting_2d(scale):
    """Grids of 30 x 30 against scikit-image's `label`, called once a grid.

    Labels are smooth, so that most neighbours are joined, or independent, so that few are. Compiled
    code is much faster, but both take a thousandth of the time that a network of width 8 needs to
    evaluate these points.
    """
    random = np.random.default_rng(0).integers(0, NUM_CLASSES, (scale.grids, 30, 30))
    for kind, grids in (("smooth", label_grids((30, 30), scale.grids)), ("random", random)):
        name, each = f"count {len(grids):,} {kind} grids of 30 x 30", "scikit-image once a grid"
        yield _compare(name, grids, each, _skimage, at_least(0.1), scale.repeats)


@benchmark("counting-nd")
def counting_nd(scale):
    """Grids in d = 3, 4, 5 at the default resolutions against scipy, per class and grid."""
    against, count = "ndimage per class and grid", _ndimage_per_class
    for dim, share in SHARE.items():
        lattice = make_lattice(dim)
        grids = label_grids((lattice.resolution,) * dim, max(2, round(share * scale.grids)))
        shape = f"{lattice.resolution}^{dim}"
        name = f"count {len(grids)} grids of {shape}"
        yield _compare(name, grids, against, count, at_least(0.5), scale.repeats)
        in_simplex = np.full_like(grids, -1)
        cells = (slice(None), *lattice.indices.T)
        in_simplex[cells] = grids[cells]
        name = f"count {len(grids)} simplices in {shape}"
        yield _compare(name, in_simplex, against, count, at_least(3), scale.repeats)


def _compare(name, grids, against, count, target, repeats):
    """Row that times `count_components` against `count`, which must give the same counts."""
    sides = [lambda: count_components(grids), lambda: count(grids)]
    return Row(name, against, *compared(sides, repeats, f"{name}: {against}"), target)


def label_grids(shape, number, seed=0):
    """Labels (number, *shape) int64 in [0, 10) with smooth boundaries, as a network's are.

    The label is the argmax over classes of a sum of plane waves sum_k a_k cos(2 pi f_k . x + p_k),
    x in [0, 1]^d.
    """
    rng = np.random.default_rng(seed)
    axes = [np.linspace(0, 1, n) for n in shape]
    x = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(shape))
    labels = np.empty((number, len(x)), dtype=np.int64)
    for grid in labels:
        frequency = rng.normal(0, 1.5, (len(shape), NUM_WAVES))
        waves = np.cos(2 * np.pi * (x @ frequency + rng.random(NUM_WAVES)))
        grid[:] = (waves @ rng.normal(size=(NUM_WAVES, NUM_CLASSES))).argmax(1)
    return labels.reshape(number, *shape)


def _skimage(grids):
    return [label(grid, background=-1, connectivity=1, return_num=True)[1] for grid in grids]


def _ndimage_per_class(grids):
    return [sum(ndimage.label(grid == c)[1] for c in range(NUM_CLASSES)) for grid in grids]
