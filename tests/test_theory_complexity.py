"""The inequalities of Loukas et al. on random small networks, and what they are made of."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from rc_theory.complexity import architectures, counterexamples, dropout, inequalities, tasks
from rc_theory.complexity import regions as linear
from rc_theory.complexity import trajectory as complexity
from rc_theory.complexity.stacked import LOSSES, draw_samples, stack, train_stacked, unstack
from rc_theory.complexity.tasks import convolutional_network, multilayer_perceptron
from rc_utils.published import statements

# float64: norms and singular values of some ten rows, good to a few dozen units of 2.2e-16.
TOLERANCE = 1e-12
POINTS, INPUTS = 12, 4
ONE = {"frequencies": (0.5,), "dtype": torch.float64}


def random_path(loss="mse", *, first=3, batch_size=1):
    """Training of six perceptrons whose first layer, of `first` units, is a random linear one."""
    torch.manual_seed(0)
    networks = []
    for _ in range(6):
        layers = nn.Linear(INPUTS, first), nn.ReLU(), nn.Linear(first, 5), nn.ReLU()
        networks.append(nn.Sequential(*layers, nn.Linear(5, 1)).double())
    x, y = torch.randn(6, POINTS, INPUTS).double(), torch.randn(6, POINTS).double()
    data = x, (y > 0).double() if loss == "bce" else y
    samples = draw_samples(range(6), 5 * POINTS, POINTS, batch_size)
    options = {"lr": 0.05, "every": POINTS, "all_layers": True}
    return complexity.follow_training(stack(networks), data, data, samples, loss=loss, **options)


@pytest.mark.parametrize(("loss", "first"), [("mse", 1), ("bce", 3), ("mse", 4)])
def test_the_bounds_near_the_data_hold_on_random_networks(loss, first):
    path, slope = random_path(loss, first=first), 1 / 4 if loss == "bce" else 1  # d f / d z
    assert (path.length[..., -1] <= POINTS * slope + TOLERANCE).all()  # of the last bias
    assert path.num_checked.sum() > 100
    checks = inequalities.all_checks(path, loss)
    for name in ("lemma-1/lower", "lemma-1/upper", "theorem-1/lower", "theorem-1/upper"):
        assert 0.1 < checks[name].ratio <= 1 + TOLERANCE
    assert 0 < inequalities.check_corollary_2(path, 3).ratio <= 1 + TOLERANCE
    assert 0 < inequalities.check_corollary_3(path).ratio <= 1 + TOLERANCE


def test_counterexamples_by_hand():
    path = counterexamples.wide_first_layer()
    # g = (1, -0.9), W_1 = (1, 1)^T: sigma = sqrt(2), lambda = 0.1.
    assert path.length[0, 0, 0] == pytest.approx(math.sqrt(1.81))
    assert path.upper[0, 0] == pytest.approx(0.1 / math.sqrt(2))
    ratio = math.sqrt(2 * 1.81) / 0.1
    checks = inequalities.all_checks(path, "mse")
    for name in ("lemma-1", "theorem-1"):
        assert checks[f"{name}/upper"].ratio == pytest.approx(ratio)
        assert checks[f"{name}/lower"].ratio <= 1
    assert inequalities.check_corollary_3(path).ratio == pytest.approx(ratio)
    # One bias has no variance; two steps that cancel need the sum divided by |T|, not |T| + 1.
    single = counterexamples.one_unit(3.0)
    assert inequalities.check_corollary_2(single, 1, ends=False).ratio == math.inf
    assert inequalities.check_corollary_2(single, 1, ends=True).ratio == pytest.approx(0.5)
    path = counterexamples.one_unit(1 + 1e-3, 1 - 0.6e-3)
    ratio_over_steps = inequalities.check_corollary_2(path, 2, ends=True).ratio
    assert [ratio_over_steps, 1.5 * ratio_over_steps] == pytest.approx([0.75, 1.125], rel=1e-6)
    # W_1 = diag(1, 0.01), g = (1, 100): u = |g|, lambda = |(1, 1)|.
    assert counterexamples.subspace_ratio() == pytest.approx(math.sqrt(10_001 / 2))
    assert counterexamples.smooth_ratio() == pytest.approx(ratio)
    lower, upper = counterexamples.both_sides(50)
    assert lower.max() <= 1 < upper.max()
    # Lemma 6 loses the weights of the second layer.
    assert counterexamples.first_layer_ratio() == pytest.approx(100)
    # f is constant, and one dropped unit moves the first bias.
    assert counterexamples.steady_ratio() == math.inf


def test_no_dropout_tiles_the_cover_of_claim_1():
    network, points = counterexamples.claim_1_network()
    patterns = linear.activations(stack([network]), points[None])
    layers = [pattern[0].int().tolist() for pattern in patterns]
    expected = [*counterexamples.COVER, ((1, 1, 1), (1, 1, 1))]
    assert [(tuple(a), tuple(b)) for a, b in zip(*layers, strict=True)] == expected
    assert (sum(np.outer(a, b) for a, b in counterexamples.COVER) >= 1).all()
    # Eight of the nine pathways can be covered once each: drop the second of the first box.
    assert counterexamples.claim_1_ratio() == pytest.approx(9 / 8)


def test_lemma_3_fails_by_more_the_wider_the_second_layer():
    ratios = [counterexamples.lemma_3_ratio(m) for m in (1000, 2000, 4000, 100_000)]
    assert ratios == pytest.approx([0.967, 1.197, 1.498, 4.757], abs=1e-3)


def test_an_identity_first_layer_makes_both_bounds_equalities():
    x = np.array([[0.0, 0], [0.5, 0], [0.5, 0.25]])
    assert tasks.sinusoid(x, 1.0) == pytest.approx([1, -1, 0], abs=1e-15)
    task = tasks.sinusoid_task(repetitions=2, num_points=20, widths=(8, 8))
    _, path = task.run(epochs=4, lr=0.01)
    # The same float32 norms on both sides; float64 sums of them.
    for bound in (path.lower, path.upper):
        np.testing.assert_allclose(path.length[..., 0], bound, rtol=1e-6)


def test_linear_regions_tile_the_square_and_know_their_patterns_and_gradients():
    network = tasks.multilayer_perceptron(5, (6, 6), seed=0, bias_range=0.3).double()
    basis = tasks.isometry(0, 5)
    regions = linear.linear_regions(network, basis)
    x, y = zip(*(region.polygon.T for region in regions), strict=True)
    areas = [abs(a @ np.roll(b, -1) - b @ np.roll(a, -1)) / 2 for a, b in zip(x, y, strict=True)]
    assert sum(areas) == pytest.approx(4, rel=1e-12)
    patterns = {np.concatenate(region.pattern).tobytes() for region in regions}
    assert len(patterns) == len(regions) > 10
    stacked = stack([network])
    for region in regions:
        centre = region.polygon.mean(0)
        # A pattern holds on a convex set: if at corners moved inwards a little, in the polygon.
        corners = torch.from_numpy((centre + 0.999 * (region.polygon - centre)) @ basis.T)[None]
        layers = [layer[0].numpy() for layer in linear.activations(stacked, corners)]
        assert (np.concatenate(layers, axis=1) == np.concatenate(region.pattern)).all()
        point = torch.from_numpy(basis @ centre).requires_grad_()
        (gradient,) = torch.autograd.grad(network(point).sum(), point)
        np.testing.assert_allclose(region.gradient, gradient, rtol=1e-10, atol=1e-12)


def test_basis_pursuit_takes_the_cheapest_combination_of_pathways():
    # The Kronecker product, the last layer first.
    first, second = np.array([True, False, True]), np.array([False, True])
    np.testing.assert_array_equal(linear.pathways((first, second)), [0, 0, 0, 1, 0, 1])
    columns = np.array([[1.0, 0, 1], [0, 1, 1], [0, 0, 0]])
    # (1, 0) alone costs 1, and (1, 1) - (0, 1) costs 2.5.
    for prices, wanted, cost in (
        ([1, 1, 1.5], [1, 1, 0], 1.5),
        ([1, 1, 1.5], [1, 0, 0], 1),
        ([1, 1, 1.5], [0, 0, 1], math.inf),
        ([1, 4, 1.5], [0, 1, 0], 2.5),
    ):
        cheapest = linear.basis_pursuit(columns, np.array(prices))
        assert cheapest(np.array(wanted)) == pytest.approx(cost)


def test_theorem_2_bounds_every_empty_region_it_speaks_of():
    task = tasks.sinusoid_task(repetitions=2, num_points=60, widths=(6,), **ONE)
    networks, samples = stack(task.networks), draw_samples([1, 2], 300, 60)
    interval = linear.watch_interval(networks, *task.train, samples, loss="mse", lr=1e-7)
    assert (interval.gamma < 1e-3).all()
    for m in range(2):
        network = unstack(networks, task.networks[m], m)
        bound = linear.bound_empty_regions(network, tasks.isometry(m), interval, m)
        told = np.isfinite(bound["bound"]) & (bound["steepness"] > 0)
        assert told.sum() >= 3
        # The linear programme is solved to 1e-7.
        assert (bound["bound"] / bound["steepness"])[told].min() >= 1 - 1e-6
        assert bound.loc[bound["filled"], "bound"].isna().all()


def test_an_interval_prices_points_at_their_smallest_update():
    task = tasks.sinusoid_task(repetitions=1, num_points=5, widths=(4,), **ONE)
    networks, (x, y), options = stack(task.networks), task.train, {"loss": "mse", "lr": 1e-6}
    samples = torch.tensor([[[0]], [[3]], [[0]]])
    prices = linear.watch_interval(networks, x, y, samples, **options).smallest_updates(0)
    assert np.isfinite(prices).tolist() == [True, False, False, True, False]
    # The update of a point that is fitted exactly is 0/0, which must make nothing free.
    exact = networks(x).detach().squeeze(-1)
    interval = linear.watch_interval(networks, x, exact, samples[:1], **options)
    assert np.isnan(interval.updates).all()
    assert np.isinf(interval.smallest_updates(0)).all()


def test_covering_and_its_bounds():
    points = np.array([[0.0], [1], [2], [10]])
    assert [dropout.covering_lower_bound(points, radius) for radius in (0.4, 0.6, 6)] == [4, 3, 1]
    expected = math.sqrt((4 * math.log(2) * 3 + 2 * math.log(20)) / 50)
    assert dropout.covering_bound(3, 50, 0.05) == pytest.approx(expected)
    # The repaired one pays for the largest radius 2^-j below that of the sample, here j = 2.
    expected = math.sqrt((4 * math.log(2) * 7 + 2 * math.log(20) + 4 * math.log(4)) / 50)
    assert dropout.repaired_bound(7, 50, 0.05, 0.5, 1.0) == pytest.approx(expected)
    # A radius beyond the diameter needs no halving.
    assert dropout.repaired_bound(1, 1, 1, 9.0, 1.0) == pytest.approx(math.sqrt(4 * math.log(4)))
    assert math.isnan(dropout.repaired_bound(math.nan, 1, 1, math.nan, 1.0))


def test_steady_learners_have_the_quantities_of_theorem_3():
    task = dropout.dropout_task(repetitions=2, num_images=24, num_test=20, image_size=8, hidden=8)
    learners = dropout.steady_learners(task, epochs=4, steady_epochs=2, lr=0.01, steady_lr=1e-5)
    assert ((learners["mu"] > 0) & (learners["mu"] <= 0.5)).all()
    assert (learners["lipschitz"] <= learners["slope_bound"]).all()
    assert (learners["slope_bound"] <= learners["direct_bound"]).all()
    slope = learners["mu"] * (1 - learners["mu"]) * learners["p_min"]
    assert (learners["growth"] >= learners["gamma"]).all()
    np.testing.assert_allclose(learners["c"], (1 + learners["gamma"]) * learners["beta"] / slope)


def test_theorem_3_says_nothing_where_a_unit_falls_silent():
    task = dropout.interval_task(num_points=20, num_test=20, hidden=4, repetitions=1, seed=0)
    layers, last = task.networks[0], float(task.train[0].max())
    with torch.no_grad():  # of the last point alone, which pushes it away
        layers[0].weight[0], layers[0].bias[0], layers[3].weight[0, 0] = 1, 1e-9 - last, -1
    options = {"epochs": 1, "steady_epochs": 20, "lr": 1e-12}
    kept = dropout.steady_learners(task, steady_lr=1e-12, **options)
    assert kept["p_min"][0] == pytest.approx(1 / 20)
    # The bound on one hidden layer wants 4 log(20) / p_min steps, 240 here.
    short = dropout.steady_learners(task, steady_lr=1e-12, **options | {"steady_epochs": 11})
    assert [table["direct_bound"].notna()[0] for table in (kept, short)] == [True, False]
    with pytest.raises(ValueError, match="p_min is 0, since an active unit falls"):
        dropout.steady_learners(task, steady_lr=1e-3, **options)


def test_a_larger_corruption_holds_a_smaller_one_and_leaves_the_test_alone():
    task = tasks.corruption_task(repetitions=1, num_images=200, num_test=20, image_size=8)
    wrong = task.train[1] != task.train[1][0]
    assert (wrong[:-1] <= wrong[1:]).all()
    assert (wrong.double().mean(1).diff() > 0).all()
    assert torch.equal(task.test[1][0], task.test[1][-1])


def test_architectures_are_compared_at_equal_fit():
    """Two networks whose losses fall alike; the second's paths are half, its test loss a third."""
    path, loss = random_path(), np.array([0.2, 0.04, 0.015, 0.008, 0.003])[:, None] * np.ones(6)
    first = dataclasses.replace(path, train_loss=loss, test_loss=loss + np.arange(1, 7))
    less = {"length": first.length / 2, "test_loss": first.test_loss / 3}
    table = architectures.equal_fit_table({"MLP": first, "CNN": dataclasses.replace(first, **less)})
    # The losses 0.002 and 0.001 are not reached.
    assert table["loss"].unique().tolist() == [0.05, 0.02, 0.01, 0.005]
    row = table.query("network == 'CNN' and loss == 0.02 and repetition == 2").iloc[0]
    expected = [path.steps[2], path.length[:3, 2, 0].mean() / 2, (3 + 0.015) / 3]
    assert row[["steps", "length", "test_loss"]].tolist() == pytest.approx(expected)


def test_the_command_writes_what_the_page_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(architectures, "project_root", lambda: tmp_path)
    small = {"images_per_class": 10, "repetitions": 2, "num_test": 20, "lr": 0.01}
    small |= {"iterations": 200, "seed": 0}
    monkeypatch.setattr(architectures, "SETTINGS", small)
    monkeypatch.setattr(architectures, "LEVELS", (0.7, 0.5))
    architectures.main("digits")
    table, words = architectures.committed_table("digits")
    expected = architectures.equal_fit_table(architectures.train_both("digits", **small))
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)
    assert "digits, 10 images per class, 2 trainings of each network for 200 iterations" in words


def test_every_counterexample_exceeds_what_a_published_statement_allows():
    for id_, check in counterexamples.counterexamples().items():
        assert statements().loc[f"loukas/{id_}"].kind == "refuted"
        assert check.ratio > 1


def test_with_batches_the_upper_bound_holds_and_the_lower_one_need_not():
    batch = random_path(batch_size=4)
    assert batch.lemma_upper.max() <= 1 + TOLERANCE
    assert batch.lemma_lower.max() > 1


MODELS, NUM_POINTS = 3, 7
# float64 sums of some ten terms in another order, over a few dozen steps.
ROUNDING = {"rtol": 1e-11, "atol": 1e-12}

# The shape of a point, and a network by its seed.
KINDS = {
    "mlp": ((5,), lambda seed: multilayer_perceptron(5, (6, 4), seed=seed, bias_range=0.2)),
    "cnn": ((2, 5, 6), lambda seed: convolutional_network((2, 5, 6), seed=seed)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("loss", "batch_size"), [("mse", 1), ("bce", 4)])
def test_training_side_by_side_is_training_one_by_one(kind, loss, batch_size):
    torch.manual_seed(0)
    shape, network_of = KINDS[kind]
    networks = [network_of(seed).double() for seed in range(MODELS)]
    x = torch.randn(MODELS, NUM_POINTS, *shape, dtype=torch.float64)
    y = torch.randint(0, 2, (MODELS, NUM_POINTS)).double()
    samples = draw_samples(range(MODELS), 25, NUM_POINTS, batch_size)
    stacked = stack(networks)
    train_stacked(stacked, x, y, samples, loss=loss, lr=0.05)
    start = networks[0][0].bias.detach().clone()
    for m, network in enumerate(networks):
        for batch in samples[:, m]:
            z, target = network(x[m, batch]).squeeze(-1), y[m, batch]
            bce = nn.functional.binary_cross_entropy_with_logits(z, target)
            error = bce if loss == "bce" else 0.5 * nn.functional.mse_loss(z, target)
            assert torch.allclose(LOSSES[loss].value(z, target).mean(), error)
            gradients = torch.autograd.grad(error, list(network.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(network.parameters(), gradients, strict=True):
                    parameter -= 0.05 * gradient
        trained = unstack(stacked, networks[0], m).state_dict()
        for name, value in network.state_dict().items():
            np.testing.assert_allclose(trained[name], value, **ROUNDING)
    assert not torch.equal(networks[0][0].bias, start)


def test_a_confident_classifier_keeps_its_slope():
    z, y = torch.tensor([40.0, -40.0]), torch.tensor([1.0, 0.0])
    np.testing.assert_allclose(LOSSES["bce"].slope(z, y).abs(), 4.248354e-18, rtol=1e-5)
