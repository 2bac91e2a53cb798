"""Batched data augmentation on the device: random crop with flip, and mixup."""

import numpy as np
import torch
from torch.nn import functional as F


def crop_and_flip(images, padding, flip_probability, rng):
    """Random crop back to the same size after `padding` pixels of black border, then random horizontal flip.

    images: (B, C, H, W) uint8, before normalisation, so that the border is black as in the usual CIFAR recipe.
    padding: pixels; flip_probability: in [0, 1]; rng: numpy Generator.
    Source: v1 App. F (crop 32 with padding 4, flip 0.5).
    """
    batch, _, height, width = images.shape
    device = images.device
    shifts = torch.from_numpy(rng.integers(0, 2 * padding + 1, size=(2, batch, 1))).to(device)
    flips = torch.from_numpy(rng.random(batch) < flip_probability).to(device)[:, None]
    rows = torch.arange(height, device=device) + shifts[0]
    columns = torch.arange(width, device=device)
    columns = torch.where(flips, columns.flip(0), columns) + shifts[1]
    padded = F.pad(images, (padding,) * 4)
    sample = torch.arange(batch, device=device)[:, None, None]
    picked = padded.permute(0, 2, 3, 1)[sample, rows[:, :, None], columns[:, None, :]]
    return picked.permute(0, 3, 1, 2).contiguous()


def mixup(x, y, alpha, rng):
    """Convex combinations of a batch with a permutation of itself (Zhang et al. 2018).

    x: (B, ...) float; y: (B,) labels; alpha: parameter of Beta(alpha, alpha), 0 returns the batch as it is.
    Returns the mixed batch, the labels of the partners and the weight w of `y`: the loss is
    w CE(logits, y) + (1 - w) CE(logits, partners).
    """
    if not alpha:
        return x, y, 1.0
    weight = float(rng.beta(alpha, alpha))
    partner = torch.from_numpy(np.asarray(rng.permutation(len(y)))).to(x.device)
    return weight * x + (1 - weight) * x[partner], y[partner], weight
