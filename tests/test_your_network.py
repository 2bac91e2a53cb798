"""A network of the reader's own: a class in the notebook, a module:Class, a registered name."""

import functools

import pytest
import torch
from torch import nn

from rc_utils import your_network
from rc_utils.correlation import correlation_table
from rc_utils.regions import region_count, sample_vertices
from rc_utils.regions.classifier import NonFiniteScores
from rc_utils.training import TrainConfig, train
from rc_utils.your_network import corner_cells, instantiate, run_small_grid


class TinyNet(nn.Module):
    def __init__(self, num_classes, in_channels, width=3):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(in_channels, width, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(width, num_classes)

    def forward(self, x):
        return self.head(self.body(x))


def test_corners_of_a_grid():
    grid = {"lr": [0.02, 0.05, 0.01], "weight_decay": [1e-5], "batch_size": [64, 32, 128], "momentum": [0.9, 0.0]}
    cells = corner_cells(grid)
    assert [(c["lr"], c["batch_size"]) for c in cells] == [(0.01, 32), (0.01, 128), (0.05, 32), (0.05, 128)]
    assert {(c["weight_decay"], c["momentum"]) for c in cells} == {(1e-5, 0.9)}
    assert corner_cells({"lr": [0.1]}) == [{"lr": 0.1}]


def test_a_class_gets_what_it_names_and_the_seed_decides_its_weights(tiny_data):
    state = torch.get_rng_state()
    first, second, other = (instantiate(TinyNet, tiny_data, width=5, seed=s) for s in (0, 0, 1))
    assert first.head.weight.shape == (10, 5)
    assert torch.equal(first.head.weight, second.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_name_and_a_class_of_the_same_network_are_trained_alike(monkeypatch, tmp_path):
    source = "from tests.test_your_network import TinyNet\n\n\nclass MyNet(TinyNet):\n    pass\n"
    (tmp_path / "my_module.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    options = {"epochs": 1, "num_samples": 10}
    named = run_small_grid("my_module:MyNet", "shapes-tiny", **options)
    direct = run_small_grid(TinyNet, "shapes-tiny", **options)
    assert named["network"].unique().tolist() == ["MyNet"]
    assert direct["network"].unique().tolist() == ["TinyNet"]
    columns = ["cell", "train_accuracy", "gap", "count"]
    assert named[columns].equals(direct[columns])
    assert len(direct) == 4
    assert correlation_table(direct, methods=["pearson"])["n_units"].tolist() == [4, 4]


def test_scores_that_are_not_finite_between_images_are_divergence(monkeypatch):
    def not_finite(*arguments):
        raise NonFiniteScores("made")

    monkeypatch.setattr(your_network, "count_regions", not_finite)
    runs = run_small_grid(TinyNet, "shapes-tiny", epochs=1, num_samples=10)
    assert set(runs["status"]) == {"diverged"}
    assert runs["count"].isna().all()


def test_the_first_segments_are_those_of_the_campaign(tiny_data):
    few, many = (sample_vertices(tiny_data.x_train, dim=1, num_samples=n, seed=0) for n in (5, 20))
    assert torch.equal(torch.as_tensor(few), torch.as_tensor(many)[:5])
    net = TinyNet(10, 3).eval()
    counts = [region_count(net, tiny_data.x_train, num_samples=n, resolution=50).counts for n in (5, 20)]
    assert counts[0].tolist() == counts[1][:5].tolist()


def test_what_is_no_network_and_what_is_no_campaign_are_named(tiny_data):
    with pytest.raises(TypeError, match="expected a class derived from"):
        instantiate(TinyNet(10, 3), tiny_data)
    with pytest.raises(ValueError, match="no experiment 'mian'"):
        run_small_grid(TinyNet, "shapes-tiny", "mian")
    with pytest.raises(ValueError, match="Did you mean 'ResNet18'"):
        your_network.instantiate("ResNet81", tiny_data)


def test_what_makes_a_network_may_be_partial_and_must_make_one(tiny_data):
    half = functools.partial(TinyNet, width=5)
    assert instantiate(half, tiny_data).head.in_features == 5
    for wrong in (TinyNet(10, 3), 3, None):
        with pytest.raises(TypeError, match="expected a class derived from"):
            run_small_grid(wrong, "shapes-tiny")
    with pytest.raises(TypeError, match="nothing made a NoneType"):
        instantiate(nothing, tiny_data)
    with pytest.raises(ValueError, match="nothing takes no width"):
        instantiate(nothing, tiny_data, width=4)
    with pytest.raises(ValueError, match="width=-3"):
        instantiate(TinyNet, tiny_data, width=-3)


def nothing(num_classes):
    return None


@pytest.mark.parametrize(
    ("make", "words"), [(nn.Flatten, "no parameter to train"), (nn.LazyConv2d, "is of a lazy layer")]
)
def test_a_network_that_cannot_be_trained_is_named(tiny_data, make, words):
    network = make(10, 3) if make is nn.LazyConv2d else make()
    with pytest.raises(ValueError, match=words):
        train(network, tiny_data, TrainConfig(epochs=1))
