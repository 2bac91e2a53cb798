"""Exact regions of a network or a tree on a segment: label changes, solved for."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from rc_exact.plan import make_plan
from rc_exact.propagation import points_at, propagate, rehearse, require_same_scores, run_rows
from rc_exact.trees import is_tree_model, tree_pieces
from rc_utils.counting.classifier import (
    NonFiniteScores,
    as_classifier,
    probed_inside,
    two_scores,
)
from rc_utils.counting.sampling import as_tensor
from rc_utils.counting.segments import Samples, hiding_places, refine
from rc_utils.validation import check_count, require

# A narrower region, as a share of the segment, is an artefact of rounding where scores touch.
REGION_TOLERANCE = 1e-12
# A score bends where it leaves the line between its neighbours by this share of its maximum.
BEND_TOLERANCE = 1e-13
COARSE, FINEST = 64, 8192  # intervals of the first and of the finest sampling with `prune`
NARROW = 4  # width, in intervals of the finest, to which label changes are narrowed down
NUM_COMPARED = 401  # alphas at which the solved scores are compared with the network's


@dataclass(frozen=True, eq=False)
class ExactSegment:
    """Regions of equal label on a segment x(alpha) = (1 - alpha) x0 + alpha x1, alpha in [0, 1].

    Attributes:
        boundaries: (count - 1,) float64 in (0, 1), ascending: where the label changes.
        labels: (count,) int64; region k lies between boundaries k - 1 and k.
        witnesses: (count,) float64, the middle of each region.
        num_linear_regions: number of pieces on which every score is affine; for trees, pieces
            between crossed thresholds. None with `prune`, which does not solve all of them.
    """

    boundaries: np.ndarray
    labels: np.ndarray
    witnesses: np.ndarray
    num_linear_regions: int | None

    @property
    def count(self) -> int:
        """Number of regions."""
        return len(self.labels)


def exact_segment(
    model: nn.Module | Any,
    x0: np.ndarray | torch.Tensor,
    x1: np.ndarray | torch.Tensor,
    *,
    prune: bool = False,
    max_breakpoints_memory: int = 32 << 20,
    device: torch.device | str | None = None,
) -> ExactSegment:
    """Solve for the regions of equal label of a piecewise-linear network, tree or forest.

    On the segment from x0 to x1 every unit is a piecewise-linear function of alpha. Layer by layer,
    in float64, the breakpoints of all units are inserted where a ReLU's input crosses 0 or the
    winner of a max-pool changes; affine layers act on the values at the breakpoints. Between two of
    them the scores are lines, whose upper envelope gives the labels. A tree or forest is constant
    between the thresholds that the segment crosses; labels are indices in its `classes_`.

    The label is the argmax of the scores, the lowest index where scores are equal, or, for a
    network with one output, whether it is positive. Regions narrower than 1e-12 of the segment are
    left out, and regions of trees between thresholds of two features that are within rounding of
    the inputs to float32.

    Args:
        model: torch module of the layers that `make_plan` knows, traceable by torch.fx (used in
            evaluation mode and float64, itself left as it is), or a fitted DecisionTreeClassifier,
            RandomForestClassifier or ExtraTreesClassifier.
        x0, x1: the ends, arrays or tensors `(*shape)`, without batch dimension.
        prune: solve only the parts of the segment that may contain other labels than their ends, as
            judged by some hundred float64 evaluations (`suspicious_parts`). Faster, but a region
            may be missed, and a false one found where scores tie. Ignored for trees and forests.
        max_breakpoints_memory: approximate limit, in bytes, of the activations kept at once; the
            segment is split to stay below it.
        device: where to compute; by default on the device of the network.

    Returns:
        ExactSegment.

    Raises ValueError for a layer that is not piecewise linear (named), ends of different shapes,
    and scores or ends that are not finite; TypeError for a model of another kind.
    """
    check_count("max_breakpoints_memory", max_breakpoints_memory, 1)
    default = torch.device("cpu")
    if isinstance(model, nn.Module):
        as_classifier(model, x0)  # refuses a lazy layer, before a copy of it is run
        default = next((parameter.device for parameter in model.parameters()), default)
    x0, x1 = _end(x0, "x0", device or default), _end(x1, "x1", device or default)
    shapes = f"x0 has shape {tuple(x0.shape)}, x1 {tuple(x1.shape)}; expected the same"
    require(x0.shape == x1.shape, shapes)
    if isinstance(model, nn.Module):
        return _network_segment(model, x0, x1, prune, max_breakpoints_memory)
    if not is_tree_model(model):
        raise TypeError(
            f"model is a {type(model).__name__}; expected a torch module, a "
            "DecisionTreeClassifier, a RandomForestClassifier or an ExtraTreesClassifier"
        )
    alphas, labels = tree_pieces(model, x0.cpu().numpy(), x1.cpu().numpy(), REGION_TOLERANCE)
    return _segment(*merge_regions(alphas[:-1], labels), num_linear_regions=len(labels))


def _network_segment(network, x0, x1, prune, max_bytes):
    # Not inference_mode, which would spoil tensors that a network keeps outside itself.
    with torch.no_grad():
        plan = make_plan(network, x0.device)
        most_rows = rehearse(plan, x0, x1, max_bytes)
        probed_inside(as_classifier(plan.network, x0), torch.stack([x0, x1])[None])
        if prune:
            regions = _solve_suspicious_parts(plan, x0, x1, most_rows)
            return _segment(*regions, num_linear_regions=None)
        alphas, scores = _solve(plan, x0, x1, most_rows)
        places = np.linspace(0, 1, NUM_COMPARED)
        solved = np.stack([np.interp(places, alphas, column) for column in scores.T], axis=1)
        points = points_at(x0, x1, torch.from_numpy(places).to(x0.device))
        found = two_scores(run_rows(plan, points, most_rows)).cpu()
        require_same_scores(torch.from_numpy(solved), found)
    pieces = count_linear_pieces(alphas, scores)
    return _segment(*label_changes(alphas, scores), num_linear_regions=pieces)


def _solve(plan, x0, x1, most_rows, between=(0.0, 1.0)):
    """All breakpoints (P,) between two alphas and the scores (P, C) there."""
    parts = [(a.cpu(), two_scores(s).cpu()) for a, s in propagate(plan, x0, x1, most_rows, between)]
    alphas = torch.cat([parts[0][0][:1]] + [a[1:] for a, _ in parts]).numpy()
    scores = torch.cat([parts[0][1][:1]] + [s[1:] for _, s in parts]).numpy()
    require_finite(scores)
    return alphas, scores


def _solve_suspicious_parts(plan, x0, x1, most_rows):
    """Starts and labels of all regions; only suspicious parts are solved."""
    samples, suspects = suspicious_parts(plan, x0, x1, most_rows)
    alphas = samples.position / FINEST
    starts = [np.delete(alphas[:-1], suspects)]
    labels = [np.delete(samples.labels[:-1], suspects)]
    adjoining = np.split(suspects, np.flatnonzero(np.diff(suspects) > 1) + 1)
    for part in adjoining if len(suspects) else []:
        between = float(alphas[part[0]]), float(alphas[part[-1] + 1])
        within, found = label_changes(*_solve(plan, x0, x1, most_rows, between))
        starts.append(within)
        labels.append(found)
    starts, labels = np.concatenate(starts), np.concatenate(labels)
    order = np.argsort(starts, kind="stable")
    return merge_regions(starts[order], labels[order])


def suspicious_parts(plan, x0, x1, most_rows):
    """Samples of the segment, and indices of the left ends of the intervals that must be solved.

    Positions are in units of 1 / FINEST. An interval must be solved if its ends have different
    labels or if `hiding_places` finds that another score could reach theirs, given five times the
    second derivatives nearby. That is an estimate, not a bound: interval bounds through a deep
    network are too wide to exclude anything.
    """

    def look(segment, position):
        points = points_at(x0, x1, torch.from_numpy(position / FINEST).to(x0.device))
        scores = two_scores(run_rows(plan, points, most_rows)).cpu().numpy()
        require_finite(scores)
        return Samples(segment, position, scores.argmax(1), scores)

    def suspects(samples, width=NARROW):
        changes = (np.diff(samples.labels) != 0) & (np.diff(samples.position) > width)
        return np.union1d(hiding_places(samples, np.zeros(1)), np.flatnonzero(changes))

    position = np.arange(0, FINEST + 1, FINEST // COARSE)
    samples = refine(look, look(np.zeros_like(position), position), suspects)
    return samples, suspects(samples, width=0)


def require_finite(scores):
    """Raise NonFiniteScores unless all scores are finite."""
    if not np.isfinite(scores).all():
        raise NonFiniteScores("the scores are not finite on the segment: has the network diverged?")


def _end(x, name, device):
    x = as_tensor(x).detach().to(device=device, dtype=torch.float64)
    require(bool(torch.isfinite(x).all()), f"{name} holds NaN or infinity; expected finite numbers")
    return x


def _segment(starts, labels, num_linear_regions):
    edges = np.append(starts, 1.0)
    return ExactSegment(starts[1:], labels, (edges[:-1] + edges[1:]) / 2, num_linear_regions)


def label_changes(alphas, scores):
    """Start and label of each region, given scores (P, C) that are affine between alphas (P,).

    A piece has one label if both its ends have it; in other pieces the upper envelope is followed.
    """
    # A score that differs from the highest by the rounding of one of the two is equal to it.
    top, size = scores.max(1, keepdims=True), np.abs(scores).max(0)
    rounding = BEND_TOLERANCE * np.maximum(size, size[scores.argmax(1), None])
    scores = np.where(top - scores <= rounding, top, scores)
    argmax = scores.argmax(1)
    same = argmax[1:] == argmax[:-1]
    starts, labels = [alphas[:-1][same]], [argmax[:-1][same]]
    for p in np.flatnonzero(~same):
        shares, winners = upper_envelope(scores[p], scores[p + 1])
        starts.append(alphas[p] + shares * (alphas[p + 1] - alphas[p]))
        labels.append(winners)
    starts, labels = np.concatenate(starts), np.concatenate(labels)
    order = np.argsort(starts, kind="stable")
    return merge_regions(starts[order], labels[order], alphas[-1])


def upper_envelope(left, right):
    """Starts in [0, 1) and indices of the highest of C lines, `left` (C,) at 0, `right` at 1."""
    slope = right - left
    starts, t = [0.0], 0.0
    # Just after 0 the highest line wins; of equal ones the steepest; then the lowest index.
    tied = np.flatnonzero(left == left.max())
    winners = [int(tied[slope[tied].argmax()])]
    while True:
        now = winners[-1]
        steeper = np.flatnonzero(slope > slope[now])
        meets = np.maximum((left[now] - left[steeper]) / (slope[steeper] - slope[now]), t)
        steeper, meets = steeper[meets < 1], meets[meets < 1]
        if not len(steeper):
            return np.array(starts), np.array(winners, dtype=np.int64)
        t = meets.min()
        first = steeper[meets == t]
        starts.append(t)
        winners.append(int(first[slope[first].argmax()]))


def merge_regions(starts, labels, end=1.0):
    """Starts and labels of the runs of equal label, without those within REGION_TOLERANCE."""
    begin = starts[:1]
    starts, labels = _runs(starts, labels)
    keep = np.diff(np.append(starts, end)) > REGION_TOLERANCE
    starts, labels = _runs(starts[keep], labels[keep])
    return np.append(begin, starts[1:]), labels


def _runs(starts, labels):
    first = np.append(True, labels[1:] != labels[:-1])
    return starts[first], labels[first].astype(np.int64)


def count_linear_pieces(alphas, scores):
    """Number of maximal affine pieces of scores (P, C) that are affine between alphas (P,)."""
    if len(alphas) < 3:
        return 1
    share = ((alphas[1:-1] - alphas[:-2]) / (alphas[2:] - alphas[:-2]))[:, None]
    bend = scores[1:-1] - (1 - share) * scores[:-2] - share * scores[2:]
    return 1 + int((np.abs(bend) > BEND_TOLERANCE * np.abs(scores).max(0)).any(1).sum())
