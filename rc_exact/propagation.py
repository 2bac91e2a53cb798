"""Breakpoints of a piecewise-linear network on a segment, propagated layer by layer."""

import operator
from dataclasses import dataclass

import torch
from torch.fx.node import map_aggregate, map_arg
from torch.nn import functional as F

from rc_exact.plan import Refused, refuse_unless

# A part with at most this many rows is never split, even if it exceeds the memory limit.
FEWEST_ROWS = 8
# Batch sizes of the two trial runs, between which only the first dimension may differ.
TRIALS = (3, 5)
# Difference by rounding of the scores of plan and network, relative to the largest score.
SCORE_TOLERANCE = 1e-6
LEAST_DIFFERENCE = 1e-12  # by rounding, where all scores are 0
# Alphas closer than this are one breakpoint: float64 rounds them to about 1e-15.
BREAKPOINT_TOLERANCE = 1e-13
# Stands for the size of the first dimension, which grows with every breakpoint.
ROWS = object()
WITH_ROWS = (
    "computes with the number of points; expected -1 in its place in a shape, and nowhere else"
)


@dataclass(eq=False)
class Part:
    """A piece of the segment on its way through the network.

    Attributes:
        step: index of the next step.
        alphas: (P,) float64, ascending; every value is affine between neighbouring alphas.
        values: activations at the alphas by name, tensors (P, *shape) or tuples of them.
    """

    step: int
    alphas: torch.Tensor
    values: dict


def propagate(plan, x0, x1, most_rows, between=(0.0, 1.0)):
    """Yield (alphas (P,), scores (P, ...)) of consecutive parts of a segment.

    The segment goes from x0 to x1, (*shape) float64, or between the alphas `between`. `most_rows`
    is the result of `rehearse`. Scores are affine between neighbouring alphas; a part begins where
    the one before ended.
    """
    ends = torch.tensor(between, dtype=torch.float64, device=x0.device)
    waiting = [Part(0, ends, {plan.input: points_at(x0, x1, ends)})]
    while waiting:
        part = waiting.pop()
        halves = _advance(plan, part, most_rows)
        if halves is None:
            yield part.alphas, part.values[plan.output]
        else:
            waiting.extend(reversed(halves))


def points_at(x0, x1, alphas):
    """Points (P, *shape) of the segment from x0 to x1, (*shape), at alphas (P,)."""
    alphas = alphas.view(-1, *(1,) * x0.ndim)
    return (1 - alphas) * x0 + alphas * x1


def run_rows(plan, points, most_rows):
    """Scores (P, ...) of the network at points (P, *shape)."""
    outputs = []
    for rows in points.split(min(most_rows, default=len(points))):
        # A network may squeeze away the dimension of a single row.
        scores = plan.network(torch.cat([rows, rows]) if len(rows) == 1 else rows)
        outputs.append(scores[: len(rows)])
    return torch.cat(outputs)


def rehearse(plan, x0, x1, max_bytes):
    """Number of rows at each step for which all values that are still needed fit `max_bytes`.

    Raises ValueError if a step fails on points of the shape of x0, mixes rows or computes with
    their number, or if the scores of the plan are not those of the network.
    """
    few, many = [_trial_run(plan, x0, x1, rows) for rows in TRIALS]
    for step, (_, leaves), (_, others) in zip(plan.steps, few, many, strict=True):
        refuse_unless(leaves == others, step.name, WITH_ROWS)
    return [max(FEWEST_ROWS, max_bytes // max(row_bytes, 1)) for row_bytes, _ in few]


def _trial_run(plan, x0, x1, rows):
    """For each step: bytes per row of all values still needed, and the leaves of its own value.

    A tensor is represented by its shape without the first dimension.
    """
    alphas = torch.linspace(0, 1, rows, dtype=x0.dtype, device=x0.device)
    points = points_at(x0, x1, alphas)
    part = Part(0, alphas, {plan.input: points.clone()})
    found = []
    for step in plan.steps:
        try:
            _apply(plan, step, part)
        except Refused:
            raise
        except (RuntimeError, ValueError) as error:
            shape = tuple(x0.shape)
            raise ValueError(
                f"the network failed in {step.name} on a point of shape {shape}: {error}. Is that "
                "the shape it takes?"
            ) from error
        value = part.values[step.name]
        for shape in [tuple(tensor.shape) for tensor in _tensors(value)]:
            expected = "expected the first dimension to stay that of the points"
            reason = f"makes {shape} of {rows} points; {expected}"
            refuse_unless(shape[:1] == (rows,), step.name, reason)
        row_bytes = sum(tensor.nbytes for tensor in _tensors(part.values)) // rows
        leaves = [x.shape[1:] if isinstance(x, torch.Tensor) else x for x in _leaves(value)]
        found.append((row_bytes, leaves))
        _forget(step, part)
    require_same_scores(part.values[plan.output], plan.network(points))
    return found


def require_same_scores(found, expected):
    """Raise Refused unless `found`, the scores of a plan, are those of its network."""
    single = isinstance(found, torch.Tensor)
    refuse_unless(single, "it", "returns several values; expected one tensor")
    real = found.is_floating_point()
    refuse_unless(real, "it", f"returns numbers of type {found.dtype}; expected real scores")
    same = found.shape == expected.shape and found.isfinite().equal(expected.isfinite())
    if same and not bool(expected.isfinite().all()):
        return  # callers report scores that are not finite
    most = max(SCORE_TOLERANCE * float(expected.abs().max()), LEAST_DIFFERENCE)
    same = same and torch.allclose(found, expected, rtol=0, atol=most)
    refuse_unless(
        same,
        "what torch.fx traced",
        "gives other scores. It sees neither forward hooks (old spectral_norm and weight_norm are "
        "such) nor that `h += y` changes a tensor which has another name too: write both out in "
        "the forward pass",
    )


def _advance(plan, part, most_rows):
    """Run a part through the plan; return its two halves if it takes too much memory, else None."""
    while part.step < len(plan.steps):
        step, most = plan.steps[part.step], most_rows[part.step]
        if len(part.alphas) > most:
            return _cut(part, part.alphas[len(part.alphas) // 2])
        if step.kind in ("affine", "reshape", "size"):
            _apply(plan, step, part)
        else:
            cut = _bend(plan, step, part, most)
            if cut is not None:
                return _cut(part, cut)
        _forget(step, part)
        part.step += 1
    return None


def _apply(plan, step, part):
    """Run a step at the present breakpoints."""
    args, kwargs = _arguments(plan, step, part)
    if step.kind == "max_pool":
        result = pool_windows(args[0], *step.call).amax(-1)
    elif step.kind == "size":
        result = _size_of(*args, **kwargs)
    else:
        # A shape may contain the number of points and be indexed; nothing may be computed with it.
        if step.kind == "reshape":
            rows = len(part.alphas)
            args, kwargs = map_aggregate((args, kwargs), lambda x: rows if x is ROWS else x)
        else:
            given = args[1:] if step.call is operator.getitem else (args, kwargs)
            refuse_unless(all(leaf is not ROWS for leaf in _leaves(given)), step.name, WITH_ROWS)
        result = step.call(*args, **kwargs)
    part.values[step.name] = result


def _size_of(value, dim=None):
    """`value.size(dim)`, or the whole shape if `dim` is None or "shape"; rows count as ROWS."""
    shape = (ROWS, *value.shape[1:])
    return shape if dim in (None, "shape") else shape[dim]


def _arguments(plan, step, part):
    def look_up(node):
        return plan.constants[node.name] if node.name in plan.constants else part.values[node.name]

    return map_arg((step.args, step.kwargs), look_up)


def _forget(step, part):
    for name in step.dead:
        part.values.pop(name, None)


def _bend(plan, step, part, most_rows):
    """Insert the breakpoints of a kink or max-pool and run it; if too many, return where to cut."""
    if step.kind == "max_pool":
        return _max_pool(plan, step, part, most_rows)
    for threshold in step.thresholds:
        z = _arguments(plan, step, part)[0][0]
        cut, changes = _insert_crossings(part, z - threshold if threshold else z, most_rows)
        if cut is not None:
            return cut
        _arguments(plan, step, part)[0][0][changes] = threshold
    _apply(plan, step, part)
    return None


def _max_pool(plan, step, part, most_rows):
    """Maximum over windows as a tournament: max(a, b) bends where a - b changes its sign."""
    windows = f"windows of {step.name}"
    part.values[windows] = pool_windows(_arguments(plan, step, part)[0][0], *step.call)
    while part.values[windows].shape[-1] > 1:
        half = part.values[windows].shape[-1] // 2
        first, second, _ = part.values[windows].tensor_split((half, 2 * half), dim=-1)
        cut, changes = _insert_crossings(part, first - second, most_rows)
        if cut is not None:
            # Both halves start the tournament again.
            del part.values[windows]
            return cut
        first, second, rest = part.values[windows].tensor_split((half, 2 * half), dim=-1)
        second[changes] = first[changes]
        part.values[windows] = torch.cat([torch.maximum(first, second), rest], dim=-1)
    part.values[step.name] = part.values.pop(windows).squeeze(-1)
    return None


def pool_windows(z, kernel_size, stride, padding, ceil_mode):
    """Windows of a max-pool of z (P, C, H, W), as (P, C, H_out, W_out, entries of a window).

    The padding is below all of z, so it never wins; unlike -inf it can be interpolated.
    """
    pads = []
    for n, k, s, pad in zip(z.shape[2:], kernel_size, stride, padding, strict=True):
        left_over = (n + 2 * pad - k) % s
        # A last window that would start in the padding on the right is left out, as torch does.
        reaches = ceil_mode and left_over and n + 2 * pad - k - left_over + s < n + pad
        pads.append((pad, pad + (s - left_over if reaches else 0)))
    padded = F.pad(z, (*pads[1], *pads[0]), value=float(z.min()) - 1)
    columns = padded.unfold(2, kernel_size[0], stride[0])
    return columns.unfold(3, kernel_size[1], stride[1]).flatten(4)


def _insert_crossings(part, z, most_rows):
    """Insert the alphas where entries of z (P, ...) change sign: (None, indices of these entries).

    Interpolation gives 0 there only up to rounding, which would decide between equal scores:
    callers set these entries. Returns (the middle alpha, None), inserting nothing, if too many.
    """
    at, entries = sign_changes(part.alphas, z)
    new = distinct(at, part.alphas)
    if len(part.alphas) + len(new) > max(most_rows, FEWEST_ROWS):
        both = torch.cat([part.alphas, new]).sort().values
        return both[len(both) // 2], None
    if len(new):
        _insert(part, new)
    return None, (nearest(at, part.alphas), *entries)


def _insert(part, new):
    """Insert alphas (ascending, none of them present) and interpolate every value there."""
    alphas, order = torch.cat([part.alphas, new]).sort()
    after = torch.searchsorted(part.alphas, new)
    low, high = part.alphas[after - 1], part.alphas[after]
    share = (new - low) / (high - low)

    def resample(value):
        if not isinstance(value, torch.Tensor):
            return value
        weight = share.view(-1, *(1,) * (value.ndim - 1))
        between = torch.lerp(value[after - 1], value[after], weight)
        return torch.cat([value, between])[order]

    part.values = dict(map_aggregate(part.values, resample))
    part.alphas = alphas


def _cut(part, alpha):
    """Two copies of parts of `part`, left and right of an inner alpha, which is a row of both."""
    if not bool((part.alphas == alpha).any()):
        _insert(part, alpha.view(1))
    row = int(torch.searchsorted(part.alphas, alpha))

    def half(rows):
        def copied(value):
            return value[rows].clone() if isinstance(value, torch.Tensor) else value

        return Part(part.step, part.alphas[rows], dict(map_aggregate(part.values, copied)))

    return half(slice(0, row + 1)), half(slice(row, None))


def _tensors(values):
    return [leaf for leaf in _leaves(values) if isinstance(leaf, torch.Tensor)]


def _leaves(values):
    """The leaves of nested tuples, lists, slices and dictionaries."""
    found = []
    map_aggregate(values, found.append)
    return found


def sign_changes(alphas, z):
    """Alphas where entries of z (P, ...) change sign, (K,), and the indices of these entries.

    Each is alpha_p + (alpha_{p+1} - alpha_p) z_p / (z_p - z_{p+1}).
    """
    negative = z < 0
    row, *entries = (negative[1:] != negative[:-1]).nonzero(as_tuple=True)
    before, after = z[(row, *entries)], z[(row + 1, *entries)]
    at = alphas[row] + (alphas[row + 1] - alphas[row]) * (before / (before - after))
    finite = at.isfinite()
    return at[finite], [entry[finite] for entry in entries]


def distinct(at, alphas):
    """Sorted entries of `at` that are BREAKPOINT_TOLERANCE apart, from `alphas` (P,) as well."""
    new = at.sort().values
    new = new[(new - alphas[nearest(new, alphas)]).abs() > BREAKPOINT_TOLERANCE]
    apart = torch.ones(len(new), dtype=torch.bool, device=new.device)
    apart[1:] = new.diff() > BREAKPOINT_TOLERANCE
    return new[apart]


def nearest(at, alphas):
    """Index of the entry of `alphas` (P,), ascending, that is nearest to each of `at`."""
    above = torch.searchsorted(alphas, at).clamp(1, len(alphas) - 1)
    return above - (at - alphas[above - 1] < alphas[above] - at).long()
