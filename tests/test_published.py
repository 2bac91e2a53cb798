"""Shapes and samples of the published tables, and every branch of the verdict."""

import dataclasses
import math
import types

import numpy as np
import pandas as pd
import pytest
from test_correlation import make_runs

from rc_utils import published as tables
from rc_utils.published import Result, correlation_result, scorecard, verdict
from rc_utils.sweep.campaign import RunSpec
from rc_utils.training.config import TrainConfig

NAN = float("nan")


def statement(kind="correlation", side="above", smallest=0.5, value=""):
    return pd.Series({"kind": kind, "side": side, "value": value, "smallest": smallest})


def test_runs_of_another_training_are_not_held_against_the_main_ones(monkeypatch):
    runs = pd.DataFrame({"optimizer": ["sgd", "sgd", "adam"], "mixup_alpha": [0, 1, 0], "lr": 0.3})
    runs["campaign"] = "c"
    counts = {"main": {"alpha_range": [0.0, 1.0]}}
    campaign = types.SimpleNamespace(counts=counts, entries=list)
    monkeypatch.setattr(tables, "load_campaign", lambda _: campaign)
    assert tables.as_published(runs).index.tolist() == [0]
    assert len(tables.as_published(runs[["lr", "campaign"]])) == 3
    # Nor of random labels or other data, nor of another network with the name of the paper's.
    data = {"name": "cifar10"}
    settings = (0, data, "ResNet18"), (1, data | {"label_noise": 0.3}, "ResNet18")
    settings += (2, data, "my:ResNet18"), (3, {"name": "shapes"}, "ResNet18")
    plans = [RunSpec(data, {"name": name}, TrainConfig(seed=k)) for k, data, name in settings]
    entries = [(None, "ResNet18", types.SimpleNamespace(spec=spec)) for spec in plans]
    campaign.entries = lambda: entries
    alike = pd.DataFrame({"run_id": [spec.run_id for spec in plans], "campaign": "c"})
    assert tables.as_published(alike).index.tolist() == [0]
    campaign.entries = list
    # Nor those of triangles, or of longer segments.
    for other in ({"dim": 2}, {"alpha_range": [-1, 2]}, {"sampling": "noise"}):
        campaign.counts["main"] = other
        assert tables.as_published(runs).empty


def test_tables_sum_to_what_is_printed():
    # Sums of the columns as the texts print them: a slip in any one number shows.
    values = pd.to_numeric(tables.statements()["value"])
    for pattern, sums in {
        r"architectures/.*/(.*)": [8.72, 8.16, 7.89, 8.68, 8.69, 8.66, 8.61],
        r"hyperplanes/.*/(.*)": [8.72, 8.6, 8.29],
        r"range/.*/(.*)": [20.28, 3.79],
        r"evolution/(count|gap-v1|gap-v3|correlation)/": [26.67, 2.71, 1.883, 4.21],
    }.items():
        column = values.index.str.extract(pattern, expand=False)
        assert values.groupby(column, sort=False).sum().round(3).tolist() == sums, pattern
    # Numbers below a beginning, in their order.
    assert tables.printed_numbers("grid-size/1d").index.tolist() == [50, 100, 200, 300, 500]
    epochs = tables.printed_numbers("evolution/gap-v1")
    assert epochs.index.tolist() == [20, 40, 60, 80, 100, 130, 160, 200]
    assert epochs[200] == values["evolution/gap-v1/200"]


def test_the_smallest_effect_belongs_to_the_kind_and_the_side_to_the_printed_number():
    rows = tables.statements()
    assert rows.index.is_unique
    fixed = rows[rows["kind"] != "level"].groupby("kind")["smallest"].nunique()
    assert (fixed == 1).all()
    levels = rows[rows["kind"] == "level"].astype({"value": float, "smallest": float})
    assert np.allclose(levels["smallest"], levels["value"] / 10, rtol=0.01)
    beyond = rows[(rows["value"] != "") & rows["side"].isin(["above", "below"])]
    beyond = beyond.astype({"value": float})
    assert (np.sign(beyond["value"]) == np.where(beyond["side"] == "above", 1, -1)).all()
    kinds = {"correlation", "count", "slope", "accuracy", "log ratio", "relative change"}
    assert set(rows["kind"]) == kinds | {"level", "bound", "proved", "refuted"}
    assert set(rows["side"]) == {"above", "below", "within", "outside"}


LEVEL = statement("level", "within", 0.278, "2.78")
OUTSIDE = statement("count", "outside", 0.1)
BOUND, PROVED, REFUTED = [statement(kind, "below", 1) for kind in tables.BOUNDS]


@pytest.mark.parametrize(("entry", "ours", "label", "words"), [
    (statement(), (0.9, 0.5, 0.95), "supports", "our interval lies above 0.5"),
    (statement(), (0.3, 0.1, 0.5), "inconclusive", "a part of our interval lies above"),
    (statement(), (0.3, 0.1, 0.45), "contradicts", "no part of our interval lies above"),
    (statement(), (0.9, NAN, 0.95), "inconclusive", "too little data"),
    (statement(), (NAN, NAN, NAN), "no result", "no result of ours yet"),
    (statement(side="below"), (-0.9, -0.95, -0.5), "supports", "lies at or below -0.5"),
    (statement(side="below"), (-0.2, -0.5, -0.1), "inconclusive", "a part of our interval"),
    (OUTSIDE, (0.3, 0.2, 0.5), "supports", "lies outside [-0.1, 0.1]"),
    (OUTSIDE, (0.3, 0.1, 0.5), "inconclusive", "a part of our interval"),
    (OUTSIDE, (0.0, -0.05, 0.05), "contradicts", "no part of our interval"),
    (LEVEL, (2.8, 2.7, 2.9), "supports", "lies within [2.5, 3.06]"),
    (LEVEL, (NAN,), "no result", "only the paper's own setting"),
    (BOUND, (0.7,), "supports", "our largest ratio lies at or below 1"),
    (BOUND, (1.5,), "contradicts", "no part of our largest ratio"),
    (BOUND, (0.5, 0.5, 20.0), "inconclusive", "a part of our interval"),
    (PROVED, (1.0,), "proved", "no case exceeds it (largest ratio 1)"),
    (PROVED, (1.01,), "contradicts", "a case exceeds it (largest ratio 1.01)"),
    (REFUTED, (np.inf,), "refuted by argument", "exceeds it without bound"),
    (REFUTED, (1.5,), "refuted by argument", "exceeds it by a factor of 1.5"),
    (REFUTED, (1.0,), "inconclusive", "does not exceed it (ratio 1)"),
])  # fmt: skip
def test_verdict(entry, ours, label, words):
    found, why = verdict(entry, Result("study/made up", "", *ours))
    assert (found, words in why) == (label, True)


def test_scorecard_has_every_statement_in_the_order_of_the_paper_and_each_result():
    empty = scorecard()
    assert empty["id"].is_unique
    assert set(empty["verdict"]) == {"no result"}
    results = [
        Result("theory/theorem-5", "constructed", np.inf),
        Result("theory/lemma-7", "constructed", 0.9),
        Result("main/overall", "cifar10-small", 0.7, 0.6, 0.8, 27, "3 networks"),
        Result("main/overall", "b", 0.5, 0.2, 0.7, 27),
        Result("main/SENet18", "c", NAN, n=3, detail="too few that fit"),
    ]
    shown = tables.beside(results)
    assert len(shown) == 5
    overall = shown["statement"][shown["statement"].str.contains("three networks")].tolist()
    assert [text.partition("): ")[2] for text in overall] == ["3 networks", ""]
    assert tables.beside([])["statement"].item().startswith("none")
    card = scorecard(results)
    assert card["id"].drop_duplicates().tolist() == empty["id"].tolist()
    card = card[card["campaign"] != ""].sort_values("id")
    assert card["id"].tolist() == sorted(result.id for result in results)
    assert card["verdict"].tolist() == [
        "no result", "supports", "inconclusive", "proved", "refuted by argument",
    ]  # fmt: skip
    assert card["counted"].tolist() == [False, True, True, False, False]
    assert card["published"].tolist()[1:] == ["0.93", "0.93", *["ratio at most 1"] * 2]
    ours = ["", "0.70 [0.60, 0.80]", "0.50 [0.20, 0.70]", "0.90", "unbounded"]
    assert card["ours"].tolist() == ours
    assert card["why"].iloc[0] == "too few that fit"
    first, id_ = Result("main/ResNet18", "c", 0.8, 0.7, 0.9, 9), "test-accuracy/ResNet18"
    for value, n, counted in ((-0.8, 9, False), (-0.5, 9, True), (-0.8, 8, True)):
        again = Result(id_, "c", value, -0.9, -0.4, n, same_as=first.id)
        row = scorecard([first, again]).set_index("id").loc[id_]
        assert (row["counted"], "not counted again" in row["why"]) == (counted, not counted)


def test_kept_results_come_back_and_a_page_of_a_build_alone_replaces_its_own(tmp_path, monkeypatch):
    bound = Result("theory/lemma-7", "networks", 0.75, 0.5, 1 / 3, 1000, "tightest, of all")
    other = Result("study/own", "students", 0.4)
    pages = (("08_theory", [other]), ("08_theory", [bound]), ("09_linear_regions", [other]))
    for page, results in pages:
        monkeypatch.setenv(tables.RESULTS, str(tmp_path / f"{page}.csv"))
        tables.keep_results(results)
    monkeypatch.delenv(tables.RESULTS)
    tables.keep_results([dataclasses.replace(bound, value=0.1)])
    first, last = tables.kept_results(tmp_path)
    assert first == bound
    assert math.isnan(last.low)


def test_an_unknown_statement_is_named():
    for use in (tables.keep_results, scorecard):
        with pytest.raises(ValueError, match="Did you mean 'theory/lemma-7'"):
            use([Result("theory/lemma-77", "x", 0.5)])


def test_a_printed_number_follows_from_the_records_where_it_is_their_number_rounded(monkeypatch):
    card = scorecard().set_index("id")
    ids = ("main/ResNet18", "architectures/ResNet18/CIFAR-100", "architectures/ResNet18/ImageNet")
    assert card.loc[[*ids], "follows"].tolist() == ["yes", "no", ""]
    # One number of test accuracy, whose sign is turned.
    assert card.loc["test-accuracy/ResNet18", "authors"].startswith("-0.9")
    theirs = tables.authors_results()
    monkeypatch.setattr(tables, "authors_results", lambda: -theirs)
    assert scorecard().set_index("id").loc["main/ResNet18", "follows"] == "no"


def test_a_number_that_the_paper_prints_twice_is_counted_once():
    runs = make_runs(["ResNet18"], decays=[1e-5])
    runs.loc[0, ["status", "count", "gap", "test_accuracy"]] = ["diverged", np.nan, np.nan, np.nan]

    def card():
        results = [*correlation_result("main/ResNet18", "made", runs, "gap")]
        results += correlation_result("test-accuracy/ResNet18", "made", runs, "test_accuracy")
        return scorecard(results).set_index("id")

    ids = ["main/ResNet18", "test-accuracy/ResNet18"]
    assert "9 of them interpolate, diverged runs: 1)" in card().loc[ids[0], "why"]
    again = pd.concat([runs, runs.assign(experiment="another")])  # which asks for the same runs
    assert next(correlation_result(ids[0], "made", again, "gap")).detail.endswith("runs: 1")
    assert card().loc[ids, "counted"].tolist() == [True, False]
    runs.loc[1, "test_accuracy"] -= 0.5
    assert card().loc[ids, "counted"].tolist() == [True, True]
