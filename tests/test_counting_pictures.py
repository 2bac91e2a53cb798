"""Regions as they are drawn, and labels that win, on classifiers whose regions are known."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from scipy import ndimage
from test_counting_mesh import waves_of

from rc_utils import plotting
from rc_utils.counting import outlines, region_count, triangle_regions
from rc_utils.counting.mesh import area

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
