"""Shapes and samples of the published tables, and every branch of the verdict."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

from rc_utils.pages import show
from rc_utils.paper import published_tables as tables
from rc_utils.paper.verdict import Published, Result, published, scorecard, verdict

NAN = float("nan")


def effect(value=None, direction=None, kind="effect"):
    return Published("x", "main", "v1", "claim", "quantity", kind, value, direction)


def test_a_result_that_says_why_it_cannot_be_checked_is_a_result():
    row = (
        scorecard([Result("main/overall", "c", NAN, n=3, detail="the bound is vacuous")])
        .set_index("id")
        .loc["main/overall"]
    )
    assert (row["verdict"], row["why"], row["counted"]) == ("not checkable", "the bound is vacuous", True)


@pytest.mark.parametrize(
    ("table", "sums"),
    [
        (tables.ARCHITECTURES, [8.72, 8.16, 7.89, 8.68, 8.69, 8.66, 8.61]),
        (tables.OPTIMIZERS, [8.72, 8.19, 8.49]),
        (tables.HYPERPLANES, [8.72, 8.6, 8.29]),
        ([row[1:] for row in tables.RANGE], [20.28, 3.79]),
        ([row[1:] for row in tables.EVOLUTION], [26.67, 2.71, 188.3, 4.21]),
    ],
)
def test_tables_sum_to_what_is_printed(table, sums):
    # Sums of the columns as the texts print them: a slip in any one cell shows.
    assert pd.DataFrame(table).astype(float).sum().round(2).tolist() == sums


def test_tables_of_networks_have_a_row_each():
    for table, columns in (
        (tables.ARCHITECTURES, tables.ARCHITECTURES_COLUMNS),
        (tables.OPTIMIZERS, tables.OPTIMIZERS_COLUMNS),
        (tables.HYPERPLANES, tables.HYPERPLANES_COLUMNS),
    ):
        assert np.shape(table) == (len(tables.NETWORKS), len(columns))


def test_the_gaps_of_v1_and_v3_part():
    _, _, first, third, _ = np.array(tables.EVOLUTION, dtype=float).T
    same = np.isclose(first, third / 100, atol=0.005)
    assert same.tolist() == [False, True, True, True, False, False, False, False, False]


@pytest.mark.parametrize(
    ("id_", "value", "source"),
    [
        ("main/overall", 0.93, "v1 Fig 2 left, v3 Fig 4"),
        ("trees/random-forest", 0.98, "v1 Fig 2 right"),
        ("architectures/VGG19/d=4", 0.84, "v1 Table 5, v3 Table 2"),
        ("optimizers/SENet18/Adam", 0.78, "v1 Table 7, v3 Table 7"),
        ("hyperplanes/VGG19/Random", 0.78, "v1 Table 8, v3 Table 8"),
        ("grid-size/1d/200", 2.78, "v1 Table 2, v3 Table 4"),
        ("sample-size/10", 2.24, "v1 Table 3, v3 Table 5"),
        ("range/[-3, 4]/count", 6.39, "v1 Table 4, v3 Table 6"),
        ("evolution/correlation/20", -0.53, "v1 Table 6, v3 Table 3"),
        ("evolution/gap-v1/80", 0.36, "v1 Table 6"),
        ("evolution/gap-v3/80", 0.267, "v3 Table 3"),
        ("bias/lr/ResNet18", None, "v1 Fig 3, v3 Fig 5"),
    ],
)
def test_published_values_carry_their_source(id_, value, source):
    entry = published(id_)
    assert (entry.value, entry.source) == (value, source)
    assert entry.id == id_


def test_every_statement_says_what_would_test_it():
    frame = pd.DataFrame(map(vars, map(published, scorecard()["id"])))
    assert frame["id"].is_unique
    assert (frame[["claim", "quantity", "source", "experiment"]].map(len) > 0).all().all()
    kinds = {"effect", "level", "settled", "differs", "strong", "weak", "bound", "proved", "refuted"}
    assert set(frame["kind"]) == kinds
    effects = frame[frame["kind"] == "effect"]
    assert (effects["value"].notna() ^ effects["direction"].notna()).all()
    assert set(effects["direction"].dropna()) == {"positive", "negative"}
    assert frame[frame["kind"] == "level"]["value"].notna().all()
    assert dataclasses.is_dataclass(published("main/overall"))


def test_unknown_names_get_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'main/overall'"):
        published("main/overal")
    with pytest.raises(ValueError, match="did you mean 'main'"):
        scorecard(experiment="mains")


@pytest.mark.parametrize(
    ("entry", "ours", "label"),
    [
        (effect(0.93), (0.9, 0.8, 0.95), "agrees"),
        (effect(0.93), (0.94, 0.934, 0.96), "agrees"),  # 0.93 was rounded: up to 0.935 is meant.
        (effect(0.93), (0.94, 0.936, 0.96), "agrees in direction"),
        (effect(0.93), (0.6, 0.3, 0.8), "agrees in direction"),
        (effect(0.93), (-0.6, -0.8, -0.3), "disagrees"),
        (effect(0.93), (0.1, -0.2, 0.4), "disagrees"),
        (effect(0.93), (0.4, -0.2, 0.7), "not resolved"),
        (effect(0.93), (0.6, -0.1, 0.98), "not resolved"),
        (effect(-0.53), (-0.5, -0.7, -0.3), "agrees"),
        (effect(-0.53), (-0.5, -0.7, -0.2), "agrees in direction"),  # Too wide to tell -0.53 from half of it.
        (effect(0.98), (0.1, 0.02, 0.18), "disagrees"),  # No room for half of 0.98, although 0 is excluded.
        (effect(-0.53), (0.5, 0.2, 0.7), "disagrees"),
        (effect(0.93), (0.9, NAN, NAN), "not resolved"),
        (effect(0.93), (NAN, NAN, NAN), "not tested here"),
        (effect(0.93), (None,), "not tested here"),
        (effect(direction="negative"), (-0.2, -0.3, -0.1), "agrees"),
        (effect(direction="negative"), (0.2, 0.1, 0.3), "disagrees"),
        (effect(direction="negative"), (-0.1, -0.3, 0.1), "not resolved"),
        (effect(direction="positive"), (0.2, 0.1, 0.3), "agrees"),
        (effect(2.78, kind="level"), (2.8, 2.7, 2.9), "agrees"),
        (effect(2.78, kind="level"), (3.8, 3.7, 3.9), "disagrees"),
        (effect(0.0, kind="level"), (0.01, -0.01, 0.02), "agrees"),
        (effect(0.0, kind="settled"), (0.001, -0.002, 0.004), "agrees"),
        (effect(0.0, kind="settled"), (0.01, -0.01, 0.02), "not resolved"),
        (effect(0.0, kind="settled"), (0.02, 0.011, 0.03), "disagrees"),
        (effect(0.0, kind="settled"), (0.02, 0.009, 0.03), "not resolved"),
        (effect(kind="differs"), (-0.3, -0.5, -0.1), "agrees"),
        (effect(kind="differs"), (0.3, -0.1, 0.5), "not resolved"),
        (effect(kind="strong", direction="positive"), (0.8, 0.6, 0.9), "agrees"),
        (effect(kind="strong", direction="negative"), (-0.8, -0.9, -0.6), "agrees"),
        (effect(kind="strong", direction="negative"), (-0.8, -0.9, -0.3), "agrees in direction"),
        (effect(kind="strong", direction="positive"), (0.5, -0.1, 0.9), "not resolved"),
        (effect(kind="strong", direction="positive"), (0.2, -0.1, 0.4), "disagrees"),
        (effect(kind="strong", direction="positive"), (-0.8, -0.9, -0.1), "disagrees"),
        (effect(kind="weak"), (0.1, -0.3, 0.4), "agrees"),
        (effect(kind="weak"), (-0.8, -0.9, -0.6), "disagrees"),
        (effect(kind="weak"), (0.4, 0.1, 0.7), "not resolved"),
        (effect(kind="bound"), (0.7,), "agrees"),
        (effect(kind="bound"), (1.5,), "disagrees"),
        (effect(kind="bound"), (0.5, 0.5, 0.9), "agrees"),
        (effect(kind="bound"), (0.5, 0.5, 20.0), "not resolved"),
        (effect(kind="bound"), (1.5, 0.64, 11.6), "not resolved"),
        (effect(kind="bound"), (2.5, 1.2, 11.6), "disagrees"),
    ],
)
def test_verdict(entry, ours, label):
    judged = verdict(entry, *ours)
    assert judged.label == label
    assert judged.why


@pytest.mark.parametrize(
    ("kind", "value", "label"),
    [
        ("proved", 1.0, "proved"),
        ("proved", 1.01, "disagrees"),
        ("refuted", 1.01, "refuted by argument"),
        ("refuted", np.inf, "refuted by argument"),
        ("refuted", 1.0, "not resolved"),
        ("refuted", NAN, "not tested here"),
    ],
)
def test_an_argument_is_judged_by_its_case(kind, value, label):
    assert verdict(effect(kind=kind), value).label == label


def test_what_an_argument_settles_is_no_verdict():
    results = [Result("theory/lemma-7", "a", 0.9), Result("theory/theorem-5", "a", np.inf), Result("theory/lr", "a", 1)]
    card = scorecard(results, "theory").set_index("id").loc[["theory/lemma-7", "theory/theorem-5", "theory/lr"]]
    assert card["verdict"].tolist() == ["proved", "refuted by argument", "not resolved"]
    assert card["counted"].tolist() == [False, False, True]
    assert card["ours"].tolist() == ["0.9", "unbounded", "1"]
    text = show.scorecard_summary(card.reset_index())
    assert "Verdicts: not resolved 1. Apart from these, 1 proved and 1 refuted by argument" in text


def test_verdict_refuses_a_reversed_interval():
    with pytest.raises(ValueError, match="low end first"):
        verdict(effect(0.93), 0.5, 0.8, 0.2)


def test_verdict_is_symmetric_in_sign():
    rng = np.random.default_rng(0)
    for _ in range(200):
        p, (low, high) = round(rng.uniform(0.1, 1), 2), np.sort(rng.uniform(-1, 1, 2))
        assert verdict(effect(p), 0.5, low, high).label == verdict(effect(-p), -0.5, -high, -low).label


def test_scorecard_has_every_statement_and_each_result():
    empty = scorecard()
    assert empty["id"].is_unique
    assert set(empty["verdict"]) == {"not tested here"}
    results = [
        Result("main/overall", "a", 0.9, 0.8, 0.95, 27, "3 networks"),
        Result("main/overall", "b", 0.5, 0.2, 0.7, 27),
        Result("theory/theorem-5", "constructed", 3.0),
    ]
    card = scorecard(results)
    assert len(card) == len(empty) + 1
    rows = card[card["id"] == "main/overall"]
    assert rows["verdict"].tolist() == ["agrees", "agrees in direction"]
    assert rows["published"].tolist() == ["0.93", "0.93"]
    assert rows["interval"].iloc[0] == "[0.8, 0.95]"
    assert "3 networks" in rows["why"].iloc[0]
    assert (card["verdict"] != "not tested here").sum() == 3
    assert set(scorecard(results, "main")["id"]) == {
        "main/overall",
        "main/ResNet18",
        "main/EfficientNetB0",
        "main/SENet18",
    }


def test_scorecard_refuses_a_result_that_tests_nothing():
    with pytest.raises(ValueError, match="no published value 'main/all'"):
        scorecard([Result("main/all", "a", 0.9)])


def test_scorecard_is_in_the_order_of_the_paper_whatever_the_results_are():
    order = scorecard()["id"].tolist()
    experiments = list(dict.fromkeys(published(id_).experiment for id_ in order))
    assert experiments[:4] == ["main", "trees", "bias", "motivation"]
    assert experiments[-3:] == ["theory", "safran", "loukas"]
    assert sum(published(a).experiment != published(b).experiment for a, b in itertools.pairwise(order)) + 1 == len(
        experiments
    )
    results = [Result("theory/theorem-5", "z", 3.0), Result("main/SENet18", "b", 0.9), Result("main/SENet18", "a", 0.8)]
    card = scorecard(results)
    assert list(dict.fromkeys(card["id"])) == order
    assert card.loc[card["id"] == "main/SENet18", "campaign"].tolist() == ["b", "a"]
