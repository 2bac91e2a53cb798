"""The training loop: repeats itself, leaves the caller alone, and says when it diverges."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import nn

from rc_utils.counting import region_count
from rc_utils.datasets import ImageTensor
from rc_utils.measures import output_margin
from rc_utils.networks import build_network
from rc_utils.training import StopTraining, TrainConfig, evaluate, train
from rc_utils.training.loop import training_layout


def small_network(seed=0):
    return build_network("ResNet18", width=4, seed=seed)


def state(network):
    return torch.cat([p.detach().flatten() for p in network.parameters()])


@pytest.mark.parametrize(
    "change", [{"mixup_alpha": 1.0, "crop_padding": 2}, {"precision": "bfloat16"}]
)
def test_same_seed_same_bits_other_seed_other_weights(tiny_data, change):
    config = TrainConfig(epochs=2, batch_size=64, **change)
    first, again = (train(small_network(), tiny_data, config) for _ in range(2))
    other = train(small_network(), tiny_data, dataclasses.replace(config, seed=1))
    assert torch.equal(state(first.network), state(again.network))
    assert not torch.equal(state(first.network), state(other.network))
    assert (first.train_loss, first.test_accuracy) == (again.train_loss, again.test_accuracy)


def test_random_state_of_the_caller_is_untouched_and_no_other_device_seeded(tiny_data, monkeypatch):
    # It draws dropout and drop-connect from torch's global state.
    network = build_network("EfficientNetB0", width=4)
    before = torch.get_rng_state()
    monkeypatch.setattr(torch, "manual_seed", lambda seed: pytest.fail("seeds every device"))
    train(network, tiny_data, TrainConfig(epochs=1), measure=print, measure_epochs=(0,))
    assert torch.equal(torch.get_rng_state(), before)


def test_convolutions_take_tf32_while_they_train_and_only_then(tiny_data, monkeypatch):
    seen, cudnn, forward = set(), torch.backends.cudnn, nn.Conv2d.forward
    note = lambda conv: seen.add(cudnn.allow_tf32) if conv.training else None  # noqa: E731
    monkeypatch.setattr(nn.Conv2d, "forward", lambda conv, x: note(conv) or forward(conv, x))
    before = cudnn.allow_tf32, cudnn.conv.fp32_precision
    for precision in ("tfloat32", "float32"):
        config = TrainConfig(epochs=2, batch_size=64, precision=precision)
        options = {"measure": lambda *_: cudnn.allow_tf32, "measure_epochs": (1,)}
        run = train(small_network(), tiny_data, config, **options)
        assert seen == {precision == "tfloat32"}
        assert run.measurements == {1: False}
        seen.clear()
    assert (cudnn.allow_tf32, cudnn.conv.fp32_precision) == before


def test_measuring_does_not_influence_the_training_and_a_copy_is_an_ordinary_network(tiny_data):
    networks = [build_network("MobileNetV2", width=4, image_size=8) for _ in range(2)]

    def measure(network, epoch):
        torch.rand(7)
        assert not network.training
        networks.append(copy.deepcopy(network))
        return epoch, evaluate(network, tiny_data.x_test, tiny_data.y_test)[1]

    config = TrainConfig(epochs=3, batch_size=64)
    plain = train(networks[0], tiny_data, config)
    measured = train(networks[1], tiny_data, config, measure=measure, measure_epochs=(0, 2, 3))
    assert torch.equal(state(plain.network), state(measured.network))
    assert list(measured.measurements) == [0, 2, 3]
    assert measured.measurements[3] == (3, measured.test_accuracy)
    assert len(networks) == 2 + 3
    assert not any("_conv_forward" in vars(m) for network in networks for m in network.modules())


@pytest.mark.parametrize("channels", [1, 4, 7, 16])
def test_strided_projections_have_their_gradient(tiny_data, channels):
    """A step of descent in float32 is that in float64, whatever the processor's kernels do."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, channels, 1), nn.ReLU(), nn.Conv2d(channels, 8, 1, 2, bias=False),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, tiny_data.num_classes),
    )  # fmt: skip
    exact = copy.deepcopy(network).double()
    n = len(tiny_data.y_train)
    config = TrainConfig(lr=1.0, batch_size=n, epochs=1, momentum=0.0, weight_decay=0.0)
    for _ in range(3):  # a heap that is damaged shows it at the next allocations
        trained = copy.deepcopy(network)
        train(trained, tiny_data, config)
    nn.functional.cross_entropy(exact(tiny_data.x_train[:n].double()), tiny_data.y_train).backward()
    for ours, other in zip(trained.parameters(), exact.parameters(), strict=True):
        atol = 1e-5 * max(1, other.grad.abs().max())
        assert torch.allclose(ours.double(), other - other.grad, rtol=0, atol=atol)


def test_a_loss_or_scores_that_are_not_finite_are_divergence(tiny_data):
    """Parameters that are finite can make scores that are not."""
    run = train(small_network(), tiny_data, TrainConfig(lr=1e30, epochs=5, momentum=0.0))
    assert run.status == "diverged"
    assert len(run.history) < 5
    network = small_network()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(1e30)
    assert train(network, tiny_data, TrainConfig(epochs=0)).status == "diverged"


def test_what_cannot_be_trained_or_measured_is_named(tiny_data):
    image = ImageTensor(tiny_data.x_train.raw[:1], [0] * 3, [1] * 3)
    one = dataclasses.replace(tiny_data, x_train=image, y_train=tiny_data.y_train[:1])
    one_class = build_network("MLP", num_classes=1, image_size=8)
    for network, data, message in (
        (one_class, tiny_data, r"MLP .* shape \(12, 1\).*expected \(12, 10\)"),
        (small_network(), one, "a single training image"),
        (nn.Flatten(), tiny_data, "no parameter to train"),
        (nn.LazyConv2d(10, 3), tiny_data, "has a lazy layer"),
        (
            small_network().double(),
            tiny_data,
            r"parameters in \{torch.float64\}; train it in float32",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            train(network, data, TrainConfig(epochs=3))
    with pytest.raises(ValueError, match=r"measure_epochs \[4\]"):
        train(small_network(), tiny_data, TrainConfig(epochs=3), measure=print, measure_epochs=(4,))


@pytest.mark.parametrize(("shape", "expected"), [((3, 32, 32), 1000), ((3, 224, 224), 20)])
def test_batches_of_large_images_are_small(shape, expected):
    sizes = []

    class Network(nn.Module):
        def forward(self, x):
            sizes.append(len(x))
            return torch.zeros(len(x), 2)

    x = torch.zeros(1, *shape).expand(expected + 1, *shape)
    y = torch.zeros(expected + 1, dtype=torch.int64)
    evaluate(Network(), x, y)
    output_margin(Network(), x, y)
    assert sizes == [expected, 1] * 2


def test_should_stop_between_epochs_alone(tiny_data):
    with pytest.raises(StopTraining, match="after epoch 1 of 2"):
        train(small_network(), tiny_data, TrainConfig(epochs=2), should_stop=lambda: True)
    run = train(small_network(), tiny_data, TrainConfig(epochs=1), should_stop=lambda: True)
    assert len(run.history) == 1


def test_evaluate_matches_the_definition(tiny_data):
    network = small_network().eval()
    with torch.no_grad():
        logits = network(tiny_data.x_test.all())
    loss, accuracy = evaluate(network.train(), tiny_data.x_test, tiny_data.y_test, batch_size=17)
    expected = float(nn.functional.cross_entropy(logits, tiny_data.y_test))
    assert loss == pytest.approx(expected, rel=1e-4)
    assert accuracy == float((logits.argmax(1) == tiny_data.y_test).double().mean())
    assert network.training


@pytest.mark.parametrize(("settings", "message"), [
    ({"optimizer": "sgdd"}, "Did you mean 'sgd'"), ({"lr": 0}, "expected a finite number above 0"),
    ({"lr": math.nan}, "finite"), ({"lr": np.float32("inf")}, "finite"),
    ({"lr": 10**400}, "finite"), ({"lr": "0.1"}, "lr='0.1'"), ({"batch_size": 0}, "batch_size=0"),
    ({"seed": -1}, "seed=-1"), ({"pretrain_epochs": 1.5}, "pretrain_epochs"),
    ({"sam_radius": -1.0}, "sam_radius"), ({"flip_probability": 1.5}, "not in"),
])  # fmt: skip
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**settings)


class Viewing(nn.Module):
    """The textbook network: it views a convolution's output as contiguous, and keeps a tensor."""

    def __init__(self, num_classes, in_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, 6, 3)
        self.pool = nn.MaxPool2d(2)
        self.last = nn.Linear(54, num_classes)

    def forward(self, x):
        if not self.training:
            Viewing.ones = torch.ones(54)  # where copies of the network find it as well
        return self.last(self.pool(torch.relu(self.conv(x))).view(-1, 54) * self.ones)


def test_a_network_that_views_its_activations_is_trained_in_the_layout_it_takes(tiny_data):
    def count(network, epoch):
        return region_count(network, tiny_data.x_train, num_samples=2, resolution=5)

    options = {"measure": count, "measure_epochs": (0,)}
    run = train(Viewing(10, 3), tiny_data, TrainConfig(epochs=1), **options)
    assert run.status == "ok"
    x, device = tiny_data.x_train, torch.device("cpu")
    assert training_layout(Viewing(10, 3), x, device) == torch.contiguous_format
    own = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 36, 10))
    before = copy.deepcopy(own.state_dict())
    state = torch.random.get_rng_state()
    assert training_layout(own, x, device) == torch.channels_last
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in own.state_dict().items())
    assert all(p.grad is None for p in own.parameters())


def test_narrow_networks_keep_the_contiguous_layout_on_several_threads(tiny_data, monkeypatch):
    """Strided 1 x 1 convolutions of 8 to 15 channels, two threads: torch 2.13 fails on AVX-512."""
    device = torch.device("cpu")
    for threads, width, layout in (
        (1, 4, torch.contiguous_format),
        (1, 8, torch.channels_last),  # how every committed record was trained
        (2, 8, torch.contiguous_format),
        (2, 16, torch.channels_last),
    ):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        network = build_network("ResNet18", width=width, image_size=8)
        assert training_layout(network, tiny_data.x_train, device) == layout, (threads, width)


def test_settings_may_be_numpys_numbers_and_a_single_leftover_image_is_skipped(tiny_data):
    numpys = {"seed": np.int64(3), "batch_size": np.int32(199), "epochs": np.int64(1)}
    numpys = TrainConfig(**numpys, lr=np.float32(1))
    assert numpys == TrainConfig(seed=3, batch_size=199, epochs=1, lr=1)
    assert repr(numpys.lr) == repr(TrainConfig(lr=1).lr) == "1.0"
    assert train(small_network(), tiny_data, numpys).status == "ok"


def test_second_derivatives_are_not_compiled(tiny_data):
    config = TrainConfig(epochs=1, gradient_penalty=0.1)
    with pytest.raises(ValueError, match=r"which torch\.compile does not: leave out one"):
        train(small_network(), tiny_data, config, compile=True)


def test_every_network_of_many_is_compiled(tiny_data, monkeypatch):
    """Torch gives up on code that it has compiled often, and layers of networks share their code.

    Each is compiled once, for whole batches alone; another network like it uses what was compiled.
    """
    graphs, compile_it = [], torch.compile

    def count(graph, inputs):
        graphs.append([len(x) for x in inputs if x.dim() == 4])
        return graph.forward

    monkeypatch.setattr(
        torch, "compile", lambda network, **how: compile_it(network, backend=count, **how)
    )
    monkeypatch.setattr(torch._dynamo.config, "recompile_limit", 2)
    for width in (4, 5, 6):
        for _ in range(2):
            network = build_network("MLP", widths=[width], image_size=8)
            train(network, tiny_data, TrainConfig(epochs=2, batch_size=64), compile=True)
        assert graphs == [[64]] * (width - 3)
