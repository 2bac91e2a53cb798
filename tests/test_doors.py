"""Whatever comes in at a door - points, scores, modules, labels, names, numbers - is read right or named.

Some hundred examples of each; `make fuzz` draws many more, and others every time.
"""

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
from torch import nn
from torch.nn import functional as F

from rc_exact import exact_segment
from rc_utils.correlation import correlate
from rc_utils.regions import predict_labels, region_count, sample_vertices
from rc_utils.sweep.campaign import load_campaign

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
    assert message is None or any(name in message for name in names), f"none of {names} is named: {message}"


@st.composite
def arrays(draw, shape):
    """(What is handed over, the float64 numbers that it stands for or None where it stands for none)."""
    kind = draw(st.sampled_from(REAL + ODD))
    if kind in ODD:
        return np.zeros(shape, dtype=kind), None
    size = math.prod(shape)
    values = np.array(draw(st.lists(st.integers(-3, 100), min_size=size, max_size=size)))
    array = values.reshape(shape).astype(kind) if kind[0] != "u" else np.abs(values).reshape(shape).astype(kind)
    numbers = array.astype(np.float64)
    if kind.lstrip(">")[0] == "f" and draw(st.booleans()):
        array.flat[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
        numbers = None
    wrap = draw(st.sampled_from(["plain", "fortran", "read-only", "masked", "sparse", "list", "torch"]))
    if wrap == "fortran":
        return np.asfortranarray(array), numbers
    if wrap == "read-only":
        array.setflags(write=False)
    elif wrap == "masked":
        masked = np.ma.array(array, mask=np.zeros(shape, bool))
        masked[0] = np.ma.masked if draw(st.booleans()) else masked[0]
        return masked, None if np.ma.is_masked(masked) else numbers
    elif wrap == "sparse" and array.ndim == 2 and array.dtype.kind == "f" and array.dtype.itemsize in (4, 8):
        return scipy.sparse.csr_matrix(array.astype(array.dtype.newbyteorder("="))), None
    elif wrap == "list" and array.dtype.itemsize <= 8:
        return array.tolist(), numbers
    elif wrap == "torch" and array.dtype in TORCH_KINDS:
        tensor = torch.from_numpy(array.copy())
        return (tensor.to_sparse(), None) if tensor.is_floating_point() and draw(st.booleans()) else (tensor, numbers)
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
        assert labels.tolist() == rows.astype(np.float32 if labels.dtype == np.int32 else float).argmax(1).tolist()


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
    "in place": lambda: Odd(lambda m, x: F.relu(x, inplace=True) @ m.layer.weight.T + x @ m.layer.weight.T),
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


STEPS = {
    "linear": lambda m, x: m.layer(x)[:, :2],
    "relu": lambda m, x: torch.relu(x),
    "leaky": lambda m, x: F.leaky_relu(input=x, negative_slope=0.2),
    "abs": lambda m, x: x.abs(),
    "residual": lambda m, x: x + F.relu(m.layer(x))[:, 1:],
    "scaled": lambda m, x: 0.5 * x - 0.1,
    "stacked": lambda m, x: torch.stack([x, -x], 1).reshape(x.size(0), -1)[:, 1:3],
    "pooled": lambda m, x: F.max_pool2d(x.view(-1, 1, 1, 2), (1, 2)).view(-1, 1) - x,
    "number": lambda m, x: x * x.shape[0],
    "mean": lambda m, x: x - x.mean(0, keepdim=True),
    "square": lambda m, x: x * x,
    "curve": lambda m, x: torch.sigmoid(x),
    "own shape": lambda m, x: x.view(x.shape[0], 2) + x.size(1),
}
REFUSED = {"number", "mean", "square", "curve"}


@given(names=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5), seed=st.integers(0, 100))
@FUZZ
def test_piecewise_linear_networks(names, seed):
    """Whatever is put together from these steps is solved as a grid sees it, or refused where a step is not linear."""
    network = Odd(lambda m, x: functools.reduce(lambda value, name: STEPS[name](m, value), names, x)).double()
    x0, x1 = torch.from_numpy(np.random.default_rng(seed).normal(size=(2, 2)) * 3)
    with refused_by_name("exact_segment cannot take this network") as outcome:
        exact = exact_segment(network, x0, x1)
    assert outcome["refused"] == bool(REFUSED & set(names))
    if not outcome["refused"]:
        alphas = np.linspace(0, 1, 201)
        a = torch.from_numpy(alphas)[:, None]
        with torch.no_grad():
            scores = network((1 - a) * x0 + a * x1)
        clear = (scores[:, 0] - scores[:, 1]).abs().numpy() > 1e-9
        found = exact.labels[np.searchsorted(exact.boundaries, alphas)]
        assert (found == scores.argmax(1).numpy())[clear].all()


ODD_NAMES = ["", ".", "..", "/", "/dev/null", "~", "a/b", "shapes-tiny/", "x" * 300]


@given(name=st.text(max_size=30) | st.sampled_from(ODD_NAMES))
@FUZZ
def test_names_of_campaigns(name):
    with refused_by_name("campaign") as outcome:
        assert load_campaign(name).runs()
    assert outcome["refused"] or "shapes-tiny" in name


NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 1e12, 1e308, -1e308, 5e-324, 1.0])


@given(
    rows=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12), method=st.sampled_from(["pearson", "spearman", "kendall"])
)
@FUZZ
def test_numbers_to_correlate(rows, method):
    """Of any finite numbers the correlation is one of [-1, 1] within its interval, or not there at all."""
    x, y = np.array(rows, dtype=float).reshape(-1, 2).T
    found = correlate(x, y, method)
    assert np.isnan(found.value) or -1 - 1e-12 <= found.value <= 1 + 1e-12
    assert np.isnan(found.low) or -1 - 1e-12 <= found.low <= found.high <= 1 + 1e-12
    assert len(x) >= 3 or np.isnan(found.value)
