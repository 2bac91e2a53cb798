"""Statements of the papers, results of this book, and a verdict by one rule.

1. A statement claims a range: above its smallest effect, below the negative of it, within it or
   outside it; a level within a tenth of the printed number, a bound at most 1.
2. **supports**: our 95 % interval lies wholly in that range.
3. **contradicts**: our interval lies wholly out of it.
4. **inconclusive**: anything else, a value without an interval too. No result, no verdict.
5. How near our number is to the printed one stands beside the verdict and has no part in it.

The smallest effects of interest were fixed for each kind of statement, not for each result:

| kind | smallest effect | reason |
|---|---|---|
| correlation, or a change of one | 0.5 | a quarter of the variance; a low one lies within it |
| change of a mean count | 0.1 regions | less than the standard error, some 0.15, of 100 segments |
| slope | 0.05 regions per doubling | some 0.15 regions over the tenfold range of rates here |
| gap or accuracy | 0.01 | one image in a hundred |
| logarithm of a ratio | 0.1 | ten percent |
| relative change | 0 | the statement says that a function does not increase, or never falls |
| bound | ratio at most 1 | a bound holds or does not |

The rule was made on 23 November 2026, when the results of this book were known and before any study
of the protocol was looked at. A statement that an argument settles is not measured and counts among
no verdicts: **proved** where its page gives a proof and no case exceeds it, **refuted by argument**
where its page computes a counterexample.
"""

import dataclasses
import functools
import math
import os
import pathlib
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from rc_utils.checks import check_name, require
from rc_utils.correlation import average_replicates, correlate_settings, finished, interval_text
from rc_utils.paths import project_root, write_atomically

VERDICTS = ("supports", "inconclusive", "contradicts")
SUPPORTS, INCONCLUSIVE, CONTRADICTS = VERDICTS
ARGUMENTS = ("proved", "refuted by argument")
NO_RESULT = "no result"
RESULTS = "RC_BOOK_RESULTS"
"""Environment variable: the file for the results of the page that a build of the book executes."""
_NAN = float("nan")


def rule() -> str:
    """The rule of this module's text, as Markdown."""
    return str(__doc__).partition("\n\n")[2]


# Statements -----------------------------------------------------------------------------------


@functools.cache
def statements() -> pd.DataFrame:
    """Statements and numbers of the papers, one row each, as texts, indexed by id.

    Rows are in the order of the paper; v1 is the first version of the region-count paper and v3 its
    third. Where both print a table the numbers are the same unless the table says otherwise.
    Columns: group, statement, quantity, source, kind, side and smallest (the claim, see
    `Published`), value (as printed, or empty), page (the notebook that tests it).
    """
    path = pathlib.Path(__file__).with_name("published.csv")
    return pd.read_csv(path, dtype=str, keep_default_na=False).set_index("id")


MAIN_NETWORKS = ("ResNet18", "EfficientNetB0", "SENet18")
_FIRST_TABLE = [id_ for id_ in statements().index if id_.startswith("architectures/")]
NETWORKS = tuple(dict.fromkeys(id_.split("/")[1] for id_ in _FIRST_TABLE))


def printed_numbers(prefix: str) -> pd.Series:
    """Printed numbers of the ids "<prefix>/<number>", such as "grid-size/1d", by that number."""
    values = statements()["value"]
    ends = values.index.str.removeprefix(f"{prefix}/")
    chosen = ends.str.isdigit() & values.index.str.startswith(prefix)
    return pd.Series(values[chosen].astype(float).to_numpy(), ends[chosen].astype(int)).sort_index()


@dataclasses.dataclass(frozen=True)
class Published:
    """One published statement, a row of published.csv.

    `kind` says what is measured and `side` ("above", "below", "within", "outside") with `smallest`
    what is claimed of it. `value` is the printed number, None where only words were printed, and
    `decimals` how many it has.
    """

    id: str
    experiment: str
    source: str
    claim: str
    quantity: str
    kind: str
    side: str
    smallest: float
    value: float | None = None
    decimals: int = 2
    page: str = ""

    def claimed(self) -> tuple[float, float]:
        """The ends of the claimed range, or of what it leaves out where the side is "outside"."""
        if self.kind in ("bound", "proved", "refuted"):
            return -math.inf, self.smallest
        if self.side == "above":
            return self.smallest, math.inf
        if self.side == "below":
            return -math.inf, -self.smallest
        centre = self.value or 0.0 if self.kind == "level" else 0.0
        return centre - self.smallest, centre + self.smallest

    def shown(self) -> str:
        """The printed number, or the words for what was claimed without one."""
        if self.value is not None:
            return f"{self.value:.{self.decimals}f}"
        if self.kind in ("bound", "proved", "refuted"):
            return "at most 1"
        words = {"above": "positive", "below": "negative", "within": "low"}
        return words.get(self.side, "other than 0")


def published(id_: str) -> Published:
    """Statement with this id, such as "main/overall". Raises ValueError naming the nearest id."""
    check_name("published value", id_, statements().index)
    row = statements().loc[id_]
    return Published(
        id_, row["group"], row["source"], row["statement"], row["quantity"], row["kind"], row["side"],
        float(row["smallest"]), float(row["value"]) if row["value"] else None,
        len(row["value"].partition(".")[2]), row["page"],
    )  # fmt: skip


# Verdicts -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison and one sentence that says why."""

    label: str
    why: str


def verdict(entry: Published, value: float | None, low: float = _NAN, high: float = _NAN) -> Verdict:
    """Verdict on our `value` with interval [`low`, `high`], by this module's rule.

    None or NaN for `value` means that we have none. A bound is judged by its largest ratio where
    that has no interval. Raises ValueError for an interval whose ends are the wrong way round.
    """
    if value is None or math.isnan(value):
        return Verdict(NO_RESULT, "no result of ours yet")
    if entry.kind == "proved":
        if value <= 1:
            return Verdict(ARGUMENTS[0], f"no case exceeds it (largest ratio {value:.3g}), and none can")
        return Verdict(CONTRADICTS, f"a case exceeds it (largest ratio {value:.3g}), which the proof rules out")
    if entry.kind == "refuted":
        by = "without bound" if math.isinf(value) else f"by a factor of {value:.3g}"
        if value > 1:
            return Verdict(ARGUMENTS[1], f"a counterexample exceeds it {by}")
        return Verdict(INCONCLUSIVE, f"the counterexample does not exceed it (ratio {value:.3g})")
    if entry.kind == "bound" and math.isnan(low):
        low = high = value
    if math.isnan(low) or math.isnan(high):
        return Verdict(INCONCLUSIVE, "too little data, or none that varies, for an interval")
    require(low <= high, f"the interval of {entry.id!r} is [{low}, {high}]; expected its low end first")
    least, most = entry.claimed()
    ends = {"above": f"above {least:g}", "below": f"at or below {most:g}"}
    words = ends.get(entry.side, f"{entry.side} [{least:.3g}, {most:.3g}]")
    inside = least <= low and high <= most
    apart = high < least or low > most
    if entry.side == "outside":
        inside, apart = apart, inside
    if inside:
        return Verdict(SUPPORTS, f"our interval lies {words}")
    if apart:
        return Verdict(CONTRADICTS, f"no part of our interval lies {words}")
    return Verdict(INCONCLUSIVE, f"only a part of our interval lies {words}")


# Results of pages: what the scorecard, the first page, README and article read ------------------


@dataclasses.dataclass(frozen=True)
class Result:
    """Result of ours for the published statement `id`; NaN stands for a number that cannot be had.

    `low` and `high` bound `value`, `n` counts what the value rests on (settings unless `detail`
    says otherwise). A NaN `value` with a `detail` says why there is none. `same_as` is the id of
    the statement whose result this one repeats, a number that the paper prints twice; what counts
    verdicts passes over it where that result is there and has the same number over as many
    settings.
    """

    id: str
    campaign: str
    value: float
    low: float = _NAN
    high: float = _NAN
    n: int = 0
    detail: str = ""
    same_as: str = ""


def correlation_result(
    id_: str, campaign: str, runs: pd.DataFrame, column: str, *, x: str = "count"
) -> Iterator[Result]:
    """The Result `id_`: Pearson's correlation of columns `x` and `column` over settings.

    Yields nothing where it is undefined, nor for two settings, where it is 1 or -1 in any case.
    """
    rows = finished(average_replicates(runs))
    c = correlate_settings(rows, x, column)
    if not np.isfinite(c.value):
        return
    words = [f"Pearson over {len(rows)} networks and settings"]
    if "interpolates" in rows.columns:
        words.append(f"{int(rows['interpolates'].sum())} of them interpolate")
    if diverged := len(runs) - len(finished(runs)):
        words.append(f"diverged runs: {diverged}")
    same_as, (experiment, _, network) = "", id_.partition("/")
    # Where all fit alike, test accuracy repeats the gap with its sign turned.
    if experiment == "test-accuracy" and np.ptp(rows["gap"] + rows["test_accuracy"]) < 0.02 * np.ptp(rows["gap"]):
        same_as = f"main/{network}" if network in MAIN_NETWORKS else f"architectures/{network}/CIFAR-10"
    yield Result(id_, campaign, c.value, c.low, c.high, c.n, ", ".join(words), same_as)


def keep_results(results: Iterable[Result]) -> None:
    """Keep what a page found, in the CSV beside its executed copy, in place of former results.

    Only where a build executes the page: a notebook that is run on its own, with other parameters,
    changes no other page. Ids that start with "study/" are the book's own; any other has to be of a
    published statement, or ValueError is raised.
    """
    columns = [field.name for field in dataclasses.fields(Result)]
    table = pd.DataFrame([dataclasses.asdict(result) for result in results], columns=columns)
    for id_ in table["id"]:
        if not id_.startswith("study/"):
            published(id_)
    if path := os.environ.get(RESULTS):
        text = table.to_csv(index=False, lineterminator="\n")
        write_atomically(pathlib.Path(path), text.encode())


def kept_results(folder: pathlib.Path | None = None) -> list[Result]:
    """Results that the pages of the built book have kept, by page name.

    folder: default that of the executed copies. Raises ValueError naming a damaged file.
    """
    results = []
    texts = dict.fromkeys(("id", "campaign", "detail", "same_as"), str)
    missing = dict.fromkeys(("value", "low", "high"), "")
    for path in sorted((folder or project_root() / "book" / "notebooks").glob("*.csv")):
        try:
            table = pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=missing)
            results += [Result(**row) for row in table.to_dict("records")]
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is damaged ({error}): delete it and run its page again") from error
    return results


# Tables of statements and results -------------------------------------------------------------


def scorecard(results: Iterable[Result] = ()) -> pd.DataFrame:
    """Published statements beside our results: one row per result, or one without any.

    Columns: id, where, campaign, claim, published, authors (the number of the authors' records),
    follows ("yes" where that number rounds to the printed one, "no", or ""), ours (with its
    interval), n, verdict, why, counted (whether the row is a verdict on a result that repeats no
    other); in the order of the paper, texts ready to print.
    Results with ids "study/..." are passed over. Raises ValueError for another unknown id.
    """
    by_id: dict[str, list[Result]] = {}
    for result in (r for r in results if not r.id.startswith("study/")):
        by_id.setdefault(published(result.id).id, []).append(result)
    theirs, rows = authors_results(), []
    for id_ in statements().index:
        entry, value = published(id_), theirs["value"].get(id_, _NAN)
        follows = ""
        if entry.value is not None and not math.isnan(value):
            difference = abs(round(value, entry.decimals)) - abs(entry.value)
            follows = "yes" if abs(difference) < 1e-9 else "no"
        for result in by_id.get(id_) or [Result(id_, "", _NAN)]:
            repeats = any(_same_number(result, other) for other in by_id.get(result.same_as, []))
            label, why = _judged(entry, result, repeats)
            shown = "" if math.isnan(result.value) else interval_text(result.value, result.low, result.high)
            rows.append({
                "id": id_, "where": entry.source, "campaign": result.campaign, "claim": entry.claim,
                "published": entry.shown(), "authors": theirs["text"].get(id_, ""), "follows": follows,
                "ours": shown, "n": result.n, "verdict": label, "why": why,
                "counted": label in VERDICTS and not repeats,
            })  # fmt: skip
    return pd.DataFrame(rows)


def _same_number(result, other):
    """Whether a result is that of another statement, but for rounding and sign."""
    alike = (other.campaign, other.n) == (result.campaign, result.n)
    return alike and abs(abs(other.value) - abs(result.value)) < 0.01


def _judged(entry, result, repeats):
    """(verdict, why) on a result, with what it says of itself; without one, what it would take."""
    judged = verdict(entry, result.value, result.low, result.high)
    if judged.label == NO_RESULT:
        level = "a level, which only the paper's own setting can test"
        why = level if entry.kind == "level" and not result.campaign else judged.why
        return NO_RESULT, result.detail or why
    if repeats:
        return judged.label, f"the number of {result.same_as} but for rounding and sign, not counted again"
    return judged.label, f"{judged.why} ({result.detail})" if result.detail else judged.why


def beside(results: Iterable[Result]) -> pd.DataFrame:
    """A page's results as a table: each statement printed, in the authors' records, ours, verdict."""
    card = scorecard(results)
    card = card[card["campaign"] != ""].reset_index(drop=True)
    shown = card[["published", "authors", "ours", "n", "verdict"]]
    shown = shown.set_axis(["printed", "authors' records", "ours", "n", "verdict"], axis=1)
    shown.insert(0, "statement", card["claim"] + " (" + card["where"] + ")")
    return shown.loc[:, (shown != "").any()]


def authors_settings(experiment: str = "") -> pd.DataFrame:
    """The authors' own runs at full size, averaged: one row per experiment, network and setting.

    Columns: experiment (folder of their repository), network, lr, batch_size, runs, count,
    train_accuracy, test_accuracy, gap and more; see `rc_utils.authors`.
    """
    table = pd.read_csv(project_root() / "campaigns" / "authors" / "settings.csv")
    table["gap"] = table["train_accuracy"] - table["test_accuracy"]
    return table[table["experiment"] == experiment].reset_index(drop=True) if experiment else table


def authors_results() -> pd.DataFrame:
    """The number of each statement that the authors' records give, by id: value and text."""
    path = project_root() / "campaigns" / "authors" / "results.csv"
    if not path.is_file():  # the package alone, without the repository
        return pd.DataFrame({"value": [], "text": []})
    table = pd.read_csv(path)
    of_accuracy = table["quantity"].str.startswith("correlation with test accuracy")
    table = table[of_accuracy == table["id"].str.startswith("test-accuracy/")]
    table = table.drop_duplicates("id").set_index("id")[["value"]]
    return table.assign(text=[f"{v:.2f}" if math.isfinite(v) else "" for v in table["value"]])
