"""Gradient flow of the logistic loss on many univariate networks at once (Safran).

Time is rescaled by the loss, d theta / dt = sum_i p_i grad q_i with p_i proportional to -l'(q_i),
which leaves the path as it is and keeps it moving when the loss is 1e-1000. The steps are linearly
implicit, since the flow is stiff where margins tie and where a kink slides along a sample. Two
things depart from exact flow, both vanishing in the limit: relu is rounded over a band around 0
that shrinks as the margin grows; and the smallest margin is held, by scaling theta, at a ceiling
that rises to SHARPNESS, so that at each scale the direction has time to settle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch.nn.functional import logsigmoid, softplus

from rc_theory.univariate.networks import kkt_residual

# A step turns the direction by at most some MAX_CHANGE (radians).
MAX_CHANGE = 0.05
# The ceiling of the smallest margin at the end.
SHARPNESS = 1e4
# The narrowest band, and the widest, used while the smallest margin is below 1 / _WIDEST_BAND.
_BAND, _WIDEST_BAND = 1e-4, 1e-2
# A step may raise the log loss by this much, and by this share of the smallest margin, lest kinks
# that cross the edge of a band bring the step length down to its width.
_SLACK, _RELATIVE_SLACK = 1e-2, 1e-4
# From this smallest margin on a step may double the norm.
_FITTED = 2.0
_FIRST_CEILING = 10.0


@dataclass
class Flow:
    """Result of a gradient flow."""

    theta: torch.Tensor  # (S, 3, k)
    least_loss: np.ndarray  # (S,), the least training loss on the way
    residual: np.ndarray  # (S,), the final KKT residual


@dataclass
class _State:
    theta: torch.Tensor
    length: torch.Tensor  # of the next step, in rescaled time
    margin: torch.Tensor  # largest smallest margin so far, at least 1
    log_loss: torch.Tensor  # least so far

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
    geometrically to SHARPNESS, reached at eight tenths. Every `check_every` steps networks stop
    whose KKT residual is below `tolerance` or whose loss is below `stop_loss`. Without
    `residuals`, which take long for very wide networks, they are NaN.
    """
    theta, x, y = (value.to(device, torch.float64) for value in (theta, x, y))
    stiffness = (1 + x.square().max(1).values) * (theta.square().sum((1, 2)) + 1e-300)
    one = torch.ones_like(stiffness)
    state = _State(theta.clone(), 0.1 / stiffness, one, torch.inf * one)

    def distance(*networks: torch.Tensor) -> np.ndarray:
        each = zip(*networks, strict=True)
        return np.array([kkt_residual(*one) if residuals else np.nan for one in each])

    residual = distance(state.theta, x, y)
    for done in range(check_every, num_steps + check_every, check_every):
        unfit = state.log_loss.exp().cpu().numpy() >= stop_loss
        going = np.flatnonzero(~(residual < tolerance) & unfit)
        if not len(going):
            break
        some = torch.as_tensor(going, device=x.device)
        steps = np.arange(done - check_every, min(done, num_steps))
        rise = np.clip((steps / num_steps - 0.1) / 0.7, 0, 1)
        part, x_part, y_part = state[some], x[some], y[some]
        for ceiling in _FIRST_CEILING * (SHARPNESS / _FIRST_CEILING) ** rise:
            part = _one_step(part, x_part, y_part, float(ceiling))
        state[some] = part
        residual[going] = distance(part.theta, x_part, y_part)
    return Flow(state.theta.cpu(), state.log_loss.exp().cpu().numpy(), residual)


def _one_step(state: _State, x: torch.Tensor, y: torch.Tensor, ceiling: float) -> _State:
    """One step of each network; where it turns too far or raises the loss, a shorter next."""
    theta, widths = state.theta, (1 / state.margin).clamp(_BAND, _WIDEST_BAND)
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
    # Once the samples are fitted the flow raises the normalised margin.
    shrink = torch.where(fitted, squared / new.square().sum((1, 2)), 1.0)
    slack = _SLACK + _RELATIVE_SLACK * smallest.clamp_min(0)
    jump = (new_q - q).abs().max(1).values / (1 + q.abs().max(1).values)
    effort = torch.where(fitted, growth.abs() / 2, jump)
    falls = _log_sum_loss(new_q * shrink[:, None]) <= log_loss + slack
    good = (turn < 2 * MAX_CHANGE) & (effort < 1) & falls
    longer = torch.where((turn < MAX_CHANGE) & (effort < 0.5), 1.5, 0.9)
    theta = torch.where(good[:, None, None], new, theta)
    # From the margin before the step: the scale can overshoot, so that a direction can turn.
    theta = theta * (ceiling / smallest.clamp_min(ceiling)).sqrt()[:, None, None]
    least = torch.minimum(state.log_loss, log_loss - np.log(x.shape[1]))
    return _State(
        theta, state.length * torch.where(good, longer, 0.5), state.margin.maximum(smallest), least
    )


class _Layer:
    """Inputs z and outputs `active` of the rounded relu, (S, n, k), and its slopes.

    Rounded by a parabola over |z| <= widths |(w, b)|, so that the network stays homogeneous of
    degree 2 in theta.
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
        """The derivative by z, and that by |(w, b)|, which is positive inside the band alone."""
        by_size = (2 - self.rise).mul_(self.rise).mul_(self.widths / 4 * self.alive)
        return self.rise * (self.alive / 2), by_size


def _margins(layer: _Layer, theta: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return y * (layer.active @ theta[:, 2, :, None])[:, :, 0]


def _log_sum_loss(q: torch.Tensor) -> torch.Tensor:
    """log sum_i log(1 + exp(-q_i)), without underflow: (S, n) -> (S,)."""
    return torch.logsumexp(torch.where(q > 30, -q, softplus(-q.clamp_max(30)).log()), 1)


def _implicit_step(
    theta: torch.Tensor,
    x: torch.Tensor,
    y: torch.Tensor,
    q: torch.Tensor,
    layer: _Layer,
    length: torch.Tensor,
) -> torch.Tensor:
    """The step m of (K + h G' M G) m = h G' p, with G the gradients of the margins, (S, n, 3 k).

    M is the curvature of the log loss in the margins, and K - 1 that of the rounded relu where it
    is convex, a 2 x 2 block a neuron; both are positive semi-definite. Solved in the n margins, by
    the Woodbury identity.
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


def _stop_at_samples(
    theta: torch.Tensor, move: torch.Tensor, x: torch.Tensor, y: torch.Tensor, layer: _Layer
) -> torch.Tensor:
    """Shorten a neuron's move so that its kink stops on the first sample that holds it.

    A sample outside the rounded band holds it if its label is against the neuron's sign.
    """
    z, holds = layer.z, (layer.slopes[1] == 0) & (y[:, :, None] * theta[:, None, 2] < 0)
    moved = torch.addcmul(move[:, None, 1], x[:, :, None], move[:, None, 0])
    crossing = (z * (z + moved) < 0) & holds
    share = torch.where(crossing, -z / torch.where(crossing, moved, 1.0), 1.0).min(1).values
    return move * share[:, None]
