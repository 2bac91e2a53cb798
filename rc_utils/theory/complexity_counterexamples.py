"""Runs of one or two steps that break statements of Loukas et al. as they are printed."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from rc_utils.theory.complexity import (
    Check,
    Trajectory,
    check_corollary_2,
    check_corollary_3,
    check_lemma_1,
    check_theorem_1,
    follow_training,
)
from rc_utils.theory.stacked import stack


def wide_first_layer() -> Trajectory:
    """One step of a network with two units on one input, W_1 = (1, 1)^T, and output weights 1 and -0.9.

    The bias moves along (1, -0.9), of which W_1^T leaves 0.1: the proof takes |W_1^T g| >= sigma_n |g|, which fails
    where n_1 > n.
    """
    return _follow(torch.ones(2, 1), torch.tensor([[1.0, -0.9]]), targets=[3.0])


def uneven_steps() -> Trajectory:
    """Two successive steps of one unit, on a sample that is all but fitted and on one that is not.

    The bias after the last step is not among those whose variance Corollary 2 takes, though the step counts.
    """
    return _follow(torch.ones(1, 1), torch.ones(1, 1), targets=[1.01, 3.0])


def counterexamples() -> dict[str, Check]:
    """By id, the largest ratio of measured to allowed in these runs, and words on where it is."""
    wide, uneven = wide_first_layer(), uneven_steps()
    found = {"lemma-1": check_lemma_1(wide), "theorem-1": check_theorem_1(wide), "corollary-3": check_corollary_3(wide)}
    found = {id_: replace(check, detail="two units on one input") for id_, check in found.items()}
    two = check_corollary_2(uneven, 2, ends=False)
    return found | {"corollary-2": replace(two, detail="two successive steps; the variance over a single one is 0")}


def _follow(first: Tensor, last: Tensor, targets: list[float]) -> Trajectory:
    """Steps of SGD on x = 1 with each of the targets in turn, all biases 0."""
    network = nn.Sequential(nn.Linear(1, len(first)), nn.ReLU(), nn.Linear(len(first), 1)).double()
    with torch.no_grad():
        for layer, weight in ((network[0], first), (network[2], last)):
            layer.weight.copy_(weight)
            layer.bias.zero_()
    y = torch.tensor([targets], dtype=torch.float64)
    data = torch.ones(1, len(targets), 1, dtype=torch.float64), y
    samples = torch.arange(len(targets)).view(-1, 1, 1)
    return follow_training(stack([network]), data, data, samples, loss="mse", lr=0.1, every=1)
