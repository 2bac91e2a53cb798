"""Counting components of label grids: `count_components` against labelling functions called grid by grid."""

import numpy as np

from benchmarks.registry import Row, at_least, benchmark
from benchmarks.timing import in_turns, timed
from rc_utils.counting import count_components, make_lattice

NUM_CLASSES = 10
NUM_WAVES = 8
SHARE = {
    3: 1 / 10,
    4: 1 / 50,
    5: 1 / 250,
}  # of Scale.grids in dimension d: all of them take about as long


@benchmark("counting-2d")
def counting_2d(scale):
    """Grids of 30 x 30 against scikit-image's `label`, called once a grid.

    Two kinds of labels: with smooth boundaries, where most cells are joined, and independent, where
    few are. Compiled code is faster by far; either takes a thousandth of the time in which a
    network of width 8 evaluates these points.
    """
    random = np.random.default_rng(0).integers(0, NUM_CLASSES, (scale.grids, 30, 30))
    for kind, grids in (("smooth", label_grids((30, 30), scale.grids)), ("random", random)):
        name = f"count {len(grids):,} {kind} grids of 30 x 30"
        yield _compare(
            name, grids, "scikit-image once a grid", _skimage, at_least(0.1), scale.repeats
        )


@benchmark("counting-nd")
def counting_nd(scale):
    """Grids in d = 3, 4, 5 at the default resolutions against scipy's `ndimage.label` per class and grid."""
    against, repeats = ("ndimage per class and grid", _ndimage_per_class), scale.repeats
    for dim, share in SHARE.items():
        lattice = make_lattice(dim)
        grids = label_grids(lattice.grid_shape, max(2, round(share * scale.grids)))
        shape = f"{lattice.resolution}^{dim}"
        yield _compare(
            f"count {len(grids)} grids of {shape}", grids, *against, at_least(0.5), repeats
        )
        in_simplex = np.full_like(grids, -1)
        cells = (slice(None), *lattice.indices.T)
        in_simplex[cells] = grids[cells]
        yield _compare(
            f"count {len(grids)} simplices in {shape}", in_simplex, *against, at_least(3), repeats
        )


def _compare(name, grids, against, count, target, repeats):
    """The row of another function (grids) -> counts, after the counts agreed."""
    np.testing.assert_array_equal(
        count(grids), count_components(grids), f"{against} does not count the same: {name}"
    )
    sides = [timed(lambda: count_components(grids)), timed(lambda: count(grids))]
    return Row(name, against, *in_turns(sides, repeats), target)


def label_grids(shape, number, seed=0):
    """Labels (number, *shape) int64 in [0, 10) with smooth boundaries, as a network's are.

    The label is the argmax over classes of a sum of plane waves sum_k a_k cos(2 pi f_k . x + p_k),
    x in [0, 1]^d.
    """
    rng = np.random.default_rng(seed)
    x = np.stack(
        np.meshgrid(*(np.linspace(0, 1, n) for n in shape), indexing="ij"), axis=-1
    ).reshape(-1, len(shape))
    labels = np.empty((number, len(x)), dtype=np.int64)
    for grid in labels:
        frequency = rng.normal(0, 1.5, (len(shape), NUM_WAVES))
        waves = np.cos(2 * np.pi * (x @ frequency + rng.random(NUM_WAVES)))
        grid[:] = (waves @ rng.normal(size=(NUM_WAVES, NUM_CLASSES))).argmax(1)
    return labels.reshape(number, *shape)


def _skimage(grids):
    from skimage.measure import label

    return [label(grid, background=-1, connectivity=1, return_num=True)[1] for grid in grids]


def _ndimage_per_class(grids):
    from scipy import ndimage

    face = ndimage.generate_binary_structure(grids.ndim - 1, 1)
    return [
        sum(ndimage.label(grid == c, structure=face)[1] for c in range(NUM_CLASSES))
        for grid in grids
    ]
