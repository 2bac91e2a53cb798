"""Records and campaign files on disk: whole or absent, damage is named, read back as one table."""

import copy
import dataclasses
import datetime
import errno
import json
import os
import shutil
import subprocess
import sys
import tomllib
import warnings
from unittest.mock import Mock

import numpy as np
import pytest
from conftest import EXAMPLES, FUZZ
from hypothesis import given, settings
from hypothesis import strategies as st

from rc_utils.paths import campaigns_dir
from rc_utils.sweep import records
from rc_utils.sweep.campaign import list_campaigns, load_campaign, parse_campaign
from rc_utils.sweep.execute import check_values
from rc_utils.sweep.records import find_count, is_complete

PATH = campaigns_dir() / "shapes-tiny" / "campaign.toml"
TINY = tomllib.loads(PATH.read_text(encoding="utf-8"))


@pytest.fixture
def campaign(tmp_path):
    """The campaign shapes-tiny in a folder of the test."""
    shutil.copy(PATH, tmp_path)
    return load_campaign(tmp_path)


def made_up(planned, value=2):
    """A record of a run that was not trained."""

    def counted(counts, values):
        rest = {"num_evaluations": 4, "seconds": 0.1}
        return [{"settings": s, "counts": values} | rest for s in counts]

    accuracies = {"train_accuracy": 1.0, "test_accuracy": 0.75}
    looks = {"counts": counted(planned.asked["evolution_counts"], [1, 2])} | accuracies
    return {
        "schema": 1, "run_id": planned.spec.run_id, "status": "ok",
        "spec": dataclasses.asdict(planned.spec),
        "results": accuracies | {"train_loss": 0, "test_loss": float.fromhex(planned.spec.run_id)},
        "measures": {"distance_from_init": 1.5, "margin": 2.5},
        "counts": counted(planned.asked["counts"], [value, value + 1]),
        "evolution": [{"epoch": epoch} | looks for epoch in planned.asked["evolution_epochs"]],
        "provenance": {"seconds_train": 1.0, "hardware": "none", "data": {"sha256": "0" * 64}},
    }  # fmt: skip


def write_all(campaign, **given):
    for planned in campaign.runs().values():
        records.write_record(made_up(planned) | given)


NOT_WHOLE = [b"", b"[1, 2]", b"\xff\xfe\x00", {"schema": 7}, {"run_id": "0" * 16}]
NOT_WHOLE += [{"spec": {"dataset": {}, "network": {}, "train": {}}}, {"results": {"gap": 0.1}}]


@pytest.mark.parametrize("content", NOT_WHOLE)
def test_a_corrupt_record_is_named_and_missing(campaign, content):
    planned = next(iter(campaign.runs().values()))
    path = records.write_record(made_up(planned))
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        records.write_record(made_up(planned) | content).replace(path)
    with pytest.warns(UserWarning, match=planned.spec.run_id):
        assert records.find_records(campaign.runs()) == {}


def test_a_record_under_another_name_and_a_run_on_two_lines_are_no_records(campaign):
    one, other = list(campaign.runs())[:2]
    path = records.write_record(made_up(campaign.runs()[one]))
    shutil.copy(path, records.record_path(other))
    with pytest.warns(UserWarning, match=f"its settings are those of run {one}"):
        assert list(records.find_records(campaign.runs())) == [one]
    records.record_path(other).unlink()
    frozen, _ = records.freeze(campaign)
    again = json.dumps(records.sealed(made_up(campaign.runs()[one], value=9)))
    frozen.write_text(frozen.read_text() + again + "\n")
    with pytest.raises(ValueError, match=f"has runs on several lines, .'{one}"):
        records.load_runs(campaign)


def test_the_table_has_the_documented_columns_also_without_rows(campaign):
    empty = records.load_runs(campaign)
    write_all(campaign, results=dict.fromkeys(records.RESULTS, 1.0))
    with pytest.warns(UserWarning, match="^7 runs .* end exactly as one of another"):
        records.load_runs(campaign)
    assert {"run_id", "network", "epoch", "gap"} <= set(records.load_evolution(campaign).columns)
    write_all(campaign)
    table = records.load_runs(campaign)
    assert {"count", "gap", "lr", "experiment"} <= set(empty.columns) <= set(table.columns)
    row = table.iloc[0]
    shown = row.network, row.setting, row.gap, row.interpolates
    assert shown == ("ResNet18", "lr=0.1, batch_size=32", 0.25, True)
    assert row["count"] == row.count_main == row.count_triangles == 2.5
    assert row.count_std_error == pytest.approx(np.std([2, 3], ddof=1) / np.sqrt(2))
    assert records.load_runs(campaign, origin="reference").empty
    evolution = records.load_evolution(campaign)
    assert evolution.groupby("run_id")["epoch"].apply(list).tolist() == [[0, 1, 3]] * 8
    assert (evolution["count_few"] == 1.5).all()


def test_counts_of_single_simplices_are_of_the_runs_that_have_them_all(campaign):
    write_all(campaign)
    first = next(iter(campaign.runs().values()))
    record = made_up(first)
    records.write_record(record | {"counts": record["counts"][1:]})
    table = records.load_runs(campaign)
    assert table["count"].isna().sum() == 1
    by_simplex = records.load_counts(campaign, ["main", "triangles"])
    assert set(by_simplex["run_id"]) == set(table["run_id"][table["count"].notna()])
    shown = by_simplex.assign(counts=by_simplex["counts"].map(len)).iloc[:2, -4:]
    assert shown.to_numpy().tolist() == [["main", 2, 2, 0.05], ["triangles", 2, 2, 0.05]]
    with pytest.raises(ValueError, match="Did you mean 'main'"):
        records.load_counts(campaign, ["mian"])


def test_experiments_alike_have_equal_settings_however_the_file_writes_them(tmp_path, monkeypatch):
    changes = {"noise": {"dataset": {"label_noise": 0.5}}, "wide": {"options": {"width": 2}}}
    changes |= {"drawn": {"own_draw": True}, "sam": {"train": {"sam_radius": 0.1}}}
    grid = {"batch_size": [32], "mixup_alpha": [0.0, 1.0], "lr": [0.1, 0.03]}
    changes["again"] = {"seeds": [5], "train": {"epochs": 3, "momentum": 0.9}, "grid": grid}
    one = {"networks": ["ResNet18"], "seeds": [0]}
    experiments = TINY["experiments"] + [{"name": name} | one | c for name, c in changes.items()]
    campaign = parse_campaign(TINY | {"experiments": experiments}, "t", tmp_path)
    monkeypatch.setattr(records, "load_campaign", lambda _: campaign)
    assert records.experiments_like("t") == ["main", "again"]
    assert records.experiments_like("t", "sam", training=False) == ["main", "sam", "again"]
    assert campaign.plan_network({"name": "M", "width": 9}, "wide").spec.network["width"] == 9
    wide = campaign.restricted(["wide"])
    assert wide.plan_network({"name": "M"}) == wide.plan_network({"name": "M"}, "wide")
    write_all(campaign)
    first, again, noise = (records.plain_runs("t", experiment=e) for e in ("", "again", "noise"))
    assert [len(runs) for runs in (first, again, noise)] == [10, 12, 1]  # without mixup, with it
    assert (first["setting"].nunique(), first["count"][0]) == (5, 2.5)  # of one both have runs
    assert records.load_runs("t")["setting"].iloc[-1] == "lr=0.03, batch_size=32, mixup_alpha=1.0"
    one, all_ = map(records.describe_runs, (noise, records.campaign_runs("t")))
    assert "image_size 8, label_noise 0.5\n" in one.partition("1 network, 1 seed;")[2]
    assert "default or 0.5\n16 fit their training images (accuracy at least 0.99), 0 div" in all_


def test_a_campaign_whose_runs_have_no_main_count_is_named(campaign, monkeypatch):
    spaced = dataclasses.replace(campaign.experiments[0], name="two words", grid={"lr": [1.0]})
    write_all(campaign)
    campaign = dataclasses.replace(campaign, experiments=[*campaign.experiments, spaced])
    runs = records.load_runs(campaign)
    monkeypatch.setattr(records, "load_campaign", lambda _: campaign)
    with pytest.raises(ValueError, match="sweep 'my t' --experiment 'two words'` trains its runs"):
        records.campaign_runs("my t", "two words")
    monkeypatch.setattr(records, "load_runs", lambda *_, **__: runs)
    with pytest.raises(ValueError, match="no run chosen of campaign 't' has a count 'other'"):
        records.campaign_runs("t", count="other")
    for counted in (0, 1):  # as after the campaign was edited, and in the middle of a sweep
        runs["count_main"] = [2.0] * counted + [np.nan] * (len(runs) - counted)
        again = f"{len(runs) - counted} of {len(runs)} runs lack the count 'main': `python -m rc_ut"
        with pytest.raises(ValueError, match=again):
            records.campaign_runs("t")
    del runs["count_main"]
    with pytest.raises(ValueError, match="8 of 8 runs lack the count 'main'"):
        records.campaign_runs("t")


def test_freezing_a_part_keeps_the_records_of_the_rest(campaign):
    path, number = records.freeze(campaign)
    assert (number, path.exists()) == (0, False)
    write_all(campaign)
    records.freeze(campaign)
    whole = path.read_bytes()
    ids = [json.loads(line)["run_id"] for line in whole.splitlines()]
    assert ids == sorted(campaign.runs())
    experiment = campaign.experiments[0]
    grid = {name: values[:1] for name, values in experiment.grid.items()}
    part = dataclasses.replace(campaign, experiments=[dataclasses.replace(experiment, grid=grid)])
    assert 0 < len(part.runs()) < 8
    assert records.freeze(part)[1] == 8
    assert path.read_bytes() == whole
    path.write_bytes(whole[:-9])
    damaged = pytest.raises(ValueError, match="has damaged lines: restore them")
    with damaged, pytest.warns(UserWarning, match="is not a whole record"):
        records.freeze(campaign)
    assert path.read_bytes() == whole[:-9]


def test_a_campaign_that_was_named_by_a_path_has_its_records_in_any_folder(frozen, monkeypatch):
    monkeypatch.chdir(frozen.parent.parent)
    campaign = load_campaign(frozen.parent.name)
    monkeypatch.chdir("/")
    assert len(records.load_runs(campaign)) == 8


def test_records_are_read_without_torch():
    code = """
import sys, rc_utils as rc
from rc_studies import studies
assert len(rc.load_runs("tiny-imagenet-small", "reference")) and rc.TrainConfig().lr == 0.1
sys.exit("torch" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_count_of_an_older_record_that_names_no_neighbours_is_the_papers():
    """Campaigns have the default of `region_count`, and name it."""
    entries = [{"settings": {"points": "train"} | dim} for dim in ({"dim": 2}, {})]
    table = {
        "title": "t", "dataset": {}, "networks": {"MLP": {}},
        "experiments": [{"name": "e", "networks": ["MLP"], "seeds": [0]}],
        "counts": {"main": {}, "default": {"dim": 2}, "linear": {"dim": 2, "adjacency": "linear"},
                   "face": {"dim": 2, "adjacency": "face"}} | {str(d): {"dim": d} for d in (4, 6)},
    }  # fmt: skip
    counts = parse_campaign(table, "t").counts
    assert counts["default"] == counts["linear"]
    assert [counts[d]["adjacency"] for d in "46"] == ["linear", "simplex"]
    assert find_count(entries, counts["linear"]) is None
    assert [find_count(entries, counts[label]) for label in ("face", "main")] == entries


def test_equal_counts_are_one_and_runs_on_two_datasets_are_named(campaign):
    planned = next(iter(campaign.runs().values()))
    record = made_up(planned)
    record["counts"][0]["settings"] = record["counts"][0]["settings"] | {"num_samples": 20.0}
    assert is_complete(record, planned)
    for other, found in zip(campaign.runs().values(), ("a" * 64, "b" * 64), strict=False):
        provenance = {"seconds_train": 1.0, "data": {"sha256": found}}
        records.write_record(made_up(other) | {"provenance": provenance})
    first, second = list(campaign.runs())[:2]
    with pytest.warns(UserWarning, match=f"{first}, {second} have different data .*shapes"):
        assert len(records.load_runs(campaign)) == 2


def test_of_a_live_and_a_frozen_record_the_complete_one_is_read_and_frozen(campaign):
    """Or none, as after a measure was added, where another campaign made the run with less."""
    write_all(campaign)
    path, _ = records.freeze(campaign)
    whole, (key, planned) = path.read_bytes(), next(iter(campaign.runs().items()))
    changes = (({"evolution": []}, "reference"), ({"measures": {}}, "reference"), ({}, "live"))
    for change, origin in changes:
        records.write_record(made_up(planned) | change)
        assert records.find_records(campaign.runs())[key][1] == origin
    more = dataclasses.replace(campaign.experiments[0], measures=["margin", "sharpness"])
    edited = dataclasses.replace(campaign, experiments=[more])
    less = made_up(planned) | {"counts": [], "measures": {}}
    for worse in (less, less | {"status": "diverged"}):
        records.write_record(worse)
        records.freeze(edited)
    assert path.read_bytes() == whole
    records.write_record(made_up(planned, value=5))
    records.freeze(campaign)
    assert path.read_bytes() != whole
    path.unlink()
    records.write_record(less)
    assert records.freeze(edited)[1] == 8


@pytest.mark.parametrize("name", list_campaigns())
def test_a_campaign_that_ships_is_valid_and_its_records_have_the_ids_that_it_asks_for(name):
    campaign = load_campaign(name)
    check_values(campaign)
    planned, path = campaign.runs(), campaign.folder / "runs.jsonl"
    assert planned
    recorded = records.read_frozen(path).values()
    assert len(recorded) == (path.read_bytes().count(b"\n") if path.exists() else 0)
    for record in recorded:
        assert records.spec_of(record).run_id == record["run_id"]
        assert record["run_id"] in planned


@pytest.fixture
def frozen(campaign):
    """The same with frozen records, made up, and none of this machine's."""
    write_all(campaign)
    path, _ = records.freeze(campaign)
    shutil.rmtree(records.results_dir())
    return path


def paths_in(value, path=()):
    """Every place in a nested table."""
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, inner in items:
        yield (*path, key)
        yield from paths_in(inner, (*path, key))


ODD = [0, -1, 10**400, -(10**400), float("nan"), float("inf"), datetime.date(2025, 1, 1), "a:b"]
SHORT = st.text(max_size=5)
JUNK = st.recursive(
    st.booleans() | st.integers() | st.floats() | SHORT | st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SHORT, inner, max_size=3),
    max_leaves=5,
)


def mutate(table, path, how, junk):
    """The table with one place deleted, renamed or replaced."""
    table = inner = copy.deepcopy(table)
    for key in path[:-1]:
        inner = inner[key]
    if how == "replace":
        inner[path[-1]] = junk
    elif how == "delete" or isinstance(inner, list):
        del inner[path[-1]]
    else:
        inner[path[-1] + "x"] = inner.pop(path[-1])
    return table


@given(
    path=st.sampled_from(list(paths_in(TINY))),
    how=st.sampled_from(["replace", "delete", "rename"]),
    junk=JUNK,
)
@settings(FUZZ, max_examples=EXAMPLES * 2 // 5)  # each tries its counts
def test_a_changed_campaign_is_valid_or_the_key_is_named(path, how, junk):
    planned, message = None, ""
    try:
        changed = parse_campaign(mutate(TINY, path, how, junk), "tiny")
        check_values(changed)
        planned = changed.runs()
    except ValueError as error:
        message = str(error)
    key = [part for part in path if isinstance(part, str)][-1]
    assert planned is not None or key.removesuffix("s") in message


def damaged(content, how, where, byte):
    """The bytes with one change: `where` in [0, 1) its place, `byte` in 1..255 what goes in."""
    i = int(where * len(content))
    if how == "digit":
        digits = [k for k, c in enumerate(content) if chr(c).isdigit()]
        i = digits[int(where * len(digits))]
        return content[:i] + str((content[i] - 48 + byte % 9 + 1) % 10).encode() + content[i + 1 :]
    return {
        "flip": content[:i] + bytes([content[i] ^ byte]) + content[i + 1 :],
        "truncate": content[:i],
        "insert": content[:i] + bytes([byte]) + content[i:],
        "nan": content.replace(b"0.75", b"NaN"),
    }[how]


@given(
    how=st.sampled_from(["flip", "truncate", "insert", "digit", "nan"]),
    where=st.floats(0, 1, exclude_max=True),
    byte=st.integers(1, 255),
)
@FUZZ
def test_a_damaged_frozen_line_is_named_or_says_the_same(campaign, frozen, how, where, byte):
    whole = frozen.read_bytes()
    frozen.write_bytes(damaged(whole, how, where, byte))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = records.read_frozen(frozen)
        assert len(records.load_runs(campaign)) == len(found)
    lines = [line for line in frozen.read_bytes().splitlines() if line.strip()]
    frozen.write_bytes(whole)
    for run_id in found:
        assert found[run_id] == records.sealed(made_up(campaign.runs()[run_id]))
    # A line that is gone altogether is a run without a record; one with more blanks says the same.
    assert len(found) == len(lines) or f"{frozen}, line" in str(caught[0].message)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_everything_and_names_the_file(campaign, frozen, monkeypatch, call):
    def files():
        return {path: path.read_bytes() for path in frozen.parent.rglob("*") if path.is_file()}

    write_all(campaign)
    before = files()
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, call, Mock(side_effect=full))
    probe = lambda _: records.check_writable()  # noqa: E731
    writers = {write_all: r"\w+\.json", records.freeze: r"runs\.jsonl", probe: r"\.writable\.\w+"}
    for write, name in writers.items():
        with pytest.raises(OSError, match=f"{full.strerror}; free disk space .*{name}'"):
            write(campaign)
    assert files() == before
