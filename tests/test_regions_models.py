"""Kinds of models, points and outputs that region counts take, and the errors for those they do not."""

import copy
import pickle

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from rc_utils.networks import build_network
from rc_utils.regions import median_distance, predict_labels, region_count, sample_vertices

SEGMENT = np.array([[0.0, 0.0], [1.0, 0.0]])
TRIANGLE = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


@pytest.fixture
def network():
    return build_network("ResNet18", num_classes=10, in_channels=3, width=4)


@pytest.fixture
def images():
    return torch.randn(30, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def test_nan_scores_are_no_region():
    def scores(x):
        return np.stack([x[:, 0], np.where(x[:, 0] > 0.95, np.nan, 0)], axis=1)

    with pytest.raises(ValueError, match="10 of 200 points of simplex 0, and in 3 of 3 simplices"):
        region_count(scores, SEGMENT, num_samples=3)
    with pytest.raises(ValueError, match=r"1 of 2 points, first at points\[1\]"):
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
        (lambda x: np.array(["cat"] * len(x)), "labels of type <U3"),
        (lambda x: x.astype(complex), "complex"),
    ],
)
def test_wrong_outputs_are_named(output, message):
    with pytest.raises(ValueError, match=message):
        region_count(output, SEGMENT, num_samples=1)


def test_wrong_inputs_are_named(network, images):
    with pytest.raises(ValueError, match=r"batch of shape \(\d+, 8, 8, 3\).*Have the points the shape"):
        region_count(network, images.permute(0, 2, 3, 1))
    with pytest.raises(ValueError, match="4 distinct points are needed for each simplex, but there are 3"):
        region_count(network, images[:3], dim=3)
    with pytest.raises(ValueError, match=r"points\[2\] holds NaN"):
        region_count(network, torch.where(torch.arange(3).view(3, 1, 1, 1) == 2, torch.nan, images[:3]))
    with pytest.raises(ValueError, match=r"float16; .* count on a copy in float32"):
        region_count(nn.Linear(2, 2).half(), SEGMENT)
    with pytest.raises(TypeError, match="model is a str"):
        region_count("ResNet18", images)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": "grids"}, "unknown strategy 'grids'. Did you mean 'grid'"),
        ({"sampling": "triples"}, "unknown sampling"),
        ({"domain": "cube"}, "unknown domain"),
        ({"adjacency": "diagonal"}, "unknown adjacency"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"num_samples": True}, "num_samples=True"),
        ({"dim": 2, "padding": -1, "domain": "box"}, "padding=-1"),
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


def test_other_estimators():
    x = np.random.default_rng(0).standard_normal((60, 2))
    forest = RandomForestClassifier(5, random_state=0).fit(x, x[:, 0] > 0)
    assert region_count(forest, x, num_samples=5).mean >= 1
    line = LinearRegression().fit(x, x[:, 0])
    crossed = sample_vertices(x, num_samples=20)[:, :, 0].sign().prod(1) < 0
    assert region_count(line, x, num_samples=20).counts.tolist() == (1 + crossed.int()).tolist()
    with pytest.raises(ValueError, match="several outputs"):
        region_count(RandomForestClassifier(2).fit(x, (x > 0).astype(int)), x)


def test_a_float64_module_is_evaluated_in_float64(images):
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)).double()
    assert predict_labels(net, images).tolist() == net(images.double()).argmax(1).tolist()


def test_image_tensors_and_random_directions(tiny_data):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = build_network("ResNet18", num_classes=10, in_channels=3, width=4)
    x = tiny_data.x_train
    assert predict_labels(net, x, batch_size=64).tolist() == predict_labels(net, x[torch.arange(len(x))]).tolist()
    options = {"sampling": "random_direction", "dim": 2, "num_samples": 3, "resolution": 10}
    count = region_count(net, x, **options)
    assert count.settings["direction_length"] == median_distance(x)
    assert count.counts.tolist() == region_count(net, x, direction_length=median_distance(x), **options).counts.tolist()


@pytest.mark.parametrize("strategy", ["grid", "adaptive"])
def test_points_in_double_precision_stay_so(strategy):
    """Times in seconds since 1970, say: float32 knows them to two minutes."""
    rng = np.random.default_rng(0)
    points, offset = rng.normal(size=(200, 2)), 1.7e9
    scores = {}

    def model(x):
        scores[x.dtype] = True
        z = x - offset
        return np.stack([np.sin(5 * z[:, 0]), np.cos(5 * z[:, 1])], axis=1)

    far = region_count(model, points + offset, num_samples=50, strategy=strategy)
    near = region_count(lambda x: model(x + offset), points, num_samples=50, strategy=strategy)
    assert set(scores) == {np.dtype(np.float64)}
    assert far.counts.tolist() == near.counts.tolist()
    assert region_count(lambda x: model(x.astype(float) + offset), points.astype(np.float32)).mean > 1


def test_a_module_gets_its_own_precision():
    seen = []

    class Watch(torch.nn.Linear):
        def forward(self, x):
            seen.append(x.dtype)
            return super().forward(x)

    points = np.random.default_rng(0).normal(size=(20, 3))
    for dtype in (torch.float32, torch.float64):
        seen.clear()
        region_count(Watch(3, 4, dtype=dtype), points, num_samples=3)
        predict_labels(Watch(3, 4, dtype=dtype), points)
        assert set(seen) == {dtype}


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


def test_one_layer_in_half_precision_is_refused():
    network = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 2).half())
    with pytest.raises(ValueError, match=r"has parameters in torch\.float16"):
        region_count(network, SEGMENT)


def test_a_count_can_be_copied_and_sent_to_another_process():
    count = region_count(lambda x: x[:, 0] - 0.5, SEGMENT, num_samples=2)
    for twin in (pickle.loads(pickle.dumps(count)), copy.deepcopy(count)):
        assert (twin.mean, twin.settings) == (count.mean, count.settings)
