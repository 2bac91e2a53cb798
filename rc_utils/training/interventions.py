"""What a training may be asked to do beyond the usual: other labels first, points between images, flatter minima."""

import contextlib
import dataclasses

import numpy as np
import torch

from rc_utils.checks import require
from rc_utils.counting.sampling import draw_distinct, vertex_indices

# Segments of the default seed that a training on points between images stays away from: those that campaigns count.
COUNTED_SEGMENTS = 1000
# Second entry of the seed of each random choice, so that none shares a stream with the order of the batches.
RANDOM_LABELS, POINTS_BETWEEN = 1, 2


def random_labels(config, data):
    """Labels (N,) for the training images of `data`, uniform over the classes, drawn by the seed of `config`."""
    rng = np.random.default_rng([config.seed, RANDOM_LABELS])
    labels = rng.integers(data.num_classes, size=len(data.y_train))
    return torch.from_numpy(labels).to(data.y_train.device)


@dataclasses.dataclass(frozen=True, eq=False)
class PointsBetween:
    """Labelled points x = (1 - alpha) x_i + alpha x_j between pairs of training images.

    pairs: (M, 2) int64 indices i, j of training images. alpha: (M, 1, 1, 1) float32. y: (M,) int64 labels.
    """

    pairs: torch.Tensor
    alpha: torch.Tensor
    y: torch.Tensor

    def batch(self, images, start, number, layout=torch.contiguous_format):
        """(x (number, C, H, W), y (number,)) of the next `number` points from position `start`, going round."""
        index = torch.arange(start, start + number, device=self.y.device) % len(self.y)
        first, second = images[self.pairs[index, 0]], images[self.pairs[index, 1]]
        return torch.lerp(first, second, self.alpha[index]).contiguous(memory_format=layout), self.y[index]


def points_between(config, data):
    """`PointsBetween` for the share `between_share` of the training images; None where that is none.

    Pairs are uniform over pairs of different images, without those that a count with seed 0 looks at.
    between_labels "nearer": alpha is uniform in [0, 1], and a point has the label of the nearer image. "third": alpha
    is 1/2, and a point has a label drawn uniformly from the classes of neither image.
    """
    number, n = round(config.between_share * len(data.y_train)), len(data.y_train)
    if not number:
        return None
    in_batch = round(config.between_share * min(config.batch_size, n))
    require(in_batch > 0, f"between_share={config.between_share:g}: no batch holds a point; raise it or the batch size")
    rng = np.random.default_rng([config.seed, POINTS_BETWEEN])
    pairs = draw_distinct(rng, n, number + COUNTED_SEGMENTS, 2)
    counted = vertex_indices(n, num_samples=COUNTED_SEGMENTS, distinct=2, seed=0)
    pairs = pairs[~np.isin(_pair_number(pairs, n), _pair_number(counted, n))][:number]
    require(len(pairs) == number, f"between_share: too few pairs of {n} images are not counted; give more images")
    labels = data.y_train.cpu().numpy()[pairs]
    if config.between_labels == "nearer":
        alpha = rng.random(number)
        y = np.where(alpha < 0.5, labels[:, 0], labels[:, 1])
    else:
        require(data.num_classes > 2, "between_labels 'third' needs a third class, and there are two")
        alpha = np.full(number, 0.5)
        chance = rng.random((number, data.num_classes))
        np.put_along_axis(chance, labels, -1.0, axis=1)
        y = chance.argmax(1)
    tensors = (pairs, alpha.astype(np.float32)[:, None, None, None], y.astype(np.int64))
    return PointsBetween(*(torch.from_numpy(values).to(data.y_train.device) for values in tensors))


def _pair_number(pairs, n):
    """One number for each unordered pair of indices below `n`."""
    return pairs.min(1) * n + pairs.max(1)


def gradient_penalty(loss, x):
    """Mean over a batch of ||d loss_i / d x_i||^2, to be minimised as well (Drucker and LeCun 1992).

    loss: the mean loss of the batch `x` (B, C, H, W), which requires gradients. With batch normalisation the loss of
    one image depends on the others; their gradients are then part of each d / d x_i.
    """
    (gradient,) = torch.autograd.grad(loss * len(x), x, create_graph=True)
    return gradient.flatten(1).square().sum(1).mean()


@contextlib.contextmanager
def ascended(parameters, radius):
    """Inside the block the parameters lie `radius` further along their common gradient, where the loss is larger.

    Sharpness-aware minimisation takes its gradient there (Foret et al. 2021, equation 2). parameters without a gradient
    stay; a gradient of zero moves none.
    """
    moved = [p for p in parameters if p.grad is not None]
    before = [p.detach().clone() for p in moved]
    norm = torch.stack([p.grad.norm() for p in moved]).norm()
    with torch.no_grad():
        for p in moved:
            p.add_(p.grad * (radius / norm.clamp(min=1e-12)))
    try:
        yield
    finally:
        with torch.no_grad():
            for p, old in zip(moved, before, strict=True):
                p.copy_(old)
