"""What the five studies found, in sentences and in rows of a forest plot: for README.md and the book's first page."""

import functools

import numpy as np
import pandas as pd

from rc_utils.correlation import interval_text
from rc_utils.pages.rivals import OF_WEIGHTS
from rc_utils.pages.under_test import decisions, studies


def text_of(estimate):
    """An `Estimate` as the tables show it."""
    return interval_text(estimate.value, estimate.low, estimate.high)


@functools.cache
def complete_studies():
    """{name: runs} of the studies whose runs are all made."""
    return {name: study.runs for name, study in studies.all_studies().items() if study.complete}


def put_to_the_test():
    """What came out of the studies that are complete, below a sentence that names them and links the protocol."""
    titles = ", ".join(f"*{studies.STUDIES[name]}*" for name in complete_studies()) or "none"
    first = (
        "**Put to the test.** Each of five studies could refute the claim, by a "
        f"[protocol](protocol.md) that was written before their runs. Complete so far: {titles}. The gap is training "
        "accuracy minus test accuracy."
    )
    return "\n  - ".join([first, *outcomes()])


def outcomes():
    """What came out of each study that is complete."""
    complete, texts = complete_studies(), []
    if "seeds" in complete:
        texts.append(only_chance_differs(complete["seeds"]))
    if "transfer" in complete:
        texts.append(other_ways_to_train(complete["transfer"]))
    if "intervene" in complete:
        texts.append(treatments(complete["intervene"], decisions.slope_across_settings(complete["transfer"])))
    if "axes" in complete:
        texts.append(along_axes(complete["axes"]))
    if "independent" in complete:
        texts.append(beyond_the_settings(complete["independent"]))
    return texts


def only_chance_differs(runs):
    """What study 1 found."""
    found = decisions.seed_correlations(runs)
    r = found.set_index(["network", "measure"])["r"]
    counts = [f"{text_of(r[network, studies.COUNT])} ({network})" for network in found["network"].unique()]
    of_weights = found[found["measure"].isin(OF_WEIGHTS)]
    weights = max(abs(value.value) for value in of_weights["r"])
    level = sum(value.low <= 0 <= value.high for value in of_weights["difference"])
    return (
        f"In 60 runs of each network that differ by chance alone, the logarithm of the count correlates with the gap "
        f"at {' and '.join(counts)}. That is above zero and below the 0.5 that the protocol asks for. No measure of "
        f"the weights exceeds {weights:.2f}, but in {level} of {len(of_weights)} comparisons the count is not clearly "
        f"ahead. Scores of mixed images do as well as the count. "
        f"The decision is *{decisions.decide_seeds(found)}*."
    )


def other_ways_to_train(runs):
    """What study 2 found."""
    found = decisions.transfer_scores(runs)
    scores = found.set_index("measure")["R2"]
    values = scores.map(lambda estimate: estimate.value)
    best = values.drop([studies.COUNT, decisions.PLAIN]).idxmax()
    return (
        f"A line in the logarithm of the count that is fitted on SGD predicts the gap of other ways to train with "
        f"R² = {text_of(scores[studies.COUNT])}. The best rival ({best}) has {text_of(scores[best])}; the count "
        f"leads it by {text_of(found.set_index('measure')['difference'][best])}. "
        f"The decision is *{decisions.decide_transfer(found)}*."
    )


def treatments(runs, across):
    """What study 3 found, with the slope of the gap on log(count) across settings."""
    arms = decisions.intervention_slopes(runs)
    texts, too_little = [], []
    for arm in arms.itertuples():
        decision = decisions.decide_arm(arm.slope, arm.moved, across)
        if decision == "not moved":
            too_little.append(arm.arm)
            continue
        texts.append(
            f"Training with {arm.arm} changes the logarithm of the count by {arm.moved:+.2f}, and the gap by "
            f"{text_of(arm.slope)} for each unit of it; across settings that slope is {across:.2f}. The decision is "
            f"*{decision}*."
        )
    if too_little:
        texts.append(f"Treatments that move the count too little to decide anything: {', '.join(too_little)}.")
    return " ".join(texts)


def along_axes(runs):
    """What study 4 found."""
    found = decisions.sign_errors(runs)
    return f"Does the larger count have the larger gap along a change? {by_decision(found['axis'], found['decision'])}."


def by_decision(names, decided):
    """Words: each decision and the names that it was made on."""
    groups = pd.Series(list(names)).groupby(list(decided), sort=False)
    return "; ".join(f"*{decision}* for {', '.join(group)}" for decision, group in groups)


def beyond_the_settings(runs):
    """What study 5 found."""
    looks = decisions.looks(runs)
    reached, end = looks["equal loss"], looks["end"]
    table = decisions.partial_correlations(reached)
    found = table.set_index("measure")["r"]
    best = decisions.best_rival(table)
    later, everyone = (
        decisions.partial_correlations(rows).set_index("measure")["r"][studies.COUNT]
        for rows in (end, end.assign(interpolates=True))
    )
    return (
        f"With random learning rates and batch sizes, count and gap correlate at {text_of(found[studies.COUNT])} "
        f"beyond what the settings predict, in the {found[studies.COUNT].n} of {len(runs)} runs that reach a training "
        f"loss of 0.01. The best rival ({best}) has {text_of(found[best])}. At the end of training the count has "
        f"{text_of(later)} over the {later.n} runs that fit, and {text_of(everyone)} over all. "
        f"The decision is *{decisions.decide_independent(table)}*."
    )


def study_rows():
    """The rows of the first forest plot that the complete studies give."""
    complete = complete_studies()
    rows = []
    if "seeds" in complete:
        found = decisions.seed_correlations(complete["seeds"])
        own, verdict = found[found["measure"] == studies.COUNT], decisions.decide_seeds(found)
        for network, r in zip(own["network"], own["r"], strict=True):
            rows.append(["Only chance differs (study 1)", network, r, verdict, (0.5, 1.0)])
    if "transfer" in complete:
        found = decisions.transfer_scores(complete["transfer"])
        score, verdict = found.set_index("measure")["R2"][studies.COUNT], decisions.decide_transfer(found)
        rows.append(["Other optimisers: R² (study 2)", "nine networks", score, verdict, (0.5, 1.0)])
    if "intervene" in complete:
        across = decisions.slope_across_settings(complete["transfer"])
        for arm in decisions.intervention_slopes(complete["intervene"]).itertuples():
            verdict = decisions.decide_arm(arm.slope, arm.moved, across)
            if verdict != "not moved":
                rows.append(
                    ["A treatment moves the count: slope (study 3)", arm.arm, arm.slope, verdict, (across / 2, 1.0)]
                )
    if "independent" in complete:
        found = decisions.partial_correlations(decisions.looks(complete["independent"])["equal loss"])
        r, verdict = found.set_index("measure")["r"][studies.COUNT], decisions.decide_independent(found)
        rows.append(["Beyond the settings (study 5)", "ResNet18 and VGG19", r, verdict, (0.2, 1.0)])
    table = pd.DataFrame(rows, columns=["group", "label", "estimate", "verdict", "claimed"])
    table = table.assign(published=np.nan, url="notebooks/18_under_test.html")
    return table.replace({"verdict": {"refutes": "contradicts"}})
