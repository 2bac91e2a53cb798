"""What counts are right: labels that win on a simplex, and a triangle's regions as polygons."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linprog

from rc_utils.counting import make_lattice
from rc_utils.counting.classifier import as_classifier
from rc_utils.counting.mesh import HALVINGS, count_pieces, interpolated_mesh, part_above


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
