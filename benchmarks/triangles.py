"""Counts on triangles: the mesh against the paper's grid and a finer one, a far finer mesh standing for the truth."""

import time
import tracemalloc

import numpy as np
import torch

from benchmarks.adaptive import LEARNING_RATES, trained_networks
from benchmarks.registry import Row, at_most, benchmark
from rc_utils.regions import make_lattice, region_count
from rc_utils.regions.classifier import as_classifier
from rc_utils.regions.count import HALVINGS
from rc_utils.regions.mesh import count_on_meshes

# The constant of the mesh was chosen on other networks and other triangles: `rc_utils.regions.mesh.BEND_FACTOR`.
METHODS = {
    "mesh": {"strategy": "adaptive"},
    "the paper's grid, 30 points and face": {"adjacency": "face"},
    "grid of 100 points and face": {"resolution": 100, "adjacency": "face"},
    "grid of 100 points, interpolated": {"resolution": 100},
}
TRUTH = {"strategy": "adaptive", "resolution": 201}
# What the mesh may cost and err on trained networks.
MOST_EVALUATIONS, LARGEST_SHARE, LARGEST_BIAS = 1500, 0.05, 0.1
LINEAR_CLASSIFIERS = 200
MANY_CLASSES, MOST_MEGABYTES = 1000, 512


@benchmark("triangles")
def triangles(scale):
    """Triangles that are counted wrong, the evaluations and the seconds they take, on networks of three kinds."""
    data, networks = trained_networks(scale.images // 4)
    networks = networks[:: len(LEARNING_RATES)]
    draw = {"dim": 2, "num_samples": scale.triangles}
    truth = np.array([region_count(net, data.x_train, **TRUTH, **draw).counts for net in networks])
    wrong, bias, evaluations, seconds = {}, {}, {}, {}
    for name, options in METHODS.items():
        started = time.perf_counter()
        counts = [region_count(net, data.x_train, **options, **draw) for net in networks]
        seconds[name] = (time.perf_counter() - started) / truth.size
        errors = np.array([count.counts for count in counts]) - truth
        wrong[name], bias[name] = int((errors != 0).sum()), abs(float(errors.mean()))
        evaluations[name] = sum(count.num_evaluations for count in counts) / truth.size
    mesh, *others = METHODS
    what = f"{truth.size} triangles of {len(networks)} networks"
    limits = {
        "miscounted": (wrong, LARGEST_SHARE * truth.size, "wrong"),
        "error of the mean on": (bias, LARGEST_BIAS, ""),
    }
    for kind, (amounts, limit, unit) in limits.items():
        yield Row(f"{kind} {what}, mesh", "the most allowed", (amounts[mesh],), (limit,), at_most(1), unit)
    yield Row(
        "evaluations a triangle, mesh", "the most allowed", (evaluations[mesh],), (MOST_EVALUATIONS,), at_most(1), ""
    )
    for other in others:
        yield Row(f"miscounted {what}, mesh", other, (wrong[mesh],), (wrong[other],), at_most(1), "wrong")
        yield Row("evaluations a triangle, mesh", other, (evaluations[mesh],), (evaluations[other],), None, "")
        yield Row("a triangle, mesh", other, (seconds[mesh],), (seconds[other],))


@benchmark("linear")
def linear(scale):
    """Linear classifiers, whose regions on a triangle are as many as the labels that win there, and many classes."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((LINEAR_CLASSIFIERS, 3, 10))
    labels = present_labels(scores)
    wrong = [int((count_linear(scores, **options) != labels).sum()) for options in ({}, {"halvings": HALVINGS[2]})]
    for name, number in zip(("grid of 30 points, interpolated", "mesh"), wrong, strict=True):
        yield Row(
            f"miscounted of {LINEAR_CLASSIFIERS} linear classifiers, {name}",
            "none",
            (number,),
            (0,),
            at_most(1),
            "wrong",
        )
    few, many = (rng.standard_normal((scale.triangles, 3, classes)) for classes in (10, MANY_CLASSES))
    tracemalloc.start()
    count_linear(many, halvings=HALVINGS[2])
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    what = f"mesh on {scale.triangles} triangles, {MANY_CLASSES:,} classes"
    yield Row(f"peak of the arrays, {what}", "the most allowed", (peak,), (MOST_MEGABYTES,), at_most(1), "MB")
    seconds = []
    for case in (many, few):
        started = time.perf_counter()
        count_linear(case, halvings=HALVINGS[2])
        seconds.append((time.perf_counter() - started,))
    yield Row(what, "10 classes", *seconds, at_most(MANY_CLASSES / 10))


def count_linear(scores, halvings=0):
    """Counts of linear scores (B, 3, C) at the corners of triangles: the points themselves are the scores."""
    corners = torch.from_numpy(scores)
    classifier = as_classifier(lambda points: points, corners)
    return count_on_meshes(classifier, corners, make_lattice(2), None, halvings)[0]


def present_labels(scores):
    """How many labels win somewhere on each triangle (B,), from where three of its half-planes meet.

    A label wins on a polygon, which has corners: points at which it ties with two others, or with one on a side of the
    triangle, or that are corners of the triangle.
    """
    return np.array([len(_winners(corners)) for corners in scores])


def _winners(corners):
    num_classes = corners.shape[1]
    points = [np.eye(3)]
    first, second = np.triu_indices(num_classes, 1)
    for side in range(3):
        a, b = np.delete(np.arange(3), side)
        ahead = corners[:, first] - corners[:, second]
        share = ahead[a] / (ahead[a] - ahead[b])
        on_side = np.zeros((len(share), 3))
        on_side[:, a], on_side[:, b] = 1 - share, share
        points.append(on_side[(share > 0) & (share < 1)])
    triples = np.array([(i, j, k) for i in range(num_classes) for j in range(i) for k in range(j)])
    ties = np.stack([corners[:, triples[:, 0]] - corners[:, triples[:, k]] for k in (1, 2)])
    ties = np.concatenate([ties, np.ones((1, *ties.shape[1:]))]).transpose(2, 0, 1)
    inside = np.linalg.solve(ties, np.tile([[0.0], [0.0], [1.0]], (len(ties), 1, 1)))[..., 0]
    points.append(inside[(inside > 0).all(1)])
    values = np.concatenate(points) @ corners
    return np.unique((values > values.max(1, keepdims=True) - 1e-9).nonzero()[1])
