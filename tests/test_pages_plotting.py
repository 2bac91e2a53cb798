"""Figures render without a display; styles are distinct; pictures show the labels given."""

import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from table_labels import marked
from test_correlation import make_runs

from rc_utils import plotting
from rc_utils.correlation import Estimate
from rc_utils.counting import make_lattice
from rc_utils.plotting import CLASS_COLOURS, class_colours, scatter_count_gap


@pytest.fixture(autouse=True)
def _style():
    with mpl.rc_context():
        plotting.use_style()
        yield
    plt.close("all")


@pytest.fixture
def two_networks():
    runs = make_runs(["ResNet18", "SENet18"], noise=0)
    return runs.assign(interpolates=runs["lr"] > 0.005)


def test_scatter_draws_every_setting_and_says_which_it_is(two_networks):
    ax = scatter_count_gap(two_networks)
    assert sum(len(points.get_offsets()) for points in ax.collections) == 2 * 9
    hollow = [points for points in ax.collections if not points.get_facecolor().size]
    assert sum(len(points.get_offsets()) for points in hollow) == 2 * 3
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["ResNet18, r = 1.00", "SENet18, r = 1.00", "training accuracy\nbelow 0.99"]
    for line, (_, group) in zip(ax.lines, two_networks.groupby("network"), strict=True):
        x, y = line.get_xydata().T  # which on a logarithmic axis is no straight line
        middle = np.sqrt(x[0] * x[-1])
        fitted = np.poly1d(np.polyfit(group["count"], group["gap"], 1))(middle)
        assert np.interp(np.log(middle), np.log(x), y) == pytest.approx(fitted, 1e-3)
    assert len(set(map(str, plotting.network_styles(["Narrow", "Wide", "BN"]).values()))) == 3
    # All runs of a setting, and one more.
    two_networks.loc[:6, ["status", "count", "gap"]] = ["diverged", np.nan, np.nan]
    ax = scatter_count_gap(two_networks)
    places = np.concatenate([points.get_offsets() for points in ax.collections])
    assert len(places) == 2 * 9 - 1
    assert np.isfinite(places).all()


def test_a_row_has_a_value_an_interval_and_its_colour_and_stays_empty_without():
    ax = plt.subplots()[1]
    found = {"count": Estimate(0.5, 0.2, 0.8, 9), "none": Estimate(np.nan)}
    found["gap"] = Estimate(-0.1, -0.3, 0.1, 9)
    plotting.intervals(ax, found, color=["red", "green", "blue"], shift=0.25, label="r")
    assert [name.get_text() for name in ax.get_yticklabels()] == ["count", "none", "gap"]
    assert [line.get_color() for line in ax.lines[1::2]] == ["red", "green", "blue"]
    bars, dots = ([line.get_xydata() for line in ax.lines[k::2]] for k in (0, 1))
    np.testing.assert_allclose(bars[0], [[0.2, 0.25], [0.8, 0.25]])
    np.testing.assert_allclose(bars[2], [[-0.3, 2.25], [0.1, 2.25]])
    np.testing.assert_allclose(np.concatenate(dots), [[0.5, 0.25], [np.nan, 1.25], [-0.1, 2.25]])
    assert ax.get_legend_handles_labels()[1] == ["r"]


def test_panels_have_a_line_a_batch_size_and_means_of_settings():
    runs = make_runs(["ResNet18", "SENet18", "VGG19", "MLP"])
    shown = [ax for ax in plotting.lr_batch_panels(runs).axes if ax.get_visible()]
    assert [len(ax.lines) for ax in shown] == [3] * 4
    mean = runs.query("network == 'ResNet18' and batch_size == 256").groupby("lr")["count"].mean()
    np.testing.assert_allclose(shown[0].lines[0].get_ydata(), mean)
    lacking = runs.assign(count=runs["count"].where(runs["network"] != "SENet18"))
    shown = [ax for ax in plotting.lr_batch_panels(lacking).axes if ax.get_visible()]
    assert [ax.get_title() for ax in shown] == ["ResNet18", "VGG19", "MLP"]
    with pytest.raises(ValueError, match="no run has a value of 'count'"):
        plotting.lr_batch_panels(runs.assign(count=np.nan))
    spread = runs.drop(columns="run_id").assign(batch_size=range(1, len(runs) + 1))
    figure = plotting.lr_batch_panels(spread)  # a colour bar in place of many names
    assert (figure.axes[-1].get_ylabel(), figure.legends) == ("batch size (images)", [])


def test_triangle_picture_covers_the_triangle_with_the_labels_colours():
    lattice = make_lattice(2, 6)
    labels = np.arange(len(lattice.coordinates)) % 3
    ax = plotting.decision_regions(lattice.to_grid(labels[None])[0], plt.subplots()[1])
    cells = next(c for c in ax.collections if isinstance(c, PolyCollection))
    assert [to_hex(c) for c in cells.get_facecolors()] == [CLASS_COLOURS[k].lower() for k in labels]
    # Each hexagon has its lattice point in the middle.
    corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
    centres = np.array([path.vertices[:-1].mean(0) for path in cells.get_paths()])
    np.testing.assert_allclose(centres, lattice.coordinates @ corners, atol=1e-12)


def test_each_class_of_a_picture_has_a_colour_of_its_own():
    for labels in ([0, 10], [3, 13, 23], range(40), [999, 285, 967]):
        colours = class_colours(np.array(labels))
        assert len(set(colours.values())) == len(labels)
    strip = plotting.segment_strip(np.array([[0, 12, 22, 2]]))
    assert len({patch.get_facecolor() for patch in strip.patches}) == 4


def test_segment_strip_shows_runs_of_labels_and_their_number():
    labels = np.array([[0, 0, 1, 1, 0], [2, 2, 2, 2, 2]])
    ax = plotting.segment_strip(labels, class_names=["cat", "dog"])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["cat", "dog", "class 2"]
    assert len(ax.patches) == 4
    assert [text.get_text().strip() for text in ax.texts] == ["3", "1"]
    assert [patch.get_x() for patch in ax.patches] == pytest.approx([0, 0.375, 0.875, 0])
    assert sum(patch.get_width() for patch in ax.patches[:3]) == pytest.approx(1)


def test_a_wide_table_has_cells_that_name_their_column_and_a_class_of_its_own():
    narrow = pd.DataFrame({"r": [0.9], "n < 9": [8]}, index=pd.Index(["VGG19"], name="network"))
    sentence = "it holds for every network that was trained"
    wide = pd.DataFrame({"the statement of a paper": [sentence], "n < 9": [9]})

    def shown(table):
        return re.sub("(?s).*", marked, plotting._table(table), count=1)

    assert shown(narrow) == plotting._table(narrow)
    assert '<td data-label="n &lt; 9">9</td>' in shown(wide)
    assert all('class="dataframe rc"' in shown(table) for table in (wide, wide.T))
    assert '<td data-label="0">9</td>' in shown(wide.T)
    assert shown(narrow.T) == plotting._table(narrow.T)
    valued = wide.assign(ours=["-0.91 [-0.96, -0.79]"])
    for table, kind in ((valued, 'class="interval" '), (valued.assign(more="x" * 60), "")):
        assert f'<td {kind}data-label="ours">-0.91 [' in shown(table)
    assert '<th data-label="what">n &lt; 9</th>' in shown(wide.T.rename_axis("what"))
