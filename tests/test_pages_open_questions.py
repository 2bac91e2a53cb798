"""The computed answers: each against something that is known without it."""

import pandas as pd
import pytest

from rc_utils.pages import open_questions


def test_every_question_has_its_own_id():
    ids = [q.id for q in (*open_questions.DOUBTS, *open_questions.SILENCES)]
    assert len(set(ids)) == len(ids) == 22


def test_printed_answers():
    answers = open_questions.answers_from_print()
    assert answers["evolution-gap"].endswith("first at epoch 80")
    assert "for 9 of 9" in answers["swapped-columns"]
    assert answers["mean-counts"] == "3.26, 2.78, 3.56"


def test_answers_from_runs_say_what_the_runs_hold():
    rows = [
        {"experiment": e, "network": "ResNet18", "cell": str(i), "seed": 0, "status": "ok", "interpolates": i > 1,
         "count": 3 + 0.1 * i, "gap": 0.1 * i * (1 if e == "main" else -1), "test_accuracy": 1 - 0.1 * i,
         "count_test": 3 - 0.1 * i, "lr": 0.1 if e == "main" else 1.0, "weight_decay": i % 3}
        for e in ("main", "no-momentum") for i in range(9)
    ]  # fmt: skip
    answers = open_questions.answers_from_runs(pd.DataFrame(rows))
    assert set(answers) == {"coefficient", "gap-or-accuracy", "swapped-columns", "momentum"}
    assert "training pairs 1.00" in answers["swapped-columns"]
    assert "test pairs -1.00" in answers["swapped-columns"]
    assert "with 0.9 9 settings with learning rates 0.1 to 0.1, correlation 1.00" in answers["momentum"]
    assert "without 9 settings with learning rates 1 to 1, correlation -1.00" in answers["momentum"]
    fewer = pd.DataFrame(rows).query("experiment == 'main' or weight_decay == 1")
    more = pd.concat([fewer, fewer.query("experiment == 'main'").assign(seed=1, count=99)])
    text = open_questions.answers_from_runs(more)["momentum"]
    assert text.count("3 settings") == 2
    assert "mean count 3.40; without" in text
    assert "the 7 that interpolate" in answers["gap-or-accuracy"]
    table = open_questions.question_table(open_questions.SILENCES, answers)
    assert (table["Computed"] != "–").sum() == 2


@pytest.mark.parametrize("column", ["count"])
def test_nothing_is_answered_without_counts(column):
    row = {"experiment": "main", "network": "A", "cell": "1", "status": "ok", column: float("nan"), "gap": 0.1}
    assert open_questions.answers_from_runs(pd.DataFrame([row])) == {}
