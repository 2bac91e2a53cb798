"""Training is that of a loop of plain torch, leaves the caller alone, says when it diverges."""

import copy
import dataclasses
import functools
import math
import operator

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from rc_utils.counting.sampling import vertex_indices
from rc_utils.evaluation import full_precision
from rc_utils.measures import sharpness
from rc_utils.networks import build_network
from rc_utils.training import TrainConfig, evaluate, train
from rc_utils.training.loop import PointsBetween, random_labels, training_layout


def small_network(seed=0):
    return build_network("ResNet18", width=4, seed=seed)


def state(network):
    return torch.cat([p.detach().flatten() for p in network.parameters()])


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


def test_evaluate_matches_the_definition(tiny_data):
    network = small_network().eval()
    logits = network(tiny_data.x_test[:]).detach()
    loss, accuracy = evaluate(network.train(), tiny_data.x_test, tiny_data.y_test)
    assert loss == pytest.approx(float(F.cross_entropy(logits, tiny_data.y_test)), rel=1e-4)
    assert accuracy == float((logits.argmax(1) == tiny_data.y_test).double().mean())
    assert network.training
    network.register_forward_pre_hook(lambda module, given: (given[0].mul_(2),))
    images = tiny_data.x_test[:]
    twice = [evaluate(network, images, tiny_data.y_test) for _ in range(2)]
    assert twice[0] == twice[1]
    network.register_forward_hook(lambda module, given, z: z.squeeze())  # as some do, of one image
    assert evaluate(network, images[:1], tiny_data.y_test[:1])[0] > 0
    for number, labels in ((9, tiny_data.y_test), (0, tiny_data.y_test[:0])):
        with pytest.raises(ValueError, match=f"labels for {number} images: give one for each"):
            evaluate(network, images[:number], labels)


def test_settings_may_be_numpys_numbers_and_a_single_leftover_image_is_skipped(tiny_data):
    numpys = {"seed": np.int64(3), "batch_size": np.int32(199), "epochs": np.int64(1)}
    numpys = TrainConfig(**numpys, lr=np.float32(1))
    assert numpys == TrainConfig(seed=3, batch_size=199, epochs=1, lr=1)
    assert repr(numpys.lr) == repr(TrainConfig(lr=1).lr) == "1.0"
    assert train(small_network(), tiny_data, numpys).status == "ok"


def test_no_other_device_is_seeded_and_measuring_changes_no_training(tiny_data, monkeypatch):
    """Dropout and drop-connect are drawn from torch's global state, which is left as it was."""
    monkeypatch.setattr(torch, "manual_seed", lambda seed: pytest.fail("seeds every device"))
    networks = [build_network("EfficientNetB0", width=4) for _ in range(2)]

    def measure(network, epoch):
        torch.rand(7)
        assert not network.training
        return epoch, evaluate(network, tiny_data.x_test, tiny_data.y_test)[1]

    before = torch.get_rng_state()
    config = TrainConfig(epochs=2, batch_size=64)
    plain = train(networks[0], tiny_data, config)
    with torch.autocast("cpu"):  # nor does this
        measured = train(networks[1], tiny_data, config, measure=measure, measure_epochs=(0, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(state(plain.network), state(measured.network))
    assert list(measured.measurements) == [0, 2]
    assert measured.measurements[2] == (2, measured.test_accuracy)


def test_a_loss_or_scores_that_are_not_finite_are_divergence(tiny_data):
    """Finite parameters can make scores that are not, and some that are not show in no score."""
    run = train(small_network(), tiny_data, TrainConfig(lr=1e30, epochs=5, momentum=0.0))
    assert run.status == "diverged"
    network = small_network()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(1e30)
    assert train(network, tiny_data, TrainConfig(epochs=0)).status == "diverged"
    for spare, status in ((1.0, "ok"), (math.nan, "diverged")):
        network = small_network()
        network.spare = nn.Parameter(torch.tensor([0.0, spare]))
        assert train(network, tiny_data, TrainConfig(epochs=1)).status == status


def test_convolutions_take_tf32_while_they_train_and_only_then(tiny_data, monkeypatch):
    seen, cudnn, forward = set(), torch.backends.cudnn, nn.Conv2d.forward
    note = lambda conv: seen.add(cudnn.allow_tf32) if conv.training else None  # noqa: E731
    monkeypatch.setattr(nn.Conv2d, "forward", lambda conv, x: note(conv) or forward(conv, x))
    before = cudnn.allow_tf32, cudnn.conv.fp32_precision
    for precision in ("tfloat32", "float32"):
        train(small_network(), tiny_data, TrainConfig(epochs=1, precision=precision))
        assert seen == {precision == "tfloat32"}
        seen.clear()
    assert (cudnn.allow_tf32, cudnn.conv.fp32_precision) == before


def test_every_operation_has_full_precision_while_it_is_evaluated():
    names = ("cuda.matmul", "cudnn.conv", "cudnn.rnn", "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn")
    operations = [operator.attrgetter(name)(torch.backends) for name in names]
    for operation in operations:
        own = operation.fp32_precision
        operation.fp32_precision = "tf32"
        before = [op.fp32_precision for op in operations]
        with full_precision():
            inside = {op.fp32_precision for op in operations}
        after = [op.fp32_precision for op in operations]
        operation.fp32_precision = own
        assert (inside, after) == ({"ieee"}, before)


def test_what_cannot_be_trained_is_named(tiny_data):
    one_class = build_network("MLP", num_classes=1, image_size=8)
    twice = build_network("MLP", image_size=8)
    twice.register_forward_hook(lambda module, x, y: (y, y) if module.training else y)
    for network, message in (
        (twice, "in training mode the network returns tuple; expected scores"),
        (one_class, r"MLP .* shape \(1,\) for each image; expected \(10,\)"),
        (nn.Sequential(build_network("MLP", image_size=8), nn.Softmax(1)), "give the logits"),
        (nn.LazyConv2d(10, 3), "uninitialized parameter"),
    ):
        with pytest.raises(ValueError, match=message):
            train(network, tiny_data, TrainConfig(epochs=3))
    gated = nn.Sequential(build_network("MLP", image_size=8), nn.Sigmoid())
    with pytest.warns(UserWarning, match="between 0 and 1: are they sigmoids"):
        train(gated, tiny_data, TrainConfig(epochs=1))
    network = build_network("MLP", image_size=8)
    with pytest.raises(ValueError, match=r"measure_epochs \[4\] are not within 0..3"):
        train(network, tiny_data, TrainConfig(epochs=3), measure_epochs=iter([0, 4]))
    with pytest.raises(ValueError, match=r"measure_epochs=1.5; expected an integer"):
        train(network, tiny_data, TrainConfig(epochs=3), measure_epochs=[1.5])
    for changes, message in (
        ({"y_test": tiny_data.y_test[:0]}, "there are no test images"),
        ({"y_test": tiny_data.y_test[:9]}, "9 labels for 100 images"),
        ({"y_train": tiny_data.y_train - 100}, "labels from -100 to"),
        ({"x_test": tiny_data.x_test[:] * torch.nan}, "images hold NaN or infinity"),
    ):
        with pytest.raises(ValueError, match=message):
            train(network, dataclasses.replace(tiny_data, **changes), TrainConfig(epochs=3))


class Viewing(nn.Module):
    """In training views a convolution's output as if it were contiguous, as textbooks do."""

    def forward(self, x):
        return x.view(len(x), -1) if self.training else x


def test_a_network_is_trained_in_the_layout_it_takes(tiny_data, monkeypatch):
    """Strided 1 x 1 convolutions of 8 to 15 channels, two threads: torch 2.13 fails on AVX-512."""
    own = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 36, 10))
    viewing = copy.deepcopy(own).insert(2, Viewing())
    assert train(viewing, tiny_data, TrainConfig(epochs=1)).status == "ok"
    before = copy.deepcopy(own.state_dict())
    for threads, network, layout in (
        (1, viewing, torch.contiguous_format),
        (1, own, torch.channels_last),
        (1, small_network(), torch.contiguous_format),
        (1, build_network("ResNet18", width=8), torch.channels_last),  # as committed records
        (2, build_network("ResNet18", width=8), torch.contiguous_format),
        (2, build_network("ResNet18", width=16), torch.channels_last),
    ):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found = training_layout(network, tiny_data.x_train, torch.device("cpu"))
        assert found == layout, (threads, network)
    assert all(torch.equal(value, before[name]) for name, value in own.state_dict().items())


def test_a_compiled_network_is_trained_as_it_is(tiny_data, monkeypatch):
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    config = TrainConfig(epochs=1, batch_size=64)
    plain = train(small_network(), tiny_data, config)
    compiled = train(small_network(), tiny_data, config, compile=True)
    assert torch.allclose(state(plain.network), state(compiled.network), atol=1e-6)


ALL = {"crop_padding": 1, "flip_probability": 0.3, "mixup_alpha": 2.0}
CASES = [ALL | {"optimizer": "sgd", "schedule": schedule} for schedule in ("cosine", "constant")]
CASES += [ALL | {"optimizer": name, "momentum": 0.9} for name in ("adam", "adagrad")]
CASES += [{}, {"mixup_alpha": 0.3}, {"crop_padding": 2}, {"flip_probability": 0.5}]
# The last batch of 200 images is smaller, so that means over batches are none over images.
CONFIG = TrainConfig(lr=0.02, batch_size=48, weight_decay=1e-2, epochs=2, seed=5, momentum=0.8)


def network_of(double=lambda x: 2 * x):
    """A network that doubles its images first: train's own does so in place, a plain one's not."""
    network = build_network("MLP", widths=[16], image_size=8, seed=1)
    network.register_forward_pre_hook(lambda module, given: double(given[0]))
    return network


def cropped(image, padding, top, left, flip):
    """One image (C, H, W) after a border of zeros, a crop from (top, left), and a flip."""
    height, width = image.shape[1:]
    image = F.pad(image, [padding] * 4)[:, top : top + height, left : left + width]
    return image.flip(-1) if flip else image


def plain_batch(data, batch, config, rng):
    """What a network should see of a batch, one by one, of random numbers drawn as `train` does."""
    raw = data.x_train.raw[batch]
    if config.crop_padding or config.flip_probability:
        shifts = rng.integers(0, 2 * config.crop_padding + 1, size=(2, len(batch), 1))
        flips = rng.random(len(batch)) < config.flip_probability
        raw = torch.stack([
            cropped(image, config.crop_padding, top, left, flip)
            for image, (top,), (left,), flip in zip(raw, *shifts, flips, strict=True)
        ])  # fmt: skip
    mean, std = data.x_train.mean.view(3, 1, 1), data.x_train.std.view(3, 1, 1)
    x, y = (raw.float() - mean) / std, data.y_train[batch]
    weight = float(rng.beta(config.mixup_alpha, config.mixup_alpha)) if config.mixup_alpha else 1.0
    partner = rng.permutation(len(y)) if config.mixup_alpha else np.arange(len(y))
    return weight * x + (1 - weight) * x[partner], y, y[partner], weight


def plain_training(network, data, config, backward=None):
    """Trains the network; returns epoch, learning rate, loss and accuracy of every epoch.

    backward: called with the images and labels of a batch, in the place of the gradient of their
        loss.
    """
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad}
    momentum = {"momentum": config.momentum} if config.optimizer == "sgd" else {}
    options = {"lr": 1.0, "weight_decay": config.weight_decay} | momentum
    optimizer = kinds[config.optimizer](network.parameters(), **options)
    rng, history = np.random.default_rng(config.seed), []
    for epoch in range(config.epochs):
        cosine = (1 + math.cos(math.pi * epoch / config.epochs)) / 2
        lr = config.lr * (cosine if config.schedule == "cosine" else 1.0)
        optimizer.param_groups[0]["lr"] = lr
        losses, hits = [], 0
        for batch in torch.from_numpy(rng.permutation(len(data.y_train))).split(config.batch_size):
            x, y, y_other, weight = plain_batch(data, batch, config, rng)
            logits = network(x)
            each = F.cross_entropy(logits, y, reduction="none")
            each = weight * each + (1 - weight) * F.cross_entropy(logits, y_other, reduction="none")
            optimizer.zero_grad()
            if backward is None:
                each.mean().backward()
            else:
                backward(x, y)
            optimizer.step()
            losses += each.tolist()
            hits += int((logits.argmax(1) == y).sum())
        history.append((epoch + 1, lr, np.mean(losses), hits / len(losses)))
    return history


def assert_trained_as(plain, data, config, backward=None, atol=1e-6):
    """`train` ends with the weights of the plain loop, and tells the same of every epoch.

    It tells of the images' own loss, whatever `backward` adds to it. Returns its result.
    """
    expected = plain_training(plain, data, config, backward)
    ours = network_of(lambda x: x.mul_(2))
    run = train(ours, data, config)
    assert run.network is ours
    for one, other in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=atol)
    names = ("epoch", "lr", "train_loss", "train_accuracy")
    history = [[row[name] for name in names] for row in run.history]
    np.testing.assert_allclose(history, expected, rtol=10 * atol)
    return run


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_training_equals_a_plain_loop(tiny_data, settings):
    run = assert_trained_as(network_of(), tiny_data, dataclasses.replace(CONFIG, **settings))
    own = evaluate(run.network, tiny_data.x_train, tiny_data.y_train)
    assert (run.train_loss, run.train_accuracy) == pytest.approx(own)
    assert run.gap == run.train_accuracy - run.test_accuracy


def test_sharpness_aware_steps_take_the_gradient_where_the_loss_is_larger(tiny_data):
    config, plain = dataclasses.replace(CONFIG, sam_radius=0.3), network_of()

    def step(x, y):
        before = copy.deepcopy(plain.state_dict())
        F.cross_entropy(plain(x), y).backward()
        norm = torch.sqrt(sum((p.grad**2).sum() for p in plain.parameters()))
        with torch.no_grad():
            for p in plain.parameters():
                p.add_(0.3 * p.grad / norm)
        plain.zero_grad()
        F.cross_entropy(plain(x), y).backward()
        with torch.no_grad():
            for name, p in plain.named_parameters():
                p.copy_(before[name])

    assert_trained_as(plain, tiny_data, config, step)


def test_gradient_penalty_is_added_to_the_loss(tiny_data):
    config, plain = dataclasses.replace(CONFIG, gradient_penalty=0.2), network_of()

    def step(x, y):
        x = x.clone().requires_grad_()
        norms = []
        for image, label in zip(x, y, strict=True):
            loss = F.cross_entropy(plain(image[None]), label[None])
            norms.append(torch.autograd.grad(loss, image, create_graph=True)[0].square().sum())
        (F.cross_entropy(plain(x), y) + 0.2 * torch.stack(norms).mean()).backward()

    assert_trained_as(plain, tiny_data, config, step, atol=1e-5)


class Attention(torch.nn.Linear):
    """Mean of the attention between rows W x of pixels, by torch's kernel."""

    def forward(self, x):
        z = super().forward(x)
        return F.scaled_dot_product_attention(z, z, z).mean((1, 2))


def test_attention_is_differentiated_twice_by_the_penalty_and_the_sharpness(tiny_data):
    torch.manual_seed(0)
    network, config = Attention(8, 10), dataclasses.replace(CONFIG, gradient_penalty=0.2)
    assert train(network, tiny_data, config).status == "ok"
    assert sharpness(network, tiny_data.x_train[:50], tiny_data.y_train[:50]) > 0


def test_random_labels_know_nothing_of_the_true_ones_and_come_first(tiny_data):
    config, plain = dataclasses.replace(CONFIG, pretrain_epochs=3), network_of()
    labels = random_labels(config, tiny_data)
    again = random_labels(CONFIG, tiny_data).tolist()
    assert (again, again[:4], {*again}) == (labels.tolist(), [1, 7, 7, 4], {*range(10)})
    assert 0.02 < (labels == tiny_data.y_train).float().mean() < 0.2
    noise = dataclasses.replace(tiny_data, y_train=labels)
    # Of a constant rate, and with an optimiser that is forgotten.
    plain_training(plain, noise, dataclasses.replace(CONFIG, epochs=3, schedule="constant"))
    assert_trained_as(plain, tiny_data, config)


@pytest.mark.parametrize("kind", ["nearer", "third"])
def test_points_between_lie_on_pairs_that_are_not_counted(tiny_data, kind):
    config = dataclasses.replace(CONFIG, between_share=2.0, between_labels=kind)
    between = PointsBetween(config, tiny_data)
    pairs, labels = between.pairs, tiny_data.y_train[between.pairs]
    counted = vertex_indices(200, num_samples=1000, distinct=2, seed=0).tolist()
    assert (len(pairs), pairs[0].tolist()) == (400, [47, 86])  # as committed records
    assert not {*map(frozenset, counted)} & {*map(frozenset, pairs.tolist())}
    between.next(390)
    x, y = between.next(20)  # goes round
    assert torch.equal(y, torch.cat([between.y[390:], between.y[:10]]))
    first, second = tiny_data.x_train[pairs[399, :1]], tiny_data.x_train[pairs[399, 1:]]
    alpha = float(between.alpha[399])
    assert torch.allclose(x[9:10], (1 - alpha) * first + alpha * second, atol=1e-6)
    if kind == "third":
        assert (between.alpha == 0.5).all()
        assert not (labels == between.y[:, None]).any()
        assert len(between.y.unique()) == 10
    else:
        nearer = torch.where(between.alpha.flatten() < 0.5, labels[:, 0], labels[:, 1])
        assert torch.equal(between.y, nearer)
        assert between.alpha.min() < 0.05 < 0.95 < between.alpha.max()


def test_points_between_are_trained_on_with_the_images(tiny_data):
    config = dataclasses.replace(CONFIG, between_share=0.25, between_labels="third")
    plain, between = network_of(), PointsBetween(config, tiny_data)

    def step(x, y):
        x_between, y_between = between.next(round(0.25 * len(y)))
        own = F.cross_entropy(plain(x), y, reduction="sum")
        ((own + F.cross_entropy(plain(x_between), y_between, reduction="sum")) / len(y)).backward()

    assert_trained_as(plain, tiny_data, config, step)
