"""Networks trained side by side are the networks trained one after the other."""

import numpy as np
import pytest
import torch
from torch import nn

from rc_theory.complexity.stacked import LOSSES, draw_samples, stack, train_stacked, unstack
from rc_theory.complexity.tasks import convolutional_network, multilayer_perceptron

MODELS, POINTS = 3, 7
# float64 sums of some ten terms in another order, over a few dozen steps.
TOLERANCE = {"rtol": 1e-11, "atol": 1e-12}

# The shape of a point, and a network by its seed.
KINDS = {
    "mlp": ((5,), lambda seed: multilayer_perceptron(5, (6, 4), seed=seed, bias_range=0.2)),
    "cnn": ((2, 5, 6), lambda seed: convolutional_network((2, 5, 6), seed=seed)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("loss", "batch_size"), [("mse", 1), ("bce", 4)])
def test_training_side_by_side_is_training_one_by_one(kind, loss, batch_size):
    torch.manual_seed(0)
    shape, network_of = KINDS[kind]
    networks = [network_of(seed).double() for seed in range(MODELS)]
    x = torch.randn(MODELS, POINTS, *shape, dtype=torch.float64)
    y = torch.randint(0, 2, (MODELS, POINTS)).double()
    samples = draw_samples(range(MODELS), 25, POINTS, batch_size)
    stacked = stack(networks)
    train_stacked(stacked, x, y, samples, loss=loss, lr=0.05)
    start = networks[0][0].bias.detach().clone()
    for m, network in enumerate(networks):
        for batch in samples[:, m]:
            z, target = network(x[m, batch]).squeeze(-1), y[m, batch]
            bce = nn.functional.binary_cross_entropy_with_logits(z, target)
            error = bce if loss == "bce" else 0.5 * nn.functional.mse_loss(z, target)
            assert torch.allclose(LOSSES[loss].value(z, target).mean(), error)
            gradients = torch.autograd.grad(error, list(network.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(network.parameters(), gradients, strict=True):
                    parameter -= 0.05 * gradient
        trained = unstack(stacked, networks[0], m).state_dict()
        for name, value in network.state_dict().items():
            np.testing.assert_allclose(trained[name], value, **TOLERANCE)
    assert not torch.equal(networks[0][0].bias, start)


def test_a_confident_classifier_keeps_its_slope():
    z, y = torch.tensor([40.0, -40.0]), torch.tensor([1.0, 0.0])
    np.testing.assert_allclose(LOSSES["bce"].slope(z, y).abs(), 4.248354e-18, rtol=1e-5)
