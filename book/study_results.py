"""What the five studies found, as a table and as rows of a forest plot: for README.md and the book's first page."""

import functools

import numpy as np
import pandas as pd

from rc_studies import decisions, studies
from rc_utils.correlation import Estimate, interval_text

QUESTIONS = {
    "seeds": "only chance differs",
    "transfer": "a line fitted on SGD predicts other ways to train",
    "intervene": "training moves the count on purpose",
    "axes": "one thing is changed at a time",
    "independent": "learning rate, batch size and steps are regressed out",
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
    """Rows of a Markdown table: study and question, what came out, decision."""
    outcomes = {
        "seeds": only_chance_differs,
        "transfer": other_ways_to_train,
        "intervene": treatments,
        "axes": along_axes,
        "independent": beyond_the_settings,
    }
    rows = []
    for number, (name, title) in enumerate(studies.STUDIES.items(), start=1):
        found, decision = "not all of its runs are made", "not looked at"
        if name in complete_studies():
            found, decision = outcomes[name]()
        rows.append([f"**{number}. {title}**: {QUESTIONS[name]}", found, decision])
    return rows


def only_chance_differs():
    """What came out of study 1, and its decision."""
    texts = []
    for network, found in seeds().groupby("network", sort=False):
        r = found.set_index("measure")["r"]
        best = decisions.best_rival(found)
        texts.append(f"{network}: r = {text_of(r[studies.COUNT])}, best rival {text_of(r[best])} ({best})")
    return f"{'. '.join(texts)}. Support needs 0.5 in both", decisions.decide_seeds(seeds())


def other_ways_to_train():
    """What came out of study 2, and its decision."""
    score = transfer().set_index("measure")["R2"]
    best = decisions.best_rival(transfer(), "R2")
    lead = transfer().set_index("measure")["difference"][best]
    text = (
        f"R² = {text_of(score[studies.COUNT])}, best rival {text_of(score[best])} ({best}). Support needs a lead "
        f"above 0; it is {text_of(lead)}"
    )
    return text, decisions.decide_transfer(transfer())


def treatments():
    """What came out of study 3: the treatments that move the count enough, and the decisions on them."""
    moved = deciding_arms()
    if moved.empty:
        return "no treatment moves it enough", "none"
    slopes = [f"{text_of(slope)} with {arm}" for slope, arm in zip(moved["slope"], moved["arm"], strict=True)]
    text = (
        f"per unit of log count the gap changes by {', by '.join(slopes)}. {len(studies.ARMS) - len(moved)} of "
        f"{len(studies.ARMS)} treatments move the count too little. Support needs {slope_across_settings() / 2:.2f}, "
        "half of the change across settings"
    )
    return text, tally(moved["decision"])


def deciding_arms():
    """The rows of `intervention_slopes` of the treatments that move the count enough, with their decisions."""
    arms = decisions.intervention_slopes(complete_studies()["intervene"])
    across = slope_across_settings()
    arms["decision"] = [decisions.decide_arm(arm.slope, arm.moved, across) for arm in arms.itertuples()]
    return arms[arms["decision"] != "not moved"]


def along_axes():
    """What came out of study 4: the share of wrong pairs of each axis, the worst first, and the decisions."""
    runs = complete_studies()["axes"]
    table = decisions.sign_errors(runs)
    true = decisions.sign_errors(studies.on_true_labels(runs)).set_index("axis")["sign-error"]
    groups = []
    for decision, rows in table.groupby("decision", sort=False):
        shares = [
            f"{axis} {100 * share.value:.0f} %" for axis, share in zip(rows["axis"], rows["sign-error"], strict=True)
        ]
        groups.append(f"{', '.join(shares)} ({decision})")
    text = f"pairs in which the larger count has the smaller gap: {'; '.join(groups)}. Support needs less than 50 %"
    if "label noise" in true:
        text += f". With accuracy on the true labels, label noise has {100 * true['label noise'].value:.0f} %"
    return text, tally(table["decision"])


def tally(decided):
    """Words: how many got each decision; the decision alone where there is one."""
    numbers = decided.value_counts(sort=False)
    return decided.iloc[0] if len(decided) == 1 else ", ".join(f"{n} {decision}" for decision, n in numbers.items())


def beyond_the_settings():
    """What came out of study 5, and its decision."""
    r = independent().set_index("measure")["r"]
    best = decisions.best_rival(independent())
    end = decisions.looks(complete_studies()["independent"])["end"]
    fitted, everyone = (
        decisions.partial_correlations(rows).set_index("measure")["r"][studies.COUNT]
        for rows in (end, end.assign(interpolates=True))
    )
    text = (
        f"at equal loss r = {text_of(r[studies.COUNT])}, best rival {text_of(r[best])} ({best}); at the end "
        f"{text_of(fitted)}, and {text_of(everyone)} with runs that do not fit. Support needs more than 0.2 and a "
        "lead over the rival"
    )
    return text, decisions.decide_independent(independent())


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
        rows.append(["Other ways to train: R² (study 2)", "nine networks", score, verdict, (0.5, 1.0)])
    if "intervene" in complete:
        claimed = (slope_across_settings() / 2, 1.0)
        for arm in deciding_arms().itertuples():
            rows.append(["Count moved on purpose: slope (study 3)", arm.arm, arm.slope, arm.decision, claimed])
    if "axes" in complete:
        for axis, share, decision in decisions.sign_errors(complete["axes"]).itertuples(index=False):
            right = Estimate(1 - 2 * share.value, 1 - 2 * share.high, 1 - 2 * share.low, share.n)
            rows.append(["Right minus wrong pairs (study 4)", axis, right, decision, (0.0, 1.0)])
    if "independent" in complete:
        r, verdict = independent().set_index("measure")["r"][studies.COUNT], decisions.decide_independent(independent())
        numbers = decisions.looks(complete["independent"])["equal loss"].query("interpolates")["network"].value_counts()
        label = ", ".join(f"{network} ({number})" for network, number in numbers.items())
        rows.append(["Beyond the settings (study 5)", label, r, verdict, (0.2, 1.0)])
    table = pd.DataFrame(rows, columns=["group", "label", "estimate", "verdict", "claimed"])
    table = table.assign(published=np.nan, url="notebooks/18_under_test.html")
    return table.replace({"verdict": {"refutes": "contradicts"}})
