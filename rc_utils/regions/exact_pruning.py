"""Which parts of a segment could hold another label than that of their ends: only those need to be solved."""

import numpy as np
import torch

from rc_utils.regions.adaptive import Samples, hiding_places, refine
from rc_utils.regions.classifier import NonFiniteScores
from rc_utils.regions.exact_propagation import run_rows

# The first look, the finest that a suspicion can ask for, and the width down to which a change of label is narrowed.
COARSE = 64
FINEST = 64 * 128
NARROW = FINEST // 2048


def suspicious_parts(plan, x0, x1, most_rows, scores_of):
    """Samples of the segment, positions in units of 1 / FINEST, and the left ends of intervals that are to be solved.

    An interval is to be solved where its ends have different labels or where `hiding_places` finds that another score
    could reach theirs, judged by the second derivatives around and five times their size. That is an estimate, not a
    bound: interval bounds through a deep network are too wide to exclude anything.
    """

    def look(segment, position):
        a = torch.from_numpy(position / FINEST).to(x0.device).view(-1, *(1,) * x0.ndim)
        scores = scores_of(run_rows(plan, (1 - a) * x0 + a * x1, most_rows)).cpu().numpy()
        require_finite(scores)
        return Samples(segment, position, scores.argmax(1), scores)

    def suspects(samples):
        wide = np.diff(samples.position) > NARROW
        return np.union1d(hiding_places(samples), np.flatnonzero(wide & (np.diff(samples.labels) != 0)))

    position = np.arange(0, FINEST + 1, FINEST // COARSE)
    samples = refine(look, look(np.zeros_like(position), position), 1, suspects)
    return samples, np.union1d(hiding_places(samples), np.flatnonzero(np.diff(samples.labels) != 0))


def require_finite(scores):
    """Raise NonFiniteScores unless all scores are finite: NaN is neither a label nor a suspicion."""
    if not np.isfinite(scores).all():
        raise NonFiniteScores("the scores are not finite on the segment: has the network diverged?")
