"""Counts on triangles: the mesh against the paper's grid and finer ones, where the truth is a far finer mesh.

The one constant of the mesh, `rc_utils.counting.mesh.BEND_FACTOR`, was chosen on other networks and
other triangles.
"""

import itertools
import time
import tracemalloc

import numpy as np
import torch
from scipy.optimize import linprog
from tqdm import tqdm

from benchmarks import adaptive
from benchmarks.adaptive import trained_networks
from benchmarks.registry import Row, at_most, benchmark
from rc_utils.counting import make_lattice, mesh, region_count, sample_vertices
from rc_utils.counting.classifier import as_classifier, scores_at
from rc_utils.counting.mesh import count_pieces

METHODS = {
    "the mesh": {"strategy": "adaptive"},
    "the mesh from 60 points": {"strategy": "adaptive", "resolution": 60},
    "the paper's grid, 30 points and face": {"adjacency": "face"},
    "a grid of 30 points, interpolated": {},
    "a grid of 100 points, interpolated": {"resolution": 100},
}
LARGEST_SHARE, LARGEST_BIAS = (
    0.05,
    0.01,
)  # of triangles that are counted wrong, and of the mean count
# The reference begins as a lattice of 101 points an edge. Elements near a change of label have the
# spacing of 801 points, those in doubt that of 6,401. All of it is then made twice as fine, and
# where the two counts differ, in float64, twice as fine again: the truth is what two in a row agree
# on.
REFERENCE_POINTS, NEAR, FINEST = (101, 201, 401), 3, 6

# Linear classifiers by their number of classes, and the memory that one of the larger kind may
# take.
LINEAR_CLASSIFIERS, MOST_MEGABYTES = {10: 200, 1000: 5}, 512


def labels_that_win(scores: np.ndarray) -> int:
    """Number of labels that win somewhere on a simplex, from linear scores (d + 1, C) at its corners.

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
        lead = -linprog(objective, limits, np.zeros(classes - 1), inside, [1], bounds).fun
        won += lead > 0
    return won


@benchmark("linear")
def linear(scale):
    """Linear classifiers, whose regions on a triangle are as many as the labels that win there."""
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
        yield Row(
            what, "the paper's grid, 30 points and face", (wrong,), (by_face,), at_most(1), "%"
        )
    few, many = LINEAR_CLASSIFIERS
    yield Row(
        f"the mesh on a triangle, {many:,} classes",
        f"{few} classes",
        *reversed(seconds),
        at_most(many / few),
    )
    tracemalloc.start()
    counts_of_linear(scores[:1], strategy="adaptive")
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    what = f"peak of the arrays of the mesh, {many:,} classes"
    yield Row(what, "the most allowed", (peak,), (MOST_MEGABYTES,), at_most(1), "MB")


def counts_of_linear(scores, **options):
    """Regions (B,) of classifiers with scores (B, 3, C) at the corners of a triangle, on which they are linear."""
    corners = torch.eye(3, dtype=torch.float64)
    counts = [
        region_count(lambda x, s=s: x @ s, corners, dim=2, num_samples=1, **options)
        for s in torch.tensor(scores)
    ]
    return np.array([count.counts[0] for count in counts])


@benchmark("triangles")
def triangles(scale):
    """Triangles that are counted wrong, their bias, and the evaluations and seconds they take.

    Smooth networks have the largest learning rate, rough ones the smallest.
    """
    data, networks = trained_networks(scale.images // 4)
    rates = len(networks) // len(adaptive.NETWORKS)
    for kind, chosen in {
        "smooth": networks[::rates],
        "rough": networks[rates - 1 :: rates],
    }.items():
        yield from _triangles(
            kind, data.x_train, chosen, {"dim": 2, "num_samples": scale.triangles}
        )


def _triangles(kind, images, networks, draw):
    """Rows of the mesh against the truth and the other methods, on networks of a kind."""
    wrong, bias, shares, evaluations, seconds, counts = {}, {}, {}, {}, {}, {}
    for name, options in METHODS.items():
        started = time.process_time()
        found = [region_count(network, images, **options, **draw) for network in networks]
        seconds[name] = (time.process_time() - started) / len(networks) / draw["num_samples"]
        counts[name] = np.array([count.counts for count in found])
        evaluations[name] = (
            np.mean([count.num_evaluations for count in found]) / draw["num_samples"]
        )
    ours, finer, *others = METHODS
    truth, unsettled, change = reference(networks, images, draw)
    for name, found in counts.items():
        wrong[name], bias[name] = 100 * (found != truth).mean(), (found - truth).mean()
        shares[name] = np.abs((found - truth).mean(1) / truth.mean(1)).max()
    what, most = f"{truth.size} triangles of {len(networks)} {kind} networks", "the most allowed"
    for name in (ours, finer):
        yield Row(
            f"{name}, wrong of {what}",
            most,
            (wrong[name],),
            (100 * LARGEST_SHARE,),
            at_most(1),
            "%",
        )
        off = f"{name}, the largest share by which a network's mean is off, {kind}"
        yield Row(off, most, (shares[name],), (LARGEST_BIAS,), at_most(1), "")
    yield Row(
        f"the truth, not settled, {kind}", "all", (unsettled,), (truth.size,), None, "triangles"
    )
    what = f"the truth, the largest change of a network's mean twice as fine, {kind}"
    yield Row(what, most, (change,), (LARGEST_BIAS,), at_most(1), "")
    means = (counts[ours].mean(),), (truth.mean(),)
    yield Row(f"the mean count by the mesh, {kind}", "the truth", *means, None, "regions")
    for other in others:
        yield Row(
            f"wrong, the mesh, {kind}", other, (wrong[ours],), (wrong[other],), at_most(1), "%"
        )
        yield Row(f"bias, the mesh, {kind}", other, (bias[ours],), (bias[other],), None, "regions")
        each = (evaluations[ours],), (evaluations[other],)
        yield Row(f"evaluations, the mesh, {kind}", other, *each, None, "a triangle")
        yield Row(f"CPU time, the mesh, {kind}", other, (seconds[ours],), (seconds[other],))


def reference(networks, points, draw):
    """The truth (N, B); on how many triangles its last two counts differ; the largest change of a network's mean.

    That is by which share it changes from 101 to 201 points an edge, over all triangles.
    """
    vertices, coarse, fine, finer = sample_vertices(points, **draw), *REFERENCE_POINTS
    found = []
    for network, corners in tqdm(
        list(itertools.product(networks, vertices)), unit="triangle", disable=None
    ):
        counts = [reference_count(network, corners, number) for number in (coarse, fine)]
        if counts[0] != counts[1]:
            counts += [
                reference_count(network.double(), corners.double(), number)
                for number in (fine, finer)
            ]
            network.float()
        found.append(counts)
    by_network = (len(networks), len(vertices))
    before, after, truth = (
        np.reshape([counts[k] for counts in found], by_network) for k in (0, 1, -1)
    )
    change = np.abs(after.mean(1) / before.mean(1) - 1).max()
    return truth, sum(counts[-1] != counts[-2] for counts in found), change


def reference_count(network, corners, number):
    """The pieces on one triangle (3, *shape) on a mesh of `number` points an edge, fine where a label could change.

    An element is cut while a corner's lead over the second label is no more than what a score
    changes by across it, then where it is in doubt.
    """
    made = mesh.lattice_mesh(make_lattice(2, number), 1, FINEST)
    classifier, corners = as_classifier(network, corners), corners[None]

    def look(owner, points):
        weights = np.column_stack([made.scale - points.sum(1), points]) / made.scale
        return scores_at(classifier, corners, owner, weights)[1]

    made.scores = look(made.owner, made.points)
    while True:
        at = made.scores[made.elements]
        best = np.partition(at, -2, axis=2)[..., -2:]
        near = (best[..., 1] - best[..., 0]).min(1) <= np.ptp(at, axis=1).max(1)
        near &= made.depth < 2 * NEAR
        if not near.any():
            break
        known = len(made.points)
        mesh.cut(made, near)
        made.scores = np.concatenate([made.scores, look(made.owner[known:], made.points[known:])])
    mesh.refine(made, look, 2 * FINEST)
    return int(count_pieces(made.scores, made.elements, made.owner, 1)[0])
