"""Pieces of equal label of scores that are interpolated linearly on a conforming mesh of simplices."""

import itertools

import numpy as np
from scipy.optimize import linprog

from rc_utils.regions.components import graph_components

BLOCK = 1 << 22  # scores that are compared at once


def count_pieces(scores, elements, owner, number):
    """Connected pieces of equal argmax of the linear interpolant, (number,) int64.

    scores: (V, C) float64 at the vertices. elements: (E, d + 1) vertices of each simplex of the mesh. owner: (V,) which
    of `number` separate domains a vertex belongs to.

    In an element, and on each of its faces, every label wins on a convex set. So the pieces are the components of a
    graph with a node for every face (vertex, edge, triangle...) and label that wins inside it and on no smaller face of
    it, where all nodes of one label in one element are joined. Faces up to triangles make this exact for d <= 2; in
    three dimensions what lies inside one tetrahedron is missed. Beyond, only vertices and edges are looked at: the rest
    takes twenty times as long, and changes no count of linear classifiers.
    """
    labels = scores.argmax(1)
    mixed = (labels[elements] != labels[elements[:, :1]]).any(1)
    links = [elements[~mixed][:, [k, k + 1]] for k in range(elements.shape[1] - 1)]
    owners, total = [owner], len(owner)
    element, node, label = [], [], []
    for faces, faces_of_each, face, won in _winners(scores, labels, elements[mixed]):
        nodes = faces[face, 0] if faces.shape[1] == 1 else total + np.arange(len(face))
        if faces.shape[1] > 1:
            owners.append(owner[faces[face, 0]])
            total += len(face)
        of, which = incidences(faces_of_each, face, len(faces))
        element.append(of)
        node.append(nodes[which])
        label.append(won[which])
    links.append(_joined(np.concatenate(element), np.concatenate(node), np.concatenate(label)))
    return graph_components(np.concatenate(links), np.concatenate(owners), number)


def _winners(scores, labels, elements):
    """For vertices, edges and triangles of elements: faces (F, n), those of each element, and where labels win first.

    The last are faces (N,), ascending, and labels (N,) that win inside the face and on no smaller face of it.
    """
    found = []
    largest = min(elements.shape[1], 3 if elements.shape[1] <= 4 else 2)
    for size in range(1, largest + 1):
        faces, faces_of_each = faces_of(elements, size)
        won = np.zeros((len(faces), scores.shape[1]), dtype=bool)
        for smaller, (face, label) in enumerate(found, start=1):
            parts, parts_of_each = faces_of(faces, smaller)
            row, node = incidences(parts_of_each, face, len(parts))
            won[row, label[node]] = True
        if size == 1:
            found.append((np.arange(len(faces)), labels[faces[:, 0]]))
        else:
            found.append(labels_inside(scores, labels, faces, won))
        yield faces, faces_of_each, *found[-1]


def faces_of(elements, size):
    """The distinct faces (F, size) of elements (E, n), in order, and the faces (E, n over size) of each element."""
    choices = list(itertools.combinations(range(elements.shape[1]), size))
    rows = np.sort(elements, axis=1)[:, choices].reshape(-1, size)
    order = np.lexsort(rows.T[::-1])
    rows = rows[order]
    is_new = np.ones(len(rows), dtype=bool)
    is_new[1:] = (rows[1:] != rows[:-1]).any(1)
    index = np.empty(len(rows), dtype=np.int64)
    index[order] = np.cumsum(is_new) - 1
    return rows[is_new], index.reshape(len(elements), len(choices))


def labels_inside(scores, labels, faces, won):
    """(face (N,), label (N,)) of labels that win inside faces (F, n) and, by `won` (F, C), not on their boundary.

    Where such a label leads the others most, as many others as the face has corners meet: fewer on its boundary leave
    no room for one. It also beats the label of every corner at another corner.
    """
    some = np.flatnonzero(won.sum(1) >= faces.shape[1])
    faces, won = faces[some], won[some]
    found = [np.zeros((0, 2), dtype=np.int64)]
    step = max(1, BLOCK // (faces.shape[1] * scores.shape[1]))
    for start in range(0, len(faces), step):
        corners = scores[faces[start : start + step]]
        possible = ~won[start : start + step]
        for own in labels[faces[start : start + step]].T:
            possible &= (corners > np.take_along_axis(corners, own[:, None, None], axis=2)).any(1)
        face, label = possible.nonzero()
        for part in np.array_split(np.arange(len(face)), 1 + len(face) // step):
            lead = corners[face[part]]
            lead = np.take_along_axis(lead, label[part][:, None, None], axis=2) - lead
            wins = _wins_on_edge(lead) if faces.shape[1] == 2 else _wins_somewhere(lead)
            wins &= (lead == 0).all(1).argmax(1) == label[part]  # of labels with the same scores, the first
            found.append(np.stack([some[start + face[part][wins]], label[part][wins]], axis=1))
    return np.concatenate(found).T


def _wins_on_edge(lead):
    """Whether labels win on a part of an edge, from their leads (N, 2, C) over each label at both ends."""
    first, last = lead[:, 0], lead[:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = first / (first - last)
    rising = np.where(first < 0, np.where(last > 0, crossing, np.inf), -np.inf)
    falling = np.where(last < 0, np.where(first > 0, crossing, -np.inf), np.inf)
    return rising.max(1) < falling.min(1)


def _wins_somewhere(lead):
    """Whether labels win somewhere in a simplex, from leads (N, n, C) at its n corners: a linear program each.

    The weights w >= 0 of the corners, of sum 1, are sought at which the least of the leads w @ lead is greatest.
    """
    size = lead.shape[1]
    wins = np.zeros(len(lead), dtype=bool)
    # The solver's tolerances are absolute.
    largest = np.abs(lead).max(axis=(1, 2), keepdims=True)
    for i, leads in enumerate(lead / np.where(largest > 0, largest, 1)):
        others = leads[:, (leads != 0).any(0)].T
        least = np.column_stack([-others, np.ones(len(others))])
        options = {"A_eq": [[1] * size + [0]], "b_eq": [1], "bounds": [(0, None)] * size + [(None, None)]}
        wins[i] = -linprog([0] * size + [-1], least, np.zeros(len(others)), **options).fun > 0
    return wins


def incidences(faces_of_each, face, number):
    """(element, node) for every node that lies on a face of an element; `face` (N,) of the nodes is ascending."""
    count = np.bincount(face, minlength=number)
    start = np.cumsum(count) - count
    element, which = (count[faces_of_each] > 0).nonzero()
    faces = faces_of_each[element, which]
    repeats = count[faces]
    within = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return np.repeat(element, repeats), np.repeat(start[faces], repeats) + within


def _joined(element, node, label):
    """Links (L, 2) that join all nodes of one label in one element."""
    order = np.lexsort((label, element))
    element, node, label = element[order], node[order], label[order]
    alike = (element[1:] == element[:-1]) & (label[1:] == label[:-1])
    return np.stack([node[:-1][alike], node[1:][alike]], axis=1)
