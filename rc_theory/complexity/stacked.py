"""Many small networks trained side by side: parameters have a leading axis of models.

A step of SGD on one sample costs far more calls than arithmetic, and M models in one batched matrix
product cost hardly more calls than one.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rc_utils.evaluation import full_precision


class IdentityLayer(nn.Module):
    """x -> x + b for x (N, *shape), with a bias that no two inputs share (Loukas Sec. 4.1, 6).

    The bias starts uniform in ±1/sqrt(inputs), like the bias of `nn.Linear`.
    """

    def __init__(self, *shape: int):
        super().__init__()
        bound = float(np.prod(shape)) ** -0.5
        self.bias = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias


class _Stacked(nn.Module):
    """M layers as one, each parameter with a leading axis of models."""

    def __init__(self, layers: Sequence[nn.Module]):
        super().__init__()
        for name, _ in layers[0].named_parameters():
            each = [getattr(layer, name).detach() for layer in layers]
            self.register_parameter(name, nn.Parameter(torch.stack(each)))


class StackedIdentity(_Stacked):
    """`IdentityLayer` of M models: (M, B, *shape) -> (M, B, *shape)."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias.unsqueeze(1)


class StackedLinear(_Stacked):
    """`nn.Linear` of M models, one batched matrix product: (M, B, in) -> (M, B, out)."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias.unsqueeze(1), x, self.weight.mT)


class StackedConv2d(_Stacked):
    """`nn.Conv2d` of M models as one of M groups: (M, B, C, H, W) -> (M, B, O, H', W')."""

    def __init__(self, layers: Sequence[nn.Conv2d]):
        super().__init__(layers)
        self.stride, self.padding = layers[0].stride, layers[0].padding

    def forward(self, x: Tensor) -> Tensor:
        models = len(x)
        x, weight = x.transpose(0, 1).flatten(1, 2), self.weight.flatten(0, 1)
        out = F.conv2d(x, weight, self.bias.flatten(), self.stride, self.padding, groups=models)
        return out.unflatten(1, (models, -1)).transpose(0, 1)


# By type, the function that merges M layers into one.
_STACKED = {
    IdentityLayer: StackedIdentity,
    nn.Linear: StackedLinear,
    nn.Conv2d: StackedConv2d,
    nn.ReLU: lambda layers: nn.ReLU(),
    nn.Dropout: lambda layers: nn.Dropout(layers[0].p),
    nn.Flatten: lambda layers: nn.Flatten(2),
}


def stack(networks: Sequence[nn.Sequential]) -> nn.Sequential:
    """Merge M networks of one architecture into one, (M, B, *shape) -> (M, B, outputs).

    Layers: IdentityLayer, Linear and Conv2d with biases, ReLU, Dropout and Flatten(1).
    """
    side_by_side = [_STACKED[type(layers[0])](layers) for layers in zip(*networks, strict=True)]
    return nn.Sequential(*side_by_side)


def unstack(stacked: nn.Sequential, template: nn.Sequential, index: int) -> nn.Sequential:
    """Model `index` of a stack as an ordinary network: a copy of `template` with its weights."""
    network = copy.deepcopy(template).to(next(stacked.parameters()))
    network.load_state_dict({name: value[index] for name, value in stacked.state_dict().items()})
    return network


@dataclass(frozen=True)
class Loss:
    """Elementwise loss of the last layer's value z and the target y; the output is f = rho_d(z).

    The derivative of the loss with respect to f is slope / output_slope.
    """

    value: Callable[[Tensor, Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor]  # d loss / d z
    output_slope: Callable[[Tensor], Tensor]  # d f / d z


LOSSES = {
    # Squared error (f - y)^2 / 2 with f = z, for regression (Loukas Sec. 4.1).
    "mse": Loss(lambda z, y: (z - y).square() / 2, lambda z, y: z - y, torch.ones_like),
    # Binary cross-entropy with f = sigmoid(z), y in {0, 1}; f - y without cancellation.
    "bce": Loss(
        lambda z, y: F.softplus((1 - 2 * y) * z),
        lambda z, y: (1 - 2 * y) * torch.sigmoid((1 - 2 * y) * z),
        lambda z: torch.sigmoid(z) * torch.sigmoid(-z),
    ),
}


@dataclass(frozen=True)
class Step:
    """One step of SGD of M models, before it is applied; B is the batch size."""

    z: Tensor  # (M, B), the last layer's value
    slope: Tensor  # (M, B), d loss / d z
    # {name: (M, ...)} of each model's mean loss over its batch, without weights of linear layers.
    gradients: dict[str, Tensor]
    input_gradients: Tensor  # (M, B, *shape), of the same mean losses with respect to the samples


def draw_samples(seeds: Sequence[int], num_steps: int, num_points: int, batch_size=1) -> Tensor:
    """Indices (num_steps, M, B) drawn with replacement; models of equal seeds get equal ones."""
    shape = (num_steps, batch_size)
    drawn = [np.random.default_rng([s, 77]).integers(0, num_points, shape) for s in seeds]
    return torch.from_numpy(np.stack(drawn, axis=1))


def sgd_steps(
    networks: nn.Sequential, x: Tensor, y: Tensor, samples: Tensor, *, loss: str, lr: float
) -> Iterator[Step]:
    """Train a stack in place by plain SGD; yields every `Step` before it is applied.

    networks: a stack of M with one output. x: (M, N, *shape), or (1, N, *shape) for all. y: (M, N).
    samples: indices (T, M, B). loss: a key of LOSSES. A step is applied when the next one is asked
    for, so the iterator must be exhausted.
    """
    models = len(y)
    weights = [layer.weight for layer in networks if isinstance(layer, StackedLinear)]
    named = dict(networks.named_parameters())
    others = {n: p for n, p in named.items() if not any(p is weight for weight in weights)}
    samples, rows = samples.to(y.device), torch.arange(models, device=y.device).unsqueeze(1)
    x_rows = rows if len(x) == models else torch.zeros_like(rows)
    for batch in samples:
        inputs, targets = x[x_rows, batch].requires_grad_(), y[rows, batch]
        linear, values = [], inputs  # of every linear layer: its input and its output
        for layer in networks:
            before, values = values, layer(values)
            if isinstance(layer, StackedLinear):
                linear.append((before, values))
        z = values.squeeze(-1)
        slope = LOSSES[loss].slope(z.detach(), targets)
        wanted = [*others.values(), *(out for _, out in linear), inputs]
        gradients = torch.autograd.grad(z, wanted, slope / batch.shape[1])
        of_others, of_outs = gradients[: len(others)], gradients[len(others) : -1]
        yield Step(z.detach(), slope, dict(zip(others, of_others, strict=True)), gradients[-1])
        with torch.no_grad():
            for parameter, gradient in zip(others.values(), of_others, strict=True):
                parameter.add_(gradient, alpha=-lr)
            # weight -= lr sum_b gradient_b before_b^T; of one sample, a column times a row.
            for weight, (before, _), gradient in zip(weights, linear, of_outs, strict=True):
                if before.shape[1] == 1:
                    weight.addcmul_(gradient.mT, before, value=-lr)
                else:
                    weight.baddbmm_(gradient.mT, before, alpha=-lr)


@full_precision()
def train_stacked(
    networks: nn.Sequential, x: Tensor, y: Tensor, samples: Tensor, *, loss: str, lr: float
) -> None:
    """Train a stack in place by plain SGD, all of `sgd_steps`."""
    for _ in sgd_steps(networks, x, y, samples, loss=loss, lr=lr):
        pass
