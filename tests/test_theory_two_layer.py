"""Two-layer ReLU networks: counts, training, and the bounds and theorems of v1."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import relu_network

from rc_exact import exact_segment
from rc_theory.two_layer import bounds, examples, segments, wide
from rc_theory.two_layer import half_spaces as hs
from rc_theory.two_layer import networks as nets
from rc_theory.two_layer.training import over_rates, train, train_to_loss, training_sets


def points(number, n, dim, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(number, n, dim, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("hidden", "dim"), [(3, 2), (40, 2), (20, 6)])
def test_counts_equal_those_of_exact_segments(hidden, dim):
    networks, x = nets.random_networks(10, hidden, dim), points(10, 5, dim)
    counts, pairs = nets.pair_counts(networks, x), zip(*nets.pairs(5), strict=True)
    for (a, b), found in zip(pairs, counts.T.tolist(), strict=True):
        for m in range(10):
            network = relu_network(networks.weights[m], torch.zeros(hidden), networks.signs[[m]])
            assert exact_segment(network, x[m, a], x[m, b]).count == found[m]
    assert counts.max() >= 3


def test_the_mean_count_is_over_all_ordered_pairs():
    networks, x = nets.random_networks(50, 20, 3), points(50, 6, 3)
    counts = nets.pair_counts(networks, x)
    pairs = itertools.product(range(6), repeat=2)
    every = [nets.segment_counts(networks, x[:, [a]], x[:, [b]]) for a, b in pairs]
    np.testing.assert_allclose(nets.mean_count(counts, 6), torch.cat(every, 1).double().mean(1))


def test_the_sharpness_is_that_of_the_full_hessian():
    networks, x, y = nets.random_networks(8, 5, 3), points(8, 6, 3), points(8, 6, 1, seed=1)[..., 0]
    for index in range(8):

        def loss(weights, index=index):
            one = nets.Networks(weights[None], networks.signs[[index]])
            return nets.quadratic_loss(one, x[[index]], y[[index]])[0]

        hessian = torch.autograd.functional.hessian(loss, networks.weights[index])
        largest = torch.linalg.eigvalsh(hessian.reshape(15, 15))[-1]
        assert nets.sharpness(networks, x)[index] == pytest.approx(largest.item(), rel=1e-10)


def test_where_f_vanishes_is_one_negative_region_and_a_dead_network_has_no_sharpness():
    one, w = torch.ones(1, 1).double(), torch.tensor([[[1.0, -2.0]]]).double()
    x_a, x_b = torch.eye(2).double()[:, None, None]
    for weights, sign, expected in ((w, one, 2), (w, -one, 1), (-w.abs(), one, 1)):
        assert nets.segment_counts(nets.Networks(weights, sign), x_a, x_b).item() == expected
    dead = nets.Networks(-torch.ones(1, 3, 2).double(), torch.ones(1, 3).double())
    checks = bounds.check_all(dead, points(1, 4, 2).abs())
    assert checks[bounds.THEOREM_6]["measured"].tolist() == [1]
    assert np.isnan(bounds.largest_ratio(checks[bounds.LEMMA_8]))


def test_training_is_gradient_descent_of_each_network_alone():
    networks, (x, y) = nets.random_networks(3, 8, 3), training_sets("sphere", 3, 5, dim=3)
    lr = torch.tensor([0.05, 0.1, 0.2], dtype=torch.float64)
    training = train(networks, x, y, lr, steps=20, keep=6)
    assert training.steps == [0, *(round(20 ** (k / 6)) for k in range(5)), 20]
    for index in range(3):
        weights = networks.weights[index].clone().requires_grad_()
        for _ in range(20):
            f = torch.relu(x[index] @ weights.T) @ networks.signs[index]
            (gradient,) = torch.autograd.grad(((f - y[index]) ** 2).mean() / 2, weights)
            weights = (weights - lr[index] * gradient).detach().requires_grad_()
        found = training.weights[-1, index]
        np.testing.assert_allclose(found, weights.detach(), rtol=1e-10, atol=1e-10)
    last = nets.Networks(training.weights[-1], training.signs)
    np.testing.assert_allclose(training.loss[-1], nets.quadratic_loss(last, x, y))
    assert training.settled.all()


@pytest.mark.parametrize("steps", [0, 1, 49, 50, 60])
@pytest.mark.parametrize("together", [1, 2, 3])
def test_training_to_a_loss_stops_there_or_after_the_steps(steps, together, monkeypatch):
    monkeypatch.setattr("rc_theory.two_layer.training.CHUNK", together * 5 * 8)
    networks, (x, y) = nets.random_networks(3, 8, 3), training_sets("sphere", 3, 5, dim=3)
    lr = torch.tensor([0.05, 0.1, 0.2], dtype=torch.float64)
    path = train(networks, x, y, lr, steps=60, keep=10_000)  # keeps every step
    level = path.loss[30, 1].item()
    trained, reached = train_to_loss(networks, x, y, lr, level, steps=steps)
    below = path.loss[: steps + 1] <= level
    assert reached.tolist() == below.any(0).tolist()
    assert path.steps == list(range(61))
    assert 0 < (path.loss <= level).any(0).sum() < 3
    stops = torch.where(below.any(0), below.int().argmax(0), steps)
    expected = path.weights[stops, torch.arange(3)]
    np.testing.assert_allclose(trained.weights, expected, rtol=1e-12, atol=1e-12)


def test_a_rate_far_beyond_the_edge_diverges_and_stops_finite():
    networks, (x, y) = nets.random_networks(2, 32, 8), training_sets("sphere", 2, 16)
    training = train(*over_rates(networks, x, y, [0.1, 8.0]), steps=60, keep=12)
    assert training.diverged.tolist() == [False, True, False, True]
    assert (training.lr * training.sharpness[0]).tolist() == pytest.approx([0.2, 16, 0.2, 16])
    assert training.weights.isfinite().all()
    # A network that has stopped moving is checked once.
    frozen = (training.weights[1:] == training.weights[:-1]).all(3).all(2)[:, [1, 3]].sum()
    checked = len(bounds.check_trained([training])[bounds.THEOREM_6])
    assert checked == 4 * len(training.steps) - frozen


def test_the_inequalities_hold_on_random_and_trained_networks():
    networks, (x, y) = nets.random_networks(4, 16, 2, seed=3), training_sets("line", 4, 6)
    training = train(*over_rates(networks, x, y, [0.2, 1.0, 3.0]), steps=200, keep=8)
    for checks in (bounds.check_random(10, seed=5), bounds.check_trained([training], every=2)):
        assert list(checks) == [bounds.LEMMA_7, bounds.LEMMA_8, bounds.THEOREM_6]
        for cases in checks.values():
            assert bounds.violations(cases) == 0
            assert 0 < bounds.largest_ratio(cases) <= 1
    constructed = bounds.check_constructed()  # where both lemmas are equalities
    lemmas = [bounds.largest_ratio(constructed[id_]) for id_ in (bounds.LEMMA_7, bounds.LEMMA_8)]
    assert lemmas == [1, 1]
    # A broken inequality is seen, and rounding forgiven.
    for excess, expected in (([1e-14, 1e-14], (0, 1)), ([0, 1e-9], (1, 1 + 1e-9))):
        measured = np.array([1.0, 2.0]) * (1 + np.array(excess))
        cases = pd.DataFrame({"allowed": [1.0, 2.0], "measured": measured})
        assert (bounds.violations(cases), bounds.largest_ratio(cases)) == expected


def test_four_neurons_attain_lemma_7():
    networks, x = examples.tight_segment()
    assert nets.pair_counts(networks, x).tolist() == [[6]]
    assert nets.active_neurons(networks, x).tolist() == [[2, 2]]
    # The neuron that the printed proof of the lemma picks need not exist here.
    assert nets.pair_counts(*examples.unrepairable_segment()).tolist() == [[4]]


@pytest.mark.parametrize(("n", "bends"), [(4, 5), (5, 3)])
def test_orthonormal_points_attain_lemma_8_and_nearly_theorem_6(n, bends):
    networks, x = examples.orthonormal_network(n, bends)
    assert (nets.pair_counts(networks, x) == 2 * bends + 1).all()
    assert (nets.active_neurons(networks, x) == bends).all()
    checks = bounds.check_all(networks, 3 * x)  # by no scale does either side change
    assert bounds.largest_ratio(checks[bounds.LEMMA_8]) == 1
    expected = [2 * bends + 1 - 2 * bends / n, 2 * bends + 2]
    assert checks[bounds.THEOREM_6].loc[0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("n", [4, 32])
def test_a_line_is_fitted_by_few_neurons(n):
    networks, (x, y), (i, j) = examples.line_network(n), training_sets("line", 1, n), nets.pairs(n)
    np.testing.assert_allclose(nets.outputs(networks, x), y, rtol=1e-9, atol=1e-9)
    assert (nets.pair_counts(networks, x)[0] >= j - i + 1).all()


@pytest.mark.parametrize("distance", [0.01, 2.0])
@pytest.mark.parametrize("n", [3, 30])
def test_points_on_a_line_need_no_factor_n(n, distance):
    # Lines at any distance from 0, points on both sides of the foot of the perpendicular.
    t = points(100, n, 1, seed=n)[..., 0]
    x = torch.stack([torch.full_like(t, distance), t], 2)
    networks = nets.random_networks(100, 30, 2, seed=n)
    counts = nets.mean_count(nets.pair_counts(networks, x), n)
    # The bound rests on sum_j m_j, m_j the fewer points on one side of the bend of neuron j.
    active = (x @ networks.weights.transpose(1, 2) > 0).sum(1)
    fewer = torch.minimum(active, n - active).sum(1)
    assert (counts <= 2 + 2 / n * fewer + 1e-9).all()
    assert (2 + 2 / n * fewer <= bounds.line_allowed(networks, x) + 1e-9).all()
    table = bounds.growth_with_n("line", (4 * n,))
    assert (table["allowed"] > table["line_allowed"]).all() == (n == 30)


def test_no_weights_pass_the_cap_of_the_sharpness():
    x = points(50, 12, 3)
    found = nets.sharpness(nets.random_networks(50, 7, 3), x)
    assert (found <= bounds.sharpness_cap(x, 7) * (1 + 1e-12)).all()
    # Points in one half-space and neurons that are active there attain it.
    networks = nets.Networks(torch.ones(50, 7, 3).double(), torch.ones(50, 7).double())
    np.testing.assert_allclose(nets.sharpness(networks, x.abs()), bounds.sharpness_cap(x.abs(), 7))


def test_half_spaces_shatter_one_more_than_the_dimension():
    assert hs.runs(np.array([[0, 1, 1, 0], [1, 1, 1, 1]])).tolist() == [3, 1]
    for dim in (1, 2, 7):
        case = hs.half_spaces(dim)
        assert (case.regions, case.points) == (2, dim + 1)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("mean_count", [0.9, 1, 1.34, 1.5, 2.75, 3])
def test_a_mean_count_bounds_the_vc_dimension_on_segments(number, mean_count):
    """Brute force over where the points lie and over all their labellings."""
    most, limit = 0, int(number * mean_count)
    for sizes in itertools.combinations_with_replacement(range(limit + 2), number):
        needed = [hs.runs(hs.labellings(size)).max() if size else 1 for size in sizes]
        if sum(needed) <= limit:
            most = max(most, sum(sizes))
    assert most == segments.vc_dimension(number, mean_count) == (limit if mean_count >= 1 else 0)


def deviations_by_brute_force(x, total, number):
    """All labels of all points and of all gaps between them, on `number` segments."""
    found = np.zeros(total)
    cuts = [np.sort(x[x.astype(int) == i]) for i in range(number)]
    weights, first = [], []
    for i, cut in enumerate(cuts):
        gaps = np.diff([i, *cut, i + 1]) / number
        first += [True] + [False] * (2 * len(cut))
        weights += [-gaps[0], *np.ravel([[1 / len(x), -gap] for gap in gaps[1:]])]
    labels = hs.labellings(len(weights))
    changes = (labels[:, 1:] != labels[:, :-1]) | np.array(first[1:])
    for k in range(1, total + 1):
        allowed = labels[1 + changes.sum(1) <= k]
        found[k - 1] = np.abs(allowed @ weights).max() if len(allowed) else -np.inf
    return found


@pytest.mark.parametrize(("number", "total"), [(1, 4), (2, 5), (3, 5)])
def test_the_largest_deviation_is_that_of_brute_force(rng, number, total):
    points = number * rng.random((3, 5))
    expected = [deviations_by_brute_force(x, total, number) for x in points]
    found = segments.largest_deviation(points, total, number)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_rate_of_the_corrected_theorem_holds(rng):
    """Deviation / sqrt(M k / n) does not grow with n, on one segment and on several."""
    for number, total in ((1, 3), (4, 10)):
        ratios = []
        for n in (50, 1000):
            found = segments.largest_deviation(number * rng.random((10, n)), total, number)
            ratios.append(found[:, -1].mean() / np.sqrt(total / n))
        assert ratios[1] < 1.2 * ratios[0] < 1.2


@pytest.mark.parametrize("n", [3, 8])
def test_convex_polygons_and_networks_with_biases_shatter_a_circle(n):
    for case in (hs.convex_bodies(n), hs.relu_networks(n)):
        assert (case.regions, case.points, case.dim) == (3, n, 2)
    polygons = hs.convex_polygons(hs.labellings(n))
    edges = np.roll(polygons, -1, axis=1) - polygons
    after = np.roll(edges, -1, axis=1)
    assert (edges[..., 0] * after[..., 1] - edges[..., 1] * after[..., 0] > -1e-12).all()
    assert hs.circle_deviation(50) == 1


def start(number, width, dim, seed=0):
    """Networks whose output starts with variance 1 at points of norm 1."""
    networks = nets.random_networks(number, width, dim, seed=seed)
    return nets.Networks(networks.weights * math.sqrt(2 * dim / width), networks.signs)


def test_at_the_start_the_count_is_one_and_the_angle_over_pi():
    for angle in (math.pi / 2, math.pi / 5):
        x = torch.tensor([[1.0, 0, 0], [math.cos(angle), math.sin(angle), 0]]).double()
        counts = nets.pair_counts(start(4000, 64, 3), x.expand(4000, -1, -1)).double()
        expected, error = 1 + angle / math.pi, 4 * counts.std().item() / 4000**0.5
        assert counts.mean() == pytest.approx(expected, abs=error)


def test_without_a_training_point_nearby_the_trained_process_counts_as_a_drawn_one():
    """Draws of f_0 on a grid of a segment, corrected to fit three points, change sign as often."""
    rng = np.random.default_rng(4)
    x, y, ends = rng.normal(size=(3, 3)), np.array([1.0, -1.0, 1.0]), rng.normal(size=(2, 3))
    grid = ends[0] + np.linspace(0, 1, 401)[:, None] * (ends[1] - ends[0])
    points = np.concatenate([grid, x])
    t, dot = wide.angles(points, points), points @ points.T
    np.fill_diagonal(t, 0)
    norms = np.linalg.norm(points, axis=1)
    k = np.outer(norms, norms) * (np.sin(t) + (math.pi - t) * np.cos(t)) / math.pi
    tangent = dot * (math.pi - t)
    f = rng.multivariate_normal(np.zeros(len(points)), k, size=4000, method="eigh")
    f = f[:, :-3] + (y - f[:, -3:]) @ np.linalg.solve(tangent[-3:, -3:], tangent[-3:, :-3])
    counts = 1 + ((f[:, 1:] > 0) != (f[:, :-1] > 0)).sum(1)
    expected = wide.count_after_training(*ends, x, y)
    assert counts.mean() == pytest.approx(expected, abs=4 * counts.std() / 4000**0.5)


def test_below_the_edge_the_count_is_the_predicted_one_at_every_rate():
    x, y = training_sets("sphere", 1, 8, dim=6, seed=0)
    predicted = wide.mean_count_after_training(x[0].numpy(), y[0].numpy())
    networks = start(48, 512, 6)
    x, y = x.expand(48, -1, -1).contiguous(), y.expand(48, -1)
    at_start = nets.pair_counts(networks, x).double().mean()
    for factor in (0.3, 0.9):
        lr = 2 * factor / nets.sharpness(networks, x)
        trained, reached = train_to_loss(networks, x, y, lr, 1e-5, steps=4000)
        assert reached.all()
        counts = nets.pair_counts(trained, x).double().mean(1)
        error = 4 * counts.std().item() / 48**0.5
        assert counts.mean() == pytest.approx(predicted, abs=error)
        # Without training it would be another number.
        assert abs(at_start - predicted) > 0.5 * error
