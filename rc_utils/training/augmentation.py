"""Random parts of a batch: crops, flips, mixup, points between images, random labels."""

import numpy as np
import torch
from torch.nn import functional as F

from rc_utils.checks import require
from rc_utils.counting.sampling import draw_distinct, vertex_indices

# Segments of the default seed, which campaigns count: no training uses points between their ends.
COUNTED_SEGMENTS = 1000
# Second entry of the seed of each random choice: none shares a stream with the batches' order.
RANDOM_LABELS, POINTS_BETWEEN = 1, 2


def draw_epoch(config, n, rng):
    """The random numbers of an epoch of `n` images, batch after batch: draws (5, N), and weights.

    Rows of draws, int64: index of the image, first row and column of its crop, whether it is
    flipped, position of its partner in the batch. One weight a batch. N is `n`, or one less: batch
    normalisation has no variance over a single leftover image.
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


def augmented(config, data, draws, weight):
    """The batch that `draws` (5, B) and `weight` ask for: images, labels, partners' labels.

    For a mixup weight w < 1 the images are w x + (1 - w) x[partner] (Zhang et al. 2018), and the
    loss is w CE(logits, labels) + (1 - w) CE(logits, partners' labels).
    """
    images, y, partner = data.x_train, data.y_train[draws[0]], draws[4]
    if config.crop_padding or config.flip_probability:
        raw = crop_and_flip(images.raw[draws[0]], config.crop_padding, draws[1:3], draws[3])
        x = images.standardise(raw)
    else:
        x = images[draws[0]]
    if weight < 1:
        x = weight * x + (1 - weight) * x[partner]
    return x, y, y[partner]


def crop_and_flip(images, padding, shifts, flips):
    """Crop to the same size after `padding` pixels of black border, then flip some (v1 App. F).

    images: (B, C, H, W) uint8, not normalised yet, so that the border is black. shifts: (2, B)
    int64, first row and first column, 0 to 2 padding; flips: (B,) int64, 1 for a horizontal flip.
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


def random_labels(config, data):
    """Labels (N,) for the training images, uniform over the classes, by the seed of `config`."""
    rng = np.random.default_rng([config.seed, RANDOM_LABELS])
    labels = rng.integers(data.num_classes, size=len(data.y_train))
    return torch.from_numpy(labels).to(data.y_train.device)


class PointsBetween:
    """Points (1 - alpha) x_i + alpha x_j for the share `between_share` of the training images.

    Pairs (M, 2) of i, j are uniform over pairs of different images, without those that a count with
    seed 0 looks at. between_labels "nearer": alpha is uniform in [0, 1], and a point has the label
    of the nearer image. "third": alpha is 1/2, and a label is drawn uniformly from the classes of
    neither image.
    """

    def __init__(self, config, data):
        n, rng = len(data.y_train), np.random.default_rng([config.seed, POINTS_BETWEEN])
        number, device = round(config.between_share * n), data.y_train.device
        pairs = draw_distinct(rng, n, number + COUNTED_SEGMENTS, 2)
        counted = vertex_indices(n, num_samples=COUNTED_SEGMENTS, distinct=2, seed=0)
        # One number for each unordered pair.
        numbers, taken = (p.min(1) * n + p.max(1) for p in (pairs, counted))
        pairs = pairs[~np.isin(numbers, taken)][:number]
        few = f"between_share: too few pairs of {n} images are not counted; give more images"
        require(len(pairs) == number, few)
        labels = data.y_train.cpu().numpy()[pairs]
        if config.between_labels == "nearer":
            alpha = rng.random(number)
            y = np.where(alpha < 0.5, labels[:, 0], labels[:, 1])
        else:
            alpha = np.full(number, 0.5)
            chance = rng.random((number, data.num_classes))
            np.put_along_axis(chance, labels, -1.0, axis=1)
            y = chance.argmax(1)
        self.images, self.start = data.x_train, 0
        self.pairs, self.y = torch.from_numpy(pairs).to(device), torch.from_numpy(y).to(device)
        alpha = alpha.astype(np.float32).reshape(-1, 1, 1, 1)
        self.alpha = torch.from_numpy(alpha).to(device)

    def next(self, number):
        """(x (number, C, H, W), y (number,)) of the points that come next, going round."""
        index = torch.arange(self.start, self.start + number, device=self.y.device) % len(self.y)
        self.start += number
        first, second = self.images[self.pairs[index, 0]], self.images[self.pairs[index, 1]]
        return torch.lerp(first, second, self.alpha[index]), self.y[index]
