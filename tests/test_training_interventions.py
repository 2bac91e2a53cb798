"""Interventions in training: each equals a loop of plain torch, and each is off by default."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_training_plain import assert_trained_as, network_of

from rc_utils.counting.sampling import vertex_indices
from rc_utils.training import TrainConfig
from rc_utils.training.augmentation import points_between, random_labels

CONFIG = TrainConfig(lr=0.05, batch_size=32, epochs=2, seed=3)


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


def test_random_labels_know_nothing_of_the_true_ones_and_come_first(tiny_data):
    config, plain = dataclasses.replace(CONFIG, pretrain_epochs=3), network_of()
    labels = random_labels(config, tiny_data)
    assert torch.equal(labels, random_labels(CONFIG, tiny_data))
    assert 0.02 < (labels == tiny_data.y_train).float().mean() < 0.2
    assert set(labels.tolist()) == set(range(10))
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-5)
    rng = np.random.default_rng(3)
    for _ in range(3):  # with an optimiser that is forgotten
        for batch in torch.from_numpy(rng.permutation(len(labels))).split(32):
            optimizer.zero_grad()
            F.cross_entropy(plain(tiny_data.x_train[batch]), labels[batch]).backward()
            optimizer.step()
    assert_trained_as(plain, tiny_data, config)


@pytest.mark.parametrize("kind", ["nearer", "third"])
def test_points_between_lie_on_pairs_that_are_not_counted(tiny_data, kind):
    config = dataclasses.replace(CONFIG, between_share=2.0, between_labels=kind)
    between = points_between(config, tiny_data)
    pairs, labels = between.pairs, tiny_data.y_train[between.pairs]
    drawn = vertex_indices(200, num_samples=1000, distinct=2, seed=0).tolist()
    counted = {frozenset(pair) for pair in drawn}
    assert len(pairs) == 400
    assert not counted & {frozenset(pair) for pair in pairs.tolist()}
    x, y = between.batch(tiny_data.x_train, 390, 20)  # goes round
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
    plain = network_of()
    between, place = points_between(config, tiny_data), 0

    def step(x, y):
        nonlocal place
        number = round(0.25 * len(y))
        x_between, y_between = between.batch(tiny_data.x_train, place, number)
        place += number
        own = F.cross_entropy(plain(x), y, reduction="sum")
        ((own + F.cross_entropy(plain(x_between), y_between, reduction="sum")) / len(y)).backward()

    assert_trained_as(plain, tiny_data, config, step)
