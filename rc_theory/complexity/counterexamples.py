"""Counterexamples to statements of Loukas et al., as ratios of measured to allowed."""

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
    """Train two units on one input for one step: W_1 = (1, 1)^T, output weights 1 and -0.9.

    The bias moves along g = (1, -0.9), which W_1^T maps to 0.1. The proof assumes |W_1^T g| >=
    sigma_n |g|, which can fail where n_1 > n.
    """
    return _follow(torch.ones(2, 1), torch.tensor([[1.0, -0.9]]), targets=[3.0])


def one_unit(*targets: float) -> Trajectory:
    """Train one unit for one step per target.

    One step gives one bias, whose variance is 0; Corollary 2 requires more. With the targets 1 +
    1e-3 and 1 - 0.6e-3 the errors have opposite signs and the biases are 0, s and 0. Their squared
    distances from the mean sum to 2/3 s^2. Required is s^2 / 4: half of the sum, but not a third.
    """
    return _follow(torch.ones(1, 1), torch.ones(1, 1), targets)


def both_sides(
    number: int, *, units: int = 64, inputs: int = 10, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Both ratios of Lemma 1, lambda / (sigma_1 u) and sigma_n u / lambda, (number,) each.

    Of random networks with one hidden layer, Gaussian weights and no biases, at one random sample
    each. With a_S the output weights of the active units, u = |a_S| and lambda = |W_1^T a_S|.
    """
    rng = np.random.default_rng(seed)
    first, x = rng.normal(size=(number, units, inputs)), rng.normal(size=(number, inputs, 1))
    active_weights = rng.normal(size=(number, units)) * ((first @ x)[..., 0] > 0)
    update = np.linalg.norm(active_weights, axis=1)
    lipschitz = np.linalg.norm((active_weights[:, None] @ first)[:, 0], axis=1)
    sigma = np.linalg.svd(first, compute_uv=False)
    return lipschitz / (sigma[:, 0] * update), sigma[:, -1] * update / lipschitz


def subspace_ratio() -> float:
    """Length over its upper bound with sigma_n replaced as in the remark after Theorem 1.

    W_1 = diag(1, 0.01), output weights 1 and 100, the sample (1, 0), the second unit active by its
    bias. On the subspace of the data sigma_n is 1, without the second unit; the update contains it.
    """
    first = torch.diag(torch.tensor([1.0, 0.01]))
    network = _network(first, torch.tensor([[1.0, 100.0]]), nn.ReLU(), bias=[0.0, 1.0])
    update, gradient = _update_and_gradient(network, torch.tensor([[1.0, 0.0]]))
    return float(update / gradient * first[:, 0].norm())


def smooth_ratio() -> float:
    """sigma_n u / lambda of `wide_first_layer` with tanh for ReLU (Lemma 5); sigma_n is sqrt(2)."""
    network = _network(torch.ones(2, 1), torch.tensor([[1.0, -0.9]]), nn.Tanh())
    update, gradient = _update_and_gradient(network, torch.ones(1, 1))
    return float(math.sqrt(2) * update / gradient)


def first_layer_ratio() -> float:
    """Lipschitz constant of the first layer over (theta + beta) / (1 - delta) of Lemma 6.

    Units relu(x) and relu(-x), W_2 = (100, 100). The domain is the samples 1 and -1, so delta = 0;
    beta vanishes with the learning rate. Each sample has one active unit, so the Lipschitz constant
    is 1. The proof omits the factor W_2 of the gradient with respect to b_1.
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
    at 3. The slope of f there is about the same as before, and mu is taken from f(3) before the
    step. The next sample, -1, has no active unit. At 0.05 the unit is active as at 3, but f is not
    saturated and so steeper. beta is the first weight, 1.
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
    _, after = _update_and_gradient(network, first)
    _, steepness = _update_and_gradient(network, between)
    drift = torch.maximum(before / after, after / before)  # 1 + gamma
    xi = 0.25 / (outputs * (1 - outputs)).min()
    return float(steepness / (drift * xi * update))


def steady_ratio() -> float:
    """lambda_steady over the Lipschitz constant of a network with n_l = n = 2: infinite.

    W_1 = I, W_2 = [[1, 1], [1, 1]], W_3 = (1, -1) and equal biases. Both units of the second layer
    are equal everywhere, so f is constant. If dropout removes one of them, the first bias moves, by
    sqrt(2) where all units are active. Assumption 1 fails then; with W_3 = (1, eps - 1) it holds at
    small learning rates, and the ratio is 1 / eps.
    """
    second, last = np.ones((2, 2)), np.array([1.0, -1.0])
    masks = np.array(list(itertools.product((0, 1), repeat=2)))
    updates = [np.linalg.norm(first * (second.T @ (z * last))) for first in masks for z in masks]
    # The gradient of f has the factor W_3 W_2 where both units of the second layer are active.
    with np.errstate(divide="ignore"):
        return float(np.max(updates) / np.abs(last @ second).max())


# Active units of the two hidden layers of `claim_1_network` at four points. Each pair of vectors is
# a box: its outer product marks the active pathways among all nine.
COVER = (
    ((1, 1, 0), (1, 1, 0)),
    ((0, 1, 1), (0, 1, 1)),
    ((1, 0, 0), (0, 0, 1)),
    ((0, 0, 1), (1, 0, 0)),
)


def claim_1_network() -> tuple[nn.Sequential, Tensor]:
    """Two hidden layers of three units, and five points: four as in COVER, one all active."""
    second = torch.tensor([[-2.0, -0.2, 0.0], [0.0, 20.0, 0.0], [2.0, 1.0, -1.0]])
    network = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU()).double()
    with torch.no_grad():
        network[0].weight.copy_(torch.eye(3))
        network[0].bias.zero_()
        network[2].weight.copy_(second)
        network[2].bias.copy_(torch.tensor([1.0, -1.0, -1.0]))
    points = [[0.1, 0.1, -1], [-1, 10, 1], [1, -1, -1], [-1, -1, 1], [0.4, 0.6, 0.1]]
    return network, torch.tensor(points, dtype=torch.float64)


def claim_1_ratio() -> float:
    """The nine pathways over the most that dropout in COVER covers exactly once; exhaustive."""
    boxes = []
    for first, second in COVER:
        masks = itertools.product(*([0, 1] if active else [0] for active in first + second))
        boxes.append([np.outer(mask[:3], mask[3:]) for mask in masks])
    covered = (sum(choice) for choice in itertools.product(*boxes))
    return 9 / max(int((grid == 1).sum()) for grid in covered if grid.max() <= 1)


def lemma_3_ratio(width: int) -> float:
    """Lipschitz constant over what Lemma 3 allows at delta = 0.05; widths 1 and m = `width`, even.

    W_1 = 1, W_2 = +1 for m / 2 + 1 units and -1 for the others, W_3 = 1; a large second bias makes
    all units active at the data, so p_min = beta = xi = 1. Where the units of weight -1 are
    inactive, the slope is m / 2 + 1. With dropout a step is |A - B|, A and B the numbers of units
    kept of either sign, or 0 if the first layer's unit is dropped. |T| = k^2 (m + 1), as the proof
    requires; k = log(m + 1) is lambda_steady over the largest step.
    """
    k = math.log(width + 1)
    steps, half = k**2 * (width + 1), width // 2
    # A - B + m / 2 - 1 is binomial with m trials, since m / 2 - 1 - B has the law of B.
    sizes = np.arange(half + 2)
    within = binom.cdf(half - 1 + sizes, width, 0.5) - binom.cdf(half - 2 - sizes, width, 0.5)
    # The least size that all steps keep to with probability 1 - delta.
    largest = sizes[np.argmax(steps * np.log((1 + within) / 2) >= math.log1p(-0.05))]
    return (half + 1) / (k * float(largest))


def counterexamples() -> dict[str, Check]:
    """Ratio of measured to allowed in each counterexample with a description, by statement id."""
    wide = wide_first_layer()
    # check_corollary_2 divides by |T| = 2, the variance of three biases by 3.
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
