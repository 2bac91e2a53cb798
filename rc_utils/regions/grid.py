"""Labels at the lattice points of many simplices at once."""

from dataclasses import dataclass

import numpy as np
import torch

from rc_utils.checks import check_number, require
from rc_utils.regions.arrays import as_points, as_tensor
from rc_utils.regions.classifier import as_classifier, labels_of, refuse_non_finite, two_scores
from rc_utils.regions.components import non_negative
from rc_utils.regions.evaluation import evaluate, read_outputs
from rc_utils.regions.lattice import Lattice, make_lattice

BOX_PADDING = 0.1


@dataclass(frozen=True, eq=False)
class LabelGrid:
    """The labels themselves, for pictures of a segment, a triangle or a plane.

    Attributes:
        labels: (B, *grid) integers, -1 where the grid has no point of the domain.
        positions: (B, P, d) where each lattice point lies in an orthonormal frame of the plane that the vertices span,
            in the units of the points: v_0 is the origin, v_1 lies on the first axis.
        vertices: (B, d + 1, d) where the vertices lie in that frame.
        lattice: the points; `labels[b][tuple(lattice.indices.T)]` are the labels (P,) at `positions[b]`.
    """

    labels: np.ndarray
    positions: np.ndarray
    vertices: np.ndarray
    lattice: Lattice


def label_grid(
    model,
    vertices,
    *,
    resolution=None,
    alpha_range=(0.0, 1.0),
    domain="simplex",
    padding=BOX_PADDING,
    adjacency=None,
    batch_size=None,
):
    """Predicted labels on the lattices of given simplices: what `region_count` counts the components of.

    Args:
        vertices: (B, d + 1, *shape) array or tensor, as `sample_vertices` returns them.
        others: as in `region_count`. Where labels are negative, all are replaced by their ranks.

    Returns:
        LabelGrid, NumPy arrays throughout.

    Raises ValueError as `region_count` does.
    """
    vertices = as_points(vertices)
    given = as_tensor(vertices).detach()
    require(
        given.ndim >= 3 and given.shape[1] >= 2 and len(given) > 0,
        f"vertices have shape {tuple(given.shape)}; expected (B, d + 1, *shape) with d >= 1",
    )
    require(bool(torch.isfinite(given).all()), "vertices hold NaN or infinity; remove these points")
    dim = given.shape[1] - 1
    lattice = make_lattice(dim, resolution, alpha_range=alpha_range, domain=domain, adjacency=adjacency)
    classifier = as_classifier(model, vertices)
    corners = lattice_corners(given.to(classifier.device, classifier.dtype), lattice, padding)
    labels = non_negative(label_lattice(classifier, corners, lattice, batch_size).cpu().numpy())
    frame = plane_coordinates(given)
    positions = torch.tensor(lattice.coordinates) @ lattice_corners(frame, lattice, padding)
    return LabelGrid(lattice.to_grid(labels), positions.numpy(), frame.numpy(), lattice)


def label_lattice(classifier, corners, lattice, batch_size=None):
    """Labels (B, P) on the classifier's device, at the lattice points of corners (B, d + 1, *shape).

    Raises ValueError, naming a simplex, where scores are not finite.
    """
    num_simplices, size = len(corners), lattice.num_points
    weights = torch.tensor(lattice.coordinates).to(corners)

    def batch_of(start, stop):
        flat = torch.arange(start, stop, device=corners.device)
        return _combine(corners, flat // size, weights[flat % size])

    labels = evaluate(classifier, batch_of, num_simplices * size, batch_size)
    refuse_non_finite(labels, lambda index: f"simplex {index // size}")
    return labels.view(num_simplices, size)


def scores_at(classifier, corners, simplex, weights, batch_size=None):
    """Labels (n,) and scores (n, C) at the points sum_k weights[:, k] corners[simplex, k], as NumPy arrays.

    The scores are float64, as second derivatives of close points need; None for a model that returns labels. One score
    s is (0, s). Raises NonFiniteScores where one is NaN or infinite.
    """
    simplex, weights = torch.from_numpy(simplex).to(corners.device), torch.from_numpy(weights).to(corners)

    def batch_of(start, stop):
        return _combine(corners, simplex[start:stop], weights[start:stop])

    labels, *scores = read_outputs(classifier, batch_of, len(simplex), _labels_and_scores_of, batch_size)
    refuse_non_finite(labels, lambda index: f"simplex {int(simplex[index])}")
    return labels.numpy().astype(np.int64), scores[0].numpy() if scores else None


def _labels_and_scores_of(output, num_points):
    """[labels (n,), scores (n, C) in float64], or the labels alone where there are no scores, on the CPU."""
    labels = labels_of(output, num_points).cpu()
    if labels.dtype == torch.int64:
        return [labels]
    return [labels, two_scores(output.detach().reshape(num_points, -1).cpu().double())]


def _combine(corners, simplex, weights):
    """Points sum_k weights[:, k] corners[simplex, k], (n, *shape).

    One multiplication and one addition at a time: each is rounded the same way whatever the chunk and the device, which
    a matrix product is not, and at a vertex the point is the vertex exactly.
    """
    weights = weights.view(*weights.shape, *(1,) * (corners.ndim - 2))
    batch = corners[simplex, 0].mul_(weights[:, 0])
    for k in range(1, corners.shape[1]):
        batch.add_(corners[simplex, k].mul_(weights[:, k]))
    return batch


def lattice_corners(vertices, lattice, padding=BOX_PADDING):
    """The corners that a lattice's coordinates refer to: the vertices, or three corners of the box around them."""
    return box_corners(vertices, padding) if lattice.domain == "box" else vertices


def box_corners(vertices, padding=BOX_PADDING):
    """Three corners (B, 3, *shape) of the padded rectangle around triangles (B, 3, *shape) (Somepalli et al., 2022).

    With a = v_1 - v_0 and b the part of v_2 - v_0 orthogonal to a, the triangle's points are v_0 + s a + r b with r in
    [0, 1] and s between the least and the greatest of 0, 1 and t = <v_2 - v_0, a> / <a, a>. The rectangle has sides
    along a and b and reaches beyond these extents by `padding` times each. Its corners: the lower left one, the end of
    the side along a, the end of the side along b. Vertices on a line give a rectangle without height.
    """
    check_number("padding", padding, 0)
    origin, first, second = vertices.flatten(2).double().unbind(1)
    a, c = first - origin, second - origin
    squared = (a * a).sum(1, keepdim=True)
    t = (c * a).sum(1, keepdim=True) / squared.clamp(min=torch.finfo(torch.float64).tiny)
    b = c - t * a
    low, high = t.clamp(max=0), t.clamp(min=1)
    extent = high - low
    corner = origin + (low - padding * extent) * a - padding * b
    scale = 1 + 2 * padding
    corners = torch.stack([corner, corner + scale * extent * a, corner + scale * b], dim=1)
    return corners.to(vertices.dtype).view(vertices.shape)


def plane_coordinates(vertices):
    """Coordinates (B, d + 1, d) float64 of vertices (B, d + 1, *shape) in an orthonormal frame of the plane they span.

    Distances are kept; v_0 is the origin, v_1 lies on the first axis, v_2 in the upper half-plane.
    """
    flat = vertices.flatten(2).double().cpu()
    dim = flat.shape[1] - 1
    edges = (flat[:, 1:] - flat[:, :1]).transpose(1, 2)
    if edges.shape[1] < dim:
        edges = torch.nn.functional.pad(edges, (0, 0, 0, dim - edges.shape[1]))
    upper = torch.linalg.qr(edges, mode="r").R
    sign = torch.where(upper.diagonal(dim1=1, dim2=2) < 0, -1.0, 1.0).unsqueeze(2)
    return torch.nn.functional.pad((upper * sign).transpose(1, 2), (0, 0, 1, 0))
