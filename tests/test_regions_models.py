"""Kinds of models, points and outputs that region counts take, and the errors for those they do not."""

import concurrent.futures
import functools
import threading
import time

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from rc_exact import exact_segment
from rc_utils.regions import label_grid, median_distance, predict_labels, region_count, sample_vertices

SEGMENT = np.array([[0.0, 0.0], [1.0, 0.0]])
TRIANGLE = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


def test_nan_scores_are_no_region():
    def scores(x):
        return np.stack([x[:, 0], np.where(x[:, 0] > 0.95, np.nan, 0)], axis=1)

    with pytest.raises(ValueError, match="30 of 600 points, first in simplex 0"):
        region_count(scores, SEGMENT, num_samples=3)
    with pytest.raises(ValueError, match="NaN or infinite at"):
        region_count(scores, SEGMENT, num_samples=3, strategy="adaptive")
    with pytest.raises(ValueError, match=r"1 of 2 points, first in points\[1\]"):
        predict_labels(scores, SEGMENT)
    with pytest.raises(ValueError, match="NaN or infinite"):
        region_count(lambda x: x[:, 0] / 0 if isinstance(x, torch.Tensor) else None, torch.tensor(SEGMENT))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (lambda x: x[:, None, :], r"shape \(200, 1, 2\) for 200 points; expected scores \(200, num_classes\)"),
        (lambda x: x.T, r"shape \(2, 200\)"),
        (lambda x: x.mean(), "returned a float"),
        (lambda x: (x, x), "returned a tuple"),
        (lambda x: np.array(["cat"] * len(x)), "outputs are of type <U3; expected real numbers"),
    ],
)
def test_wrong_outputs_are_named(output, message):
    with pytest.raises(ValueError, match=message):
        region_count(output, SEGMENT, num_samples=1)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (scipy.sparse.csr_matrix(SEGMENT), r"points are a sparse csr_matrix; .*toarray\(\)"),
        (torch.tensor(SEGMENT).to_sparse(), r"points are a sparse Tensor; .*to_dense\(\)"),
        (torch.tensor(SEGMENT, device="meta"), "points are on the meta device"),
        ("ab", "points are str"),
        (torch.tensor(1.0), "points are"),
        ([[0.0, 1.0], [1.0]], "points make no array"),
    ],
)
def test_points_that_are_no_dense_real_numbers_are_named(points, message):
    for count in (region_count, label_grid):
        with pytest.raises(ValueError, match=message):
            count(lambda x: x[:, 0], points)


def test_wrong_inputs_are_named():
    with pytest.raises(ValueError, match=r"batch of shape \(\d+, 8, 8, 3\).*Have the points the shape"):
        region_count(nn.Conv2d(3, 4, 3), torch.zeros(2, 8, 8, 3))
    with pytest.raises(ValueError, match=r"float16; .* count on a copy in float32"):
        region_count(nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 2).half()), SEGMENT)
    with pytest.raises(ValueError, match="batch norm '1' keeps no running statistics"):
        region_count(nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8, track_running_stats=False)), SEGMENT)
    with pytest.raises(TypeError, match="model is a str"):
        region_count("ResNet18", SEGMENT)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": "grids"}, "unknown strategy 'grids'. Did you mean 'grid'"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"num_samples": 2**63}, "num_samples=9223372036854775808"),
        ({"dim": 2, "strategy": "adaptive", "adjacency": "face"}, "counts with adjacency 'linear'"),
        ({"dim": 2, "padding": -1, "domain": "box"}, "padding=-1"),
        ({"padding": "0.1"}, "padding='0.1'; expected a finite number of at least 0"),
        ({"alpha_range": ("0", "1")}, "two finite numbers"),
        ({"strategy": ["grid"]}, "unknown strategy"),
        ({"sampling": "random_direction", "direction_length": "1"}, "finite number above 0"),
    ],
)
def test_bad_settings_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        region_count(lambda x: x[:, 0], TRIANGLE, **arguments)


def test_every_kind_of_model_and_points_gives_the_same_count():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 4)).astype(np.float32)
    names = np.array(["left", "middle", "right"])
    tree = DecisionTreeClassifier(random_state=0).fit(x, names[np.digitize(x[:, 0] + x[:, 1] ** 2, [0, 1])])
    expected = region_count(tree, x, num_samples=50).counts.tolist()
    assert max(expected) > 3
    codes = {name: code for code, name in enumerate(names)}

    def on_tensor(batch):
        assert isinstance(batch, torch.Tensor)
        return torch.tensor([codes[name] for name in tree.predict(batch.reshape(len(batch), -1).numpy())])

    assert region_count(lambda batch: tree.predict_proba(batch), x, num_samples=50).counts.tolist() == expected
    assert region_count(on_tensor, torch.tensor(x).view(-1, 2, 2), num_samples=50).counts.tolist() == expected
    assert region_count(lambda b: on_tensor(b) - 5, torch.tensor(x), num_samples=50).counts.tolist() == expected
    assert region_count(tree, x.reshape(-1, 2, 2).tolist(), num_samples=50).counts.tolist() == expected
    assert predict_labels(tree, x).tolist() == [codes[name] for name in tree.predict(x)]


def test_other_estimators(rng):
    x = rng.standard_normal((60, 2))
    crossed = sample_vertices(x, num_samples=20)[:, :, 0].sign().prod(1) < 0
    line = LinearRegression().fit(x, x[:, 0])
    assert region_count(line, x, num_samples=20).counts.tolist() == (1 + crossed.int()).tolist()
    with pytest.raises(ValueError, match="several outputs"):
        region_count(RandomForestClassifier(2).fit(x, (x > 0).astype(int)), x)


@pytest.mark.parametrize("strategy", ["grid", "adaptive"])
def test_points_in_double_precision_stay_so(strategy, rng):
    """Times in seconds since 1970, say: float32 knows them to two minutes."""
    points, offset, kinds = rng.normal(size=(200, 2)), 1.7e9, set()

    def model(x):
        kinds.add(x.dtype)
        z = x - offset
        return np.stack([np.sin(5 * z[:, 0]), np.cos(5 * z[:, 1])], axis=1)

    far = region_count(model, points + offset, num_samples=50, strategy=strategy)
    assert kinds == {np.dtype(np.float64)}
    near = region_count(lambda x: model(x.astype(float) + offset), points, num_samples=50, strategy=strategy)
    assert far.counts.tolist() == near.counts.tolist()
    assert max(near.counts) > 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_module_gets_its_own_precision(dtype, rng):
    points, network, seen = rng.normal(size=(20, 3)), nn.Linear(3, 4, dtype=dtype), []
    network.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].dtype))
    region_count(network, torch.from_numpy(points).float(), num_samples=3)
    predict_labels(network, points)
    assert seen == [dtype] * 2


def test_classes_in_any_order_are_told_apart():
    class Unsorted:
        classes_ = np.array(["dog", "cat", "ant"])

        def predict(self, x):
            return self.classes_[(np.floor(x[:, 0] * 3) % 3).astype(int)]

    assert predict_labels(Unsorted(), np.array([[0.0], [0.4], [0.8]])).tolist() == [0, 1, 2]
    assert region_count(Unsorted(), np.array([[0.0], [0.999]]), num_samples=1).counts.tolist() == [3]
    Unsorted.predict = lambda self, x: np.repeat("cow", len(x))
    with pytest.raises(ValueError, match=r"'cow'.*not among its classes_"):
        predict_labels(Unsorted(), np.zeros((2, 1)))


@pytest.mark.parametrize("options", [{}, {"strategy": "adaptive"}, {"dim": 2}], ids=str)
def test_labels_may_be_any_integers_of_64_bits(options):
    """As hashes of activation patterns are, say."""
    points = TRIANGLE if "dim" in options else SEGMENT
    wide = np.array([-(2**62), 2**62])
    assert region_count(lambda x: wide[(x[:, 0] > 0.5).astype(int)], points, **options).mean == 2
    with pytest.raises(ValueError, match=r"integers of 2\^63 or more"):
        region_count(lambda x: np.full(len(x), 2**63, dtype=np.uint64), points, **options)


@pytest.mark.parametrize("strategy", ["grid", "adaptive", "exact"])
def test_a_network_that_keeps_tensors_can_be_trained_after_a_count(strategy):
    """A tensor that it makes in its first forward pass, where a copy of the network finds it as well."""
    frequencies = functools.cache(lambda: torch.arange(1.0, 3.0))

    class Caching(nn.Linear):
        def forward(self, x):
            return super().forward(x * frequencies())

    network, points = nn.Sequential(Caching(2, 3)), torch.randn(20, 2)
    if strategy == "exact":
        exact_segment(network, points[0], points[1])
    else:
        region_count(network, points, num_samples=2, strategy=strategy)
    network(points.requires_grad_()).sum().backward()
    assert network[0].weight.grad is not None


def test_threads_leave_the_precision_as_it_was():
    seen, begun = [], threading.Barrier(4)

    def count(pause):
        def model(x):
            begun.wait(10)
            time.sleep(pause)
            seen.append(torch.get_float32_matmul_precision())
            return x[:, 0]

        region_count(model, SEGMENT, num_samples=1)

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(count, [0, 0.05, 0.1, 0.15]))
        assert torch.get_float32_matmul_precision() == "high"
        assert seen == ["highest"] * 4
    finally:
        torch.set_float32_matmul_precision(before)


class Exported(nn.Module):
    """As the module of an exported program, which has no mode."""

    def train(self, mode=True):
        raise NotImplementedError

    def forward(self, x):
        return x


def test_exported_programs_are_named():
    program = object.__new__(torch.export.ExportedProgram)
    with pytest.raises(TypeError, match="exported program, which cannot be called"):
        region_count(program, SEGMENT)
    with pytest.raises(ValueError, match=r"cannot be put into evaluation mode.*lambda x: module"):
        region_count(Exported(), SEGMENT)


@pytest.mark.parametrize("resolution", [2, 31])
def test_labels_alone_are_counted_adaptively_at_any_resolution(resolution):
    """Wide stripes: the refinement ends, and finds every one."""
    points = np.array([[0.1, 0.0], [0.9, 0.0]])
    count = region_count(lambda x: (x[:, 0] * 4).astype(int), points, resolution=resolution, strategy="adaptive")
    assert count.mean == 4
    assert count.num_evaluations < 100 * 400


@pytest.mark.parametrize("strategy", ["grid", "adaptive"])
def test_labels_of_both_signs_are_told_apart(strategy):
    """-1 is no mark of a point outside, -2 no neighbour of 1."""
    labels = np.array([-3, -1, 4, -2, 1, 1, -1, 0])
    model = lambda x: labels[(x[:, 0] * 7.999).astype(int)]  # noqa: E731
    assert region_count(model, SEGMENT, num_samples=2, strategy=strategy).counts.tolist() == [7, 7]
    grid = label_grid(model, SEGMENT[None], resolution=100).labels[0]
    assert (grid == np.unique(model(np.linspace(0, 1, 100)[:, None]), return_inverse=True)[1]).all()
    assert predict_labels(model, np.array([[0.0], [0.8]])).tolist() == [-3, -1]


def test_random_directions_are_those_of_the_seed_and_of_the_length_asked_for():
    points = np.arange(12.0).reshape(4, 3)
    options = {"dim": 2, "num_samples": 5, "sampling": "random_direction", "seed": 3}
    vertices = sample_vertices(points, direction_length=0.5, **options).numpy()
    normal = np.random.default_rng([3, 1]).standard_normal((5, 2, 3))
    steps = 0.5 * normal / np.linalg.norm(normal, axis=2, keepdims=True)
    np.testing.assert_allclose(vertices[:, 1:] - vertices[:, :1], steps, atol=1e-12)
    assert all(vertex in points.tolist() for vertex in vertices[:, 0].tolist())
    typical = sample_vertices(points, direction_length=median_distance(points), **options)
    assert torch.equal(sample_vertices(points, **options), typical)
    assert region_count(lambda x: x, points, **options).settings["direction_length"] == median_distance(points)
    assert median_distance(points / 1000) == pytest.approx(median_distance(points) / 1000)


@pytest.mark.parametrize(
    ("vertices", "message"),
    [
        (np.zeros((0, 2, 3)), r"vertices have shape \(0, 2, 3\)"),
        (np.zeros((30, 8)), r"expected \(B, d \+ 1, \*shape\)"),
        (np.array([[[0.0, 1.0], [np.nan, 0.0]]]), "vertices hold NaN or infinity"),
    ],
)
def test_wrong_vertices_of_a_grid_are_named(vertices, message):
    with pytest.raises(ValueError, match=message):
        label_grid(lambda x: x, vertices)
