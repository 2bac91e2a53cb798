"""The reader of the authors' records on small files of their form; the committed tables."""

import itertools

import numpy as np
import pandas as pd
import pytest

from campaigns.authors import derive, records
from rc_utils.paths import campaigns_dir
from rc_utils.published import NETWORKS, authors_settings, statements

GRID = list(itertools.product((0.1, 0.01, 0.001), (256, 512, 1024), (1e-5, 1e-6, 1e-7)))
STEMS = ("Resnet18", "Resnet34", "VGG19", "MobileNet", "SENet18", "ShuffleNetV2", "EfficientNetB0")
STEMS += ("RegNetX_200MF", "SimpleDLA")
THREE = ("Resnet18", "EfficientNetB0", "SENet18")


def curve_lines(rng, grid, first=""):
    """Lines with 21 counts that grow with the gap, accuracies in percent, decay, lr, batch size."""
    lines = []
    for lr, batch_size, decay in grid:
        gap = 10 + 3 * np.log2(batch_size / 256) - 4 * np.log10(lr) + rng.normal()
        counts = " ".join(f"{max(1.0, 2 + step / 40 + gap / 10):.2f}" for step in range(21))
        lines.append(f"{first}{counts} 100.0 {100 - gap:.2f} {decay} {lr} {batch_size}")
    return lines


@pytest.fixture
def clone(tmp_path):
    """A folder with small files of the form of the authors' records."""
    rng = np.random.default_rng(0)

    def write(name, lines):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")

    for folder in records.CURVES[:8]:
        for stem in STEMS:
            end = "_new" if folder == "1drandom" else ""
            lines = curve_lines(rng, GRID, "7 " if end else "") * 2
            write(f"tasks/{folder}/{stem}{end}.txt", lines)
    write("tasks/basic/correlation.txt", ["Resnet18 -0.98"])
    lines = [line for kind in range(3, 7) for line in curve_lines(rng, GRID, f"{kind} ")]
    write("tasks/dimension/SENet18.txt", lines)
    once = ["svhn/VGG19_svhn", "stop/resnet18", "weight_decay/resnet18"]
    once += [f"mix_aug/{stem}" for stem in ("mixup", "augmentation", "primal")]
    once += [f"batch_lr/{kind}{stem}" for kind in ("lr", "batch") for stem in THREE]
    for name in once:
        write(f"tasks/{name}.txt", curve_lines(rng, GRID))
    for stem in ("dt", "rf", "knn", "svm", "lr"):
        write(f"tasks/ml/{stem}.txt", [f"{2 + k / 5} {0.3 + k / 20} 0.3" for k in range(12)])
    settings = [f"{lr} {batch_size}" for lr, batch_size, _ in GRID]
    for stem, middle in (("Resnet18", "3.5 0.1"), ("measure", "0.5 " * 9 + "99.9")):
        lines = [f"{40 + k} {middle} {80 - k} 1e-06 {words}" for k, words in enumerate(settings)]
        write(f"tasks/measure/{stem}.txt", lines)
    vit = [f"0.99 {0.8 - k / 100} {2 + k / 30} {words} 5e-4" for k, words in enumerate(settings)]
    write("ViT-CIFAR-main/region_count.txt", vit)
    return tmp_path


def test_a_line_is_read_from_its_end_and_files_have_our_names(clone):
    runs = records.read_runs(clone)
    assert set(runs.loc[runs["experiment"] == "basic", "network"]) == set(NETWORKS)
    dimensions = runs[runs["network"] == "SENet18"]["experiment"]
    assert {"dimension d=2", "dimension d=5", "batch_lr lr", "batch_lr batch"} <= set(dimensions)
    line = (clone / "tasks/1drandom/MobileNet_new.txt").read_text().splitlines()[4].split()
    one = runs[(runs["experiment"] == "1drandom") & (runs["network"] == "MobileNetV2")].iloc[4]
    assert [one["R0"], one["R10"], one["count"]] == [float(line[k]) for k in (1, 2, 21)]
    assert one["gap"] == pytest.approx((float(line[22]) - float(line[23])) / 100)
    assert (one["lr"], one["batch_size"], one["weight_decay"]) == (0.1, 512, 1e-6)
    assert one["source"] == "lijingwei0502/implicit_bias@6148365:tasks/1drandom/MobileNet_new.txt"


@pytest.mark.parametrize(("old", "new"), [("100.0", "nan"), ("100.0", "101"), ("\n", " 7\n")])
def test_a_line_that_cannot_be_read_is_named(clone, old, new):
    path = clone / "tasks/adam/VGG19.txt"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=r"VGG19\.txt"):
        records.read_runs(clone)


def test_tables_hold_means_per_setting_and_every_statement(clone, tmp_path):
    derive.write_tables(clone, tmp_path / "tables")
    settings = pd.read_csv(tmp_path / "tables/settings.csv")
    results = pd.read_csv(tmp_path / "tables/results.csv")
    value = results.set_index(["id", "quantity"])["value"]
    # Means and a correlation over 27 combinations, by a reading that shares no code.
    table = pd.read_csv(clone / "tasks/cifar100/Resnet34.txt", sep=" ", header=None)
    table["gap"] = (table[21] - table[22]) / 100
    means = table.groupby([24, 25])[[20, 22]].mean()
    ours = settings[(settings["experiment"] == "cifar100") & (settings["network"] == "ResNet34")]
    assert ours["count"].to_list() == pytest.approx(means[20].to_list(), abs=1e-6)
    assert (ours["runs"] == 6).all()
    combined = table.groupby([23, 24, 25])[[20, "gap"]].mean()
    found = value["architectures/ResNet34/CIFAR-100", "correlation with gap, combinations"]
    assert found == pytest.approx(np.corrcoef(combined[20], combined["gap"])[0, 1], abs=1e-6)


def test_the_committed_tables_hold_the_main_experiment_in_full():
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
