"""The published values, and the rule by which ours are held against them.

The rule, for a published value p and our value with its interval [low, high]; p counts as inside the interval when the
interval meets p ± half a unit of its last printed decimal:

- No result of ours: **not tested here**. A result that says why the statement cannot be checked: **not checkable**. A
  value without an interval: **not resolved** (except for a bound).
- An *effect* (a correlation, a change): **disagrees** if the interval excludes 0 on the other side, or if all of it is
  nearer to 0 than p / 2, which leaves no room for half of the published effect; otherwise **not resolved** if the
  interval includes 0. What is left has the published sign: it **agrees** if only a direction was published, or if p is
  inside and the whole interval beyond p / 2; else it **agrees in direction**, because p is outside, or because the
  interval is too wide to tell p from half of it.
- A *level* (a mean count, a gap): **agrees** if p is inside, else **disagrees**. Levels depend on the data and the
  network: hand in a result for a level only where it was measured in the published setting.
- A *settled* number, said not to change with more points or segments: **agrees** if the interval of its change lies
  within one unit of the last printed decimal of p, which is the difference of two printed numbers, **disagrees** if it
  lies outside, else **not resolved**.
- A change of which only is said that it *differs* from none: **agrees** if the interval excludes 0, else **not
  resolved**.
- A *strong* correlation, said to be high without a number, is an effect with 0.5 for p / 2: **disagrees** on the other
  side of 0 or where all of the interval is nearer to 0 than 0.5, **not resolved** if it includes 0, **agrees** if all
  of it lies beyond 0.5, else **agrees in direction**. The 0.5 is ours.
- A *weak* correlation, said to be low without a number: **agrees** if the interval lies within (-0.5, 0.5),
  **disagrees** if it lies outside, else **not resolved**. The 0.5 is ours.
- A *bound*: **agrees** if the largest ratio of measured to allowed is at most 1, else **disagrees**. Where the ratio is
  an estimate, as that of a promised share to the share found, its interval decides: **agrees** if it lies at or below
  1, **disagrees** if above, else **not resolved**.
- A statement that an argument settles is not measured, and counts among no verdicts: **proved** where its page gives a
  proof and no case exceeds it, **refuted by argument** where its page computes a counterexample. A case that exceeds a
  proved bound would disagree, and a counterexample that does not break its statement would leave it not resolved.
"""

from __future__ import annotations

import csv
import difflib
import pathlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from rc_utils.paper import published_tables as tables
from rc_utils.paper.published_claims import CLAIMS, Published

AGREES = "agrees"
AGREES_IN_DIRECTION = "agrees in direction"
DISAGREES = "disagrees"
NOT_RESOLVED = "not resolved"
NOT_CHECKABLE = "not checkable"
NOT_TESTED = "not tested here"
VERDICTS = (AGREES, AGREES_IN_DIRECTION, NOT_RESOLVED, DISAGREES, NOT_CHECKABLE, NOT_TESTED)
PROVED = "proved"
REFUTED = "refuted by argument"
ARGUMENTS = (PROVED, REFUTED)
WEAK = 0.5

_NAN = float("nan")
_ORDER = (
    *("main", "trees", "bias", "motivation", "test accuracy", "grid size", "sample size", "range", "evolution"),
    *("architectures", "optimizers", "hyperplanes", "mixup", "crop-flip", "theory", "safran", "loukas"),
)


def rule() -> str:
    """The rule of this module's text, as Markdown."""
    return str(__doc__).partition("\n\n")[2]


@dataclass(frozen=True)
class Result:
    """One result of ours for the published statement `id`; NaN stands for a number that cannot be had.

    `low` and `high` bound `value`, `n` counts what the value rests on (cells unless `detail` says otherwise). A NaN
    `value` with a `detail` says why the statement cannot be checked. `same_as` is the id of the statement whose result
    this one repeats, a number that the paper prints twice; what counts verdicts passes over it where that result is
    there and has the same number over as many cells.
    """

    id: str
    campaign: str
    value: float
    low: float = _NAN
    high: float = _NAN
    n: int = 0
    detail: str = ""
    same_as: str = ""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison (one of this module's six labels) and one sentence that says why."""

    label: str
    why: str


def _network_grid(
    prefix: str, columns: tuple[str, ...], rows: tuple[tuple[float, ...], ...], source: str
) -> Iterator[Published]:
    for network, row in zip(tables.NETWORKS, rows, strict=True):
        for column, value in zip(columns, row, strict=True):
            claim = f"the count of {network} correlates with its gap ({prefix}: {column})"
            quantity = f"correlation of count and gap, {network}, {column}"
            yield Published(f"{prefix}/{network}/{column}", prefix, source, claim, quantity, value=value)


def _network_claims() -> Iterator[Published]:
    for network in tables.MAIN_NETWORKS:
        claim, quantity = f"the count of {network} correlates with its gap", f"correlation of count and gap, {network}"
        yield Published(f"main/{network}", "main", "v1 Fig 2 left, v3 Fig 4", claim, quantity, value=0.98)
    for network in (*tables.MAIN_NETWORKS, "overall"):
        for factor, words, sign in (("lr", "a larger lr", "negative"), ("batch-size", "a larger batch", "positive")):
            claim = f"{words} gives {'fewer' if sign == 'negative' else 'more'} regions ({network})"
            quantity = f"change of count per doubling of {factor.replace('-', ' ')}, {network}"
            yield Published(f"bias/{factor}/{network}", "bias", "v1 Fig 3, v3 Fig 5", claim, quantity, direction=sign)
    for network in tables.NETWORKS:
        claim = f"the count of {network} falls with its test accuracy"
        quantity = f"correlation of count and test accuracy, {network}, CIFAR-10"
        where = "v1 Fig 5, v3 Fig 8"
        yield Published(
            f"test-accuracy/{network}", "test accuracy", where, claim, quantity, "strong", direction="negative"
        )


def _count_levels() -> Iterator[Published]:
    for dim, rows in tables.GRID_SIZE.items():
        for points, value in rows:
            claim, what = f"mean count with {points} points per edge, {dim}-D", "mean count, CIFAR-10"
            yield Published(
                f"grid-size/{dim}d/{points}", "grid size", tables.GRID_SIZE_SOURCE, claim, what, "level", value
            )
    for samples, value in tables.SAMPLE_SIZE:
        claim, source = f"mean count over {samples} segments", tables.SAMPLE_SIZE_SOURCE
        yield Published(f"sample-size/{samples}", "sample size", source, claim, "mean count, CIFAR-10", "level", value)
    for span, count, value in tables.RANGE:
        source, what = tables.RANGE_SOURCE, "ResNet18, CIFAR-10"
        claim = f"mean count for alpha in {span}"
        yield Published(f"range/{span}/count", "range", source, claim, f"mean count, {what}", "level", count)
        claim, quantity = f"count and gap correlate for alpha in {span}", f"correlation of count and gap, {what}"
        yield Published(f"range/{span}/correlation", "range", source, claim, quantity, value=value)


def _evolution() -> Iterator[Published]:
    what = "ResNet18, CIFAR-10"
    for epoch, count, gap_v1, gap_v3, correlation in tables.EVOLUTION:
        for name, source, value, kind, decimals in (
            ("count", tables.EVOLUTION_SOURCE, count, "level", 2),
            ("gap-v1", "v1 Table 6", gap_v1, "level", 2),
            ("gap-v3", "v3 Table 3", None if gap_v3 is None else round(gap_v3 / 100, 3), "level", 3),
            ("correlation", tables.EVOLUTION_SOURCE, correlation, "effect", 2),
        ):
            if value is not None:
                words = {"count": "mean count", "correlation": "correlation of count and gap"}.get(name, "mean gap")
                claim = f"{words} after epoch {epoch}"
                id_ = f"evolution/{name}/{epoch}"
                yield Published(id_, "evolution", source, claim, f"{words}, {what}", kind, value, decimals=decimals)


def _theory() -> Iterator[Published]:
    """The theorems, and what the papers on them say of trends: one row a statement of published_theory.csv."""
    with (pathlib.Path(__file__).parent / "published_theory.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield Published(experiment=row["id"].split("/")[0], **row | {"direction": row["direction"] or None})


@cache
def _all() -> dict[str, Published]:
    grids = (
        ("architectures", tables.ARCHITECTURES_COLUMNS, tables.ARCHITECTURES, tables.ARCHITECTURES_SOURCE),
        ("optimizers", tables.OPTIMIZERS_COLUMNS, tables.OPTIMIZERS, tables.OPTIMIZERS_SOURCE),
        ("hyperplanes", tables.HYPERPLANES_COLUMNS, tables.HYPERPLANES, tables.HYPERPLANES_SOURCE),
    )
    entries = [*CLAIMS, *_network_claims(), *_count_levels(), *_evolution(), *_theory()]
    entries += [entry for grid in grids for entry in _network_grid(*grid)]
    entries.sort(key=lambda entry: _ORDER.index(entry.experiment))
    return {entry.id: entry for entry in entries}


def _nearest(name: str, known: Iterable[str], what: str) -> str:
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.3)
    return f"no {what} {name!r}" + (f"; did you mean {near[0]!r}?" if near else f"; there are {len(known)}")


def published(id_: str) -> Published:
    """The published statement with this id, such as "main/overall". Raises ValueError naming the nearest id."""
    if id_ not in _all():
        raise ValueError(_nearest(id_, _all(), "published value"))
    return _all()[id_]


def _judge_effect(entry: Published, low: float, high: float) -> Verdict:
    p = entry.value
    positive = entry.direction == "positive" if p is None else p > 0
    half = abs(p) / 2 if p is not None else WEAK if entry.kind == "strong" else 0.0
    if (low > 0 and not positive) or (high < 0 and positive):
        return Verdict(DISAGREES, f"our interval excludes 0 on the other side, the claim is {_shown(entry)}")
    if max(-low, high) < half:
        return Verdict(DISAGREES, f"our interval lies within ±{half:g}, the claim is {_shown(entry)}")
    if low <= 0 <= high:
        return Verdict(NOT_RESOLVED, "our interval includes 0: these data do not settle the sign")
    if p is not None and not _holds(low, high, entry):
        side = "above" if p > high else "below"
        return Verdict(AGREES_IN_DIRECTION, f"same sign, but the published value lies {side} our interval")
    if min(abs(low), abs(high)) < half:
        return Verdict(AGREES_IN_DIRECTION, f"same sign, but our interval reaches below {half:g}")
    if p is None:
        return Verdict(AGREES, f"our interval lies beyond {half:g}, with the published sign ({_shown(entry)})")
    return Verdict(AGREES, f"our interval holds the published value, as printed to {entry.decimals} decimals")


def _holds(low: float, high: float, entry: Published) -> bool:
    """Whether the interval meets the published value, give or take half a unit of its last decimal."""
    half_unit = 0.5 * 10.0**-entry.decimals
    return low <= entry.value + half_unit and entry.value - half_unit <= high


def _judge_level(entry: Published, low: float, high: float) -> Verdict:
    if _holds(low, high, entry):
        return Verdict(AGREES, f"our interval holds the published value, as printed to {entry.decimals} decimals")
    return Verdict(DISAGREES, f"the published value lies {'above' if entry.value > high else 'below'} our interval")


def _judge_settled(entry: Published, low: float, high: float) -> Verdict:
    # The difference of two rounded numbers is known to a whole unit.
    unit = 10.0**-entry.decimals
    least, most, printed = entry.value - unit, entry.value + unit, f"{_shown(entry)} ± {unit:g}"
    if least <= low and high <= most:
        return Verdict(AGREES, f"our interval lies within {printed}")
    if low > most or high < least:
        return Verdict(DISAGREES, f"our interval lies outside {printed}")
    return Verdict(NOT_RESOLVED, f"our interval reaches beyond {printed}")


def _judge_differs(low: float, high: float) -> Verdict:
    if low > 0 or high < 0:
        return Verdict(AGREES, "our interval excludes 0, and no direction is claimed")
    return Verdict(NOT_RESOLVED, "our interval includes 0")


def _judge_weak(low: float, high: float) -> Verdict:
    if low > -WEAK and high < WEAK:
        return Verdict(AGREES, f"our interval lies within ±{WEAK}")
    if low >= WEAK or high <= -WEAK:
        return Verdict(DISAGREES, f"our interval lies outside ±{WEAK}: the correlation is not low")
    return Verdict(NOT_RESOLVED, f"our interval reaches across ±{WEAK}")


def _judge_estimated_bound(low: float, high: float) -> Verdict:
    if high <= 1:
        return Verdict(AGREES, "our interval lies at or below 1")
    if low > 1:
        return Verdict(DISAGREES, "our interval lies above 1")
    return Verdict(NOT_RESOLVED, "our interval reaches across 1")


def _judge_argument(kind: str, value: float) -> Verdict:
    if kind == "proved":
        if value <= 1:
            return Verdict(PROVED, f"no case exceeds it (largest ratio {value:.3g}), and none can")
        return Verdict(DISAGREES, f"a case exceeds it (largest ratio {value:.3g}), which the proof rules out")
    if value > 1:
        words = "without bound" if np.isinf(value) else f"by a factor of {value:.3g}"
        return Verdict(REFUTED, f"a counterexample exceeds it {words}")
    return Verdict(NOT_RESOLVED, f"the counterexample does not exceed it (ratio {value:.3g})")


def verdict(entry: Published, value: float | None, low: float = _NAN, high: float = _NAN) -> Verdict:
    """Hold our `value` and its interval [`low`, `high`] against a published statement, by this module's rule.

    None or NaN for `value` means that we have none. Raises ValueError for an interval whose ends are the wrong way
    round. (A percentile interval need not contain the value itself.)
    """
    if value is None or np.isnan(value):
        return Verdict(NOT_TESTED, "no result of ours yet")
    if entry.kind in ("proved", "refuted"):
        return _judge_argument(entry.kind, value)
    if entry.kind == "bound":
        if np.isfinite(low) and np.isfinite(high):
            return _judge_estimated_bound(low, high)
        if value <= 1:
            return Verdict(AGREES, f"no case exceeds the bound (largest ratio {value:.3g})")
        return Verdict(DISAGREES, f"a case exceeds the bound (largest ratio {value:.3g})")
    if np.isnan(low) or np.isnan(high):
        return Verdict(NOT_RESOLVED, "too little data, or none that varies, for an interval")
    if low > high:
        raise ValueError(f"the interval of {entry.id!r} is [{low}, {high}]; expected its low end first")
    if entry.kind == "weak":
        return _judge_weak(low, high)
    if entry.kind == "differs":
        return _judge_differs(low, high)
    if entry.kind == "settled":
        return _judge_settled(entry, low, high)
    return _judge_level(entry, low, high) if entry.kind == "level" else _judge_effect(entry, low, high)


def _shown(entry: Published) -> str:
    if entry.value is not None:
        return f"{entry.value:.{entry.decimals}f}"
    if entry.kind in ("bound", "proved", "refuted"):
        return "at most 1"
    words = {"weak": "low", "strong": f"high, {entry.direction}", "differs": "other than 0"}
    return words.get(entry.kind) or str(entry.direction)


def _repeats(result: Result | None, others: Iterable[Result]) -> bool:
    """Whether a result is that of another statement, but for rounding and sign."""
    return result is not None and any(
        (other.campaign, other.n) == (result.campaign, result.n) and abs(abs(other.value) - abs(result.value)) < 0.01
        for other in others
    )


def _judged(entry: Published, result: Result | None, repeats: bool) -> Verdict:
    """The verdict on a result, with what the result says of itself; on none, what it would take."""
    if result is None:
        needs = "a level, which only the paper's own setting can test" if entry.kind == "level" else ""
        return Verdict(NOT_TESTED, needs or "no result of ours yet")
    if np.isnan(result.value) and result.detail:
        return Verdict(NOT_CHECKABLE, result.detail)
    judged = verdict(entry, result.value, result.low, result.high)
    if repeats:
        return Verdict(judged.label, f"the number of {result.same_as} but for rounding and sign, not counted again")
    return Verdict(judged.label, f"{judged.why} ({result.detail})" if result.detail else judged.why)


def _row(entry: Published, result: Result | None, repeats: bool) -> dict[str, object]:
    judged = _judged(entry, result, repeats)
    found = result or Result(entry.id, "", _NAN)
    bounded = np.isfinite(found.low) and np.isfinite(found.high)
    return {
        "id": entry.id,
        "where": entry.source,
        "campaign": found.campaign,
        "claim": entry.claim,
        "published": _shown(entry),
        "ours": "unbounded" if np.isinf(found.value) else f"{found.value:.3g}" if np.isfinite(found.value) else "",
        "interval": f"[{found.low:.3g}, {found.high:.3g}]" if bounded else "",
        "n": found.n,
        "verdict": judged.label,
        "why": judged.why,
        "counted": result is not None and not repeats and judged.label not in ARGUMENTS,
    }


def scorecard(results: Iterable[Result] = (), experiment: str | None = None) -> pd.DataFrame:
    """Every published statement beside our results, one row a result and one for each statement without any.

    Columns: id, where, campaign, claim, published, ours, interval, n, verdict, why, counted (whether the row is a
    result of ours that repeats no other and that no argument settles); in the order of the paper, texts ready to print.
    `experiment` keeps one experiment, such as "main". Raises ValueError for a result with an unknown id, or an unknown
    experiment.
    """
    by_id: dict[str, list[Result]] = {}
    for result in results:
        by_id.setdefault(published(result.id).id, []).append(result)
    if experiment is not None and experiment not in _ORDER:
        raise ValueError(_nearest(experiment, _ORDER, "experiment"))
    entries = [entry for entry in _all().values() if experiment in (None, entry.experiment)]
    rows = [(entry, result) for entry in entries for result in by_id.get(entry.id) or [None]]
    return pd.DataFrame(
        [
            _row(entry, result, _repeats(result, by_id.get(result.same_as, []) if result else []))
            for entry, result in rows
        ]
    )
