"""Full-batch gradient descent of many two-layer networks and learning rates side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from torch import Tensor

from rc_theory.two_layer.networks import CHUNK, Networks, active_neurons, quadratic_loss, sharpness
from rc_utils.validation import check_count, check_name, require

DATASETS = ("sphere", "digits", "line")
# A training whose loss exceeds its initial loss by this factor has diverged.
DIVERGED = 1e4
# Steps after which `train_to_loss` drops the networks that have stopped from its batch.
_DROP_EVERY = 50


@dataclass(frozen=True, eq=False)
class Training:
    """Trajectory of M networks at the T steps that `train` kept, and their training sets.

    loss, sharpness: (T, M); weights: (T, M, p, d); lr, diverged: (M,). A network whose loss passes
    DIVERGED times its initial one has diverged, and is not trained further.
    """

    steps: list[int]
    loss: Tensor
    sharpness: Tensor
    weights: Tensor
    signs: Tensor
    x: Tensor
    y: Tensor
    lr: Tensor
    diverged: Tensor

    @property
    def settled(self) -> Tensor:
        """Whether a network has not diverged and ends with an active neuron, (M,) bool."""
        last = Networks(self.weights[-1], self.signs)
        return ~self.diverged & (active_neurons(last, self.x).sum(1) > 0)


def training_sets(
    name: str, number: int, n_train: int, *, dim: int = 8, seed: int = 0, device: str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Draw `number` training sets: x (number, n_train, d) and targets +-1, (number, n_train).

    sphere: random points of norm 1 in R^dim with random targets. digits: scikit-learn's 3 and 8, 64
    pixels scaled to norm 1, drawn without replacement. line: the points (1, t), t evenly spaced in
    [-1, 1], with alternating targets. Raises ValueError for another name.
    """
    check_name("dataset", name, DATASETS)
    generator = torch.Generator().manual_seed(seed)
    if name == "line":
        t = torch.linspace(-1, 1, n_train, dtype=torch.float64)
        x = torch.stack([torch.ones_like(t), t], 1).repeat(number, 1, 1)
        y = ((-1.0) ** torch.arange(n_train)).double().repeat(number, 1)
        return x.to(device), y.to(device)
    if name == "sphere":
        x = torch.randn(number, n_train, dim, generator=generator, dtype=torch.float64)
        y = 2.0 * torch.randint(0, 2, (number, n_train), generator=generator).double() - 1
    else:
        digits = load_digits()
        chosen = (digits.target == 3) | (digits.target == 8)
        pixels = torch.from_numpy(digits.data[chosen])
        labels = torch.from_numpy(2.0 * (digits.target[chosen] == 3) - 1)
        found = len(labels)
        require(n_train <= found, f"n_train={n_train}; digits has {found} images of 3 and 8")
        orders = [torch.randperm(found, generator=generator)[:n_train] for _ in range(number)]
        x, y = pixels[torch.stack(orders)], labels[torch.stack(orders)]
    return (x / x.norm(dim=2, keepdim=True)).to(device), y.to(device)


@torch.no_grad()
def train(
    networks: Networks, x: Tensor, y: Tensor, lr: Tensor, *, steps: int, keep: int = 40
) -> Training:
    """Train all networks by gradient descent W <- W - lr dL/dW, each with its own lr (M,).

    Keeps step 0, the last step, and steps^(k / keep), rounded, for k from 0 to `keep` - 2: evenly
    spaced in log(step), but for the last gap, which is twice as wide. `steps` is 1 or more.
    """
    steps = check_count("steps", steps, 1)
    kept = sorted({0, steps, *(round(steps ** (k / keep)) for k in range(keep - 1))})
    weights, signs = networks.weights.clone(), networks.signs
    limit = DIVERGED * quadratic_loss(networks, x, y)
    rate, history = lr, []
    for step in range(steps + 1):
        loss, gradient = _loss_and_gradient(weights, signs, x, y)
        rate = torch.where(loss <= limit, rate, 0.0)
        if step in kept:
            history.append((loss, sharpness(Networks(weights, signs), x), weights.clone()))
        weights -= (rate / x.shape[1])[:, None, None] * gradient
    loss, sharp, snapshots = (torch.stack(column) for column in zip(*history, strict=True))
    return Training(kept, loss, sharp, snapshots, signs, x, y, lr, rate == 0)


def _loss_and_gradient(weights, signs, x, y):
    """L of each network, (M,), and N dL/dW, (M, p, d)."""
    active = torch.relu_(x @ weights.mT)
    residual = (active @ signs.unsqueeze(2)).squeeze(2) - y
    slope = (active > 0) * residual.unsqueeze(2)
    return residual.square().mean(1) / 2, signs.unsqueeze(2) * (slope.mT @ x)


def over_rates(
    networks: Networks, x: Tensor, y: Tensor, factors: Sequence[float]
) -> tuple[Networks, Tensor, Tensor, Tensor]:
    """Pair each network with each lr = factor * 2 / (its initial sharpness), arguments of `train`.

    A factor of 1 is the largest lr at which the initial point is stable. Network m with factor k
    has index m * len(factors) + k.
    """
    edge, number = 2 / sharpness(networks, x), len(factors)
    lr = edge[:, None] * torch.tensor(factors, dtype=torch.float64, device=x.device)
    each = (networks.weights, networks.signs, x, y)
    weights, signs, x, y = (tensor.repeat_interleave(number, 0) for tensor in each)
    return Networks(weights, signs), x, y, lr.flatten()


@torch.no_grad()
def train_to_loss(
    networks: Networks, x: Tensor, y: Tensor, lr: Tensor, level: float, *, steps: int
) -> tuple[Networks, Tensor]:
    """Train each network until its loss is at most `level`; returns them and whether it is, (M,).

    Like `train` without the history. A network stops at that loss, on divergence or after `steps`.
    """
    weights, inverse = networks.weights.clone(), 1 / x.shape[1]
    reached = torch.zeros(len(lr), dtype=torch.bool, device=x.device)
    limit = DIVERGED * quadratic_loss(networks, x, y)
    size = max(1, CHUNK // (x.shape[1] * weights.shape[1]))
    for going in torch.arange(len(lr), device=x.device).split(size):
        start = 0
        while len(going):
            w, points, targets, signs = weights[going], x[going], y[going], networks.signs[going]
            moving = torch.ones(len(going), dtype=torch.bool, device=x.device)
            for step in range(start, min(start + _DROP_EVERY, steps + 1)):
                loss, gradient = _loss_and_gradient(w, signs, points, targets)
                reached[going] |= moving & (loss <= level)
                moving &= (loss > level) & (loss <= limit[going]) & (step < steps)
                w -= (moving * lr[going] * inverse)[:, None, None] * gradient
            weights[going] = w
            going, start = going[moving], start + _DROP_EVERY
    return Networks(weights, networks.signs), reached
