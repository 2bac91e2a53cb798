"""Theorem 3 of Loukas et al., on networks with dropout: its quantities, its bound, its repair."""

import math

import numpy as np
import pandas as pd
import torch
from scipy.spatial.distance import cdist
from scipy.special import expit
from torch import nn

from rc_theory.complexity.regions import SteadyInterval, watch_interval
from rc_theory.complexity.stacked import draw_samples, stack, train_stacked
from rc_theory.complexity.tasks import Task, corruption_task
from rc_theory.complexity.trajectory import lipschitz_constants
from rc_utils.evaluation import own_random_state
from rc_utils.validation import require

DELTA = 0.05  # probability that a bound fails


def direct_lipschitz_bound(phi: float, gamma: float, beta: float, mu: float, p_min: float) -> float:
    """Bound on lambda_f for one hidden layer: 2 (1 + gamma) xi beta phi / sqrt(p_min).

    xi = 1 / (4 mu (1 - mu)), phi is the largest update. Proof on page 10.
    """
    return 2 * (1 + gamma) * 0.25 / (mu * (1 - mu)) * beta * phi / math.sqrt(p_min)


def covering_lower_bound(points: np.ndarray, radius: float) -> int:
    """Lower bound on the balls of `radius` that cover points (N, n), by a greedy packing."""
    chosen: list[int] = []
    apart = cdist(points, points) > 2 * radius  # no ball holds both
    for index in range(len(points)):
        if apart[index, chosen].all():
            chosen.append(index)
    return len(chosen)


def covering_bound(covering: float, num_points: int, delta: float) -> float:
    """sqrt((4 log(2) covering + 2 log(1 / delta)) / N), the bound of App. B.7."""
    return math.sqrt((4 * math.log(2) * covering + 2 * math.log(1 / delta)) / num_points)


def repaired_bound(
    covering: float, num_points: int, delta: float, radius: float, diameter: float
) -> float:
    """Theorem 3 with one hidden layer, for a radius r that depends on the sample (see page 10).

    `covering` is the number of balls of radius r / 2 that cover the data, whose `diameter` is D. To
    2 log(1 / delta) is added 4 log(j + 2), with j >= 0 the least integer such that D 2^-j < r. NaN
    where r is.
    """
    if math.isnan(radius):
        return radius
    index = max(0, math.floor(math.log2(diameter / radius)) + 1)
    return covering_bound(covering, num_points, delta / (index + 2) ** 2)


def interval_task(
    *, num_points: int, num_test: int, hidden: int, repetitions: int, seed: int
) -> Task:
    """Classify the sign of one input in [-1, -0.6] or [0.6, 1], which few small balls cover."""
    rng = np.random.default_rng(seed)
    sides = rng.choice([-1.0, 1.0], num_points + num_test)
    x = torch.from_numpy(sides * rng.uniform(0.6, 1, len(sides)))[None, :, None]
    y = torch.from_numpy((sides > 0).astype(float)).expand(repetitions, -1)
    numbers = 1000 * seed + np.arange(repetitions)
    networks = [_dropout_network(1, hidden, int(number)) for number in numbers]
    train, test = (x[:, :num_points], y[:, :num_points]), (x[:, num_points:], y[:, num_points:])
    return Task(np.zeros(repetitions), numbers, networks, train, test, "bce")


def _dropout_network(inputs, hidden, seed):
    with own_random_state(seed=seed):
        layers = nn.Linear(inputs, hidden), nn.ReLU(), nn.Dropout(0.5), nn.Linear(hidden, 1)
        return nn.Sequential(*layers).double()


def dropout_task(*, hidden: int = 32, **options) -> Task:
    """Task 2 without corruption, for networks with one hidden layer and dropout of 1/2."""
    task = corruption_task(corruptions=(0.0,), **options)
    train, test = ((x.flatten(2).double(), y.double()) for x, y in (task.train, task.test))
    inputs = train[0].shape[-1]
    networks = [_dropout_network(inputs, hidden, int(r)).to(train[0]) for r in task.repetition]
    return Task(task.level, task.repetition, networks, train, test, task.loss)


def steady_learners(
    task: Task, *, epochs: int, steady_epochs: int, lr: float, steady_lr: float, seed: int = 0
) -> pd.DataFrame:
    """Train a `dropout_task`, go on at `steady_lr`, and evaluate Theorem 3: one row per network.

    The interval T is the second phase, since Assumption 1 wants constant activations. Dropout
    doubles the outputs it keeps, as usual, and so phi. Columns: those of `_quantities`; gap,
    |training error - test error|; lipschitz, the largest gradient norm at any point; growth, the
    larger of gamma and the growth of |a|; direct_bound (`direct_lipschitz_bound` with growth for
    gamma), NaN where T is too short for it; slope_bound, beta |a| / 4; radius, r_t(X);
    direct_radius, the same from direct_bound; covering, a lower bound on the balls of `radius`; and
    bound, Theorem 3 at DELTA.

    Raises ValueError if a unit that is active in T falls silent in it, so that p_min is 0.
    """
    (x, y), (x_test, y_test) = task.train, task.test
    count, runs = y.shape[1], task.repetition
    networks = stack(task.networks).train()
    with own_random_state(x.device, seed):
        first = draw_samples(runs, epochs * count, count)
        train_stacked(networks, x, y, first, loss=task.loss, lr=lr)
        second = draw_samples(runs + 10_000, steady_epochs * count, count)
        before = _output_weights(networks)
        interval = watch_interval(networks, x, y, second, loss=task.loss, lr=steady_lr)
    networks.eval()
    both = torch.cat([x, x_test], 1)
    with torch.no_grad():
        outputs = torch.sigmoid(networks(both.expand(len(y), *both.shape[1:])).squeeze(-1))
    wrong = ((outputs > 0.5) != (torch.cat([y, y_test], 1) > 0.5)).double()
    table = pd.DataFrame([_quantities(interval, m) for m in range(len(y))])
    table["gap"] = (wrong[:, :count].mean(1) - wrong[:, count:].mean(1)).abs().cpu().numpy()
    table["lipschitz"] = lipschitz_constants(networks, both, "bce").amax(1).double().cpu().numpy()
    used = interval.active[0] > 0
    weights = np.stack([before, _output_weights(networks)])
    start, end = np.linalg.norm(weights * used, axis=2)
    table["growth"] = np.maximum(table["gamma"], end / start - 1)
    constants = table[["phi", "growth", "beta", "mu", "p_min"]]
    table["direct_bound"] = [direct_lipschitz_bound(*row) for row in constants.to_numpy()]
    too_short = len(interval.z) < 4 * math.log(1 / DELTA) / table["p_min"]
    table.loc[too_short, "direct_bound"] = math.nan
    table["slope_bound"] = table["beta"] * end / 4
    margin = (1 - 2 * outputs[:, :count]).abs().amin(1).cpu().numpy()
    table["direct_radius"] = margin / (4 * table["direct_bound"])
    table["radius"] = margin / (table["c"] * table["phi"] * np.log(table["num_units"]))
    points = both[0].double().cpu().numpy()
    table["covering"] = [covering_lower_bound(points, radius) for radius in table["radius"]]
    table["bound"] = [covering_bound(covering, count, DELTA) for covering in table["covering"]]
    return table


def _output_weights(networks):
    """Copy of the output weights a of each network, (M, units)."""
    return networks[-1].weight.detach()[:, 0].double().cpu().numpy().copy()


def _quantities(interval: SteadyInterval, m: int) -> dict[str, float]:
    """Quantities of Theorem 3 for model m on the interval, with 1 + o(1) taken as 1."""
    active = interval.active[0][m][interval.ever[0][m]]  # the others never matter
    found = f"network {m}: p_min is 0, since an active unit falls silent, or none is active"
    require(len(active) and active.min() > 0, f"{found}; take a smaller steady_lr")
    beta, gamma, p_min = float(interval.beta[m]), float(interval.gamma[m]), float(active.min())
    # min(f, 1 - f), without the rounding of f to 1.
    mu = float(expit(-np.abs(interval.z[:, m])).min())
    # An update of a point that is fitted exactly is 0/0, and moves nothing.
    phi = float(np.nan_to_num(interval.updates[:, m]).max())
    quantities = {"phi": phi, "beta": beta, "gamma": gamma, "mu": mu, "p_min": p_min}
    quantities["c"] = (1 + gamma) * beta / (mu * (1 - mu) * p_min)
    return quantities | {"num_units": len(active)}
