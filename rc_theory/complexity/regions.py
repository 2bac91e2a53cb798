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
from rc_utils.counting.evaluation import evaluation_mode, full_precision
from rc_utils.counting.mesh import part_above
from rc_utils.validation import require

# A polygon's corner this near to a line counts as on it; polygons have extent 1.
ON_LINE = 1e-10
# An activation, of entries 0 and 1, is a combination of others if it leaves their span by less.
IN_SPAN = 1e-7


@dataclass(frozen=True, eq=False)
class LinearRegion:
    """A region of a plane where a network is affine."""

    polygon: np.ndarray  # (V, 2), corners in plane coordinates
    pattern: tuple[np.ndarray, ...]  # one boolean array (n_l,) a hidden layer
    gradient: np.ndarray  # (n,), of the network with respect to its whole input


def affine_layers(network: nn.Sequential) -> list[tuple[np.ndarray, np.ndarray]]:
    """(W, b) of each layer but ReLUs in float64, identities written out."""
    layers = []
    for layer in network:
        if isinstance(layer, IdentityLayer | nn.Linear):
            bias = layer.bias.detach().double()
            weight = getattr(layer, "weight", torch.eye(len(bias))).detach().double()
            layers.append((weight.cpu().numpy(), bias.cpu().numpy()))
    return layers


def linear_regions(network: nn.Sequential, basis: np.ndarray) -> list[LinearRegion]:
    """The exact linear regions of x = basis z for z in [-1, 1]^2; basis (n, 2).

    Layer by layer every polygon is cut along the lines where a unit's input is 0.
    """
    *hidden, last = affine_layers(network)
    square = np.array([[-1.0, -1], [1, -1], [1, 1], [-1, 1]])
    # A cell: its polygon, its pattern so far, and the layer's input there, jacobian @ x + offset.
    cells = [(square, (), np.eye(len(basis)), np.zeros(len(basis)))]
    for weight, bias in hidden:
        cells = [piece for cell in cells for piece in _cut(*cell, weight, bias, basis)]
    return [LinearRegion(cell[0], cell[1], (last[0] @ cell[2])[0]) for cell in cells]


def _cut(polygon, pattern, jacobian, offset, weight, bias, basis):
    jacobian, offset = weight @ jacobian, weight @ offset + bias
    pieces = [polygon]
    for normal, shift in zip(jacobian @ basis, offset, strict=True):
        pieces = [part for piece in pieces for part in _halves(piece, piece @ normal + shift)]
    for piece in pieces:
        active = jacobian @ (basis @ piece.mean(0)) + offset > 0
        yield piece, (*pattern, active), jacobian * active[:, None], offset * active


def _halves(polygon, values):
    """The polygon, or its two halves where `values` at its corners change sign."""
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
    """SGD watched on an interval T after training, for Theorems 2 and 3."""

    updates: np.ndarray  # (T, M), normalised updates u, NaN where a point is fitted exactly
    z: np.ndarray  # (T, M), the last layer's input
    points: np.ndarray  # (T, M), which was drawn
    patterns: list[np.ndarray]  # [(M, N, n_l)], activations before the last step
    unchanged: np.ndarray  # (M, N), whether they were the same throughout
    gamma: np.ndarray  # (M,), the least gamma of Assumption 1 over the unchanged points
    beta: np.ndarray  # (M,), largest singular value of W_1
    active: list[np.ndarray]  # [(M, n_l)], least share of points at which a unit was active

    def smallest_updates(self, model: int) -> np.ndarray:
        """Smallest u of each training point, (N,); infinite if not drawn or not steady."""
        smallest = np.full(self.unchanged.shape[1], np.inf)
        np.fmin.at(smallest, self.points[:, model], self.updates[:, model])
        return np.where(self.unchanged[model], smallest, np.inf)


@full_precision()
def watch_interval(
    networks: nn.Sequential, x: Tensor, y: Tensor, samples: Tensor, *, loss: str, lr: float
) -> SteadyInterval:
    """Train on by samples (T, M, 1), looking at all training points before every step.

    Assumption 1 wants activations that stay; a small `lr` grants it, as the paper notes.
    """
    rows, start = {"updates": [], "z": []}, activations(networks, x)
    unchanged, lowest, highest, active = True, np.inf, 0.0, [1.0] * len(start)
    trained = isinstance(networks[0], StackedLinear)
    beta = 0.0 if trained else 1.0
    for step in sgd_steps(networks, x, y, samples, loss=loss, lr=lr):
        bias_norm = step.gradients["0.bias"].flatten(1).norm(dim=1)
        error = (step.slope.abs() / LOSSES[loss].output_slope(step.z))[:, 0]
        rows["updates"].append(bias_norm / error)
        rows["z"].append(step.z[:, 0])
        patterns = activations(networks, x)
        same = [(now == then).all(2) for now, then in zip(patterns, start, strict=True)]
        unchanged = unchanged & torch.stack(same).all(0)
        shares = [p.float().mean(1).cpu().numpy() for p in patterns]
        active = [np.minimum(least, now) for least, now in zip(active, shares, strict=True)]
        with evaluation_mode(networks):
            constants = lipschitz_constants(networks, x, loss).double().cpu().numpy()
        lowest, highest = np.minimum(lowest, constants), np.maximum(highest, constants)
        if trained:
            norms = torch.linalg.matrix_norm(networks[0].weight.detach().double(), 2)
            beta = np.maximum(beta, norms.cpu().numpy())
    unchanged = unchanged.cpu().numpy()
    usable = unchanged & (lowest > 0)
    growth = np.where(usable, highest / np.where(usable, lowest, 1), 1)
    updates, z = (torch.stack(rows[key]).double().cpu().numpy() for key in ("updates", "z"))
    points, patterns = samples[..., 0].numpy(), [p.cpu().numpy() for p in patterns]
    gamma, beta = growth.max(1) - 1, np.broadcast_to(beta, len(unchanged))
    return SteadyInterval(updates, z, points, patterns, unchanged, gamma, beta, active)


def basis_pursuit(columns: np.ndarray, weights: np.ndarray) -> Callable[[np.ndarray], float]:
    """The function s (P,) -> min_a sum_k weights_k |a_k| with columns a = s, or infinity.

    columns (P, K), weights (K,), non-negative. A linear programme in the positive and negative
    parts of a, its equations projected onto the span of the columns.
    """
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    span = left[:, values > 1e-9 * values.max(initial=0)]
    equations = span.T @ columns

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
    infinite where the theorem says nothing).
    """
    patterns = list(zip(*(layer[model] for layer in interval.patterns), strict=True))
    held = {np.concatenate(pattern).tobytes() for pattern in patterns}
    cheapest: dict[bytes, tuple[float, np.ndarray]] = {}
    for pattern, update in zip(patterns, interval.smallest_updates(model), strict=True):
        key = np.concatenate(pattern).tobytes()
        if update < cheapest.get(key, (np.inf,))[0]:
            cheapest[key] = (update, pathways(pattern))
    require(len(cheapest) > 0, "no point was drawn with an unchanged activation; watch for longer")
    weights, columns = zip(*cheapest.values(), strict=True)
    solve = basis_pursuit(np.stack(columns, 1), np.array(weights))
    factor = (1 + interval.gamma[model]) * interval.beta[model]
    rows = []
    for region in linear_regions(network, basis):
        filled = np.concatenate(region.pattern).tobytes() in held
        bound = np.nan if filled else factor * solve(pathways(region.pattern))
        rows.append([np.linalg.norm(region.gradient), filled, bound])
    return pd.DataFrame(rows, columns=["steepness", "filled", "bound"])
