"""Every benchmark runs on tiny networks and compares equal results."""

import functools

import pytest
from distributed import LocalCluster

import benchmarks
from benchmarks import adaptive, counting, gpu, memory, triangles
from benchmarks.__main__ import main
from benchmarks.networks import narrow_network
from benchmarks.registry import TINY, Row, at_least


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
    monkeypatch.setattr("distributed.LocalCluster", in_process)
    once = functools.cache(functools.partial(memory.peak_megabytes, 1))
    monkeypatch.setattr(memory, "peak_megabytes", lambda segments: once())


@pytest.mark.parametrize("name", sorted(set(benchmarks.load()) - {"gpu"}))  # which needs a card
def test_a_benchmark_gives_rows_and_the_command_writes_them(name, results, capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.__main__.QUICK", TINY)
    assert main(["--quick", "--only", name]) == 0
    (path,) = results.glob("benchmarks-*.csv")
    assert len(path.read_text(encoding="utf-8").splitlines()) > 1
    assert "written to" in capsys.readouterr().out


def test_the_checks_of_a_card_hold_between_the_cpu_and_itself(monkeypatch):
    monkeypatch.setattr(gpu, "WIDTH", 2)
    monkeypatch.setattr(gpu, "IMAGE_SIZE", 8)
    monkeypatch.setattr(gpu, "MEASURES", ("margin", "gi_score_intra"))
    monkeypatch.setattr(gpu, "narrow_network", functools.partial(narrow_network, width=2))
    few = [{"dim": dim, "resolution": 5} for dim in (2, 3)]
    monkeypatch.setattr(gpu, "COUNTS", ({}, {"strategy": "adaptive"}, *few))
    rows = list(gpu.gpu(TINY, device="cpu"))
    assert [row.verdict for row in rows[:8]] == ["yes"] * 8
    assert len(rows) == 8 + 1 + 2


def test_a_missed_target_and_a_wrong_count_are_not_passed_over():
    assert Row("b", "a", (1.0,), (2.9,), at_least(3)).verdict == "NO"
    grids = counting.label_grids((6, 6), 3)
    with pytest.raises(AssertionError, match="does not count the same"):
        counting._compare("six", grids, "wrong", lambda grids: [0, 0, 0], at_least(1), 1)
