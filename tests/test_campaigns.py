"""What lies in campaigns: the authors' records, pretrained networks, protocol before runs."""

import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import ROOT

import rc_utils as rc
from campaigns.authors import records
from campaigns.authors.derive import EXPERIMENTS
from campaigns.imagenet import count as imagenet
from campaigns.imagenet import hero
from campaigns.imagenet.count import segment_table
from rc_utils.counting import sample_vertices
from rc_utils.paths import campaigns_dir, project_root
from rc_utils.published import NETWORKS, authors_settings, statements


def small_network(classes=6):
    torch.manual_seed(3)
    first, last = torch.nn.Linear(48, 64), torch.nn.Linear(64, classes)
    first.weight.data *= 6
    return torch.nn.Sequential(torch.nn.Flatten(), first, torch.nn.Tanh(), last)


def steps(x):
    """Ten labels by the brightness of an image."""
    return -((x.mean((1, 2, 3))[:, None] - torch.arange(10) / 9) ** 2)


def test_a_segment_has_the_regions_that_region_count_finds_and_a_brightness_each_label_once(rng):
    images = rng.random((30, 3, 4, 4)).astype(np.float32)
    network = small_network()
    table = segment_table(network, sample_vertices(images, num_samples=45, seed=2))
    count = rc.region_count(network, images, num_samples=45, seed=2, strategy="adaptive")
    assert table["regions"].tolist() == count.counts.tolist()
    assert table["evaluations"].sum() == count.num_evaluations
    assert table["regions"].max() > 2
    values = torch.tensor([[0.0, 1.0], [0.03, 0.2], [0.52, 0.54]])
    table = segment_table(steps, values[:, :, None, None, None].expand(3, 2, 3, 8, 8))
    assert table["labels"].tolist() == table["regions"].tolist() == [10, 3, 1]
    assert table["foreign_share"].tolist() == pytest.approx([0.8, 1 / 3, 0])
    row = imagenet.summary(table, table.assign(regions=table["regions"] + [1, 1, 4]))
    assert (row["segments"], row["regions"]) == (3, 14 / 3)
    assert row["more_low"] < row["more"] == -2 < row["more_high"]


def test_the_guide_and_the_first_page_show_the_committed_results():
    results = pd.read_csv(ROOT / "campaigns" / "imagenet" / "results.csv")
    shown = pd.read_csv(ROOT / "book" / "guide" / "imagenet.csv", dtype=str)
    pd.testing.assert_frame_equal(shown, hero.shown_table(results).astype(str))
    svg = hero.PICTURE.read_text(encoding="utf-8")
    told = re.search(r'role="img" aria-label="([^"]+)"', svg)[1]
    classes, regions = map(int, re.search(r"(\d+) classes in (\d+) regions", told).groups())
    shares = re.findall(r"<title>.*?: ([\d.]+) % of the triangle", svg)
    assert classes == len(shares) > 10
    assert sum(map(float, shares)) == pytest.approx(100, abs=0.5)
    intro = (ROOT / "book" / "intro.md").read_text(encoding="utf-8")
    assert hero.caption(classes, regions) in intro


@pytest.fixture
def path(tmp_path):
    """Three runs: a kind, 21 counts, accuracies in percent, weight decay, lr, batch size."""
    lines = [[7, *range(1, 22), 100, 90 - k, 1e-6, 0.1, 512] for k in range(3)]
    np.savetxt(tmp_path / "MobileNet_new.txt", lines, fmt="%g")
    return tmp_path / "MobileNet_new.txt"


def test_a_line_is_read_from_its_end_and_files_have_our_names(path):
    (runs,) = records._read_curve(path, "1drandom")
    last = runs.iloc[2]
    assert (last["experiment"], last["network"]) == ("1drandom", "MobileNetV2")
    assert last[["R0", "R10", "count", "train_accuracy"]].tolist() == [1, 2, 21, 1]
    assert last["test_accuracy"] == pytest.approx(0.88)
    assert (last["lr"], last["batch_size"], last["weight_decay"]) == (0.1, 512, 1e-6)
    assert last["source"] == "lijingwei0502/implicit_bias@6148365:tasks/1drandom/MobileNet_new.txt"
    (dimension,) = records._read_curve(path, "dimension")
    assert set(dimension["experiment"]) == {"dimension d=6"}
    (setting,) = records.settings_table(runs).to_dict("records")
    assert (setting["runs"], setting["count_10"], setting["test_accuracy"]) == (3, 2, 0.89)


@pytest.mark.parametrize(("old", "new"), [("100", "nan"), ("100", "101"), ("\n", " 7\n")])
def test_a_line_that_cannot_be_read_is_named(path, old, new):
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=r"MobileNet_new\.txt"):
        records._read_curve(path, "adam")


def test_the_committed_tables_hold_the_main_experiment_in_full_and_correlate_as_they_say():
    main = authors_settings("basic")
    results = pd.read_csv(campaigns_dir() / "authors/results.csv").set_index(["id", "quantity"])
    assert main["runs"].sum() == 704
    assert (main.groupby("network").size() == 9).all()
    expected = results.loc[("evolution/gap-v3/200", "mean gap, settings"), "value"]
    assert main.query("network == 'ResNet18'")["gap"].mean() == pytest.approx(expected, abs=1e-5)
    for network in NETWORKS:
        id_ = f"architectures/{network}/CIFAR-10"
        value = results.loc[(id_, "correlation with gap, combinations"), "value"]
        assert f"{value:.2f}" == statements().loc[id_, "value"]
    assert set(statements().index) <= set(results.index.get_level_values("id"))
    by_setting = results.xs("correlation with gap, settings", level="quantity")["value"]
    by_setting = by_setting.filter(regex=f"/.*/({'|'.join(EXPERIMENTS)})$")
    assert len(by_setting) == 72
    for id_, value in by_setting.items():
        _, network, column = id_.split("/")
        rows = authors_settings(EXPERIMENTS[column]).query("network == @network")
        assert np.corrcoef(rows["count"], rows["gap"])[0, 1] == pytest.approx(value, abs=1e-5), id_


PROTOCOL = "book/protocol.md"


def git(*arguments):
    if not shutil.which("git"):
        pytest.skip("needs git")
    command = ["git", "-C", project_root(), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def is_ancestor(revision, other):
    return git("merge-base", "--is-ancestor", revision, other).returncode == 0


@pytest.mark.parametrize(("campaigns", "search"), [
    ("study-*", ["--diff-filter=A"]),
    ("twins-*", ["-S", "### Study 6. Twins"]),
    ("gap-*", ["-S", "### Study 7. At the paper's gap"]),
])  # fmt: skip
def test_every_record_was_made_by_a_revision_that_has_the_protocol(campaigns, search):
    found = git("log", *search, "--format=%H", "--", PROTOCOL).stdout.split()
    if not found or git("rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        pytest.skip("needs the repository with its history")
    protocol = found[-1]  # the first commit that `search` finds
    assert not is_ancestor(protocol, f"{protocol}~1")
    for path in campaigns_dir().glob(f"{campaigns}/runs.jsonl"):
        records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        for revision in {record["provenance"]["git_revision"] for record in records}:
            commit = re.fullmatch(r"(?:.*-g)?([0-9a-f]{7,40})", revision)
            assert commit, f"{path}, {revision}: made with uncommitted changes, or elsewhere"
            assert is_ancestor(protocol, commit[1]), f"{path}, {revision}"
