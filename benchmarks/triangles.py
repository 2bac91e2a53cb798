"""Counts on simplices: the mesh against the paper's grid and finer ones, where the truth is known or far finer.

The one constant of the mesh, `rc_utils.regions.mesh.BEND_FACTOR`, was chosen on CIFAR-10 and is compared with
others on the triangles of `compared_on`, whose networks and shapes are other than those of `held_out`. Those of
`held_out_of_cifar10` decide: other networks and other triangles than those on which the constant was chosen.
"""

import functools
import time
import tracemalloc
from unittest.mock import patch

import numpy as np
import torch
from scipy.spatial import HalfspaceIntersection

from benchmarks.networks import narrow_network
from benchmarks.registry import Row, at_most, benchmark
from rc_utils.datasets import load_dataset
from rc_utils.regions import count_components, make_lattice, mesh, region_count, sample_vertices
from rc_utils.regions.classifier import as_classifier
from rc_utils.regions.count import HALVINGS
from rc_utils.regions.grid import scores_at
from rc_utils.regions.interpolant import count_pieces
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import weights_path
from rc_utils.sweep.run import dataset_of, trained_network
from rc_utils.training import TrainConfig, train

MESH = {"strategy": "adaptive"}
PAPER = {"adjacency": "face"}
METHODS = {
    "the mesh": MESH,
    "the paper's grid, 30 points and face": PAPER,
    "a grid of 100 points and face": {"resolution": 100, "adjacency": "face"},
    "a grid of 30 points, interpolated": {},
    "a grid of 100 points, interpolated": {"resolution": 100},
}
# What the mesh may cost and err on the networks of these runs of a campaign on CIFAR-10.
CIFAR10, CIFAR10_RUNS, CIFAR10_SEED = "cifar10-dimensions", (2, 4, 7), 5
MOST_EVALUATIONS, LARGEST_SHARE, LARGEST_BIAS = 1500, 0.05, 0.1
NETWORKS = ("ResNet18", "SENet18", "VGG19")
BEND_FACTORS = (3.0, 4.0, 5.0)
# The reference begins as a lattice of 101 points an edge. Elements near a change of label have the spacing of 801
# points, those in doubt that of 6,401; of disputed triangles, in float64, that of 1,601 and 12,801.
REFERENCE_POINTS, NEAR, FINEST = 101, 3, 6
LINEAR_CLASSIFIERS = 200
MANY_CLASSES, MOST_MEGABYTES = 1000, 512
# Points an edge that stand for the truth in more dimensions, simplices of a network, and linear classifiers.
FINER = {3: 31, 4: 17, 5: 13}
SIMPLICES = {3: 10, 4: 5, 5: 2}
LINEAR_SIMPLICES = {3: 100, 4: 50, 5: 20}


@functools.cache
def trained(num_images, seed):
    """Shapes and a network of each kind trained on them for 20 epochs, all drawn with this seed."""
    data = load_dataset("shapes", n_train=num_images, n_test=10, image_size=16, seed=seed)
    config = TrainConfig(lr=0.02, batch_size=32, epochs=20, seed=seed)
    return data, [train(narrow_network(name), data, config).network.eval() for name in NETWORKS]


def held_out(scale):
    """The images, networks and settings of triangles that the mesh was not made on: (B, C, H, W), [Module], {}."""
    data, networks = trained(scale.images // 4, 0)
    return data.x_train, networks, {"dim": 2, "num_samples": scale.triangles, "seed": 0}


def held_out_of_cifar10(scale):
    """As `held_out`, of networks of `cifar10-dimensions`; None where this machine has not trained them."""
    planned = list(load_campaign(CIFAR10).runs().values())
    specs = [planned[number].spec for number in CIFAR10_RUNS]
    if not all(weights_path(spec.run_id).exists() for spec in specs):
        return None
    networks = [trained_network(spec).eval() for spec in specs]
    return dataset_of(specs[0]).x_train, networks, {"dim": 2, "num_samples": scale.triangles, "seed": CIFAR10_SEED}


def compared_on(scale):
    """As `held_out`, of the triangles on which the mesh's constant is compared: a third as many."""
    data, networks = trained(scale.images // 4, 1)
    return data.x_train, networks, {"dim": 2, "num_samples": max(1, scale.triangles // 3), "seed": 1}


@benchmark("triangles")
def triangles(scale):
    """Triangles that are counted wrong, their bias, and the evaluations and seconds they take."""
    yield from _triangles("shapes", *held_out(scale))
    of_cifar10 = held_out_of_cifar10(scale)
    if of_cifar10:
        yield from _triangles("CIFAR-10", *of_cifar10, most_evaluations=MOST_EVALUATIONS)


def _triangles(dataset, images, networks, draw, most_evaluations=None):
    """Rows of the mesh against the truth and the other methods."""
    wrong, bias, evaluations, seconds, counts = {}, {}, {}, {}, {}
    for name, options in METHODS.items():
        started = time.process_time()
        found = [region_count(network, images, **options, **draw) for network in networks]
        seconds[name] = (time.process_time() - started) / len(networks) / draw["num_samples"]
        counts[name] = np.array([count.counts for count in found])
        evaluations[name] = np.mean([count.num_evaluations for count in found]) / draw["num_samples"]
    ours, *others = METHODS
    truth, disputed = reference(networks, images, draw, counts[ours])
    for name, found in counts.items():
        wrong[name], bias[name] = 100 * (found != truth).mean(), (found - truth).mean()
    what, most = f"{truth.size} held-out triangles of {len(networks)} networks on {dataset}", "the most allowed"
    yield Row(f"{ours}, wrong of {what}", most, (wrong[ours],), (100 * LARGEST_SHARE,), at_most(1), "%")
    yield Row(f"{ours}, error of the mean, {dataset}", most, (abs(bias[ours]),), (LARGEST_BIAS,), at_most(1), "")
    if most_evaluations:
        cost = (evaluations[ours],)
        yield Row(f"{ours}, evaluations, {dataset}", most, cost, (most_evaluations,), at_most(1), "a triangle")
    looked_at = f"triangles looked at again in float64, {dataset}"
    yield Row(looked_at, "all", (disputed,), (truth.size,), None, "triangles")
    means = (counts[ours].mean(),), (truth.mean(),)
    yield Row(f"the mean count by the mesh, {dataset}", "the truth", *means, None, "regions")
    for other in others:
        yield Row(f"wrong, the mesh, {dataset}", other, (wrong[ours],), (wrong[other],), at_most(1), "%")
        yield Row(f"bias, the mesh, {dataset}", other, (bias[ours],), (bias[other],), None, "regions")
        each = (evaluations[ours],), (evaluations[other],)
        yield Row(f"evaluations, the mesh, {dataset}", other, *each, None, "a triangle")
        yield Row(f"CPU time, the mesh, {dataset}", other, (seconds[ours],), (seconds[other],))


@benchmark("bend")
def bend(scale):
    """The mesh's constant and the values beside it, on triangles of their own."""
    images, networks, draw = compared_on(scale)
    wrong, evaluations, truth = {}, {}, None
    for factor in BEND_FACTORS:
        with patch.object(mesh, "BEND_FACTOR", factor):
            found = [region_count(network, images, **MESH, **draw) for network in networks]
        counts = np.array([count.counts for count in found])
        truth = reference(networks, images, draw, counts)[0] if truth is None else truth
        wrong[factor] = 100 * (counts != truth).mean()
        evaluations[factor] = np.mean([count.num_evaluations for count in found]) / draw["num_samples"]
    chosen = mesh.BEND_FACTOR
    for factor in BEND_FACTORS:
        what = f"of {truth.size} triangles, factor {chosen:g}"
        yield Row(f"wrong {what}", f"{factor:g}", (wrong[chosen],), (wrong[factor],), None, "%")
        yield Row(f"evaluations {what}", f"{factor:g}", (evaluations[chosen],), (evaluations[factor],), None, "each")


def reference(networks, points, draw, counts):
    """The truth (N, B) of counts (N, B), and how many of them it disputed and was made again for, in float64."""
    vertices = sample_vertices(points, **draw)
    truth = np.array([[reference_count(network, corners) for corners in vertices] for network in networks])
    disputed = np.argwhere(truth != counts)
    for network, triangle in disputed:
        exact = networks[network].double()
        truth[network, triangle] = reference_count(exact, vertices[triangle].double(), finer=1)
        networks[network].float()
    return truth, len(disputed)


def reference_count(network, corners, finer=0):
    """The pieces on one triangle (3, *shape) on a mesh that is fine wherever a label could change.

    An element is cut while a corner's lead over the second label is no more than what a score changes by across it,
    then where it is in doubt.
    """
    made = mesh.lattice_mesh(make_lattice(2, REFERENCE_POINTS), 1, FINEST + finer)
    classifier, corners = as_classifier(network, corners), corners[None]

    def look(owner, points):
        weights = np.column_stack([made.scale - points.sum(1), points]) / made.scale
        return scores_at(classifier, corners, owner, weights)[1]

    made.scores = look(made.owner, made.points)
    while True:
        at = made.scores[made.elements]
        best = np.partition(at, -2, axis=2)[..., -2:]
        near = (best[..., 1] - best[..., 0]).min(1) <= np.ptp(at, axis=1).max(1)
        near &= made.depth < 2 * (NEAR + finer)
        if not near.any():
            break
        known = len(made.points)
        mesh.cut(made, near)
        made.scores = np.concatenate([made.scores, look(made.owner[known:], made.points[known:])])
    mesh.refine(made, look, 2 * (FINEST + finer))
    return int(count_pieces(made.scores, made.elements, made.owner, 1)[0])


@benchmark("linear")
def linear(scale):
    """Linear classifiers, whose regions on a triangle are as many as the labels that win there."""
    rng = np.random.default_rng(0)
    few = rng.standard_normal((LINEAR_CLASSIFIERS, 3, 10))
    many = rng.standard_normal((scale.triangles, 3, MANY_CLASSES))
    for scores in (few, many):
        labels, what = present_labels(scores), f"of {len(scores)} linear classifiers with {scores.shape[2]:,} classes"
        by_mesh = 100 * (count_linear(scores, halvings=HALVINGS[2]) != labels).mean()
        yield Row(f"wrong {what}, the mesh", "none", (by_mesh,), (0,), at_most(1), "%")
        for points in (30, 401):
            by_face = 100 * (count_by_face(scores, make_lattice(2, points)) != labels).mean()
            other = f"a grid of {points} points and face"
            yield Row(f"wrong {what}, the mesh", other, (by_mesh,), (by_face,), at_most(1), "%")
    tracemalloc.start()
    count_linear(many, halvings=HALVINGS[2])
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    what = f"the mesh on {scale.triangles} triangles, {MANY_CLASSES:,} classes"
    yield Row(f"peak of the arrays, {what}", "the most allowed", (peak,), (MOST_MEGABYTES,), at_most(1), "MB")
    seconds = []
    for scores in (many, few[: len(many)]):
        started = time.process_time()
        count_linear(scores, halvings=HALVINGS[2])
        seconds.append((time.process_time() - started,))
    yield Row(what, "10 classes", *seconds, at_most(MANY_CLASSES / 10))


@benchmark("dimensions")
def dimensions(scale):
    """Counts in three to five dimensions on linear classifiers, and of trained networks against finer lattices."""
    rng = np.random.default_rng(0)
    images, networks, _ = held_out(scale)
    for dim, number in SIMPLICES.items():
        scores = rng.standard_normal((min(LINEAR_SIMPLICES[dim], 4 * scale.triangles), dim + 1, 10))
        truth, lattice = present_labels(scores), make_lattice(dim)
        counts = {"interpolated": count_linear(scores, dim), "face": count_by_face(scores, lattice)}
        yield from _errors(f"{len(scores)} linear classifiers, d = {dim}, {lattice.resolution} points", counts, truth)
        draw = {"dim": dim, "num_samples": min(number, scale.triangles)}
        finer = FINER[dim] if scale.triangles > 1 else lattice.resolution
        truth = _counts(networks, images, draw, resolution=finer)
        counts = {"interpolated": _counts(networks, images, draw), "face": _counts(networks, images, draw, **PAPER)}
        what = f"{truth.size} simplices of trained networks, d = {dim}, {lattice.resolution} points against {finer}"
        yield from _errors(what, counts, truth)


def _errors(what, counts, truth):
    """Rows of the share wrong and the bias, interpolated beside face."""
    wrong = [(100 * (found != truth).mean(),) for found in counts.values()]
    bias = [((found - truth).mean(),) for found in counts.values()]
    yield Row(f"wrong of {what}, interpolated", "face", *wrong, at_most(1), "%")
    yield Row(f"bias on {what}, interpolated", "face", *bias, None, "regions")


def _counts(networks, images, draw, **options):
    return np.array([region_count(network, images, **draw, **options).counts for network in networks])


def count_linear(scores, dim=2, halvings=0):
    """Counts of linear scores (B, d + 1, C) at the corners of simplices: the points themselves are the scores."""
    corners = torch.from_numpy(scores)
    classifier = as_classifier(lambda points: points, corners)
    return mesh.count_on_meshes(classifier, corners, make_lattice(dim), None, halvings)[0]


def count_by_face(scores, lattice):
    """As `count_linear`, by the components of a lattice's labels."""
    labels = [(lattice.coordinates @ corners).argmax(1).astype(np.int32) for corners in scores]
    return np.array([count_components(lattice.to_grid(row[None]), "face")[0] for row in labels])


def present_labels(scores):
    """How many labels win on a part of each simplex (B,), from linear scores (B, d + 1, C) at its corners.

    They are the facets of the body above all scores and inside the simplex, below a lid.
    """
    return np.array([_present(corners) for corners in scores])


def _present(corners):
    dim, classes = len(corners) - 1, corners.shape[1]
    lid = 2 * np.abs(corners).max() + 1
    above = np.column_stack([(corners[1:] - corners[0]).T, -np.ones(classes), corners[0]])
    sides = np.column_stack([np.vstack([-np.eye(dim), np.ones(dim)]), np.zeros(dim + 1), -np.eye(dim + 1)[dim]])
    walls = np.vstack([above, sides, [*np.zeros(dim), 1, -lid]])
    body = HalfspaceIntersection(walls, np.append(np.full(dim, 1 / (dim + 1)), lid - 0.5))
    return len({facet for facets in body.dual_facets for facet in facets if facet < classes})
