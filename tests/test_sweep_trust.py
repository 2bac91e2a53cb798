"""What a run leaves behind can be trusted: damaged input is named, a failing disk loses nothing."""

import copy
import datetime
import errno
import os
import shutil
import tomllib
import warnings
from unittest.mock import Mock

import pytest
from conftest import EXAMPLES, FUZZ
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sweep_execute import TABLE
from test_sweep_records import made_up, write_all

from rc_utils.paths import campaigns_dir
from rc_utils.sweep import records as ledger
from rc_utils.sweep.campaign import parse_campaign
from rc_utils.sweep.execute import check_values

PATH = campaigns_dir() / "shapes-tiny" / "campaign.toml"
TINY = tomllib.loads(PATH.read_text(encoding="utf-8"))


@pytest.fixture
def campaign(tmp_path):
    """Two runs that take a moment, in a folder of the test."""
    runs = TABLE["experiments"][0] | {"seeds": [0, 1], "grid": {"lr": [0.1]}}
    return parse_campaign(TABLE | {"experiments": [runs]}, "two", tmp_path)


@pytest.fixture
def frozen(campaign):
    """The same with frozen records, made up, and none of this machine's."""
    write_all(campaign)
    path, _ = ledger.freeze(campaign)
    shutil.rmtree(ledger.results_dir())
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
    planned, message = {}, ""
    try:
        changed = parse_campaign(mutate(TINY, path, how, junk), "tiny")
        check_values(changed)
        planned = changed.runs()
    except ValueError as error:
        message = str(error)
    key = [part for part in path if isinstance(part, str)][-1]
    assert planned or key.removesuffix("s") in message


def damaged(content, how, where, byte):
    """The bytes with one change: `where` in [0, 1) its place, `byte` in 1..255 what goes in."""
    i = int(where * len(content))
    if how == "digit":
        digits = [k for k, c in enumerate(content) if chr(c).isdigit()]
        i = digits[int(where * len(digits))]
        return content[:i] + str((content[i] - 48 + byte % 9 + 1) % 10).encode() + content[i + 1 :]
    return {
        "flip": content[:i] + bytes([content[i] ^ byte]) + content[i + 1 :],
        "cut": content[:i] + content[i + byte :],
        "truncate": content[:i],
        "insert": content[:i] + bytes([byte]) + content[i:],
        "nan": content.replace(b"0.75", b"NaN"),
    }[how]


@given(
    how=st.sampled_from(["flip", "cut", "truncate", "insert", "digit", "nan"]),
    where=st.floats(0, 1, exclude_max=True),
    byte=st.integers(1, 255),
)
@FUZZ
def test_a_damaged_frozen_line_is_named_or_says_the_same(campaign, frozen, how, where, byte):
    whole = frozen.read_bytes()
    frozen.write_bytes(damaged(whole, how, where, byte))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = ledger.read_frozen(frozen)
        assert len(ledger.load_runs(campaign)) == len(found)
    lines = [line for line in frozen.read_bytes().splitlines() if line.strip()]
    frozen.write_bytes(whole)
    assert all(found[run_id] == ledger.sealed(made_up(campaign.runs()[run_id])) for run_id in found)
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
    for write, name in ((write_all, r"\w+\.json"), (ledger.freeze, r"runs\.jsonl")):
        with pytest.raises(OSError, match=f"{full.strerror}; free disk space .*{name}'"):
            write(campaign)
    assert files() == before
