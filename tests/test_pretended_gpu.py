"""GPU paths on any machine: no tensor of the CPU meets one of the card; results are the CPU's."""

import copy

import numpy as np
import pytest
import torch
from pretended_gpu import Pretended, pretended_gpu

import rc_utils as rc
from rc_exact import exact_segment
from rc_utils import measures
from rc_utils.measures import MEASURES, linear_pieces, measure


@pytest.fixture(scope="module")
def data():
    return rc.load_dataset("shapes", n_train=24, n_test=20, image_size=8, seed=0)


def network_of(name="ResNet18", width=4):
    torch.manual_seed(0)
    return rc.build_network(name, num_classes=10, in_channels=3, width=width)


def test_a_card_refuses_tensors_of_the_cpu_and_numpy():
    with pretended_gpu():
        here, there = torch.ones(3), torch.ones(3, device="cuda")
        assert isinstance(2 * there + torch.tensor(1.0), Pretended)
        assert there.cpu()[torch.tensor([0, 1])].tolist() == [1, 1]
        for operation in (lambda: here + there, lambda: here[there.long()], there.numpy):
            with pytest.raises((RuntimeError, TypeError), match=r"same device|numpy"):
                operation()


def test_exact_segments_and_measures_are_those_of_the_cpu(data, monkeypatch):
    monkeypatch.setattr(measures, "COUNTED_SEGMENTS", 20)
    monkeypatch.setattr(measures, "INTRA_SEGMENTS", 20)
    of_two_segments = lambda network, initial, data: linear_pieces(network, data.x_train, 2)  # noqa: E731
    monkeypatch.setitem(MEASURES, "linear_pieces", of_two_segments)

    def results(device):
        network, there = network_of().to(device).eval(), data.to(device)
        first, second = there.x_train[:2]
        torch.manual_seed(0)
        layers = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()
        last = torch.nn.Flatten(), torch.nn.Linear(144, 10)
        measured = torch.nn.Sequential(*layers, *last).to(device).eval()
        given = measured, copy.deepcopy(measured), there
        values = {name: measure(name, *given) for name in MEASURES}
        return exact_segment(network, first, second).boundaries, values

    boundaries, values = results("cpu")
    with pretended_gpu():
        on_card, values_on_card = results("cuda")
    np.testing.assert_allclose(on_card, boundaries, atol=1e-6)
    for name, value in values.items():
        assert values_on_card[name] == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize(("name", "options"), [
    ("ResNet18", {"mixup_alpha": 1.0, "crop_padding": 2, "flip_probability": 0.5}),
    ("ResNet18", {"optimizer": "adam", "precision": "tfloat32"}),
    ("VGG19", {"optimizer": "adagrad", "precision": "bfloat16"}),
    ("EfficientNetB0", {"batch_size": 24}), ("SimpleDLA", {"batch_size": 24}),
])  # fmt: skip
def test_training_is_that_of_the_cpu_and_leaves_the_random_state_alone(data, name, options):
    config = rc.TrainConfig(**{"lr": 0.01, "batch_size": 8, "epochs": 1, "seed": 1} | options)
    # Wide enough for the CPU, which stands for the card, to be right in that one's layout.
    on_cpu = rc.train(network_of(name, 16), data, config)
    with pretended_gpu():
        before = torch.cuda.get_rng_state()
        on_card = rc.train(network_of(name, 16), data, config, device="cuda")
        assert torch.equal(torch.cuda.get_rng_state(), before)
        weights = list(on_card.network.parameters())
        assert all(isinstance(p, Pretended) and p.is_contiguous() for p in weights)
    assert on_card.status == on_cpu.status == "ok"
    if name == "ResNet18":  # the others draw dropout on the card
        assert on_card.train_loss == pytest.approx(on_cpu.train_loss, rel=0.1)


@pytest.mark.parametrize("options", [
    {"dim": 1}, {"dim": 2, "resolution": 10}, {"dim": 3, "resolution": 6},
    {"dim": 2, "strategy": "adaptive", "resolution": 10},
    {"dim": 1, "sampling": "random_direction", "strategy": "adaptive"},
], ids=str)  # fmt: skip
def test_counts_are_those_of_the_cpu(data, options):
    options = {"num_samples": 6, "seed": 0} | options
    expected = rc.region_count(network_of().eval(), data.x_train, **options).counts
    with pretended_gpu():
        network = network_of().to("cuda").eval()
        for points in (data.x_train, data.to("cuda").x_train):
            assert rc.region_count(network, points, **options).counts.tolist() == expected.tolist()
