"""The sweep: finishes a campaign, survives kills, shares runs, says what is wrong."""

import dataclasses
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from rc_utils import ledger, runs
from rc_utils.campaign import load_campaign, parse_campaign
from rc_utils.cost import run_flops
from rc_utils.sweep import main, missing_runs, plan, sweep, verify

TABLE = {
    "title": "four runs",
    "dataset": {"name": "shapes", "n_train": 64, "n_test": 32, "image_size": 8},
    "train": {"epochs": 1},
    "networks": {"ResNet18": {"width": 2}},
    "counts": {"main": {"num_samples": 4, "resolution": 10}},
    "experiments": [
        {"name": "main", "networks": ["ResNet18"], "seeds": [0], "grid": {"lr": [0.1, 0.01], "batch_size": [16, 32]}}
    ],
}


def with_changes(**experiment):
    table = TABLE | {"experiments": [TABLE["experiments"][0] | experiment]}
    return parse_campaign(table, "four")


def statuses(outcomes):
    return [outcome.status for outcome in outcomes]


def test_a_sweep_finishes_a_campaign_and_then_has_nothing_to_do():
    campaign = with_changes()
    assert statuses(sweep(campaign)) == ["done"] * 4
    assert missing_runs(campaign) == []
    assert sweep(campaign) == []
    table = ledger.load_runs(campaign)
    assert len(table) == 4
    assert table["count"].between(1, 10).all()


def test_worker_processes_give_the_records_of_one_process(results, tmp_path, monkeypatch):
    campaign = with_changes()
    sweep(campaign)
    alone = ledger.find_records(campaign.runs())
    monkeypatch.setenv("RC_RESULTS", str(tmp_path / "elsewhere"))
    assert statuses(sweep(campaign, workers=2)) == ["done"] * 4
    for key, (record, _) in ledger.find_records(campaign.runs()).items():
        for part in ("results", "spec", "measures"):
            assert record[part] == alone[key][0][part]
        assert [c["counts"] for c in record["counts"]] == [c["counts"] for c in alone[key][0]["counts"]]


def test_a_new_count_needs_no_new_training(monkeypatch):
    sweep(with_changes())
    table = TABLE | {"counts": TABLE["counts"] | {"test": {"points": "test", "num_samples": 3, "resolution": 5}}}
    more = parse_campaign(table | {"experiments": [TABLE["experiments"][0] | {"counts": ["main", "test"]}]}, "four")
    monkeypatch.setattr(runs, "train", lambda *a, **k: pytest.fail("trained again"))
    assert statuses(sweep(more)) == ["done"] * 4
    table = ledger.load_runs(more)
    assert {"count_main", "count_test"} <= set(table.columns)


def test_without_weights_a_new_count_trains_again_and_keeps_the_old_counts():
    campaign = with_changes()
    sweep(campaign)
    before = ledger.load_runs(campaign).set_index("run_id")["count_main"]
    for path in ledger.results_dir().glob("weights/*"):
        path.unlink()
    table = TABLE | {"counts": TABLE["counts"] | {"test": {"points": "test", "num_samples": 3, "resolution": 5}}}
    more = parse_campaign(table | {"experiments": [TABLE["experiments"][0] | {"counts": ["test"]}]}, "four")
    sweep(more)
    assert ledger.load_runs(campaign).set_index("run_id")["count_main"].equals(before)


def test_a_measure_of_the_architecture_needs_no_training_even_of_a_frozen_record(tmp_path, monkeypatch):
    campaign = dataclasses.replace(with_changes(), folder=tmp_path)
    sweep(campaign)
    ledger.freeze(campaign)
    shutil.rmtree(ledger.results_dir())
    more = dataclasses.replace(with_changes(measures=["num_parameters"]), folder=tmp_path)
    monkeypatch.setattr(runs, "train", lambda *a, **k: pytest.fail("trained again"))
    assert statuses(sweep(more)) == ["done"] * 4
    table = ledger.load_runs(more)
    assert (table["num_parameters"] > 1000).all()
    assert table["count_main"].notna().all()


def test_an_evolution_that_is_asked_for_later_trains_again():
    sweep(with_changes())
    more = with_changes(evolution_epochs=[0, 1], evolution_counts=["main"], measures=["margin"])
    assert statuses(sweep(more)) == ["done"] * 4
    assert len(ledger.load_evolution(more)) == 8
    last = ledger.load_evolution(more).groupby("run_id").last()["count_main"]
    assert last.equals(ledger.load_runs(more).set_index("run_id").sort_index()["count_main"])


def test_shards_are_a_partition():
    campaign = with_changes()
    shards = [{p.spec.run_id for p in missing_runs(campaign, (i, 3))} for i in range(3)]
    assert set.union(*shards) == set(campaign.runs())
    assert sum(map(len, shards)) == 4


def test_time_budget_keeps_what_is_finished():
    campaign = with_changes()
    assert statuses(sweep(campaign, time_budget=0.0)) == ["late"] * 4
    assert len(missing_runs(campaign)) == 4


def test_a_run_that_fails_does_not_end_the_sweep(monkeypatch, capsys):
    campaign, original = with_changes(), runs.train_run

    def breaks_once(planned, *rest, **more):
        if planned.spec.train.batch_size == 16 and planned.spec.train.lr == 0.1:
            raise RuntimeError("a network that raises")
        return original(planned, *rest, **more)

    monkeypatch.setattr(runs, "train_run", breaks_once)
    assert statuses(sweep(campaign)) == ["failed", "done", "done", "done"]
    assert "a network that raises" in capsys.readouterr().err


def test_a_diverged_run_is_a_record_with_that_status():
    campaign = with_changes(grid={"lr": [1e30], "batch_size": [16]}, train={"momentum": 0.0, "epochs": 2})
    assert statuses(sweep(campaign)) == ["done"]
    table = ledger.load_runs(campaign)
    assert list(table.status) == ["diverged"]
    assert missing_runs(campaign) == []


def test_a_corrupt_record_is_made_again():
    campaign = with_changes()
    sweep(campaign)
    path = ledger.record_path(next(iter(campaign.runs())))
    whole = ledger.read_record(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.warns(UserWarning, match="not a whole record"):
        assert len(missing_runs(campaign)) == 1
    with pytest.warns(UserWarning, match="not a whole record"):
        assert statuses(sweep(campaign)) == ["done"]
    assert ledger.read_record(path)["results"] == whole["results"]


def test_verify_reproduces_the_records():
    campaign = with_changes()
    sweep(campaign)
    rows = list(verify(campaign, 2))
    assert len(rows) == 2
    assert all(accuracy == count == 0 for _, accuracy, count in rows)


def test_plan_counts_what_is_missing():
    campaign = with_changes()
    assert "4 of 4 distinct runs to do" in "\n".join(plan(campaign))
    sweep(campaign, shard=(0, 2))
    text = "\n".join(plan(campaign))
    assert "main: 2 of 4 runs have a record" in text
    assert "process hours for 2" in text


def test_operations_of_a_run_by_hand():
    planned = next(iter(with_changes(networks=["ResNet18"]).runs().values()))
    linear = dataclasses.replace(planned.spec, network={"name": "MLP", "widths": [5]})
    planned = dataclasses.replace(planned, spec=linear)
    forward = 2 * (3 * 8 * 8 * 5 + 5 * 10)
    assert run_flops(planned) == forward * (3 * 64 * 1 + 4 * 10)


def test_one_experiment_alone(capsys):
    assert main(["shapes-tiny", "--experiment", "mian", "--plan"]) == 2
    assert "Did you mean 'main'" in capsys.readouterr().err
    assert main(["shapes-tiny", "--experiment", "main", "--plan"]) == 0
    assert "TFLOP/s sustained" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["shapes-tyni"], "Did you mean 'shapes-tiny'"), (["shapes-tiny", "--device", "cuda:99"], "error:")],
)
def test_the_command_line_names_mistakes(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def command(results):
    environment = os.environ | {"RC_RESULTS": str(results), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-m", "rc_utils.sweep", "shapes-tiny"]
    return {"args": line, "env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}


@pytest.mark.slow
def test_killed_at_random_moments_loses_no_finished_record(results):
    """SIGKILL twenty times; records only ever grow in number and are whole; then the next call finishes the rest."""
    campaign, rng, seen = load_campaign("shapes-tiny"), random.Random(0), {}
    for _ in range(20):
        process = subprocess.Popen(**command(results))
        time.sleep(rng.uniform(1.5, 5.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        now = {path.name: ledger.read_record(path)["checksum"] for path in results.glob("records/*.json")}
        assert seen.items() <= now.items()
        seen = now
        if len(seen) == 8:
            for path in sorted(results.glob("records/*.json"))[rng.randrange(8) :: 2]:
                path.unlink()
                seen.pop(path.name)
    subprocess.run(**command(results), check=True)
    assert missing_runs(campaign) == []


@pytest.mark.slow
def test_a_killed_worker_does_not_end_the_sweep(results):
    """Kill one worker process while it works: another one takes its run."""
    call = command(results)
    process = subprocess.Popen(**call | {"args": [*call["args"], "--workers", "2"]})
    killed = False
    while process.poll() is None and not killed:
        time.sleep(0.2)
        if list(results.glob("records/*.json")):
            children = subprocess.run(
                ["pgrep", "-P", str(process.pid), "-f", "spawn_main"], capture_output=True, text=True
            )
            if pids := children.stdout.split():
                os.kill(int(pids[-1]), signal.SIGKILL)
                killed = True
    process.communicate()
    assert killed
    assert process.returncode == 0
    assert missing_runs(load_campaign("shapes-tiny")) == []
