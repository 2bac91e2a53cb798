"""The command for a lent card, rehearsed on the CPU: its steps, and what it leaves and takes up again."""

import json
import sys
import tarfile

import pytest

from benchmarks import gpu, gpu_steps
from rc_utils.sweep import load_campaign, missing_runs


def findings(capsys, step):
    gpu_steps.main([step, "--device", "cpu", "--tiny"])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_steps_print_what_they_find(capsys, monkeypatch):
    """Speeds are not measured here: compiling for them takes minutes on a CPU."""
    monkeypatch.setattr(gpu_steps, "out_of_memory", lambda *_: 1 / 0)  # there is a card to fill elsewhere alone
    assert findings(capsys, "versions")[0]["missing"] == []
    assert [check["ok"] for check in findings(capsys, "checks")] == [True] * 6 + [False]


def test_the_command_does_what_is_left_and_another_machine_goes_on(tmp_path, monkeypatch, capsys):
    def script(text):
        return 0.5 if "sleep" in text else 60, [sys.executable, "-S", "-c", text]

    steps = [
        {"good": script("print('{\"images_per_second\": 7}')"), "bad": script("1 / 0")},
        {"late": script("import time; print('{}', flush=True); time.sleep(60)")},
    ]
    monkeypatch.setattr(gpu, "groups", lambda options: steps)
    monkeypatch.setattr(gpu, "SHARDS", 2)
    command = ["--device", "cpu", "--tiny", "--campaign", "shapes-tiny", "--out", str(tmp_path / "out")]
    state = ["--state", str(tmp_path / "state")]
    assert gpu.main([*command, *state, "--seconds", "0"]) == 3
    assert "shards left: [0, 1]" in capsys.readouterr().out
    assert gpu.main([*command, *state, "--seconds", "300"]) == 0
    report = [json.loads(line) for line in (tmp_path / "out" / "report.jsonl").read_text().splitlines()]
    assert {entry["step"]: entry["status"] for entry in report} == {"good": 0, "bad": 1, "late": "late"}
    assert [entry["found"] for entry in report if entry["step"] != "bad"] == [[{"images_per_second": 7}], [{}]]
    assert "ZeroDivisionError" in "".join(next(e["tail"] for e in report if e["step"] == "bad"))
    with tarfile.open(tmp_path / "out" / "state.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    assert missing_runs(load_campaign("shapes-tiny")) == []
    elsewhere = ["--state", str(tmp_path / "elsewhere"), "--resume", str(tmp_path / "out" / "state.tar.gz")]
    monkeypatch.setattr(gpu.subprocess, "run", lambda *_, **__: pytest.fail("nothing is left"))
    assert gpu.main([*command, *elsewhere]) == 0


CHOSEN = {40_000: ["main", "paper-cell"], 30_000: ["main"], 20_000: ["shorter"], 9: ["narrow"]}


@pytest.mark.parametrize(("rate", "experiments"), CHOSEN.items())
def test_the_campaign_follows_the_measured_speed(tmp_path, rate, experiments):
    options = gpu._parser().parse_args(["--out", str(tmp_path)])
    entry = {"step": "together", "found": [{"images_per_second": rate}]}
    (tmp_path / "report.jsonl").write_text(json.dumps(entry) + "\n")
    assert list(gpu._chosen(tmp_path, options)) == experiments
    campaign = load_campaign("cifar10-h100").restricted(experiments)
    batches = [planned.spec.train.batch_size for planned in list(campaign.runs().values())[:9]]
    assert [len(set(batches[i::3])) for i in range(3)] == [1, 1, 1]
