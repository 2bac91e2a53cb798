"""Adaptive counts: as right as a fine grid, at a fraction of its evaluations."""

import itertools
import tracemalloc

import numpy as np
import pytest
import torch
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from rc_utils.datasets import load_dataset
from rc_utils.networks import build_network
from rc_utils.regions import adaptive, adaptive_lattice, exact_segment, make_lattice, region_count, sample_vertices
from rc_utils.regions import lattice as lattice_module
from rc_utils.regions.adaptive import COARSE_INTERVALS, Samples, hiding_places, second_derivatives
from rc_utils.regions.adaptive_lattice import _levels, interpolate, look_beside_changes
from rc_utils.training import TrainConfig, train

SEGMENT = np.array([[0.0], [1.0]])


@pytest.fixture(scope="module")
def trained():
    """Narrow networks that fit 200 shapes, and the shapes."""
    data = load_dataset("shapes", n_train=200, n_test=100, image_size=8, seed=0)
    torch.set_num_threads(1)
    networks = [
        train(build_network(name, width=4, image_size=8, **options), data, TrainConfig(lr=lr, epochs=6, batch_size=32))
        for name, options, lr in [("ResNet18", {}, 0.1), ("SENet18", {}, 0.03)]
    ]
    return [run.network for run in networks], data.x_train


def test_fewer_evaluations_and_fewer_errors_than_the_grid(trained):
    networks, points = trained
    wrong = {"adaptive": 0, "grid": 0}
    for network in networks:
        truth = region_count(network, points, resolution=1601, num_samples=20).counts
        for strategy in wrong:
            count = region_count(network, points, num_samples=20, strategy=strategy)
            wrong[strategy] += int((count.counts != truth).sum())
            if strategy == "adaptive":
                assert count.num_evaluations <= 20 * 40
                assert truth.mean() > 1.5
    assert wrong["adaptive"] <= wrong["grid"]
    assert wrong["adaptive"] <= 1


def test_exact_adaptive_and_grid_agree(trained):
    (network, *_), points = trained
    vertices = sample_vertices(points, num_samples=4)
    exact = [exact_segment(network, *ends).count for ends in vertices]
    assert region_count(network, points, num_samples=4, strategy="adaptive").counts.tolist() == exact
    assert region_count(network, points, num_samples=4, resolution=3201).counts.tolist() == exact


def test_evaluations_are_counted(trained):
    (network, *_), points = trained
    seen = []
    hook = network.register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    count = region_count(network, points, num_samples=10, strategy="adaptive")
    hook.remove()
    assert sum(seen) == count.num_evaluations >= 10 * (COARSE_INTERVALS + 1)
    assert count.settings["strategy"] == "adaptive"


def test_batch_size_and_the_number_of_segments_change_nothing(trained):
    (network, *_), points = trained
    expected = region_count(network, points, num_samples=12, strategy="adaptive")
    for options in ({"batch_size": 50}, {"batch_size": 7}):
        again = region_count(network, points, num_samples=12, strategy="adaptive", **options)
        assert again.counts.tolist() == expected.counts.tolist()
    assert (
        region_count(network, points, num_samples=5, strategy="adaptive").counts.tolist()
        == expected.counts[:5].tolist()
    )


def narrow_peak(centre, width):
    """Scores (0, s): s is positive in an interval of this width, its slopes visible from far away."""
    return lambda x: np.hstack([0 * x, (width / 2) ** 2 - (x - centre) ** 2])


@pytest.mark.parametrize("centre", [0.3, 0.4901, 0.7777])
def test_a_region_far_below_the_grid_is_found(centre):
    model = narrow_peak(centre, 2e-3)
    assert region_count(model, SEGMENT, num_samples=1, resolution=200).counts.tolist() in ([1], [3])
    count = region_count(model, SEGMENT, num_samples=1, strategy="adaptive")
    assert count.counts.tolist() == [3]
    assert count.num_evaluations < 60


def test_a_third_label_at_a_crossing_is_found():
    def scores(x):
        return np.hstack([0.5 - x, x - 0.5, 1e-3 - 0.25 * (x - 0.5) ** 2 + 0 * x])

    assert region_count(scores, SEGMENT, num_samples=1, strategy="adaptive").counts.tolist() == [3]


def test_one_score_and_a_constant():
    torch_one = nn.Linear(1, 1)
    with torch.no_grad():
        torch_one.weight.fill_(1.0)
        torch_one.bias.fill_(-0.4)
    count = region_count(torch_one, SEGMENT, num_samples=3, strategy="adaptive")
    assert count.counts.tolist() == [2, 2, 2]
    constant = region_count(lambda x: np.zeros((len(x), 3)), SEGMENT, num_samples=2, strategy="adaptive")
    assert constant.counts.tolist() == [1, 1]
    assert constant.num_evaluations == 2 * (COARSE_INTERVALS + 1)


def test_a_longer_range_starts_from_more_points():
    def wave(x):
        return np.sin(9 * x[:, 0] + 0.3)

    wide = region_count(wave, SEGMENT, num_samples=2, alpha_range=(-3, 4), strategy="adaptive")
    fine = region_count(wave, SEGMENT, num_samples=2, alpha_range=(-3, 4), resolution=5001)
    assert wide.counts.tolist() == fine.counts.tolist()
    assert wide.num_evaluations >= 2 * 7 * COARSE_INTERVALS


@pytest.mark.parametrize("returns", ["scores", "labels"])
def test_a_shorter_range_is_looked_at_as_closely(returns):
    def wave(x):
        score = np.sin(600 * x[:, 0])
        return score if returns == "scores" else (score > 0).astype(int)

    options = {"num_samples": 1, "alpha_range": (0.4, 0.45)}
    fine = region_count(wave, SEGMENT, resolution=5001, **options).counts.tolist()
    assert fine == [10]
    assert region_count(wave, SEGMENT, strategy="adaptive", **options).counts.tolist() == fine


def test_scores_are_copied_at_once_and_dropped_with_a_chunk_that_fails(monkeypatch):
    """A model that writes its scores into the same memory every time, and labels for which memory runs out."""
    memory, read, fails = np.empty((100, 2), dtype=np.float64), adaptive.labels_of, iter([True])

    def model(x):
        memory[: len(x), 0], memory[: len(x), 1] = np.sin(20 * x[:, 0]), 0.2
        return memory[: len(x)]

    def short_of_memory(output, num_points):
        if next(fails, False):
            raise MemoryError
        return read(output, num_points)

    whole = region_count(lambda x: model(x).copy(), SEGMENT, num_samples=2, strategy="adaptive")
    monkeypatch.setattr(adaptive, "labels_of", short_of_memory)
    parts = region_count(model, SEGMENT, num_samples=2, strategy="adaptive", batch_size=20)
    assert parts.counts.tolist() == whole.counts.tolist()
    assert parts.num_evaluations == whole.num_evaluations


def test_models_that_return_labels(rng):
    points = rng.standard_normal((300, 2))
    tree = DecisionTreeClassifier(max_depth=5, random_state=0).fit(points, (points**2).sum(1) > 1.2)
    truth = region_count(tree, points, num_samples=50, resolution=3201).counts
    count = region_count(tree, points, num_samples=50, strategy="adaptive")
    assert count.num_evaluations < 50 * 200
    assert (count.counts != truth).sum() <= 5
    steps = region_count(lambda x: (x[:, 0] > 0.31).astype(int), SEGMENT, num_samples=1, strategy="adaptive")
    assert steps.counts.tolist() == [2]


def test_second_derivatives_of_a_parabola():
    position = np.array([0, 4, 5, 9, 0, 3, 10])
    segment = np.array([0, 0, 0, 0, 1, 1, 1])
    scores = np.stack([position**2 * 1.0, 3.0 * position], axis=1)
    samples = Samples(segment, position, scores.argmax(1), scores)
    np.testing.assert_allclose(second_derivatives(samples), np.tile([2.0, 0.0], (7, 1)), atol=1e-12)
    assert set(hiding_places(samples)) <= {0, 1, 2, 4, 5}


def test_hiding_places_are_the_same_in_blocks_of_whole_segments(rng, monkeypatch):
    lengths = rng.integers(3, 9, size=30)
    segment = np.repeat(np.arange(30), lengths)
    position = np.concatenate([np.sort(rng.choice(1000, size=n, replace=False)) for n in lengths])
    scores = rng.standard_normal((len(segment), 3))
    samples = Samples(segment, position, scores.argmax(1), scores)
    whole = hiding_places(samples)
    assert 0 < len(whole) < len(segment) - 30
    for block in (1, 30, 100):
        monkeypatch.setattr(adaptive, "BLOCK", block)
        parts = [part for _, part in adaptive._blocks(samples)]
        assert len(parts) >= 3
        assert sum(len(part.segment) for part in parts) == len(segment)
        assert not any({*a.segment} & {*b.segment} for a, b in itertools.pairwise(parts))
        np.testing.assert_array_equal(hiding_places(samples), whole)


def test_what_is_not_offered(rng):
    points = rng.standard_normal((10, 3))
    with pytest.raises(ValueError, match="Did you mean 'adaptive'"):
        region_count(lambda x: x, points, strategy="adaptiv")
    with pytest.raises(ValueError, match="in more than one dimension needs scores"):
        region_count(lambda x: x.argmax(1), points, dim=2, strategy="adaptive")


TRIANGLE = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
SHAPES = [(2, "simplex", "face"), (2, "simplex", "simplex"), (2, "box", "full"), (3, "simplex", "face")]


@pytest.mark.parametrize(("dim", "domain", "adjacency"), SHAPES)
def test_shells_in_any_dimension(dim, domain, adjacency):
    """Scores -(r - r_i)^2 of three radii: a ball, a shell around it and the outside, which the simplex surrounds."""
    points = TRIANGLE - 1 / 3 if dim == 2 else np.concatenate([np.zeros((1, 3)), np.eye(3)]) - 1 / 4
    radii = np.array([0.0, 0.08, 0.16])

    def scores(x):
        return -((np.linalg.norm(x, axis=1, keepdims=True) - radii) ** 2)

    options = {"dim": dim, "domain": domain, "adjacency": adjacency, "num_samples": 3, "resolution": 41}
    grid = region_count(scores, points, **options)
    adaptive = region_count(scores, points, strategy="adaptive", **options)
    assert grid.counts.tolist() == adaptive.counts.tolist() == [3, 3, 3]
    # The three scores are bent alike; triangles end on a lattice four times as fine.
    assert adaptive.num_evaluations < 0.6 * grid.num_evaluations
    small = region_count(scores, points, strategy="adaptive", batch_size=100, **options)
    assert (small.counts.tolist(), small.num_evaluations) == ([3, 3, 3], adaptive.num_evaluations)


@pytest.mark.parametrize(("dim", "domain", "resolution"), [(2, "box", 50), (2, "box", 30), (3, "simplex", 16)])
def test_the_same_lattice_as_the_grid(dim, domain, resolution, monkeypatch):
    """Where every point is in doubt all of the grid's own points are evaluated, and nothing beyond is counted."""
    monkeypatch.setattr(adaptive_lattice, "BEND_FACTOR", {"simplex": 1e9, "box": 1e9})
    points = np.random.default_rng(2).standard_normal((20, 6)).astype(np.float32)
    waves = np.random.default_rng(3).standard_normal((6, 3)).astype(np.float32) * 5

    def scores(x):
        return np.sin(x @ waves)

    options = {"dim": dim, "domain": domain, "resolution": resolution, "num_samples": 3}
    grid = region_count(scores, points, **options)
    adaptive = region_count(scores, points, strategy="adaptive", **options)
    assert grid.mean > 20
    assert adaptive.counts.tolist() == grid.counts.tolist()


@pytest.mark.parametrize("domain", ["simplex", "box"])
def test_scores_that_only_double_precision_tells_apart(domain):
    """A boundary between scores near 10^9 whose differences are lost in single precision."""

    def scores(x):
        return 1e9 + x @ np.array([[1.0, -1.3], [-2.1, 1.7]]) + np.array([0.01, 0.0])

    options = {"dim": 2, "domain": domain, "num_samples": 2, "resolution": 20}
    grid = region_count(scores, TRIANGLE - 0.3, **options)
    adaptive = region_count(scores, TRIANGLE - 0.3, strategy="adaptive", **options)
    assert adaptive.counts.tolist() == grid.counts.tolist() == [2, 2]


def test_a_linear_model_needs_only_the_first_lattice():
    """Straight boundaries are interpolated exactly: only edges of the domain, where no point lies beyond, are added."""
    angles = 0.3 + np.arange(3) * 2 * np.pi / 3
    weights = np.stack([np.cos(angles), np.sin(angles)])
    options = {"dim": 2, "num_samples": 2, "resolution": 100, "adjacency": "full"}
    grid = region_count(lambda x: x @ weights, TRIANGLE - 0.3, **options)
    adaptive = region_count(lambda x: x @ weights, TRIANGLE - 0.3, strategy="adaptive", **options)
    assert adaptive.counts.tolist() == grid.counts.tolist() == [3, 3]
    assert adaptive.num_evaluations < 0.1 * grid.num_evaluations


@pytest.mark.parametrize(("dim", "domain"), [(2, "simplex"), (2, "box"), (3, "simplex"), (4, "simplex")])
def test_new_points_lie_in_the_middle(dim, domain):
    """Every point of the last lattice is reached once, halfway between two points that were there before."""
    adjacency = "face"
    lattice = make_lattice(dim, 9, domain=domain, adjacency=adjacency)
    there = (lattice.indices % 4 == 0).all(1)
    for new, between, beyond in _levels(lattice, 4):
        assert not there[new].any()
        assert (between >= 0).all()
        assert there[between].all()
        np.testing.assert_array_equal(2 * lattice.indices[new], lattice.indices[between].sum(0))
        inside = (beyond >= 0).all(0)
        np.testing.assert_array_equal(2 * lattice.indices[new][inside], lattice.indices[beyond[:, inside]].sum(0))
        there[new] = True
    assert there.all()


def test_a_lattice_of_many_dimensions_needs_no_dense_grid():
    """Five points to an edge in ten dimensions: the grid that the simplex is a corner of has 10^7 cells."""
    lattice = make_lattice(10, 5)
    spacing = 4
    tracemalloc.start()
    levels = list(_levels(lattice, spacing))
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()
    assert sum(len(new) for new, *_ in levels) == lattice.num_points - 11
    for new, between, _ in levels:
        assert (2 * lattice.indices[new] == lattice.indices[between].sum(0)).all()


def test_interpolation_is_exact_for_cubics():
    """Points at -3, -1, 1, 3 around 0, and where one of the outer two is missing, for a parabola."""
    x = np.array([-3.0, -1.0, 1.0, 3.0])
    cubic = np.stack([1 + 2 * x - x**2 + x**3, 5 - x**2 / 2], axis=1)[None]
    middle, _ = interpolate(cubic, np.array([[1], [2]]), np.array([[0], [3]]), "simplex")
    np.testing.assert_allclose(middle[0, 0], [1, 5])
    middle, _ = interpolate(cubic, np.array([[1], [2]]), np.array([[-1], [3]]), "simplex")
    np.testing.assert_allclose(middle[0, 0, 1], 5)
    assert interpolate(cubic, np.array([[1], [2]]), np.array([[-1], [-1]]), "simplex")[1].all()


@pytest.mark.parametrize("domain", ["simplex", "box"])
def test_the_most_bent_score_says_what_is_in_doubt(domain):
    """The two highest scores are straight, a third is bent far below them: a hint that the two may bend as well."""
    straight, low = np.linspace(0, 1, 4), np.array([0.0, -9.0, 0.0, -9.0]) - 50
    scores = np.stack([straight, straight - 0.5, low], axis=1)[None]
    between, beyond = np.array([[1], [2]]), np.array([[0], [3]])
    assert interpolate(scores, between, beyond, domain)[1].all()
    scores[..., 2] = -50
    assert not interpolate(scores, between, beyond, domain)[1].any()


def test_all_points_beside_another_label_are_evaluated():
    """Labels that are wrong all over a plane are found out, without looking at every point."""
    waves = np.random.default_rng(3).standard_normal((2, 4)) * 5

    def scores(x):
        return np.sin(x @ waves + np.arange(4))

    lattice = make_lattice(2, 41, domain="box")
    labels = scores(lattice.coordinates[:, 1:]).argmax(1)
    guesses, known = np.eye(4)[labels][None], np.zeros((1, lattice.num_points), dtype=bool)
    guesses[0, ::7] = np.roll(guesses[0, ::7], 1, axis=1)
    known[0, 1::7] = True
    looked_at = []

    def look(_, point):
        looked_at.extend(point)
        return scores(lattice.coordinates[point, 1:])

    look_beside_changes(look, guesses, known, lattice.edges)
    assert guesses.argmax(2)[0].tolist() == labels.tolist()
    assert len(set(looked_at)) == len(looked_at)
    assert not any(point % 7 == 1 for point in looked_at)
    assert len(looked_at) < 0.8 * lattice.num_points


def test_planes_have_the_counts_of_their_grids(trained):
    """Twenty planes through each trained network, with fewer than half of the grid's evaluations."""
    networks, points = trained
    options = {"dim": 2, "domain": "box", "resolution": 50, "num_samples": 20}
    for network in networks:
        grid = region_count(network, points, **options)
        adaptive = region_count(network, points, strategy="adaptive", **options)
        assert grid.mean > 3
        assert adaptive.counts.tolist() == grid.counts.tolist()
        assert adaptive.num_evaluations < 0.5 * grid.num_evaluations


def test_scores_that_are_not_finite_are_an_error():
    with pytest.raises(ValueError, match="NaN or infinite at"):
        region_count(lambda x: np.where(x > 0.5, np.nan, x), SEGMENT, num_samples=1, strategy="adaptive")


@pytest.mark.parametrize("domain", ["simplex", "box"])
def test_double_scores_of_single_points_stay_double(domain):
    """Beside 1e8 a single holds no difference of these scores."""
    weights = np.random.default_rng(0).normal(size=(2, 4))
    points = np.random.default_rng(1).normal(size=(50, 2)).astype(np.float32)
    options = {"dim": 2, "domain": domain, "num_samples": 10, "resolution": 20, "strategy": "adaptive"}
    plain, shifted = (
        region_count(lambda x, s=shift: np.sin(3 * x.astype(float) @ weights) + s, points, **options).counts.tolist()
        for shift in (0.0, 1e8)
    )
    assert shifted == plain
    assert max(plain) > 2


def test_a_plane_is_limited_as_a_plane(monkeypatch):
    """A square has twice the points of the triangle, and the one that is refined reaches over its far side."""
    monkeypatch.setattr(lattice_module, "MAX_POINTS", 10_100)
    options = {"dim": 2, "domain": "box", "num_samples": 1, "resolution": 100}
    points = np.random.default_rng(0).normal(size=(5, 2))
    adaptive, grid = (region_count(lambda x: x, points, strategy=s, **options) for s in ("adaptive", "grid"))
    assert adaptive.counts.tolist() == grid.counts.tolist()
