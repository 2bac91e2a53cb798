"""The sweep: finishes a campaign, survives kills, shares runs, says what is wrong."""

import base64
import itertools
import math
import multiprocessing
import os
import random
import signal
import time

import numpy as np
import pytest
import torch
from distributed import LocalCluster

import rc_utils as rc
from rc_utils.counting import region_count
from rc_utils.counting.classifier import NonFiniteScores
from rc_utils.measures import MEASURES
from rc_utils.sweep import records, run
from rc_utils.sweep.campaign import RunSpec, parse_campaign
from rc_utils.sweep.execute import attempt, check_values, main, on_dask, plan, sweep, verify
from rc_utils.sweep.records import missing_runs
from rc_utils.training import TrainConfig

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
FOUR = TABLE["experiments"][0]["grid"]
# A run that diverges.
FAR = {"grid": {"lr": [1e30], "batch_size": [16]}, "train": {"momentum": 0.0, "epochs": 2}}


def with_changes(**experiment):
    """The campaign of four runs with changes, by default of one run."""
    experiment = TABLE["experiments"][0] | {"grid": ONE} | experiment
    return parse_campaign(TABLE | {"experiments": [experiment]}, "four")


def record_of(campaign):
    """The record on the disk of a campaign's first run."""
    return records.live_record(next(iter(campaign.runs())))


def statuses(outcomes):
    return [outcome.status for outcome in outcomes]


def swept(**experiment):
    """A campaign with these changes whose runs are made."""
    campaign = with_changes(**experiment)
    assert set(statuses(sweep(campaign))) == {"done"}
    assert missing_runs(campaign) == []
    return campaign


def counts_of(record):
    return [entry["counts"] for entry in record["counts"]]


def test_a_sweep_finishes_alone_or_with_workers_and_is_done(results, tmp_path, monkeypatch):
    campaign = with_changes(grid=FOUR)
    torch.set_num_threads(2)  # a run has one all the same
    assert statuses(sweep(campaign)) == ["done"] * 4
    assert sweep(campaign) == []
    assert not [path for path in results.rglob(".*") if path.is_file()]  # that were being written
    assert len(records.load_runs(campaign)) == 4
    alone = records.find_records(campaign.runs())
    assert {record["provenance"]["threads"] for record, _ in alone.values()} == {1}
    monkeypatch.setenv("RC_RESULTS", str(tmp_path / "elsewhere"))

    def job(planned):
        is_ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN  # a terminal tells it, too
        return is_ignored, attempt(planned, "cpu", compile=False).status

    assert [*on_dask(list(campaign.runs().values()), job, 1, None)] == [(True, "done")] * 4
    for key, (record, _) in records.find_records(campaign.runs()).items():
        for part in ("results", "spec", "measures"):
            assert record[part] == alone[key][0][part]
        assert counts_of(record) == counts_of(alone[key][0])


def test_a_measure_of_the_readers_may_return_any_kind_of_number_alone(monkeypatch):
    """An error leaves a record as it was, and what it lacks is added later."""
    numbers = {"a": torch.tensor(1.5), "b": np.float32(2.5), "c": np.int64(3), "d": math.inf}
    path = records.record_path(record_of(swept())["run_id"])
    before, old = path.read_bytes(), record_of(with_changes())
    for returned in ("many", ["x"], torch.ones(2)):
        monkeypatch.setitem(MEASURES, "a", lambda *_, returned=returned: returned)
        with monkeypatch.context() as untrained:
            untrained.setattr(run, "train", pytest.fail)
            (outcome,) = sweep(with_changes(measures=["a"]))
        assert outcome.status == "failed"
        assert path.read_bytes() == before
    for name, returned in numbers.items():
        monkeypatch.setitem(MEASURES, name, lambda *_, returned=returned: returned)

    def modes(network, initial, data):
        data.y_train.zero_()  # copies, as is the network
        network.requires_grad_(False).layers[1].bias.add_(1)
        return network.training + initial.training

    monkeypatch.setitem(MEASURES, "modes", modes)
    found = records.load_runs(swept(measures=[*numbers, "modes"]))[[*numbers, "modes"]]
    assert found.to_numpy().tolist() == [[1.5, 2.5, 3, math.inf, 0]]
    record = record_of(with_changes())
    assert counts_of(record) == counts_of(old)
    assert record["results"] == old["results"]


def test_a_diverged_run_is_a_record_with_that_status(monkeypatch):
    """Also where parameters are finite and scores between images are not: at the end or before.

    A count that finds them in a network that others have counted costs these nothing.
    """
    counted = swept(seeds=[2])

    def overflow(*arguments, **options):
        raise NonFiniteScores("the model's scores are NaN")

    between = {"counts": [], "seeds": [1], "evolution_epochs": [1], "evolution_counts": ["main"]}
    for wishes in (FAR, {}, between):
        assert list(records.load_runs(swept(**wishes)).status) == ["diverged"]
        monkeypatch.setattr(run, "region_count", overflow)
    (outcome,) = sweep(with_changes(seeds=[2], counts=["test"]))
    assert "its record is kept as it was" in outcome.text
    assert list(records.load_runs(counted).status) == ["ok"]


def test_shards_are_a_partition_and_a_plan_counts_what_is_missing():
    campaign = with_changes(grid=FOUR)
    assert "4 of 4 distinct runs to do" in "\n".join(plan(campaign))
    with LocalCluster(processes=False, n_workers=1, dashboard_address=":0") as cluster:
        outcomes = sweep(campaign, shard=(0, 2), scheduler=cluster.scheduler_address)
        assert "attempt" in cluster.scheduler.task_prefixes  # it is this one's work
    assert statuses(outcomes) == ["done"] * 2
    others = [planned.spec.run_id for planned in missing_runs(campaign)]
    assert others == list(campaign.runs())[1::2]
    assert [planned.spec.run_id for planned in missing_runs(campaign, (1, 2))] == others
    assert "main: 2 of 4 runs are complete" in "\n".join(plan(campaign))
    assert "2 of 4 distinct runs to do in shard 1/2" in "\n".join(plan(campaign, shard=(1, 2)))
    wider = TABLE["experiments"][0] | {"name": "wider", "options": {"widths": [99]}}
    longer = TABLE["experiments"][0] | {"name": "longer", "train": {"epochs": 99}}
    every = parse_campaign(TABLE | {"experiments": [*TABLE["experiments"], wider, longer]}, "four")
    assert "counting for 2 of them" in "\n".join(plan(every))  # none tells of the others
    more = with_changes(grid=FOUR, counts=["main", "test"])
    assert "to do, 2 of them again: their records lack" in "\n".join(plan(more))
    with pytest.raises(ValueError, match=r"shard=\(7, 4\)"):
        sweep(campaign, shard=(7, 4))


@pytest.mark.parametrize(("arguments", "message", "status"), [
    ("shapes-tyni", "unknown campaign 'shapes-tyni'. Did you mean 'shapes-tiny'", 2),
    ("shapes-tiny --device cuda:99", "device 'cuda:99' cannot be used", 2),
    ("shapes-tiny --shard 8", "argument --shard: invalid shard value: '8'", 2),
    ("shapes-tiny --freeze", "no record to freeze", 1),
])  # fmt: skip
def test_the_command_names_mistakes_and_what_is_not_there(arguments, message, status, capsys):
    try:
        returned = main(arguments.split())
    except SystemExit as refused:  # by the parser
        returned = refused.code
    assert returned == status
    assert message in "".join(capsys.readouterr())


def test_campaigns_that_share_a_run_keep_each_others_counts_and_do_not_take_turns():
    """All are of one network, also where training gives another each time, as on a GPU."""
    looks = {"evolution_epochs": [1], "evolution_counts": ["main"]}
    one = swept(**looks, evolution_loss=9.0, evolution_weights=True)
    looks = {"evolution_epochs": [1], "evolution_measures": ["margin"]}
    # Of another network, as its results tell, with a measure that is there no more.
    old = record_of(one)
    old["results"]["train_loss"], old["counts"][0]["counts"] = 0.02, [99] * 5
    records.write_record(old | {"measures": {"withdrawn": 1.0}})
    with pytest.warns(UserWarning, match="is made again and loses .*withdrawn"):
        other = swept(counts=["test"], measures=["margin"], **looks)
    third = swept(counts=["area"], evolution_epochs=[0])
    assert missing_runs(one) == missing_runs(other) == missing_runs(third) == []
    record = record_of(one)
    assert [max(entry["counts"]) < 99 for entry in record["counts"]] == [True] * 3
    first, look = record["evolution"]
    assert (first["epoch"], look["epoch"]) == (0, 1)
    assert (len(look["counts"]), set(look["measures"])) == (1, {"margin"})
    assert record["reached"] == {"loss": 9.0, "epoch": 1}
    assert {name[0] for name in run.kept_weights(record)} == {"0", "1"}
    (outcome,) = sweep(with_changes(evolution_loss=8.0))
    assert f"run {record['run_id']} is asked for evolution_loss" in outcome.text
    assert "delete the record" in outcome.text


def test_weights_are_kept_where_asked_and_a_network_is_else_trained_again(monkeypatch):
    looks = {"evolution_epochs": [0, 1], "evolution_weights": True}
    for wishes, kept in (({"evolution_epochs": [0, 1]}, set()), (looks, {"0", "1"})):
        campaign = swept(networks=["ResNet18"], **wishes)
        record, (planned,) = record_of(campaign), campaign.runs().values()
        assert {name[0] for name in run.kept_weights(record)} == kept
        networks = run.networks_during_training(planned, [0, 1])
        data = run.dataset_of(planned.spec)
        counted = run.count_regions(networks[1], data, campaign.counts["main"])
        assert counted["counts"] == record["counts"][0]["counts"]
        before, after = (next(networks[epoch].parameters()) for epoch in (0, 1))
        assert not torch.equal(before, after)
    with monkeypatch.context() as patch:
        patch.setattr(run, "train", lambda *a, **k: pytest.fail("trained again"))
        before = run.trained_network(planned).state_dict()
    with monkeypatch.context() as patch:  # as the names of a network's tensors may be others later
        patch.setattr(run, "kept_weights", lambda _: {"0/old name": None, "1/old name": None})
        after = run.trained_network(planned).state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    records.write_record(record | {"results": {**record["results"], "test_accuracy": 0.5}})
    path = run.weights_path(planned.spec.run_id)
    for damage in (0, 9):  # a reader's network may have state outside of its weights
        path.write_bytes(path.read_bytes()[: path.stat().st_size - damage])
        monkeypatch.setattr(run, "is_ours", lambda _, damage=damage: damage > 0)
        with pytest.warns(UserWarning, match="not the network on record"):
            run.trained_network(planned)
    assert run.kept_weights(record) == {}


def test_verify_trains_random_runs_again_writes_nothing_and_names_what_differs(results):
    campaign = swept(grid=FOUR)
    before = {path: path.stat().st_mtime_ns for path in results.rglob("*") if path.is_file()}
    lines = [next(verify(campaign, 1, seed=seed)) for seed in range(8)]
    assert len({line[:16] for line, _ in lines}) > 2
    for line, agrees in lines:
        assert agrees
        assert line.endswith(": accuracies, predictions and counts are equal")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    campaign = with_changes()
    record = record_of(campaign)

    def answer(**changes):
        records.write_record(record | changes)
        return next(verify(campaign, 1))

    (entry,) = record["counts"]
    turned = {"counts": [entry | {"counts": entry["counts"][::-1]}]}
    accuracy = record["results"]["test_accuracy"]
    near = {"results": record["results"] | {"test_accuracy": accuracy + 0.04}}
    far = {"results": record["results"] | {"test_accuracy": accuracy - 0.06}}
    halved = {"counts": [entry | {"counts": [n / 2 for n in entry["counts"]]}]}
    assert entry["counts"][::-1] != entry["counts"]
    relabelled = {"predictions": record["predictions"][::-1]}
    answers = [answer(**changes) for changes in (turned, near, relabelled, far, halved)]
    assert [agrees for _, agrees in answers] == [True, True, True, False, False]
    assert all("an accuracy differs by" in line for line, _ in answers)
    line, agrees = answer(results=record["results"] | {"train_loss": 9.0})
    assert (line[-14:], agrees) == ("not train_loss", False)
    others = {"provenance": record["provenance"] | {"data": {"sha256": "of other data"}}}
    assert answer(**others) == (f"{record['run_id']}: other data than the record has", False)
    records.write_record(record | {"counts": []})
    with pytest.raises(ValueError, match="no complete record to verify: run"):
        next(verify(campaign, 1))


class Own(torch.nn.Module):
    """A network of the reader's, whose code the attributes stand for; a branch begins at zero."""

    activation, branch, last_weight = torch.nn.ReLU, torch.sin, 1
    trains, size, momentum = True, 1, 0.1

    def __init__(self, num_classes, in_channels, image_size):
        super().__init__()
        first = torch.nn.Linear(in_channels * image_size**2, 8).requires_grad_(self.trains)
        norm = torch.nn.BatchNorm1d(8, momentum=self.momentum)
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), first, norm, self.activation())
        self.gate = torch.nn.Parameter(torch.zeros(self.size))
        self.last = torch.nn.Linear(8, num_classes)
        self.last.weight.data *= self.last_weight

    def forward(self, x):
        hidden = self.layers(x)
        return self.last(hidden + self.gate[0] * type(self).branch(hidden))


@pytest.fixture
def own(monkeypatch):
    """The campaigns have a network of the reader's in the place of theirs."""
    monkeypatch.setitem(TABLE, "networks", {"MLP": {"architecture": f"{__name__}:Own"}})


@pytest.mark.parametrize(("frozen", "last_weight"), [(False, 1), (True, 1), (False, 0)])
@pytest.mark.usefixtures("own")
def test_another_network_of_a_records_name_is_an_error(monkeypatch, tmp_path, frozen, last_weight):
    """Also where another seed is asked for, and behind a last layer of zeros."""
    monkeypatch.setattr(Own, "last_weight", last_weight)
    first = TABLE["experiments"][0] | {"grid": ONE}
    both = [first | {"name": f"seed {seed}", "seeds": [seed]} for seed in (0, 1)]
    campaign = parse_campaign(TABLE | {"experiments": both}, "four", tmp_path / "four")
    sweep(campaign.restricted(["seed 0"]))
    assert sweep(campaign.restricted(["seed 0"])) == []
    if frozen:
        records.freeze(campaign)
        records.record_path(next(iter(campaign.runs()))).unlink()
    edits = [("activation", edit) for edit in (torch.nn.Sigmoid, OnlyInTraining, OnlyGradients)]
    edits += [("branch", torch.cos), ("trains", False), ("size", 2), ("momentum", 0.5)]
    asked = itertools.cycle((["seed 0"], ["seed 1"], ["seed 0", "seed 1"]))
    for (name, edit), names in zip(edits, asked, strict=False):
        with monkeypatch.context() as edited:
            edited.setattr(Own, name, edit)
            with pytest.raises(ValueError, match=r"Own' is not the one that run .* was made with"):
                sweep(campaign.restricted(names))
            with pytest.raises(ValueError, match="is not the one"):
                check_values(campaign)  # as before a plan and a freeze
            with pytest.raises(ValueError, match="is not the one"):
                run.trained_network(next(iter(campaign.runs().values())))


class OnlyInTraining(torch.nn.ReLU):
    """An edit that shows in training mode alone, as another rate of dropout does."""

    def forward(self, x):
        return super().forward(x) * (2 if self.training else 1)


class OnlyGradients(torch.nn.ReLU):
    def forward(self, x):
        y = super().forward(x)
        return y + 9 * (y - y.detach())


@pytest.mark.usefixtures("own")
def test_a_network_that_cannot_be_measured_or_trained_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(Own, "activation", torch.nn.Hardtanh)
    (outcome,) = sweep(with_changes(measures=["log_path_norm"], train={"epochs": 10**6}))
    assert "calls hardtanh, which this measure does not follow" in outcome.text
    wishes = TABLE["experiments"][0] | {"dataset": {"n_test": 2}, "train": {"epochs": 10**6}}
    table = {"counts": {"main": {"dim": 2, "points": "test"}}, "experiments": [wishes]}
    outcome, *_ = sweep(parse_campaign(TABLE | table, "few"))
    assert "3 distinct points are needed" in outcome.text
    draw = random.SystemRandom().random  # without the run's seed
    monkeypatch.setattr(Own, "activation", lambda _: torch.nn.Softplus(draw()))
    assert "one seed builds different networks" in sweep(with_changes())[0].text
    monkeypatch.setattr(Own, "forward", lambda _, x: (x,))
    assert "the model returned a tuple: give it one output" in sweep(with_changes())[0].text


def test_a_run_that_another_sweep_is_at_is_left_to_it(results):
    from filelock import FileLock

    campaign = with_changes(seeds=[0, 1])
    (results / "locks").mkdir(parents=True)
    with FileLock(results / "locks" / f"{next(iter(campaign.runs()))}.lock"):
        assert statuses(sweep(campaign)) == ["elsewhere", "done"]
    assert statuses(sweep(campaign)) == ["done"]


def test_a_record_holds_what_its_network_gives_on_the_images_that_the_campaign_says():
    settings = {"training": {}, "test": {"points": "test"}, "area": {"dim": 2}}
    settings["face"] = settings["area"] | {"adjacency": "face"}
    counts = {label: {"num_samples": 20} | given for label, given in settings.items()}
    table = TABLE | {"counts": counts, "networks": {"MLP": {"widths": [64]}}}
    wishes = TABLE["experiments"][0] | {
        "grid": {"lr": [0.02], "batch_size": [8]}, "train": {"epochs": 10}, "counts": list(counts),
        "dataset": {"label_noise": 0.5}, "evolution_loss": 1.0, "evolution_measures": ["margin"],
        "evolution_epochs": [*range(4), 10],
    }  # fmt: skip
    campaign = parse_campaign(table | {"experiments": [wishes]}, "one")
    sweep(campaign)
    (planned,), record = campaign.runs().values(), record_of(campaign)
    network, data = run.trained_network(planned), run.dataset_of(planned.spec)
    found = [records.find_count(record["counts"], campaign.counts[label]) for label in counts]
    training, test, area, face = (entry["counts"] for entry in found)
    for points, counted in ((data.x_train, training), (data.x_test, test)):
        assert region_count(network, points, num_samples=20).counts.tolist() == counted
    for adjacency, counted in ((None, area), ("face", face)):
        options = {"dim": 2, "num_samples": 20, "adjacency": adjacency}
        assert region_count(network, data.x_train, **options).counts.tolist() == counted
    assert training != test
    assert area != face
    *before, reached, look = record["evolution"]
    assert record["reached"] == {"loss": 1.0, "epoch": len(before)}
    assert reached["train_loss"] < 1 <= min(seen["train_loss"] for seen in before)
    at_the_end = record["results"]
    assert look["train_accuracy"] == at_the_end["train_accuracy"] != at_the_end["test_accuracy"]
    assert look["test_accuracy"] == at_the_end["test_accuracy"]
    evolution = records.load_evolution(campaign)
    assert evolution["margin"].iloc[-1] == look["measures"]["margin"]
    assert record["predictions"] == "".join(map(str, network(data.x_test[:]).argmax(1).tolist()))
    of_true = (network(data.x_train[:]).argmax(1) == data.y_train_true).float().mean().item()
    runs = records.load_runs(campaign)
    assert runs["train_accuracy_true_labels"].item() == pytest.approx(of_true)
    other = parse_campaign(table | {"experiments": [wishes | {"evolution_loss": 0.9}]}, "one")
    assert len(missing_runs(other)) == 1


@pytest.mark.slow
def test_a_sweep_that_is_killed_again_and_again_loses_no_finished_record(results):
    """Each time at some moment of its work: what is there is whole, and only ever grows."""
    rng, seen, campaign = random.Random(0), {}, with_changes(seeds=list(range(300)))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rc_utils.sweep.execute"])  # so that it imports this once
    for _ in range(2):
        child = context.Process(target=sweep, args=(campaign,))
        child.start()
        while len(list(results.glob("records/[!.]*.json"))) <= len(seen):
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3))
        child.kill()
        child.join()
        now = {p.stem: records.live_record(p.stem) for p in results.glob("records/[!.]*.json")}
        assert seen.items() <= now.items()
        seen = now
    assert len(missing_runs(campaign)) == 300 - len(seen) > 0


def test_a_dataset_that_is_replaced_while_the_process_lives_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setenv("RC_DATA", str(tmp_path))
    spec, shas = RunSpec({"name": "mine"}, {"name": "MLP"}, TrainConfig()), set()
    for day in (1, 2):
        images, labels = np.full((20, 8, 8), day, np.uint8), np.arange(20) % 10
        arrays = {"x_train": images, "x_test": images, "y_train": labels, "y_test": labels}
        np.savez(tmp_path / "mine.npz", **arrays)
        os.utime(tmp_path / "mine.npz", (day, day))
        shas.add(run.dataset_of(spec).provenance["sha256"])
    assert len(shas) == 2


CAMPAIGN = {
    "title": "Digits one by one",
    "dataset": {"name": "digits", "n_train": 200, "n_test": 100},
    "train": {"epochs": 4, "batch_size": 8, "lr": 0.02},
    "networks": {"MLP": {}},
    "counts": {"main": {"num_samples": 5, "resolution": 20}},
    "experiments": [{
        "name": "main", "networks": ["MLP"], "seeds": [3], "own_draw": True, "per_image": True,
        "measures": ["mixup_curve_intra"],
    }],
}  # fmt: skip


def test_a_record_says_which_images_of_the_stored_dataset_are_right():
    campaign = parse_campaign(CAMPAIGN, "one-by-one")
    (outcome,) = sweep(campaign)
    assert outcome.status == "done", outcome.text
    (planned,) = campaign.runs().values()
    record = records.live_record(planned.spec.run_id)
    network, data = run.trained_network(planned), run.dataset_of(planned.spec)
    stored, right = rc.load_dataset("digits", seed=3), {}  # all 360 and 1,437, by the run's seed
    for name, images, labels in (
        ("test", stored.x_test, stored.y_test), ("pool", stored.x_train, stored.y_train),
    ):  # fmt: skip
        raw = images.raw.numpy().astype(np.float32)
        standardised = (raw - float(data.x_train.mean)) / float(data.x_train.std)
        bits = np.unpackbits(np.frombuffer(base64.b64decode(record["per_image"][name]), np.uint8))
        right[name] = bits[: len(labels)].astype(bool)
        expected = rc.predict_labels(network, standardised) == labels.numpy()
        assert right[name].tolist() == expected.tolist()
        assert 0.5 < expected.mean() < 1
    trained_on = {image.tobytes() for image in data.x_train.raw.numpy()}
    unused = np.array([image.tobytes() not in trained_on for image in stored.x_train.raw.numpy()])
    assert sum(unused) == 1437 - 200
    (row,) = records.load_runs(campaign).to_dict("records")
    assert row["unused_accuracy"] == pytest.approx(right["pool"][unused].mean())
    curve = [row[f"mixup_curve_intra_{i}"] for i in range(6)]
    assert curve == record["measures"]["mixup_curve_intra"]
