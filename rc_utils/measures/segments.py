"""Measures along segments between training images: accuracy of mixtures, thickness of the boundary.

seed: of the segments. 0 draws the first COUNTED_SEGMENTS segments that `region_count` draws with its seed 0, so that
measure and count see the same; OWN draws others, so that their agreement is not shared sampling noise.
"""

import numpy as np
import torch
from scipy.integrate import cumulative_trapezoid, trapezoid

from rc_utils.checks import require
from rc_utils.counting.classifier import as_classifier
from rc_utils.counting.evaluation import read_outputs
from rc_utils.counting.sampling import gather, vertex_indices

COUNTED_SEGMENTS, INTRA_SEGMENTS = 1000, 500
OWN = 1
# Points at equal distances from one end of a segment to the other; odd, so that the midpoint is one of them.
SEGMENT_POINTS = 11
# u of the mixtures on either half of a segment.
MAGNITUDES = np.linspace(0, 1, SEGMENT_POINTS // 2 + 1)


def mixup_accuracy(network, x, y, seed=0):
    """Area under the mixup curve, int_0^1 A(u) du, in [0, 1], over all segments, of equal and of different labels.

    A(u) is the share of mixtures (1 - u/2) x_i + u/2 x_j that get the label y_i of the nearer end, over both ends of
    every segment: the perturbation response curve of Schiff et al. 2021 (Sec. 3) with mixup as the perturbation.

    x: images (N, C, H, W); y: labels (N,). Cost: 1,000 segments of 11 points, 11,000 forward passes.
    """
    return float(trapezoid(mixup_curve(network, x, y, "all", seed), MAGNITUDES))


def gi_score(network, x, y, classes="inter", seed=0):
    """Gi-score of mixup: int_0^1 (u - int_0^u A(v) dv) du, 0 for a perfect curve, 1/2 where no mixture is right.

    The area between the cumulated curve A of `mixup_accuracy` and that of a network which is always right, as the Gini
    coefficient has it (Schiff et al. 2021, Predicting deep neural network generalization with perturbation response
    curves, Sec. 3). `classes`: "inter" for pairs of different labels, "intra" for pairs of one label.

    x: images (N, C, H, W); y: labels (N,). Cost: that of `mixup_accuracy`; half of it for "intra".
    """
    curve = mixup_curve(network, x, y, classes, seed)
    return float(trapezoid(MAGNITUDES - cumulative_trapezoid(curve, MAGNITUDES, initial=0), MAGNITUDES))


def pal_score(network, x, y, classes="inter", seed=0):
    """Pal-score of mixup: int_0.4^1 F(u) du / int_0^0.1 F(u) du with F(u) = int_0^u A(v) dv; 84 for a perfect curve.

    Areas below the cumulated curve of the strongest 60 % and the weakest 10 % of the perturbations, as the Palma ratio
    has it (Schiff et al. 2021, Sec. 3 and Fig. 1). A and `classes` as in `gi_score`, A linear between its six points;
    0 where no mixture near an image gets its label.

    x: images (N, C, H, W); y: labels (N,). Cost: that of `gi_score`.
    """
    curve = mixup_curve(network, x, y, classes, seed)
    u = np.linspace(0, 1, 1001)
    cumulated = cumulative_trapezoid(np.interp(u, MAGNITUDES, curve), u, initial=0)
    weak, strong = u <= 0.1 + 1e-9, u >= 0.4 - 1e-9
    near = trapezoid(cumulated[weak], u[weak])
    return float(trapezoid(cumulated[strong], u[strong]) / near) if near > 0 else 0.0


def boundary_thickness(network, x, alpha=0.0, beta=0.75, seed=0):
    """E |x_1 - x_0| int_0^1 1{alpha < g_ij(x(t)) < beta} dt with g_ij = p_i - p_j, p the softmax scores.

    Yang et al. 2020, Boundary thickness and robustness in learning models, Definition 1, with their alpha and beta.
    Theirs are segments from images to adversarial examples; here they are between training images, those of different
    predicted classes i and j at their ends. Their boundary is that between i and j: a point where a third class wins is
    outside, however near p_i and p_j are there. Neither end comes first: the mean over both directions is taken.
    0 where every segment has one class at both ends. Unit: Euclidean distance of standardised images.

    x: images (N, C, H, W). Cost: that of `mixup_accuracy`.
    """
    pairs = counted_pairs(x, COUNTED_SEGMENTS, seed)
    scores = scores_along(network, x, pairs)
    first, second = scores[:, 0].argmax(1), scores[:, -1].argmax(1)
    crosses = (first != second).cpu()
    if not crosses.any():
        return 0.0
    winner = scores.argmax(2)
    of_the_ends = (winner == first[:, None]) | (winner == second[:, None])
    of_first = torch.take_along_dim(scores, first[:, None, None], 2).squeeze(2)
    of_second = torch.take_along_dim(scores, second[:, None, None], 2).squeeze(2)
    difference = of_first - of_second
    one_way = of_the_ends & (difference > alpha) & (difference < beta)
    other_way = of_the_ends & (-difference > alpha) & (-difference < beta)
    inside = (one_way.double() + other_way.double()).cpu() / 2
    share = torch.trapezoid(inside, dx=1 / (SEGMENT_POINTS - 1))
    return float((_lengths(x, pairs) * share)[crosses].mean())


def mixup_curve(network, x, y, classes, seed=0):
    """List of A(u) of `mixup_accuracy` at u = 0, 0.2, ..., 1; `classes` of the ends: "all", "inter", "intra"."""
    pairs = intra_pairs(y) if classes == "intra" else counted_pairs(x, COUNTED_SEGMENTS, seed)
    labels = scores_along(network, x, pairs).argmax(2)
    ends = y[torch.as_tensor(pairs).to(y.device)].to(labels.device)
    half = len(MAGNITUDES)
    from_first = labels[:, :half] == ends[:, :1]
    from_second = labels.flip(1)[:, :half] == ends[:, 1:]
    right = (from_first.double() + from_second.double()) / 2
    if classes == "inter":
        right = right[ends[:, 0] != ends[:, 1]]
        require(len(right) > 0, "no segment has different labels at its ends: there is no pair of the kind 'inter'")
    return right.mean(0).tolist()


def counted_pairs(x, num_segments, seed=0):
    """Indices (num_segments, 2) of the ends of the first segments that `region_count` draws with `seed`."""
    return vertex_indices(len(x), num_samples=num_segments, distinct=2, seed=seed)


def intra_pairs(y):
    """Indices (n, 2), n <= INTRA_SEGMENTS, of pairs of images with one label: few of the counted segments are such."""
    labels = y.cpu().numpy()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    neighbours = np.column_stack([order[:-1], order[1:]])
    neighbours = neighbours[labels[order[:-1]] == labels[order[1:]]]
    require(len(neighbours) > 0, "no two training images have the same label: there is no pair of the kind 'intra'")
    return rng.permutation(neighbours)[:INTRA_SEGMENTS]


def scores_along(network, x, pairs):
    """Softmax scores (n, SEGMENT_POINTS, num_classes) at equal distances from x_i to x_j, (i, j) in pairs (n, 2)."""
    classifier = as_classifier(network, x)
    weights = torch.linspace(0, 1, SEGMENT_POINTS, dtype=classifier.dtype)

    def batch_of(start, stop):
        pair, step = np.divmod(np.arange(start, stop), SEGMENT_POINTS)
        ends = gather(x, pairs[pair], classifier.device, classifier.dtype)
        t = weights[step].to(classifier.device)
        return torch.lerp(ends[:, 0], ends[:, 1], t.view(-1, *[1] * (ends.ndim - 2)))

    total = len(pairs) * SEGMENT_POINTS
    (scores,) = read_outputs(classifier, batch_of, total, lambda output, n: [output.softmax(1)])
    return scores.view(len(pairs), SEGMENT_POINTS, -1)


def _lengths(x, pairs):
    """Euclidean lengths (n,) of the segments between images `pairs` (n, 2), float64 on the CPU."""
    parts = [gather(x, part, "cpu", torch.float64) for part in np.array_split(pairs, -(-len(pairs) // 100))]
    return torch.cat([(ends[:, 1] - ends[:, 0]).flatten(1).norm(dim=1) for ends in parts])
