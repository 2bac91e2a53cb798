"""Statements of the papers, results of this book, and a verdict by one rule.

A statement claims a range. **supports**: our 95 % interval lies wholly in it; **contradicts**:
wholly out of it; **inconclusive**: anything else, a value without an interval too. Page 14, the
scorecard, has the rule with its smallest effects of interest, when it was made and why.
"""

import dataclasses
import functools
import math
import os
import pathlib
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from rc_utils.correlation import correlate_settings, distinct_settings, finished, interval_text
from rc_utils.paths import project_root, write_atomically
from rc_utils.sweep.campaign import TRAIN_DEFAULTS, load_campaign
from rc_utils.validation import check_name

VERDICTS = ("supports", "inconclusive", "contradicts")
ARGUMENTS = ("proved", "refuted by argument")
BOUNDS = ("bound", "proved", "refuted")  # kinds of statements
# What a statement that prints no number claims, by its side.
CLAIMS = {"above": "positive", "below": "negative", "within": "low", "outside": "other than 0"}
MAIN_NETWORKS = ("ResNet18", "EfficientNetB0", "SENet18")
NETWORKS = (
    "ResNet18", "ResNet34", "VGG19", "MobileNetV2", "SENet18",
    "ShuffleNetV2", "EfficientNetB0", "RegNetX_200MF", "SimpleDLA",
)  # fmt: skip
RESULTS = "RC_BOOK_RESULTS"
"""Environment variable: the file for the results of the page that a build of the book executes."""


@functools.cache
def statements() -> pd.DataFrame:
    """Statements and numbers of the papers, one row each, indexed by id: published.csv.

    Rows are by paper and subject; v1 is the first version of the region-count paper and v3 its
    third. If both print a table, their numbers are the same unless the table says otherwise. A
    `source` with "repaired" marks a statement of this book. `kind` says what is measured, `side`
    ("above", "below", "within", "outside") and `smallest` what is claimed of it. `value` is the
    printed number (percents as shares, an order of magnitude as 10, a change as the difference of
    two printed numbers), empty for a claim in words. `page` is the notebook that tests it.
    """
    path = pathlib.Path(__file__).with_name("published.csv")
    table = pd.read_csv(path, dtype=str, keep_default_na=False, index_col="id")
    return table.astype({"smallest": float})


def printed_numbers(prefix: str) -> pd.Series:
    """Printed numbers of the ids "<prefix>/<number>", such as "grid-size/1d", by that number."""
    found = statements()["value"].rename(index=lambda id_: id_.removeprefix(f"{prefix}/"))
    found = found[found.index.str.isdigit()].astype(float)
    return found.set_axis(found.index.astype(int)).sort_index()


def _claimed(entry):
    """Ends of the claimed range; of the range that is ruled out if the side is "outside"."""
    if entry.kind in BOUNDS:
        return -math.inf, entry.smallest
    if entry.side == "above":
        return entry.smallest, math.inf
    if entry.side == "below":
        return -math.inf, -entry.smallest
    centre = float(entry.value) if entry.kind == "level" else 0.0
    return centre - entry.smallest, centre + entry.smallest


@dataclasses.dataclass(frozen=True)
class Result:
    """Result of ours for the published statement `id`; NaN stands for a number that cannot be had.

    `low` and `high` bound `value`, `n` counts what the value rests on (settings unless `detail`
    says otherwise). If `value` is NaN, `detail` says why. `same_as` is the id of a statement whose
    result this one repeats, since here both are measured alike; this one then counts as no verdict
    if that result is there and has the same number over as many settings.
    """

    id: str
    campaign: str
    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    detail: str = ""
    same_as: str = ""


def verdict(entry: pd.Series, result: Result) -> tuple[str, str]:
    """Verdict on a result of ours, and a sentence that says why.

    `entry` is a row of `statements`; the rule is that of page 14. A bound whose largest ratio has
    no interval is judged by the ratio itself.
    """
    value, low, high = result.value, result.low, result.high
    if math.isnan(value):
        why = "no result of ours yet"
        if entry.kind == "level" and not result.campaign:
            why = "a level, which only the paper's own setting can test"
        return "no result", result.detail or why
    if entry.kind == "proved":
        if value <= 1:
            return "proved", f"no case exceeds it (largest ratio {value:.3g}), and none can"
        found = f"a case exceeds it (largest ratio {value:.3g})"
        return "contradicts", f"{found}, which the proof rules out"
    if entry.kind == "refuted":
        if value <= 1:
            return "inconclusive", f"the counterexample does not exceed it (ratio {value:.3g})"
        by = "without bound" if math.isinf(value) else f"by a factor of {value:.3g}"
        return "refuted by argument", f"a counterexample exceeds it {by}"
    ours = "interval"
    if entry.kind == "bound" and math.isnan(low):
        low, high, ours = value, value, "largest ratio"
    if math.isnan(low) or math.isnan(high):
        return "inconclusive", "too little data, or none that varies, for an interval"
    least, most = _claimed(entry)
    ends = {"above": f"above {least:g}", "below": f"at or below {most + 0.0:g}"}
    words = ends.get(entry.side, f"{entry.side} [{least:.3g}, {most:.3g}]")
    inside = least <= low and high <= most
    apart = high < least or low > most
    if entry.side == "outside":
        inside, apart = apart, inside
    if inside:
        return "supports", f"our {ours} lies {words}"
    if apart:
        return "contradicts", f"no part of our {ours} lies {words}"
    return "inconclusive", f"only a part of our interval lies {words}"


def correlation_result(
    id_: str, campaign: str, runs: pd.DataFrame, column: str, *, x: str = "count"
) -> Iterator[Result]:
    """The Result `id_`: Pearson's correlation of columns `x` and `column` over settings.

    Yields nothing where it is undefined, nor for two settings, where it is 1 or -1 in any case.
    """
    rows = distinct_settings(runs)
    found = correlate_settings(rows, x, column)
    if not np.isfinite(found.value):
        return
    detail = f"Pearson over {len(rows)} networks and settings"
    detail += f", {int(rows['interpolates'].sum())} of them interpolate"
    once = runs.drop_duplicates("run_id") if "run_id" in runs else runs
    if diverged := len(once) - len(finished(once)):
        detail += f", diverged runs: {diverged}"
    group, _, network = id_.partition("/")
    # Where all fit alike, test accuracy repeats the gap with its sign turned.
    repeats = group == "test-accuracy" and (
        np.ptp(rows["gap"] + rows["test_accuracy"]) < 0.02 * np.ptp(rows["gap"])
    )
    other = f"main/{network}" if network in MAIN_NETWORKS else f"architectures/{network}/CIFAR-10"
    numbers = (found.value, found.low, found.high, found.n)
    yield Result(id_, campaign, *numbers, detail, other if repeats else "")


def as_published(runs: pd.DataFrame, dataset: str | None = "cifar10") -> pd.DataFrame:
    """The runs trained and counted as the paper's main ones; dataset: None for those of any.

    By SGD with momentum on images to which nothing is added, with their own labels, on segments
    between two of them, training or test images; a network with the name of one of `NETWORKS` has
    to be that one.
    """
    free = {"lr", "batch_size", "weight_decay", "epochs", "seed", "schedule", "precision"}
    fixed = [key for key in TRAIN_DEFAULTS if key in runs and key not in free]
    chosen = (runs[fixed] == pd.Series(TRAIN_DEFAULTS)[fixed]).all(axis=1)
    for name in runs["campaign"].unique():
        campaign = load_campaign(name)
        for _, label, planned in campaign.entries():
            spec = planned.spec
            is_other = label in NETWORKS and spec.network["name"] != label
            is_other |= dataset not in (None, spec.dataset["name"])
            is_other |= dataset is not None and "classes" in spec.dataset
            if is_other or spec.dataset.get("label_noise"):
                chosen &= runs["run_id"] != spec.run_id
        count = campaign.counts.get("main", {})
        ends, drawn = count.get("alpha_range", (0, 1)), count.get("sampling", "pairs")
        counted = count.get("dim", 1) == 1 and tuple(ends) == (0, 1) and drawn == "pairs"
        chosen &= (runs["campaign"] != name) | counted
    return runs[chosen]


def keep_results(results: Iterable[Result]) -> None:
    """Keep what a page found, in the CSV beside its executed copy, in place of former results.

    Only where a build executes the page: a notebook that is run on its own, with other parameters,
    changes no other page. Ids that start with "study/" are the book's own; any other has to be of a
    published statement, or ValueError is raised.
    """
    table = pd.DataFrame(results, columns=[field.name for field in dataclasses.fields(Result)])
    for id_ in table["id"]:
        if not id_.startswith("study/"):
            check_name("published value", id_, statements().index)
    if path := os.environ.get(RESULTS):
        content = table.to_csv(index=False, lineterminator="\n").encode()
        write_atomically(pathlib.Path(path), content)


def kept_results(folder: pathlib.Path | None = None) -> list[Result]:
    """Results that the pages of the built book kept, by page."""
    results = []
    texts = dict.fromkeys(("id", "campaign", "detail", "same_as"), str)
    missing = dict.fromkeys(("value", "low", "high"), "")
    for path in sorted((folder or project_root() / "book" / "notebooks").glob("*.csv")):
        table = pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=missing)
        results += [Result(**row) for row in table.to_dict("records")]
    return results


def scorecard(results: Iterable[Result] = ()) -> pd.DataFrame:
    """Published statements beside our results: one row per result, or one without any.

    Columns, texts ready to print: id, where, campaign, claim, published, authors (the number of the
    authors' records), follows ("yes" where that rounds to the printed one, "no", or ""), ours, n,
    verdict, why, detail, counted (whether it is a verdict on a result that repeats no other). Rows
    are in the order of `statements`, without "study/...". Raises ValueError for another unknown id.
    """
    by_id: dict[str, list[Result]] = {}
    for result in results:
        if not result.id.startswith("study/"):
            check_name("published value", result.id, statements().index)
            by_id.setdefault(result.id, []).append(result)
    theirs, rows = authors_results()["value"], []
    for id_, entry in statements().iterrows():
        claimed = "ratio at most 1" if entry.kind in BOUNDS else CLAIMS[entry.side]
        number, follows = theirs.get(id_, math.nan), ""
        if entry.value and not math.isnan(number):
            decimals = len(entry.value.partition(".")[2])
            follows = "yes" if round(number, decimals) == float(entry.value) else "no"
        for result in by_id.get(id_) or [Result(id_, "", math.nan)]:
            label, why = verdict(entry, result)
            # The number of another statement, but for rounding and sign.
            repeats = any(
                (other.campaign, other.n) == (result.campaign, result.n)
                and abs(abs(other.value) - abs(result.value)) < 0.01
                for other in by_id.get(result.same_as, [])
            )
            if label != "no result" and repeats:
                why = f"the number of {result.same_as} but for rounding and sign, not counted again"
            elif label != "no result" and result.detail:
                why = f"{why} ({result.detail})"
            ours = interval_text(result.value, result.low, result.high)
            rows.append({
                "id": id_, "where": entry.source, "campaign": result.campaign,
                "claim": entry.statement, "published": entry.value or claimed,
                "authors": "" if math.isnan(number) else f"{number:.2f}", "follows": follows,
                "ours": "" if math.isnan(result.value) else ours, "n": result.n, "verdict": label,
                "why": why, "detail": result.detail, "counted": label in VERDICTS and not repeats,
            })  # fmt: skip
    return pd.DataFrame(rows)


def beside(results: Iterable[Result]) -> pd.DataFrame:
    """A page's results as a table: statement, printed, in the authors' records, ours, verdict."""
    card = scorecard(results)
    card = card[card["campaign"] != ""].reset_index(drop=True)
    if card.empty:
        return pd.DataFrame({"statement": ["none that these runs can be held against"]})
    shown = card[["published", "authors", "ours", "n", "verdict"]]
    shown = shown.set_axis(["printed", "authors' records", "ours", "n", "verdict"], axis=1)
    statement = card["claim"] + " (" + card["where"] + ")"
    # Results of one statement are told apart by how their details begin, such as "Task 1".
    apart = ": " + card["detail"].str.partition(",")[0]
    several = card["id"].duplicated(keep=False) & (card["detail"] != "")
    shown.insert(0, "statement", statement.where(~several, statement + apart))
    return shown.loc[:, (shown != "").any()]


def authors_settings(experiment: str) -> pd.DataFrame:
    """The authors' own runs at full size, averaged: one row per network and setting.

    experiment: folder of their repository. Columns: experiment, network, lr, batch_size, runs,
    count, train_accuracy, test_accuracy, gap and more; `campaigns/authors` says how they were read.
    """
    table = pd.read_csv(project_root() / "campaigns" / "authors" / "settings.csv")
    table["gap"] = table["train_accuracy"] - table["test_accuracy"]
    return table[table["experiment"] == experiment].reset_index(drop=True)


def authors_results() -> pd.DataFrame:
    """The `value` of each statement that the authors' records give, by its id."""
    table = pd.read_csv(project_root() / "campaigns" / "authors" / "results.csv")
    of_accuracy = table["quantity"].str.startswith("correlation with test accuracy")
    table = table[of_accuracy == table["id"].str.startswith("test-accuracy/")]
    return table.drop_duplicates("id").set_index("id")[["value"]]
