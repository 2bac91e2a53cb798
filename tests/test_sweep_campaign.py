"""Campaign files: what they expand to, and that a wrong key is named."""

import dataclasses
import shutil
from contextlib import nullcontext

import numpy as np
import pytest
from test_sweep_trust import mutate

from rc_utils.paths import campaigns_dir
from rc_utils.sweep import execute
from rc_utils.sweep.campaign import RunSpec, list_campaigns, load_campaign, parse_campaign
from rc_utils.sweep.execute import check_values
from rc_utils.training import TrainConfig

TABLE = {
    "title": "a test",
    "dataset": {"name": "shapes", "n_train": 100, "n_test": 100, "image_size": 8},
    "train": {"epochs": 2},
    "networks": {"ResNet18": {"width": 4}, "small": {"architecture": "ResNet18", "width": 2}},
    "counts": {"main": {"num_samples": 5}, "test": {"points": "test"},
               "planes": {"dim": 2, "strategy": "adaptive", "adjacency": "linear"}},
    "experiments": [
        {"name": "main", "networks": ["ResNet18"], "seeds": [0, 1],
         "grid": {"lr": [0.1, 0.01], "batch_size": [16, 32]}},
        {"name": "adam", "networks": ["ResNet18", "small"], "seeds": [0],
         "train": {"optimizer": "adam"}, "grid": {"lr": [0.01]}, "counts": ["main", "test"]},
    ],
}  # fmt: skip


def changed(path, value):
    return mutate(TABLE, path, "replace", value)


def test_a_run_that_two_experiments_want_is_done_once_with_the_wishes_of_both():
    first = TABLE["experiments"][0]
    again = first | {"name": "again", "counts": ["test"], "seeds": [1, 2]}
    campaign = parse_campaign(changed(["experiments", 1], again), "t")
    runs, alone = campaign.runs(), campaign.restricted(["main"]).runs()
    assert (len(runs), len(alone)) == (12, 8)
    assert alone.items() <= runs.items()
    assert sorted(len(planned.asked["counts"]) for planned in runs.values()) == [1] * 8 + [2] * 4
    late = {"evolution_loss": 0.01}
    for losses in (({}, late), (late, {}), (late, {"evolution_loss": 0.02})):
        experiments = [first | {"name": f"{i}"} | loss for i, loss in enumerate(losses)]
        campaign = parse_campaign(TABLE | {"experiments": experiments}, "t")
        if {} in losses:
            assert all(p.asked["evolution_loss"] == [0.01] for p in campaign.runs().values())
        else:
            with pytest.raises(ValueError, match="is asked for evolution_loss"):
                campaign.runs()


def test_run_id_follows_what_changes_the_result_and_nothing_else():
    spec = RunSpec({"name": "shapes"}, {"name": "ResNet18"}, TrainConfig())
    assert spec.run_id == RunSpec({"name": "shapes"}, {"name": "ResNet18"}, TrainConfig()).run_id
    words = {"optimizer": "adam", "schedule": "constant", "precision": "bfloat16"}
    words |= {"between_labels": "third", "flip_probability": 0.5, "momentum": 0.5}
    others = [dataclasses.replace(spec, **{key: {"name": "MLP"}}) for key in ("dataset", "network")]
    for name, default in dataclasses.asdict(spec.train).items():
        value = words[name] if name in words else default + 1
        train = dataclasses.replace(spec.train, **{name: value})
        others.append(dataclasses.replace(spec, train=train))
    assert len({s.run_id for s in [spec, *others]}) == 1 + len(others)


@pytest.mark.parametrize(("path", "value", "message"), [
    # What is there twice, or would be ignored. Wrong keys and types: see test_sweep_trust.py.
    (["dataset", "data_dir"], "/data", r"'data_dir'"),
    (["networks", "small", "num_classes"], 3, r"'num_classes'} come from the dataset"),
    (["networks", "small", "widht"], 3, r"network 'small'.*'widht'.*Did you mean 'width'"),
    (["counts", "main", "points"], "tests", r"counts.main.*points 'tests'.*Did you mean 'test'"),
    (["experiments", 1, "name"], "main", r"is there twice"),
    (["experiments", 0, "options"], {"name": "VGG19"}, "options.name: another network needs"),
    (["experiments", 1, "options"], {"width": 8}, "options make one network of several"),
    (["experiments", 0, "grid", "batch_size"], [16, 16.0], r"grid.batch_size has 16.0 twice"),
    (["experiments", 0, "seeds"], [0, 1, 0], r"seeds of ResNet18 has 0 twice"),
    (["experiments", 0, "grid", "seed"], [0, 1], r"'seed'} in grid is set by seeds or ranges"),
    (["experiments", 0, "ranges"], {"batch_size": [16, 32]}, r"'batch_size'} in grid is set by"),
    (["experiments", 0, "ranges"], {"seed": [1, 3]}, "ranges.seed cannot be drawn: give it"),
    (["experiments", 1, "seeds"], {"ResNet18": [0]}, r"its networks once, see \['small'\]"),
    (["experiments", 0, "evolution_counts"], ["main"], "needs evolution_epochs or"),
    (["experiments", 0, "evolution_epochs"], [-1, 99], r"epochs \[-1, 99\] are not within 0..2"),
    (["experiments"], [], "there are no experiments"),
    (["experiments"], [{"name": "own", "networks": ["small"], "seeds": [1], "own_draw": True,
                        "dataset": {"seed": 3}}], "'own'.*dataset.seed has no effect beside own_"),
    (["experiments", 0, "train"], {"seed": 3}, "train.seed has no effect: give it in seeds"),
    (["experiments", 0, "train"], {"momentum": 9}, r"momentum=9.0 is not in \[0, 1\]"),
    (["networks", "again"], {"architecture": "ResNet18", "width": 4}, "again: it is there twice"),
    (["experiments", 0, "grid", "batch_size"], [], "grid.batch_size is empty"),
    (["experiments", 0, "grid", "batch_size"], [16, 999], "batch_size 999 exceeds the 100 images"),
    (["networks", "small", "name"], "VGG19", r"networks.small: the key for 'name' is 'archit"),
    (["experiments", 0, "measures"], ["gap"], "measure 'gap' has the name of a column"),
    (["experiments", 0, "measures"], ["count_x"], "'count_x' has the name of a column"),
    (["experiments", 0, "measures"], ["epoch"], "'epoch' has the name of a column"),
    (["experiments", 0, "train"], {"optimizer": "adam", "momentum": 0.5}, "adam has no momentum"),
    (["counts", "std_error"], {}, "counts.std_error has the name of a column of standard errors"),
    (["networks", "small", "architecture"], "elsewhere:Net", "network 'small': No module named"),
    (["networks", "small", "architecture"], "torch.nn:Nett", "network 'small': .*'Nett'"),
    (["networks", "small", "architecture"], "torchvision.models:vgg11", "option of .* 'width'"),
    # Values out of range.
    (["networks", "small", "width"], float("inf"), "networks.small, width: Out of range float"),
    (["experiments", 0, "ranges"], {"weight_decay": [0.1, 0.0]}, r"ranges.weight_decay is no"),
    (["counts", "planes", "adjacency"], "face", "counts with adjacency 'linear', got 'face'"),
])  # fmt: skip
def test_mistakes_are_named(path, value, message):
    with pytest.raises(ValueError, match=message):
        check_values(parse_campaign(changed(path, value), "t"))


def test_a_wrong_measure_that_another_experiment_asks_of_the_same_runs_is_named():
    first, other = TABLE["experiments"][0], {"name": "other", "measures": ["marg"]}
    named = pytest.raises(ValueError, match="unknown measure 'marg'")
    for seeds, expected in (([1], named), ([2], nullcontext())):
        changes = {"experiments": [first, first | other | {"seeds": seeds}]}
        with expected:
            check_values(parse_campaign(TABLE | changes, "t").restricted(["main"]))


def test_an_invalid_campaign_is_refused_before_anything_is_trained(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(execute, "attempt", lambda *_, **__: pytest.fail("a run was begun"))
    folder = shutil.copytree(campaigns_dir() / "shapes-tiny", tmp_path / "wrong")
    text = (folder / "campaign.toml").read_text()
    (folder / "campaign.toml").write_text(text.replace("resolution = 50", "resolution = 1"))
    for option in ([], ["--plan"], ["--freeze"], ["--verify", "1"]):
        assert execute.main([str(folder), *option]) == 2
        assert "resolution=1; expected an integer of at least 2" in capsys.readouterr().err
    (folder / "campaign.toml").write_text(text.replace('"shapes"', '"shapse"'))
    for option in ([], ["--plan"]):
        assert execute.main([str(folder), *option]) == 2
        assert "Did you mean 'shapes'?" in capsys.readouterr().err


def test_a_campaign_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    for name in ("shapes-tiny", "shapes-quick"):
        shutil.copytree(campaigns_dir() / name, tmp_path / name)
    path = tmp_path / "shapes-tiny" / "campaign.toml"
    path.write_text("\ufeff" + path.read_text(), encoding="utf-8")  # as editors of Windows do
    monkeypatch.setenv("RC_CAMPAIGNS", str(tmp_path))
    assert list_campaigns() == ["shapes-quick", "shapes-tiny"]
    assert all(map(load_campaign, ("shapes-tiny", "study-axes")))  # one is in the repository
    path = tmp_path / "shapes-quick" / "campaign.toml"
    path.write_text(path.read_text().replace("title = ", "title = [", 1))
    with pytest.raises(ValueError, match=r"shapes-quick/campaign.toml cannot be read as TOML"):
        load_campaign("shapes-quick")


def test_a_seed_draws_values_and_training_images_of_its_own():
    table = changed(["experiments", 0, "ranges"], {"lr": [0.001, 0.1], "batch_size": [16, 256]})
    own = {"grid": {"weight_decay": [1e-3]}, "own_draw": True, "seeds": list(range(200))}
    table["experiments"] = [table["experiments"][0] | own]
    campaign = parse_campaign(table, "t")
    specs = [planned.spec for _, _, planned in campaign.entries()]
    lrs = np.array([spec.train.lr for spec in specs])
    batches = np.array([spec.train.batch_size for spec in specs])
    # Log-uniform, whose median is 0.01.
    assert 0.001 <= lrs.min() < np.median(lrs) < 0.014 < lrs.max() <= 0.1
    assert 16 <= batches.min() < batches.max() <= 256
    assert batches.dtype == int
    assert [spec.dataset["seed"] for spec in specs] == [spec.train.seed for spec in specs]
    assert len(campaign.runs()) == 200
    # A reader's network in their place draws the same, and is counted in the same way.
    mine = campaign.plan_network(specs[7].network, seed=7)
    assert (mine.spec, mine.asked) == (specs[7], campaign.runs()[specs[7].run_id].asked)
