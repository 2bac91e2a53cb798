"""Meshes of simplices on a lattice, refined where the topology of the interpolated scores is in doubt."""

import functools
import itertools
from dataclasses import dataclass

import numpy as np

from rc_utils.checks import require
from rc_utils.regions.components import count_along_edges, non_negative
from rc_utils.regions.grid import scores_at
from rc_utils.regions.interpolant import count_pieces

# Times the greatest error that is seen around an element by which the interpolation may be off in it: of 3, 4 and 5,
# the smallest that changes no count on the first 30 triangles of the first network of the campaign cifar10-dimensions.
BEND_FACTOR = 4.0
BLOCK = 1 << 21  # scores, and corners of elements, that are looked at together


@dataclass(eq=False)
class Mesh:
    """A conforming mesh on each of several domains.

    Attributes:
        points: (V, d) int64, in units of which an edge of a domain has `scale`, as the indices of a `Lattice`.
        owner: (V,) the domain of each point.
        elements: (E, d + 1) points, in an order that says where an element is cut: halfway between the first and that
            at place d - depth mod d, which keeps angles from becoming small (Maubach, 1995).
        depth: (E,) how often each was cut.
        scores: (V, C) float64.
        is_box, scale: the shape and size of the domains.
    """

    points: np.ndarray
    owner: np.ndarray
    elements: np.ndarray
    depth: np.ndarray
    scores: np.ndarray
    is_box: bool
    scale: int

    def keys(self):
        """(V,) int64: a number for each point, those of an element's corners adding up to one for their face alone."""
        dim = self.points.shape[1]
        return np.column_stack([self.points, self.owner]) @ ((dim + 1) * self.scale + 1) ** np.arange(dim + 1)

    def walls(self):
        """(V, W) bool: which of the sides of its domain a point lies on."""
        far = self.points if self.is_box else self.points.sum(1, keepdims=True)
        return np.hstack([self.points == 0, far == self.scale])


def count_on_meshes(classifier, corners, lattice, batch_size, halvings=0):
    """Regions (B,) int64 of the interpolated scores on simplices or planes, and the number of evaluations.

    corners: (B, d + 1, *shape). Without halvings, labels alone are counted along the lattice's edges.
    """
    counts, evaluations, block, done = [], 0, 1, 0
    while done < len(corners):
        mesh, labels = interpolated_mesh(classifier, corners[done : done + block], lattice, batch_size, halvings)
        if mesh.scores is None:
            counts.append(count_along_edges(non_negative(labels).reshape(-1, lattice.num_points), lattice.edges))
        else:
            counts.append(count_pieces(mesh.scores, mesh.elements, mesh.owner, mesh.owner.max() + 1))
        evaluations += len(mesh.points)
        done += len(counts[-1])
        numbers = lattice.num_points * (1 if mesh.scores is None else mesh.scores.shape[1])
        block = max(1, BLOCK // max(numbers, lattice_elements(lattice).size))
    return np.concatenate(counts), evaluations


def interpolated_mesh(classifier, corners, lattice, batch_size, halvings):
    """The mesh of simplices or planes with corners (B, d + 1, *shape), with its scores, and the lattice's labels.

    Its elements are halved, up to d times `halvings`, where that could change the count (`in_doubt`). The scores are
    None for a model that returns labels.

    Raises ValueError for labels with halvings, and where scores are not finite.
    """
    mesh = lattice_mesh(lattice, len(corners), halvings)

    def look(owner, points):
        weights = np.hstack([mesh.scale - points.sum(1, keepdims=True), points]) / mesh.scale
        return scores_at(classifier, corners, owner, weights, batch_size)

    labels, mesh.scores = look(mesh.owner, mesh.points)
    if halvings:
        require(
            mesh.scores is not None,
            "the model returns labels; strategy 'adaptive' in more than one dimension needs scores: give the model's "
            "logits or log-probabilities; probabilities that are flat at 0 and 1, as a forest's, need strategy='grid'",
        )
        refine(mesh, lambda owner, points: look(owner, points)[1], halvings * lattice.dim)
    return mesh, labels


@functools.lru_cache(maxsize=8)
def lattice_elements(lattice):
    """Elements (E, d + 1) of Kuhn's triangulation of a lattice; E = (resolution - 1)^d, twice that in a box.

    Each is a path of d steps, which are taken in any order: one unit moved from corner 0 to 1, from 2 to 0, from 3 to 2
    and so on. In a plane the edges are those of adjacency "simplex".
    """
    steps = np.eye(lattice.dim, k=-1, dtype=np.int64) - np.eye(lattice.dim, dtype=np.int64)
    steps[:2, 0] = [1, 0][: lattice.dim]
    keys = np.ravel_multi_index(tuple(lattice.indices.T), lattice.grid_shape)
    found = []
    for order in itertools.permutations(steps):
        path = lattice.indices[:, None] + np.cumsum([0 * order[0], *order], axis=0)
        inside = (path >= 0).all((1, 2)) & (path < lattice.grid_shape).all((1, 2))
        if lattice.domain == "simplex":
            inside &= (path.sum(2) < lattice.resolution).all(1)
        path_keys = np.ravel_multi_index(tuple(np.moveaxis(path[inside], 2, 0)), lattice.grid_shape)
        found.append(np.searchsorted(keys, path_keys))
    elements = np.concatenate(found)
    elements.setflags(write=False)  # shared by all calls
    return elements


def lattice_mesh(lattice, number, halvings):
    """The mesh of a lattice on `number` domains, without scores, to be cut to 1 / 2^halvings of its interval."""
    size = lattice.num_points
    elements = lattice_elements(lattice) + size * np.arange(number)[:, None, None]
    return Mesh(
        points=np.tile(lattice.indices * 2**halvings, (number, 1)),
        owner=np.repeat(np.arange(number), size),
        elements=elements.reshape(-1, lattice.dim + 1),
        depth=np.zeros(elements.shape[0] * elements.shape[1], dtype=np.int64),
        scores=np.zeros((0, 0)),
        is_box=lattice.domain == "box",
        scale=(lattice.resolution - 1) * 2**halvings,
    )


def refine(mesh, look, depth):
    """Cut elements that are in doubt until there is none, or all that are have been cut `depth` times.

    An element is not judged again when only its neighbours are cut.

    look: from the owners (n,) and points (n, d) of new points to their scores (n, C).
    """
    new = np.ones(len(mesh.elements), dtype=bool)
    while True:
        chosen = in_doubt(mesh, new & (mesh.depth < depth))
        if not chosen.any():
            return
        known = len(mesh.points)
        new = cut(mesh, chosen)
        mesh.scores = np.concatenate([mesh.scores, look(mesh.owner[known:], mesh.points[known:])])


def cut(mesh, chosen):
    """Cut the chosen elements (E,) in two, and others until the mesh conforms; returns which are new then."""
    known, new = len(mesh.points), np.zeros(len(mesh.elements), dtype=bool)
    while chosen.any():
        new = np.append(new[~chosen], np.ones(2 * chosen.sum(), dtype=bool))
        _bisect(mesh, chosen, known)
        # A new point on an edge has half the sum of the keys of its ends.
        keys = mesh.keys()
        middles, corners = np.sort(2 * keys[known:]), keys[mesh.elements]
        chosen = np.zeros(len(corners), dtype=bool)
        for i, j in itertools.combinations(range(corners.shape[1]), 2):
            wanted = corners[:, i] + corners[:, j]
            chosen |= middles[np.searchsorted(middles, wanted) % len(middles)] == wanted
    return new


def _bisect(mesh, chosen, known):
    """Replace each chosen element by its halves, the points from `known` on being those that this round has added."""
    old, depth, places = mesh.elements[chosen], mesh.depth[chosen], np.arange(mesh.elements.shape[1])
    last = (places[-1] - depth % places[-1])[:, None]
    ends = np.hstack([old[:, :1], np.take_along_axis(old, last, axis=1)])
    middle = _middles(mesh, ends, known)[:, None]
    first = np.where(places == last, middle, old)
    second = np.where(places == last, middle, np.where(places < last, np.roll(old, -1, axis=1), old))
    mesh.elements = np.concatenate([mesh.elements[~chosen], first, second])
    mesh.depth = np.concatenate([mesh.depth[~chosen], depth + 1, depth + 1])


def _middles(mesh, ends, known):
    """The points in the middle of pairs (n, 2); those are added that this round has not added yet."""
    keys = mesh.keys()
    wanted = keys[ends].sum(1)
    missing = np.flatnonzero(~np.isin(wanted, 2 * keys[known:]))
    missing = missing[np.unique(wanted[missing], return_index=True)[1]]
    mesh.points = np.concatenate([mesh.points, mesh.points[ends[missing]].sum(1) // 2])
    mesh.owner = np.append(mesh.owner, mesh.owner[ends[missing, 0]])
    there = 2 * mesh.keys()[known:]
    order = np.argsort(there)
    return known + order[np.searchsorted(there, wanted, sorter=order)]


def in_doubt(mesh, judged):
    """Which of the elements `judged` (E,) may not have the topology of the scores that they interpolate, (E,) bool.

    An element is judged by itself, and by those of its faces that lie in a side of the domain, where a boundary between
    two labels may only just pass or miss the side.
    """
    dim, keys, walls = mesh.points.shape[1], mesh.keys(), mesh.walls()
    doubtful = doubtful_faces(mesh, keys, mesh.elements, judged)
    for number in range(1, dim):
        for sides in itertools.combinations(walls.T, number):
            on = np.all(sides, axis=0)[mesh.elements]
            element = np.flatnonzero(on.sum(1) == dim + 1 - number)
            faces = mesh.elements[element][on[element]].reshape(len(element), dim + 1 - number)
            _, once = np.unique(keys[faces].sum(1), return_index=True)
            faces, element = faces[once], element[once]
            doubtful[element[doubtful_faces(mesh, keys, faces, judged[element])]] = True
    return doubtful


def doubtful_faces(mesh, keys, faces, judged):
    """Which of the faces `judged` (F,) are in doubt, `faces` (F, n) being simplices that form a mesh of their own.

    With epsilon = BEND_FACTOR / 8 times the jump of a face (`_jumps`), a label is possible that comes within epsilon of
    the highest at a corner or in the middle of an edge, triangle... of it. One possible label leaves no doubt. With
    k of 2..n labels their scores should meet at an angle: the smallest but one of the k singular values of their
    matrix, its means over corners and over labels taken off, should be epsilon at least. More labels are in doubt.
    """
    size, doubtful, judged = faces.shape[1], np.zeros(len(faces), dtype=bool), np.flatnonzero(judged)
    margins = BEND_FACTOR / 8 * _jumps(mesh, keys, faces, judged)
    some = np.array([s for s in itertools.product([0, 1], repeat=size) if any(s)])
    places = some / some.sum(1, keepdims=True)
    step = max(1, BLOCK // (mesh.scores.shape[1] * len(places)))
    for part in np.split(judged, range(step, len(judged), step)):
        corners, margin = mesh.scores[faces[part]], margins[part]
        values = np.einsum("pk,ekc->epc", places, corners)
        possible = (values >= values.max(2, keepdims=True) - margin[:, None, None]).any(1)
        number = possible.sum(1)
        doubtful[part[number > size]] = True
        for k in range(2, size + 1):
            row, label = possible[number == k].nonzero()
            chosen = corners[number == k][row, :, label].reshape(-1, k, size)
            centred = chosen - chosen.mean(1, keepdims=True)
            centred -= centred.mean(2, keepdims=True)
            slope = np.linalg.svd(centred, compute_uv=False)[:, k - 2]
            doubtful[part[number == k][slope < margin[number == k]]] = True
    return doubtful


def _jumps(mesh, keys, faces, judged):
    """(F,) the greatest jump of any score beyond the neighbours of each face that is judged.

    A score is extended linearly from one of two neighbours to the far corner b of the other, where it is off by r. With
    l the weight in b of the one's own far corner, the same seen from the other side is off by r / l: the larger counts.
    """
    corner_keys = keys[faces]
    across = (corner_keys.sum(1, keepdims=True) - corner_keys).ravel()
    near = np.flatnonzero(np.isin(across, across.reshape(faces.shape)[judged]))
    near = near[np.argsort(across[near], kind="stable")]
    twins = np.flatnonzero(across[near[1:]] == across[near[:-1]])
    one, corner = np.divmod(near[twins], faces.shape[1])
    two, far = np.divmod(near[twins + 1], faces.shape[1])
    beyond = faces[two, far]
    weights = _barycentric(mesh.points[faces[one]].astype(np.float64), mesh.points[beyond].astype(np.float64))
    rest = mesh.scores[beyond] - np.einsum("ek,ekc->ec", weights, mesh.scores[faces[one]])
    own = np.abs(weights[np.arange(len(one)), corner])
    jump, jumps = np.abs(rest).max(1, initial=0) * np.maximum(1, 1 / own), np.zeros(len(faces))
    np.maximum.at(jumps, one, jump)
    np.maximum.at(jumps, two, jump)
    return jumps


def _barycentric(corners, points):
    """Weights (n, k) of corners (n, k, d) that give points (n, d) of the planes they span."""
    sides = corners[:, 1:] - corners[:, :1]
    along = sides @ (points - corners[:, 0])[..., None]
    rest = np.linalg.solve(sides @ sides.transpose(0, 2, 1), along)[..., 0]
    return np.hstack([1 - rest.sum(1, keepdims=True), rest])
