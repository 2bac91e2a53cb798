"""The quantities of Theorem 3: how steady a learner with dropout is, and what its generalisation bound is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial.distance import cdist
from scipy.special import expit
from torch import Tensor, nn

from rc_utils.theory.complexity.regions import SteadyInterval, activations, watch_interval
from rc_utils.theory.complexity.stacked import draw_samples, stack, train_stacked
from rc_utils.theory.complexity.tasks import Task, corruption_task
from rc_utils.theory.complexity.trajectory import lipschitz_constants
from rc_utils.training.loop import seed_generators


@dataclass(frozen=True)
class SteadyLearner:
    """Theorem 3 on one network; delta is the probability with which its bound may fail."""

    # As the theorem defines them, 1 + o(1) taken as 1; p_min over the units that are ever active.
    phi: float
    beta: float
    gamma: float
    mu: float
    p_min: float
    c: float
    unchanged: float  # share of training points whose activation stayed (assumption (a))
    covered: float  # share of training and test points that satisfy assumption (b)
    num_units: int  # sum of n_l
    steps: int  # |T|
    steps_wanted: float  # the order of |T| that Lemma 3 asks for, sum n_l p_avg / p_min^2
    slope_bound: float  # beta |a| / 4, above every gradient norm, a the output weights of these units
    direct_bound: float  # `direct_lipschitz_bound`
    radius: float  # r_t(X)
    nearest: float  # the median distance of a point to its nearest other
    lipschitz: float  # the largest gradient norm at the points
    steady_lipschitz: float  # c phi log(num_units) / 4, which bounds it
    covering: int  # at least so many balls cover the data (a packing of the points at hand)
    bound: float  # hence the least value of the bound
    gap: float  # the measured |training - test error|


def steady_constant(gamma: float, beta: float, mu: float, p_min: float) -> float:
    """c = (1 + gamma) beta / (mu (1 - mu) p_min), the theorem's o(1) left out."""
    return (1 + gamma) * beta / (mu * (1 - mu) * p_min)


def direct_lipschitz_bound(phi: float, gamma: float, beta: float, mu: float, p_min: float) -> float:
    """2 (1 + gamma) xi beta phi / sqrt(p_min), above the Lipschitz constant of a network with one hidden layer.

    With a sigmoid, dropout of 1/2 and output weights a that stay, by probability 1 - delta after 4 log(1 / delta) /
    p_min steps, the largest update of which is phi. A step at x sees u^2 >= (mu (1 - mu))^2 sum_j z_j s_j(x) a_j^2, z_j
    fair coins and s_j(x) the activation. Y = sum_j z_j s_j(x) a_j^2 / |a|^2 lies in [0, 1] and has mean p_min / 2 at
    least, so that Y >= p_min / 4 with probability p_min / 4 at least, and in one of so many steps with probability
    1 - delta. Hence |a| <= 2 phi / (mu (1 - mu) sqrt(p_min)), and no gradient is larger than beta |a| / 4.
    """
    return 2 * (1 + gamma) * 0.25 / (mu * (1 - mu)) * beta * phi / math.sqrt(p_min)


def covering_lower_bound(points: np.ndarray, radius: float) -> int:
    """At least so many balls of `radius` cover `points` (N, n): a set of points more than 2 radius apart, greedily.

    No ball holds two of them.
    """
    chosen: list[int] = []
    distances = cdist(points, points)
    for index in range(len(points)):
        if not chosen or distances[index, chosen].min() > 2 * radius:
            chosen.append(index)
    return len(chosen)


def covering_bound(covering: float, num_points: int, delta: float) -> float:
    """sqrt((4 log(2) covering + 2 log(1 / delta)) / N), the explicit form of the bound (App. B.7)."""
    return math.sqrt((4 * math.log(2) * covering + 2 * math.log(1 / delta)) / num_points)


def dropout_task(*, hidden: int = 32, **options) -> Task:
    """The images of Task 2, uncorrupted, for networks of depth d = 2, where the paper's dropout is the usual one.

    A linear first layer of `hidden` units, ReLU, dropout of 1/2 and one output, float64; options as `corruption_task`.
    """
    task = corruption_task(corruptions=(0.0,), **options)
    train, test = ((x.flatten(2).double(), y.double()) for x, y in (task.train, task.test))
    inputs, networks = train[0].shape[-1], []
    for repetition in task.repetition:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(repetition))
            networks.append(nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Dropout(0.5), nn.Linear(hidden, 1)))
    return Task(task.level, task.repetition, [n.to(train[0]) for n in networks], train, test, task.loss)


def steady_learners(
    task: Task, *, epochs: int, steady_epochs: int, lr: float, steady_lr: float, delta: float = 0.05, seed: int = 0
) -> list[SteadyLearner]:
    """Train the networks of a `dropout_task`, go on at the small `steady_lr`, and evaluate Theorem 3 on each.

    The interval T is the second phase: Assumption 1 asks for activations that stay. Dropout is scaled as usual (what is
    kept is doubled), which makes phi up to twice as large as without.
    """
    (x, y), (x_test, y_test) = task.train, task.test
    networks, count, repetitions = stack(task.networks).train(), y.shape[1], task.repetition.tolist()
    devices = [x.device] if x.is_cuda else []
    with torch.random.fork_rng(devices=devices):
        seed_generators(seed, x.device)
        first = draw_samples(repetitions, epochs * count, count)
        train_stacked(networks, x, y, first, loss=task.loss, lr=lr)
        second = draw_samples([r + 10_000 for r in repetitions], steady_epochs * count, count)
        interval = watch_interval(networks, x, y, second, loss=task.loss, lr=steady_lr)
    networks.eval()
    with torch.no_grad():
        outputs, test_outputs = (
            torch.sigmoid(networks(v.expand(len(y), *v.shape[1:])).squeeze(-1)) for v in (x, x_test)
        )
    wrong, wrong_in_test = (outputs > 0.5) != (y > 0.5), (test_outputs > 0.5) != (y_test > 0.5)
    gaps = (wrong.double().mean(1) - wrong_in_test.double().mean(1)).abs().tolist()
    seen, points = _points(networks, x, x_test), torch.cat([x[0], x_test[0]]).double().cpu().numpy()
    return [_learner(m, interval, outputs[m].cpu().numpy(), gaps[m], seen, points, count, delta) for m in range(len(y))]


def _points(networks: nn.Sequential, x: Tensor, x_test: Tensor) -> dict[str, np.ndarray]:
    """Of each model: activations at the training points and at all points, and the largest gradient norm."""
    both = torch.cat([x, x_test], 1)
    return {
        "train": activations(networks, x)[0].cpu().numpy(),
        "all": activations(networks, both)[0].cpu().numpy(),
        "output": networks[-1].weight.detach()[:, 0].double().cpu().numpy(),
        "lipschitz": lipschitz_constants(networks, both, "bce").amax(1).double().cpu().numpy(),
    }


def _learner(m, interval: SteadyInterval, outputs, gap, seen, points, count, delta) -> SteadyLearner:
    active = interval.active[0][m]
    used = active > 0
    # An update of a point that is fitted exactly is 0/0, and moves nothing.
    phi = float(np.nan_to_num(interval.updates[:, m]).max())
    beta, gamma = float(interval.beta[m]), float(interval.gamma[m])
    # min(f, 1 - f), without the rounding of f to 1.
    mu = float(expit(-np.abs(interval.z[:, m])).min())
    p_min, units = float(active[used].min()), int(used.sum())
    c = steady_constant(gamma, beta, mu, p_min)
    radius = float(np.abs(1 - 2 * outputs).min() / (c * phi * math.log(units)))
    covering = covering_lower_bound(points, radius)
    reached = seen["train"][m].any(0)
    distances = cdist(points, points)
    np.fill_diagonal(distances, np.inf)
    return SteadyLearner(
        phi=phi,
        beta=beta,
        gamma=gamma,
        mu=mu,
        p_min=p_min,
        c=c,
        unchanged=float(interval.unchanged[m].mean()),
        covered=float((seen["all"][m] <= reached).all(1).mean()),
        num_units=units,
        steps=len(interval.updates),
        steps_wanted=units * float(active[used].mean()) / p_min**2,
        slope_bound=beta * float(np.linalg.norm(seen["output"][m][used])) / 4,
        direct_bound=direct_lipschitz_bound(phi, gamma, beta, mu, p_min),
        radius=radius,
        nearest=float(np.median(distances.min(1))),
        lipschitz=float(seen["lipschitz"][m]),
        steady_lipschitz=c * phi * math.log(units) / 4,
        covering=covering,
        bound=covering_bound(covering, count, delta),
        gap=gap,
    )
