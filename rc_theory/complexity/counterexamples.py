"""Networks that break statements of Loukas et al.: ratios of found to allowed."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor, nn

from rc_theory.complexity.inequalities import Check, check_corollary_2, check_corollary_3
from rc_theory.complexity.stacked import stack
from rc_theory.complexity.trajectory import Trajectory, follow_training


def wide_first_layer() -> Trajectory:
    """One step of two units on one input, W_1 = (1, 1)^T, with output weights 1 and -0.9.

    The bias moves along (1, -0.9), of which W_1^T leaves 0.1: the proof takes |W_1^T g| >= sigma_n
    |g|, which fails where n_1 > n.
    """
    return _follow(torch.ones(2, 1), torch.tensor([[1.0, -0.9]]), targets=[3.0])


def one_unit(*targets: float) -> Trajectory:
    """A step of one unit for each target.

    One step: one bias has no variance, whatever Corollary 2 asks for. Two with errors of opposite
    sign, targets 1 + 1e-3 and 1 - 0.6e-3: the biases are 0, s and 0, with squared distances of 2/3
    s^2 from their mean. Asked for is s^2 / 4: a half of it will do, a third will not.
    """
    return _follow(torch.ones(1, 1), torch.ones(1, 1), targets)


def both_sides(
    number: int, *, units: int = 64, inputs: int = 10, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """lambda / (sigma_1 u) and sigma_n u / lambda of random one-layer networks, (number,) each.

    Gaussian weights, no biases, one random sample each; with the output weights a_S of the active
    units a step of SGD has u = |a_S| and lambda = |W_1^T a_S|.
    """
    rng = np.random.default_rng(seed)
    first, x = rng.normal(size=(number, units, inputs)), rng.normal(size=(number, inputs, 1))
    moved = rng.normal(size=(number, units)) * ((first @ x)[..., 0] > 0)
    update = np.linalg.norm(moved, axis=1)
    lipschitz = np.linalg.norm((moved[:, None] @ first)[:, 0], axis=1)
    sigma = np.linalg.svd(first, compute_uv=False)
    return lipschitz / (sigma[:, 0] * update), sigma[:, -1] * update / lipschitz


def subspace_ratio() -> float:
    """Length over its upper bound with sigma_n replaced as in the remark after Theorem 1.

    W_1 = diag(1, 0.01), output weights 1 and 100, the sample (1, 0), the second unit active by its
    bias: the update sees the second unit, the subspace does not.
    """
    first = torch.diag(torch.tensor([1.0, 0.01]))
    network = _network(first, torch.tensor([[1.0, 100.0]]), nn.ReLU(), bias=[0.0, 1.0])
    update, gradient = _update_and_gradient(network, torch.tensor([[1.0, 0.0]]))
    return float(update / gradient * first[:, 0].norm())


def smooth_ratio() -> float:
    """sigma_n u / lambda of `wide_first_layer` with tanh for the activation (Lemma 5)."""
    network = _network(torch.ones(2, 1), torch.tensor([[1.0, -0.9]]), nn.Tanh())
    update, gradient = _update_and_gradient(network, torch.ones(1, 1))
    return float(math.sqrt(2) * update / gradient)


def first_layer_ratio() -> float:
    """Lipschitz constant of the first layer over (theta + beta) / (1 - delta) of Lemma 6.

    Units relu(x) and relu(-x), W_2 = (100, 100), samples 1 and -1, which are all of the domain:
    delta = 0, and beta vanishes with the learning rate. The proof loses the factor W_2 of the
    gradient with respect to b_1. Each sample has one active unit, of slope 1.
    """
    network = _network(torch.tensor([[1.0], [-1.0]]), torch.tensor([[100.0, 100.0]]), nn.ReLU())
    thetas = []
    for x in (1.0, -1.0):
        z = network(torch.tensor([[x]], dtype=torch.float64)).sum()
        of_second, of_bias = torch.autograd.grad(z, (network[2].weight, network[0].bias))
        thetas.append(float(of_second.norm() / of_bias.norm()))
    return 1 / max(thetas)


def sigmoid_ratio() -> float:
    """Steepness over what Theorem 2 allows with a sigmoid output: one unit, after a step of SGD.

    The step, of rate 1.4 on the sample 3 with label 0, makes the output weight -2.1 and saturates f
    there: f stays as steep at 3, but mu has f(3) from before. The next sample, -1, has no active
    unit. At 0.05 the unit is active as at 3, and f is not saturated. beta is the first weight, 1.
    """
    layers = _network(torch.ones(1, 1), torch.tensor([[0.0077]]), nn.ReLU())
    network = nn.Sequential(*layers, nn.Sigmoid())
    first, second, between = torch.tensor([3.0, -1.0, 0.05], dtype=torch.float64).view(3, 1, 1)
    update, before = _update_and_gradient(network, first)
    seen, parameters = network(first), list(network.parameters())
    gradients = torch.autograd.grad(-torch.log1p(-seen).sum(), parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.sub_(1.4 * gradient)
        outputs = torch.cat([seen, network(second)])
    (_, after), (_, found) = (_update_and_gradient(network, x) for x in (first, between))
    drift, mu = torch.maximum(before / after, after / before), torch.minimum(outputs, 1 - outputs)
    return float(found / (drift * 0.25 / (mu * (1 - mu)).min() * update))


def steady_ratio() -> float:
    """lambda_steady over the Lipschitz constant of a network with n_l = n = 2: infinite.

    W_1 = I, W_2 = [[1, 1], [1, 1]], W_3 = (1, -1) and equal biases: both units of the second layer
    are equal everywhere, so f is constant. Dropout of one of them alone moves the first bias, at a
    point where all units are active by W_2^T z_2 W_3^T, of norm sqrt(2).
    """
    second, last = np.ones((2, 2)), np.array([1.0, -1.0])
    masks = np.array(list(itertools.product((0, 1), repeat=2)))
    updates = [np.linalg.norm(first * (second.T @ (z * last))) for first in masks for z in masks]
    # The gradient of f has the factor W_3 W_2 where both units of the second layer are active.
    with np.errstate(divide="ignore"):
        return float(np.max(updates) / np.abs(last @ second).max())


# Activations of four points of `claim_1_network` in its two hidden layers: boxes of the grid of
# pathways.
COVER = (
    ((1, 1, 0), (1, 1, 0)),
    ((0, 1, 1), (0, 1, 1)),
    ((1, 0, 0), (0, 0, 1)),
    ((0, 0, 1), (1, 0, 0)),
)


def claim_1_network() -> tuple[nn.Sequential, Tensor]:
    """A 3-3 ReLU network and five points: four active as in COVER, one all active."""
    second = torch.tensor([[-2.0, -0.2, 0.0], [0.0, 20.0, 0.0], [2.0, 1.0, -1.0]])
    layers = nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1)
    network = nn.Sequential(*layers).double()
    with torch.no_grad():
        network[0].weight.copy_(torch.eye(3))
        network[0].bias.zero_()
        network[2].weight.copy_(second)
        network[2].bias.copy_(torch.tensor([1.0, -1.0, -1.0]))
    points = [[0.1, 0.1, -1], [-1, 10, 1], [1, -1, -1], [-1, -1, 1], [0.4, 0.6, 0.1]]
    return network, torch.tensor(points, dtype=torch.float64)


def claim_1_ratio() -> float:
    """Pathways of COVER over the most that dropout covers exactly once, all ways tried."""
    boxes = []
    for first, second in COVER:
        kept_first, kept_second = (
            itertools.product(*([0, 1] if unit else [0] for unit in units))
            for units in (first, second)
        )
        boxes.append([np.outer(a, b) for a, b in itertools.product(kept_first, kept_second)])
    covered = (sum(choice) for choice in itertools.product(*boxes))
    return 9 / max(int((grid == 1).sum()) for grid in covered if grid.max() <= 1)


def lemma_3_ratio(width: int, delta: float = 0.05) -> float:
    """Lipschitz constant over what Lemma 3 allows: widths 1 and m = `width`, even.

    W_1 = 1, W_2 = +1 for m / 2 + 1 units and -1 for the others, W_3 = 1, all units active at the
    data by a large second bias: p_min = beta = xi = 1. Where the units of -1 are off the slope is m
    / 2 + 1. A step with dropout sees |A - B| with A and B binomial, or 0 without the first unit.
    |T| = k^2 (m + 1), as the proof asks for; k = log(m + 1) is lambda_steady over the largest step.
    """
    k = math.log(width + 1)
    steps, half = k**2 * (width + 1), width // 2
    # A - B + m / 2 - 1 is binomial with m trials, since m / 2 - 1 - B has the law of B.
    seen = np.arange(half + 2)
    within = binom.cdf(half - 1 + seen, width, 0.5) - binom.cdf(half - 2 - seen, width, 0.5)
    largest = seen[np.argmax(steps * np.log((1 + within) / 2) >= math.log1p(-delta))]
    return (half + 1) / (k * float(largest))


def counterexamples() -> dict[str, Check]:
    """By id, the ratio of measured to allowed in each example, and words on it."""
    wide = wide_first_layer()
    # The squared distances of three biases over |T| = 2, and as a variance over 3.
    returns = 1.5 * check_corollary_2(one_unit(1 + 1e-3, 1 - 0.6e-3), 2).ratio
    one_step = f"one step of one unit; {returns:.3f} for the variance of three biases in two steps"
    two_units, margin = "two units on one input", float(wide.lemma_upper.max())
    growth = {m: lemma_3_ratio(m) for m in (1000, 4000, 20_000, 100_000)}
    series = ", ".join(f"{ratio:.2f} at {m:,}" for m, ratio in growth.items())
    found = {
        "lemma-1/upper": (margin, two_units),
        "theorem-1/upper": (float((wide.length[..., 0] / wide.upper).max()), two_units),
        "corollary-3": (check_corollary_3(wide).ratio, two_units),
        "corollary-2": (check_corollary_2(one_unit(3.0), 1, ends=False).ratio, one_step),
        "theorem-2/sigmoid": (sigmoid_ratio(), "one unit on one input, two steps"),
        "remark": (subspace_ratio(), "W_1 = diag(1, 0.01), data in the first coordinate"),
        "claim-1": (claim_1_ratio(), "a 3-3 network and four points, all ways of dropping units"),
        "lemma-3": (max(growth.values()), f"widths 1 and m, grows with m: {series}"),
        "steady-tight": (steady_ratio(), "two hidden layers of two units, two inputs"),
        "lemma-5": (smooth_ratio(), "two units on one input, tanh"),
        "lemma-6": (first_layer_ratio(), "units relu(x) and relu(-x), W_2 = (100, 100)"),
    }
    return {id_: Check(ratio, 1, words) for id_, (ratio, words) in found.items()}


def _network(first: Tensor, last: Tensor, activation: nn.Module, bias=0.0) -> nn.Sequential:
    units, inputs = first.shape
    network = nn.Sequential(nn.Linear(inputs, units), activation, nn.Linear(units, 1)).double()
    with torch.no_grad():
        for layer, weight, shift in ((network[0], first, bias), (network[2], last, 0.0)):
            layer.weight.copy_(weight)
            layer.bias.copy_(torch.as_tensor(shift))
    return network


def _update_and_gradient(network: nn.Sequential, x: Tensor) -> tuple[Tensor, Tensor]:
    """|d f / d b_1|, the normalised update of a step, and |grad f| at one sample (1, n)."""
    x = x.double().requires_grad_()
    moved, gradient = torch.autograd.grad(network(x).sum(), (network[0].bias, x))
    return moved.norm(), gradient.norm()


def _follow(first: Tensor, last: Tensor, targets: Sequence[float]) -> Trajectory:
    """Steps of SGD on x = 1 with each of the targets in turn, all biases 0."""
    y = torch.tensor([targets], dtype=torch.float64)
    data = torch.ones(1, len(targets), 1, dtype=torch.float64), y
    samples = torch.arange(len(targets)).view(-1, 1, 1)
    networks = stack([_network(first, last, nn.ReLU())])
    return follow_training(networks, data, data, samples, loss="mse", lr=0.1, every=1)
