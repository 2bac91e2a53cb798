"""Each measure of a small network against its definition, written out."""

import math
import types

import pytest
import torch
import torch.nn.functional as F

from rc_utils.measures import (
    distance_from_init,
    input_gradient,
    log_spectral_product,
    measure,
    output_margin,
    sharpness,
    some_images,
)


class Net(torch.nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.conv = torch.nn.Conv2d(1, 3, 3)
        self.norm = torch.nn.BatchNorm2d(3)
        self.head = torch.nn.Linear(12, 4)

    def forward(self, x):
        return self.head(F.gelu(self.norm(self.conv(x))).flatten(1))


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(3)
    return torch.randn(20, 1, 4, 4, generator=generator), torch.randint(4, (20,), generator=generator)


def test_sharpness_is_the_largest_eigenvalue_of_the_full_hessian(data):
    network, (x, y) = Net(0).train(), data
    parameters = {name: p.detach() for name, p in network.named_parameters()}
    names, shapes = list(parameters), [p.shape for p in parameters.values()]
    frozen = Net(0).eval()

    def loss(flat):
        parts = torch.split(flat, [math.prod(shape) for shape in shapes])
        state = {name: part.view(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
        return F.cross_entropy(torch.func.functional_call(frozen, state, (x,)), y)

    flat = torch.cat([p.reshape(-1) for p in parameters.values()])
    expected = torch.linalg.eigvalsh(torch.autograd.functional.hessian(loss, flat))[-1]
    assert sharpness(network, x, y, tolerance=1e-4) == pytest.approx(float(expected), rel=1e-3)
    assert network.training
    assert all(p.grad is None for p in network.parameters())


def test_input_gradient_is_the_mean_norm_of_the_margins_gradient(data):
    network, (x, y) = Net(1).eval(), data
    norms, margins = [], []
    for image, label in zip(x, y, strict=True):
        point = image[None].clone().requires_grad_()
        logits = network(point)[0]
        margin = logits[label] - max(logits[i] for i in range(4) if i != label)
        margin.backward()
        norms.append(float(point.grad.norm()))
        margins.append(float(margin.detach()))
    assert input_gradient(network, x, y, batch_size=7) == pytest.approx(sum(norms) / 20, rel=1e-5)
    assert output_margin(network, x, y, batch_size=7) == pytest.approx(sum(margins) / 20, rel=1e-5)


def test_log_spectral_product_adds_the_logarithms_of_the_largest_singular_values():
    network = Net(2)
    kernel, head = network.conv.weight.detach().reshape(3, 9), network.head.weight.detach()
    expected = sum(math.log(float(torch.linalg.svdvals(w)[0])) for w in (kernel, head))
    assert log_spectral_product(network) == pytest.approx(expected, rel=1e-5)


def test_distance_from_init_counts_matrices_and_kernels_only():
    network, initial = Net(0), Net(0)
    with torch.no_grad():
        network.conv.weight += 2
        network.head.bias += 100
    assert distance_from_init(network, initial) == pytest.approx(math.sqrt(27 * 4))


def test_unknown_measure_names_the_nearest(data):
    with pytest.raises(ValueError, match="sharpness"):
        measure("sharpnes", Net(0), Net(0), data)


def test_sharpness_where_there_is_no_curvature_or_nothing_to_train():
    """Images that are separated for good, a parameter that is not used, and a network that is frozen."""
    x, y = F.one_hot(torch.arange(3).repeat(4), 4).float(), torch.arange(3).repeat(4)
    linear = torch.nn.Linear(4, 3, bias=False)
    torch.nn.init.eye_(linear.weight)
    with torch.no_grad():
        linear.weight *= 1e4
    assert sharpness(linear, x, y) == 0.0
    with torch.no_grad():
        linear.weight /= 1e4
    plain = sharpness(linear, x, y)
    assert plain > 0
    linear.unused = torch.nn.Parameter(torch.ones(1))
    assert sharpness(linear, x, y) == pytest.approx(plain, rel=0.05)
    assert sharpness(linear.requires_grad_(False), x, y) == 0.0


def test_sharpness_sees_every_class_of_data_that_are_sorted_by_class():
    labels = torch.arange(3).repeat_interleave(200)
    data = types.SimpleNamespace(x_train=torch.arange(600.0), y_train=labels)
    x, y = some_images(data, 250)
    assert (len(x), y.unique().tolist()) == (250, [0, 1, 2])
    assert torch.equal(labels[x.long()], y)
    mixed = types.SimpleNamespace(x_train=torch.arange(600.0), y_train=torch.arange(600) % 3)
    assert torch.equal(some_images(mixed, 250)[0], torch.arange(250.0))


def test_a_network_without_matrices_is_at_no_distance():
    assert distance_from_init(torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)) == 0.0
