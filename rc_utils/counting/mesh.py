"""Pieces of scores interpolated on a mesh of simplices, refined where they are in doubt."""

import collections
import functools
import itertools

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from rc_utils.counting.classifier import classifier_inside, rounding_of, scores_at
from rc_utils.counting.lattice import graph_components, make_lattice
from rc_utils.validation import check_name, require

STRATEGIES = ("grid", "adaptive")
# How often the lattice's interval is halved, at most, by dimension; once in more than three.
HALVINGS = {2: 9, 3: 3}
# Times the greatest error seen around an element by which the interpolation may be off in it: of 3,
# 4, 5, the smallest that changes no count on 30 triangles of the campaign cifar10-dimensions.
BEND_FACTOR = 4.0
# Share of an element, or of a lead in it, by which a label has to win: where labels only tie at a
# point, as those of a model without biases do at the origin, rounding has others win around it.
LEAST_WIN = 1e-6
BLOCK = 1 << 21  # scores, and corners of elements, that are looked at together


class Mesh:
    """A conforming mesh on each of several simplices (B, d + 1, *shape), and scores at its points.

    points: (V, d) int64, in units of which an edge of a simplex has `scale`. owner: (V,) the
        simplex. places: (V, d + 1) float64, barycentric. scores: (V, C) float64.
    elements: (E, d + 1) points, in an order that says where an element is cut: halfway between the
        first and that at place d - depth mod d, which keeps angles wide (Maubach, 1995).
    depth: (E,) how often each was cut, from a lattice of which 1 / 2^halvings of an interval is 1.
    rounding: (B,) by how much the scores on a simplex may be off.
    keys: (V,) int64; the sum over the corners of a face is a key of that face, as no other has it.
    """

    def __init__(self, classifier, corners, lattice, halvings=0):
        number, size, dim = len(corners), len(lattice.coordinates), lattice.dim
        self.scores_at = functools.partial(scores_at, classifier, corners)
        self.scale = (lattice.resolution - 1) * 2**halvings
        self.points = np.tile(lattice.indices * 2**halvings, (number, 1))
        self.owner = np.repeat(np.arange(number), size)
        base = (dim + 1) * self.scale + 1
        self.keys = np.column_stack([self.points, self.owner]) @ base ** np.arange(dim + 1)
        elements = lattice_elements(lattice) + size * np.arange(number)[:, None, None]
        self.elements = elements.reshape(-1, dim + 1)
        self.depth = np.zeros(len(self.elements), dtype=np.int64)
        self.scores = self.scores_at(self.owner, self.places)
        self.rounding = rounding_of(classifier, self.scores, corners)

    @property
    def places(self):
        return np.column_stack([self.scale - sum(self.points.T), self.points]) / self.scale

    def refine(self, depth):
        """Cut elements in doubt until none is, or all that are have been cut `depth` times."""
        new = np.ones(len(self.elements), dtype=bool)
        while (judged := new & (self.depth < depth)).any():
            new = self.cut(in_doubt(self, judged))

    def cut(self, chosen):
        """Cut the chosen elements (E,), others until the mesh conforms; returns which are new."""
        known, new, ends = len(self.points), np.zeros(len(self.elements), dtype=bool), []
        while chosen.any():
            new = np.append(new[~chosen], np.ones(2 * chosen.sum(), dtype=bool))
            ends.append(self._bisect(chosen, known).ravel())
            is_end = np.zeros(len(self.points), dtype=bool)  # of an edge that is cut
            is_end[np.concatenate(ends)] = True
            near = np.flatnonzero(corners_in(is_end, self.elements) > 1)
            sums = [a + b for a, b in itertools.combinations(self.keys[self.elements[near]].T, 2)]
            chosen = np.zeros(len(self.elements), dtype=bool)
            # A new point on an edge has half the sum of the keys of its ends.
            chosen[near] = among(np.stack(sums), 2 * self.keys[known:]).any(0)
        if new.any():
            found = self.scores_at(self.owner[known:], self.places[known:])
            self.scores = np.concatenate([self.scores, found])
        return new

    def _bisect(self, chosen, known):
        """Replace chosen elements by their halves; returns the ends (n, 2) of the edges cut."""
        # Points from `known` on are middles that this round has made; those it lacks are added.
        old, depth = self.elements[chosen], self.depth[chosen]
        places = np.arange(old.shape[1])
        last = (places[-1] - depth % places[-1])[:, None]
        ends = np.hstack([old[:, :1], np.take_along_axis(old, last, axis=1)])
        wanted = sum(self.keys[ends.T])
        missing = np.flatnonzero(~among(wanted, 2 * self.keys[known:]))
        missing = missing[np.unique(wanted[missing], return_index=True)[1]]
        self.points = np.concatenate([self.points, sum(self.points[ends[missing].T]) // 2])
        self.owner = np.append(self.owner, self.owner[ends[missing, 0]])
        self.keys = np.append(self.keys, wanted[missing] // 2)
        middle = known + pd.Index(2 * self.keys[known:]).get_indexer(wanted)[:, None]
        first = np.where(places == last, middle, old)
        second = np.where(places < last, np.roll(old, -1, axis=1), first)
        self.elements = np.concatenate([self.elements.compress(~chosen, axis=0), first, second])
        self.depth = np.concatenate([self.depth[~chosen], depth + 1, depth + 1])
        return ends


def count_on_meshes(classifier, corners, lattice, halvings=0):
    """Regions (B,) int64 of interpolated scores on corners (B, d + 1, *shape)."""
    counts, block = [], 1
    while len(corners):
        part, corners = corners[:block], corners[block:]
        mesh = Mesh(classifier, part, lattice, halvings)
        mesh.refine(halvings * lattice.dim)
        counts.append(count_pieces(mesh.scores, mesh.elements, mesh.owner, len(part)))
        scores = len(lattice.coordinates) * mesh.scores.shape[1]
        block = max(1, BLOCK // max(scores, lattice_elements(lattice).size))
    return np.concatenate(counts)


@functools.lru_cache(maxsize=1)
def lattice_elements(lattice):
    """Elements (E, d + 1) of Kuhn's triangulation, each a path of d steps, in any order."""
    # They move one unit from corner 0 to 1, from 2 to 0, from 3 to 2 and so on.
    steps = np.eye(lattice.dim, k=-1, dtype=np.int64) - np.eye(lattice.dim, dtype=np.int64)
    steps[0, 0], steps[1:2, 0] = 1, 0
    strides = lattice.resolution ** np.arange(lattice.dim)[::-1]
    keys, sums, found = lattice.indices @ strides, lattice.indices.sum(1), []
    for order in itertools.permutations(steps):
        path = np.cumsum([0 * order[0], *order], axis=0)
        inside = (lattice.indices + path.min(0) >= 0).all(1)
        inside &= sums + path.sum(1).max() < lattice.resolution
        found.append(np.searchsorted(keys, keys[inside][:, None] + path @ strides))
    return np.concatenate(found)


def in_doubt(mesh, judged):
    """Mask (E,) of the elements among `judged` (E,) that may lack the topology of their scores."""
    # An element is judged by itself, and by those of its faces that lie in a side of the domain,
    # where a boundary between two labels may only just pass or miss the side.
    dim = mesh.points.shape[1]
    walls = np.column_stack([mesh.points == 0, sum(mesh.points.T) == mesh.scale])
    doubtful = doubtful_faces(mesh, mesh.elements, judged)
    for number in range(1, dim):
        for sides in itertools.combinations(walls.T, number):
            on, size = np.all(sides, axis=0), dim + 1 - number
            element = np.flatnonzero(corners_in(on, mesh.elements) == size)
            corners = mesh.elements[element]
            faces = corners[on[corners]].reshape(-1, size)
            _, once = np.unique(sum(mesh.keys[faces.T]), return_index=True)
            faces, element = faces[once], element[once]
            doubtful[element[doubtful_faces(mesh, faces, judged[element])]] = True
    return doubtful


def corners_in(mask, elements):
    """(E,) how many corners of elements (E, n) are in a mask of points (V,)."""
    # Here and below: by columns, since a sum along rows of three takes eight times as long.
    return sum(mask.view(np.int8)[corner] for corner in elements.T)


def among(values, others):
    """Which of `values`, of any shape, are among others (n,): by hashes, faster than `np.isin`."""
    return pd.Index(values.ravel()).isin(others).reshape(values.shape)


def doubtful_faces(mesh, faces, judged):
    """Mask (F,) of the faces (F, n) of a mesh, among `judged` (F,), that are in doubt.

    Let epsilon be BEND_FACTOR / 8 times the jump of a face (`jumps_of`), 0 where that is no more
    than `rounding`. A label is possible whose score is within epsilon of the highest at a corner or
    in the middle of an edge, triangle... of the face. One possible label leaves no doubt, more than
    n do. With k of 2..n their scores should meet at an angle: of the matrix of scores at the
    corners, less its means over labels and over corners, the second smallest of the k singular
    values should be at least epsilon.
    """
    judged = np.flatnonzero(judged)
    size, doubtful = faces.shape[1], np.zeros(len(faces), dtype=bool)
    margins = BEND_FACTOR / 8 * jumps_of(mesh, faces, judged)
    subsets = np.array([s for s in itertools.product([0, 1], repeat=size) if any(s)])
    places = subsets / subsets.sum(1, keepdims=True)  # corners, middles of edges and so on
    step = max(1, BLOCK // (mesh.scores.shape[1] * len(places)))
    for part in np.split(judged, range(step, len(judged), step)):
        corners, margin = mesh.scores[faces[part]], margins[part]
        margin = np.where(margin > mesh.rounding[mesh.owner[faces[part, 0]]], margin, 0)
        values = np.einsum("pk,ekc->epc", places, corners)
        possible = (values >= values.max(2, keepdims=True) - margin[:, None, None]).any(1)
        _leave_out_twins(possible, corners)
        number = possible.sum(1)
        doubtful[part[number > size]] = True
        for k in range(2, size + 1):
            has_k = number == k
            face, label = possible[has_k].nonzero()
            matrix = corners[has_k][face, :, label].reshape(-1, k, size)
            matrix = matrix - matrix.mean(1, keepdims=True)
            matrix -= matrix.mean(2, keepdims=True)
            angle = np.linalg.svd(matrix, compute_uv=False)[:, k - 2]
            doubtful[part[has_k][angle < margin[has_k]]] = True
    return doubtful


def _leave_out_twins(possible, corners):
    """Of `possible` labels (F, C) with equal scores at all corners (F, n, C), keep the first."""
    # The others win nowhere, and no refinement would part them: a last layer of zeros has them.
    face, label = (possible & (possible.sum(1, keepdims=True) > 1)).nonzero()
    order = np.lexsort((label, *corners[face, :, label].T, face))
    face, label = face[order], label[order]
    at = corners[face, :, label]
    twin = (at[1:] == at[:-1]).all(1) & (face[1:] == face[:-1])
    possible[face[1:][twin], label[1:][twin]] = False


def jumps_of(mesh, faces, judged):
    """(F,) the greatest jump of any score between a face and its neighbours, for faces `judged`.

    A score is extended linearly from one of two neighbours to the far corner of the other, where it
    is off by r. With l the weight there of the one's own far corner, the same seen from the other
    side is off by r / l: the larger counts.
    """
    size, is_corner = faces.shape[1], np.zeros(len(mesh.points), dtype=bool)
    is_corner[faces[judged]] = True
    beside = np.flatnonzero(corners_in(is_corner, faces) >= size - 1)
    # Neighbours share a side: the key of the side across from each corner is found twice.
    keys = mesh.keys[faces[beside]]
    across = (sum(keys.T)[:, None] - keys).ravel()
    near = np.flatnonzero(among(across, across[np.repeat(among(beside, judged), size)]))
    near = near[np.argsort(across[near], kind="stable")]
    shared = np.flatnonzero(across[near[1:]] == across[near[:-1]])
    (one, two), (corner, far) = np.divmod([near[shared], near[shared + 1]], size)
    one, two = beside[one], beside[two]
    beyond = faces[two, far]
    # Weights of the corners of `one` that give the point beyond, of the plane they span.
    places = mesh.points.astype(np.float64)
    origin = places[faces[one, 0]]
    sides = places[faces[one, 1:]] - origin[:, None]
    along = sides @ (places[beyond] - origin)[..., None]
    weights = np.linalg.solve(sides @ sides.transpose(0, 2, 1), along)[..., 0]
    weights = np.hstack([1 - weights.sum(1, keepdims=True), weights])
    rest = mesh.scores[beyond] - np.einsum("ek,ekc->ec", weights, mesh.scores[faces[one]])
    own = np.abs(weights[np.arange(len(one)), corner])
    jump = np.abs(rest).max(1) * np.maximum(1, 1 / own)
    jumps = np.full(len(faces), np.inf)  # without a neighbour nothing shows how scores bend
    jumps[one] = jumps[two] = 0
    np.maximum.at(jumps, one, jump)
    np.maximum.at(jumps, two, jump)
    return jumps


def count_pieces(scores, elements, owner, number):
    """Connected pieces of equal argmax of the linear interpolant, (number,) int64.

    scores: (V, C) float64 at the vertices. elements: (E, d + 1) vertices of each simplex of the
    mesh. owner: (V,) which of `number` separate domains a vertex belongs to.

    In an element, and on each of its faces, every label wins on a convex set. So the pieces are the
    components of a graph with a node for every vertex, and for every edge or triangle and label
    that wins inside it and at none of its corners, where all nodes of one label in one element are
    joined. To `LEAST_WIN` this is exact for d <= 2; in three dimensions what lies inside one
    tetrahedron is missed, and beyond only vertices and edges are looked at: twenty times as fast.
    """
    labels, size = scores.argmax(1), elements.shape[1]
    mixed = (labels[elements] != labels[elements[:, :1]]).any(1)
    links = [elements[~mixed][:, [k, k + 1]] for k in range(size - 1)]
    elements, owners, total = elements[mixed], [owner], len(owner)
    # (element, label, node) of every node in an element.
    element, node = np.repeat(np.arange(len(elements)), size), elements.ravel()
    entries = [np.stack([element, labels[node], node])]
    for corners in (2, 3) if size in (3, 4) else (2,):
        faces, faces_of_each = faces_of(elements, corners)
        face, label = labels_inside(scores, labels, faces)
        owners.append(owner[faces[face, 0]])
        # The numbers of nodes, from 1 on, in a table of faces and labels.
        nodes = total + 1 + np.arange(len(face))
        table = csr_array((nodes, (face, label)), shape=(len(faces), scores.shape[1]))
        found = table[faces_of_each.ravel()].tocoo()
        element, label = found.coords[0] // faces_of_each.shape[1], found.coords[1]
        entries.append(np.stack([element, label, found.data - 1]))
        total += len(face)
    element, label, node = np.concatenate(entries, axis=1)
    order = np.lexsort((label, element))
    element, label, node = element[order], label[order], node[order]
    alike = (element[1:] == element[:-1]) & (label[1:] == label[:-1])
    links.append(np.stack([node[:-1][alike], node[1:][alike]], axis=1))
    return graph_components(np.concatenate(links), np.concatenate(owners), number)


def faces_of(elements, size):
    """The distinct faces (F, size) of elements (E, n), in order, and which of them each has."""
    choices = list(itertools.combinations(range(elements.shape[1]), size))
    rows = np.sort(elements, axis=1)[:, choices].reshape(-1, size)
    base = 1 + int(elements.max(initial=0))
    require(base**size < 2**63, f"{base:,} vertices are too many: lower the resolution")
    keys = rows @ base ** np.arange(size)[::-1]  # one number for each face, in the same order
    _, first, index = np.unique(keys, return_index=True, return_inverse=True)
    return rows[first], index.reshape(len(elements), len(choices))


def labels_inside(scores, labels, faces):
    """(face (N,), label (N,)) of labels that win inside faces (F, 2 or 3) and at no corner."""
    found = [np.zeros((0, 2), dtype=np.int64)]
    some = np.flatnonzero((labels[faces] != labels[faces[:, :1]]).any(1))
    step = max(1, BLOCK // (faces.shape[1] * scores.shape[1]))
    for part in np.split(some, range(step, len(some), step)):
        corners = scores[faces[part]]
        # Such a label beats that of each corner at another one.
        beaten = np.take_along_axis(corners, labels[faces[part]][:, None], axis=2)
        possible = (corners[..., None] > beaten[:, :, None]).any(1).all(2)
        face, label = possible.nonzero()
        for begin in range(0, len(face), step):
            row, at = face[begin : begin + step], label[begin : begin + step]
            lead = np.take_along_axis(corners[row], at[:, None, None], axis=2) - corners[row]
            equal = (lead == 0).all(1)
            wins = ((lead > 0).any(1) | equal).all(1)
            wins &= equal.argmax(1) == at  # of labels with the same scores, the first
            if faces.shape[1] == 2:
                wins &= _wins_on_edge(lead)
            else:
                wins[wins] = list(map(_wins_in_triangle, lead[wins]))  # the others need no look
            found.append(np.stack([part[row], at], axis=1)[wins])
    return np.concatenate(found).T


def _wins_on_edge(lead):
    """Whether labels win on a part of an edge, by leads (N, 2, C) over each label at both ends."""
    first, last = lead[:, 0], lead[:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = first / (first - last)
    rising = np.where(first < 0, np.where(last > 0, crossing, np.inf), -np.inf)
    falling = np.where(last < 0, np.where(first > 0, crossing, -np.inf), np.inf)
    return rising.max(1) + LEAST_WIN < falling.min(1)


def _wins_in_triangle(lead):
    """Whether a label wins in a triangle, from its leads (3, C) over each label at the corners."""
    others = lead[:, (lead != 0).any(0)]
    polygon = part_won(others)
    least = LEAST_WIN * np.abs(others).max(0)
    return len(polygon) > 2 and bool((polygon.mean(0) @ others > least).all())


def part_won(lead):
    """Part (k, 3) of a triangle, barycentric, where leads (3, C) of a label are not negative."""
    polygon = np.eye(3)
    for heights in lead.T:
        polygon = part_above(polygon, polygon @ heights)
    return polygon


def part_above(polygon: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Part of a convex polygon (k, n) where an affine function, (k,) at its corners, is >= 0."""
    points = []
    for k in range(len(polygon)):
        before, height = polygon[k - 1], heights[k - 1]
        if np.sign(height) * np.sign(heights[k]) < 0:  # their product may underflow
            points.append(before + height / (height - heights[k]) * (polygon[k] - before))
        if heights[k] >= 0:
            points.append(polygon[k])
    return np.array(points).reshape(-1, polygon.shape[1])


def triangle_regions(model, vertices, resolution=None, strategy="adaptive"):
    """The regions of one triangle, to be drawn: the pieces that `region_count` counts by "linear".

    vertices: (1, 3, *shape), as `sample_vertices` returns them. resolution, strategy: as there.

    Returns polygons, a list of (k, 3) in barycentric coordinates, one for each label in each
    element of the mesh; their labels (n,); and the number of regions.
    """
    check_name("strategy", strategy, STRATEGIES)
    halvings = HALVINGS[2] if strategy == "adaptive" else 0
    classifier, corners = classifier_inside(model, vertices)
    shape = tuple(corners.shape)
    require(shape[:2] == (1, 3), f"vertices have shape {shape}; expected (1, 3, *shape)")
    mesh = Mesh(classifier, corners, make_lattice(2, resolution), halvings)
    mesh.refine(halvings * 2)
    polygons, labels, places = [], [], mesh.places
    for element in mesh.elements:
        scores = mesh.scores[element]
        # A label that another one exceeds at all corners is nowhere the highest.
        winners = np.unique(scores.argmax(1))
        possible = ~(scores[:, winners, None] > scores[:, None]).all(0).any(0)
        _leave_out_twins(possible[None], scores[None])
        for label in np.flatnonzero(possible):
            polygon = part_won(scores[:, [label]] - scores[:, possible])
            if len(polygon) > 2:
                polygons.append(polygon @ places[element])
                labels.append(label)
    number = int(count_pieces(mesh.scores, mesh.elements, mesh.owner, 1)[0])
    return polygons, np.array(labels), number


def outlines(polygons, labels):
    """Closed paths {label: [(n, 2), ...]} around the regions of convex polygons (k, 2) with labels.

    Two polygons of one label that share an edge are one region: the edge is left out. Places are
    rounded to four digits. Outer paths have a positive `area`, paths around holes a negative one.
    """
    edges, back = collections.Counter(), collections.Counter()
    for polygon, label in zip(polygons, labels, strict=True):
        anticlockwise = polygon if area(polygon) >= 0 else polygon[::-1]
        points = [tuple(point) for point in np.round(anticlockwise, 4).tolist()]
        for start, stop in zip(points, points[1:] + points[:1], strict=True):
            edges[int(label), start, stop] += 1  # two, where a thin polygon is rounded to a line
            back[int(label), stop, start] += 1
    following = collections.defaultdict(list)
    for label, start, stop in (edges - back).elements():
        following[label, start].append(stop)
    paths = collections.defaultdict(list)
    for label, start in list(following):
        while following[label, start]:
            path = [start]
            while following[label, path[-1]]:
                path.append(following[label, path[-1]].pop())
            paths[label].append(np.array(path[:-1]))
    return paths


def area(path):
    """Signed area inside a closed path (n, 2)."""
    x, y = path.T
    return (np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2
