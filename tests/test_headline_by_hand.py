"""The headline numbers of the README from the committed records, by pandas alone: nothing of the package is used."""

import json
import pathlib

import numpy as np
import pandas as pd

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAIN_COUNT = {"num_samples": 1000, "points": "train", "strategy": "adaptive"}
THREE = ["ResNet18", "SENet18", "EfficientNetB0"]


def runs_of(campaign):
    """One row a committed run."""
    rows = []
    text = (ROOT / "campaigns" / campaign / "runs.jsonl").read_text(encoding="utf-8")
    for record in map(json.loads, text.splitlines()):
        (counts,) = [c["counts"] for c in record["counts"] if c["settings"] == MAIN_COUNT]
        row = {"network": record["spec"]["network"]["name"], "count": np.mean(counts)}
        rows.append(row | record["spec"]["train"] | record["results"])
    table = pd.DataFrame(rows)
    return table.assign(gap=table["train_accuracy"] - table["test_accuracy"], log_count=np.log(table["count"]))


def means(runs, *more):
    """One row a network and setting, weight decays and seeds averaged."""
    columns = ["count", "gap", "ratio", "fits", "train_accuracy"]
    return runs.groupby(["network", "trained", "lr", "batch_size", *more])[columns].mean().reset_index()


def within(rows, x, groups="network"):
    """Correlation with the gap after the mean of each group is taken out."""
    left = rows[[x, "gap"]] - rows.groupby(groups)[[x, "gap"]].transform("mean")
    return left.corr().iloc[0, 1]


def test_the_headline_numbers_by_hand():
    runs = runs_of("cifar10-small")
    runs["trained"] = runs[["optimizer", "momentum", "mixup_alpha", "crop_padding", "epochs"]].astype(str).sum(axis=1)
    runs = runs.assign(fits=runs["train_accuracy"] >= 0.99, ratio=np.log(runs["batch_size"] / runs["lr"]))
    plain = runs[runs["trained"] == "sgd0.90.0080"]
    nine = means(plain)
    three = nine[nine["network"].isin(THREE)].reset_index(drop=True)
    seeds = means(plain[plain["network"].isin(THREE[:2])], "seed")
    every = means(runs)
    every = every[every["fits"] == 1].assign(log_count=lambda rows: np.log(rows["count"]))
    vgg = nine[nine["network"] == "VGG19"]
    expected = {  # As the README shows them, by where they stand: of the count, its logarithm and the ratio.
        "| the paper's three together | 27 |": [np.corrcoef(three["count"], three["gap"])[0, 1]],
        "| the paper's three, within network | 27 |": [within(three, "count"), None, within(three, "ratio")],
        "| all of these together | 73 |": [np.corrcoef(nine["count"], nine["gap"])[0, 1]],
        "| VGG19 | 9 |": [within(vgg, "count"), None, within(vgg, "ratio")],
        "there the count has": [within(seeds, "count", ["network", "lr", "batch_size"])],
        f"| all networks and ways to train, within network | {len(every)} |": [
            within(every, "count"), within(every, "log_count"),
        ],
    }  # fmt: skip
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for words, values in expected.items():
        for cell, value in zip(text.split(words, 1)[1].split("|"), values, strict=False):
            shown = cell.split()[0]
            decimals = len(shown.partition(".")[2])
            assert value is None or f"{value:.{decimals}f}" == shown, words
    assert f"over {len(seeds)} means in the first records" in text
    assert f"{len(runs)} of 936 planned runs" in text
    first = means(plain[plain["seed"] == 0])
    crop = means(runs[runs["crop_padding"] > 0]).merge(first, on=["network", "lr", "batch_size"])
    assert f"raise the count at {(crop['count_x'] > crop['count_y']).sum()} of {len(crop)} settings" in text
    # Study 1, within each half of its seeds.
    by_chance = runs_of("study-seeds").assign(half=lambda rows: rows["seed"] >= 30)
    for network, group in by_chance.groupby("network"):
        assert len(group) == 60
        shown = text.split("**1. Seeds alone**")[1].split(f"{network}: r = ")[1].split()[0]
        assert f"{within(group, 'log_count', 'half'):.2f}" == shown
