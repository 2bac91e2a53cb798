"""Random parts of a batch: crops, flips, mixup, points between images, random labels."""

import numpy as np
import torch
from torch.nn import functional as F

from rc_utils.counting.sampling import draw_distinct, vertex_indices
from rc_utils.validation import require

# No training uses points on the first segments of the default seed, which campaigns count.
COUNTED_SEGMENTS = 1000
# Second entries of seeds: neither choice shares a random stream with the order of the batches.
RANDOM_LABELS, POINTS_BETWEEN = 1, 2


def batches(config, data, rng, between=None):
    """Yield the batches of an epoch: images, labels, labels of mixup's partners, mixup's weight.

    For a weight w < 1 the images are w x + (1 - w) x[partner], and the loss is w CE(logits, labels)
    + (1 - w) CE(logits, partners' labels) (Zhang et al. 2018). Points of `between` and their labels
    follow those of the images.
    """
    order, draws, weights = rng.permutation(len(data.y_train)), [], []
    for start in range(0, len(order), config.batch_size):
        index = order[start : start + config.batch_size]
        if start > 0 and len(index) == 1 and config.batch_size > 1:
            continue  # batch normalisation has no variance over a single leftover image
        # Rows: index of the image, first row and column of its crop, if it is flipped, its partner.
        drawn, weight = np.zeros((5, len(index)), dtype=np.int64), 1.0
        drawn[0] = index
        if config.crop_padding or config.flip_probability:
            drawn[1:3] = rng.integers(0, 2 * config.crop_padding + 1, size=(2, len(index)))
            drawn[3] = rng.random(len(index)) < config.flip_probability
        if config.mixup_alpha:
            weight = float(rng.beta(config.mixup_alpha, config.mixup_alpha))
            drawn[4] = rng.permutation(len(index))
        draws.append(drawn)
        weights.append(weight)
    # One copy for the whole epoch, since every copy waits for the device.
    draws = torch.from_numpy(np.concatenate(draws, axis=1)).to(data.y_train.device)
    for drawn, weight in zip(draws.split(config.batch_size, dim=1), weights, strict=True):
        index, top, left, flips, partner = drawn
        if config.crop_padding or config.flip_probability:
            raw = crop_and_flip(data.x_train.raw[index], config.crop_padding, top, left, flips)
            x = data.x_train.standardise(raw)
        else:
            x = data.x_train[index]
        if weight < 1:
            x = weight * x + (1 - weight) * x[partner]
        y = data.y_train[index]
        y_other, number = y[partner], round(config.between_share * len(y))
        if number:
            more_x, more_y = between.next(number)
            x, y = torch.cat([x, more_x]), torch.cat([y, more_y])
        yield x, y, y_other, weight


def crop_and_flip(images, padding, top, left, flips):
    """Crop to the same size after `padding` pixels of black border, then flip some (v1 App. F).

    images: (B, C, H, W) uint8, not normalised yet, so that the border is black. top, left: (B,)
    int64, first row and column, 0 to 2 padding; flips: (B,) int64, 1 for a horizontal flip.
    """
    height, width = images.shape[2:]
    windows = F.pad(images, (padding,) * 4).unfold(2, height, 1).unfold(3, width, 1)
    cropped = windows[torch.arange(len(images), device=images.device), :, top, left]
    return torch.where(flips.view(-1, 1, 1, 1) > 0, cropped.flip(3), cropped)


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
        none = f"between_share={config.between_share:g}: no batch holds a point"
        in_batch = round(config.between_share * min(config.batch_size, n))
        require(in_batch > 0, f"{none}; raise it or the batch size")
        pairs = draw_distinct(rng, n, number + COUNTED_SEGMENTS, 2)
        counted = vertex_indices(n, num_samples=COUNTED_SEGMENTS, distinct=2, seed=0)
        # The same number for (i, j) and (j, i).
        is_counted = np.isin(pairs.min(1) * n + pairs.max(1), counted.min(1) * n + counted.max(1))
        pairs = pairs[~is_counted][:number]
        few = f"between_share: too few pairs of {n} images are not counted; give more images"
        require(len(pairs) == number, few)
        labels = data.y_train.cpu().numpy()[pairs]
        if config.between_labels == "nearer":
            alpha = rng.random(number)
            y = np.where(alpha < 0.5, labels[:, 0], labels[:, 1])
        else:
            fault = "between_labels 'third' needs a third class, and there are two"
            require(data.num_classes > 2, fault)
            alpha = np.full(number, 0.5)
            chance = rng.random((number, data.num_classes))
            np.put_along_axis(chance, labels, -1.0, axis=1)
            y = chance.argmax(1)
        self.images, self.start = data.x_train, 0
        self.pairs, self.y = torch.from_numpy(pairs).to(device), torch.from_numpy(y).to(device)
        self.alpha = torch.from_numpy(alpha).float().view(-1, 1, 1, 1).to(device)

    def next(self, number):
        """(x (number, C, H, W), y (number,)) of the points that come next, going round."""
        index = torch.arange(self.start, self.start + number, device=self.y.device) % len(self.y)
        self.start += number
        first, second = self.images[self.pairs[index, 0]], self.images[self.pairs[index, 1]]
        return torch.lerp(first, second, self.alpha[index]), self.y[index]
