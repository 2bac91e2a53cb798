"""The inequalities of v1 Lemma 7, Lemma 8 and Theorem 6 (v3 Lemmas 6.4, 6.5, Theorem 6.3).

Each is returned as what was measured and what is allowed. The label of a point is 1[f > 0].
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rc_utils.checks import require
from rc_utils.comparison import mean_interval
from rc_utils.paper import Result
from rc_utils.theory.two_layer import (
    Networks,
    active_neurons,
    mean_count,
    pair_counts,
    pairs,
    random_networks,
    sharpness,
)
from rc_utils.theory.two_layer_examples import line_network, line_sharpness_floor, orthonormal_network, tight_segment
from rc_utils.theory.two_layer_training import Training

LEMMA_7, LEMMA_8, THEOREM_6 = "theory/lemma-7", "theory/lemma-8", "theory/theorem-6"
# Shapes (p, d, N) of the random networks: narrow and wide, few and many inputs, more and fewer points than inputs.
SHAPES = (
    (4, 2, 4),
    (4, 2, 32),
    (16, 2, 16),
    (64, 2, 16),
    (4, 10, 16),
    (16, 10, 4),
    (16, 10, 32),
    (64, 10, 16),
    (64, 40, 16),
)
# Sums of some thousand float64 terms and the eigenvalue of a matrix of some hundred rows: relative error below 1e-12.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Inequality:
    """measured <= allowed, checked in one case an entry; float64 arrays of one shape."""

    measured: np.ndarray
    allowed: np.ndarray

    @property
    def ratios(self) -> np.ndarray:
        """measured / allowed in the cases where anything is allowed; where nothing is, nothing is measured."""
        return self.measured[self.allowed > 0] / self.allowed[self.allowed > 0]

    @property
    def largest_ratio(self) -> float:
        """The tightest case, to 12 decimals: in a case of equality rounding decides the rest. NaN without a case."""
        return round(float(self.ratios.max()), 12) if self.ratios.size else math.nan

    @property
    def violations(self) -> int:
        """How many cases exceed what is allowed by more than rounding."""
        return int((self.measured > self.allowed * (1 + ROUNDING)).sum())

    def __len__(self) -> int:
        return self.measured.size


def lemma_7(networks: Networks, x: Tensor, counts: Tensor | None = None) -> Inequality:
    """R(x_a, x_b) <= N(x_a) + N(x_b) + 2 for all pairs of points of all networks (v1 Lemma 7).

    counts: those of `pair_counts`, if they are at hand.
    """
    counts = pair_counts(networks, x) if counts is None else counts
    active = active_neurons(networks, x)
    i, j = pairs(x.shape[1])
    return _inequality(counts, active[:, i] + active[:, j] + 2)


def lemma_8(networks: Networks, x: Tensor) -> Inequality:
    """r^2 / N^2 sum_i N(x_i) <= lambda_max, r = min_i |x_i|, one case a network (v1 Lemma 8)."""
    n = x.shape[1]
    return _inequality(_radius(x) ** 2 / n**2 * active_neurons(networks, x).sum(1), sharpness(networks, x))


def theorem_6(networks: Networks, x: Tensor, counts: Tensor | None = None) -> Inequality:
    """Mean count over the N^2 pairs <= 2N / r^2 lambda_max + 2, one case a network (last line of v1's proof)."""
    n = x.shape[1]
    counts = pair_counts(networks, x) if counts is None else counts
    return _inequality(mean_count(counts, n), 2 * n / _radius(x) ** 2 * sharpness(networks, x) + 2)


def _radius(x: Tensor) -> Tensor:
    """r of Assumption 1, the smallest norm of a training point, (M,)."""
    return x.norm(dim=2).amin(1)


def _inequality(measured: Tensor, allowed: Tensor) -> Inequality:
    return Inequality(*(t.double().cpu().numpy().ravel() for t in (measured, allowed)))


def join(parts: Iterable[Inequality]) -> Inequality:
    """All cases of several inequalities as one."""
    parts = list(parts)
    return Inequality(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("measured", "allowed")))


def check_all(networks: Networks, x: Tensor) -> dict[str, Inequality]:
    """The three inequalities by the id of their published statement, with one count of the segments."""
    counts = pair_counts(networks, x)
    return {
        LEMMA_7: lemma_7(networks, x, counts),
        LEMMA_8: lemma_8(networks, x),
        THEOREM_6: theorem_6(networks, x, counts),
    }


def check_random(number: int, *, seed: int = 0, device: str = "cpu") -> dict[str, Inequality]:
    """The three inequalities on `number` random networks of each of the SHAPES, at random points of R^d."""
    checks = []
    for index, (hidden, dim, n) in enumerate(SHAPES):
        networks = random_networks(number, hidden, dim, seed=seed * len(SHAPES) + index, device=device)
        generator = torch.Generator().manual_seed(seed * len(SHAPES) + index)
        x = torch.randn(number, n, dim, generator=generator, dtype=torch.float64).to(device)
        checks.append(check_all(networks, x))
    return _join_all(checks)


def check_trained(trainings: Iterable[Training], every: int = 1) -> dict[str, Inequality]:
    """The three inequalities on trained networks, at every `every`-th of the kept steps counted from the last.

    A network that has not moved until the next of these steps, since it diverged or died, is checked there alone.
    """
    checks = []
    for t in trainings:
        indices = list(range(len(t.steps) - 1, -1, -every))
        for index, later in zip(indices, [None, *indices], strict=False):
            moved = torch.ones(len(t.lr), dtype=torch.bool, device=t.x.device)
            if later is not None:
                moved = (t.weights[index] != t.weights[later]).flatten(1).any(1)
            if moved.any():
                checks.append(check_all(Networks(t.weights[index][moved], t.signs[moved]), t.x[moved]))
    return _join_all(checks)


def _join_all(checks: list[dict[str, Inequality]]) -> dict[str, Inequality]:
    return {key: join(check[key] for check in checks) for key in checks[0]}


def growth_with_n(name: str, sizes, *, bends: int = 16) -> pd.DataFrame:
    """One row an N of a constructed family, `line` or `orthonormal`: N, mean_count, sharpness (in r^2), allowed, floor.

    floor is 2N `line_sharpness_floor` / r^2 + 2, the least that Theorem 6 can allow for these points; NaN for the
    other family.
    """
    require(name in ("line", "orthonormal"), f"no family {name!r}; there are line and orthonormal")
    rows = []
    for n in sizes:
        if name == "line":
            t = torch.linspace(-1, 1, n, dtype=torch.float64)
            networks, x = line_network(n), torch.stack([torch.ones_like(t), t], 1).unsqueeze(0)
        else:
            networks, x = orthonormal_network(n, bends)
        r2 = float(_radius(x)) ** 2
        result = theorem_6(networks, x)
        floor = 2 * n * line_sharpness_floor(n) / r2 + 2 if name == "line" else math.nan
        rows.append((n, result.measured[0], float(sharpness(networks, x)) / r2, result.allowed[0], floor))
    return pd.DataFrame(rows, columns=["N", "mean_count", "sharpness", "allowed", "floor"])


def check_constructed(sizes=(2, 4, 8, 16, 32), bends: int = 16) -> dict[str, Inequality]:
    """The three inequalities on the networks made to be tight: `tight_segment` and `orthonormal_network`."""
    cases = [tight_segment(), *(orthonormal_network(n, bends) for n in sizes)]
    return _join_all([check_all(*case) for case in cases])


def rates_table(training: Training, factors: Sequence[float], *, level: float = 0.05) -> pd.DataFrame:
    """What a training of `train_over_rates` says about Theorem 6: one row a learning rate, over networks that settled.

    Columns: factor (lr in units of 2 / initial sharpness), lr (geometric mean), diverged, dead, settled (numbers of
    networks), edge (median of lr * sharpness), and means of accuracy, mean_count, allowed = 2N / r^2 lambda_max + 2,
    allowed_edge = 4N / (r^2 lr) + 2, which puts 2 / lr for the sharpness, constant = mean_count r^2 lr / N, and
    count_at_loss, the mean count at the first kept step with a loss of at most `level` (NaN unless all that settled
    reach it). All but the numbers are over the same networks, those that settled.
    """
    n, number = training.x.shape[1], len(factors)
    counts = mean_count(pair_counts(training.networks(), training.x), n)
    early, reached = training.networks_at_loss(level)
    r2, sharp = _radius(training.x) ** 2, training.sharpness[-1]
    columns = {
        "lr": training.lr.log(),
        "edge": training.lr * sharp,
        "accuracy": training.accuracy,
        "mean_count": counts,
        "allowed": 2 * n / r2 * sharp + 2,
        "allowed_edge": 4 * n / (r2 * training.lr) + 2,
        "constant": counts * r2 * training.lr / n,
        "count_at_loss": torch.where(reached, mean_count(pair_counts(early, training.x), n), math.nan),
        "diverged": training.diverged,
        "dead": training.dead,
        "settled": training.settled,
    }
    frame = pd.DataFrame({name: values.cpu().numpy() for name, values in columns.items()})
    frame["factor"] = np.tile(factors, len(frame) // number)
    means = ["lr", "accuracy", "mean_count", "allowed", "allowed_edge", "constant", "count_at_loss"]
    frame[["edge", *means]] = frame[["edge", *means]].where(frame["settled"])
    groups = frame.groupby("factor", as_index=False)
    table = groups[means].mean()
    table["lr"] = np.exp(table["lr"])
    missed = (frame["settled"] & frame["count_at_loss"].isna()).groupby(frame["factor"]).any()
    table["count_at_loss"] = table["count_at_loss"].where(~missed.to_numpy())
    table["edge"] = groups["edge"].median()["edge"]
    return table.join(groups[["diverged", "dead", "settled"]].sum().drop(columns="factor"))


def edge_table(training: Training, *, near: float = 0.95) -> pd.DataFrame:
    """One row a network that settled: start and final lr * sharpness, their ratio `growth`, and whether it `reached`
    the edge: whether lr * sharpness was at least 2 * near at some kept step, the start included."""
    edge = (training.lr * training.sharpness)[:, training.settled].cpu().numpy()
    columns = {"start": edge[0], "final": edge[-1], "growth": edge[-1] / edge[0]}
    return pd.DataFrame(columns | {"reached": edge.max(0) >= 2 * near})


def edge_words(table: pd.DataFrame) -> str:
    """What the networks of an `edge_table` did, in words."""
    parts = []
    for reached, where in ((True, "came to the edge or began beyond it"), (False, "never came near it")):
        rows = table[table["reached"] == reached]
        text = f"{len(rows)} of {len(table)} {where}"
        if len(rows):
            held, growth = rows["final"].between(1, 2).mean(), rows["growth"]
            text += f" and end at η λ_max from {rows['final'].min():.2g} to {rows['final'].max():.2g}"
            text += f", {held:.0%} of them in [1, 2]" if reached else ""
            text += f", λ_max {growth.min():.2f} to {growth.max():.2f} times its initial value"
        parts.append(text)
    return "; ".join(parts)


@dataclass(frozen=True)
class CountChange:
    """Change of the mean count from the learning rate `low_factor` to `high_factor`, with its 95 % interval over n
    initialisations."""

    low_factor: float
    high_factor: float
    value: float
    low: float
    high: float
    n: int


def count_change(training: Training, factors: Sequence[float], *, seed: int = 0) -> CountChange:
    """Paired change of the mean count between the smallest and the largest lr at which all networks settle.

    For a training of `train_over_rates`; the interval, `mean_interval`, is over initialisations. Raises
    ValueError where networks of fewer than two learning rates all settle.
    """
    number = len(factors)
    counts = mean_count(pair_counts(training.networks(), training.x), training.x.shape[1]).view(-1, number)
    usable = torch.where(training.settled.view(-1, number).all(0))[0].tolist()
    require(len(usable) >= 2, f"all networks settle at {len(usable)} learning rates; expected 2 at least, take smaller")
    first, last = usable[0], usable[-1]
    change = (counts[:, last] - counts[:, first]).cpu().numpy()
    low, high = mean_interval(change, seed=seed)
    return CountChange(factors[first], factors[last], float(change.mean()), low, high, len(change))


def count_change_result(name: str, change: CountChange) -> Result:
    """The result of theory/lr on the data set `name`."""
    words = f"{name}, η from {change.low_factor:.2g} to {change.high_factor:.2g} times 2/λ_max(W₀)"
    return Result("theory/lr", "two-layer", change.value, change.low, change.high, change.n, words)


def summary_table(groups: Mapping[str, Mapping[str, Inequality]]) -> pd.DataFrame:
    """One row an inequality and group of networks: checks, violations, tightest and median ratio, as texts."""
    names = {LEMMA_7: "Lemma 7", LEMMA_8: "Lemma 8", THEOREM_6: "Theorem 6"}
    rows = []
    for key, name in names.items():
        for group, checks in groups.items():
            c = checks[key]
            rows.append(
                {
                    "Statement": name,
                    "Networks": group,
                    "Checks": f"{len(c):,}",
                    "Violations": c.violations,
                    "Largest ratio": f"{c.largest_ratio:.4f}",
                    "Median ratio": f"{np.median(c.ratios):.4f}",
                }
            )
    return pd.DataFrame(rows)


def bound_result(id_: str, groups: Mapping[str, Mapping[str, Inequality]], words: str = "") -> Result:
    """The result for the published statement `id_`: the largest ratio over all groups; `detail` says where it is."""
    checks = {group: by_id[id_] for group, by_id in groups.items()}
    tightest = ", ".join(f"{c.largest_ratio:.3f} {group}" for group, c in checks.items())
    total = join(checks.values())
    detail = f"{total.violations} of {len(total):,} checks violated; tightest: {tightest}" + (
        f"; {words}" if words else ""
    )
    return Result(id_, "two-layer", total.largest_ratio, n=len(total), detail=detail)
