"""The sweep: finishes a campaign, survives kills, shares runs, says what is wrong."""

import contextlib
import dataclasses
import json
import math
import re
import shutil
import types

import numpy as np
import pytest
import torch

from rc_utils.counting.classifier import NonFiniteScores
from rc_utils.measures import MEASURES
from rc_utils.pages import show
from rc_utils.pages.example import example_network
from rc_utils.pages.show import campaign_runs
from rc_utils.sweep import cluster, execute, records, run
from rc_utils.sweep.campaign import parse_campaign
from rc_utils.sweep.cost import run_flops
from rc_utils.sweep.execute import main, missing_runs, plan, sweep
from rc_utils.sweep.provenance import instructions
from rc_utils.sweep.verify import ACCURACY_TOLERANCE, COUNT_TOLERANCE, FURTHER_TOLERANCE, print_verification, verify

TABLE = {
    "title": "four runs",
    "dataset": {"name": "shapes", "n_train": 64, "n_test": 32, "image_size": 8},
    "train": {"epochs": 1},
    "networks": {"MLP": {"widths": [8]}, "ResNet18": {"width": 2}},
    "counts": {
        "main": {"num_samples": 4, "resolution": 10},
        "test": {"points": "test", "num_samples": 3, "resolution": 5},
        "area": {"dim": 2, "num_samples": 2},
    },
    "experiments": [
        {"name": "main", "networks": ["MLP"], "seeds": [0], "grid": {"lr": [0.1, 0.01], "batch_size": [16, 32]}}
    ],
}


ONE = {"lr": [0.1], "batch_size": [16]}  # the grid of one run
FAR = {"grid": {"lr": [1e30], "batch_size": [16]}, "train": {"momentum": 0.0, "epochs": 2}}  # a run that diverges


def with_changes(**experiment):
    table = TABLE | {"experiments": [TABLE["experiments"][0] | experiment]}
    return parse_campaign(table, "four")


def refuse_training(monkeypatch):
    monkeypatch.setattr(run, "train", lambda *a, **k: pytest.fail("trained again"))


def record_of(campaign):
    """The record on the disk of a campaign's first run."""
    return records.read_record(records.record_path(next(iter(campaign.runs()))))


def statuses(outcomes):
    return [outcome.status for outcome in outcomes]


def test_a_sweep_finishes_a_campaign_alone_or_with_workers_and_then_has_nothing_to_do(tmp_path, monkeypatch):
    """The outcomes hold no records, the threads are as before, and what is late is left."""
    campaign, threads = with_changes(), torch.get_num_threads()
    assert statuses(sweep(campaign, time_budget=0.0)) == ["late"] * 4
    assert len(missing_runs(campaign)) == 4
    outcomes = sweep(campaign, threads=threads + 1)
    assert statuses(outcomes) == ["done"] * 4
    assert {outcome.record for outcome in outcomes} == {None}
    assert torch.get_num_threads() == threads
    assert missing_runs(campaign) == []
    assert sweep(campaign) == []
    table = records.load_runs(campaign)
    assert len(table) == 4
    assert table["count"].between(1, 10).all()
    alone = records.find_records(campaign.runs())
    monkeypatch.setenv("RC_RESULTS", str(tmp_path / "elsewhere"))
    assert statuses(sweep(campaign, workers=1)) == ["done"] * 4
    for key, (record, _) in records.find_records(campaign.runs()).items():
        for part in ("results", "spec", "measures"):
            assert record[part] == alone[key][0][part]
        assert [c["counts"] for c in record["counts"]] == [c["counts"] for c in alone[key][0]["counts"]]


def test_measures_of_kept_weights_are_those_of_training_and_need_none(monkeypatch):
    names = ["distance_from_init", "margin", "log_path_norm", "gi_score_intra"]
    campaign = with_changes(measures=names, networks=["ResNet18"], grid=ONE)
    sweep(campaign)
    before = records.load_runs(campaign)[names]
    records.write_record(record_of(campaign) | {"measures": {}})
    refuse_training(monkeypatch)
    assert statuses(sweep(campaign)) == ["done"]
    np.testing.assert_allclose(records.load_runs(campaign)[names].astype(float), before.astype(float), rtol=1e-5)


def test_one_experiment_alone_trains_its_runs_for_the_whole_campaign(monkeypatch):
    main_ = TABLE["experiments"][0] | {"grid": ONE}
    evolution = main_ | {"name": "evolution", "evolution_epochs": [0, 1], "evolution_counts": ["main"]}
    campaign = parse_campaign(TABLE | {"experiments": [main_, evolution]}, "four")
    sweep(campaign.restricted(["main"]))
    refuse_training(monkeypatch)
    assert sweep(campaign) == []
    assert len(records.load_evolution(campaign)) == 2 * 2


def test_a_network_that_is_made_again_is_measured_as_the_one_on_record_was(tmp_path):
    """By a page, which asks for no more than the network, and by a sweep for another count."""
    wishes = {"evolution_epochs": [0, 1], "evolution_counts": ["main"], "measures": ["margin"]}
    campaign = dataclasses.replace(with_changes(**wishes, grid=ONE), folder=tmp_path)
    sweep(campaign)
    records.freeze(campaign)
    shutil.rmtree(records.results_dir())
    planned = dataclasses.replace(next(iter(campaign.runs().values())), measures=(), evolution_epochs=())
    assert not example_network(planned)[0].training
    assert len(records.load_evolution(campaign)) == 2
    assert records.load_runs(campaign)["margin"].notna().all()
    shutil.rmtree(records.results_dir())
    other = with_changes(counts=["main", "test"], grid=ONE)
    sweep(dataclasses.replace(other, folder=tmp_path))
    record = record_of(other)
    assert len(record["counts"]) == 2
    assert list(record["measures"]) == ["margin"]
    assert [point["epoch"] for point in record["evolution"]] == [0, 1]
    assert missing_runs(campaign) == []


@pytest.mark.parametrize("damage", ["truncated", "of another training"])
def test_weights_that_do_not_belong_to_the_record_are_made_again_not_counted(damage):
    """A new count is taken of the network that the record is of."""
    sweep(with_changes())
    planned = next(iter(with_changes(counts=["main", "test"]).runs().values()))
    key, other = list(with_changes().runs())[:2]
    path = records.weights_path(key)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] if damage == "truncated" else records.weights_path(other).read_bytes())
    with pytest.raises(FileNotFoundError, match=key):
        run.trained_network(planned.spec)
    record = run.complete_run(planned)
    assert len(record["counts"]) == 2
    assert path.read_bytes() == whole
    assert len(missing_runs(with_changes())) == 0


def test_verifying_repeats_the_records_writes_nothing_and_names_other_data(results, capsys):
    campaign = with_changes()
    sweep(campaign)
    before = {path: path.stat().st_mtime_ns for path in results.rglob("*") if path.is_file()}
    rows = list(verify(campaign, 2))
    assert len(rows) == 2
    assert all(row.equal and row.alike and row.agrees for row in rows)
    assert {path: path.stat().st_mtime_ns for path in results.rglob("*") if path.is_file()} == before
    assert print_verification(verify(with_changes(counts=[], grid=ONE), 1)) == 0  # by its accuracies
    assert "equal to the last bit" in capsys.readouterr().out
    record = record_of(campaign)
    record["provenance"]["data"]["sha256"] = "of an older file"
    records.write_record(record)
    assert print_verification(verify(with_changes(grid=ONE), 1)) == 1
    assert "other data than the record has" in capsys.readouterr().out
    # They are not counted into a record either.
    planned = next(iter(with_changes(counts=["main", "test"]).runs().values()))
    assert run.complete_run(planned)["provenance"]["data"]["sha256"] != "of an older file"


def test_sweeps_on_one_scheduler_have_tasks_of_their_own(monkeypatch):
    """A scheduler takes two tasks of one key for one."""
    import distributed

    campaign, keys = with_changes(), []
    client = types.SimpleNamespace(map=lambda job, plans, *, key, **options: keys.extend(key) or [])
    monkeypatch.setattr(distributed, "Client", lambda address: contextlib.nullcontext(client))
    monkeypatch.setattr(distributed, "as_completed", lambda futures: types.SimpleNamespace(batches=list))
    for _ in range(2):
        list(cluster.on_dask(list(campaign.runs().values()), None, 0, "tcp://nowhere"))
    assert len(set(keys)) == len(keys) == 8


def test_a_measure_of_the_readers_may_return_any_kind_of_number_alone(monkeypatch):
    numbers = {"a": torch.tensor(1.5), "b": np.float32(2.5), "c": np.int64(3), "d": math.inf}
    others = {"e": "1.5", "f": [1, 2], "g": torch.ones(2), "h": None}
    for name, returned in (numbers | others).items():
        monkeypatch.setitem(MEASURES, name, lambda network, initial, data, returned=returned: returned)
    campaign = with_changes(measures=list(numbers), grid=ONE)
    sweep(campaign)
    assert records.load_runs(campaign)[list(numbers)].to_numpy().tolist() == [[1.5, 2.5, 3, math.inf]]
    for name in others:
        (outcome,) = sweep(with_changes(measures=[name], grid=ONE))
        assert f"ValueError: measure {name!r} returned" in outcome.error


def test_an_error_of_a_measure_leaves_the_training_and_what_a_record_holds(monkeypatch):
    """Once the measure is repaired it is taken from the kept weights: same network, no second training."""
    monkeypatch.setitem(MEASURES, "mine", lambda network, initial, data: network.no_such_layer)
    campaign = with_changes(measures=["mine"], grid=ONE)
    assert statuses(sweep(campaign)) == ["failed"]
    kept = record_of(campaign)
    assert (kept["counts"], kept["measures"]) == ([], {})
    with monkeypatch.context() as patch:
        patch.setitem(MEASURES, "mine", lambda network, initial, data: 2.0)
        refuse_training(patch)
        assert statuses(sweep(campaign)) == ["done"]
    whole = record_of(campaign)
    assert (whole["results"], whole["measures"], len(whole["counts"])) == (kept["results"], {"mine": 2.0}, 1)
    records.weights_path(whole["run_id"]).unlink()
    monkeypatch.setitem(MEASURES, "other", lambda network, initial, data: network.no_such_layer)
    assert statuses(sweep(with_changes(measures=["mine", "other"], grid=ONE))) == ["failed"]
    assert record_of(campaign) == whole


class SlashNet(torch.nn.Module):
    """A module whose name holds a slash, and one that has two names."""

    def __init__(self, num_classes, in_channels):
        super().__init__()
        self.parts = torch.nn.ModuleDict({"a/b": torch.nn.Conv2d(in_channels, 4, 3)})
        self.head = self.twin = torch.nn.Linear(4, num_classes)

    def forward(self, x):
        return self.head(self.parts["a/b"](x).mean((2, 3)))


def test_parameters_that_are_tied_or_have_a_slash_in_their_names_are_kept(monkeypatch):
    monkeypatch.setitem(TABLE, "networks", {"MLP": {"architecture": f"{__name__}:SlashNet"}})
    assert statuses(sweep(with_changes(grid=ONE))) == ["done"]
    refuse_training(monkeypatch)
    assert statuses(sweep(with_changes(grid=ONE, measures=["margin"]))) == ["done"]


def test_a_device_that_only_the_schedulers_workers_have_is_not_asked_of_this_machine(monkeypatch, capsys):
    asked = {}
    monkeypatch.setattr(execute, "sweep", lambda campaign, **settings: asked.update(settings) or [])
    assert main(["shapes-tiny", "--experiment", "main", "--plan"]) == 0
    assert "TFLOP/s sustained" in capsys.readouterr().out
    assert main(["shapes-tiny", "--device", "cuda:99", "--scheduler", "tcp://10.0.0.1:8786"]) == 3
    assert (asked["device"], asked["scheduler"]) == ("cuda:99", "tcp://10.0.0.1:8786")


def test_pages_say_why_a_campaign_has_nothing_to_show(monkeypatch):
    campaigns = {"far": with_changes(**FAR)}
    monkeypatch.setitem(TABLE, "networks", {"MLP": {"architecture": "torch.nn:Flatten"}})
    campaigns["fails"] = with_changes(grid=ONE)
    monkeypatch.setattr(show, "read_campaign", campaigns.__getitem__)
    monkeypatch.setattr(execute, "load_campaign", campaigns.__getitem__)
    with pytest.raises(ValueError, match="all 1 runs of campaign 'far' diverged"):
        campaign_runs("far")
    with pytest.raises(ValueError, match="the network to be shown diverged"):
        example_network(next(iter(campaigns["far"].runs().values())))
    with pytest.raises(ValueError, match="no run of campaign 'fails' could be made: ValueError: Flatten"):
        campaign_runs("fails")


def test_a_diverged_run_is_a_record_with_that_status(monkeypatch):
    """Also where the parameters are finite and the scores between two images are not: at the end, and in between."""

    def overflow(*arguments, **options):
        raise NonFiniteScores("the model's scores are NaN")

    between = {"grid": ONE, "counts": [], "evolution_epochs": [1], "evolution_counts": ["main"], "seeds": [1]}
    for wishes in (FAR, {"grid": ONE}, between):
        campaign = with_changes(**wishes)
        assert statuses(sweep(campaign)) == ["done"]
        assert list(records.load_runs(campaign).status) == ["diverged"]
        assert missing_runs(campaign) == []
        monkeypatch.setattr(run, "region_count", overflow)


def test_verify_compares_the_count_of_each_simplex_and_hints_at_older_instructions(capsys, monkeypatch):
    campaign = with_changes(grid=ONE)
    sweep(campaign)
    record = record_of(campaign)
    assert record["provenance"]["instructions"] == instructions()
    (entry,) = record["counts"]
    turned = entry["counts"][::-1]
    share = np.mean(np.array(turned) != entry["counts"])
    assert share > 0
    records.write_record(record | {"counts": [entry | {"counts": turned}]})
    (row,) = verify(campaign, 1)
    assert (row.accuracy, row.count, row.simplices) == (0, 0, pytest.approx(share))
    assert row.instructions == instructions()
    monkeypatch.setattr("rc_utils.sweep.verify.instructions", lambda: "AVX512")
    for made, hinted in (("AVX512", False), ("AVX2", True), ("", True)):
        print_verification([dataclasses.replace(row, instructions=made)])
        assert ("ATEN_CPU_CAPABILITY=avx2" in capsys.readouterr().out) == hinted
    records.write_record(record | {"counts": [entry | {"settings": entry["settings"] | {"seed": 9}}]})
    assert print_verification(verify(campaign, 1)) == 1
    out = capsys.readouterr().out
    assert "no count to compare" in out
    assert "NOT reproduced: 0 of 1" in out
    # What seeds differ by is tolerated on another processor alone.
    results = record["results"]
    near = record | {"results": results | {"test_accuracy": results["test_accuracy"] + 0.03}}
    records.write_record(near)
    assert print_verification(verify(campaign, 1)) == 1
    assert "on the same kind of machine" in capsys.readouterr().out
    other = record["provenance"] | {"instructions": "of another"}
    silent = {key: value for key, value in record["provenance"].items() if key != "instructions"}
    for made in (other, silent):
        records.write_record(near | {"provenance": made})
        assert print_verification(verify(campaign, 1)) == 0
    assert "verified: 0 of 1 to the last bit" in capsys.readouterr().out
    far = {"results": results | {"test_accuracy": results["test_accuracy"] + 0.05}}
    more = {"counts": [entry | {"counts": [2 * n for n in entry["counts"]]}]}
    for change in (far, more):
        records.write_record(record | {"provenance": other} | change)
        assert print_verification(verify(campaign, 1)) == 1
        assert "beyond what seeds differ by" in capsys.readouterr().out


def test_instructions_say_what_torch_and_onednn_are_held_to(monkeypatch):
    """Both names where the two are limited apart: such a run rounds like neither."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    for name in ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)
    assert instructions() == "AVX2"
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert instructions() == "AVX2, oneDNN without a limit"
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert instructions() == "AVX2"


def test_the_tolerances_are_what_networks_of_the_committed_records_differ_by():
    """Seeds of a setting on segments; in more dimensions there is one seed, and settings of another weight decay."""
    table, setting = records.load_runs("cifar10-small"), ["network", "lr", "batch_size"]
    seeds = table.query("experiment == 'main'").groupby([*setting, "weight_decay"])[["test_accuracy", "count"]]
    least, most = seeds.min(), seeds.max()
    assert 0.02 < (most - least)["test_accuracy"].max() <= ACCURACY_TOLERANCE
    assert 0.05 < (most / least - 1)["count"].max() <= COUNT_TOLERANCE
    columns = ["count_dim2", "count_dim3", "count_dim4", "count_dim5", "count_random"]
    decays = table.query("experiment == 'dimensions'").dropna(subset=columns).groupby(setting)[columns]
    assert COUNT_TOLERANCE < (decays.max() / decays.min() - 1).max().max() <= FURTHER_TOLERANCE


def test_shards_are_a_partition_and_a_plan_counts_what_is_missing():
    campaign = with_changes()
    assert "4 of 4 distinct runs to do" in "\n".join(plan(campaign))
    sweep(campaign, shard=(0, 2))
    others = [planned.spec.run_id for planned in missing_runs(campaign)]
    assert others == list(campaign.runs())[1::2]
    assert [planned.spec.run_id for planned in missing_runs(campaign, (1, 2))] == others
    text = "\n".join(plan(campaign))
    assert "main: 2 of 4 runs are complete" in text
    assert "2 of 4 distinct runs to do in shard 1/2" in "\n".join(plan(campaign, shard=(1, 2)))
    assert "process hours for 2" in text
    for shard in ((7, 4), (0, 0)):
        with pytest.raises(ValueError, match=re.escape(f"shard={shard}")):
            sweep(campaign, shard=shard)


def test_operations_of_a_run_by_hand():
    planned = next(iter(with_changes().runs().values()))
    forward = 2 * (3 * 8 * 8 * 8 + 8 * 10)
    assert run_flops(planned) == forward * (3 * 64 * 1 + 4 * 10)
    looked_at = dataclasses.replace(planned, evolution_loss=0.1, evolution_counts=planned.counts)
    deep = dataclasses.replace(planned, counts={"deep": {"dim": 4, "resolution": 80, "num_samples": 1}})
    assert run_flops(deep) == forward * (3 * 64 * 1 + math.comb(83, 4))
    assert run_flops(looked_at) == forward * (3 * 64 * 1 + 2 * 4 * 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shapes-tyni"], "unknown campaign 'shapes-tyni'. Did you mean 'shapes-tiny'"),
        (["shapes-tiny", "--device", "cuda:99"], "device 'cuda:99' cannot be used"),
        (["shapes-tiny", "--experiment", "mian", "--plan"], "Did you mean 'main'"),
        (["shapes-tiny", "--workers", "-1"], "workers=-1; expected an integer of at least 0"),
        (["shapes-tiny", "--threads", "0"], "threads=0; expected an integer of at least 1"),
        (["shapes-tiny", "--time-budget", "nan"], "time_budget=nan; expected a finite number of at least 0"),
        (["shapes-tiny", "--plan", "--tflops", "0"], "tflops=0.0; expected a finite number above 0"),
        (["shapes-tiny", "--verify", "0"], "number=0; expected an integer of at least 1"),
        (["shapes-tiny", "--verify", "1", "--threads", "0"], "threads=0"),
        (["shapes-tiny", "--verify", "1", "--device", "cuda:99"], "device 'cuda:99' cannot be used"),
        (["shapes-tiny", "--shard", "8/8"], "argument --shard: '8/8' is not i/N with i < N"),
        (["shapes-tiny", "--freeze", "--plan"], "argument --plan: not allowed with argument --freeze"),
    ],
)
def test_the_command_line_names_mistakes(arguments, message, capsys):
    try:
        status = main(arguments)
    except SystemExit as refused:  # by the parser
        status = refused.code
    assert status == 2
    assert message in capsys.readouterr().err


def test_nothing_to_verify_and_nothing_to_freeze_are_no_success(capsys):
    assert main(["shapes-tiny", "--verify", "3"]) == 1
    assert "nothing to verify" in capsys.readouterr().out
    assert main(["shapes-tiny", "--freeze"]) == 1
    assert "no record to freeze" in capsys.readouterr().out


def test_a_corrupt_record_is_made_again_and_a_run_that_diverges_this_time_keeps_its_record(monkeypatch, capsys):
    campaign, more = with_changes(grid=ONE), with_changes(grid=ONE, measures=["margin", "sharpness"])
    sweep(campaign)
    whole = record_of(campaign)
    path = records.record_path(whole["run_id"])
    path.write_bytes(b"{")
    with pytest.warns(UserWarning, match="not a whole record"):
        assert statuses(sweep(campaign)) == ["done"]
    assert record_of(campaign)["results"] == whole["results"]
    before = path.read_bytes()
    records.weights_path(whole["run_id"]).unlink()

    def diverges(planned, *rest, **options):
        return json.loads(before) | {"status": "diverged", "counts": [], "measures": {}}, None

    monkeypatch.setattr(run, "train_run", diverges)
    assert statuses(sweep(more)) == ["failed"]
    assert "its record is kept" in capsys.readouterr().err
    assert path.read_bytes() == before
    (row,) = verify(campaign, 1)
    assert not row.agrees


def test_a_record_keeps_labels_predictions_true_accuracy_and_the_look_at_a_loss():
    noisy = {
        "grid": {}, "train": {"epochs": 8, "lr": 0.05, "batch_size": 8},
        "dataset": {"n_train": 40, "label_noise": 0.25}, "counts": ["main", "area"], "measures": ["margin"],
        "evolution_loss": 2.2, "evolution_counts": ["main"], "evolution_measures": ["margin"],
    }  # fmt: skip
    campaign = with_changes(**noisy)
    sweep(campaign)
    (planned,) = campaign.runs().values()
    record = record_of(campaign)
    segments, areas = record["counts"]
    assert "labels" not in segments | areas
    network, data = run.trained_network(planned.spec), run.dataset_of(planned.spec)
    predicted = network(data.x_test.all()).argmax(1)
    assert record["predictions"] == "".join(map(str, predicted.tolist()))
    of_true = (network(data.x_train.all()).argmax(1) == data.y_train_true).float().mean().item()
    assert records.load_runs(campaign)["train_accuracy_true_labels"].item() == pytest.approx(of_true)
    assert (data.y_train != data.y_train_true).sum() == 10
    (look,) = record["evolution"]
    assert look["train_loss"] < 2.2
    assert record["reached"] == {"loss": 2.2, "epoch": look["epoch"]}
    evolution = records.load_evolution(campaign)
    assert evolution["reached_loss"].tolist() == [2.2]
    assert evolution["margin"].item() == look["measures"]["margin"]
    assert missing_runs(campaign) == []
    assert len(missing_runs(with_changes(**noisy | {"evolution_loss": 2.1}))) == 1
