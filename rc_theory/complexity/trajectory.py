"""The trajectory of the first bias during training, and the bounds of Loukas et al., Sec. 4."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from rc_theory.complexity.stacked import LOSSES, StackedLinear, Step, sgd_steps
from rc_utils.evaluation import full_precision
from rc_utils.validation import require


@dataclass(frozen=True)
class Trajectory:
    """Record of M models over K blocks of `every` steps; arrays (K, M) unless said otherwise.

    For each step, u = |b_1^(t+1) - b_1^(t)| / (alpha epsilon), with epsilon the derivative of the
    loss by the output; lambda is the Lipschitz constant of the sample's region; s_1 and s_n are the
    largest and smallest singular value of W_1. Steps with epsilon = 0 contribute 0. With batches,
    epsilon is the mean of |epsilon|, and lambda the mean weighted by |epsilon|.
    """

    steps: np.ndarray  # (K,), steps done at the end of each block
    every: int
    lr: float
    train_loss: np.ndarray  # mean losses at the end of the block
    test_loss: np.ndarray
    length: np.ndarray  # sum of u over the block, (K, M, L), for the first or all L biases
    lower: np.ndarray  # sums of lambda / s_1 and lambda / s_n, the bounds of Theorem 1
    upper: np.ndarray
    lemma_lower: np.ndarray  # largest lambda / (s_1 u) and s_n u / lambda of a step (Lemma 1)
    lemma_upper: np.ndarray
    num_checked: np.ndarray  # steps with a gradient
    reach: np.ndarray  # sum of alpha epsilon lambda / s_n, what Corollary 3 allows
    inverse_square: np.ndarray  # sum of 1 / epsilon^2
    # b_1 minus its initial value: summed over the block, before each step, and at the block's end.
    bias_sum: np.ndarray  # (K, M, n_1)
    bias_end: np.ndarray  # (K, M, n_1)
    bias_square: np.ndarray  # its squared norm, summed likewise
    lipschitz_mean: np.ndarray  # lambda over all training points, at the end of the block

    @property
    def distance(self) -> np.ndarray:
        """|b_1^(t) - b_1^(0)| at the end of each block, (K, M)."""
        return np.linalg.norm(self.bias_end, axis=2)

    def variance(self, window: int, *, ends: bool = False) -> np.ndarray:
        """Variance of b_1 over each `window` successive blocks, (K - window + 1, M).

        `ends` includes the bias after the last step, but still divides the sum of squares by the
        number of steps, as the proof of Corollary 2 does.
        """
        total, square = (windows_sum(v, window) for v in (self.bias_sum, self.bias_square))
        steps = window * self.every
        if ends:
            last = self.bias_end[window - 1 :]
            total, square = total + last, square + (last**2).sum(2)
        return (square - (total**2).sum(2) / (steps + ends)).clip(0) / steps


def windows_sum(values: np.ndarray, window: int) -> np.ndarray:
    """Sums over each `window` successive rows of values (K, ...), (K - window + 1, ...)."""
    padded = np.concatenate([np.zeros_like(values[:1]), values.cumsum(0)])
    return padded[window:] - padded[:-window]


def lipschitz_constants(networks: nn.Sequential, x: Tensor, loss: str) -> Tensor:
    """|grad f| of each model at each point, (M, N); x (M or 1, N, *shape)."""
    inputs = x.expand(len(next(networks.parameters())), *x.shape[1:]).detach().requires_grad_()
    z = networks(inputs).squeeze(-1)
    (gradient,) = torch.autograd.grad(z.sum(), inputs)
    return LOSSES[loss].output_slope(z.detach()) * gradient.flatten(2).norm(dim=2)


@full_precision()
def follow_training(
    networks: nn.Sequential,
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    samples: Tensor,
    *,
    loss: str,
    lr: float,
    every: int,
    all_layers: bool = False,
) -> Trajectory:
    """Train a stack in place (`sgd_steps`) and record biases, Lipschitz constants and losses.

    train, test: (x, y) with x (M or 1, N, *shape), y (M, N). samples: (T, M, B); T is cut to a
    multiple of `every`. The first layer is a `StackedIdentity` or linear. Raises ValueError for
    less than one block of steps and for outputs that are not finite.
    """
    total = len(samples)
    require(1 <= every <= total, f"every is {every}; expected 1 to the number of steps, {total}")
    first, rows = networks[0], []
    initial = first.bias.detach().clone()
    biases = [name for name, _ in networks.named_parameters() if name.endswith("bias")]
    biases = biases if all_layers else biases[:1]
    blocks = samples[: total // every * every].split(every)
    for part in tqdm(blocks, desc=f"{every} steps each", disable=None):
        block, bias_sum = [], 0.0
        for step in sgd_steps(networks, *train, part, loss=loss, lr=lr):
            finite = math.isfinite(step.z.sum().item())
            require(finite, f"an output is not finite: is lr = {lr} too large?")
            shift = (first.bias.detach() - initial).flatten(1).double()
            bias_sum = bias_sum + shift
            block.append(_observe(first, step, biases, loss) | {"square": shift.square().sum(1)})
        bias_end = (first.bias.detach() - initial).flatten(1).double()
        moved = {"bias_sum": bias_sum.cpu().numpy(), "bias_end": bias_end.cpu().numpy()}
        rows.append(_summarise_block(networks, train, test, block, loss, lr) | moved)
    arrays = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    return Trajectory(steps=every * np.arange(1, len(rows) + 1), every=every, lr=lr, **arrays)


def _observe(first: nn.Module, step: Step, biases: Iterable[str], loss: str) -> dict[str, Tensor]:
    """Quantities of one step: |epsilon|, norms of gradients by b_l (M, L) and by x, s_1, s_n."""
    errors = step.slope / LOSSES[loss].output_slope(step.z)
    updates = torch.stack([step.gradients[name].flatten(1).norm(dim=1) for name in biases], dim=1)
    input_gradient = step.input_gradients.flatten(2).norm(dim=2).sum(1)
    found = {"error": errors.abs().mean(1), "update": updates, "input_gradient": input_gradient}
    if isinstance(first, StackedLinear):
        sigma = torch.linalg.svdvals(first.weight.detach())
        found |= {"largest": sigma[:, 0], "smallest": sigma[:, -1]}
    return found


def _summarise_block(networks, train, test, block, loss, lr):
    row = {}
    with torch.no_grad():
        for key, (x, y) in (("train_loss", train), ("test_loss", test)):
            z = networks(x.expand(len(y), *x.shape[1:])).squeeze(-1)
            row[key] = LOSSES[loss].value(z, y).double().mean(1).cpu().numpy()
    lipschitz = lipschitz_constants(networks, train[0], loss).double().cpu().numpy()
    row["lipschitz_mean"] = lipschitz.mean(1)
    steps = {}
    for key in block[0]:
        steps[key] = torch.stack([step[key] for step in block]).double().cpu().numpy()
    return row | _summarise_steps(lr=lr, **steps)


def _summarise_steps(error, update, input_gradient, square, *, lr, largest=1.0, smallest=1.0):
    """Sums and maxima over the S steps of a block; update (S, M, L), the others (S, M) or 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        normalised = np.where(error[..., None] > 0, update / error[..., None], 0)
        lipschitz = np.where(error > 0, input_gradient / error, 0)
        checked = (normalised[..., 0] > 0) | (lipschitz > 0)
        lemma_lower = np.where(checked, lipschitz / (largest * normalised[..., 0]), 0)
        lemma_upper = np.where(checked, smallest * normalised[..., 0] / lipschitz, 0)
        upper = np.where(lipschitz > 0, lipschitz / smallest, 0)
        reach = np.where(input_gradient > 0, lr * input_gradient / smallest, 0)
        inverse_square = (1 / error**2).sum(0)
    return {
        "length": normalised.sum(0),
        "lower": (lipschitz / largest).sum(0),
        "upper": upper.sum(0),
        "lemma_lower": lemma_lower.max(0),
        "lemma_upper": lemma_upper.max(0),
        "num_checked": checked.sum(0),
        "reach": reach.sum(0),
        "inverse_square": inverse_square,
        "bias_square": square.sum(0),
    }
