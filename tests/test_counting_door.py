"""Whatever comes in at the door - points, models, outputs - is read right or named."""

import contextlib
import functools
import math

import numpy as np
import pytest
import scipy.sparse
import torch
from conftest import FUZZ
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier
from torch import nn
from torch.nn import functional as F

from rc_exact import exact_segment
from rc_utils.counting import label_grid, predict_labels, region_count, sample_vertices

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
        region_count(
            lambda x: x[:, 0] / 0 if isinstance(x, torch.Tensor) else None, torch.tensor(SEGMENT)
        )


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            lambda x: x[:, None, :],
            r"shape \(200, 1, 2\) for 200 points; expected scores \(200, num_classes\)",
        ),
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
    with pytest.raises(
        ValueError, match=r"batch of shape \(\d+, 8, 8, 3\).*Have the points the shape"
    ):
        region_count(nn.Conv2d(3, 4, 3), torch.zeros(2, 8, 8, 3))
    with pytest.raises(ValueError, match=r"float16; .* count on a copy in float32"):
        region_count(nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 2).half()), SEGMENT)
    with pytest.raises(ValueError, match="batch norm '1' keeps no running statistics"):
        region_count(
            nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8, track_running_stats=False)), SEGMENT
        )
    with pytest.raises(TypeError, match="model is a str"):
        region_count("ResNet18", SEGMENT)


def test_every_kind_of_model_and_points_gives_the_same_count():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 4)).astype(np.float32)
    names = np.array(["left", "middle", "right"])
    tree = DecisionTreeClassifier(random_state=0).fit(
        x, names[np.digitize(x[:, 0] + x[:, 1] ** 2, [0, 1])]
    )
    expected = region_count(tree, x, num_samples=50).counts.tolist()
    assert max(expected) > 3
    codes = {name: code for code, name in enumerate(names)}

    def on_tensor(batch):
        assert isinstance(batch, torch.Tensor)
        return torch.tensor(
            [codes[name] for name in tree.predict(batch.reshape(len(batch), -1).numpy())]
        )

    assert (
        region_count(lambda batch: tree.predict_proba(batch), x, num_samples=50).counts.tolist()
        == expected
    )
    assert (
        region_count(on_tensor, torch.tensor(x).view(-1, 2, 2), num_samples=50).counts.tolist()
        == expected
    )
    assert (
        region_count(lambda b: on_tensor(b) - 5, torch.tensor(x), num_samples=50).counts.tolist()
        == expected
    )
    assert (
        region_count(tree, x.reshape(-1, 2, 2).tolist(), num_samples=50).counts.tolist() == expected
    )
    assert predict_labels(tree, x).tolist() == [codes[name] for name in tree.predict(x)]


def test_other_estimators(rng):
    x = rng.standard_normal((60, 2))
    crossed = sample_vertices(x, num_samples=20)[:, :, 0].sign().prod(1) < 0
    line = LinearRegression().fit(x, x[:, 0])
    assert region_count(line, x, num_samples=20).counts.tolist() == (1 + crossed.int()).tolist()
    with pytest.raises(ValueError, match="several outputs"):
        region_count(RandomForestClassifier(2).fit(x, (x > 0).astype(int)), x)


def test_classes_in_any_order_are_told_apart():
    class Unsorted:
        classes_ = np.array(["dog", "cat", "ant"])

        def predict(self, x):
            return self.classes_[(np.floor(x[:, 0] * 3) % 3).astype(int)]

    assert predict_labels(Unsorted(), np.array([[0.0], [0.4], [0.8]])).tolist() == [0, 1, 2]
    assert region_count(Unsorted(), np.array([[0.0], [0.999]]), num_samples=1).counts.tolist() == [
        3
    ]
    Unsorted.predict = lambda self, x: np.repeat("cow", len(x))
    with pytest.raises(ValueError, match=r"'cow'.*not among its classes_"):
        predict_labels(Unsorted(), np.zeros((2, 1)))


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


def test_images_with_negative_strides_are_read():
    image = np.random.default_rng(0).random((4, 4, 1))[..., ::-1].transpose(2, 0, 1)
    assert predict_labels(lambda x: x.reshape(len(x), -1), image[None]).shape == (1,)


REAL = ["bool", "int8", "uint8", "int16", ">i2", "uint16", "int32", "uint32", "int64", ">i8", "uint64", "float16",
        "float32", ">f4", "float64", ">f8", "longdouble"]  # fmt: skip
ODD = ["complex64", "complex128", "object", "U2", "datetime64[s]"]
TORCH_KINDS = (
    np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32,
    np.float64,
)  # fmt: skip


@contextlib.contextmanager
def refused_by_name(*names):
    """What is refused in this block is refused with a message that names one of `names`; `refused` says whether."""
    outcome, message = {"refused": False}, None
    try:
        yield outcome
    except (ValueError, TypeError) as error:
        outcome["refused"], message = True, str(error)
    assert message is None or any(name in message for name in names), (
        f"none of {names} is named: {message}"
    )


@st.composite
def arrays(draw, shape):
    """(What is handed over, the float64 numbers that it stands for or None where it stands for none)."""
    kind = draw(st.sampled_from(REAL + ODD))
    if kind in ODD:
        return np.zeros(shape, dtype=kind), None
    size = math.prod(shape)
    values = np.array(draw(st.lists(st.integers(-3, 100), min_size=size, max_size=size)))
    array = (
        values.reshape(shape).astype(kind)
        if kind[0] != "u"
        else np.abs(values).reshape(shape).astype(kind)
    )
    numbers = array.astype(np.float64)
    if kind.lstrip(">")[0] == "f" and draw(st.booleans()):
        array.flat[draw(st.integers(0, array.size - 1))] = draw(
            st.sampled_from([np.nan, np.inf, -np.inf])
        )
        numbers = None
    wrap = draw(
        st.sampled_from(["plain", "fortran", "read-only", "masked", "sparse", "list", "torch"])
    )
    if wrap == "fortran":
        return np.asfortranarray(array), numbers
    if wrap == "read-only":
        array.setflags(write=False)
    elif wrap == "masked":
        masked = np.ma.array(array, mask=np.zeros(shape, bool))
        masked[0] = np.ma.masked if draw(st.booleans()) else masked[0]
        return masked, None if np.ma.is_masked(masked) else numbers
    elif (
        wrap == "sparse"
        and array.ndim == 2
        and array.dtype.kind == "f"
        and array.dtype.itemsize in (4, 8)
    ):
        return scipy.sparse.csr_matrix(array.astype(array.dtype.newbyteorder("="))), None
    elif wrap == "list" and array.dtype.itemsize <= 8:
        return array.tolist(), numbers
    elif wrap == "torch" and array.dtype in TORCH_KINDS:
        tensor = torch.from_numpy(array.copy())
        return (
            (tensor.to_sparse(), None)
            if tensor.is_floating_point() and draw(st.booleans())
            else (tensor, numbers)
        )
    return array, numbers


@given(made=arrays((4, 2)), seed=st.integers(0, 5))
@FUZZ
def test_points(made, seed):
    """Sampled vertices are rows of the numbers that were given."""
    points, numbers = made
    with refused_by_name("points", "NaN") as outcome:
        vertices = sample_vertices(points, num_samples=8, seed=seed).double().numpy()
        labels = predict_labels(lambda x: x, points)
    assert outcome["refused"] == (numbers is None) or numbers is None
    if not outcome["refused"]:
        rows = numbers if numbers is not None else np.asarray(points, dtype=float)
        close = np.isclose(vertices[:, :, None], rows, rtol=1e-6).all(-1)
        assert close.any(2).all()
        assert (
            labels.tolist()
            == rows.astype(np.float32 if labels.dtype == np.int32 else float).argmax(1).tolist()
        )


@given(made=arrays((5, 3)) | arrays((5, 1)) | arrays((5,)))
@FUZZ
def test_scores(made):
    """The label is the argmax of the numbers that a model returned; of one alone, an integer is the label itself, told
    apart from others as it is, and a floating-point score is positive or not."""
    output, numbers = made
    with refused_by_name("the model", "scores") as outcome:
        labels = predict_labels(lambda x: output, np.arange(10.0).reshape(5, 2))
    if outcome["refused"]:
        assert numbers is None
    elif numbers.size == 15:
        assert labels.tolist() == numbers.argmax(1).tolist()
    elif np.asarray(output).dtype.kind == "f":
        assert labels.tolist() == (numbers.reshape(-1) > 0).tolist()
    else:
        given_labels = np.asarray(output).reshape(-1)
        assert ((labels[:, None] == labels) == (given_labels[:, None] == given_labels)).all()


class Odd(nn.Module):
    """A linear layer and something else."""

    def __init__(self, rule, layers=()):
        super().__init__()
        self.layer, self.rule = nn.Linear(2, 3), rule
        self.layers = nn.ModuleList(layers)
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor([[1.0, -2.0], [0.5, 1.0], [-1.0, 0.3]]))
            self.layer.bias.copy_(torch.tensor([0.1, -0.2, 0.3]))

    def forward(self, x):
        return self.rule(self, x)


def keeps_state(m, x):
    m.seen = x if not hasattr(m, "seen") else m.seen
    return m.layer(x)


# What each makes of points, and whether `exact_segment` may take it.
MODULES = {
    "plain": lambda: Odd(lambda m, x: m.layer(x)),
    "relu": lambda: Odd(lambda m, x: torch.relu(m.layer(x)).roll(1, 1) - m.layer(x)),
    "keyword": lambda: Odd(lambda m, x: m.layer(input=F.relu(input=x))),
    "dropout": lambda: Odd(lambda m, x: m.layers[0](m.layer(x)), [nn.Dropout(0.9)]),
    "dropout in evaluation": lambda: Odd(lambda m, x: F.dropout(m.layer(x), 0.5)),
    "batch norm": lambda: Odd(lambda m, x: m.layers[0](m.layer(x)), [nn.BatchNorm1d(3)]),
    "number of points": lambda: Odd(lambda m, x: m.layer(x) - x.size(0)),
    "number of points in a shape": lambda: Odd(lambda m, x: m.layer(x).view(x.size(0), -1)),
    "mean of the batch": lambda: Odd(lambda m, x: m.layer(x) - m.layer(x).mean(0)),
    "keeps its input": lambda: Odd(keeps_state),
    "one score": lambda: Odd(lambda m, x: m.layer(x)[:, :1]),
    "a vector": lambda: Odd(lambda m, x: m.layer(x)[:, 0]),
    "labels": lambda: Odd(lambda m, x: m.layer(x).argmax(1) * 2**61 - 2**62),
    "bool scores": lambda: Odd(lambda m, x: m.layer(x) > 0),
    "a tuple": lambda: Odd(lambda m, x: (m.layer(x), x)),
    "a dictionary": lambda: Odd(lambda m, x: {"scores": m.layer(x)}),
    "nothing": lambda: Odd(lambda m, x: None),
    "not a number": lambda: Odd(lambda m, x: m.layer(x) / 0 * 0),
    "curved": lambda: Odd(lambda m, x: torch.tanh(m.layer(x))),
    "control flow": lambda: Odd(lambda m, x: m.layer(x) if x.sum() > 0 else -m.layer(x)),
    "in place": lambda: Odd(
        lambda m, x: F.relu(x, inplace=True) @ m.layer.weight.T + x @ m.layer.weight.T
    ),
    "sparse": lambda: Odd(lambda m, x: m.layer(x).to_sparse()),
    "complex": lambda: Odd(lambda m, x: m.layer(x) * 1j),
    "half": lambda: Odd(lambda m, x: m.layer(x)).half(),
    "double": lambda: Odd(lambda m, x: m.layer(x)).double(),
    "meta": lambda: Odd(lambda m, x: m.layer(x)).to("meta"),
    "lazy": lambda: nn.LazyLinear(3),
    "no parameters": lambda: nn.Flatten(),
    "a convolution": lambda: nn.Conv2d(1, 2, 1),
    "scripted": lambda: scripted(),
    "frozen": lambda: torch.jit.freeze(scripted().eval()),
}
# Not functions of one point, though nothing but their values shows it: what they say depends on the batch.
OF_THE_BATCH = {"dropout in evaluation", "number of points", "mean of the batch", "control flow"}


def scripted():
    return torch.jit.script(nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3)))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("strategy", ["grid", "adaptive", "exact"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Lazy modules:UserWarning")
def test_modules(strategy, training):
    """Each module is counted, as its own labels say, or named; and left as it was."""
    for seed, name in enumerate(MODULES):
        check_module(name, strategy, training, seed)


def check_module(name, strategy, training, seed):
    module = MODULES[name]()
    points = np.random.default_rng(seed).normal(size=(2, 2)).astype(np.float32)
    if hasattr(module, "training"):
        module.train(training)
    modes = [getattr(part, "training", None) for part in module.modules()]
    words = ("model", "module", "network", "exact_segment", "torch.fx", "scores", "batch", "layer")
    with refused_by_name(*words, name) as outcome:
        if strategy == "exact":
            exact = exact_segment(module, *points)
        else:
            count = region_count(module, points, num_samples=1, resolution=101, strategy=strategy)
    assert [getattr(part, "training", None) for part in module.modules()] == modes
    if outcome["refused"] or name in OF_THE_BATCH:
        return
    if hasattr(module, "training"):
        module.eval()
    if name == "half":  # which is solved for in double precision
        module = module.double()
    alpha = torch.linspace(0, 1, 101)[:, None]
    line = (1 - alpha) * torch.from_numpy(points[0]) + alpha * torch.from_numpy(points[1])
    labels = predict_labels(module, line.numpy())
    found = 1 + (labels[1:] != labels[:-1]).sum()
    if strategy == "exact":
        assert exact.count >= found
    else:
        assert count.mean >= found if strategy == "adaptive" else count.mean == found
