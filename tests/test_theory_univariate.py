"""Univariate networks: teachers, kinks, the KKT residual, gradient flow; Safran et al.'s claims."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom

from rc_theory.univariate import flow
from rc_theory.univariate import networks as uni
from rc_theory.univariate import theorems as theory
from rc_theory.univariate.flow import gradient_flow


def network(w, b, v):
    return torch.tensor([w, b, v], dtype=torch.float64)


def test_a_teacher_changes_sign_where_it_is_told_and_has_as_many_neurons():
    assert uni.draw_crossings(200, 4, seed=1).diff(dim=1).min() >= 1 / 5 - 1e-12
    crossings = uni.draw_crossings(5, 7, seed=0)
    teachers = uni.make_teachers(crossings)
    assert teachers.shape == (5, 3, 7)
    grid = torch.linspace(-1, 1, 4001, dtype=torch.float64)
    # On a crossing the two may differ: N is a rounding error there.
    clear = ((grid[None, :, None] - crossings[:, None]).abs() > 1e-9).all(2)
    signs = torch.where(uni.outputs(teachers, grid) > 0, 1.0, -1.0)
    assert torch.equal(signs[clear], uni.label(crossings, grid)[clear])
    assert ((signs.diff(dim=1) != 0).sum(1) == 7).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_count_of_regions_agrees_with_a_scan(seed):
    theta = uni.draw_students(1, 12, seed)[0]
    positions, changes = uni.kinks(theta, position_tolerance=0, slope_tolerance=0)
    assert len(positions) == 12
    # Between kinks and beyond the outer ones the slope is constant; it changes as much as said.
    ends = np.concatenate([[positions[0] - 1], positions, [positions[-1] + 1]])
    inner = torch.as_tensor(np.stack([ends[:-1] + np.diff(ends) * f for f in (0.25, 0.5, 0.75)]))
    values = uni.outputs(theta[None], inner.flatten()[None])[0].reshape(inner.shape).numpy()
    first, second = np.diff(values, axis=0) / np.diff(inner.numpy(), axis=0)
    # A difference quotient over a gap d loses eps |N| / d.
    loss = 1e-14 * (1 + np.abs(values).max()) / np.diff(ends).min()
    assert first == pytest.approx(second, abs=loss)
    assert np.diff(first) == pytest.approx(changes, abs=2 * loss)


def test_kinks_merge_cancel_and_vanish():
    assert uni.linear_regions(network([1, 2], [0.5, 1.0], [1, 1])) == 2  # one place
    assert uni.linear_regions(network([1, 1], [0.5, 0.5], [1, -1])) == 1  # cancel
    assert uni.linear_regions(network([1, 1], [0.5, -0.5], [1, 1e-6])) == 2  # too weak
    assert uni.linear_regions(network([1, 1], [0.5, -0.5], [1, 1e-6]), slope_tolerance=0) == 3
    near = network([1, 1], [0.5, 0.5005], [1, 1])
    assert uni.linear_regions(near) == 2
    assert uni.linear_regions(near, position_tolerance=1e-4) == 3
    assert uni.linear_regions(network([0, 0], [1, 0], [1, 0])) == 1  # no kink at all


def test_a_kkt_point_has_no_residual_and_another_point_has():
    x, y = torch.tensor([4.0, -4.0]).double(), torch.ones(2).double()
    assert uni.kkt_residual(network([0, 0], [1, 0], [1, 0]), x, y) < 1e-12
    # Feasible and smaller, but no KKT point.
    assert uni.kkt_residual(network([0.5, -0.5], [0, 0], [0.5, 0.5]), x, y) > 0.1
    assert uni.kkt_residual(network([0.2, 0], [1, 0], [1, 0]), x, y) > 0.05
    assert uni.kkt_residual(network([0, 0], [1, 0], [-1, 0]), x, y) == math.inf


def test_students_that_could_break_the_bound_keep_to_it():
    # By the width, and by the samples of a limit, 101 linear regions are possible; 99 are allowed.
    table, trained = theory.train_students(1, 100, 100, 2, seed=300, num_steps=600)
    assert table["converged"].all()
    assert (table[["width", "num_samples"]] + 1 > theory.region_bound(1)).all(axis=None)
    assert table[["regions", "regions_fine"]].max(axis=None) <= 5 < theory.region_bound(1)
    # Neurons that have not joined yet: the count to tolerance 0 is not that of the limit.
    exact = {"position_tolerance": 0, "slope_tolerance": 0}
    assert min(uni.linear_regions(one, **exact) for one in trained.theta) > 20


def test_small_steps_follow_plain_gradient_descent(monkeypatch):
    monkeypatch.setattr(flow, "MAX_CHANGE", 0.002)
    monkeypatch.setattr(flow, "LAST_CEILING", 10)
    x, y = torch.tensor([[-0.8, -0.1, 0.9]]).double(), torch.tensor([[-1.0, 1.0, 1.0]]).double()
    theta = uni.draw_students(1, 6, 4)
    plain, margins = theta.clone().requires_grad_(True), torch.zeros(1, 3)
    while margins.min() < 6:
        margins = y * uni.outputs(plain, x)
        (grad,) = torch.autograd.grad(torch.nn.functional.softplus(-margins).sum(), plain)
        with torch.no_grad():
            plain -= 4e-3 * grad / torch.sigmoid(-margins).sum()  # rescaled time, as in the flow
    followed = gradient_flow(theta, x, y, num_steps=400, check_every=1, stop_loss=1.5e-3).theta
    directions = [value.detach() / value.detach().norm() for value in (plain, followed)]
    # First-order steps that turn by 0.002 and bands of a hundredth.
    assert (directions[0] - directions[1]).norm() < 0.05


def test_example_1_is_exact():
    found = theory.example_1()
    assert found["limit_norm"] == pytest.approx(2, abs=1e-9)
    assert (found["better_norm"], found["better_margins"]) == (1, [1, 1])
    assert found["limit_residual"] < 1e-9
    assert (found["limit"][:, 1] == 0).all()


def test_theorem_31_brings_the_loss_down_at_the_stated_width():
    table = theory.theorem_31(1, 6, 0.9, 1, seed=0)
    assert table["width"].tolist() == [math.ceil(6144 * math.log(24 / 0.9))]
    assert table["ratio"].between(0, 1, inclusive="right").all()
    # Remark 2.3: until then the hidden layer hardly moves.
    assert (table["hidden_change"] < 1e-3 * table["output_change"]).all()


def test_no_training_gets_below_the_certified_loss():
    x = torch.arange(1, 10, dtype=torch.float64).expand(16, -1) / 9
    y = (2.0 * (torch.arange(9) % 2) - 1).double().expand(16, -1)
    theta = uni.draw_students(16, 8, seed=0)
    few = [gradient_flow(theta, x, y, num_steps=3, check_every=n).theta for n in (1, 100)]
    assert torch.equal(*few)  # no more steps than asked for
    trained = gradient_flow(theta, x, y, num_steps=200, stop_loss=1 / 9, residuals=False)
    certified = theory.certified_loss(theta, 8)
    assert (trained.least_loss >= certified - 1e-12).all()
    assert (certified >= (1 - 0.75) / 4).mean() >= 0.25


def test_the_certified_share_is_that_of_a_binomial():
    found = theory.certified_share(8, (1, 1.25, 3), 4000, seed=0)
    assert found["width_ratio"].tolist() == [1, 1.25]
    # w / 9 + b, w + b <= 0 on a wedge of (w, b), by pi less the angle of (1 / 9, 1) and (1, 1).
    active = 1 - (math.pi - (math.pi / 4 - math.atan(1 / 9))) / (2 * math.pi)
    for row, width in zip(found.itertuples(), (8, 10), strict=True):
        # 6 active neurons leave one of eight sign changes out.
        expected = binom.cdf(6, width, active)
        assert row.low <= expected <= row.high
        assert row.low < row.share < row.high
