"""What the dimension does to the count of one network, and a triangle's regions as polygons."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from scipy.optimize import linprog

from rc_utils.regions import make_lattice, region_count
from rc_utils.regions.classifier import as_classifier
from rc_utils.regions.count import HALVINGS
from rc_utils.regions.interpolant import count_pieces
from rc_utils.regions.lattice import default_resolution
from rc_utils.regions.mesh import interpolated_mesh
from rc_utils.theory.complexity.regions import part_above

FINER = {2: 60, 3: 31, 4: 17, 5: 13}
"""Points an edge of the lattice that stands for the truth, by the dimension."""


def errors_by_dimension(model, points, *, num_samples: int = 4, num_linear: int = 25, seed: int = 0) -> pd.DataFrame:
    """How often counts are wrong in two to five dimensions at the default resolution, by `face` and interpolated.

    One row a dimension, each share over `num_linear` linear classifiers of ten labels, whose count is the number of
    labels that win somewhere, and over `num_samples` simplices of the model, whose truth is a finer lattice,
    interpolated. Columns: d, points an edge, the shares, and the mean error of the model's counts in regions.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for dim, finer in FINER.items():
        draw = {"dim": dim, "num_samples": num_samples, "seed": seed}
        fine = region_count(model, points, resolution=finer, adjacency="linear", **draw).counts
        scores = rng.standard_normal((num_linear, dim + 1, 10))
        truth = np.array([labels_that_win(corners) for corners in scores])
        row = {"d": dim, "points": default_resolution(dim)}
        for name, adjacency in (("face", "face"), ("interpolated", "linear")):
            counts = np.array([_linear_count(corners, adjacency) for corners in scores])
            found = region_count(model, points, adjacency=adjacency, **draw).counts
            row[f"linear classifiers wrong, {name}"] = (counts != truth).mean()
            row[f"network wrong, {name}"] = (found != fine).mean()
            row[f"its mean error, {name}"] = (found - fine).mean()
        rows.append(row)
    return pd.DataFrame(rows)


def labels_that_win(scores: np.ndarray) -> int:
    """How many labels have the highest score on some part of a simplex, from linear scores (d + 1, C) at its corners.

    For each label a linear program looks for the point where its lead over all others is largest.
    """
    corners, classes = scores.shape
    won = 0
    for label in range(classes):
        behind = np.delete(scores - scores[:, [label]], label, axis=1).T
        limits = np.column_stack([behind, np.ones(classes - 1)])
        inside = np.append(np.ones(corners), 0)[None]
        bounds = [(0, None)] * corners + [(None, None)]
        objective = np.append(np.zeros(corners), -1)
        lead = -linprog(objective, limits, np.zeros(classes - 1), inside, [1], bounds).fun
        won += lead > 0
    return won


def _linear_count(scores: np.ndarray, adjacency: str) -> int:
    """The count of linear scores (d + 1, C) at the corners of a simplex."""
    weights = torch.from_numpy(scores)
    corners = torch.eye(len(scores), dtype=weights.dtype)
    found = region_count(lambda x: x @ weights, corners, dim=len(scores) - 1, num_samples=1, adjacency=adjacency)
    return int(found.counts[0])


def triangle_polygons(model, vertices) -> tuple[list[np.ndarray], np.ndarray, int]:
    """The regions of a triangle (1, 3, *shape) as its adaptive count has them, to be drawn, and their number.

    Returns polygons (k, 3) in barycentric coordinates, one for each label in each element of the mesh, their labels,
    and the number.
    """
    lattice, classifier = make_lattice(2), as_classifier(model, vertices)
    corners = torch.as_tensor(vertices).to(classifier.device, classifier.dtype)
    mesh, _ = interpolated_mesh(classifier, corners, lattice, None, HALVINGS[2])
    places = np.column_stack([mesh.scale - mesh.points.sum(1), mesh.points]) / mesh.scale
    polygons, labels = [], []
    for element in mesh.elements:
        scores = mesh.scores[element]
        highest = np.unique(scores.argmax(1))
        for label in highest if len(highest) == 1 else range(scores.shape[1]):
            polygon = np.eye(3)
            for other in range(scores.shape[1]):
                polygon = part_above(polygon, polygon @ (scores[:, label] - scores[:, other]))
            if len(polygon) > 2:
                polygons.append(polygon @ places[element])
                labels.append(label)
    number = int(count_pieces(mesh.scores, mesh.elements, mesh.owner, 1)[0])
    return polygons, np.array(labels), number
