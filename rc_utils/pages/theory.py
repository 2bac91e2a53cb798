"""Our results for the statements on two-layer networks and on half-spaces."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rc_utils.correlation import Estimate, interval_text, mean
from rc_utils.paper.verdict import Result
from rc_utils.theory.two_layer.bounds import (
    THEOREM_6,
    Inequality,
    join,
    radius,
    sharpness_cap,
    slopes,
)
from rc_utils.theory.two_layer.half_spaces import Shattering, circle_deviation, vc_dimension
from rc_utils.theory.two_layer.networks import mean_count, pair_counts
from rc_utils.theory.two_layer.training import Training

PAGE = "08_theory"


def bound_result(id_: str, groups: Mapping[str, Mapping[str, Inequality]], words: str = "") -> Result:
    """The result for the statement `id_`: the largest ratio over all groups; `detail` says where it is."""
    checks = {group: by_id[id_] for group, by_id in groups.items()}
    tightest = ", ".join(f"{c.largest_ratio:.3f} {group}" for group, c in checks.items())
    total = join(checks.values())
    detail = f"{total.violations} of {len(total):,} checks violated; tightest: {tightest}" + (
        f"; {words}" if words else ""
    )
    return Result(id_, PAGE, total.largest_ratio, n=len(total), detail=detail)


def rates_table(training: Training, factors: Sequence[float]) -> pd.DataFrame:
    """What a training of `train_over_rates` says about Theorem 6: one row a learning rate.

    Columns: factor (lr in units of 2 / initial sharpness), the means of accuracy, mean_count, allowed =
    2N / r^2 lambda_max + 2 and allowed_edge = 4N / (r^2 lr) + 2, which puts 2 / lr for the sharpness, all over the
    networks that settled, and the numbers of those that diverged and that are dead.
    """
    n, r2 = training.x.shape[1], radius(training.x) ** 2
    columns = {
        "accuracy": training.accuracy,
        "mean_count": mean_count(pair_counts(training.networks(), training.x), n),
        "allowed": 2 * n / r2 * training.sharpness[-1] + 2,
        "allowed_edge": 4 * n / (r2 * training.lr) + 2,
        "diverged": training.diverged,
        "dead": training.dead,
    }
    frame = pd.DataFrame({name: values.cpu().numpy() for name, values in columns.items()})
    frame["factor"] = np.tile(factors, len(frame) // len(factors))
    means = ["accuracy", "mean_count", "allowed", "allowed_edge"]
    frame.loc[~training.settled.cpu().numpy(), means] = np.nan
    how = dict.fromkeys(means, "mean") | {"diverged": "sum", "dead": "sum"}
    return frame.groupby("factor", as_index=False).agg(how)


def edge_table(training: Training) -> pd.DataFrame:
    """One row a network that settled: start and final lr * sharpness, their ratio `growth`, and whether it `reached`
    the edge: whether lr * sharpness was within 5 % of 2, or above, at some kept step, the start included."""
    edge = (training.lr * training.sharpness)[:, training.settled].cpu().numpy()
    columns = {"start": edge[0], "final": edge[-1], "growth": edge[-1] / edge[0]}
    return pd.DataFrame(columns | {"reached": edge.max(0) >= 1.9})


def edge_step_result(groups: Mapping[str, Mapping[str, Inequality]], words: str) -> Result:
    """theory/theorem-6/eta: mean count / (4 N λ_max / r²), which is 4 κ N / (r² η) with κ = η λ_max.

    Where a neuron is active λ_max >= r² / N, so that the 2 of Theorem 6 is at most 2 N λ_max / r².
    """
    cases = join(by_id[THEOREM_6] for by_id in groups.values())
    # What Theorem 6 allows is 2 N λ_max / r² + 2.
    active = cases.allowed > 2
    value = float((cases.measured[active] / (2 * (cases.allowed[active] - 2))).max())
    return Result("theory/theorem-6/eta", PAGE, value, n=int(active.sum()), detail=words)


def assumption_result(trainings: Mapping[str, Training]) -> Result:
    """theory/assumption-2: 2 / η over p λ_max(X Xᵀ) / N, the largest of all networks; n counts those above 1."""
    ratios = [2 / t.lr / sharpness_cap(t.x, t.signs.shape[1]) for t in trainings.values()]
    found = np.concatenate([ratio.cpu().numpy() for ratio in ratios])
    detail = f"at {(found > 1).sum()} of {len(found)} trainings 2 / η is out of reach of every step"
    return Result("theory/assumption-2", PAGE, float(found.max()), n=len(found), detail=detail)


def line_result(line: pd.DataFrame) -> Result:
    """theory/n-dependence: at the largest N of `growth_with_n`, what Theorem 6 allows over what a line can reach."""
    last = line.iloc[-1]
    detail = (
        f"N = {last['N']:.0f} points of that line, fitted exactly: mean count {last['mean_count']:.3g}, at most "
        f"{last['line_allowed']:.3g} for points on any line, {last['allowed']:.3g} by the theorem; orthonormal points "
        "do need the factor"
    )
    return Result("theory/n-dependence", PAGE, last["allowed"] / last["line_allowed"], n=len(line), detail=detail)


def change_per_doubling(counts: np.ndarray, factors: Sequence[float], chosen: np.ndarray) -> Estimate:
    """Mean over initialisations of the `slopes` of their counts at the chosen learning rates."""
    change = slopes(counts[:, chosen], np.asarray(factors)[chosen])
    return mean(change[np.isfinite(change)], "initialisations")


def rate_result(name: str, counts: np.ndarray, factors: Sequence[float], level: float) -> Result:
    """theory/lr on the data set `name`: change of the mean count per doubling of the learning rate, at equal loss.

    counts: of `count_at_loss`. Judged over the rates from 1 on, in units of 2 / λ_max(W₀): there training begins at the
    edge of stability or beyond it. Below it Assumption 2 does not hold; what happens there is said beside it.
    """
    edge = np.asarray(factors) >= 1
    at_edge = change_per_doubling(counts, factors, edge)
    below = change_per_doubling(counts, factors, ~edge | (np.cumsum(edge) == 1))
    detail = (
        f"{name}, first step with a loss of {level:g} or less, {at_edge.n} of {len(counts)} initialisations that get "
        f"there at the edge, with rates from 1 to {max(factors):.3g} times 2/λ_max(W₀); below the edge, from "
        f"{min(factors):g} to 1, {interval_text(below.value, below.low, below.high, '+')} over {below.n}; the count "
        f"is {np.nanmean(counts):.2f} on average"
    )
    found = (at_edge.value, at_edge.low, at_edge.high, at_edge.n)
    return Result("theory/lr", f"two-layer, {name}", *found, detail)


def theorem_5_result(cases: Sequence[Shattering]) -> Result:
    """theory/theorem-5: the VC dimension over k, the largest of the cases; n counts labellings."""
    largest = {case.family: case for case in sorted(cases, key=lambda case: case.points)}
    detail = "; ".join(f"{c.family} in R^{c.dim}: {c.points} points, {c.regions} regions" for c in largest.values())
    detail += "; on a line, and for k = 1, the theorem is true; in every dimension the VC dimension is at least k"
    value = max(vc_dimension(case.regions, case.dim) / case.regions for case in cases)
    return Result("theory/theorem-5", PAGE, value, n=sum(2**case.points for case in cases), detail=detail)


def theorem_5_gap_result(constants: pd.DataFrame) -> Result:
    """theory/theorem-5-gap, from `deviation_constants` and `circle_deviation`, which is 1 at every n."""
    sizes = constants.index
    on_circle = [circle_deviation(int(n)) for n in sizes]
    grows = min(on_circle) == 1
    detail = (
        f"convex bodies in the plane have k = 3, and on a circle the largest deviation is {min(on_circle):.2g} for "
        f"each of n = {', '.join(map(str, sizes))}, as for every n; on a line it is at most "
        f"{constants.max(axis=None):.2f} √(k / n) for k up to {constants.columns.max()}"
    )
    value = math.inf if grows else max(on_circle) * math.sqrt(sizes.max() / 3)
    return Result("theory/theorem-5-gap", PAGE, value, n=len(sizes), detail=detail)
