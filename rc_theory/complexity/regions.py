"""Linear regions of a small network, and the bound on the empty ones (Loukas Theorem 2)."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from scipy.optimize import linprog
from torch import Tensor, nn

from rc_theory.complexity.stacked import LOSSES, IdentityLayer, StackedLinear, sgd_steps
from rc_theory.complexity.trajectory import lipschitz_constants
from rc_utils.counting.mesh import part_above
from rc_utils.evaluation import evaluation_mode, full_precision
from rc_utils.validation import require

# A corner whose unit's input is this close to 0 lies on the unit's line; polygons have extent 1.
ON_LINE = 1e-10
# A vector of entries 0 and 1 lies in the span of others if no entry of it leaves it by more.
IN_SPAN = 1e-7


@dataclass(frozen=True, eq=False)
class LinearRegion:
    """A region of a plane where a network is affine."""

    polygon: np.ndarray  # (V, 2), corners in plane coordinates
    pattern: tuple[np.ndarray, ...]  # one boolean array (n_l,) a hidden layer
    gradient: np.ndarray  # (n,), of the network with respect to its whole input


def affine_layers(network: nn.Sequential) -> list[tuple[np.ndarray, np.ndarray]]:
    """(W, b) of each affine layer in float64; W of an `IdentityLayer` is the identity matrix."""
    layers = []
    for layer in network:
        if isinstance(layer, IdentityLayer | nn.Linear):
            bias = layer.bias.detach().double()
            weight = getattr(layer, "weight", torch.eye(len(bias))).detach().double()
            layers.append((weight.cpu().numpy(), bias.cpu().numpy()))
    return layers


def linear_regions(network: nn.Sequential, basis: np.ndarray) -> list[LinearRegion]:
    """Exact linear regions of a network on the plane x = basis z, z in [-1, 1]^2; basis (n, 2).

    Layer by layer, every polygon is cut along the lines where a unit's input is 0.
    """
    *hidden, last = affine_layers(network)
    square = np.array([[-1.0, -1], [1, -1], [1, 1], [-1, 1]])
    # Polygon, pattern so far, and the input of the next layer there, jacobian @ x + offset.
    pieces = [(square, (), np.eye(len(basis)), np.zeros(len(basis)))]
    for weight, bias in hidden:
        pieces = [part for piece in pieces for part in _cut(*piece, weight, bias, basis)]
    return [LinearRegion(polygon, pattern, (last[0] @ j)[0]) for polygon, pattern, j, _ in pieces]


def _cut(polygon, pattern, jacobian, offset, weight, bias, basis):
    jacobian, offset = weight @ jacobian, weight @ offset + bias
    pieces = [polygon]
    for normal, shift in zip(jacobian @ basis, offset, strict=True):
        pieces = [part for piece in pieces for part in _halves(piece, piece @ normal + shift)]
    for piece in pieces:
        active = jacobian @ (basis @ piece.mean(0)) + offset > 0
        yield piece, (*pattern, active), jacobian * active[:, None], offset * active


def _halves(polygon, values):
    """The two parts of a polygon if `values` at its corners change sign, else the polygon."""
    if values.min() >= -ON_LINE or values.max() <= ON_LINE:
        return [polygon]
    return [part_above(polygon, values), part_above(polygon, -values)]


def activations(networks: nn.Sequential, x: Tensor) -> list[Tensor]:
    """Active units of each hidden layer, [(M, N, n_l) bool], without dropout; x (M or 1, N, n)."""
    patterns, values = [], x.expand(len(next(networks.parameters())), *x.shape[1:])
    with torch.no_grad():
        for layer in networks:
            values = values if isinstance(layer, nn.Dropout) else layer(values)
            if isinstance(layer, nn.ReLU):
                patterns.append(values > 0)
    return patterns


def pathways(pattern: tuple[np.ndarray, ...]) -> np.ndarray:
    """s(x): Kronecker product of the activations, last hidden layer first (Loukas Sec. 5)."""
    return functools.reduce(np.kron, [np.asarray(active, float) for active in reversed(pattern)])


@dataclass(frozen=True)
class SteadyInterval:
    """Record of T steps of SGD after training, the interval of Theorems 2 and 3."""

    updates: np.ndarray  # (T, M), normalised updates u, NaN where a point is fitted exactly
    z: np.ndarray  # (T, M), the last layer's input
    points: np.ndarray  # (T, M), index of the training point drawn
    patterns: list[np.ndarray]  # [(M, N, n_l)], activations before the last step
    unchanged: np.ndarray  # (M, N) bool, whether a point's activations stayed the same
    gamma: np.ndarray  # (M,), the least gamma of Assumption 1 over the unchanged points
    beta: np.ndarray  # (M,), largest singular value of W_1
    active: list[np.ndarray]  # [(M, n_l)], share of points where a unit was active, least over T
    ever: list[np.ndarray]  # [(M, n_l) bool], whether a unit was active at some point at some step

    def smallest_updates(self, model: int) -> np.ndarray:
        """Smallest u of each training point, (N,); infinite if not drawn or not steady."""
        smallest = np.full(self.unchanged.shape[1], np.inf)
        np.fmin.at(smallest, self.points[:, model], self.updates[:, model])
        return np.where(self.unchanged[model], smallest, np.inf)


@full_precision()
def watch_interval(
    networks: nn.Sequential, x: Tensor, y: Tensor, samples: Tensor, *, loss: str, lr: float
) -> SteadyInterval:
    """Continue training on samples (T, M, 1) and observe all training points before every step.

    Assumption 1 wants constant activations, which a small `lr` gives, as the paper notes.
    """
    updates, z, start = [], [], activations(networks, x)
    unchanged, lowest, highest, active = True, np.inf, 0.0, [1.0] * len(start)
    ever = [False] * len(start)
    linear = isinstance(networks[0], StackedLinear)  # or an identity with a bias, of norm 1
    beta = 0.0 if linear else 1.0
    for step in sgd_steps(networks, x, y, samples, loss=loss, lr=lr):
        bias_norm = step.gradients["0.bias"].flatten(1).norm(dim=1)
        error = (step.slope.abs() / LOSSES[loss].output_slope(step.z))[:, 0]
        updates.append(bias_norm / error)
        z.append(step.z[:, 0])
        patterns = activations(networks, x)
        same = [(now == then).all(2) for now, then in zip(patterns, start, strict=True)]
        unchanged = unchanged & torch.stack(same).all(0)
        shares = [p.float().mean(1).cpu().numpy() for p in patterns]
        active = [np.minimum(least, now) for least, now in zip(active, shares, strict=True)]
        ever = [before | (now > 0) for before, now in zip(ever, shares, strict=True)]
        with evaluation_mode(networks):
            constants = lipschitz_constants(networks, x, loss).double().cpu().numpy()
        lowest, highest = np.minimum(lowest, constants), np.maximum(highest, constants)
        if linear:
            norms = torch.linalg.matrix_norm(networks[0].weight.detach().double(), 2)
            beta = np.maximum(beta, norms.cpu().numpy())
    unchanged = unchanged.cpu().numpy()
    usable = unchanged & (lowest > 0)
    growth = np.where(usable, highest / np.where(usable, lowest, 1), 1)
    return SteadyInterval(
        updates=torch.stack(updates).double().cpu().numpy(),
        z=torch.stack(z).double().cpu().numpy(),
        points=samples[..., 0].numpy(),
        patterns=[pattern.cpu().numpy() for pattern in patterns],
        unchanged=unchanged,
        gamma=growth.max(1) - 1,
        beta=np.broadcast_to(beta, len(unchanged)),
        active=active,
        ever=ever,
    )


def basis_pursuit(columns: np.ndarray, weights: np.ndarray) -> Callable[[np.ndarray], float]:
    """Weighted basis pursuit, the function s (P,) -> min_a sum_k weights_k |a_k|, columns a = s.

    columns (P, K); weights (K,), non-negative. Infinite where s is not in the span of the columns.
    A linear programme in the positive and negative parts of a.
    """
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    span = left[:, values > 1e-9 * values.max()]
    equations = span.T @ columns  # without redundant rows

    def solve(target: np.ndarray) -> float:
        projected = span.T @ target
        if np.abs(span @ projected - target).max() > IN_SPAN:
            return np.inf
        both, price = np.hstack([equations, -equations]), np.tile(weights, 2)
        found = linprog(price, A_eq=both, b_eq=projected, options={"presolve": False})
        require(found.success, f"the linear programme of Theorem 2 failed: {found.message}")
        return float(found.fun)

    return solve


def bound_empty_regions(
    network: nn.Sequential, basis: np.ndarray, interval: SteadyInterval, model: int
) -> pd.DataFrame:
    """Theorem 2 for all empty regions: (1 + gamma) beta min_a |a * phi|_1, squared loss.

    network: model `model` of the stack at the end of `interval`, as an ordinary network. One row
    per region: steepness, filled (whether it holds a training point), bound (NaN where filled,
    infinite where the theorem says nothing). Raises ValueError if no drawn point was steady.
    """
    # Per training point, the activations of all hidden layers.
    patterns = list(zip(*(layer[model] for layer in interval.patterns), strict=True))
    keys = [np.concatenate(pattern).tobytes() for pattern in patterns]
    cheapest: dict[bytes, tuple[float, np.ndarray]] = {}
    for key, pattern, update in zip(keys, patterns, interval.smallest_updates(model), strict=True):
        if np.isfinite(update) and (key not in cheapest or update < cheapest[key][0]):
            cheapest[key] = (update, pathways(pattern))
    require(len(cheapest) > 0, "no point was drawn with an unchanged activation; take more steps")
    weights, columns = zip(*cheapest.values(), strict=True)
    solve = basis_pursuit(np.stack(columns, 1), np.array(weights))
    factor, rows = (1 + interval.gamma[model]) * interval.beta[model], []
    for region in linear_regions(network, basis):
        filled = np.concatenate(region.pattern).tobytes() in keys
        bound = np.nan if filled else factor * solve(pathways(region.pattern))
        rows.append([np.linalg.norm(region.gradient), filled, bound])
    return pd.DataFrame(rows, columns=["steepness", "filled", "bound"])
