"""Exact regions on a segment: against dense grids, known boundaries, what is refused; forests."""

import functools
import json

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import FUZZ, relu_network
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from torch import nn
from torch.nn import functional as F

from rc_exact import forests, propagation
from rc_exact.forests import FOREST, TREE
from rc_exact.plan import make_plan
from rc_exact.propagation import propagate, rehearse
from rc_exact.segment import exact_segment
from rc_utils.counting import region_count, sample_vertices
from rc_utils.datasets import load_dataset
from rc_utils.networks import build_network

PIECEWISE_LINEAR = ["ResNet18", "VGG19", "MobileNetV2", "ShuffleNetV2"]
PIECEWISE_LINEAR += ["RegNetX_200MF", "SimpleDLA"]


def scores_at(network, x0, x1, alphas):
    """Scores (P, C) in float64 at the alphas of a segment."""
    a = torch.as_tensor(alphas, dtype=torch.float64).view(-1, *(1,) * x0.ndim)
    with torch.no_grad():
        return network.double()((1 - a) * x0.double() + a * x1.double())


def labels_at(network, x0, x1, alphas):
    scores = scores_at(network, x0, x1, alphas)
    return (scores[:, 0] > 0).long().numpy() if scores.shape[1] == 1 else scores.argmax(1).numpy()


SLOPES = [[1], [-1]]  # of two units
# Class 1 wins by |alpha - 0.3| < 0.5e-9 only.
THIN = [0.3 - 5e-10, 0.3 + 5e-10]


@pytest.mark.parametrize(("units", "ends", "boundaries", "labels", "pieces"), [
    (([-0.3, 0.3], [[1, 1], [0, 0]], [0, 5e-10]), (0.0, 1.0), THIN, [0, 1, 0], 2),
    # A unit that bends at 0.6 and has no weight.
    (([-0.3, 0.6], [[1, 0]], [-0.1]), (0.0, 1.0), [0.4], [0, 1], 2),
    # |alpha - 1/2| > 0 on both sides of 1/2, and label 0 at the point itself.
    (([-0.5, 0.5], [[1, 1]], [0]), (0.0, 1.0), [], [1], 2),
    (([-0.5, 0.5], [[1, 0], [0, 1], [0, 0]], [0, 0, -1e13]), (0.0, 1.0), [0.5], [1, 0], 2),
    # relu(x) - relu(1 - x) - 1/3 bends at the ends alone, and changes its sign at 2/3.
    (([0, 1], [[1, -1]], [-1 / 3]), (0.0, 1.0), [2 / 3], [0, 1], 1),
    (([0, 1], [[1, -1]], [-1 / 3]), (0.0, 2.0), [1 / 3], [0, 1], 2),
])  # fmt: skip
def test_two_units_by_hand(units, ends, boundaries, labels, pieces):
    network, ends = relu_network(SLOPES, *units), [torch.tensor([x]) for x in ends]
    exact = exact_segment(network, *ends)
    np.testing.assert_allclose(exact.boundaries, boundaries, atol=1e-14)
    assert (exact.labels.tolist(), exact.num_linear_regions) == (labels, pieces)
    assert exact_segment(network, *ends, prune=True).labels.tolist() == labels


def lively(network, size):
    """Batch statistics of its own and standardised scores, so that labels vary."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        for _ in range(10):
            network.train()(2 * torch.randn(32, 3, size, size))
        network.eval()
        scores = network(2 * torch.randn(200, 3, size, size))
        network.classifier[-1].weight.div_(scores.std(0)[:, None])
        network.classifier[-1].bias.sub_(scores.mean(0)).div_(scores.std(0))
        images = 2 * torch.randn(2, 3, size, size)
    return network, *images


@pytest.mark.parametrize("name", PIECEWISE_LINEAR)
def test_each_architecture(name):
    network, x0, x1 = lively(build_network(name, width=2, image_size=8), 8)
    exact = exact_segment(network, x0, x1)
    alphas = np.linspace(0, 1, 501)
    found = exact.labels[np.searchsorted(exact.boundaries, alphas)]
    near = np.abs(alphas[:, None] - exact.boundaries).min(1, initial=1.0) < 1e-9
    assert ((found == labels_at(network, x0, x1, alphas)) | near).all()
    assert (labels_at(network, x0, x1, exact.witnesses) == exact.labels).all()
    assert exact.num_linear_regions > 50
    pruned = exact_segment(network, x0, x1, prune=True)
    np.testing.assert_allclose(pruned.boundaries, exact.boundaries, atol=1e-10)
    assert (pruned.labels.tolist(), pruned.num_linear_regions) == (exact.labels.tolist(), None)
    split = exact_segment(network, x0, x1, max_breakpoints_memory=1 << 18)
    np.testing.assert_allclose(split.boundaries, exact.boundaries, atol=1e-10)
    assert split.labels.tolist() == exact.labels.tolist()
    pieces = exact.num_linear_regions
    assert abs(split.num_linear_regions - pieces) <= 0.002 * pieces


class WithRule(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.layer, self.relu, self.rule = nn.Linear(2, 2), nn.ReLU(inplace=True), forward

    def forward(self, x):
        return self.rule(self, x)


@pytest.mark.parametrize(("forward", "message"), [
    (lambda m, x: 1 / m.layer(x), r"truediv\S* \(truediv\) multiplies or divides"),
    (lambda m, x: x if x.sum() > 0 else -x, "cannot copy and trace WithRule"),
    (lambda m, x: m.layer(x) + F.relu(x, inplace=True) + x, "works in place"),
    (lambda m, x: F.dropout(x), "drops units in evaluation mode too"),
    (lambda m, x: torch.div(x, 2.0, rounding_mode="floor"), "rounds"),
    (lambda m, x: x @ m.layer.weight.detach().mul_(2), "changes a weight"),
    (lambda m, x: m.layer(x)[: x.size(0)], "getitem\\S* computes with the number of points"),
    (lambda m, x: m.layer(torch.stack([x, x], 1).permute(1, 0, 2)).mean(0), "stay that"),
    (lambda m, x: m.gate(m.layer(x)), r"layer gate\.0 \(Sigmoid\) is not piecewise linear"),
    (lambda m, x: m.hooked(x), r"layer hooked \(Linear\) has a hook"),
])  # fmt: skip
def test_what_is_not_piecewise_linear_or_not_traced_is_refused(forward, message):
    torch.manual_seed(0)
    network = WithRule(forward)
    network.gate, network.hooked = nn.Sequential(nn.Sigmoid()), nn.Linear(2, 2)
    network.hooked.register_forward_hook(lambda module, given, output: output.relu())
    for model, refused in ((network, message), (network.hooked, "Linear has a hook")):
        with pytest.raises(ValueError, match=refused):
            exact_segment(model, torch.tensor([-1.0, 2.0]), torch.tensor([3.0, -2.0]))


@pytest.mark.parametrize("seed", range(12))
def test_trees_and_forests_equal_a_grid(seed):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((120, 3)) * [1.0, 100.0, 0.01]
    labels = np.array(["a", "b", "c"])[rng.integers(0, 3, 120)]
    model = RandomForestClassifier(2 + seed % 11, max_depth=2 + seed % 7, random_state=0)
    if seed % 2:
        model = DecisionTreeClassifier(max_depth=2 + seed % 9, random_state=0)
    model.fit(points, labels)
    x0, x1 = points[rng.choice(120, 2, replace=False)]
    if seed % 5 == 0:
        x1[1] = x0[1]
    exact = exact_segment(model, x0, x1)
    # scikit-learn rounds points to float32: a grid does not see where the boundary goes by that.
    near = np.concatenate([exact.boundaries - 1e-11, exact.boundaries + 1e-11])
    for alphas in (np.append(near, np.linspace(0, 1, 20_001)), exact.witnesses):
        line = np.outer(1 - alphas, x0) + np.outer(alphas, x1)
        expected = np.searchsorted(model.classes_, model.predict(line))
        assert (exact.labels[np.searchsorted(exact.boundaries, alphas)] == expected).all()
    assert exact.count <= exact.num_linear_regions


@pytest.mark.parametrize("offset", [0, 2000])
def test_a_forest_on_whole_numbers_has_no_regions_of_the_rounding_of_its_features(offset):
    x, y = load_digits(return_X_y=True)
    x = x + offset
    forest = RandomForestClassifier(n_estimators=10, max_depth=8, random_state=0).fit(x, y)
    segments = sample_vertices(x, num_samples=30, seed=0).numpy()
    found = [exact_segment(forest, *ends).count for ends in segments]
    # No point of this grid lies where features pass their thresholds at one place.
    grids = region_count(forest, x, num_samples=30, resolution=4000).counts
    assert np.mean(found == grids) > 0.96


def test_a_narrow_region_of_a_tree_with_far_features_is_one():
    tree = DecisionTreeClassifier().fit([[0.0], [16], [34], [1e9]], [0, 1, 0, 0])
    assert exact_segment(tree, np.array([0.0]), np.array([1e9])).count == 3


@pytest.mark.parametrize("step", [1, -1])
def test_neighbouring_float32_numbers_of_a_feature_may_have_regions(step):
    """Seconds since 1970: float32 holds every 128th, and a tree may tell one from the next."""
    x = 1.7e9 + 128 * np.arange(4.0)[::step, None]
    for labels in ([0, 1, 0, 1], [0, 1, 0, 0]):
        tree = DecisionTreeClassifier().fit(x, labels)
        exact = exact_segment(tree, x[0], x[-1])
        changes = np.flatnonzero(np.diff(labels))
        np.testing.assert_allclose(exact.boundaries, (changes + 0.5) / 3, atol=1e-9)
        assert exact.labels.tolist() == [0, *np.array(labels)[changes + 1]]


def test_the_network_is_left_alone():
    layers = nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True), nn.Linear(4, 2)
    network = nn.Sequential(*layers).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    exact_segment(network, np.zeros(2), np.ones(2))
    assert all(part.training for part in network.modules())
    assert network[2].inplace
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "ceil"),
    [(2, 2, 0, True), (3, 2, 1, True), (3, 2, 1, False), (2, 3, 1, True), (2, 3, 0, True)],
)
@pytest.mark.parametrize("size", [(5, 8), (7, 2), (3, 3)])
def test_max_pool_windows(kernel, stride, padding, ceil, size):
    pool = nn.MaxPool2d([kernel, kernel], (stride,), padding, ceil_mode=ceil, dilation=[1, 1])
    generator = torch.Generator().manual_seed(0)
    x0, x1 = torch.randn(2, 2, *size, generator=generator, dtype=torch.float64)
    network, a = nn.Sequential(pool, nn.Flatten()), np.linspace(0, 1, 101)
    plan = make_plan(network)
    alphas, scores = next(propagate(plan, x0, x1, rehearse(plan, x0, x1, 1 << 20)))
    found = np.stack([np.interp(a, alphas, column) for column in scores.T.numpy()], axis=1)
    np.testing.assert_allclose(found, scores_at(network, x0, x1, a), atol=1e-12)


HEADS = {
    "no bias": lambda: [nn.Linear(8, 2), nn.ReLU(), nn.Linear(2, 3, bias=False)],
    "one output, no bias": lambda: [nn.Linear(8, 2), nn.ReLU(), nn.Linear(2, 1, bias=False)],
    "ReLU6": lambda: [nn.Linear(8, 3), nn.ReLU6()],
    "a maximum and what it is taken of": lambda: [nn.Linear(8, 2), MaximumOfTwo()],
}


class MaximumOfTwo(nn.Module):
    """(a, max(a, b)) of (a, b): equal wherever a is the larger."""

    def forward(self, x):
        maximum = F.max_pool2d(x.unsqueeze(1).unsqueeze(1), (1, 2)).flatten(1)
        return torch.cat([x[:, :1], maximum], dim=1)


@pytest.mark.parametrize("head", HEADS)
def test_equal_scores_have_the_label_of_the_lowest_index(head):
    """Dead or saturated units: scores equal on whole pieces, which rounding must not tell apart."""
    a = np.linspace(0, 1, 501)
    ties = 0
    for seed in range(15):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), *HEADS[head]()).double()
        x0, x1 = torch.randn(2, 2, dtype=torch.float64) * 4
        expected, scores = labels_at(network, x0, x1, a), scores_at(network, x0, x1, a)
        for pruned in (False, True):
            found = exact_segment(network, x0, x1, prune=pruned)
            inside = np.abs(a[:, None] - found.boundaries).min(1, initial=1) > 1e-6
            labels = found.labels[np.searchsorted(found.boundaries, a, side="right")]
            np.testing.assert_array_equal(labels[inside], expected[inside])
        ties += int((scores.sort(1).values.diff(dim=1)[:, -1:] == 0).sum())
    assert ties > 25 or scores.shape[1] == 1


STEPS = {
    "linear": lambda m, x: m.layer(x)[:, :2],
    "relu": lambda m, x: torch.relu(input=x),
    "leaky": lambda m, x: F.leaky_relu(input=x, negative_slope=0.2),
    "abs": lambda m, x: x.abs(),
    "masked weights": lambda m, x: F.linear(x, m.layer.weight * m.layer.weight.gt(0))[:, :2],
    "in place": lambda m, x: m.leaky(m.layer(x))[:, 1:],
    "in place, of a view": lambda m, x: m.leaky(F.relu(x - 1).view(x.size(0), -1)),
    "in place, of a copy": lambda m, x: x + m.leaky(m.relu(x)),
    "residual": lambda m, x: x + F.relu(m.layer(x))[:, 1:],
    "scaled": lambda m, x: 0.5 * x - 0.1,
    "stacked": lambda m, x: torch.stack([x, -x], 1).reshape(x.size(0), -1)[:, 1:3],
    "pooled": lambda m, x: F.max_pool2d(x.view(-1, 1, 1, 2), (1, 2)).view(-1, 1) - x,
    "number": lambda m, x: x * x.shape[0],
    "mean": lambda m, x: x - x.mean(0, keepdim=True),
    "square": lambda m, x: x * x,
    "clipped": lambda m, x: x - F.relu6(x).chunk(2, dim=1)[1],
    "curve": lambda m, x: torch.sigmoid(x),
    "own shape": lambda m, x: x.view(x.shape[0], 2) + x.size(1) // 2,
}
REFUSED = {"number", "mean", "square", "curve"}


class Stepwise(nn.Module):
    """A linear layer and the steps that are named."""

    def __init__(self, names):
        super().__init__()
        self.layer, self.names = nn.Linear(2, 3), names
        self.leaky, self.relu = nn.LeakyReLU(0.3, inplace=True), nn.ReLU()
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor([[1.0, -2.0], [0.5, 1.0], [-1.0, 0.3]]))
            self.layer.bias.copy_(torch.tensor([0.1, -0.2, 0.3]))

    def forward(self, x):
        return functools.reduce(lambda value, name: STEPS[name](self, value), self.names, x)


@given(
    names=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5), seed=st.integers(0, 100)
)
@FUZZ
def test_piecewise_linear_networks(names, seed, monkeypatch):
    """Steps are solved as a grid sees them, whole and split, or refused where one is not linear."""
    network = Stepwise(names).double()
    x0, x1 = torch.from_numpy(np.random.default_rng(seed).normal(size=(2, 2)) * 3)
    if REFUSED & set(names):
        with pytest.raises(ValueError, match="exact_segment cannot take this network"):
            exact_segment(network, x0, x1)
        return
    for fewest, memory in ((8, 1 << 25), (3, 1)):
        monkeypatch.setattr(propagation, "FEWEST_ROWS", fewest)
        exact = exact_segment(network, x0, x1, max_breakpoints_memory=memory)
        for alphas in (np.linspace(0, 1, 201), exact.witnesses):
            scores = scores_at(network, x0, x1, alphas).numpy()
            clear = np.abs(scores[:, 0] - scores[:, 1]) > 1e-9
            found = exact.labels[np.searchsorted(exact.boundaries, alphas)]
            assert (found == scores.argmax(1))[clear].all()


def aliased(m, x):
    """A spike of a tenth of the segment, added in place to a tensor with another name: no sum."""
    x = x.flatten(1) + 0
    other = x
    x += -100 * torch.relu(0.05 - torch.abs(x - 0.3))
    return torch.stack([other[:, 0], 0 * x[:, 0] + 0.1], 1)


def truncating(m, x):
    return torch.stack([x[:, 0], x.sum(1, dtype=torch.int64) * 1.0], 1)


class Overridden(RandomForestClassifier):
    def predict(self, x):
        return x[:, 0] > 0


DIVERGED = relu_network(SLOPES, [np.nan, 0], [[1, 1], [0, 0]])


@pytest.mark.parametrize(("model", "x1", "options", "message"), [
    (WithRule(aliased), [1], {}, "gives other scores"),
    (WithRule(truncating), [1], {}, "changes the type of numbers"),
    (DIVERGED, [1], {}, "not finite on the segment"),
    (DIVERGED, [1], {"prune": True}, "not finite on the segment"),
    (DIVERGED, [np.nan], {}, "x1 holds NaN"),
    (DIVERGED, [0, 0], {}, r"x0 has shape \(1,\), x1 \(2,\)"),
    (Overridden(3).fit(np.eye(1), [0]), [1], {}, "model is a Overridden"),
])  # fmt: skip
def test_models_and_ends_that_cannot_be_taken_are_named(model, x1, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        exact_segment(model, np.array([-1.0]), np.array(x1, dtype=float), **options)


def test_a_table_holds_what_fresh_fits_give(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(forests, "project_root", lambda: tmp_path)
    monkeypatch.setattr(forests, "DEPTHS", (3, 6))
    monkeypatch.setattr(forests, "NUM_TREES", 5)
    arguments = ["digits", "--n-train", "200", "--num-samples", "10"]
    forests.main(arguments)
    path = tmp_path / "campaigns" / "forests" / "digits.json"
    found = path.read_bytes()
    assert json.loads(found)["settings"]["dataset"] == {"name": "digits", "n_train": 200}
    table = pd.DataFrame(json.loads(found)["rows"])
    assert table["network"].value_counts().to_dict() == {TREE: 8, FOREST: 4}
    assert np.allclose(table["gap"], table["train_accuracy"] - table["test_accuracy"])
    data = load_dataset("digits", n_train=200)
    x, y = np.asarray(data.x_train).reshape(200, -1), data.y_train.numpy()
    settings = {"max_depth": 6, "criterion": "entropy", "n_estimators": 5, "random_state": 0}
    model, last = RandomForestClassifier(**settings).fit(x, y), table.iloc[-1]
    assert last["train_accuracy"] == (model.predict(x) == y).mean()
    assert last["count"] == region_count(model, x, num_samples=10).mean
    forests.main(arguments)
    assert path.read_bytes() == found  # also the random splits
    with pytest.raises(SystemExit):
        forests.main(["digit"])
    assert "Did you mean 'digits'?" in capsys.readouterr().err
