"""The benchmarks run, compare equal results, and say honestly whether a target is met."""

import csv
import dataclasses
import functools
import subprocess
import sys

import pytest
import torch
from distributed import LocalCluster

import benchmarks
from benchmarks import adaptive, counting, epoch, gpu, memory, report, scheduling, triangles
from benchmarks.__main__ import main
from benchmarks.networks import narrow_network, one_epoch, shapes
from benchmarks.registry import TINY, Row, at_least, at_most
from benchmarks.timing import in_turns

NUMBER_OF_ROWS = {
    "counting-2d": 2, "counting-nd": 6, "forward": 2, "full-width": 3, "overhead": 2, "layout": 2,
    "adaptive": 4, "linear": 6, "triangles": 44, "memory": 1, "scheduling": 1,
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_tiny_network(monkeypatch):
    """They train one network of a few hundred weights; a scheduler's workers are threads."""
    monkeypatch.setattr(adaptive, "NETWORKS", {"ResNet18": {"width": 2}})
    monkeypatch.setattr(adaptive, "LEARNING_RATES", (0.02,))
    monkeypatch.setattr("benchmarks.forward.WIDTH", 2)
    monkeypatch.setattr("benchmarks.forward.IMAGE_SIZE", 8)
    monkeypatch.setattr(triangles, "REFERENCE_POINTS", (11, 21, 41))
    monkeypatch.setattr(triangles, "LINEAR_CLASSIFIERS", {3: 2, 6: 2})
    in_process = functools.partial(LocalCluster, processes=False)
    monkeypatch.setattr(scheduling, "LocalCluster", in_process)
    peak = memory.peak_megabytes
    monkeypatch.setattr(memory, "peak_megabytes", functools.cache(lambda segments: peak(1)))


@pytest.mark.parametrize("name", NUMBER_OF_ROWS)
def test_benchmark_gives_its_rows(name):
    assert set(NUMBER_OF_ROWS) == set(benchmarks.load()) - {"gpu"}  # which needs a card
    rows = list(benchmarks.load()[name](TINY))
    assert len(rows) == NUMBER_OF_ROWS[name]
    for row in rows:
        if row.unit == "s" and name not in ("linear", "triangles"):
            assert len(row.ours) == len(row.other) == TINY.repeats
            assert min(*row.ours, *row.other) > 0


def test_the_checks_of_a_card_hold_between_the_cpu_and_itself(monkeypatch):
    assert list(benchmarks.load()["gpu"](TINY)) == [] or torch.cuda.is_available()
    monkeypatch.setattr(gpu, "WIDTH", 2)
    monkeypatch.setattr(gpu, "IMAGE_SIZE", 8)
    monkeypatch.setattr(gpu, "MEASURES", ("margin", "gi_score_intra"))
    monkeypatch.setattr(gpu, "narrow_network", functools.partial(narrow_network, width=2))
    few = [{"dim": dim, "resolution": 5} for dim in (2, 3)]
    monkeypatch.setattr(gpu, "COUNTS", ({}, {"strategy": "adaptive"}, *few))
    rows = list(gpu.gpu(TINY, device="cpu"))
    assert [row.verdict for row in rows[:8]] == ["yes"] * 8
    assert len(rows) == 8 + 1 + 2


def test_ratio_and_verdict_follow_the_target():
    fast = Row("b", "a", (1.0, 2.0, 1.0), (3.0, 4.0, 9.0), at_least(3))
    assert fast.ratios == [3.0, 2.0, 9.0]
    assert (fast.ratio, fast.verdict) == (3.0, "yes")
    for ours, other, target, verdict in (
        (1.0, 2.9, at_least(3), "NO"),
        (1.05, 1.0, at_most(1.1), "yes"),
        (1.2, 1.0, at_most(1.1), "NO"),
        (0.0, 0.0, at_most(1), "yes"),
        (2.0, 1.0, None, "-"),
    ):
        assert Row("b", "a", (ours,), (other,), target).verdict == verdict
    row = Row("miscounted", "grid", (0.0,), (3.0,), at_most(1), "wrong")
    cells = report.table([row]).iloc[0].tolist()[2:]
    assert cells == ["0 wrong", "3 wrong", "0", "0-0", "<= 1", "yes"]


def test_sides_are_measured_in_turns_after_one_unmeasured_turn():
    calls = []

    def side(name):
        return lambda: calls.append(name) or len(calls)

    seconds = in_turns([side("x"), side("y")], 3)
    assert "".join(calls) == "xy" + "xy" + "yx" + "xy"
    assert seconds == [(3, 6, 7), (4, 5, 8)]


def test_a_wrong_count_is_an_error():
    grids = counting.label_grids((6, 6), 3)
    with pytest.raises(AssertionError, match="does not count the same"):
        counting._compare("six", grids, "wrong", lambda grids: [0, 0, 0], at_least(1), 1)


def test_work_timer_leaves_evaluation_out_and_cleans_up():
    network, data = narrow_network(width=4), shapes(30)
    forward = network.forward
    with epoch.work_timer(network) as spent:
        total = epoch.epoch_seconds(network, data, one_epoch(batch_size=10))
    # Three batches of forward pass, loss, backward pass and step.
    assert len(spent) == 3 * 4
    assert 0 < sum(spent) < total
    assert network.forward == forward


def test_the_command_writes_the_table_so_far_and_names_mistakes(results, capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.__main__.QUICK", dataclasses.replace(TINY, grids=4))
    assert main(["--quick", "--only", "counting-2d"]) == 0
    printed = capsys.readouterr().out
    lines = list(csv.reader((results / "benchmarks.csv").read_text(encoding="utf-8").splitlines()))
    assert tuple(lines[0]) == report.COLUMNS
    assert len(lines) == 1 + NUMBER_OF_ROWS["counting-2d"]
    assert all(cell in printed for line in lines for cell in line)
    assert main(["--only", "countin-2d"]) == 2
    assert "Did you mean 'counting-2d'?" in capsys.readouterr().err

    def interrupted(scale):
        yield Row("first", "other", (1.0,), (2.0,))
        raise KeyboardInterrupt

    monkeypatch.setattr("benchmarks.load", lambda: {"stops": interrupted})
    with pytest.raises(KeyboardInterrupt):
        main([])
    assert "first" in capsys.readouterr().out
    assert "first" in (results / "benchmarks.csv").read_text(encoding="utf-8")


def test_the_peak_is_that_of_the_process_itself_and_not_of_the_one_that_started_it():
    show = "print(own_peak())"
    script = f"from benchmarks.memory import own_peak; {show}; held = b'x' * (200 << 20); {show}"
    command, ballast = [sys.executable, "-c", script], b"x" * (500 << 20)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, last = (int(line) / 1024 for line in done.stdout.split())
    assert last - first == pytest.approx(200, abs=20)
    assert last < len(ballast) / 2**20 + 200
