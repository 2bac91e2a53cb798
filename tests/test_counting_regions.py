"""Region counts, on grids and adaptive, of models with known regions; what changes none."""

import contextlib
import math
import pickle
import random
import tracemalloc

import numpy as np
import pytest
import torch
from test_counting_lattice import count_by_search
from test_guard_rails import rough_network
from torch import nn

from rc_utils.counting import (
    AUTHORS,
    count_components,
    label_grid,
    make_lattice,
    region_count,
    sample_vertices,
)
from rc_utils.counting.segments import COARSE_INTERVALS

SEGMENT = np.array([[0.0, 0.0], [1.0, 0.0]])
TRIANGLE = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
TETRAHEDRON = np.concatenate([np.zeros((1, 3)), np.eye(3)])
AROUND_0 = [(1, SEGMENT - [0.5, 0]), (2, TRIANGLE - 1 / 3), (3, TETRAHEDRON - 1 / 4)]


@pytest.mark.parametrize(("dim", "points"), AROUND_0)
@pytest.mark.parametrize("adjacency", ["face", "full", "simplex", "linear", "adaptive"])
def test_a_ball_a_shell_around_it_and_the_outside(dim, points, adjacency):
    """Around the centre of the simplex, within 0.04 and 0.12: the last two are not convex."""
    strategy = {"adjacency": adjacency}
    if adjacency == "adaptive":
        strategy = {"adjacency": "linear", "strategy": "adaptive"}
    radii = np.array([0.0, 0.08, 0.16])

    def scores(x):
        return -((np.linalg.norm(x, axis=1, keepdims=True) - radii) ** 2)

    for resolution in (31, 2) if (adjacency, dim) == ("adaptive", 2) else (31,):
        options = strategy | {"dim": dim, "num_samples": 2, "resolution": resolution}
        assert region_count(scores, points, **options).counts.tolist() == [5 if dim == 1 else 3] * 2


def test_the_standard_error_is_that_of_the_samples_and_the_settings_survive_a_pickle(rng):
    points = rng.standard_normal((50, 2))
    count = region_count(lambda x: x[:, 0], points, num_samples=40)
    assert count.std_error == pytest.approx(count.counts.std(ddof=1) / math.sqrt(40))
    assert math.isnan(region_count(lambda x: x[:, 0], points, num_samples=1).std_error)
    assert f"{count.counts.mean():.3f} ± {count.std_error:.3f} regions (dim=1" in str(count)
    assert pickle.loads(pickle.dumps(count)).settings == count.settings


class Restless(nn.Module):
    """Batch norm and dropout, modes set one by one, random numbers drawn in every forward pass."""

    def __init__(self):
        super().__init__()
        layers = nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)
        self.body = nn.Sequential(*layers)

    def forward(self, x):
        torch.rand(3)
        modes = self.training, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
        self.seen = (*modes, torch.get_float32_matmul_precision())
        return self.body(x)


@pytest.mark.parametrize("points", [np.zeros((5, 7)), TRIANGLE], ids=["fails", "counts"])
def test_the_module_the_random_state_and_tf32_are_left_alone(points, request):
    matmul = torch.get_float32_matmul_precision()
    request.addfinalizer(lambda: torch.set_float32_matmul_precision(matmul))
    torch.set_float32_matmul_precision("high")  # as a user turns TF32 on
    net = Restless().train()
    net.body[1].eval()
    buffers = {name: value.clone() for name, value in net.state_dict().items()}
    modes = [part.training for part in net.modules()]

    def state():
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002

    before = state()
    refused = pytest.raises(RuntimeError, match="cannot be multiplied")
    fails = refused if points.shape[1] == 7 else contextlib.nullcontext()
    with torch.autocast("cpu", dtype=torch.bfloat16), fails:
        region_count(net, points)
    assert net.seen == (False, False, False, "highest")
    assert torch.get_float32_matmul_precision() == "high"
    assert [part.training for part in net.modules()] == modes
    assert all(torch.equal(value, buffers[name]) for name, value in net.state_dict().items())
    assert state() == before


CUDNN = RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED")
ERRORS = [None, MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), CUDNN]


@pytest.mark.parametrize("error", ERRORS)
def test_running_out_of_memory_halves_the_chunk(error):
    """Above `limit` points, of an error or, where there is none, of an allocation.

    The model writes into the same memory every time.
    """
    points, memory = np.random.default_rng(0).standard_normal((20, 1)), np.empty((600, 2))

    def counts(limit, **options):
        def cramped(x):
            sizes.append(len(x))
            if len(x) > limit:
                torch.empty(2**60 if error is None else 0)
                raise error
            return np.concatenate([np.sin(9 * x), 0 * x + 0.2], axis=1, out=memory[: len(x)])

        sizes = []
        count = region_count(cramped, points, num_samples=10, resolution=50, **options)
        return count.counts.tolist(), sizes[6:]  # after the probe

    found, sizes = counts(40, batch_size=200)
    assert found == counts(10**9)[0]
    assert sizes == [167, 72] + [36] * 14  # of which the last is filled up
    curved = counts(40, batch_size=200, strategy="adaptive")[0]
    assert curved == counts(10**9, strategy="adaptive")[0]
    with pytest.raises(RuntimeError if error is None else type(error)):
        counts(0)


def test_label_grid_is_what_is_counted_and_is_in_the_order_of_the_lattice(rng):
    points = rng.standard_normal((30, 2))
    vertices = sample_vertices(points, dim=2, num_samples=4).numpy()
    model = lambda x: (np.sin(4 * x[:, 1]) > 0.3).astype(int)  # noqa: E731
    grid = label_grid(model, vertices)
    found = region_count(model, points, dim=2, num_samples=4, adjacency="face")
    assert found.counts.tolist() == count_components(grid).tolist()
    assert found.counts.max() > 2
    assert region_count(model, points, dim=2, num_samples=4).settings["adjacency"] == "simplex"
    places = make_lattice(2).coordinates @ vertices
    assert (grid[:, grid[0] >= 0] == [model(x) for x in places]).mean() > 0.99


@pytest.mark.parametrize("strategy", ["grid", "adaptive"])
def test_points_in_double_precision_stay_so(strategy, rng):
    """Times in seconds since 1970: float32 knows them to two minutes."""
    points, offset = rng.normal(size=(200, 2)), 1.7e9
    model = lambda x: np.sin(5 * (x - offset) + [0, 1])  # noqa: E731
    options = {"num_samples": 50, "strategy": strategy}
    far = region_count(model, points + offset, **options)
    near = region_count(lambda x: model(x.astype(float) + offset), points, **options)
    assert far.counts.tolist() == near.counts.tolist()
    assert max(near.counts) > 1


def labels_as_the_authors(predict, vertices, points):
    """Their reading of a simplex: labels at multiples of 1 / (points - 1), -1 outside."""
    grid = np.full((points,) * (len(vertices) - 1), -1)
    for place in np.ndindex(grid.shape):
        weights = np.linspace(0, 1, points)[list(place)]
        if sum(place) < points:
            point = (1 - weights.sum()) * vertices[0] + weights @ vertices[1:]
            grid[place] = predict(point[None])[0]
    return grid


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, "random"])
def test_the_authors_settings_count_as_their_code_does(dim, rng):
    """In steps of a queen in the plane, else of a rook."""
    points, waves = rng.standard_normal((20, 6)), rng.standard_normal((6, 3)) * 2
    scale = 30 if dim == "random" else 1

    def predict(x):
        return np.sin(scale * np.asarray(x) @ waves).argmax(1)

    count = region_count(predict, points, **AUTHORS[dim], num_samples=4)
    keys = ("dim", "sampling", "direction_length", "seed", "num_samples")
    draw = {key: count.settings[key] for key in keys}
    vertices = sample_vertices(points, **draw).numpy()
    grids = [labels_as_the_authors(predict, v, AUTHORS[dim]["resolution"]) for v in vertices]
    expected = [count_by_search(grid, "full" if dim == 2 else "face") for grid in grids]
    assert count.counts.tolist() == expected
    assert max(expected) > 1
    if dim == "random":
        noise = np.random.default_rng([0, 1]).standard_normal((4, 6))
        np.testing.assert_allclose(vertices[:, 1] - vertices[:, 0], 0.5 * noise, atol=1e-9)
        assert count.settings["direction_length"] == 0.5


LINE = np.array([[0.0], [1.0]])
RANGES = [(9, (-3, 4)), (9, (4, -3)), (600, (0.4, 0.45))]  # and frequencies


def test_the_counts_of_a_fine_grid_at_a_fraction_of_its_evaluations():
    """Of a rough network, and of scores that do not bend, between two of which a third wins."""
    rng = np.random.default_rng(8)
    points, weight = rng.normal(size=(60, 12)).astype(np.float32), rng.normal(size=(12, 50))
    models = (rough_network(), 100, 2001), (lambda x: x @ weight, 200, 6369)
    for model, number, finest in models:
        truth = region_count(model, points, resolution=finest, num_samples=number)
        found = region_count(model, points, num_samples=number, strategy="adaptive")
        assert found.counts.tolist() == truth.counts.tolist()
        assert found.num_evaluations <= number * 30
        assert truth.mean > 1.5


def test_classes_that_win_nowhere_change_no_count_and_take_little_memory():
    points, low = np.random.default_rng(8).normal(size=(60, 12)), np.linspace(-99, -9, 2000)

    def scores(x):
        return 9 * np.sin(x * np.arange(12, 0, -1) / 4)

    def wide(x):
        return np.hstack([scores(x), np.tile(low, (len(x), 1))])

    tracemalloc.start()
    many = region_count(wide, points, num_samples=20, strategy="adaptive")
    assert tracemalloc.get_traced_memory()[1] < 6 * 8 * 2012 * many.num_evaluations  # all scores
    tracemalloc.stop()
    few = region_count(scores, points, num_samples=20, strategy="adaptive")
    assert many.counts.tolist() == few.counts.tolist()
    assert many.num_evaluations == few.num_evaluations


@pytest.mark.parametrize("centre", [0.3, 0.4901, 0.7777])
def test_a_region_far_below_the_grid_is_found(centre):
    """The second score is positive in an interval of 0.002; its slopes show from far away."""

    def scores(x):
        return np.hstack([0 * x, 1e-6 - (x - centre) ** 2])

    count = region_count(scores, LINE, num_samples=1, strategy="adaptive")
    assert count.counts.tolist() == [3]
    assert count.num_evaluations < 60
    wave = lambda x: (x[:, 0] - centre) * ((x[:, 0] - centre) ** 2 - 0.004**2)  # noqa: E731
    count = region_count(wave, LINE, num_samples=1, strategy="adaptive")
    assert count.counts.tolist() == [4]


@pytest.mark.parametrize(("frequency", "alpha_range"), RANGES)
def test_longer_and_shorter_ranges_are_looked_at_as_closely(frequency, alpha_range):
    def wave(x):
        return np.sin(frequency * x[:, 0] + 0.3)

    options = {"num_samples": 2, "alpha_range": alpha_range}
    adaptive = region_count(wave, LINE, strategy="adaptive", **options)
    fine = region_count(wave, LINE, resolution=5001, **options)
    assert adaptive.counts.tolist() == fine.counts.tolist()
    assert fine.mean >= 10
    assert adaptive.num_evaluations >= 2 * max(1, abs(np.diff(alpha_range)[0])) * COARSE_INTERVALS
