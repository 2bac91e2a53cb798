"""Labels at the lattice points of many simplices at once."""

from dataclasses import dataclass

import numpy as np
import torch

from rc_utils.checks import check_number, require
from rc_utils.regions.arrays import as_points, as_tensor
from rc_utils.regions.classifier import NON_FINITE, NonFiniteScores, as_classifier
from rc_utils.regions.evaluation import evaluate
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
    adjacency="face",
    batch_size=None,
):
    """Predicted labels on the lattices of given simplices: what `region_count` counts the components of.

    Args:
        vertices: (B, d + 1, *shape) array or tensor, as `sample_vertices` returns them.
        others: as in `region_count`. Negative labels are shifted so that the smallest is 0.

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
    labels = label_lattice(classifier, corners, lattice, batch_size).cpu().numpy()
    frame = plane_coordinates(given)
    weights = torch.tensor(lattice.coordinates)
    corners_in_plane = box_corners(frame, padding) if domain == "box" else frame
    return LabelGrid(lattice.to_grid(labels), (weights @ corners_in_plane).numpy(), frame.numpy(), lattice)


def label_lattice(classifier, corners, lattice, batch_size=None):
    """Labels (B, P) >= 0 on the classifier's device, at the lattice points of corners (B, d + 1, *shape).

    Raises ValueError, naming a simplex, where scores are not finite.
    """
    num_simplices, size = len(corners), lattice.num_points
    batch_of = _point_maker(corners, lattice)
    labels = evaluate(classifier, batch_of, num_simplices * size, batch_size).view(num_simplices, size)
    lowest = int(labels.min())
    if lowest == NON_FINITE and labels.dtype == torch.int32:
        _raise_non_finite(labels == NON_FINITE)
    return labels - lowest if lowest < 0 else labels


def _raise_non_finite(bad):
    simplices = bad.any(1)
    first = int(simplices.nonzero()[0, 0])
    raise NonFiniteScores(
        f"the model's scores are NaN or infinite at {int(bad[first].sum())} of {bad.shape[1]} points of simplex "
        f"{first}, and in {int(simplices.sum())} of {len(bad)} simplices: no region can be counted there. The model "
        "has probably diverged: leave it out, or count at an earlier epoch"
    )


def _point_maker(corners, lattice):
    """A function (start, stop) -> points of flat positions simplex * P + point, (stop - start, *shape).

    x = sum_k c_k v_k, one multiplication and one addition at a time: each is rounded the same way whatever the chunk
    and the device, which a matrix product is not, and at a vertex x is the vertex exactly.
    """
    size = lattice.num_points
    by_corner = corners.transpose(0, 1).contiguous()
    weights = torch.from_numpy(np.ascontiguousarray(lattice.coordinates.T)).to(corners)
    trailing = (1,) * (corners.ndim - 2)

    def batch_of(start, stop):
        flat = torch.arange(start, stop, device=corners.device)
        simplex = torch.div(flat, size, rounding_mode="floor")
        weight = weights[:, flat - simplex * size].view(len(weights), -1, *trailing)
        batch = by_corner[0].index_select(0, simplex).mul_(weight[0])
        for corner, w in zip(by_corner[1:], weight[1:], strict=True):
            batch.add_(corner.index_select(0, simplex).mul_(w))
        return batch

    return batch_of


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
