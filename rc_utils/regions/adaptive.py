"""Adaptive counting on segments: few evaluations where one label is safe, many where another could hide."""

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np

from rc_utils.regions.grid import scores_at

# Intervals a unit of alpha, or a shorter range as a whole, is first cut into, where the model returns scores and where
# it returns labels alone.
COARSE_INTERVALS = 24
COARSE_INTERVALS_LABELS = 64
# Finest interval: this many to an interval of the grid with the same resolution.
FINEST_PER_GRID_INTERVAL = 32
# Where only labels are known, intervals next to a change of label are halved to this share of a coarse one.
FINEST_LABEL_SHARE = 1 / 16
# Times the greatest bend that its neighbourhood shows by which a score may leave its interpolation: chosen on trained
# networks, of 2 to 5 tried, as the smallest beyond which no further wrong count was repaired.
BEND_FACTOR = 5.0
# A change of label is simple where the difference of the two scores changes by more than this many bends.
MONOTONE_FACTOR = 2.0
PLACES = (0.125, 0.25, 0.5, 0.75, 0.875)
# Scores that are looked at together: 8 MB an array, whatever the number of segments and of classes.
BLOCK = 2**20


@dataclasses.dataclass(frozen=True, eq=False)
class Samples:
    """Where segments were looked at, ordered by segment, then position.

    segment, position: (M,) int64, the position in units of the finest interval. labels: (M,). scores: (M, C) float64,
    or None where the model returns labels.
    """

    segment: np.ndarray
    position: np.ndarray
    labels: np.ndarray
    scores: np.ndarray | None


def count_adaptively(classifier, corners, lattice, batch_size):
    """Regions (B,) int64 of segments with corners (B, 2, *shape), the number of evaluations, and the labels of all
    regions, (sum of the counts,), segment by segment.

    All segments are looked at on a coarse grid. An interval is halved, down to 1/32 of the grid's, while a label other
    than its ends' could hide in it (`hiding_places`); all segments of a level are evaluated together. A model that
    returns labels alone is refined where they change, and beside.

    Raises ValueError where scores are not finite.
    """
    finest = FINEST_PER_GRID_INTERVAL * (lattice.resolution - 1)
    low, high = lattice.coordinates[[0, -1], 1]
    look = _looker(classifier, corners, (low, high), finest, batch_size)
    units = max(1.0, high - low)
    first = look(*_coarse(len(corners), finest, COARSE_INTERVALS * units))
    if first.scores is None:
        extra = _coarse(len(corners), finest, COARSE_INTERVALS_LABELS * units)
        samples = _add(look, first, *_missing(first, *extra, finest))
        narrowest = FINEST_LABEL_SHARE * finest / (COARSE_INTERVALS_LABELS * units)
        samples = refine(look, samples, max(1, narrowest), beside_changes)
    else:
        samples = refine(look, first, 1, hiding_places)
    begins = np.append(True, (np.diff(samples.labels) != 0) | (np.diff(samples.segment) != 0))
    counts = np.bincount(samples.segment[begins], minlength=len(corners))
    return counts.astype(np.int64), len(samples.labels), samples.labels[begins]


def _coarse(num_segments, finest, intervals):
    """Segments and positions of equally spaced points on every segment, ends included."""
    count = int(np.clip(round(intervals), 1, finest)) + 1
    position = np.round(np.linspace(0, finest, count)).astype(np.int64)
    return np.repeat(np.arange(num_segments), count), np.tile(position, num_segments)


def _missing(samples, segment, position, finest):
    key = np.setdiff1d(segment * (finest + 1) + position, samples.segment * (finest + 1) + samples.position)
    return key // (finest + 1), key % (finest + 1)


def refine(look, samples, narrowest, suspects):
    """Halve the intervals that `suspects` names, those wider than `narrowest`, until it names none."""
    while True:
        left = suspects(samples)
        left = left[samples.position[left + 1] - samples.position[left] > narrowest]
        if not len(left):
            return samples
        middle = (samples.position[left] + samples.position[left + 1]) // 2
        samples = _add(look, samples, samples.segment[left], middle)


def _add(look, samples, segment, position):
    if not len(segment):
        return samples
    new = look(segment, position)
    order = np.lexsort((np.append(samples.position, position), np.append(samples.segment, segment)))

    def merged(old, added):
        return None if old is None else np.concatenate([old, added])[order]

    fields = (field.name for field in dataclasses.fields(Samples))
    return Samples(**{name: merged(getattr(samples, name), getattr(new, name)) for name in fields})


def beside_changes(samples):
    """Left ends of the intervals at whose ends the labels differ, and of their neighbours on the same segment."""
    same = np.diff(samples.segment) == 0
    changes = same & (np.diff(samples.labels) != 0)
    beside = changes.copy()
    beside[1:] |= changes[:-1]
    beside[:-1] |= changes[1:]
    return np.flatnonzero(beside & same)


def hiding_places(samples):
    """Left ends (I,) of the intervals in which a label other than those of the ends could hide.

    With D the difference of a score to the score of a label at the ends, h the width and k_0, k_1 the second
    derivatives of D that the points around show, D in the interval is taken to lie below
        (1 - t) D_0 + t D_1 - t (1 - t) h^2 / 2 ((1 - t) k_0 + t k_1 - BEND_FACTOR max(|k_0|, |k_1|)).
    A label could hide where this is positive for the labels of both ends. Where the ends differ, their own difference
    must change by more than MONOTONE_FACTOR max(|k_0|, |k_1|) h^2 / 2, or the label could change more than once.
    """
    return np.concatenate([start + _hiding_places(block) for start, block in _blocks(samples)])


def _blocks(samples):
    """(index of the first, Samples) of parts with whole segments, of some BLOCK scores each."""
    starts = np.flatnonzero(np.diff(samples.segment, prepend=-1))
    points = max(1, BLOCK // samples.scores.shape[1])
    wanted = np.arange(points, len(samples.segment), points)
    cuts = np.unique(np.append(starts[np.searchsorted(starts, wanted, side="right") - 1], [0, len(samples.segment)]))
    fields = [field.name for field in dataclasses.fields(Samples)]
    for start, stop in itertools.pairwise(cuts):
        yield start, Samples(**{name: getattr(samples, name)[start:stop] for name in fields})


def _hiding_places(samples):
    left = np.flatnonzero(np.diff(samples.segment) == 0)
    bends = second_derivatives(samples)
    width = (samples.position[left + 1] - samples.position[left])[:, None].astype(np.float64)
    ends = samples.labels[left], samples.labels[left + 1]
    rows = np.arange(len(left))
    other = np.ones((len(left), samples.scores.shape[1]), dtype=bool)
    other[rows, ends[0]] = other[rows, ends[1]] = False
    reaches = np.repeat(other[None], len(PLACES), axis=0)
    for label in ends:
        against = _difference(samples.scores, bends, left, label)
        for reached, t in zip(reaches, PLACES, strict=True):
            reached &= against.highest(t, width) > 0
    # `against` is the label of the right end now.
    change, bend = (v[rows, ends[0]] for v in (np.abs(against.d1 - against.d0), against.sharpest * width**2 / 2))
    twice = (ends[0] != ends[1]) & (change < MONOTONE_FACTOR * bend)
    return left[twice | reaches.any((0, 2))]


class _Difference(NamedTuple):
    """Of every score to that of one label on intervals, (I, C) each: D_0, D_1, k_0, k_1 and max(|k_0|, |k_1|)."""

    d0: np.ndarray
    d1: np.ndarray
    k0: np.ndarray
    k1: np.ndarray
    sharpest: np.ndarray

    def highest(self, t, width):
        """The bound of `hiding_places` on the difference at the share t of intervals of `width` (I, 1)."""
        bend = (1 - t) * self.k0 + t * self.k1 - BEND_FACTOR * self.sharpest
        return (1 - t) * self.d0 + t * self.d1 - t * (1 - t) / 2 * width**2 * bend


def _difference(scores, bends, left, label):
    rows = np.arange(len(left))
    ends = (scores[left], scores[left + 1], bends[left], bends[left + 1])
    d0, d1, k0, k1 = (v - v[rows, label][:, None] for v in ends)
    return _Difference(d0, d1, k0, k1, np.maximum(np.abs(k0), np.abs(k1)))


def second_derivatives(samples):
    """(M, C) second derivatives of the scores from each point and its two neighbours; at an end, its neighbour's."""
    same = np.diff(samples.segment) == 0
    gap = np.where(same, np.diff(samples.position), 1)[:, None].astype(np.float64)
    slope = np.diff(samples.scores, axis=0) / gap
    bends = np.zeros_like(samples.scores)
    bends[1:-1] = 2 * np.diff(slope, axis=0) / (gap[1:] + gap[:-1])
    first, last = np.flatnonzero(np.append(True, ~same)), np.flatnonzero(np.append(~same, True))
    bends[first], bends[last] = bends[np.minimum(first + 1, last)], bends[np.maximum(last - 1, first)]
    return bends


def _looker(classifier, corners, alpha_range, finest, batch_size):
    """A function (segment, position) -> Samples that evaluates the classifier at these points."""
    low, high = alpha_range

    def look(segment, position):
        alpha = low + (high - low) * position / finest
        labels, scores = scores_at(classifier, corners, segment, np.stack([1 - alpha, alpha], axis=1), batch_size)
        # Second derivatives of close points need the digits of float64.
        return Samples(segment, position, labels, None if scores is None else scores.astype(np.float64, copy=False))

    return look
