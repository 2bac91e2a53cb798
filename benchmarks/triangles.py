"""Counts on triangles: the mesh against grids, with a far finer mesh as the truth.

The constant of the mesh, `mesh.BEND_FACTOR`, was chosen on other networks and triangles.
"""

import itertools
import time
import tracemalloc

import numpy as np
import torch
from scipy.optimize import linprog
from tqdm import tqdm

from benchmarks import adaptive
from benchmarks.registry import Row, at_most, benchmark
from rc_utils.counting import make_lattice, mesh, region_count, sample_vertices
from rc_utils.counting.classifier import classifier_inside

MOST, PAPERS_GRID = "the most allowed", "a grid of 30 points and face"
METHODS = {
    "the mesh": {"strategy": "adaptive"},
    "the mesh from 60 points": {"strategy": "adaptive", "resolution": 60},
    PAPERS_GRID: {"adjacency": "face"},
    "a grid of 30 points, interpolated": {},
    "a grid of 100 points, interpolated": {"resolution": 100},
}
LARGEST_SHARE, LARGEST_BIAS = 0.05, 0.01  # share of wrong triangles, relative bias of the mean
# The reference begins as a lattice of 101 points per edge. Elements near a change of label are cut
# to the spacing of 801 points, doubtful ones to that of 6,401. It is repeated from twice as fine a
# lattice and, if the counts differ, in float64 from that and a finer one: the last is the truth.
REFERENCE_POINTS, NEAR, FINEST = (101, 201, 401), 3, 6

LINEAR_CLASSIFIERS = {10: 200, 1000: 5}  # number of classes -> number of classifiers
MOST_MEGABYTES = 512  # peak for one classifier of 1,000 classes


def labels_that_win(scores: np.ndarray) -> int:
    """Number of labels that win somewhere on a simplex, by linear scores (d + 1, C) at its corners.

    For each label a linear program looks for the point where its lead over all others is largest.
    """
    corners, classes = scores.shape
    won = 0
    for label in range(classes):
        behind = np.delete(scores - scores[:, [label]], label, axis=1).T
        limits = np.column_stack([behind, np.ones(classes - 1)])
        inside = np.append(np.ones(corners), 0)[None]
        bounds = [(0, None)] * corners + [(None, None)]
        objective = np.append(np.zeros(corners), -1)
        won += linprog(objective, limits, np.zeros(classes - 1), inside, [1], bounds).fun < 0
    return won


@benchmark("linear")
def linear(scale):
    """Miscounts of linear classifiers, whose regions are the labels that win in the triangle."""
    rng, seconds = np.random.default_rng(0), []
    for classes, number in LINEAR_CLASSIFIERS.items():
        scores = rng.standard_normal((min(number, 10 * scale.triangles), 3, classes))
        truth = [labels_that_win(at_corners) for at_corners in scores]
        started = time.process_time()
        wrong = 100 * np.mean(counts_of_linear(scores, strategy="adaptive") != truth)
        seconds.append(((time.process_time() - started) / len(scores),))
        by_face = 100 * np.mean(counts_of_linear(scores, adjacency="face") != truth)
        what = f"the mesh, wrong of {len(scores)} linear classifiers of {classes:,} classes"
        yield Row(what, "none", (wrong,), (0,), at_most(1), "%")
        yield Row(what, PAPERS_GRID, (wrong,), (by_face,), at_most(1), "%")
    few, many = LINEAR_CLASSIFIERS
    what = f"the mesh on a triangle, {many:,} classes"
    yield Row(what, f"{few} classes", *reversed(seconds), at_most(many / few))
    tracemalloc.start()
    counts_of_linear(scores[:1], strategy="adaptive")
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    what = f"peak of the arrays of the mesh, {many:,} classes"
    yield Row(what, MOST, (peak,), (MOST_MEGABYTES,), at_most(1), "MB")


def counts_of_linear(scores, **options):
    """Region counts (B,) of linear classifiers with scores (B, 3, C) at a triangle's corners."""
    corners, options = torch.eye(3, dtype=torch.float64), {"dim": 2, "num_samples": 1} | options
    found = [region_count(lambda x, s=s: x @ s, corners, **options) for s in torch.tensor(scores)]
    return np.array([count.counts[0] for count in found])


@benchmark("triangles")
def triangles(scale):
    """Share of miscounted triangles, bias, evaluations and seconds of each method.

    Smooth networks had the largest learning rate, rough ones the smallest.
    """
    data, networks = adaptive.trained_networks(scale.images // 4)
    rates = len(networks) // len(adaptive.NETWORKS)
    for kind, chosen in (("smooth", networks[::rates]), ("rough", networks[rates - 1 :: rates])):
        draw = {"dim": 2, "num_samples": scale.triangles}
        yield from _triangles(kind, data.x_train, chosen, draw)


def _triangles(kind, images, networks, draw):
    """Rows of the mesh against the truth and the other methods, on networks of a kind."""
    truth, unsettled, changes = reference(networks, images, draw)
    found = {}
    for name, options in METHODS.items():
        started = time.process_time()
        made = [region_count(network, images, **options, **draw) for network in networks]
        counts = np.array([count.counts for count in made])
        found[name] = {
            "counts": counts,
            "wrong": (100 * (counts != truth).mean(),),
            "bias": ((counts - truth).mean(),),
            "share": (largest_change(truth, counts),),
            "evaluations": (sum(count.num_evaluations for count in made) / truth.size,),
            "CPU time": ((time.process_time() - started) / truth.size,),
        }
    what = f"{truth.size} triangles of {len(networks)} {kind} networks"
    mesh_alone, finer, *others = METHODS
    for name in (mesh_alone, finer):
        wrong, share = found[name]["wrong"], found[name]["share"]
        yield Row(f"{name}, wrong of {what}", MOST, wrong, (100 * LARGEST_SHARE,), at_most(1), "%")
        off = f"{name}, the largest share by which a network's mean is off, {kind}"
        yield Row(off, MOST, share, (LARGEST_BIAS,), at_most(1), "")
    changes[mesh_alone] = largest_change(found[mesh_alone]["counts"], found[finer]["counts"])
    for what, change in changes.items():
        what = f"{what}, the largest change of a network's mean twice as fine, {kind}"
        yield Row(what, MOST, (change,), (LARGEST_BIAS,), at_most(1), "")
    unsettled = (unsettled,), (truth.size,)
    yield Row(f"the truth, not settled, {kind}", "all", *unsettled, None, "triangles")
    ours, what = found[mesh_alone], f"the mean count by the mesh, {kind}"
    yield Row(what, "the truth", (ours["counts"].mean(),), (truth.mean(),), None, "regions")
    alike = ours["counts"] == found[finer]["counts"]
    sure = (100 * (ours["counts"] != truth)[alike].mean(),)
    what = f"wrong, the mesh, {kind}, where 60 points per edge give the same count"
    yield Row(what, "all of them", sure, ours["wrong"], None, "%")
    for name in others:
        wrong = ours["wrong"], found[name]["wrong"]
        yield Row(f"wrong, the mesh, {kind}", name, *wrong, at_most(1), "%")
        for what, unit in {"bias": "regions", "evaluations": "a triangle", "CPU time": "s"}.items():
            yield Row(f"{what}, the mesh, {kind}", name, ours[what], found[name][what], None, unit)


def reference(networks, points, draw):
    """True counts (N, B), the number of triangles not settled, and the largest change per step."""
    vertices = sample_vertices(points, **draw)
    coarse, fine, finer = REFERENCE_POINTS
    triangles, found = list(itertools.product(networks, vertices)), []
    for network, corners in tqdm(triangles, unit="triangle", disable=None):
        counts = [reference_count(network, corners, number) for number in (coarse, fine)]
        if counts[0] != counts[1]:
            exact = network.double(), corners.double()
            counts += [reference_count(*exact, number) for number in (fine, finer)]
            network.float()
        found.append(counts)
    steps = [[counts[k] for counts in found] for k in (0, 1, -2, -1)]
    first, second, before, truth = np.reshape(steps, (4, len(networks), len(vertices)))
    changes = {"the truth's first step": largest_change(first, second)}
    changes["the truth's last step"] = largest_change(before, truth)
    return truth, (truth != before).sum(), changes


def largest_change(before, after):
    """Largest relative change of a network's mean count, for counts (N, B) of N networks."""
    return np.abs(after.mean(1) / before.mean(1) - 1).max()


def reference_count(network, corners, number):
    """Pieces on a triangle (3, *shape), on a mesh of `number` points per edge, fine at changes.

    An element is cut while the smallest lead at its corners is at most the largest change of a
    score across it, and then while it is in doubt.
    """
    classifier, corners = classifier_inside(network, corners[None])
    made = mesh.Mesh(classifier, corners, make_lattice(2, number), FINEST)
    while True:
        at = made.scores[made.elements]
        best = np.partition(at, -2, axis=2)[..., -2:]
        near = (best[..., 1] - best[..., 0]).min(1) <= np.ptp(at, axis=1).max(1)
        near &= made.depth < 2 * NEAR
        if not near.any():
            break
        made.cut(near)
    made.refine(2 * FINEST)
    return int(mesh.count_pieces(made.scores, made.elements, made.owner, 1)[0])
