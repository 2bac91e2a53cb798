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


def complete_studies():
    """{name: runs} of the studies whose runs are all made."""
    return {name: study.runs for name, study in studies.all_studies().items() if study.complete}


def put_to_the_test(protocol):
    """What came out of the studies that are complete, below a sentence that names them and links the protocol."""
    titles = " and ".join(f"*{studies.STUDIES[name]}*" for name in complete_studies()) or "none"
    first = (
        "**Put to the test.** Five studies give the count a chance to fail, by a "
        f"[protocol]({protocol}) that was written before their runs. Complete so far: {titles}."
    )
    return "\n  - ".join([first, *outcomes()])


@functools.cache  # README and first page say the same
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
        f"At one setting, over 60 runs of each network that differ by chance alone, the logarithm of the count "
        f"correlates with the gap at {' and '.join(counts)}: above zero, below the 0.5 that was asked for. "
        f"Measures of the weights reach {weights:.2f} at most, but {level} of {len(of_weights)} intervals of the "
        f"difference hold zero; scores of mixed images do as well as the count. "
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
        f"R² = {text_of(scores[studies.COUNT])}; the best rival ({best}) has {text_of(scores[best])}. "
        f"The decision is *{decisions.decide_transfer(found)}*."
    )


def treatments(runs, across):
    """What study 3 found, with the slope of the gap on log(count) across settings."""
    arms = decisions.intervention_slopes(runs)
    decided = [decisions.decide_arm(row.slope, row.moved, across) for row in arms.itertuples()]
    return f"Does the gap follow where a treatment changes the count? {by_decision(arms['arm'], decided)}."


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
        f"With random learning rates and batch sizes, {text_of(found[studies.COUNT])} remains at equal training loss "
        f"beyond what the settings predict, over the {found[studies.COUNT].n} of {len(runs)} runs that reach it; the "
        f"best rival ({best}) has {text_of(found[best])}. At the end of training it is {text_of(later)} over the "
        f"{later.n} runs that fit, and {text_of(everyone)} over all. "
        f"The decision is *{decisions.decide_independent(table)}*."
    )


def study_rows():
    """The rows of the first forest plot that the complete studies give."""
    complete = complete_studies()
    rows = []
    if "seeds" in complete:
        found = decisions.seed_correlations(complete["seeds"])
        own = found[found["measure"] == studies.COUNT]
        row = {
            "group": "Only chance differs (study 1)",
            "verdict": decisions.decide_seeds(found),
            "claimed": (0.5, 1.0),
        }
        for network, estimate in zip(own["network"], own["r"], strict=True):
            rows.append(row | {"label": network, "estimate": estimate})
    if "independent" in complete:
        found = decisions.partial_correlations(decisions.looks(complete["independent"])["equal loss"])
        row = {"group": "Beyond the settings (study 5)", "verdict": decisions.decide_independent(found)}
        row |= {"label": "ResNet18 and VGG19", "claimed": (0.2, 1.0)}
        rows.append(row | {"estimate": found.set_index("measure")["r"][studies.COUNT]})
    rows = pd.DataFrame(rows).assign(published=np.nan, url="notebooks/18_under_test.html")
    return rows.replace({"verdict": {"refutes": "contradicts"}})
