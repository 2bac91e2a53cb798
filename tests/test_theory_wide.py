"""The mean count of infinitely wide networks, against drawn processes and finite networks."""

import math

import numpy as np
import pytest
import torch

from rc_theory.two_layer import networks as nets
from rc_theory.two_layer import wide
from rc_theory.two_layer.training import train_to_loss, training_sets


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
