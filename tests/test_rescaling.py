"""Rescaled networks are the same classifiers, to the last bit, with another distance and margin."""

import pytest
import torch
from torch import nn

from rc_studies.rescaling import random_rescaling, rescalable_layers, rescale
from rc_utils.measures import output_margin
from rc_utils.networks import build_network
from rc_utils.published import NETWORKS


@pytest.mark.parametrize("name", [*NETWORKS, "MLP"])
def test_scores_differ_by_one_power_of_two(name):
    options = {} if name == "MLP" else {"width": 4}
    network = build_network(name, num_classes=10, in_channels=3, image_size=16, seed=0, **options)
    torch.manual_seed(0)
    network.train()(torch.randn(32, 3, 16, 16))  # of which the running statistics are
    network, x = network.eval(), torch.randn(16, 3, 16, 16)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    exponents, output_exponent = random_rescaling(network, seed=3)
    with torch.no_grad():
        scores, rescaled = network(x), rescale(network, exponents, output_exponent)(x)
    assert torch.equal(rescaled, scores * 2.0**output_exponent)
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())


def test_an_up_scaled_layer_moves_the_weights_and_the_output_the_margin(tiny_data):
    network = build_network("MLP", num_classes=10, in_channels=3, image_size=8, widths=(8,), seed=0)
    rescaled = rescale(network, (3,), -2)
    assert torch.equal(rescaled.layers[1].weight, 8 * network.layers[1].weight)
    margins = [output_margin(n, tiny_data.x_train, tiny_data.y_train) for n in (network, rescaled)]
    assert margins[1] == pytest.approx(margins[0] / 4)


@pytest.mark.parametrize("twice", ["nothing", "layer", "weight"])
def test_tied_layers_are_left_as_they_are(twice):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    if twice == "layer":
        network[2] = network[0]
    elif twice == "weight":
        network[2].weight = network[0].weight
    pairs = rescalable_layers(network)
    assert len(pairs) == (2 if twice == "nothing" else 0)
    x = torch.randn(20, 4)
    assert torch.equal(rescale(network, (2,) * len(pairs), 0)(x), network(x))
