"""Counts on triangles: the mesh against the paper's grid and finer ones, where the truth is a far finer mesh.

The one constant of the mesh, `rc_utils.counting.mesh.BEND_FACTOR`, was chosen on other networks and other triangles.
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
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.run import dataset_of, trained_network, weights_path

METHODS = {
    "the mesh": {"strategy": "adaptive"},
    "the mesh from 60 points": {"strategy": "adaptive", "resolution": 60},
    "the paper's grid, 30 points and face": {"adjacency": "face"},
    "a grid of 30 points, interpolated": {},
    "a grid of 100 points, interpolated": {"resolution": 100},
}
# What the mesh may cost and err on the networks of these runs of a campaign on CIFAR-10.
CIFAR10, CIFAR10_RUNS, CIFAR10_SEED = "cifar10-dimensions", (2, 4, 7), 5
MOST_EVALUATIONS, LARGEST_SHARE, LARGEST_BIAS = 1500, 0.05, 0.01
# The reference begins as a lattice of 101 points an edge. Elements near a change of label have the spacing of 801
# points, those in doubt that of 6,401. All of it is then made twice as fine, and where the two counts differ, in
# float64, twice as fine again: the truth is what two in a row agree on.
REFERENCE_POINTS, NEAR, FINEST = (101, 201, 401), 3, 6

# Linear classifiers by their number of classes, and the memory that one of the larger kind may take.
LINEAR_CLASSIFIERS, MOST_MEGABYTES = {10: 200, 1000: 5}, 512


def held_out_of_cifar10():
    """Images (B, C, H, W) and networks of `cifar10-dimensions`; None where this machine has not trained them."""
    planned = list(load_campaign(CIFAR10).runs().values())
    specs = [planned[number].spec for number in CIFAR10_RUNS]
    if not all(weights_path(spec.run_id).exists() for spec in specs):
        return None
    return dataset_of(specs[0]).x_train, [trained_network(spec).eval() for spec in specs]


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
        yield Row(what, "the paper's grid, 30 points and face", (wrong,), (by_face,), at_most(1), "%")
    few, many = LINEAR_CLASSIFIERS
    yield Row(f"the mesh on a triangle, {many:,} classes", f"{few} classes", *reversed(seconds), at_most(many / few))
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
        region_count(lambda x, s=s: x @ s, corners, dim=2, num_samples=1, **options) for s in torch.tensor(scores)
    ]
    return np.array([count.counts[0] for count in counts])


@benchmark("triangles")
def triangles(scale):
    """Triangles that are counted wrong, their bias, and the evaluations and seconds they take.

    Smooth networks have the largest learning rate, rough ones the smallest.
    """
    data, networks = trained_networks(scale.images // 4)
    draw = {"dim": 2, "num_samples": scale.triangles}
    rates = len(networks) // len(adaptive.NETWORKS)
    kinds = {"smooth": networks[::rates], "rough": networks[rates - 1 :: rates]}
    for kind, chosen in kinds.items():
        yield from _triangles(f"shapes, {kind}", data.x_train, chosen, draw | {"seed": 0}, rough=kind == "rough")
    of_cifar10 = held_out_of_cifar10()
    if of_cifar10:
        yield from _triangles("CIFAR-10", *of_cifar10, draw | {"seed": CIFAR10_SEED}, most_evaluations=MOST_EVALUATIONS)


def _triangles(dataset, images, networks, draw, most_evaluations=None, rough=False):
    """Rows of the mesh against the truth and the other methods."""
    wrong, bias, evaluations, seconds, counts = {}, {}, {}, {}, {}
    for name, options in METHODS.items():
        started = time.process_time()
        found = [region_count(network, images, **options, **draw) for network in networks]
        seconds[name] = (time.process_time() - started) / len(networks) / draw["num_samples"]
        counts[name] = np.array([count.counts for count in found])
        evaluations[name] = np.mean([count.num_evaluations for count in found]) / draw["num_samples"]
    ours, finer, *others = METHODS
    truth, unsettled, change = reference(networks, images, draw)
    for name, found in counts.items():
        wrong[name], bias[name] = 100 * (found != truth).mean(), (found - truth).mean()
    what, most = f"{truth.size} held-out triangles of {len(networks)} networks on {dataset}", "the most allowed"
    for name in (ours, finer):
        target = at_most(1) if name == finer or not rough else None
        yield Row(f"{name}, wrong of {what}", most, (wrong[name],), (100 * LARGEST_SHARE,), target, "%")
        share = abs(bias[name]) / truth.mean()
        yield Row(f"{name}, share of the mean it is off by, {dataset}", most, (share,), (LARGEST_BIAS,), target, "")
    if most_evaluations:
        cost = (evaluations[ours],)
        yield Row(f"{ours}, evaluations, {dataset}", most, cost, (most_evaluations,), at_most(1), "a triangle")
    yield Row(f"the truth, not settled, {dataset}", "all", (unsettled,), (truth.size,), None, "triangles")
    what = f"the truth, change of the mean twice as fine, {dataset}"
    yield Row(what, most, (change,), (LARGEST_BIAS,), at_most(1), "")
    means = (counts[ours].mean(),), (truth.mean(),)
    yield Row(f"the mean count by the mesh, {dataset}", "the truth", *means, None, "regions")
    for other in others:
        yield Row(f"wrong, the mesh, {dataset}", other, (wrong[ours],), (wrong[other],), at_most(1), "%")
        yield Row(f"bias, the mesh, {dataset}", other, (bias[ours],), (bias[other],), None, "regions")
        each = (evaluations[ours],), (evaluations[other],)
        yield Row(f"evaluations, the mesh, {dataset}", other, *each, None, "a triangle")
        yield Row(f"CPU time, the mesh, {dataset}", other, (seconds[ours],), (seconds[other],))


def reference(networks, points, draw):
    """The truth (N, B); on how many triangles its last two counts differ; by which share its mean last changed.

    The last change is that from 101 to 201 points an edge, over all triangles.
    """
    vertices, coarse, fine, finer = sample_vertices(points, **draw), *REFERENCE_POINTS
    found = []
    for network, corners in tqdm(list(itertools.product(networks, vertices)), unit="triangle", disable=None):
        counts = [reference_count(network, corners, number) for number in (coarse, fine)]
        if counts[0] != counts[1]:
            counts += [reference_count(network.double(), corners.double(), number) for number in (fine, finer)]
            network.float()
        found.append(counts)
    before, after = (np.mean([counts[k] for counts in found]) for k in (0, 1))
    truth = np.array([counts[-1] for counts in found]).reshape(len(networks), -1)
    return truth, sum(counts[-1] != counts[-2] for counts in found), abs(after / before - 1)


def reference_count(network, corners, number):
    """The pieces on one triangle (3, *shape) on a mesh of `number` points an edge, fine where a label could change.

    An element is cut while a corner's lead over the second label is no more than what a score changes by across it,
    then where it is in doubt.
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
