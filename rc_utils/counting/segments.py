"""Adaptive counts on segments: few points where one label is safe, many where one could hide."""

from typing import NamedTuple

import numpy as np

from rc_utils.counting.classifier import rounding_of, scores_at

# Intervals a unit of alpha, or a shorter range as a whole, is first cut into.
COARSE_INTERVALS = 24
# Finest interval: this many to an interval of the grid with the same resolution.
FINEST_PER_GRID_INTERVAL = 32
# A score may leave its interpolation by so many times the greater bend at an interval's ends: of 2
# to 5 on trained networks, the smallest beyond which no further wrong count was repaired.
BEND_FACTOR = 5.0
# A change of label is simple where the two scores' difference changes by more than so many bends.
MONOTONE_FACTOR = 2.0
PLACES = (0.125, 0.25, 0.75, 0.875)  # of an interval, beside one that its ends decide
BLOCK_SCORES = 1 << 17  # scores that are judged together, in twenty times their memory


class Samples(NamedTuple):
    """Points at which segments were evaluated, ordered by segment, then position."""

    segment: np.ndarray  # (M,) int64
    position: np.ndarray  # (M,) int64, in units of the finest interval
    labels: np.ndarray  # (M,) int64
    scores: np.ndarray  # (M, C) float64


def begins(samples):
    """(M,) bool: whether a region begins at each point, seen along its segment."""
    return np.append(True, (np.diff(samples.labels) != 0) | (np.diff(samples.segment) != 0))


def sample_adaptively(classifier, corners, lattice, coarse=None):
    """Samples of segments (B, 2, *shape) that show each region.

    First on a grid of `coarse` intervals, by default COARSE_INTERVALS. An interval is halved, down
    to 1/32 of the grid's, while a label other than its ends' could hide in it (`hiding_places`).
    """
    finest = FINEST_PER_GRID_INTERVAL * (lattice.resolution - 1)
    low, high = lattice.coordinates[[0, -1], 1]

    def look(segment, position):
        alpha = low + (high - low) * position / finest
        weights = np.stack([1 - alpha, alpha], axis=1)
        scores = scores_at(classifier, corners, segment, weights)
        return Samples(segment, position, scores.argmax(1), scores)

    intervals = (coarse or COARSE_INTERVALS) * max(1.0, abs(high - low))
    count = min(round(intervals), finest) + 1
    position = np.round(np.linspace(0, finest, count)).astype(np.int64)
    samples = look(np.repeat(np.arange(len(corners)), count), np.tile(position, len(corners)))
    rounding = rounding_of(classifier, samples.scores, corners)
    step = max(1, BLOCK_SCORES // samples.scores[:count].size)
    unsettled = np.arange(len(corners))

    def suspects(samples):
        nonlocal unsettled
        found = []
        for part in np.split(unsettled, range(step, len(unsettled), step)):
            rows = np.flatnonzero(np.isin(samples.segment, part))
            some = Samples(*[values[rows] for values in samples])
            found.append(rows[hiding_places(some, rounding)])
        found = np.concatenate(found)
        unsettled = np.unique(samples.segment[found])  # the others get no more points
        return found

    return refine(look, samples, suspects)


def refine(look, samples, suspects):
    """Halve the intervals that `suspects` names, down to the finest, until it names none."""
    while True:
        left = suspects(samples)
        left = left[samples.position[left + 1] - samples.position[left] > 1]
        if not len(left):
            return samples
        middle = (samples.position[left] + samples.position[left + 1]) // 2
        pairs = zip(samples, look(samples.segment[left], middle), strict=True)
        samples = Samples(*[np.insert(old, left + 1, new, axis=0) for old, new in pairs])


def hiding_places(samples, rounding):
    """Left ends (I,) of the intervals in which a label other than those of the ends could hide.

    With D the difference of a score to the score of a label at the ends, h the width and k_0, k_1
    the second derivatives of D that the points around show, D in the interval is taken to lie below
        (1 - t) D_0 + t D_1
        - t (1 - t) h^2 / 2 ((1 - t) k_0 + t k_1 - BEND_FACTOR max(|k_0|, |k_1|)).
    A label could hide where this is above `rounding`, one number a segment, for the labels of both
    ends, at one of PLACES or where the scores of the ends' labels cross, in the middle if they are
    one. Where the ends differ, their own difference must change by more than MONOTONE_FACTOR
    max(|k_0|, |k_1|) h^2 / 2, if that is above `rounding`, or it could change more than once.
    """
    left = np.flatnonzero(np.diff(samples.segment) == 0)
    first, last = samples.labels[left], samples.labels[left + 1]
    scores, bends = samples.scores, second_derivatives(samples)
    half_square = ((samples.position[left + 1] - samples.position[left])[:, None] ** 2) / 2
    noise = rounding[samples.segment[left]][:, None]
    # Where nothing bends, a third label leads most where the scores of the ends' labels cross.
    before = scores[left, first] - scores[left, last]
    after = scores[left + 1, last] - scores[left + 1, first]
    crossing = np.full((len(left), 1), 0.5)
    np.divide(before, before + after, out=crossing[:, 0], where=before + after > 0)
    places = [*PLACES, crossing]
    reaches = np.ones((len(places), len(left), scores.shape[1]), dtype=bool)
    for label in (first, last):
        d0, d1 = _relative(scores[left], label), _relative(scores[left + 1], label)
        k0, k1 = _relative(bends[left], label), _relative(bends[left + 1], label)
        sharpest = np.maximum(np.abs(k0), np.abs(k1))
        for reached, t in zip(reaches, places, strict=True):
            bend = (1 - t) * k0 + t * k1 - BEND_FACTOR * sharpest
            reached &= (1 - t) * d0 + t * d1 - t * (1 - t) * half_square * bend > noise
    # The loop has left `label` and what follows from it as they are for the right end.
    turn = MONOTONE_FACTOR * sharpest * half_square
    may_turn = (np.abs(d1 - d0) < turn) & (turn > noise)
    twice = (first != last) & may_turn[np.arange(len(left)), first]
    return left[twice | reaches.any((0, 2))]


def _relative(values, label):
    """Values (I, C) of every score less those of one label (I,)."""
    return values - np.take_along_axis(values, label[:, None], axis=1)


def second_derivatives(samples):
    """(M, C) second derivatives of the scores, at an end its neighbour's: 3 points or more."""
    same = np.diff(samples.segment) == 0
    gap = np.where(same, np.diff(samples.position), 1)[:, None].astype(np.float64)
    slope = np.diff(samples.scores, axis=0) / gap
    bends = np.zeros_like(samples.scores)
    bends[1:-1] = 2 * np.diff(slope, axis=0) / (gap[1:] + gap[:-1])
    first, last = np.flatnonzero(np.append(True, ~same)), np.flatnonzero(np.append(~same, True))
    bends[first], bends[last] = bends[first + 1], bends[last - 1]
    return bends
