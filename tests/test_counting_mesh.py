"""Pieces of interpolated scores on meshes: closed forms, other counts, invariances, pictures."""

import itertools
import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from scipy import ndimage
from scipy.cluster.hierarchy import DisjointSet
from scipy.optimize import linprog

from rc_utils import plotting
from rc_utils.counting import (
    make_lattice,
    mesh,
    outlines,
    region_count,
    sample_vertices,
    sampling,
    triangle_regions,
)
from rc_utils.counting.classifier import classifier_inside
from rc_utils.counting.mesh import area, count_on_meshes, count_pieces, lattice_elements

TRIANGLE = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


def wins_somewhere(scores, label):
    """Whether a label of linear scores (d + 1, C) wins somewhere: a ball in its half-spaces."""
    origin, *others = scores
    slopes = np.array([other - origin for other in others])
    keep = np.arange(scores.shape[1]) != label
    # a x <= b: other - label <= 0, x >= 0, sum x <= 1.
    sides = [-np.eye(len(slopes)), np.ones((1, len(slopes)))]
    normals = np.concatenate([(slopes - slopes[:, [label]]).T[keep], *sides])
    bounds = np.concatenate([(origin[label] - origin)[keep], np.zeros(len(slopes)), [1.0]])
    norms = np.linalg.norm(normals, axis=1)
    ball = [(None, None)] * len(slopes) + [(None, 1)]
    goal = [*np.zeros(len(slopes)), -1]
    found = linprog(goal, np.column_stack([normals, norms]), bounds, bounds=ball)
    return found.status == 0 and -found.fun > 1e-9


@pytest.mark.parametrize("halvings", [0, 2])
@pytest.mark.parametrize(("dim", "samples"), [(2, 20), (3, 5), (4, 2)])
def test_linear_classifiers_have_as_many_regions_as_labels(dim, samples, halvings, rng):
    """Regions of linear scores are convex. Nothing is bent, so that hardly a point is added."""
    scores = rng.standard_normal((samples, dim + 1, 10))
    expected = [sum(wins_somewhere(s, label) for label in range(10)) for s in scores]
    lattice, corners = make_lattice(dim), torch.from_numpy(scores)
    sizes = []
    # Points are scores.
    classifier, _ = classifier_inside(lambda x: sizes.append(len(x)) or x, corners)
    sizes.clear()
    assert count_on_meshes(classifier, corners, lattice, halvings).tolist() == expected
    assert sum(sizes) <= 1.05 * samples * len(lattice.coordinates)


@pytest.mark.parametrize("scale", [1, 1e-165, 1e-200])
def test_a_label_that_wins_inside_a_triangle_alone_is_found_whatever_the_scale(scale):
    scores = np.column_stack([np.eye(3), np.full(3, 0.335)]) * scale
    assert region_count(lambda x: x @ scores, np.eye(3), dim=2, num_samples=1).mean == 4


@pytest.mark.parametrize("degrees", [0.3, 90])
@pytest.mark.parametrize("strategy", ["grid", "adaptive"])
def test_a_wedge_is_one_region_whatever_its_angle(degrees, strategy, rng):
    """Three labels around a point, one on a narrow wedge, on a slightly bent plane."""
    wedge = math.radians(degrees)
    for direction in rng.uniform(0, 2 * math.pi, size=2):
        # Neighbours differ by multiples of the normal of their boundary, which add up to nothing.
        rays = direction + np.array([0, wedge, math.pi + wedge / 2])
        normals = np.stack([-np.sin(rays), np.cos(rays)])
        multiples = np.append(np.linalg.solve(normals[:, :2], -normals[:, 2]), 1)
        slopes = np.cumsum(normals * multiples, axis=1)

        def scores(x, slopes=slopes):
            return (x + 0.02 * np.sin(5 * x[:, ::-1]) - 0.31) @ slopes

        options, corners = {"dim": 2, "num_samples": 2, "resolution": 80}, 2 * TRIANGLE
        found = region_count(scores, corners, strategy=strategy, **options)
        assert found.counts.tolist() == [3, 3]


def waves_of(seed):
    """Ten scores of two numbers, sums of waves."""
    rng = np.random.default_rng(seed)
    waves = rng.standard_normal((2, 12)) * 8
    phases = rng.uniform(0, 6, 12)
    weights = rng.standard_normal((12, 10))
    return lambda x: np.sin(x @ waves + phases) @ weights


def cassini_oval(x, y):
    """(x, y)'s height, 0 at the middle of the two lobes, which meet there."""
    x, y = x - 0.38, y - 0.3
    x, y = x * math.cos(0.4) - y * math.sin(0.4), x * math.sin(0.4) + y * math.cos(0.4)
    return 2 * 0.1**2 * (x**2 - y**2) - (x**2 + y**2) ** 2


def parabola(x, y):
    """Zero on a curve that touches the side y = 0, positive in the two parts below it."""
    return 0.2 * (x - 0.4) ** 2 - y


@pytest.mark.parametrize(("height", "shift", "regions"), [
    (cassini_oval, -2e-10, 3), (cassini_oval, 2e-10, 2),
    (parabola, -1e-5, 3), (parabola, 1e-5, 2),
])  # fmt: skip
def test_a_gap_of_a_ten_thousandth_separates_and_a_bridge_joins(height, shift, regions):
    """Of the two lobes of an oval, 1e-4 apart or joined by a neck as narrow, and at a side."""
    scores = lambda points: height(*points.T) + shift  # noqa: E731
    count = region_count(scores, TRIANGLE, dim=2, num_samples=1, strategy="adaptive")
    assert count.counts.tolist() == [regions]
    assert count.num_evaluations < 1200


def count_by_polygons(scores, elements):
    """Pieces of the interpolant: polygons of each triangle, joined along shared edges."""
    parts, sides = DisjointSet(), {}
    for number, element in enumerate(elements):
        for label in range(scores.shape[1]):
            if wins_somewhere(scores[element], label):
                parts.add((number, label))
        for side in itertools.combinations(sorted(element), 2):
            sides.setdefault(side, []).append(number)
    for side, (first, *second) in sides.items():
        for label in range(scores.shape[1]):
            if second and wins_somewhere(scores[list(side)], label):
                parts.merge((first, label), (second[0], label))
    return parts.n_subsets


@pytest.mark.parametrize("classes", [2, 6])
def test_pieces_agree_with_polygons_cut_out(classes, rng):
    """Rough scores, with labels that win inside an edge and inside a triangle alone."""
    lattice = make_lattice(2, 5)
    elements = lattice_elements(lattice)
    for _ in range(2):
        scores = rng.standard_normal((len(lattice.coordinates), classes))
        counted = count_pieces(scores, elements, np.zeros(len(scores), dtype=np.int64), 1)
        assert counted.tolist() == [count_by_polygons(scores, elements)]


def test_labels_alone_are_counted_along_the_edges_below_zero_too(rng):
    points, waves = rng.standard_normal((20, 2)), rng.standard_normal((2, 4)) * 5

    def label(x):
        return np.sin(x @ waves).argmax(1)

    options = {"dim": 2, "num_samples": 5, "resolution": 12}
    simplex = region_count(label, points, adjacency="simplex", **options)
    below = region_count(lambda x: label(x) - 1, points, **options)
    assert below.counts.tolist() == simplex.counts.tolist()
    with pytest.raises(ValueError, match="returns labels, and scores are interpolated"):
        region_count(label, points, strategy="adaptive", **options)


def test_equal_scores_are_one_label_and_ask_for_no_refinement():
    """A class that is there twice, and a last layer of zeros: neither may refine all it covers."""
    options, waves = {"dim": 2, "num_samples": 1, "strategy": "adaptive"}, waves_of(3)
    once = region_count(waves, TRIANGLE, **options)
    twice = region_count(lambda x: np.hstack([waves(x), waves(x)]), TRIANGLE, **options)
    assert twice.counts.tolist() == once.counts.tolist()
    assert twice.num_evaluations == once.num_evaluations
    zeros = region_count(lambda x: np.zeros((len(x), 10)), TRIANGLE, **options)
    assert (zeros.counts.tolist(), zeros.num_evaluations) == ([1], 465)


def test_the_jump_around_one_element_is_what_it_is_among_all():
    classifier, corners = classifier_inside(waves_of(0), TRIANGLE[None])
    cut = mesh.Mesh(classifier, corners, make_lattice(2, 9))
    every = np.arange(len(cut.elements))
    jumps = mesh.jumps_of(cut, cut.elements, every)
    alone = [mesh.jumps_of(cut, cut.elements, [k])[k] for k in every]
    assert alone == jumps.tolist()
    assert jumps.min() > 0


@pytest.mark.parametrize("rounds", [0, 9])
def test_the_order_of_corners_does_not_matter(rounds, rng):
    points, waves = torch.from_numpy(rng.standard_normal((40, 2))), waves_of(0)
    vertices = sample_vertices(points, dim=2, num_samples=30)
    classifier, _ = classifier_inside(lambda x: waves(x / 5), points.numpy()[None])
    grid = make_lattice(2, 30)
    counts = []
    for order in ([0, 1, 2], [1, 2, 0], [2, 0, 1]):
        counts.append(count_on_meshes(classifier, vertices[:, order], grid, rounds).tolist())
    assert counts == [counts[0]] * 3
    assert max(counts[0]) > 2


@pytest.mark.parametrize(("options", "module", "name", "block"), [
    ({"strategy": "adaptive", "num_samples": 20}, sampling, "BLOCK_BYTES", 1000),
    ({"strategy": "adaptive", "num_samples": 3, "dim": 2}, mesh, "BLOCK", 20_000),
    ({"sampling": "random_direction", "num_samples": 11}, sampling, "BLOCK_BYTES", 100),
    ({"dim": 2, "num_samples": 11}, sampling, "BLOCK_BYTES", 100),
])  # fmt: skip
def test_evaluations_are_counted_and_no_block_matters(monkeypatch, options, module, name, block):
    """Whether all simplices are held at once or a few, in batches of any size."""
    seen, waves = [], waves_of(0)

    def scores(x):
        seen.append(len(x))
        return waves(x)

    count = region_count(scores, TRIANGLE, **options)
    assert sum(seen[6:]) == count.num_evaluations  # after the probe
    monkeypatch.setattr(module, name, block)
    small = region_count(scores, TRIANGLE, batch_size=100, **options)
    assert small.counts.tolist() == count.counts.tolist()
    assert small.num_evaluations == count.num_evaluations
    assert small.mean > 1


@pytest.mark.parametrize(("scale", "shift"), [(1e-12, 0), (1e15, 0), (1, 1e6)])
def test_the_count_depends_on_neither_scale_nor_offset_of_double_scores(scale, shift):
    """Beside 1e6 a single holds no difference of these scores; the points are singles."""
    weights = np.random.default_rng(0).normal(size=(2, 4))
    points = np.random.default_rng(1).normal(size=(50, 2)).astype(np.float32)
    options = {"dim": 2, "num_samples": 3, "strategy": "adaptive", "resolution": 12}

    def scores(x):
        return np.sin(3 * x.astype(float) @ weights)

    plain = region_count(scores, points, **options).counts.tolist()
    changed = region_count(lambda x: scale * scores(x) + shift, points, **options)
    assert changed.counts.tolist() == plain
    assert max(plain) > 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_that_only_tie_at_a_point_win_nowhere(dtype, rng):
    """Of a linear model without biases each label wins on one side of the origin, or nowhere."""
    weights, points = rng.standard_normal((2, 9)).astype(dtype), rng.standard_normal((30, 2))
    turn = np.linspace(0, 2 * np.pi, 10_000)
    winners = np.unique((np.column_stack([np.cos(turn), np.sin(turn)]) @ weights).argmax(1))
    points = np.concatenate([points, -points]).astype(dtype)  # with the origin on some edges
    for resolution in (2, 6):
        found = region_count(lambda x: x @ weights, points, dim=2, resolution=resolution)
        assert found.counts.max() == len(winners)


@pytest.mark.parametrize(("dim", "resolution"), [(1, 1000), (2, 30), (2, 160)])
def test_rounding_where_two_scores_part_slowly_makes_no_regions(dim, resolution):
    """As float32's in a network: there are two regions, and hundreds in its noise."""

    def scores(x):
        u = x[:, 0] - x[:, 1]
        noise = 2e-6 * np.sin(1e6 * x[:, 0] + 4e5 * x[:, 1]) * np.cos(3e6 * x[:, 1])
        return np.stack([8 + 0 * u, 8 + 4 * u * abs(u) + noise], axis=1).astype(np.float32)

    corners = np.array([[0, 0], [1, 0.1], [0.3, 1]], np.float32)[2 - dim :]
    options = {"dim": dim, "num_samples": 2, "resolution": resolution, "strategy": "adaptive"}
    found = region_count(scores, corners, **options)
    assert found.counts.tolist() == [2, 2]
    assert dim == 2 or found.num_evaluations < 100


def test_rounding_of_points_far_from_zero_makes_no_regions():
    """Beside 1000 a single has three digits after the point; two scores part slowly at a line."""

    def scores(x):
        u = (x.astype(np.float64) - 1000) @ [1, 0.7] - 0.5137
        return np.stack([8 + 0 * u, 8 + 4 * u * abs(u)], axis=1)

    corners = np.array([[1000, 1000], [1001, 1000.1], [1000.2, 1001]], np.float32)
    found = region_count(scores, corners, dim=2, num_samples=2, strategy="adaptive")
    assert found.counts.tolist() == [2, 2]
    assert found.num_evaluations < 2000


def test_one_score_is_as_rounded_on_either_side_of_zero():
    """It falls to -3 and rises to 0.01, or the reverse, and is rounded beside 8."""
    corners = np.array([[0, 0], [1, 0.1], [0.3, 1]], np.float32)

    def score(x):
        u = x[:, 0] - x[:, 1]
        return np.where(u < 0, -4 * u * u, 0.01 * u) + np.float32(8) - np.float32(8)

    options = {"dim": 2, "num_samples": 1, "strategy": "adaptive"}
    one, other = [region_count(lambda x, s=s: s * score(x), corners, **options) for s in (1, -1)]
    assert one.mean == other.mean == 2
    assert one.num_evaluations == other.num_evaluations


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("strategy", ["grid", "adaptive"])
def test_scores_that_are_whole_numbers_are_counted_as_others(dim, strategy, rng):
    points, weights = rng.standard_normal((40, 3)).astype(np.float32), rng.standard_normal((3, 4))
    options = {"dim": dim, "num_samples": 5, "resolution": 10, "strategy": strategy}

    def scores(x):
        return np.round(1e6 * (x @ weights))

    whole = region_count(lambda x: scores(x).astype(np.int64), points, **options)
    assert (whole.counts == region_count(scores, points, **options).counts).all()
    assert whole.mean > 1


PLANE = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


def field(x):
    return torch.from_numpy(waves_of(7)((np.asarray(x) + 2.2) * 5 / 8))


def areas_drawn(ax, labels):
    """How many areas of one colour a picture of regions has, from its pixels, specks left out."""
    for artist in [*ax.patches, *ax.texts, ax.get_legend()]:
        artist.set_visible(False)
    ax.figure.canvas.draw()
    pixels = np.asarray(ax.figure.canvas.buffer_rgba())[..., :3]
    plt.close(ax.figure)
    number = 0
    for label in np.unique(labels):
        colour = np.round(255 * np.array(to_rgb(plotting.CLASS_COLOURS[label])))
        areas, _ = ndimage.label((pixels == colour).all(2), structure=np.ones((3, 3)))
        number += int((np.bincount(areas.ravel())[1:] >= 5).sum())
    return number


@pytest.mark.parametrize(("strategy", "resolution"), [("adaptive", 30), ("grid", 4), ("grid", 40)])
def test_the_number_beside_a_picture_is_the_number_of_areas_in_it(strategy, resolution):
    """The picture is drawn, and its areas of one colour are counted in its pixels."""
    triangle, options = PLANE.double(), {"strategy": strategy, "resolution": resolution}
    polygons, labels, number = triangle_regions(field, triangle[None], **options)
    count = region_count(field, triangle, dim=2, num_samples=1, **options)
    paths = outlines([100 * polygon[:, 1:] for polygon in polygons], labels)
    areas = [area(path) for found in paths.values() for path in found]
    assert sum(areas) == pytest.approx(100**2 / 2, rel=1e-4)
    assert sum(value > 0 for value in areas) == number
    _, ax = plt.subplots(figsize=(8, 8), dpi=200)
    plotting.interpolated_regions(polygons, labels, ax)
    assert [areas_drawn(ax, labels)] == [number] == count.counts.tolist()
    if strategy == "adaptive":
        finest = region_count(field, triangle, dim=2, num_samples=1, resolution=301)
        assert [number] == finest.counts.tolist()


def test_a_class_that_is_there_twice_is_drawn_once():
    once = triangle_regions(field, PLANE[None], resolution=10)
    twice = triangle_regions(lambda x: torch.hstack([field(x)] * 2), PLANE[None], resolution=10)
    assert twice[1].tolist() == once[1].tolist()
    assert all(map(np.array_equal, twice[0], once[0]))
