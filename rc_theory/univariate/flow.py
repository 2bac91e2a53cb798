"""Gradient flow of the logistic loss on many univariate networks at once (Safran).

Time is rescaled by the loss, d theta / dt = sum_i p_i grad q_i with p_i proportional to -l'(q_i),
which leaves the path as it is and keeps it moving when the loss is 1e-1000. The steps are linearly
implicit, since the flow is stiff where margins tie and where a kink slides along a sample. Two
things depart from exact flow, both vanishing in the limit: relu is rounded over a band around 0
that shrinks as the margin grows; and theta is scaled down so that the smallest margin stays below a
ceiling, which rises slowly to LAST_CEILING, so that the direction has time to settle at each scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch.nn.functional import logsigmoid, softplus

from rc_theory.univariate.networks import kkt_residual

# Steps grow while they turn the direction by less than this (radians); twice as much is rejected.
MAX_CHANGE = 0.05
# The ceiling of the smallest margin at first, and at the end.
_FIRST_CEILING, LAST_CEILING = 10.0, 1e4
# The narrowest and the widest band; the latter while the smallest margin is below 1 / _WIDEST_BAND.
_NARROWEST_BAND, _WIDEST_BAND = 1e-4, 1e-2
# A step may raise the log loss by this much plus this share of the smallest margin. Otherwise kinks
# that cross the edge of a band would shorten the steps to its width.
_SLACK, _RELATIVE_SLACK = 1e-2, 1e-4
# Smallest margin from which the samples count as fitted.
_FITTED = 2.0


@dataclass
class Flow:
    """Result of a gradient flow."""

    theta: torch.Tensor  # (S, 3, k)
    least_loss: np.ndarray  # (S,), the least training loss at the start of a step
    residual: np.ndarray  # (S,), the final KKT residual


@dataclass
class _State:
    theta: torch.Tensor
    length: torch.Tensor  # of the next step, in rescaled time
    margin: torch.Tensor  # the largest so far of the smallest margins, at least 1
    log_loss: torch.Tensor  # the least so far

    def __getitem__(self, index: torch.Tensor) -> _State:
        return _State(*(value[index] for value in vars(self).values()))

    def __setitem__(self, index: torch.Tensor, other: _State) -> None:
        for name, value in vars(other).items():
            getattr(self, name)[index] = value


def gradient_flow(
    theta: torch.Tensor,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    num_steps: int = 800,
    tolerance: float = 1e-4,
    check_every: int = 100,
    stop_loss: float = 0.0,
    residuals: bool = True,
    device: str = "cpu",
) -> Flow:
    """Follow gradient flow from theta (S, 3, k) on samples x, y (S, n), all networks side by side.

    The ceiling of the smallest margin is 10 for the first tenth of the steps, then rises
    geometrically and reaches LAST_CEILING at eight tenths. Every `check_every` steps, networks stop
    whose KKT residual is below `tolerance` or whose loss is below `stop_loss`. residuals: False
    leaves the residuals NaN, since they take long for very wide networks.
    """
    theta, x, y = (value.to(device, torch.float64) for value in (theta, x, y))
    stiffness = (1 + x.square().max(1).values) * (theta.square().sum((1, 2)) + 1e-300)
    one = torch.ones_like(stiffness)
    state = _State(theta.clone(), 0.1 / stiffness, one, torch.inf * one)

    def residuals_of(*batch: torch.Tensor) -> np.ndarray:
        each = zip(*batch, strict=True)
        return np.array([kkt_residual(*network) if residuals else np.nan for network in each])

    residual = residuals_of(state.theta, x, y)
    for first in range(0, num_steps, check_every):
        unfit = state.log_loss.exp().cpu().numpy() >= stop_loss
        going = np.flatnonzero(~(residual < tolerance) & unfit)  # a residual of NaN goes on
        if not len(going):
            break
        some = torch.as_tensor(going, device=x.device)
        steps = np.arange(first, min(first + check_every, num_steps))
        rise = np.clip((steps / num_steps - 0.1) / 0.7, 0, 1)
        part, x_part, y_part = state[some], x[some], y[some]
        for ceiling in _FIRST_CEILING * (LAST_CEILING / _FIRST_CEILING) ** rise:
            part = _one_step(part, x_part, y_part, float(ceiling))
        state[some] = part
        residual[going] = residuals_of(part.theta, x_part, y_part)
    return Flow(state.theta.cpu(), state.log_loss.exp().cpu().numpy(), residual)


def _one_step(state, x, y, ceiling):
    """Try a step of each network. One that goes too far or raises the loss is undone and halved."""
    theta, widths = state.theta, (1 / state.margin).clamp(_NARROWEST_BAND, _WIDEST_BAND)
    layer = _Layer(theta, x, widths)
    q = _margins(layer, theta, y)
    smallest = q.min(1).values
    log_loss = _log_sum_loss(q)
    move = _implicit_step(theta, x, y, q, layer, state.length)
    move = _stop_at_samples(theta, move, x, y, layer)
    squared = theta.square().sum((1, 2))
    growth = (theta * move).sum((1, 2)) / squared
    across = (move - growth[:, None, None] * theta).square().sum((1, 2)) / squared
    turn = across.sqrt() / (1 + growth.clamp_min(0))
    new = theta + move
    new_q = _margins(_Layer(new, x, widths), new, y)
    fitted = smallest > _FITTED
    # Once the samples are fitted, losses are compared at equal norm.
    shrink = torch.where(fitted, squared / new.square().sum((1, 2)), 1.0)
    slack = _SLACK + _RELATIVE_SLACK * smallest.clamp_min(0)
    jump = (new_q - q).abs().max(1).values / (1 + q.abs().max(1).values)
    effort = torch.where(fitted, growth.abs() / 2, jump)
    falls = _log_sum_loss(new_q * shrink[:, None]) <= log_loss + slack
    good = (turn < 2 * MAX_CHANGE) & (effort < 1) & falls
    longer = torch.where((turn < MAX_CHANGE) & (effort < 0.5), 1.5, 0.9)
    theta = torch.where(good[:, None, None], new, theta)
    # By the margin before the step: the new one may exceed the ceiling, so that directions turn.
    theta = theta * (ceiling / smallest.clamp_min(ceiling)).sqrt()[:, None, None]
    least = torch.minimum(state.log_loss, log_loss - np.log(x.shape[1]))
    length = state.length * torch.where(good, longer, 0.5)
    return _State(theta, length, state.margin.maximum(smallest), least)


class _Layer:
    """Inputs z and outputs `active` of the rounded relu, (S, n, k), and its slopes.

    The relu is rounded by a parabola over |z| <= widths |(w, b)|, which keeps the network
    homogeneous of degree 2 in theta.
    """

    def __init__(self, theta: torch.Tensor, x: torch.Tensor, widths: torch.Tensor):
        w, b, _ = theta.unbind(1)
        self.widths = widths[:, None, None]
        self.size = torch.hypot(w, b)[:, None].clamp_min(1e-290)
        self.alive = (self.size > 1e-290).to(theta.dtype)
        self.z = torch.addcmul(b[:, None], x[:, :, None], w[:, None])
        half = self.widths * self.size
        self.rise = (self.z / half).clamp_(-1, 1).add_(1)
        beyond = (self.z - half).clamp_min_(0)
        self.active = torch.addcmul(beyond, self.rise, self.rise * (half / 4 * self.alive))

    @cached_property
    def slopes(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Derivatives by z and by |(w, b)|; the latter is positive only inside the band."""
        by_size = (2 - self.rise).mul_(self.rise).mul_(self.widths / 4 * self.alive)
        return self.rise * (self.alive / 2), by_size


def _margins(layer, theta, y):
    return y * (layer.active @ theta[:, 2, :, None])[:, :, 0]


def _log_sum_loss(q):
    """log sum_i log(1 + exp(-q_i)), without underflow: (S, n) -> (S,)."""
    return torch.logsumexp(torch.where(q > 30, -q, softplus(-q.clamp_max(30)).log()), 1)


def _implicit_step(theta, x, y, q, layer, length):
    """Solve (K + h G' M G) m = h G' p for the step m, G the gradients of the margins, (S, n, 3 k).

    M is the curvature of the log loss in the margins; K - 1 is the curvature of the rounded relu
    where it makes the loss convex, a 2 x 2 block per neuron. Both are positive semi-definite. The
    Woodbury identity reduces the system to one of size n.
    """
    w, b, v = theta[:, None].unbind(2)
    by_z, by_size = layer.slopes
    signed = y[:, :, None] * v
    h = length[:, None]
    p = torch.softmax(logsigmoid(-q), 1)
    grad_w = torch.addcmul(by_size * (w / layer.size), by_z, x[:, :, None]).mul_(signed)
    grad_b = torch.addcmul(by_z, by_size, b / layer.size).mul_(signed)
    grad_v = y[:, :, None] * layer.active
    bend = (-p * y)[:, :, None] * (v / (2 * layer.widths * layer.size))
    curved = bend.clamp_min_(0).mul_(by_size > 0)
    moments = torch.stack([x.square(), x, torch.ones_like(x)], 1) @ curved
    ww, wb, bb = (h[:, None] * moments).split(1, 1)
    ww, bb = 1 + ww, 1 + bb
    det = ww * bb - wb.square()
    solved_w = torch.addcmul(grad_w * (bb / det), grad_b, wb / det, value=-1)
    solved_b = torch.addcmul(grad_b * (ww / det), grad_w, wb / det, value=-1)
    kernel = grad_w @ solved_w.mT
    kernel.baddbmm_(grad_b, solved_b.mT).baddbmm_(grad_v, grad_v.mT)
    d = p * torch.sigmoid(q) + 1e-300
    curvature = d[:, :, None] * (kernel - (d[:, None] @ kernel) / d.sum(1)[:, None, None])
    identity = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    weights = torch.linalg.solve(identity + h[:, :, None] * curvature, p)
    parts = [weights[:, None] @ part for part in (solved_w, solved_b, grad_v)]
    return h[:, None] * torch.cat(parts, 1)


def _stop_at_samples(theta, move, x, y, layer):
    """Shorten a neuron's move so that its kink stops at the first sample that holds it.

    A sample outside the rounded band holds the kink if its label is opposite to the sign of v.
    """
    z, holds = layer.z, (layer.slopes[1] == 0) & (y[:, :, None] * theta[:, None, 2] < 0)
    moved = torch.addcmul(move[:, None, 1], x[:, :, None], move[:, None, 0])
    crossing = (z * (z + moved) < 0) & holds
    share = torch.where(crossing, -z / torch.where(crossing, moved, 1.0), 1.0).min(1).values
    return move * share[:, None]
