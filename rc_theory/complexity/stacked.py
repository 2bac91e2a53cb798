"""Many small networks trained side by side: parameters have a leading axis of models.

A step of SGD on one sample costs far less arithmetic than it costs calls; M models in one batched
matrix product cost hardly more calls than one model. `stack` takes ordinary networks, `sgd_steps`
trains them, `unstack` gives them back.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rc_utils.counting.evaluation import full_precision


class IdentityLayer(nn.Module):
    """x -> x + b, with a bias that no two inputs share (Loukas Sec. 6).

    `shape` is that of a sample; input and output (N, *shape). The bias starts uniform in
    ±1/sqrt(inputs), as that of a linear layer does.
    """

    def __init__(self, *shape: int):
        super().__init__()
        bound = float(np.prod(shape)) ** -0.5
        self.bias = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias


class StackedIdentity(nn.Module):
    """`IdentityLayer` of M models: (M, B, *shape) -> (M, B, *shape)."""

    def __init__(self, layers: Sequence[IdentityLayer]):
        super().__init__()
        self.bias = _stacked(layers, "bias")

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias.unsqueeze(1)


class StackedLinear(nn.Module):
    """`nn.Linear` of M models, one batched matrix product: (M, B, in) -> (M, B, out)."""

    def __init__(self, layers: Sequence[nn.Linear]):
        super().__init__()
        self.weight, self.bias = _stacked(layers, "weight"), _stacked(layers, "bias")

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias.unsqueeze(1), x, self.weight.mT)


class StackedConv2d(nn.Module):
    """`nn.Conv2d` of M models as one of M groups: (M, B, C, H, W) -> (M, B, O, H', W')."""

    def __init__(self, layers: Sequence[nn.Conv2d]):
        super().__init__()
        self.weight, self.bias = _stacked(layers, "weight"), _stacked(layers, "bias")
        self.stride, self.padding = layers[0].stride, layers[0].padding

    def forward(self, x: Tensor) -> Tensor:
        models = len(x)
        x, weight = x.transpose(0, 1).flatten(1, 2), self.weight.flatten(0, 1)
        out = F.conv2d(x, weight, self.bias.flatten(), self.stride, self.padding, groups=models)
        return out.unflatten(1, (models, -1)).transpose(0, 1)


def _stacked(layers, name):
    return nn.Parameter(torch.stack([getattr(layer, name).detach() for layer in layers]))


# What takes the place of M layers of a kind.
_STACKED = {
    IdentityLayer: StackedIdentity,
    nn.Linear: StackedLinear,
    nn.Conv2d: StackedConv2d,
    nn.ReLU: lambda layers: nn.ReLU(),
    nn.Dropout: lambda layers: nn.Dropout(layers[0].p),
    nn.Flatten: lambda layers: nn.Flatten(2),
}


def stack(networks: Sequence[nn.Sequential]) -> nn.Sequential:
    """M equal networks (`nn.Sequential`) as one, (M, B, *shape) -> (M, B, outputs).

    Layers: IdentityLayer, Linear and Conv2d with biases, ReLU, Dropout and Flatten(1).
    """
    return nn.Sequential(
        *(_STACKED[type(layers[0])](layers) for layers in zip(*networks, strict=True))
    )


def unstack(stacked: nn.Sequential, template: nn.Sequential, index: int) -> nn.Sequential:
    """Model `index` of a stack as an ordinary network: a copy of `template` with its weights."""
    network = copy.deepcopy(template).to(next(stacked.parameters()))
    network.load_state_dict({name: value[index] for name, value in stacked.state_dict().items()})
    return network


@dataclass(frozen=True)
class Loss:
    """Elementwise loss of the last layer's input z and the target y; the output is f = rho_d(z).

    The loss's derivative with respect to f is slope / output_slope.
    """

    value: Callable[[Tensor, Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor]  # d loss / d z
    output_slope: Callable[[Tensor], Tensor]  # d f / d z


def _signed_sigmoid(z, y):
    # sigmoid(z) - y for y in {0, 1}, without cancellation where they are almost equal.
    sign = 1 - 2 * y
    return sign * torch.sigmoid(sign * z)


LOSSES = {
    # Squared error (f - y)^2 / 2 with f = z, for regression (Loukas Sec. 4.1).
    "mse": Loss(lambda z, y: (z - y).square() / 2, lambda z, y: z - y, torch.ones_like),
    # Binary cross-entropy with f = sigmoid(z), y in {0, 1}.
    "bce": Loss(
        lambda z, y: F.softplus((1 - 2 * y) * z),
        _signed_sigmoid,
        lambda z: torch.sigmoid(z) * torch.sigmoid(-z),
    ),
}


@dataclass(frozen=True)
class Step:
    """One step of SGD of M models, before it is applied; B is the batch size."""

    z: Tensor  # (M, B), the last layer's input
    slope: Tensor  # (M, B), the derivative of the loss with respect to it
    # {name: (M, ...)} of each model's mean loss over its batch, for every named parameter but the
    # weights of linear layers: those change in place by products that are never formed.
    gradients: dict[str, Tensor]
    input_gradients: Tensor  # (M, B, *shape), of the same mean losses with respect to the samples


def draw_samples(
    seeds: Sequence[int], num_steps: int, num_points: int, batch_size: int = 1
) -> Tensor:
    """Indices (num_steps, M, B) drawn with replacement; equal seeds see equal samples."""
    shape = (num_steps, batch_size)
    drawn = {
        seed: np.random.default_rng([seed, 77]).integers(0, num_points, shape)
        for seed in set(seeds)
    }
    return torch.from_numpy(np.stack([drawn[seed] for seed in seeds], axis=1))


def sgd_steps(
    networks: nn.Sequential, x: Tensor, y: Tensor, samples: Tensor, *, loss: str, lr: float
) -> Iterator[Step]:
    """Train a stack in place by plain SGD; yields every `Step` before it is applied.

    networks: a stack of M with one output. x: (M, N, *shape), a data set for each model, or (1, N,
    *shape), one for all. y: (M, N). samples: indices (T, M, B) of the batch of each step. loss: of
    LOSSES. The iterator must be exhausted: a step is applied when the next one is asked for.
    """
    models = len(y)
    weights = [layer.weight for layer in networks if isinstance(layer, StackedLinear)]
    others = {
        name: p
        for name, p in networks.named_parameters()
        if not any(p is weight for weight in weights)
    }
    samples, rows = samples.to(y.device), torch.arange(models, device=y.device).unsqueeze(1)
    x_rows = rows if len(x) == models else torch.zeros_like(rows)
    for batch in samples:
        inputs, targets = x[x_rows, batch].requires_grad_(), y[rows, batch]
        z, linear = _forward(networks, inputs)
        slope = LOSSES[loss].slope(z.detach(), targets)
        wanted = [*others.values(), *(out for _, out in linear), inputs]
        gradients = torch.autograd.grad(z, wanted, slope / batch.shape[1])
        of_others, of_outs = gradients[: len(others)], gradients[len(others) : -1]
        yield Step(z.detach(), slope, dict(zip(others, of_others, strict=True)), gradients[-1])
        with torch.no_grad():
            for parameter, gradient in zip(others.values(), of_others, strict=True):
                parameter.add_(gradient, alpha=-lr)
            for weight, (seen, _), gradient in zip(weights, linear, of_outs, strict=True):
                _descend(weight, seen, gradient, lr)


def _forward(networks, x):
    """z (M, B), and of every linear layer its input (M, B, in) and output (M, B, out)."""
    linear = []
    for layer in networks:
        seen, x = x, layer(x)
        if isinstance(layer, StackedLinear):
            linear.append((seen, x))
    return x.squeeze(-1), linear


def _descend(weight, seen, gradient, lr):
    """weight -= lr sum_b gradient_b seen_b^T in place."""
    if seen.shape[1] == 1:
        # A column times a row, broadcast.
        weight.addcmul_(gradient.mT, seen, value=-lr)
    else:
        weight.baddbmm_(gradient.mT, seen, alpha=-lr)


@full_precision()
def train_stacked(
    networks: nn.Sequential, x: Tensor, y: Tensor, samples: Tensor, *, loss: str, lr: float
) -> None:
    """`sgd_steps`, all of them, unwatched."""
    for _ in sgd_steps(networks, x, y, samples, loss=loss, lr=lr):
        pass
