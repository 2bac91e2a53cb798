"""What the five studies found, as a table and as rows of a forest plot: for README.md and the book's first page."""

import functools

import numpy as np
import pandas as pd

from rc_utils.correlation import interval_text
from rc_utils.pages.rivals import RIVALS
from rc_utils.pages.under_test import decisions, studies

WHAT_DECIDES = {
    "seeds": "correlation with the gap where only chance differs; 0.5 is asked for",
    "transfer": "R² of a line fitted on SGD, for the gap of other ways to train; a clear lead is asked for",
    "intervene": "slope of the gap on the log count where training moves the count; across settings it is {across:.2f}",
    "axes": "share of pairs with the larger count and the smaller gap, one thing changed at a time; 0.5 is chance",
    "independent": "correlation with the gap beyond what the settings predict; more than 0.2 and a lead are asked for",
}


def text_of(estimate):
    """An `Estimate` as the tables show it."""
    return interval_text(estimate.value, estimate.low, estimate.high)


@functools.cache
def complete_studies():
    """{name: runs} of the studies whose runs are all made."""
    return {name: study.runs for name, study in studies.all_studies().items() if study.complete}


@functools.cache
def slope_across_settings():
    """With what the slopes of study 3 are compared; NaN before study 2 is complete."""
    transfer = complete_studies().get("transfer")
    return np.nan if transfer is None else decisions.slope_across_settings(transfer)


@functools.cache
def seeds():
    """What decides study 1: a row a network and measure."""
    return decisions.seed_correlations(complete_studies()["seeds"])


@functools.cache
def transfer():
    """What decides study 2: a row a measure."""
    return decisions.transfer_scores(complete_studies()["transfer"])


@functools.cache
def independent():
    """What decides study 5: a row a measure."""
    return decisions.partial_correlations(decisions.looks(complete_studies()["independent"])["equal loss"])


def study_table():
    """Rows of a Markdown table: study, what decides, the log count, the best rival, decision."""
    outcomes = {
        "seeds": only_chance_differs,
        "transfer": other_ways_to_train,
        "intervene": treatments,
        "axes": along_axes,
        "independent": beyond_the_settings,
    }
    rows = []
    for number, (name, title) in enumerate(studies.STUDIES.items(), start=1):
        texts = ["not all of its runs are made", "", "not looked at"]
        if name in complete_studies():
            texts = outcomes[name]()
        rows.append([f"{number}. {title}", WHAT_DECIDES[name].format(across=slope_across_settings()), *texts])
    return rows


def only_chance_differs():
    """Study 1: the log count, the best rival, the decision."""
    of_count, of_rivals = [], []
    for network, found in seeds().groupby("network", sort=False):
        r = found.set_index("measure")["r"]
        best = decisions.best_rival(found)
        of_count.append(f"{network} {text_of(r[studies.COUNT])}")
        of_rivals.append(f"{network} {text_of(r[best])} ({best})")
    return ", ".join(of_count), ", ".join(of_rivals), decisions.decide_seeds(seeds())


def other_ways_to_train():
    """Study 2: the log count, the best rival, the decision."""
    score = transfer().set_index("measure")["R2"]
    best = score.drop([studies.COUNT, decisions.PLAIN]).map(lambda estimate: estimate.value).idxmax()
    return text_of(score[studies.COUNT]), f"{text_of(score[best])} ({best})", decisions.decide_transfer(transfer())


def treatments():
    """Study 3: slopes of the treatments that move the count enough to decide, and their decisions."""
    moved = deciding_arms()
    if moved.empty:
        return "no treatment moves it enough", "", "none"
    slopes = [f"{text_of(slope)} ({arm})" for slope, arm in zip(moved["slope"], moved["arm"], strict=True)]
    enough = f"{len(moved)} of {len(studies.ARMS)} treatments {'moves' if len(moved) == 1 else 'move'} it enough"
    return f"{enough}: {', '.join(slopes)}", "", by_decision(moved["arm"], moved["decision"])


def deciding_arms():
    """The rows of `intervention_slopes` of the treatments that move the count enough, with their decisions."""
    arms = decisions.intervention_slopes(complete_studies()["intervene"])
    across = slope_across_settings()
    arms["decision"] = [decisions.decide_arm(arm.slope, arm.moved, across) for arm in arms.itertuples()]
    return arms[arms["decision"] != "not moved"]


def along_axes():
    """Study 4: the share of each axis, the worst first, and the decisions."""
    table = decisions.sign_errors(complete_studies()["axes"])
    shares = [f"{axis} {text_of(share)}" for axis, share in zip(table["axis"], table["sign-error"], strict=True)]
    return ", ".join(shares), "", by_decision(table["axis"], table["decision"])


def by_decision(names, decided):
    """Words: each decision and the names that it was made on; a decision that all share alone."""
    groups = {}
    for name, decision in zip(names, decided, strict=True):
        groups.setdefault(decision, []).append(name)
    if len(groups) == 1:
        return next(iter(groups))
    return "; ".join(f"{decision}: {', '.join(group)}" for decision, group in groups.items())


def beyond_the_settings():
    """Study 5: the log count, the best rival, the decision."""
    r = independent().set_index("measure")["r"]
    best = decisions.best_rival(independent())
    # The count alone: rivals take long.
    end = decisions.looks(complete_studies()["independent"])["end"].drop(columns=list(RIVALS), errors="ignore")
    fitted, everyone = (
        decisions.partial_correlations(rows).set_index("measure")["r"][studies.COUNT]
        for rows in (end, end.assign(interpolates=True))
    )
    text = (
        f"{text_of(r[studies.COUNT])} at equal loss, {text_of(fitted)} at the end, {text_of(everyone)} with runs that "
        "do not fit"
    )
    return text, f"{text_of(r[best])} at equal loss ({best})", decisions.decide_independent(independent())


def study_rows():
    """The rows of the first forest plot that the complete studies give."""
    complete = complete_studies()
    rows = []
    if "seeds" in complete:
        own, verdict = seeds()[seeds()["measure"] == studies.COUNT], decisions.decide_seeds(seeds())
        for network, r in zip(own["network"], own["r"], strict=True):
            rows.append(["Only chance differs (study 1)", network, r, verdict, (0.5, 1.0)])
    if "transfer" in complete:
        score, verdict = transfer().set_index("measure")["R2"][studies.COUNT], decisions.decide_transfer(transfer())
        rows.append(["Other optimisers: R² (study 2)", "nine networks", score, verdict, (0.5, 1.0)])
    if "intervene" in complete:
        claimed = (slope_across_settings() / 2, 1.0)
        for arm in deciding_arms().itertuples():
            rows.append(["A treatment moves the count: slope (study 3)", arm.arm, arm.slope, arm.decision, claimed])
    if "independent" in complete:
        r, verdict = independent().set_index("measure")["r"][studies.COUNT], decisions.decide_independent(independent())
        rows.append(["Beyond the settings (study 5)", "ResNet18 and VGG19", r, verdict, (0.2, 1.0)])
    table = pd.DataFrame(rows, columns=["group", "label", "estimate", "verdict", "claimed"])
    table = table.assign(published=np.nan, url="notebooks/18_under_test.html")
    return table.replace({"verdict": {"refutes": "contradicts"}})
