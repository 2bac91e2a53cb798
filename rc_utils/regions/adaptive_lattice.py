"""Adaptive counting on triangles, planes and simplices: a lattice that is refined where labels are in doubt."""

import math

import numpy as np
import torch

from rc_utils.checks import require
from rc_utils.regions.adaptive import labels_and_scores
from rc_utils.regions.components import count_along_edges
from rc_utils.regions.lattice import excess, make_lattice

# Intervals on an edge of the first lattice: at least so many (at most half the grid's), and a share of the grid's.
COARSE_INTERVALS = 12
COARSE_SHARE = 1 / 4
# Intervals of the last lattice to one of the grid's, in two dimensions and beyond. The fragmentation score of planes is
# defined by its grid, so that one stays.
FINEST_PER_GRID_INTERVAL = {"simplex": (4, 1), "box": (1, 1)}
# Times the bend that the most bent score shows nearby by which a score may leave its interpolation. In a box the
# smallest, of 2 to 8 tried on 100 planes of five networks each, with which no count differed from the grid's; on
# triangles the smallest, of 4 to 12 tried on eight of seven networks each, beyond which no more counts became right.
BEND_FACTOR = {"simplex": 5.0, "box": 6.0}
# Scores kept at once, for a block of simplices.
BLOCK_SCORES = 1 << 24


def count_adaptively_on_lattice(classifier, corners, lattice, batch_size):
    """Regions (B,) int64 of simplices or planes with corners (B, d + 1, *shape), and the number of evaluations.

    A coarse lattice is evaluated; then its interval is halved until it is a quarter of that of `lattice` on triangles,
    that of `lattice` in a box and in higher dimensions. A new point lies in the middle of two old ones. Its scores are
    interpolated, by a cubic through four points on their line where there are four, and evaluated instead where that
    leaves its label in doubt (`interpolate`). In a box every point beside another label is evaluated in the end, so
    that boundaries lie where the grid has them. Intervals that are no power of two of the last ones reach over the far
    side of the domain; what lies there is not counted.

    Raises ValueError for a model that returns labels alone, and where scores are not finite.
    """
    counted, spacing = _counted_lattice(lattice)
    fine = _reaching_over(counted, spacing)
    inside = np.flatnonzero(_inside(fine.indices, counted))
    weights = _coordinates(fine.indices, counted.resolution - 1)
    levels = list(_levels(fine, spacing))
    counts, evaluations, block, done = [], 0, 1, 0
    while done < len(corners):
        part = corners[done : done + block]
        look = _looker(classifier, part, weights, batch_size)
        scores, known = _scores_of_block(look, len(part), fine, spacing, levels)
        if lattice.domain == "box":
            look_beside_changes(look, scores, known, inside[counted.edges])
        labels = torch.from_numpy(scores[:, inside].argmax(2).astype(np.int32))
        counts.append(count_along_edges(labels, counted.edges).numpy())
        evaluations += int(known.sum())
        done += len(part)
        block = max(1, BLOCK_SCORES // (fine.num_points * scores.shape[2]))
    return np.concatenate(counts), evaluations


def _counted_lattice(lattice):
    """The lattice that is counted on, and the interval of the first one in its units, a power of two."""
    grid = lattice.resolution - 1
    intervals = FINEST_PER_GRID_INTERVAL[lattice.domain][lattice.dim > 2] * grid
    coarse = max(COARSE_SHARE * grid, min(COARSE_INTERVALS, grid / 2))
    levels = max(0, int(math.log2(max(1.0, intervals / coarse))))
    if excess(lattice.dim, intervals + 2**levels + 1, lattice.domain, lattice.adjacency):
        intervals, levels = grid, 0
    return _same_domain(lattice, intervals), 2**levels


def _reaching_over(counted, spacing):
    """The smallest lattice of the same intervals that holds `counted` and is a multiple of `spacing` wide."""
    return _same_domain(counted, -(-(counted.resolution - 1) // spacing) * spacing)


def _same_domain(lattice, intervals):
    return make_lattice(lattice.dim, intervals + 1, domain=lattice.domain, adjacency=lattice.adjacency)


def _inside(indices, lattice):
    reach = indices.sum(1) if lattice.domain == "simplex" else indices.max(1)
    return reach < lattice.resolution


def _coordinates(indices, intervals):
    """Barycentric coordinates (P, d + 1) of points k / intervals; the first is negative beyond the domain."""
    rest = intervals - indices.sum(1, keepdims=True)
    return np.hstack([rest, indices]) / intervals


def _levels(lattice, spacing):
    """For each halving: new points (n,), the two points (2, n) they lie between, and those beyond (2, n), -1 outside.

    The coordinates of a new point, in units of the new interval, are odd in some places. It lies between the two points
    whose coordinates there are one more and one less in turn: in barycentric coordinates an even number is odd.
    """
    keys = np.ravel_multi_index(tuple(lattice.indices.T), lattice.grid_shape)
    coordinates = lattice.indices
    if lattice.domain == "simplex":
        first = lattice.resolution - 1 - coordinates.sum(1, keepdims=True)
        coordinates = np.hstack([first, coordinates])
    while spacing > 1:
        half = spacing // 2
        on = (coordinates % half == 0).all(1) & (coordinates % spacing != 0).any(1)
        odd = coordinates[on] // half % 2
        step = (odd * np.where(np.cumsum(odd, axis=1) % 2, 1, -1))[:, -lattice.dim :] * half
        new = np.flatnonzero(on)
        positions = [lattice.indices[on] + factor * step for factor in (-1, 1, -3, 3)]
        points = np.stack([_look_up(keys, lattice.grid_shape, position) for position in positions])
        yield new, points[:2], points[2:]
        spacing = half


def _look_up(keys, grid_shape, position):
    """Rows of grid positions (n, d) among the points of ascending `keys`, -1 where there is none."""
    inside = ((position >= 0) & (position < grid_shape)).all(1)
    wanted = np.ravel_multi_index(tuple((position * inside[:, None]).T), grid_shape)
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(inside & (keys[found] == wanted), found, -1)


def _scores_of_block(look, batch, lattice, spacing, levels):
    """Scores (B, P, C), in the model's precision, of a block of simplices, and which of them (B, P) it gave."""
    first = np.flatnonzero((lattice.indices % spacing == 0).all(1))
    start = look(np.repeat(np.arange(batch), len(first)), np.tile(first, batch))
    scores = np.empty((batch, lattice.num_points, start.shape[1]), dtype=start.dtype)
    known = np.zeros((batch, lattice.num_points), dtype=bool)
    scores[:, first], known[:, first] = start.reshape(batch, len(first), -1), True
    for new, between, beyond in levels:
        scores[:, new], doubt = interpolate(scores, between, beyond, lattice.domain)
        simplex, place = doubt.nonzero()
        if len(simplex):
            scores[simplex, new[place]], known[simplex, new[place]] = look(simplex, new[place]), True
    return scores, known


def look_beside_changes(look, scores, known, edges):
    """Evaluate, in place, what is interpolated and has another label than a neighbour, until there is none."""
    labels = scores.argmax(2).astype(np.int32)
    while True:
        simplex, edge = (labels[:, edges[:, 0]] != labels[:, edges[:, 1]]).nonzero()
        beside = np.zeros_like(known)
        beside[simplex[:, None], edges[edge]] = True
        simplex, point = (beside & ~known).nonzero()
        if not len(simplex):
            return
        scores[simplex, point], known[simplex, point] = look(simplex, point), True
        labels[simplex, point] = scores[simplex, point].argmax(1)


def interpolate(scores, between, beyond, domain):
    """Scores (B, n, C) in the middle of pairs of points, and (B, n) whether they leave the label in doubt.

    From scores a, b at the pair and o beyond a, the second difference is o - 2 a + b; the middle is
    (a + b) / 2 - (mean of the second differences) / 8. A label is in doubt where a score comes nearer to the highest
    than BEND_FACTOR times an eighth of the greatest second difference of any score or of the difference of the two, and
    where no point beyond is known.
    """
    a, b = scores[:, between[0]], scores[:, between[1]]
    known = (beyond >= 0)[:, None, :, None]
    bends = np.stack([scores[:, beyond[0]] - 2 * a + b, scores[:, beyond[1]] - 2 * b + a]) * known
    middle = (a + b) / 2 - bends.sum(0) / (8 * np.maximum(known.sum(0), 1))
    best = middle.argmax(2)[..., None]
    lead = np.take_along_axis(middle, best, 2) - middle
    of_two = np.abs(bends - np.take_along_axis(bends, best[None], 3)).max(0)
    apart = np.maximum(of_two, np.abs(bends).max((0, 3))[..., None]) / 8
    close = lead < BEND_FACTOR[domain] * apart
    np.put_along_axis(close, best, False, 2)
    return middle, close.any(2) | ~known.any(0)[..., 0]


def _looker(classifier, corners, weights, batch_size):
    """A function (simplex, point) -> scores (n, C) at sum_k c_k v_k, c being a row of `weights` and v the corners."""
    weights = torch.from_numpy(weights).to(corners)
    trailing = (1,) * (corners.ndim - 2)

    def look(simplex, point):
        rows, columns = (torch.from_numpy(which).to(corners.device) for which in (simplex, point))

        def batch_of(start, stop):
            of = rows[start:stop]
            weight = weights[columns[start:stop]].view(stop - start, -1, *trailing)
            batch = corners[of, 0].mul_(weight[:, 0])
            for k in range(1, corners.shape[1]):
                batch.add_(corners[of, k].mul_(weight[:, k]))
            return batch

        scores = labels_and_scores(classifier, batch_of, len(rows), batch_size)[1]
        require(
            scores is not None,
            "the model returns labels; strategy 'adaptive' in more than one dimension needs scores: give the model's "
            "logits or log-probabilities; probabilities that are flat at 0 and 1, as a forest's, need strategy='grid'",
        )
        return scores

    return look
