"""Whatever comes in at the door - points, models, outputs - is read right or refused by name."""

import functools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from conftest import FUZZ
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from torch import nn
from torch.nn import functional as F
from torch.utils.data import ConcatDataset, TensorDataset

from campaigns.imagenet.count import segment_table
from rc_exact import exact_segment
from rc_utils import build_network, load_dataset
from rc_utils.counting import label_grid, predict_labels, region_count, sample_vertices
from rc_utils.counting.mesh import triangle_regions
from rc_utils.training.loop import check_outputs

SEGMENT = np.array([[0.0, 0.0], [1.0, 0.0]])
EXAMPLE, ANY = (torch.zeros(2, 2),), ({0: torch.export.Dim.AUTO},)
REAL = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 >i4 >f4 >f8"


class Net(nn.Module):
    """Three scores of two numbers by a hidden layer, and something in between."""

    def __init__(self, seed=0, between=lambda m, h: h, after=lambda m, z: z):
        super().__init__()
        self.hidden, self.last = nn.Linear(2, 16), nn.Linear(16, 3)
        self.norm, self.between, self.after = nn.BatchNorm1d(16), between, after
        self.register_buffer("graph", torch.eye(2).to_sparse(), persistent=False)
        rng = np.random.default_rng(seed)
        for p in (*self.hidden.parameters(), *self.last.parameters()):
            p.data = torch.from_numpy(rng.standard_normal(p.shape)).float()

    def forward(self, x):
        return self.after(self, self.last(self.between(self, torch.relu(self.hidden(x)))))


class Foreign:
    """An array as of JAX or TensorFlow: NumPy reads it, but it takes no array as an index."""

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.device = array, array.shape, array.dtype, "gpu"

    def __array__(self, dtype=None, copy=None):
        return self.array


class Merging(Net):
    """Its scores are twice as large in evaluation mode, by its weights, as LoRA merges its own."""

    def train(self, mode=True):
        if mode != self.training:
            for p in self.last.parameters():
                p.data *= 0.5 if mode else 2.0
        return super().train(mode)


def numpy_scores(net):
    return lambda x: net(torch.from_numpy(x)).detach().numpy()


def labels_of(seed):
    return lambda x: numpy_scores(Net(seed))(x).argmax(1)


def as_of_keras(model):
    model.predict = np.linalg.norm  # which takes no rows: the model is to be called
    return model


def through(between=lambda m, h: h, after=lambda m, z: z):
    return lambda seed: Net(seed, between, after)


# Each makes a model that has the regions of Net(seed).
GOOD = {
    "module": Net,
    "dropout and batch norm": lambda seed: nn.Sequential(Net(seed), nn.Dropout(0.5)).train(),
    "its forward pass": lambda seed: nn.Sequential(Net(seed), nn.Dropout(0.5)).train().forward,
    "a function of arrays": lambda seed: numpy_scores(Net(seed)),
    "an estimator": lambda seed: SimpleNamespace(predict=labels_of(seed)),
    "labels in a column": lambda seed: lambda x: labels_of(seed)(x)[:, None],
    "a Keras model": lambda seed: as_of_keras(numpy_scores(Net(seed))),
    "labels of 64 bits": lambda seed: lambda x: labels_of(seed)(x) * 2**61 - 2**62,
    "log-probabilities": through(after=lambda m, z: z.log_softmax(1)),
    "scripted": lambda seed: torch.jit.script(plain(seed)),
    "frozen": lambda seed: torch.jit.freeze(torch.jit.script(plain(seed).eval())),
    "exported": lambda seed: torch.export.export(plain(seed), EXAMPLE, dynamic_shapes=ANY).module(),
    "a class that is switched off": through(
        after=lambda m, z: torch.cat([z, torch.full_like(z[:, :1], -torch.inf)], 1)
    ),
    "merges weights in evaluation mode": Merging,
    "keeps its input": through(after=lambda m, z: setattr(m, "seen", z) or z),
    "draws and does not use it": through(after=lambda m, z: (torch.rand(3), z)[1]),
    "double": lambda seed: Net(seed).double(),
}


def with_classes_off(m, z):
    return torch.cat([z, torch.full((len(z), 7), -1e9)], 1)


def int8(m, h):
    return (h / h.abs().max() * 127).round() * h.abs().max() / 127


CENTRES = torch.from_numpy(np.random.default_rng(0).random((3, 2))).float()
REGRESSOR = make_pipeline(RandomForestRegressor(2)).fit(np.eye(2), [-1, 1])
REGRESSOR[0].classes_ = []  # as those of CatBoost have
OF_PAIRS = GridSearchCV(make_pipeline(SVC(decision_function_shape="ovo")), {}, cv=2)
OF_PAIRS.fit(np.tile(np.eye(3, 2), (2, 1)), [0, 1, 2] * 2)
TWO_OUTPUTS = RandomForestClassifier(2).fit(np.eye(2), np.eye(2, dtype=int))
ROUNDS = "half precision|of its batch"  # which may turn a last bit, and so a rounding
# What it is, and the words with which it is refused.
BAD = {
    "dropout left on": (through(lambda m, h: F.dropout(h, 0.3)), "at every call"),
    "noise": (through(after=lambda m, z: z + 0.01 * torch.randn_like(z)), "at every call"),
    "traced in training mode": (lambda seed: traced_in_training(seed), "at every call"),
    "dropout, classes off": (through(lambda m, h: F.dropout(h, 0.3), with_classes_off), "at every"),
    "labels that flip": (
        lambda seed: lambda x: (labels_of(seed)(x) + (torch.rand(len(x)) < 0.05).numpy()) % 3,
        "at every call|of its batch",
    ),
    "complex": (lambda seed: lambda x: numpy_scores(Net(seed))(x) * 1j, "complex64 of shape"),
    "masked": (lambda seed: lambda x: np.ma.masked_less(numpy_scores(Net(seed))(x), 0), "masked"),
    "a mean over the batch": (through(lambda m, h: h - h.mean(0)), "depends on the other points"),
    "batch norm": (through(lambda m, h: F.batch_norm(h, None, None, training=True)), "the module"),
    "int8 by the range of the batch": (through(int8), "dynamic quantisation"),
    "its place": (through(after=lambda m, z: z + torch.arange(len(z))[:, None]), "depends on"),
    "counter": (through(after=lambda m, z: (m.norm.num_batches_tracked.add_(1), z)[1]), "changes"),
    "a class": (lambda seed: nn.Linear, "the class Linear: make one of it"),
    "not callable": (lambda seed: SimpleNamespace(predict_proba=len), "such as its predict_proba"),
    "a lazy layer": (lambda seed: nn.Sequential(nn.LazyLinear(3), nn.ReLU()), "lazy layer"),
    "bfloat16 inside": (through(after=lambda m, z: z.bfloat16()), "outputs are torch.bfloat16"),
    "bfloat16 between": (through(after=lambda m, z: z.bfloat16().float()), ROUNDS),
    "bfloat16 before a head": (through(lambda m, h: h.bfloat16().float() / 1.7), ROUNDS),
    "8 bits between": (through(
        after=lambda m, z: torch.quantize_per_tensor(z, 0.1, 0, torch.qint8).dequantize()), ROUNDS),
    "half as lists": (lambda seed: lambda x: numpy_scores(Net(seed))(x).astype("f2").tolist(),
        "all scores of the model"),
    "half": (lambda seed: Net(seed).half(), r"in {torch.float16}"),
    "one probability": (through(after=lambda m, z: z[:, :1].sigmoid()), "of probabilities"),
    "one log-probability": (through(after=lambda m, z: z.log_softmax(1)[:, 0]), "it never changes"),
    "class numbers as floats": (lambda seed: lambda x: labels_of(seed)(x) * 1.0, "as integers"),
    "labels as floats": (lambda seed: lambda x: (x[:, 0] > 0) * -1.0, "labels as integers"),
    "3 labels": (lambda seed: lambda x: 2.0 * np.digitize(x[:, 0], [-0.1, 0.1]) - 1, "integers"),
    "names": (lambda seed: lambda x: np.where(x[:, 0] > 0, "a", "b"), "<U1; expected numbers"),
    "a regressor": (lambda seed: REGRESSOR, "Pipeline is a regressor"),
    "scores of pairs": (lambda seed: OF_PAIRS.decision_function, "scores pairs of classes"),
    "a regressor's predictions": (lambda seed: REGRESSOR.predict, "Pipeline is a regressor"),
    "distances by another kernel in large batches": (lambda seed:
        lambda x: -torch.cdist(1e4 + torch.from_numpy(x), 1e4 + CENTRES), "depends on"),
    "all classes off": (through(after=lambda m, z: torch.full_like(z, -torch.inf)), "NaN or inf"),
    "not a number": (through(after=lambda m, z: z * torch.nan), "NaN or infinite"),
    "a tuple": (through(after=lambda m, z: (z, z)), "returned a tuple"),
    "transposed": (through(after=lambda m, z: z.T), r"shape \(3, 26\)"),
    "maps": (through(after=lambda m, z: z[..., None].repeat(1, 1, 4)), r"shape \(26, 3, 4\)"),
    "another shape of points": (lambda seed: nn.Linear(3, 2), "cannot be multiplied"),
    "two outputs for a point": (lambda seed: TWO_OUTPUTS, "several labels for a point"),
}  # fmt: skip


def plain(seed):
    net = Net(seed)
    return nn.Sequential(net.hidden, nn.ReLU(), net.last)


def traced_in_training(seed):
    model = nn.Sequential(plain(seed)[:2], nn.Dropout(0.5), plain(seed)[2]).train()
    return torch.jit.trace(model, torch.zeros(4, 2), check_trace=False)


def regions_by_hand(net, points, num_samples, seed):
    """Changes of label along each segment, by a loop that shares nothing with the counting."""
    counts = []
    for ends in sample_vertices(points, num_samples=num_samples, seed=seed).numpy():
        alphas = np.linspace(0, 1, 200)[:, None]
        line = ((1 - alphas) * ends[0] + alphas * ends[1]).astype(np.float32)
        labels = numpy_scores(net)(line).argmax(1)
        counts.append(1 + int((labels[1:] != labels[:-1]).sum()))
    return np.array(counts)


@given(name=st.sampled_from([*GOOD, *BAD]), seed=st.integers(0, 50))
@FUZZ
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Lazy m|.?torch.(jit|quan)")
def test_a_model_is_counted_as_by_hand_or_refused_by_name_and_left_as_it_was(name, seed):
    points = np.random.default_rng(seed).normal(size=(30, 2)).astype(np.float32)
    model = GOOD[name](seed) if name in GOOD else BAD[name][0](seed)
    known = isinstance(model, nn.Module) and name != "a lazy layer"
    before = [t.clone() for t in model.state_dict().values()] if known else []
    options = {"num_samples": 8, "seed": seed}
    if name in BAD:
        with pytest.raises((ValueError, RuntimeError, TypeError), match=BAD[name][1]):
            region_count(model, points, **options)
    else:
        # A label may change its place by one lattice point where float32 is rounded otherwise.
        found = region_count(model, points, **options).counts
        assert (found != regions_by_hand(Net(seed), points, 8, seed)).sum() <= 1
    if known:
        assert all(map(torch.equal, model.state_dict().values(), before))


@pytest.mark.parametrize("name", ["noise", "batch norm", "one probability", "not a number"])
@pytest.mark.parametrize("function", [label_grid, triangle_regions, segment_table])
def test_what_is_not_counted_is_not_drawn_or_listed(function, name):
    points = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)
    vertices = sample_vertices(points, dim=1 if function is segment_table else 2, num_samples=1)
    with pytest.raises(ValueError, match=BAD[name][1]):
        function(BAD[name][0](0), vertices)
    with pytest.raises(ValueError, match="expected"):
        function(Net(), vertices[:, :1] if function is label_grid else vertices[:, [0, 1, 1, 0]])


def test_one_logit_is_a_score_where_it_has_both_signs():
    points = np.random.default_rng(0).normal(size=(30, 2))
    logit = lambda x: x[:, 0] - x[:, 1] ** 2  # noqa: E731
    two = region_count(lambda x: np.stack([0 * x[:, 0], logit(x)], 1), points)
    assert region_count(logit, points).counts.tolist() == two.counts.tolist()
    # Support vectors' votes, of which there are two.
    assert region_count(lambda x: np.sign(logit(x)), points).counts.tolist() == two.counts.tolist()
    assert region_count(lambda x: 1e9 * logit(x), points).counts.tolist() == two.counts.tolist()
    assert predict_labels(lambda x: 2.5 + logit(x), points[:2] * 0).tolist() == [1, 1]
    with pytest.raises(ValueError, match="as integers"):  # also where points are sorted by class
        predict_labels(lambda x: x[:, 0].round(), np.repeat([[-1.0], [0.0], [1.0]], 300, axis=0))


@pytest.mark.parametrize("off", [lambda z: -np.inf, lambda z: z - 1e9])
def test_a_class_that_is_switched_off_asks_for_no_refinement(off):
    """At -1e9 its scores are multiples of 64."""
    points = np.random.default_rng(1).normal(size=(90, 2)).astype(np.float32)

    def scores(x):
        assert len(x) < 1000  # not all triangles of a lattice are cut
        z = np.stack([np.sin(3 * x[:, 0]), np.cos(2 * x[:, 1]), x[:, 0] * x[:, 1]], axis=1)
        return np.column_stack([100 * z, 0 * z + off(100 * z)]).astype(np.float32)

    options = {"dim": 2, "num_samples": 3, "strategy": "adaptive", "resolution": 20}
    found = region_count(scores, points, **options)
    expected = region_count(lambda x: scores(x)[:, :3], points, **options)
    assert found.counts.tolist() == expected.counts.tolist()
    assert found.num_evaluations == expected.num_evaluations


def test_last_bits_are_judged_by_the_range_over_all_points(rng):
    points = rng.normal(size=(40, 2)).astype(np.float32)
    points[:2] = 0.01  # two points alone have scores of no range
    labels = predict_labels(lambda x: np.hstack([x, -x]) + 1e-5 * (len(x) == 1), points)
    assert (labels == np.hstack([points, -points]).argmax(1)).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:torch.quan")
def test_the_probe_takes_a_model_of_one_batch_size_and_keeps_no_count():
    def fixed(x):
        if len(x) != 16:
            raise ValueError("the batch has 16 points")
        return np.stack([x[:, 0], 0.5 - x[:, 1]], axis=1)

    points = np.random.default_rng(0).normal(size=(9, 2))
    count = region_count(fixed, points, num_samples=4, resolution=13, batch_size=16)
    assert count.num_evaluations == 52  # no multiple of 16
    with pytest.raises(ValueError, match="the batch has 16"):
        region_count(fixed, points)
    by_place = lambda x: fixed(x) + np.arange(len(x))[:, None] * [0, 1]  # noqa: E731
    with pytest.raises(ValueError, match="depends on the other points"):  # seen by the order alone
        region_count(by_place, points, batch_size=16)
    sizes = []

    def labels(x):
        sizes.append(len(x))
        return (x[:, 0] > 0).astype(int)

    quantised = torch.ao.quantization.quantize_dynamic(Net(), {nn.Linear})
    with pytest.raises(ValueError, match="in 8 bits"):
        predict_labels(quantised, points, batch_size=1)
    assert predict_labels(np.squeeze, np.eye(3)[:1]).tolist() == [0]  # of one point (3,) scores
    region_count(labels, points, num_samples=4, resolution=5)
    assert max(sizes) <= 30  # 240 large images at once could fill the memory


@pytest.mark.parametrize("seed", [2, 15])
def test_the_last_bits_of_a_network_whose_scores_are_the_same_everywhere_are_no_dependence(seed):
    """As of deep networks at their start: a score near zero is told from the best no finer."""
    images = load_dataset("shapes", n_train=40, n_test=10, image_size=16, seed=0)
    network = build_network("VGG19", width=8, image_size=16, seed=seed)
    assert np.ptp(network.eval()(images.x_train[:12]).detach().numpy(), axis=0).max() < 1e-7
    check_outputs(network.train().to(memory_format=torch.channels_last), images)


def test_training_and_exact_segments_use_the_same_probe(tiny_data):
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 10))
    check_outputs(network, tiny_data)
    noisy = nn.Sequential(network, Net(0, after=lambda m, z: z))
    noisy.forward = lambda x: F.dropout(network(x), 0.5)
    with pytest.raises(ValueError, match="at every call"):
        check_outputs(noisy, tiny_data)
    with pytest.raises(ValueError, match="lazy layer"):
        exact_segment(nn.LazyLinear(3), *SEGMENT)


def test_a_data_frame_keeps_its_names_for_an_estimator_that_knows_them(rng):
    frame = pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc")).assign(d=[True, False] * 40)
    model = LogisticRegression().fit(frame, frame.a * 3 > frame.b)
    expected = region_count(DecisionTreeClassifier().fit(frame.to_numpy(float), frame.a > 0), frame)
    assert expected.mean > 1
    for called in (model, model.predict_proba, model.decision_function):
        assert region_count(called, frame, num_samples=30).mean > 1
        assert label_grid(called, sample_vertices(frame)).max() == 1
        with pytest.raises(ValueError, match="feature names should match"):
            region_count(called, frame[list("dcba")], num_samples=30)


@pytest.mark.parametrize("kind", REAL.split())
def test_points_and_outputs_of_every_type_are_the_numbers_that_were_given(kind, rng):
    """Of 64 bits without a loss: float32 knows no odd number beyond 2^24."""
    given = rng.integers(0, 100, (5, 3)).astype(kind)
    if np.dtype(kind).itemsize >= 8:
        given += np.array(2**25).astype(kind)
    vertices = sample_vertices(Foreign(given), num_samples=8).numpy()
    assert (vertices[:, :, None] == given.astype(float)).all(-1).any(-1).all()
    outputs = [given[:, 0]] if given.dtype.kind in "biu" else []
    for output in (given, *outputs):
        model = lambda x, output=output: Foreign(output[x[:, 0].astype(int)])  # noqa: E731
        if kind == "float16":  # refused, as a row above says
            continue
        labels = predict_labels(model, Foreign(np.arange(5.0)[:, None]))
        expected = output if output.ndim == 1 else output.astype(float).argmax(1)
        assert labels.tolist() == expected.astype(int).tolist()


@pytest.mark.parametrize(("points", "message"), [
    (scipy.sparse.csr_matrix(SEGMENT), r"points are a csr_matrix of shape \(2, 2\); expected"),
    (torch.eye(2).to_sparse(), r"points are a Tensor of shape \(2, 2\); expected a dense array"),
    (1j * np.eye(2), r"points are a ndarray of shape \(2, 2\); expected .* of real numbers"),
    (np.zeros(5), r"points are a ndarray of shape \(5,\); expected a dense"),
    (np.zeros((5, 0)), r"points are a ndarray of shape \(5, 0\); expected a dense"),
    (pd.DataFrame({"kind": ["a", "b"]}), r"columns that are no numbers, \['kind'\]"),
    (ConcatDataset([TensorDataset(torch.zeros(4, 2))]), "points are a ConcatDataset.*torch.stack"),
    (np.ma.masked_equal(np.eye(3), 1), "points have masked entries"),
    (np.full((5, 2), np.nan), r"points\[\d\] holds NaN"),
])  # fmt: skip
def test_points_that_are_no_dense_real_numbers_are_named(points, message):
    with pytest.raises(ValueError, match=message):
        region_count(lambda x: np.asarray(x), points)


def test_places_that_are_not_finite_are_refused_where_labels_would_not_show_it():
    def labels(x):
        return (x[:, 0] > 0).astype(int)

    points = SEGMENT.astype("f4")
    for far in ((0, np.nan), (0, 1e39)):
        with pytest.raises(ValueError, match="alpha_range or direction_length is too large"):
            region_count(labels, points, alpha_range=far)
    for wrong in (1.5, (1,), (1, 1)):
        with pytest.raises(ValueError, match=r"alpha_range=.*; expected \(low, high\), two diff"):
            region_count(labels, points, alpha_range=wrong)
    with pytest.raises(ValueError, match=r"direction_length=1e\+39 leads beyond torch\.float32"):
        sample_vertices(points, sampling="noise", direction_length=1e39)
    with pytest.raises(ValueError, match="vertices hold NaN"):
        label_grid(labels, np.array([[[np.nan, 0], [1, 0]]]))


def test_a_class_that_is_switched_off_wins_nowhere_however_far_the_others_fall():
    points = np.random.default_rng(0).normal(size=(300, 2))
    points[:6] *= 1000
    means, prior = np.array([[1, 1], [-1, -1], [0, 0]]), np.array([-0.7, -0.7, -np.inf])

    def scores(x):
        return prior - ((x[:, None] - means) ** 2).sum(2) / 2

    for options in ({"strategy": "adaptive"}, {"dim": 2, "num_samples": 30}):
        found = region_count(scores, points, **options).counts
        two = region_count(lambda x: scores(x)[:, :2], points, **options).counts
        assert found.tolist() == two.tolist()


def test_scores_of_few_levels_or_of_points_of_few_digits_are_not_rounded(rng):
    points = torch.from_numpy(rng.normal(size=(30, 2))).float()
    for levels in (lambda x: 1001 * x, lambda x: x.relu() / 3, lambda x: x / 8 + 2**-9):
        region_count(lambda x, levels=levels: levels(x.sign()), points, num_samples=5)
    points = points.half().float()
    assert predict_labels(lambda x: x.flip(1), points).tolist() == points.argmin(1).tolist()


def test_votes_are_not_rounded_and_probabilities_in_half_precision_are(rng):
    def model(x, levels, dtype):
        scores = np.exp(0.1 * np.stack([x[:, 0], x[:, 1], x.sum(1)], axis=1))
        shares = scores / scores.sum(1, keepdims=True)
        return (np.round(shares * levels) / levels).astype(dtype).astype(np.float32)

    points = rng.normal(size=(60, 2)).astype(np.float32)
    region_count(lambda x: model(x, 512, np.float32), points, num_samples=5)  # votes of 512 trees
    with pytest.raises(ValueError, match="rounded to half precision"):
        region_count(lambda x: model(x, 2**22, np.float16), points, num_samples=5)


def test_vertices_and_settings_may_be_integers_of_any_width(rng):
    vertices = rng.integers(0, 9, (20, 2, 2))
    model = lambda x: np.stack([np.sin(x[:, 0]), np.cos(x[:, 1]), 0.1 * x[:, 0]], 1)  # noqa: E731
    expected = segment_table(model, vertices.astype(float))
    assert segment_table(model, vertices).equals(expected)
    assert expected["regions"].max() > 2
    model, points = lambda x: np.sin(9 * x), rng.normal(size=(30, 2))
    settings = {"dim": 2, "num_samples": 100, "resolution": 20, "batch_size": 100, "seed": 3}
    narrow = {key: np.uint8(value) for key, value in settings.items()}
    counts = [region_count(model, points, **given).counts for given in (settings, narrow)]
    assert counts[0].tolist() == counts[1].tolist()


def test_classes_in_any_order_are_told_apart():
    names, rows = np.array(["dog", "cat", "ant"]), np.arange(3.0)[:, None]
    model = SimpleNamespace(classes_=names, predict=lambda x: names[x[:, 0].astype(int)])
    assert predict_labels(model, rows).tolist() == [0, 1, 2]
    other = SimpleNamespace(classes_=names, predict=lambda x: x[:, 0].astype(int))
    with pytest.raises(ValueError, match="not among its classes_"):
        predict_labels(other, rows)


@pytest.mark.parametrize("count", [region_count, exact_segment])
def test_a_network_that_keeps_tensors_can_be_trained_after_a_count(count):
    """A tensor that it makes in its first forward pass, where a copy of it finds it as well."""
    frequencies = functools.cache(lambda: torch.arange(1.0, 3.0))

    class Caching(nn.Linear):
        def forward(self, x):
            return super().forward(x * frequencies())

    network, points = nn.Sequential(Caching(2, 3)), torch.randn(2, 2, requires_grad=True)
    count(network, *([points] if count is region_count else points))
    network(points).sum().backward()
    assert network[0].weight.grad is not None
