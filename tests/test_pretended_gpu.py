"""GPU paths on any machine: no tensor of the CPU meets one of the card; results are the CPU's."""

import datetime

import numpy as np
import pytest
import torch
from pretended_gpu import Pretended, pretended_gpu

import rc_utils as rc
from rc_exact import exact_segment
from rc_utils import measures
from rc_utils.measures import MEASURES, linear_pieces, measure
from rc_utils.provenance import git_revision, provenance


@pytest.fixture
def card():
    with pretended_gpu():
        yield "cuda"


@pytest.fixture(scope="module")
def data():
    return rc.load_dataset("shapes", n_train=24, n_test=20, image_size=8, seed=0)


def network_of(name="ResNet18"):
    torch.manual_seed(0)
    return rc.build_network(name, num_classes=10, in_channels=3, width=4)


def test_a_card_refuses_tensors_of_the_cpu_and_numpy(card):
    here, there = torch.ones(3), torch.ones(3, device=card)
    assert there.device == torch.device("cuda:0")
    assert isinstance(2 * there + torch.tensor(1.0), Pretended)
    assert there[torch.tensor([0, 1])].tolist() == [1, 1]
    for operation in (
        lambda: here + there,
        lambda: here[there.long()],
        lambda: there.index_fill(0, here.long(), 1),
    ):
        with pytest.raises(RuntimeError, match="same device"):
            operation()
    with pytest.raises(TypeError, match="numpy"):
        np.asarray(there)
    assert np.asarray(there.cpu()).tolist() == [1, 1, 1]


def trained_on(device, data, name="ResNet18", **options):
    config = rc.TrainConfig(**{"lr": 0.01, "batch_size": 8, "epochs": 1, "seed": 1} | options)
    return rc.train(network_of(name), data, config, device=device)


@pytest.mark.parametrize(
    "options",
    [
        {"mixup_alpha": 1.0, "crop_padding": 2, "flip_probability": 0.5, "precision": "tfloat32"},
        {"optimizer": "adam", "schedule": "constant"},
        {"optimizer": "adagrad", "precision": "bfloat16"},
    ],
    ids=["augmented", "adam", "adagrad"],
)
def test_training_is_that_of_the_cpu_and_leaves_the_random_state_alone(data, options):
    on_cpu = trained_on("cpu", data, **options)
    with pretended_gpu():
        before = torch.cuda.get_rng_state()
        on_card = trained_on("cuda", data, **options)
        assert torch.equal(torch.cuda.get_rng_state(), before)
        weights = list(on_card.network.parameters())
        assert all(isinstance(p, Pretended) and p.is_contiguous() for p in weights)
    assert on_card.status == on_cpu.status == "ok"
    assert on_card.train_loss == pytest.approx(on_cpu.train_loss, rel=0.1)


@pytest.mark.parametrize(
    ("precision", "layout"), [("float32", "contiguous_format"), ("bfloat16", "channels_last")]
)
def test_tensor_cores_get_channels_last_in_one_copy(card, data, monkeypatch, precision, layout):
    seen, copies, there = [], [], data.to(card)
    forward, from_numpy = torch.nn.Conv2d.forward, torch.from_numpy
    monkeypatch.setattr(
        torch.nn.Conv2d,
        "forward",
        lambda conv, x: seen.append((conv.training, x)) or forward(conv, x),
    )
    monkeypatch.setattr(
        torch, "from_numpy", lambda array: copies.append(array) or from_numpy(array)
    )
    trained_on(card, there, precision=precision, crop_padding=1, mixup_alpha=1.0, epochs=2)
    images = [x for training, x in seen if training and x.shape[1] == 3]
    assert [x.is_contiguous(memory_format=getattr(torch, layout)) for x in images] == [True] * 2 * 3
    assert len(copies) == 2


def test_a_record_says_cuda_and_the_revision_that_it_is_told(card, data, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91000)
    monkeypatch.setenv("RC_REVISION", "abc")
    assert git_revision.__wrapped__() == "abc"
    versions = provenance(data, card, datetime.datetime.now(datetime.UTC), 1.0, {})["versions"]
    assert (versions["cuda"], versions["cudnn"]) == (torch.version.cuda, 91000)


@pytest.mark.parametrize("name", ["VGG19", "EfficientNetB0", "ShuffleNetV2", "SimpleDLA"])
def test_other_families_train_on_a_card(card, data, name):
    assert trained_on(card, data, name, batch_size=24).status == "ok"


@pytest.mark.parametrize(
    "options",
    [
        {"dim": 1},
        {"dim": 2, "resolution": 10},
        {"dim": 3, "resolution": 6},
        {"dim": 2, "strategy": "adaptive", "resolution": 10},
        {"dim": 1, "sampling": "random_direction", "strategy": "adaptive"},
    ],
    ids=str,
)
def test_counts_are_those_of_the_cpu(data, options):
    options = {"num_samples": 6, "seed": 0} | options
    expected = rc.region_count(network_of().eval(), data.x_train, **options).counts
    with pretended_gpu():
        network = network_of().to("cuda").eval()
        for points in (data.x_train, data.to("cuda").x_train):
            assert rc.region_count(network, points, **options).counts.tolist() == expected.tolist()


def test_components_of_labels_on_a_card_are_counted_and_come_back_there(card):
    labels = np.random.default_rng(0).integers(-1, 3, size=(5, 8, 8))
    counts = rc.count_components(torch.as_tensor(labels).to(card))
    assert counts.device.type == "cuda"
    assert counts.tolist() == rc.count_components(labels).tolist()


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
        values = {name: measure(name, measured, measured, there) for name in MEASURES}
        return exact_segment(network, first, second).boundaries, values

    boundaries, values = results("cpu")
    with pretended_gpu():
        on_card, values_on_card = results("cuda")
    np.testing.assert_allclose(on_card, boundaries, atol=1e-6)
    for name, value in values.items():
        assert values_on_card[name] == pytest.approx(value, rel=1e-4)
