"""The headline numbers of the README from the committed records, by pandas alone: nothing of the package is used."""

import json
import pathlib

import numpy as np
import pandas as pd
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDS = ROOT / "campaigns" / "cifar10-small" / "runs.jsonl"
MAIN_COUNT = {"num_samples": 1000, "points": "train", "strategy": "adaptive"}
THREE = ["ResNet18", "SENet18", "EfficientNetB0"]


@pytest.fixture(scope="module")
def runs():
    rows = []
    for record in map(json.loads, RECORDS.read_text(encoding="utf-8").splitlines()):
        (counts,) = [c["counts"] for c in record["counts"] if c["settings"] == MAIN_COUNT]
        row = {"network": record["spec"]["network"]["name"], "count": np.mean(counts)}
        rows.append(row | record["spec"]["train"] | record["results"])
    table = pd.DataFrame(rows)
    table["gap"] = table["train_accuracy"] - table["test_accuracy"]
    table["trained"] = table[["optimizer", "momentum", "mixup_alpha", "crop_padding", "epochs"]].astype(str).sum(axis=1)
    return table.assign(fits=table["train_accuracy"] >= 0.99, ratio=np.log(table["batch_size"] / table["lr"]))


def means(runs, *more):
    """One row a network and setting, weight decays and seeds averaged."""
    columns = ["count", "gap", "ratio", "fits", "train_accuracy"]
    return runs.groupby(["network", "trained", "lr", "batch_size", *more])[columns].mean().reset_index()


def within(rows, x, groups="network"):
    """Correlation with the gap after the mean of each group is taken out."""
    left = rows[[x, "gap"]] - rows.groupby(groups)[[x, "gap"]].transform("mean")
    return left.corr().iloc[0, 1]


def beyond(rows, columns):
    """Correlation of what least squares on `columns`, for each network apart, leaves of count and gap."""
    left = rows[["count", "gap"]].copy()
    for group in rows.groupby("network").groups.values():
        design = np.column_stack([np.ones(len(group)), *(column[group] for column in columns)])
        values = rows.loc[group, ["count", "gap"]].to_numpy()
        left.loc[group] = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return left.corr().iloc[0, 1]


def test_the_headline_numbers_by_hand(runs):
    plain = runs[runs["trained"] == "sgd0.90.0080"]
    nine = means(plain)
    three = nine[nine["network"].isin(THREE)].reset_index(drop=True)
    seeds = means(plain[plain["network"].isin(THREE[:2])], "seed")
    every = means(runs)
    every = every[every["fits"] == 1].assign(log_count=lambda rows: np.log(rows["count"]))
    vgg = nine[nine["network"] == "VGG19"]
    expected = {  # As the README shows them, by where they stand.
        "| the paper's three together | 27 |": (np.corrcoef(three["count"], three["gap"])[0, 1],),
        "| the paper's three, within network | 27 |": (within(three, "count"),),
        "| all of these together | 73 |": (np.corrcoef(nine["count"], nine["gap"])[0, 1],),
        "| VGG19 | 9 |": (vgg[["count", "gap"]].corr().iloc[0, 1],),
        "between the means of its seeds, count and gap correlate at": (
            within(seeds, "count", ["network", "lr", "batch_size"]),
        ),
        "logarithm of the count does better than the count:": (within(every, "log_count"),),
    }
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for words, (value,) in expected.items():
        shown = text.split(words, 1)[1].split()[0]
        decimals = len(shown.partition(".")[2])
        assert f"{value:.{decimals}f}" == shown, words
    ratio = text.split("| the paper's three, within network | 27 |", 1)[1].split("|")[2].split()[0]
    assert float(ratio) == pytest.approx(within(three, "ratio"), abs=0.005)
    assert (
        text.split("| VGG19 | 9 |", 1)[1].split("|")[2].split()[0] == f"{vgg[['ratio', 'gap']].corr().iloc[0, 1]:.2f}"
    )
    assert f"Over all {len(every)} networks and settings" in text
    assert (len(seeds), len(runs)) == (54, 394)
    parts = [three["ratio"], three["ratio"] ** 2, three["ratio"] ** 3]
    left = [beyond(three, parts[:number]) for number in (1, 2, 3)]
    assert left == pytest.approx([0.83, 0.37, 0.26], abs=0.006)
    assert f"the function: {min(left):.2f} to" in text
    crop = means(runs[(runs["crop_padding"] > 0)]).merge(
        means(plain[plain["seed"] == 0]), on=["network", "lr", "batch_size"]
    )
    differences = sorted(crop["count_x"] - crop["count_y"])
    assert f"by {', '.join(f'{d:+.2f}' for d in differences)}." in text
