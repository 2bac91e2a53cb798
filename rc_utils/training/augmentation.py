"""Batched data augmentation on the device: random crop with flip, and mixup."""

import numpy as np
import torch
from torch.nn import functional as F


def draw_epoch(config, n, rng):
    """The random numbers of an epoch of `n` images, batch after batch: draws (5, N) int64, and weights, one a batch.

    Rows of draws: index of the image, first row and column of its crop, whether it is flipped, position of its partner
    in the batch. N is `n`, or one less: batch normalisation has no variance over a single leftover image.
    """
    order, draws, weights = rng.permutation(n), [], []
    for start in range(0, n, config.batch_size):
        index = order[start : start + config.batch_size]
        if len(index) == 1 < config.batch_size:
            continue
        batch, weight = np.zeros((5, len(index)), dtype=np.int64), 1.0
        batch[0] = index
        if config.crop_padding or config.flip_probability:
            batch[1:3] = rng.integers(0, 2 * config.crop_padding + 1, size=(2, len(index)))
            batch[3] = rng.random(len(index)) < config.flip_probability
        if config.mixup_alpha:
            weight = float(rng.beta(config.mixup_alpha, config.mixup_alpha))
            batch[4] = rng.permutation(len(index))
        draws.append(batch)
        weights.append(weight)
    return np.concatenate(draws, axis=1), weights


def crop_and_flip(images, padding, shifts, flips):
    """Crop back to the same size after `padding` pixels of black border, then horizontal flip of some (v1 App. F).

    images: (B, C, H, W) uint8, before normalisation, so that the border is black as in the usual CIFAR recipe.
    shifts: (2, B) int64, first row and first column, 0 to 2 padding; flips: (B,) int64, 1 for a flip.
    """
    batch, _, height, width = images.shape
    device = images.device
    rows = torch.arange(height, device=device) + shifts[0, :, None]
    columns = torch.arange(width, device=device)
    columns = torch.where(flips[:, None] > 0, columns.flip(0), columns) + shifts[1, :, None]
    padded = F.pad(images, (padding,) * 4)
    sample = torch.arange(batch, device=device)[:, None, None]
    picked = padded.permute(0, 2, 3, 1)[sample, rows[:, :, None], columns[:, None, :]]
    return picked.permute(0, 3, 1, 2).contiguous()


def mixup(x, y, partner, weight):
    """Convex combinations of a batch with a permutation of itself (Zhang et al. 2018).

    x: (B, ...) float; y: (B,) labels; partner: (B,) int64; weight w in [0, 1], at 1 the batch stays as it is.
    Returns the mixed batch and the labels of the partners: the loss is w CE(logits, y) + (1 - w) CE(logits, partners).
    """
    if weight == 1:
        return x, y
    return weight * x + (1 - weight) * x[partner], y[partner]
