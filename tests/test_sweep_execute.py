"""The sweep: finishes a campaign, survives kills, shares runs, says what is wrong."""

import dataclasses
import math
import random
import re

import numpy as np
import pytest
import torch

from rc_utils.counting import region_count
from rc_utils.counting.classifier import NonFiniteScores
from rc_utils.measures import MEASURES
from rc_utils.sweep import execute, records, run
from rc_utils.sweep.campaign import parse_campaign
from rc_utils.sweep.execute import (
    ACCURACY_TOLERANCE,
    COUNT_TOLERANCE,
    FURTHER_TOLERANCE,
    main,
    plan,
    sweep,
    verify,
)
from rc_utils.sweep.records import missing_runs

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
    "experiments": [{"name": "main", "networks": ["MLP"], "seeds": [0],
                     "grid": {"lr": [0.1, 0.01], "batch_size": [16, 32]}}],
}  # fmt: skip


ONE = {"lr": [0.1], "batch_size": [16]}  # the grid of one run
# A run that diverges.
FAR = {"grid": {"lr": [1e30], "batch_size": [16]}, "train": {"momentum": 0.0, "epochs": 2}}


def with_changes(**experiment):
    table = TABLE | {"experiments": [TABLE["experiments"][0] | experiment]}
    return parse_campaign(table, "four")


def refuse_training(monkeypatch):
    monkeypatch.setattr(run, "train", lambda *a, **k: pytest.fail("trained again"))


def record_of(campaign):
    """The record on the disk of a campaign's first run."""
    return records.live_record(next(iter(campaign.runs())))


def statuses(outcomes):
    return [outcome.status for outcome in outcomes]


def counts_of(record):
    return [entry["counts"] for entry in record["counts"]]


def test_a_sweep_finishes_a_campaign_alone_or_with_workers_and_is_done(
    results, tmp_path, monkeypatch
):
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
    assert not [path for path in results.rglob(".*") if path.is_file()]  # that were being written
    table = records.load_runs(campaign)
    assert len(table) == 4
    assert table["count"].between(1, 10).all()
    alone = records.find_records(campaign.runs())
    monkeypatch.setenv("RC_RESULTS", str(tmp_path / "elsewhere"))
    assert statuses(sweep(campaign, workers=1)) == ["done"] * 4
    for key, (record, _) in records.find_records(campaign.runs()).items():
        for part in ("results", "spec", "measures"):
            assert record[part] == alone[key][0][part]
        assert counts_of(record) == counts_of(alone[key][0])


def test_a_measure_of_the_readers_may_return_any_kind_of_number_alone(monkeypatch):
    numbers = {"a": torch.tensor(1.5), "b": np.float32(2.5), "c": np.int64(3), "d": math.inf}
    others = {"e": "many", "f": ["x"], "g": torch.ones(2), "h": None}
    for name, returned in (numbers | others).items():
        monkeypatch.setitem(MEASURES, name, lambda *_, returned=returned: returned)
    campaign = with_changes(measures=list(numbers), grid=ONE)
    sweep(campaign)
    found = records.load_runs(campaign)[list(numbers)]
    assert found.to_numpy().tolist() == [[1.5, 2.5, 3, math.inf]]
    for name in others:
        (outcome,) = sweep(with_changes(measures=[name], grid=ONE))
        assert f"ValueError: measure {name!r} returned" in outcome.error


def test_pages_say_why_a_campaign_has_nothing_to_show(monkeypatch):
    campaigns = {"far": with_changes(**FAR), "none": with_changes(grid=ONE, seeds=[99])}
    monkeypatch.setattr(records, "load_campaign", campaigns.__getitem__)
    sweep(campaigns["far"])
    for arguments, message in (
        (["none"], r"no record of campaign 'none' yet: `python -m rc_utils\.sweep none`"),
        (["far"], "all 1 runs of campaign 'far' diverged"),
        (["far", "side"], "side"),
    ):
        with pytest.raises(ValueError, match=message):
            records.campaign_runs(*arguments)


def test_a_diverged_run_is_a_record_with_that_status(monkeypatch):
    """Also where parameters are finite and scores between images are not: at the end or before."""

    def overflow(*arguments, **options):
        raise NonFiniteScores("the model's scores are NaN")

    between = {"grid": ONE, "counts": [], "seeds": [1]}
    between |= {"evolution_epochs": [1], "evolution_counts": ["main"]}
    for wishes in (FAR, {"grid": ONE}, between):
        campaign = with_changes(**wishes)
        assert statuses(sweep(campaign)) == ["done"]
        assert list(records.load_runs(campaign).status) == ["diverged"]
        assert missing_runs(campaign) == []
        monkeypatch.setattr(run, "region_count", overflow)


def test_the_tolerances_are_what_networks_of_the_committed_records_differ_by():
    """Seeds of a setting on segments; beyond, there is one seed, and settings of another decay."""
    table, setting = records.load_runs("cifar10-small"), ["network", "lr", "batch_size"]
    main_runs = table.query("experiment == 'main'").groupby([*setting, "weight_decay"])
    seeds = main_runs[["test_accuracy", "count"]]
    least, most = seeds.min(), seeds.max()
    assert 0.02 < (most - least)["test_accuracy"].max() <= ACCURACY_TOLERANCE
    assert 0.05 < (most / least - 1)["count"].max() <= COUNT_TOLERANCE
    columns = ["count_dim2", "count_dim3", "count_dim4", "count_dim5", "count_random"]
    beyond = table.query("experiment == 'dimensions'").dropna(subset=columns)
    decays = beyond.groupby(setting)[columns]
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
    assert "process hours of training and counting for 2" in text
    for shard in ((7, 4), (0, 0)):
        with pytest.raises(ValueError, match=re.escape(f"shard={shard}")):
            sweep(campaign, shard=shard)


@pytest.mark.parametrize(("arguments", "message", "status"), [
    ("shapes-tyni", "unknown campaign 'shapes-tyni'. Did you mean 'shapes-tiny'", 2),
    ("shapes-tiny --device cuda:99", "device 'cuda:99' cannot be used", 2),
    ("shapes-tiny --experiment mian --plan", "Did you mean 'main'", 2),
    ("shapes-tiny --workers -1", "workers=-1; expected an integer of at least 0", 2),
    ("shapes-tiny --threads 0", "threads=0; expected an integer of at least 1", 2),
    ("shapes-tiny --time-budget nan", "time_budget=nan; expected a finite number of at least 0", 2),
    ("shapes-tiny --verify 0", "number=0; expected an integer of at least 1", 2),
    ("shapes-tiny --verify 1 --device cuda:99", "device 'cuda:99' cannot be used", 2),
    ("shapes-tiny --shard 8/8", "argument --shard: invalid shard value: '8/8'", 2),
    ("shapes-tiny --freeze --plan", "argument --plan: not allowed with argument --freeze", 2),
    ("shapes-tiny --verify 3", "nothing to verify", 1),
    ("shapes-tiny --freeze", "no record to freeze", 1),
])  # fmt: skip
def test_the_command_names_mistakes_and_what_is_not_there(arguments, message, status, capsys):
    try:
        returned = main(arguments.split())
    except SystemExit as refused:  # by the parser
        returned = refused.code
    assert returned == status
    assert message in "".join(capsys.readouterr())


def test_one_experiment_alone_makes_its_runs_for_the_whole_campaign():
    main_ = TABLE["experiments"][0] | {"grid": ONE}
    looks = {"evolution_epochs": [0, 1], "evolution_counts": ["main"]}
    evolution = main_ | looks | {"name": "evolution"}
    campaign = parse_campaign(TABLE | {"experiments": [main_, evolution]}, "four")
    sweep(campaign.restricted(["main"]))
    assert sweep(campaign) == []
    assert len(records.load_evolution(campaign)) == 2 * 2


def test_campaigns_that_share_a_run_keep_each_others_counts_and_do_not_take_turns():
    """All are of one network, also where training gives another each time, as on a GPU."""
    looks = {"evolution_epochs": [1], "evolution_counts": ["main"]}
    one = with_changes(grid=ONE, **looks, evolution_loss=9.0, evolution_weights=True)
    looks = {"evolution_epochs": [1], "evolution_measures": ["margin"]}
    other = with_changes(grid=ONE, counts=["test"], measures=["margin"], **looks)
    third = with_changes(grid=ONE, counts=["area"], evolution_epochs=[0])
    assert statuses(sweep(one)) == ["done"]
    # Of another network, as its results tell, with a measure and a count that are there no more.
    old = record_of(one)
    old["results"]["train_loss"], old["counts"][0]["counts"] = 0.02, [99] * 5
    gone = old["counts"][0] | {"settings": {"points": "train", "domain": "box"}}
    records.write_record(old | {"measures": {"withdrawn": 1.0}, "counts": [*old["counts"], gone]})
    assert statuses(sweep(other)) == statuses(sweep(third)) == ["done"]
    assert missing_runs(other) == missing_runs(third) == []
    record = record_of(one)
    assert [max(entry["counts"]) < 99 for entry in record["counts"]] == [True] * 3
    first, look = record["evolution"]
    assert (first["epoch"], look["epoch"]) == (0, 1)
    assert (len(look["counts"]), set(look["measures"])) == (1, {"margin"})
    assert record["reached"] == {"loss": 9.0, "epoch": 1}
    assert set(run.kept_weights(record)) == {0, 1}
    (outcome,) = sweep(with_changes(grid=ONE, evolution_loss=8.0))
    assert f"{record['run_id']}.json has looks where the loss fell below 9.0" in outcome.error


def test_a_record_from_a_worker_takes_the_place_of_one_that_lacks_a_count(monkeypatch):
    campaign = with_changes(grid=ONE)
    sweep(campaign)
    whole = record_of(campaign)
    records.write_record(whole | {"counts": []})
    monkeypatch.setattr(execute, "complete_run", lambda *a, **k: whole)
    assert statuses(sweep(campaign)) == ["done"]
    assert record_of(campaign)["counts"] == whole["counts"]


def test_a_record_from_a_worker_without_the_records_here_holds_what_they_held(
    tmp_path, monkeypatch
):
    one, other = with_changes(grid=ONE), with_changes(grid=ONE, counts=["test"])
    sweep(one)

    def elsewhere(todo, job, workers, scheduler):
        with monkeypatch.context() as patch:
            patch.setenv("RC_RESULTS", str(tmp_path / "elsewhere"))
            return list(map(job, todo))

    monkeypatch.setattr(execute, "on_dask", elsewhere)
    assert statuses(sweep(other, scheduler="tcp://there")) == ["done"]
    assert missing_runs(one) == missing_runs(other) == []


def test_a_network_is_trained_again_with_the_threads_of_its_record(monkeypatch):
    campaign, seen, train = with_changes(grid=ONE), [], run.train
    sweep(campaign)

    def watched(*given, **options):
        seen.append(torch.get_num_threads())
        return train(*given, **options)

    monkeypatch.setattr(run, "train", watched)
    with run.torch_threads(2):
        run.trained_network(next(iter(campaign.runs().values())))
        assert torch.get_num_threads() == 2
    assert seen == [1]


def test_weights_are_kept_where_asked_and_a_network_is_else_trained_again(tmp_path, monkeypatch):
    looks = {"evolution_epochs": [0, 1], "evolution_weights": True}
    for wishes, kept in (({"seeds": [1]}, set()), (looks, {0, 1})):
        campaign = with_changes(grid=ONE, networks=["ResNet18"], **wishes)
        sweep(campaign)
        record, (planned,) = record_of(campaign), campaign.runs().values()
        assert set(run.kept_weights(record)) == kept
        networks = run.networks_during_training(planned, [0, 1])
        data = run.dataset_of(planned.spec)
        counted = run.count_regions(networks[1], data, campaign.counts["main"])
        assert counted["counts"] == record["counts"][0]["counts"]
        before, after = (next(networks[epoch].parameters()) for epoch in (0, 1))
        assert not torch.equal(before, after)
    with monkeypatch.context() as patch:
        refuse_training(patch)
        run.trained_network(planned)
    path = run.weights_path(planned.spec.run_id)
    path.write_bytes(path.read_bytes()[:-9])
    assert run.kept_weights(record) == {}
    results = record["results"] | {"test_accuracy": 0.5}
    path = records.write_record(record | {"results": results})
    frozen = dataclasses.replace(campaign, folder=tmp_path)
    records.freeze(frozen)
    for one in (campaign, frozen):
        with pytest.warns(UserWarning, match="is not the network on record"):
            run.trained_network(*one.runs().values())
        path.unlink(missing_ok=True)


def test_verify_trains_runs_again_writes_nothing_and_names_what_differs(results, monkeypatch):
    campaign = with_changes()
    sweep(campaign)
    before = {path: path.stat().st_mtime_ns for path in results.rglob("*") if path.is_file()}
    for seed in range(4):
        (line, agrees), *_ = verify(campaign, 2, seed=seed)
        assert agrees
        assert line.endswith(": accuracies, predictions and counts are equal")
    first = {next(verify(campaign, 1, seed=seed))[0][:16] for seed in range(8)}
    assert len(first) > 2
    assert {path: path.stat().st_mtime_ns for path in before} == before
    campaign = with_changes(grid=ONE)
    record = record_of(campaign)

    def answer(**changes):
        records.write_record(record | changes)
        return next(verify(campaign, 1))

    made, (entry,) = record["provenance"], record["counts"]
    elsewhere = {"provenance": made | {"instructions": "of another"}}
    turned = {"counts": [entry | {"counts": entry["counts"][::-1]}]}
    accuracy = record["results"]["test_accuracy"]
    near, far = (
        {"results": record["results"] | {"test_accuracy": accuracy + more}} for more in (0.03, 0.05)
    )
    doubled = {"counts": [entry | {"counts": [2 * n for n in entry["counts"]]}]}
    other_data = {"provenance": made | {"data": {"sha256": "of an older file"}}}
    assert entry["counts"][::-1] != entry["counts"]
    relabelled = {"predictions": record["predictions"][::-1]}
    assert "on the same kind of machine" in answer(**turned)[0]
    others = (turned, near, relabelled, elsewhere | near, elsewhere | far, elsewhere | doubled)
    agreements = [answer(**changes)[1] for changes in others]
    assert agreements == [False, False, False, True, False, False]
    assert answer(**other_data) == (f"{record['run_id']}: other data than the record has", False)


def test_an_error_leaves_a_record_as_it_was_and_what_it_lacked_is_added_later(monkeypatch):
    campaign = with_changes(grid=ONE)
    sweep(campaign)
    path = records.record_path(record_of(campaign)["run_id"])
    before = path.read_bytes()
    monkeypatch.setitem(MEASURES, "mine", lambda network, *_: network.no_such_layer)
    more = with_changes(grid=ONE, measures=["mine"])
    assert statuses(sweep(more)) == ["failed"]
    assert path.read_bytes() == before
    monkeypatch.setitem(MEASURES, "mine", lambda *_: 2.0)
    assert statuses(sweep(more)) == ["done"]
    assert record_of(more)["measures"] == {"mine": 2.0}


def test_a_record_keeps_predictions_true_accuracy_and_the_look_at_a_loss():
    noisy = {
        "grid": {}, "train": {"epochs": 8, "lr": 0.05, "batch_size": 8},
        "dataset": {"n_train": 40, "label_noise": 0.25}, "counts": ["main", "area"],
        "measures": ["margin"], "evolution_loss": 2.2, "evolution_counts": ["main"],
        "evolution_measures": ["margin"],
    }  # fmt: skip
    campaign = with_changes(**noisy)
    sweep(campaign)
    (planned,) = campaign.runs().values()
    record = record_of(campaign)
    assert "history" not in record
    fields = {"settings", "counts", "num_evaluations", "seconds"}
    assert all(entry.keys() == fields for entry in record["counts"])
    network, data = run.trained_network(planned), run.dataset_of(planned.spec)
    predicted = network(data.x_test.all()).argmax(1)
    assert record["predictions"] == "".join(map(str, predicted.tolist()))
    of_true = (network(data.x_train.all()).argmax(1) == data.y_train_true).float().mean().item()
    runs = records.load_runs(campaign)
    assert runs["train_accuracy_true_labels"].item() == pytest.approx(of_true)
    (look,) = record["evolution"]
    assert look["train_loss"] < 2.2
    assert record["reached"] == {"loss": 2.2, "epoch": look["epoch"]}
    evolution = records.load_evolution(campaign)
    assert evolution["reached_loss"].tolist() == [2.2]
    assert evolution["margin"].item() == look["measures"]["margin"]
    assert missing_runs(campaign) == []
    assert len(missing_runs(with_changes(**noisy | {"evolution_loss": 2.1}))) == 1


class Own(torch.nn.Module):
    """A network of the reader's, whose code `activation` stands for."""

    activation = torch.nn.ReLU

    def __init__(self, num_classes, in_channels, image_size):
        super().__init__()
        first = torch.nn.Linear(in_channels * image_size**2, 8)
        last = torch.nn.Linear(8, num_classes)
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), first, self.activation(), last)

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize("edited", [torch.nn.Sigmoid, torch.nn.Dropout])
def test_another_network_under_the_name_of_a_record_is_an_error(monkeypatch, edited):
    """Also where the edit shows in training mode alone, and where another seed is asked for."""
    monkeypatch.setitem(TABLE, "networks", {"MLP": {"architecture": f"{__name__}:Own"}})
    monkeypatch.setattr(Own, "activation", torch.nn.Identity)
    campaign = with_changes(grid=ONE)
    assert statuses(sweep(campaign)) == ["done"]
    assert sweep(campaign) == []
    assert run.complete_run(next(iter(campaign.runs().values())))["status"] == "ok"
    monkeypatch.setattr(Own, "activation", edited)
    for changes in ({}, {"seeds": [0, 1]}, {"counts": ["test"]}):
        with pytest.raises(ValueError, match=r"Own' is not the one that run .* was made with"):
            sweep(with_changes(grid=ONE, **changes))
    with pytest.raises(ValueError, match="is not the one"):
        run.trained_network(next(iter(campaign.runs().values())))


@pytest.mark.parametrize("frozen", [False, True])
def test_another_network_is_an_error_beside_other_experiments_and_frozen_records(
    monkeypatch, tmp_path, frozen
):
    monkeypatch.setitem(TABLE, "networks", {"MLP": {"architecture": f"{__name__}:Own"}})
    both = [
        TABLE["experiments"][0] | {"name": f"seed {k}", "seeds": [k], "grid": ONE} for k in (0, 1)
    ]
    campaign = parse_campaign(TABLE | {"experiments": both}, "four", tmp_path / "four")
    sweep(campaign.restricted(["seed 0"]))
    if frozen:
        records.freeze(campaign)
        records.record_path(next(iter(campaign.runs()))).unlink()
    monkeypatch.setattr(Own, "activation", torch.nn.Sigmoid)
    with pytest.raises(ValueError, match="is not the one"):
        sweep(campaign.restricted(["seed 1"]))


class Drawing(Own):
    """Its first weights are drawn by NumPy, and Python decides whether it skips its layers."""

    def __init__(self, num_classes, in_channels, image_size):
        super().__init__(num_classes, in_channels, image_size)
        first = self.layers[1].weight
        first.data = torch.from_numpy(np.random.standard_normal(first.shape)).float()  # noqa: NPY002

    def forward(self, x):
        return super().forward(x * (1 + random.random()) if self.training else x)


def test_networks_that_draw_from_numpy_and_python_are_the_same_by_their_seed(monkeypatch):
    name = f"{__name__}:Drawing"
    monkeypatch.setitem(TABLE, "networks", {"MLP": {"architecture": name}})
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    campaign = with_changes(grid=ONE, measures=["distance_from_init"], train={"epochs": 0})
    assert statuses(sweep(campaign)) == ["done"]
    assert record_of(campaign)["measures"] == {"distance_from_init": 0.0}
    assert sweep(campaign) == []
    trained = with_changes(grid=ONE)
    sweep(trained)
    assert [agrees for _, agrees in verify(trained, 1)] == [True]
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002


def test_a_network_that_is_random_in_evaluation_mode_or_of_two_outputs_is_refused(monkeypatch):
    def noisy(self, x):
        return x + 0.1 * torch.randn_like(x)

    noise = type("Noise", (torch.nn.Module,), {"forward": noisy})
    monkeypatch.setitem(TABLE, "networks", {"MLP": {"architecture": f"{__name__}:Own"}})
    monkeypatch.setattr(Own, "activation", noise)
    (outcome,) = sweep(with_changes(grid=ONE))
    assert "gives a point another output at every call" in outcome.error
    monkeypatch.setattr(Own, "forward", lambda self, x: (self.layers(x), x))
    (outcome,) = sweep(with_changes(grid=ONE))
    assert "Own returns a tuple; expected a tensor of scores" in outcome.error


def test_a_network_of_ones_own_is_run_as_an_experiment_runs_its_own():
    """With its dataset, training, options, count's points and neighbours."""
    wishes = {"dataset": {"n_train": 40}, "train": {"lr": 0.03}, "options": {"widths": [5]}}
    wishes["counts"] = ["test", "area"]
    campaign = with_changes(grid={"batch_size": [16]}, **wishes)
    (planned,) = campaign.runs().values()
    mine = campaign.plan_network({"name": "MLP"}, batch_size=16)
    assert mine.spec.run_id == planned.spec.run_id
    record, _ = run.make_record(mine)
    assert counts_of(record) == counts_of(run.complete_run(planned))
    with pytest.raises(ValueError, match="Did you mean 'main'"):
        campaign.plan_network({"name": "MLP"}, "mian")
    with pytest.raises(ValueError, match="seed=-3; expected an integer of at least 0"):
        campaign.plan_network({"name": "MLP"}, seed=-3)


def test_a_run_that_another_sweep_is_at_is_left_to_it(results):
    from filelock import FileLock

    campaign = with_changes()
    (results / "locks").mkdir(parents=True)
    with FileLock(results / "locks" / f"{next(iter(campaign.runs()))}.lock"):
        assert statuses(sweep(campaign)) == ["elsewhere", "done", "done", "done"]
    assert statuses(sweep(campaign)) == ["done"]


def test_a_record_counts_the_points_and_evaluates_the_images_that_the_campaign_says():
    settings = {"training": {}, "test": {"points": "test"}, "area": {"dim": 2}}
    settings["face"] = settings["area"] | {"adjacency": "face"}
    counts = {label: {"num_samples": 20} | given for label, given in settings.items()}
    table = TABLE | {"counts": counts, "networks": {"MLP": {"widths": [64]}}}
    wishes = {"grid": {"lr": [0.3], "batch_size": [8]}, "train": {"epochs": 10}}
    wishes |= {"dataset": {"label_noise": 0.5}, "counts": list(counts), "evolution_epochs": [10]}
    campaign = parse_campaign(table | {"experiments": [TABLE["experiments"][0] | wishes]}, "one")
    sweep(campaign)
    (planned,), record = campaign.runs().values(), record_of(campaign)
    network, data = run.trained_network(planned), run.dataset_of(planned.spec)
    found = (
        records.find_count(record["counts"], campaign.counts[label])["counts"] for label in counts
    )
    training, test, area, face = found
    for points, counted in ((data.x_train, training), (data.x_test, test)):
        assert region_count(network, points, num_samples=20).counts.tolist() == counted
    for adjacency, counted in ((None, area), ("face", face)):
        options = {"dim": 2, "num_samples": 20, "adjacency": adjacency}
        assert region_count(network, data.x_train, **options).counts.tolist() == counted
    assert training != test
    assert area != face
    (look,), at_the_end = record["evolution"], record["results"]
    assert look["train_accuracy"] == at_the_end["train_accuracy"] != at_the_end["test_accuracy"]
    assert look["test_accuracy"] == at_the_end["test_accuracy"]
