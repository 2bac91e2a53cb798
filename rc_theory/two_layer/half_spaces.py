"""Families with few regions on every line that shatter many points (v1 Theorem 5)."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch

from rc_theory.two_layer.networks import Networks, outputs, segment_counts
from rc_utils.validation import require

# Random lines on which the regions of a family are counted.
LINES = 200


@dataclass(frozen=True)
class Shattering:
    """A family in R^`dim`: how many points it shatters, and its most regions on a random line."""

    family: str
    dim: int
    regions: int
    points: int


def labellings(n: int) -> np.ndarray:
    """All labellings of n points, (2^n, n) bool."""
    return np.array(list(itertools.product((False, True), repeat=n)))


def runs(labels: np.ndarray) -> np.ndarray:
    """Number of runs of equal label in each row of labels (L, n), (L,)."""
    return 1 + (labels[:, 1:] != labels[:, :-1]).sum(1)


def half_spaces(dim: int, *, seed: int = 0) -> Shattering:
    """Shatter d + 1 random points by half-spaces of R^d, and count regions on random lines.

    Raises ValueError if a labelling is not realised.
    """
    rng = np.random.default_rng(seed)
    points, labels = rng.normal(size=(dim + 1, dim)), labellings(dim + 1)
    # Solve for w . x + b = +-1 on the points.
    system = np.hstack([points, np.ones((dim + 1, 1))])
    solution = np.linalg.solve(system, np.where(labels, 1.0, -1.0).T).T
    w, b = solution[:, :-1], solution[:, -1]
    _require_all((points @ w.T + b).T > 0, labels)
    along = np.sinh(np.linspace(-12, 12, 41))
    regions = 0
    for start, direction in rng.normal(size=(LINES, 2, dim)):
        on_line = (start + along[:, None] * direction) @ w.T + b > 0
        regions = max(regions, int(runs(on_line.T).max()))
    return Shattering("half-spaces", dim, regions, dim + 1)


def directions(angle: np.ndarray) -> np.ndarray:
    """Unit vectors at angles (n,), (n, 2)."""
    return np.stack([np.cos(angle), np.sin(angle)], 1)


def circle(n: int) -> np.ndarray:
    """n evenly spaced points on the unit circle, (n, 2)."""
    return directions(2 * np.pi * np.arange(n) / n)


def convex_polygons(labels: np.ndarray) -> np.ndarray:
    """Convex polygons that hold just the points of `circle` labelled True: (L, 2n, 2), n >= 3.

    One corner lies in the middle of each arc between points. Between two of these is another: just
    beyond the point if its label is True, on the chord if it is False. Counter-clockwise; all have
    an interior.
    """
    n = labels.shape[1]
    middles = circle(2 * n)[1::2]
    beyond = circle(n) / math.sqrt(math.cos(math.pi / n))
    chords = (middles + np.roll(middles, 1, axis=0)) / 2
    corners = np.where(labels[:, :, None], beyond, chords)
    both = np.stack([corners, np.broadcast_to(middles, corners.shape)], 2)
    return both.reshape(len(labels), 2 * n, 2)


def inside(polygons: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Whether points (P, 2) lie in counter-clockwise convex polygons (L, C, 2): (L, P)."""
    edges = np.roll(polygons, -1, axis=1) - polygons
    edge_x, edge_y = edges[:, :, None, 0], edges[:, :, None, 1]
    offset = points[None, None] - polygons[:, :, None]
    return (edge_x * offset[..., 1] - edge_y * offset[..., 0] > 0).all(1)


def polygon_regions(polygons: np.ndarray, normals: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Number of regions on each line normal . x = offset, (L, R): 1 + the edges that it crosses.

    Holds for any simple polygon, convex or not, on lines that meet no corner.
    """
    sides = polygons @ normals.T > offsets
    return 1 + (sides != np.roll(sides, -1, axis=1)).sum(1)


def convex_bodies(n: int, *, seed: int = 0) -> Shattering:
    """Shatter n points on a circle by convex polygons, and count regions on random lines.

    Raises ValueError if a labelling is not realised.
    """
    rng, labels = np.random.default_rng(seed), labellings(n)
    polygons = convex_polygons(labels)
    _require_all(inside(polygons, circle(n)), labels)
    normals = directions(rng.uniform(0, 2 * np.pi, LINES))
    regions = polygon_regions(polygons, normals, rng.uniform(-1, 1, LINES))
    return Shattering("convex polygons", 2, int(regions.max()), n)


def relu_networks(n: int, *, seed: int = 0) -> Shattering:
    """Shatter n points on a circle by two-layer ReLU networks with biases.

    f(x) = (1 - h) / 2 - sum_i relu(u_i . x - h) over the points u_i labelled 0, with h between
    cos(2 pi / n) and 1. f is negative at these points and positive at the others; it is concave, so
    no line has more than three regions. They are counted on random segments of length 2,000; a bias
    is the weight of a third input, 1. Raises ValueError if a labelling is not realised.
    """
    points, labels = torch.from_numpy(circle(n)), torch.from_numpy(labellings(n))
    height = (1 + math.cos(2 * math.pi / n)) / 2
    ones = torch.ones(n, 1, dtype=torch.float64)
    cuts = torch.cat([points, -height * ones], 1) * (~labels).double().unsqueeze(2)
    constant = torch.tensor([0.0, 0.0, (1 - height) / 2], dtype=torch.float64)
    weights = torch.cat([constant.expand(len(labels), 1, 3), cuts], 1)
    signs = torch.cat([torch.ones(1), -torch.ones(n)]).double().expand(len(labels), -1)
    networks = Networks(weights, signs)
    realised = outputs(networks, torch.cat([points, ones], 1).expand(len(labels), -1, -1)) > 0
    _require_all(realised, labels)
    rng = np.random.default_rng(seed)
    middle = rng.uniform(-1, 1, (LINES, 2))
    along = 1000 * directions(rng.uniform(0, 2 * np.pi, LINES))
    ends = []
    for on_line in (middle - along, middle + along):
        end = torch.from_numpy(np.hstack([on_line, np.ones((LINES, 1))]))
        ends.append(end.expand(len(labels), -1, -1))
    counts = segment_counts(networks, *ends)
    return Shattering("two-layer ReLU networks", 2, int(counts.max()), n)


def _require_all(realised, labels):
    message = f"a labelling of {labels.shape[1]} points was not realised"
    require((realised == labels).all(), message)


def circle_deviation(n: int) -> float:
    """P_n f - P f for the closed polygon f whose corners are n points of P, uniform on a circle.

    P_n f is 1. P f is estimated by the share of 1,000 more points of P that lie inside.
    """
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, n + 1000)
    points = directions(angle)
    corners = points[:n][np.argsort(angle[:n])]
    return 1 - float(inside(corners[None], points[n:]).mean())
