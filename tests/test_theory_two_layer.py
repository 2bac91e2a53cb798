"""Two-layer ReLU networks: losses, sharpness, exact counts, training, and bounds of v1 App. G."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import relu_network

from rc_exact import exact_segment
from rc_theory.two_layer import bounds, examples
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
