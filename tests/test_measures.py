"""Each measure of a small network against its definition, written out."""

import copy
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch.nn.utils.prune

import rc_utils as rc
from rc_exact import exact_segment
from rc_utils import measures
from rc_utils.counting.classifier import NonFiniteScores
from rc_utils.counting.sampling import vertex_indices
from rc_utils.measures import MEASURES


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
    x = torch.randn(20, 1, 4, 4, generator=generator)
    return x, torch.randint(4, (20,), generator=generator)


def test_sharpness_is_the_largest_eigenvalue_of_the_full_hessian(data):
    network, (x, y) = Net(0).train(), data
    parameters = {name: p.detach() for name, p in network.named_parameters()}
    names, shapes = list(parameters), [p.shape for p in parameters.values()]
    frozen = Net(0).eval()

    def loss(flat):
        parts = torch.split(flat, [math.prod(shape) for shape in shapes])
        parts = zip(names, parts, shapes, strict=True)
        state = {name: part.view(shape) for name, part, shape in parts}
        return F.cross_entropy(torch.func.functional_call(frozen, state, (x,)), y)

    flat = torch.cat([p.reshape(-1) for p in parameters.values()])
    expected = torch.linalg.eigvalsh(torch.autograd.functional.hessian(loss, flat))[-1]
    found = measures.sharpness(network, x, y, tolerance=1e-4)
    assert found == pytest.approx(float(expected), rel=1e-3)


def test_input_gradient_is_the_mean_norm_of_the_margins_gradient(data, monkeypatch):
    monkeypatch.setattr(measures, "slices_of", lambda *_: [slice(1), slice(1, 20)])
    network, (x, y) = Net(1).eval(), data
    norms, margins = [], []
    for image, label in zip(x, y, strict=True):
        point = image[None].clone().requires_grad_()
        logits = network(point)[0]
        margin = logits[label] - max(logits[i] for i in range(4) if i != label)
        margin.backward()
        norms.append(float(point.grad.norm()))
        margins.append(float(margin.detach()))
    network.register_forward_hook(lambda module, given, scores: scores.squeeze())
    assert measures.input_gradient(network, x, y) == pytest.approx(sum(norms) / 20, rel=1e-5)
    assert measures.output_margin(network, x, y) == pytest.approx(sum(margins) / 20, rel=1e-5)


@pytest.mark.parametrize("name", [name for name in MEASURES if "pieces" not in name])
def test_a_network_may_work_on_its_input_in_place(tiny_data, name):
    ours, plain = (rc.build_network("MLP", widths=[9], image_size=8) for _ in range(2))
    ours.register_forward_pre_hook(lambda module, given: (given[0].mul_(2),))
    plain.register_forward_pre_hook(lambda module, given: (given[0] * 2,))
    initial = rc.build_network("MLP", widths=[9], image_size=8, seed=1)
    found = [measures.measure(name, network, initial, tiny_data) for network in (ours, plain)]
    assert found[0] == found[1]


def test_spectral_product_and_distance_from_init_are_of_matrices_and_kernels_only():
    network = Net(2)
    network.token = torch.nn.Parameter(torch.ones(1, 1, 3))
    network.matrix = torch.nn.Parameter(2 * torch.eye(2))
    network.one = torch.nn.Linear(1, 1)  # a single row, and a weight by its name
    network.one.weight.data[:] = 8
    kernel, head = network.conv.weight.detach().reshape(3, 9), network.head.weight.detach()
    expected = sum(math.log(float(torch.linalg.svdvals(w)[0])) for w in (kernel, head))
    expected += math.log(2 * 8)
    assert measures.log_spectral_product(network) == pytest.approx(expected, rel=1e-5)
    initial = copy.deepcopy(network)
    with torch.no_grad():
        network.conv.weight += 2
        network.head.bias += 100
    assert measures.distance_from_init(network, initial) == pytest.approx(math.sqrt(27 * 4))
    for first, message in ((torch.nn.BatchNorm1d(3), "no weight of two"), (network, "itself")):
        with pytest.raises(ValueError, match=message):
            measures.distance_from_init(first, first)


def test_sharpness_of_separated_images_and_no_measure_of_a_diverged_network():
    x, y = F.one_hot(torch.arange(3).repeat(4), 4).float(), torch.arange(3).repeat(4)
    linear = torch.nn.Linear(4, 3, bias=False)
    linear.unused = torch.nn.Parameter(torch.ones(1))
    linear.weight.data = 1e4 * torch.eye(3, 4)
    assert measures.sharpness(linear, x, y) == 0
    of_probabilities = torch.nn.Sequential(linear, torch.nn.Softmax(1))
    with pytest.raises(ValueError, match="look like probabilities: give it without its softmax"):
        measures.sharpness(of_probabilities, x, y)
    one = torch.nn.Linear(1, 1, bias=False)
    one.weight.data[:] = 0
    assert measures.sharpness(one, torch.ones(2, 1), torch.tensor([0, 1])) == pytest.approx(0.25)
    linear.weight.data[:] = torch.nan
    with pytest.raises(NonFiniteScores, match="at 12 of 12 points: has it diverged"):
        measures.sharpness(linear, x, y)
    with pytest.raises(ValueError, match="requires_grad is False for all"):
        measures.sharpness(linear.requires_grad_(False), x, y)


def test_sharpness_sees_every_class_of_data_that_are_sorted_by_class():
    labels = torch.arange(3).repeat_interleave(200)
    x, y = measures.some_images(torch.arange(600.0), labels, 250)
    assert (len(x), y.unique().tolist()) == (250, [0, 1, 2])
    number = measures._of_images(lambda network, x, y: len(x), 250)
    assert number(None, None, SimpleNamespace(x_train=labels, y_train=labels)) == 250
    assert torch.equal(labels[x.long()], y)


class Units(torch.nn.Module):
    """Scores (0, sum_i a_i g(w_i mean(x) + b_i)) of an image, g a ReLU unless said otherwise."""

    def __init__(self, w, b, a, activation=F.relu):
        super().__init__()
        self.w, self.b, self.a = (torch.nn.Parameter(torch.tensor(v)) for v in (w, b, a))
        self.activation = activation

    def forward(self, x):
        hidden = self.activation(x.flatten(1).mean(1, keepdim=True) * self.w + self.b)
        score = hidden @ self.a
        return torch.stack([torch.zeros_like(score), score], dim=1)


def threshold(at, slope=1.0):
    """Class 1 where an image's mean is above `at`; p_1 - p_0 = tanh(slope (x - at) / 2)."""
    return Units([slope], [-slope * at], [1.0], activation=lambda z: z)


def grey(*levels):
    """Images (N, 1, 2, 2) of one grey level each."""
    return torch.tensor(levels).view(-1, 1, 1, 1).expand(-1, 1, 2, 2).clone()


def test_mixup_scores_of_a_threshold():
    """A(u) is 1 up to 0.6, where mixtures of one end pass the threshold; linear; then 0.5."""
    y = torch.tensor([0, 1])
    curve = measures.mixup_curve(threshold(0.32), grey(0.0, 1.0), y)
    with pytest.raises(ValueError, match=r"unknown classes 'itner'. Did you mean 'inter'"):
        measures.mixup_curve(threshold(0.32), grey(0.0, 1.0), y, "itner")
    assert measures.mixup_curve(threshold(0.32, slope=1e-9), grey(0.0, 1.0), y) == curve
    assert measures.mixup_accuracy(curve) == pytest.approx(0.6 + 0.2 * 0.75 + 0.2 * 0.5)
    assert measures.gi_score(curve) == pytest.approx(0.2 * 0.025 + 0.2 * 0.1)
    # F(u) = u up to 0.6; then 0.6 + s - s^2 / 0.8 over 0.2, and 0.75 + s / 2 over the last 0.2.
    strong = (0.6**2 - 0.4**2) / 2 + (0.12 + 0.02 - 0.008 / 2.4) + (0.15 + 0.01)
    assert measures.pal_score(curve) == pytest.approx(strong / 0.005, rel=1e-5)
    # A perfect curve has 84 times the area near the image; the midpoint is of one end: A(1) = 0.5.
    score = measures.pal_score(measures.mixup_curve(threshold(0.51), grey(0.0, 1.0), y, "inter"))
    assert score == pytest.approx(84 - 0.5 * 0.2**2 / 6 / 0.005, rel=1e-5)
    # Half of the mixtures next to the image at 0.4, which is beyond, are wrong: A = 0.5, 0.5, 1.
    curve = measures.mixup_curve(threshold(0.33), grey(0.0, 0.4), torch.tensor([0, 0]), "intra")
    assert measures.gi_score(curve) == pytest.approx(0.2 * 0.05 + 0.2 * 0.125 + 0.6 * 0.15)
    # F(u) = u / 2 up to 0.2; 0.1 + s / 2 + s^2 / 0.8 over 0.2; then 0.25 + (u - 0.4).
    strong = 0.25 * 0.6 + 0.6**2 / 2
    assert measures.pal_score(curve) == pytest.approx(strong / 0.0025, rel=1e-5)
    with pytest.raises(ValueError, match="no label occurs twice"):
        measures.mixup_curve(threshold(0.5), grey(0.0, 1.0), torch.tensor([0, 1]), "intra")
    of_none = measures.mixup_curve(threshold(0.5), grey(0.0, 1.0), torch.tensor([0, 0]), "inter")
    assert math.isnan(measures.pal_score(of_none))


def test_one_logit_is_the_second_of_two_of_which_the_first_is_0():
    two, x, y = threshold(0.32, slope=9.0), grey(0.0, 0.3, 1.0), torch.tensor([0, 1, 1])
    one = torch.nn.Sequential(two, torch.nn.Linear(2, 1, bias=False))
    one[1].weight = torch.nn.Parameter(torch.tensor([[0.0, 1.0]]), requires_grad=False)
    names = "mixup_curve sharpness output_margin input_gradient margin_over_gradient"
    for name in (*names.split(), "boundary_thickness", "jacobian_norm"):
        measure = getattr(measures, name)
        given = (x,) if name in ("boundary_thickness", "jacobian_norm") else (x, y)
        assert measure(one, *given) == pytest.approx(measure(two, *given), rel=1e-5) != 0, name


def test_a_third_class_on_the_segment_is_outside_the_boundary_of_the_two_at_its_ends():
    """It takes three of the five points at which |p_0 - p_1| < 0.75; one is the boundary itself."""

    def thickness(height):
        def scores(x):
            level = x.flatten(1).mean(1)
            outer, between = 4 * (level - 0.5), (level > 0.3) & (level < 0.7)
            return torch.stack([-outer, outer, height * between - 3], dim=1)

        network = torch.nn.Flatten()
        network.register_forward_hook(lambda module, inputs, flat: scores(flat))
        return measures.boundary_thickness(network, grey(0.0, 1.0))

    assert [thickness(0.0), thickness(30.0)] == pytest.approx([0.4, 0.2])


def test_margin_over_gradient_is_the_distance_to_the_boundary_of_a_linear_classifier():
    network = threshold(0.5, slope=3.0)
    x, y = grey(0.0, 0.4, 1.0), torch.tensor([0, 0, 0])
    # The mean of four pixels changes by half of the distance; the image at 1 is on the wrong side.
    assert measures.margin_over_gradient(network, x[:2], y[:2]) == pytest.approx(0.2, abs=1e-5)
    assert measures.margin_over_gradient(network, x, y) == pytest.approx(0.2, abs=1e-5)
    assert measures.margin_over_gradient(network, x[2:], y[2:]) == pytest.approx(-1.0, abs=1e-5)
    flat = threshold(0.5, slope=0.0)  # no boundary at any distance
    flat.register_forward_hook(lambda module, inputs, scores: scores + torch.tensor([0.0, 2.0]))
    found = [measures.margin_over_gradient(flat, x, torch.full((3,), k)) for k in (0, 1)]
    assert found == [-math.inf, math.inf]


@pytest.mark.parametrize("measure", [measures.linear_pieces, measures.local_complexity])
@pytest.mark.parametrize(("name", "bend"), [
    ("maximum", lambda z: torch.maximum(z, torch.zeros(()))), ("max", lambda z: z.max(0 * z)),
    ("abs", lambda z: z.clone().abs_()), ("relu6", torch.nn.functional.relu6),
    ("clamp", lambda z: z.clamp(min=0)), ("threshold", torch.nn.Threshold(0, 0)),
    ("tanhshrink", F.tanhshrink),
])  # fmt: skip
def test_measures_of_units_refuse_bends_that_they_would_not_see(measure, name, bend):
    x, of = grey(-1.0, 0.0, 1.0), ([1.0], [0.0], [1.0])
    with pytest.raises(ValueError, match=f"calls {name}, which this measure does not follow"):
        measure(Units(*of, activation=bend), x)
    with pytest.raises(ValueError, match="needs the points along its first axis"):
        measure(Units(*of, lambda z: z.repeat(2, 1).relu()[: len(z)]), x)
    with pytest.raises(ValueError, match="no activation was found"):
        measure(threshold(0.5), x)


@pytest.mark.parametrize("compute", [
    lambda layer: torch.nn.utils.prune.l1_unstructured(layer, "weight", amount=0.5),
    torch.nn.utils.parametrizations.spectral_norm, torch.nn.utils.parametrizations.weight_norm,
    torch.nn.utils.spectral_norm,
    pytest.param(torch.nn.utils.weight_norm, marks=pytest.mark.filterwarnings("ignore:`torch")),
])  # fmt: skip
def test_measures_of_weights_refuse_weights_that_are_computed(compute):
    network = torch.nn.Sequential(torch.nn.Flatten(), compute(torch.nn.Linear(4, 3)))
    of = {"log_spectral_product": [], "distance_from_init": [network], "log_path_norm": [grey(0.0)]}
    for name, further in of.items():
        with pytest.raises(ValueError, match=r"a weight is computed from '1\."):
            getattr(measures, name)(network, *further)


def test_rivals_of_the_second_round_draw_segments_of_their_own():
    pairs = [vertex_indices(500, num_samples=99, distinct=2, seed=k) for k in (0, measures.OWN)]
    assert set.isdisjoint(*({*map(tuple, each)} for each in pairs))


@pytest.mark.parametrize(
    "activation", [F.relu, torch.relu, F.silu, torch.nn.Softplus(), torch.nn.SiLU(True)]
)
def test_linear_pieces_and_local_complexity_of_three_units(activation):
    """Signs change at a mean grey of 0.003, 0.25 and 0.6, first near the image at 0."""
    network = Units([1.0, 1.0, -2.0], [-0.003, -0.25, 1.2], [1.0, 1.0, 1.0], activation)
    x = grey(0.0, 1.0)
    assert measures.linear_pieces(network, x) == 4
    assert measures.linear_pieces(network, grey(0.1, 0.2)) == 1
    assert measures.local_complexity(network, x, radius=0.05) == pytest.approx(1 / 6)
    assert measures.local_complexity(network, x, radius=0.001) == 0


def test_linear_pieces_are_those_of_exact_segments():
    shape = {"in_channels": 6, "image_size": 1, "widths": (8, 8)}
    network = rc.build_network("MLP", num_classes=3, seed=1, **shape)
    x = torch.randn(30, 6, generator=torch.Generator().manual_seed(0))
    pairs = vertex_indices(len(x), num_samples=10, distinct=2, seed=0)
    exact = [exact_segment(network, x[i], x[j]).num_linear_regions for i, j in pairs.tolist()]
    found = measures.linear_pieces(network, x, num_segments=10, num_points=2001)
    assert found == pytest.approx(sum(exact) / 10)


def test_jacobian_norm_of_a_softmax_regression(monkeypatch):
    monkeypatch.setattr(measures, "slices_of", lambda *_: [slice(4), slice(4, 6)])
    torch.manual_seed(0)
    network, x = torch.nn.Linear(5, 4), torch.randn(6, 5)
    p = network(x).softmax(1).detach()
    jacobians = (torch.diag_embed(p) - p[:, :, None] * p[:, None, :]) @ network.weight.detach()
    mean = float(jacobians.flatten(1).norm(dim=1).mean())
    assert measures.jacobian_norm(network, x) == pytest.approx(mean)


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_path_norm_sums_the_squares_of_all_paths_of_the_folded_network():
    first, last = torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 1)
    norm = torch.nn.BatchNorm1d(2)
    values = {
        first.weight: [[0.5, -1.0], [3.0, 0.5]],
        norm.running_mean: [2.0, 0.0], norm.running_var: [0.25 - norm.eps, 4 - norm.eps],
        norm.weight: [1.0, 2.0], norm.bias: [3.0, 2.0],
        last.weight: [[2.0, -1.0]], last.bias: [3.0],
    }  # fmt: skip
    for tensor, value in values.items():
        tensor.data.copy_(torch.tensor(value))
    # Folded, the first layer has the weights (1, -2), (3, 0.5) and the biases -1, 2.
    paths = 4 * (1 + 4 + 1) + 1 * (9 + 0.25 + 4) + 9
    network = torch.nn.Sequential(first, norm, torch.nn.SiLU(), last)
    assert measures.log_path_norm(network, torch.zeros(1, 2)) == pytest.approx(math.log(paths) / 2)
    norms = torch.nn.LayerNorm(2), torch.nn.BatchNorm1d(2, track_running_stats=False)
    attends = torch.nn.TransformerEncoderLayer(2, 1, 2, norm_first=True)
    attends.norm1 = attends.norm2 = torch.nn.Identity()
    words = r"Norm(1d)? is no affine map here|calls (tanh|multi_h.*), which|scripted"
    for other in (*norms, torch.nn.Tanh(), torch.jit.script(norm.eval()), attends):
        with pytest.raises(ValueError, match=words):
            measures.log_path_norm(torch.nn.Sequential(first, other, last), torch.zeros(1, 2))


class InPlace(torch.nn.Linear):
    """r + z with r = relu(z), z = W x, to which W r is added in place."""

    def forward(self, x):
        z = super().forward(x)
        r = F.relu(z)
        return r.add_(super().forward(r)) + z


def test_path_norm_of_a_network_that_adds_to_activations_in_place():
    """(W^2 + 2) W^2 of an image of ones, W^2 with squared entries."""
    network = InPlace(2, 2, bias=False)
    network.weight.data = torch.tensor([[1.0, 2.0], [-3.0, 1.0]])
    squared = network.weight.detach() ** 2
    paths = float(((squared + 2 * torch.eye(2)) @ squared).sum())
    assert measures.log_path_norm(network, torch.zeros(1, 2)) == pytest.approx(math.log(paths) / 2)
    network.register_forward_hook(lambda module, given, output: 1 - output)
    with pytest.raises(ValueError, match="calls rsub, which this measure does not follow"):
        measures.log_path_norm(network, torch.zeros(1, 2))


# Squeezed and gated, shuffled, pooled and plain; the others are made of the same layers.
@pytest.mark.parametrize("name", ["EfficientNetB0", "SENet18", "ShuffleNetV2", "VGG19", "MLP"])
def test_every_measure_of_a_network_is_finite_and_leaves_it_alone(name, monkeypatch):
    def of_three_segments(network, initial, data):
        return measures.linear_pieces(network, data.x_train, 3)

    monkeypatch.setattr(measures, "COUNTED_SEGMENTS", 30)
    for key in ("linear_pieces", "linear_pieces_own"):
        monkeypatch.setitem(MEASURES, key, of_three_segments)
    data = rc.load_dataset("shapes", n_train=20, n_test=10, image_size=8, seed=0)
    network, initial = (rc.build_network(name, image_size=8, width=4, seed=seed) for seed in (0, 1))
    network.train()
    before = {key: value.clone() for key, value in network.state_dict().items()}

    def score(network, initial, data):  # a reader's own, of networks that may be in training mode
        return (network(data.x_test[:]) - initial(data.x_test[:])).sum()

    monkeypatch.setitem(MEASURES, "score", score)
    values = {name: measures.measure(name, network, initial, data) for name in MEASURES}
    batch = data.x_test[:]
    own = copy.deepcopy(network).eval()(batch) - copy.deepcopy(initial).eval()(batch)
    assert values["score"] == own.sum().item()
    finite = {key: bool(np.isfinite(value).all()) for key, value in values.items()}
    assert finite == dict.fromkeys(MEASURES, True)
    assert measures.measure("gi_score_intra", network, None, data) == values["gi_score_intra"]
    assert measures.sharpness(network, data.x_train, data.y_train) == values["sharpness"]
    assert values["linear_pieces"] > 1
    assert all(module.training for each in (network, initial) for module in each.modules())
    assert all(p.grad is None and p.requires_grad for p in network.parameters())
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
