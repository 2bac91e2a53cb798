"""Two-layer ReLU networks: losses, sharpness, exact counts and training, and the inequalities of v1 App. G."""

from itertools import pairwise

import numpy as np
import pytest
import torch

import rc_utils as rc
from rc_utils.networks.mlp import TwoLayerReLU
from rc_utils.theory import two_layer_bounds as bounds
from rc_utils.theory import two_layer_examples as examples
from rc_utils.theory.two_layer import (
    Networks,
    active_neurons,
    full_hessian,
    hessian_vector_product,
    kink_distance,
    mean_count,
    outputs,
    pair_counts,
    pairs,
    quadratic_loss,
    random_networks,
    segment_counts,
    sharpness,
    sharpness_by_lanczos,
)
from rc_utils.theory.two_layer_training import DIVERGED, train, train_over_rates, training_sets


def points(number, n, dim, seed=0):
    return torch.randn(number, n, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def as_module(networks, index):
    """One of the networks as the torch module of the theory."""
    _, p, d = networks.weights.shape
    module = TwoLayerReLU(in_features=d, hidden=p).double()
    module.load_state_dict(
        {"layers.1.weight": networks.weights[index], "layers.3.weight": networks.signs[index : index + 1]}
    )
    return module


def test_outputs_and_loss_are_those_of_the_torch_module():
    networks, x, y = random_networks(3, 5, 4), points(3, 6, 4), points(3, 6, 1)[..., 0]
    for index in range(3):
        f = as_module(networks, index)(x[index])[:, 0].detach()
        torch.testing.assert_close(outputs(networks, x)[index], f, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(quadratic_loss(networks, x, y)[index], ((f - y[index]) ** 2).sum() / 12)


def slow_count(weights, signs, x_a, x_b):
    """Regions of 1[f > 0] by the label in the middle of every piece between bends and roots of f."""
    u, v = weights @ x_a, weights @ x_b

    def f(alpha):
        return float(np.maximum((1 - alpha) * u + alpha * v, 0) @ signs)

    bends = [a / (a - b) for a, b in zip(u, v, strict=True) if a * b < 0]
    cuts = sorted([0.0, *bends, 1.0])
    for left, right in pairwise(cuts):
        if f(left) * f(right) < 0:
            cuts = sorted([*cuts, left + (right - left) * f(left) / (f(left) - f(right))])
    labels = [f((left + right) / 2) > 1e-13 for left, right in pairwise(cuts)]
    return 1 + sum(a != b for a, b in pairwise(labels))


@pytest.mark.parametrize(("hidden", "dim"), [(3, 2), (10, 2), (40, 2), (20, 6), (2, 5)])
def test_counts_equal_those_of_a_slow_reference(hidden, dim):
    networks, x = random_networks(20, hidden, dim), points(20, 5, dim)
    counts, (i, j) = pair_counts(networks, x), pairs(5)
    for m in range(20):
        weights, signs, cloud = networks.weights[m].numpy(), networks.signs[m].numpy(), x[m].numpy()
        expected = [slow_count(weights, signs, cloud[a], cloud[b]) for a, b in zip(i, j, strict=True)]
        assert counts[m].tolist() == expected
    assert counts.max() >= 3


@pytest.mark.parametrize(("hidden", "dim"), [(10, 2), (40, 2), (20, 6)])
def test_counts_equal_those_of_the_exact_counter(hidden, dim):
    networks, x = random_networks(6, hidden, dim), points(6, 5, dim)
    counts, (i, j) = pair_counts(networks, x), pairs(5)
    for m in range(6):
        module = as_module(networks, m)
        expected = [rc.exact_segment(module, x[m, a], x[m, b]).count for a, b in zip(i, j, strict=True)]
        assert counts[m].tolist() == expected
    assert counts.max() > 1


def test_counts_do_not_depend_on_the_direction_or_the_scale():
    networks, x = random_networks(50, 20, 3), points(50, 6, 3)
    i, j = pairs(6)
    counts = pair_counts(networks, x)
    assert (counts == segment_counts(networks, x[:, j], x[:, i])).all()
    assert (counts == pair_counts(Networks(2.0**-20 * networks.weights, networks.signs), x)).all()


def test_where_f_vanishes_is_one_negative_region():
    one = torch.ones(1, 1, dtype=torch.float64)
    w = torch.tensor([[[1.0, -2.0]]], dtype=torch.float64)
    x_a, x_b = (torch.tensor([[v]], dtype=torch.float64) for v in ([1.0, 0.0], [0.0, 1.0]))
    assert segment_counts(Networks(w, one), x_a, x_b).item() == 2
    assert segment_counts(Networks(w, -one), x_a, x_b).item() == 1
    assert segment_counts(Networks(-w.abs(), one), x_a, x_b).item() == 1


def test_the_mean_count_is_over_all_ordered_pairs():
    networks, x = random_networks(1, 12, 2), points(1, 4, 2)
    every = [segment_counts(networks, x[:, [i]], x[:, [j]]).item() for i in range(4) for j in range(4)]
    assert mean_count(pair_counts(networks, x), 4).item() == pytest.approx(np.mean(every))


def test_three_ways_to_the_sharpness_agree():
    networks, x, y = random_networks(10, 6, 4), points(10, 7, 4), points(10, 7, 1, seed=1)[..., 0]
    hessian = full_hessian(networks, x, y)
    largest = torch.linalg.eigvalsh(hessian)[:, -1]
    torch.testing.assert_close(sharpness(networks, x), largest, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(sharpness_by_lanczos(networks, x, y, iterations=8), largest, rtol=1e-11, atol=1e-11)
    v = torch.randn(10, 6, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    product = (hessian @ v.reshape(10, 24, 1)).reshape(10, 6, 4)
    torch.testing.assert_close(hessian_vector_product(networks, x, y)(v), product, rtol=1e-11, atol=1e-11)


def test_few_lanczos_iterations_bound_the_sharpness_from_below():
    networks, x, y = random_networks(20, 30, 10), points(20, 40, 10), torch.zeros(20, 40, dtype=torch.float64)
    exact = sharpness(networks, x)
    ritz = [sharpness_by_lanczos(networks, x, y, iterations=k) for k in (2, 4, 8)]
    assert (ritz[0] < 0.999 * exact).any()
    for fewer, more in zip(ritz, [*ritz[1:], exact], strict=True):
        assert (fewer <= more * (1 + 1e-12)).all()


def test_a_dead_network_has_no_sharpness_and_one_region():
    networks, x = Networks(-torch.ones(1, 3, 2).double(), torch.ones(1, 3).double()), points(1, 4, 2).abs()
    assert active_neurons(networks, x).sum() == 0
    assert sharpness(networks, x).item() == 0
    assert sharpness_by_lanczos(networks, x, torch.ones(1, 4).double()).item() == 0
    checks = bounds.check_all(networks, x)
    assert checks[bounds.THEOREM_6].measured.tolist() == [1]
    assert np.isnan(checks[bounds.LEMMA_8].largest_ratio)
    assert checks[bounds.LEMMA_8].violations == 0


def test_training_is_gradient_descent_of_each_network_alone():
    networks, (x, y) = random_networks(3, 8, 3), training_sets("sphere", 3, 5, dim=3)
    lr = torch.tensor([0.05, 0.1, 0.2], dtype=torch.float64)
    training = train(networks, x, y, lr, steps=20, keep=6)
    assert training.steps[0] == 0
    assert training.steps[-1] == 20
    for index in range(3):
        weights = networks.weights[index].clone().requires_grad_()
        for _ in range(20):
            f = torch.relu(x[index] @ weights.T) @ networks.signs[index]
            (gradient,) = torch.autograd.grad(((f - y[index]) ** 2).mean() / 2, weights)
            weights = (weights - lr[index] * gradient).detach().requires_grad_()
        torch.testing.assert_close(training.weights[-1, index], weights.detach(), rtol=1e-10, atol=1e-10)
    assert (training.loss[-1] < training.loss[0]).all()
    torch.testing.assert_close(training.loss[-1], quadratic_loss(training.networks(), x, y))
    assert training.settled.all()


def test_a_rate_far_beyond_the_edge_diverges_and_stops_finite():
    networks, (x, y) = random_networks(2, 32, 8), training_sets("sphere", 2, 16)
    training = train_over_rates(networks, x, y, [0.1, 8.0], steps=60, keep=12)
    assert training.diverged.tolist() == [False, True, False, True]
    torch.testing.assert_close(training.lr[1] / training.lr[0], torch.tensor(80.0).double())
    assert training.weights.isfinite().all()
    assert (training.loss[-1, [1, 3]] > DIVERGED * training.loss[0, [1, 3]]).all()
    assert training.stop[0] == len(training.steps) - 1 > training.stop[1]


def test_sharpness_is_kept_at_a_small_rate_and_falls_below_the_edge_from_beyond_it():
    networks, (x, y) = random_networks(2, 24, 64), training_sets("digits", 2, 8)
    edge = train_over_rates(networks, x, y, [0.01, 1.5], steps=150, keep=5)
    table = bounds.edge_table(edge)
    assert table["reached"].tolist() == [False, True, False, True]
    assert table["start"].tolist() == pytest.approx([0.02, 3, 0.02, 3])
    assert table["growth"][[0, 2]].between(0.8, 1.3).all()
    assert table["final"][[1, 3]].between(0.8, 2).all()
    words = bounds.edge_words(table)
    assert "2 of 4 came to the edge" in words
    assert f"{table['final'][[1, 3]].between(1, 2).mean():.0%} of them in [1, 2]" in words


def test_training_sets_have_norm_one_or_lie_on_a_line():
    for name in ("sphere", "digits"):
        x, y = training_sets(name, 2, 10)
        torch.testing.assert_close(x.norm(dim=2), torch.ones(2, 10).double())
        assert set(y.flatten().tolist()) <= {-1.0, 1.0}
    x, y = training_sets("line", 1, 4)
    assert (x[..., 0] == 1).all()
    assert y.tolist() == [[1, -1, 1, -1]]
    with pytest.raises(ValueError, match="Did you mean"):
        training_sets("spheres", 1, 4)
    with pytest.raises(ValueError, match="3 and 8"):
        training_sets("digits", 1, 10**4)


def test_wrong_shapes_are_named():
    networks, (x, y) = random_networks(2, 4, 3), training_sets("sphere", 2, 5, dim=3)
    with pytest.raises(ValueError, match="expected"):
        train(networks, x, y, torch.ones(3).double(), steps=5)
    with pytest.raises(ValueError, match="signs"):
        Networks(networks.weights, networks.signs[:, :2])
    with pytest.raises(ValueError, match="hidden=0"):
        random_networks(1, 0, 2)
    with pytest.raises(ValueError, match="finite"):
        Networks(networks.weights * torch.inf, networks.signs)


def test_means_over_rates_are_over_networks_that_settled():
    networks, (x, y) = random_networks(4, 32, 8), training_sets("sphere", 4, 16)
    training = train_over_rates(networks, x, y, [0.3, 1.4, 8.0], steps=200, keep=12)
    settled = training.settled.view(4, 3)
    assert settled[:, 0].all()
    assert not settled[:, 2].any()
    table = bounds.rates_table(training, [0.3, 1.4, 8.0], level=float(training.loss[-1, ::3].max()))
    lr, kept = training.lr.view(4, 3), settled[:, 1]
    assert table["lr"][1] == pytest.approx(lr[kept, 1].log().mean().exp().item())
    assert table["allowed_edge"][1] == pytest.approx((4 * 16 / lr[kept, 1] + 2).mean().item())
    assert table.loc[2, ["lr", "allowed_edge", "mean_count", "count_at_loss"]].isna().all()
    assert np.isfinite(table["count_at_loss"][0])
    # At a loss that one of the four does not reach, the three others are another population.
    reached = training.loss[:, ::3].amin(0).sort().values
    strict = bounds.rates_table(training, [0.3, 1.4, 8.0], level=float(reached[2:].mean()))
    assert np.isnan(strict["count_at_loss"][0])


def test_networks_that_stopped_moving_are_checked_once():
    networks, (x, y) = random_networks(2, 32, 8), training_sets("sphere", 2, 16)
    training = train_over_rates(networks, x, y, [0.1, 8.0], steps=60, keep=12)
    kept = len(training.steps)
    frozen = int((kept - 1 - training.stop[[1, 3]]).sum())
    assert frozen > 0
    assert len(bounds.check_trained([training])[bounds.THEOREM_6]) == 4 * kept - frozen


@pytest.mark.parametrize("key", [bounds.LEMMA_7, bounds.LEMMA_8, bounds.THEOREM_6])
def test_the_inequalities_hold_on_random_and_trained_networks(key):
    networks, (x, y) = random_networks(4, 16, 2, seed=3), training_sets("line", 4, 6)
    training = train_over_rates(networks, x, y, [0.2, 1.0, 3.0], steps=200, keep=8)
    for checks in (bounds.check_random(10, seed=5), bounds.check_trained([training], every=2)):
        assert checks[key].violations == 0
        assert 0 < checks[key].largest_ratio <= 1


def test_a_broken_inequality_is_seen():
    networks, x = random_networks(40, 16, 2), points(40, 8, 2)
    loose = bounds.lemma_8(networks, x)
    assert bounds.Inequality(loose.allowed * (1 + 1e-9), loose.allowed).violations == 40
    one = examples.tight_segment()
    exact = bounds.lemma_7(*one)
    assert bounds.Inequality(exact.measured + 1, exact.allowed).violations == 1
    result = bounds.bound_result(
        bounds.LEMMA_7, {"made": {bounds.LEMMA_7: bounds.Inequality(exact.measured + 1, exact.allowed)}}
    )
    assert result.value > 1
    assert "1 of 1 checks violated" in result.detail


def test_four_neurons_attain_lemma_7():
    networks, x = examples.tight_segment()
    assert pair_counts(networks, x).tolist() == [[6]]
    assert active_neurons(networks, x).tolist() == [[2, 2]]
    assert rc.exact_segment(as_module(networks, 0), *x[0]).count == 6


@pytest.mark.parametrize(("n", "bends"), [(2, 2), (4, 5), (8, 16), (5, 3)])
def test_orthonormal_points_attain_lemma_8_and_nearly_theorem_6(n, bends):
    networks, x = examples.orthonormal_network(n, bends)
    assert (pair_counts(networks, x) == 2 * bends + 1).all()
    assert (active_neurons(networks, x) == bends).all()
    assert bounds.lemma_8(networks, x).largest_ratio == 1
    six = bounds.theorem_6(networks, x)
    assert six.measured[0] == pytest.approx(2 * bends + 1 - 2 * bends / n)
    assert six.allowed[0] == pytest.approx(2 * bends + 2)


@pytest.mark.parametrize("n", [4, 8, 16, 32])
def test_a_line_is_fitted_by_few_neurons_and_its_sharpness_grows(n):
    networks, (x, y) = examples.line_network(n), training_sets("line", 1, n)
    torch.testing.assert_close(outputs(networks, x), y, rtol=1e-9, atol=1e-9)
    i, j = pairs(n)
    assert (pair_counts(networks, x)[0] >= j - i + 1).all()
    assert sharpness(networks, x).item() >= examples.line_sharpness_floor(n)
    assert examples.line_sharpness_floor(2 * n) > 1.9 * examples.line_sharpness_floor(n) - 0.1


def test_any_fit_of_the_line_is_above_the_floor_of_its_sharpness():
    # One neuron a gap, with random directions of the half-lines on which they are active: a fit by linear equations.
    generator = torch.Generator().manual_seed(0)
    n, (x, y) = 8, training_sets("line", 1, 8)
    t, fitted = x[0, :, 1], 0
    for _ in range(200):
        bends = torch.cat([(t[1:] + t[:-1]) / 2, t[:1] - 0.1])
        side = torch.cat([2.0 * torch.randint(0, 2, (n - 1,), generator=generator) - 1, torch.ones(1)]).double()
        direction = torch.stack([-side * bends, side], 1)
        features = torch.relu(x[0] @ direction.T)
        if torch.linalg.cond(features) > 1e6:
            continue
        heights = torch.linalg.solve(features, y[0])
        networks = Networks((direction * heights.abs()[:, None])[None], heights.sign()[None])
        fitted += 1
        assert sharpness(networks, x).item() >= examples.line_sharpness_floor(n)
    assert fitted > 20


def test_rates_table_and_change_are_those_of_the_networks():
    networks, (x, y) = random_networks(3, 16, 2), training_sets("line", 3, 6)
    training = train_over_rates(networks, x, y, [0.2, 0.8], steps=100, keep=6)
    table = bounds.rates_table(training, [0.2, 0.8])
    counts = mean_count(pair_counts(training.networks(), x.repeat_interleave(2, 0)), 6).view(3, 2)
    assert table["mean_count"].tolist() == pytest.approx(counts.mean(0).tolist())
    assert table["settled"].tolist() == [3, 3]
    assert table["edge"][0] == pytest.approx((training.lr * training.sharpness[-1])[[0, 2, 4]].median().item())
    change = bounds.count_change(training, [0.2, 0.8])
    assert change.value == pytest.approx((counts[:, 1] - counts[:, 0]).mean().item())
    assert change.low <= change.value <= change.high
    result = bounds.count_change_result("line", change)
    assert (result.id, result.value, result.n) == ("theory/lr", change.value, 3)
    assert result.detail == "line, η from 0.2 to 0.8 times 2/λ_max(W₀)"
    with pytest.raises(ValueError, match="2 at least"):
        bounds.count_change(train_over_rates(networks, x, y, [0.2], steps=5), [0.2])


def test_the_printed_proof_of_lemma_7_picks_a_neuron_that_need_not_exist():
    weights = torch.tensor([[[1.5, -1.5], [0.3, 1.3], [1.0, 1.0]]], dtype=torch.float64)
    networks = Networks(weights, torch.tensor([[1.0, 1.0, -1.0]], dtype=torch.float64))
    x = torch.tensor([[[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]], dtype=torch.float64)
    (f,) = outputs(networks, x)
    assert f.tolist() == pytest.approx([0.8, -0.2, 0.3])
    pulls = x[0] @ weights[0].T
    changes = pulls[0] * pulls[2] < 0
    assert changes.tolist() == [True, False, False]
    assert not (networks.signs[0] * pulls[2] * f[2] > 0)[changes].any()


@pytest.mark.parametrize("seed", range(5))
def test_bends_of_an_alternating_function_weigh_as_much_as_the_floor_says(seed):
    # Values of alternating sign at 0, ..., n - 1, and any at five places between, where the function may bend too.
    rng, n = np.random.default_rng(seed), 9
    at = np.sort(np.concatenate([np.arange(n), rng.uniform(0, n - 1, 5)]))
    signs = np.where(at == at.round(), (-1.0) ** at.round(), rng.choice([-1, 1], len(at)))
    values = rng.uniform(0.2, 1, len(at)) * signs
    slopes = np.diff(values) / np.diff(at)
    bends = at[1:-1][~np.isclose(slopes[1:], slopes[:-1])]
    weight = lambda gap: np.minimum(gap, n - gap) ** 2.0  # noqa: E731
    # A bend on a point is in the lighter of its two gaps.
    gaps = np.minimum(weight(np.floor(bends)), weight(np.ceil(bends)))
    assert gaps.sum() >= weight(np.arange(1, n)).sum() - weight(np.arange(1, n)).max()


def test_kink_distance_vanishes_on_a_kink():
    networks = Networks(torch.tensor([[[0.0, 2.0], [3.0, 4.0]]]).double(), torch.ones(1, 2).double())
    assert kink_distance(networks, torch.tensor([[[1.0, 0.0]]]).double()).item() == 0
    assert kink_distance(networks, torch.tensor([[[0.0, 5.0]]]).double()).item() == pytest.approx(0.8)
