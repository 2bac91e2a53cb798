"""Training equals a loop of plain torch: optimisers, schedules, augmentation, interventions."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from rc_utils.counting.sampling import vertex_indices
from rc_utils.measures import sharpness
from rc_utils.networks import build_network
from rc_utils.training import TrainConfig, evaluate, train
from rc_utils.training.loop import PointsBetween, random_labels

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
    network = Attention(8, 10)
    config = dataclasses.replace(CONFIG, gradient_penalty=0.2)
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
