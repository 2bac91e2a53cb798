"""Read the authors' own records at full size as one table; `derive.py` makes others from it.

The first author's repository (GitHub lijingwei0502/implicit_bias) holds at commit 6148365 the text
files behind the paper's tables, one line per training run. That repository has no licence, so none
of its files or lines are copied here.
"""

import re

import numpy as np
import pandas as pd
from tqdm import tqdm

from rc_utils.published import NETWORKS
from rc_utils.validation import naming, require

COMMIT = "lijingwei0502/implicit_bias@6148365"
# Folders whose lines hold a curve of counts. Left out: `rank_corr`, a copy of `train`;
# mix_aug/primal.txt, a copy of basic/Resnet18.txt; `early`, `gradient`, `regression`, not needed.
CURVES = "basic cifar100 2d adam adagrad train random 1drandom dimension svhn mix_aug batch_lr stop"
CURVES = (*CURVES.split(), "weight_decay")
COUNTS = [f"R{epoch}" for epoch in range(0, 201, 10)]
CURVE = [*COUNTS, "train_accuracy", "test_accuracy", "weight_decay", "lr", "batch_size"]
# The others: file -> (experiment, network, columns). Accuracies of `measure` are in percent.
FITS = ["count", "train_accuracy", "test_accuracy"]
MEASURES = ["distance", "margin", "ratio", "test_accuracy", "weight_decay", "lr", "batch_size"]
OTHER_MEASURES = ["distance", *[f"measure {k}" for k in range(9)], "train_accuracy", *MEASURES[3:]]
VIT = ["train_accuracy", "test_accuracy", "count", "lr", "batch_size", "weight_decay"]
OTHERS = {
    "tasks/ml/dt.txt": ("decision trees", "", FITS),
    "tasks/ml/rf.txt": ("random forests", "", FITS),
    "tasks/ml/knn.txt": ("nearest neighbours", "", FITS),
    "tasks/ml/svm.txt": ("support vectors", "", FITS),
    "tasks/ml/lr.txt": ("logistic regression", "", FITS),
    "tasks/measure/Resnet18.txt": ("measure", "ResNet18", MEASURES),
    "tasks/measure/measure.txt": ("measure, second file", "ResNet18", OTHER_MEASURES),
    "ViT-CIFAR-main/region_count.txt": ("vit", "ViT", VIT),
}
OUR_NAMES = {name.lower(): name for name in NETWORKS} | {"mobilenet": "MobileNetV2"}
FILE_NAME = re.compile("(batch|lr|)(.+?)(?:_new|_svhn|)")


def numbers(path, lengths):
    """Array (n, length) of a text file of numbers; blank lines are skipped.

    Raises ValueError naming the file if it is missing, if an entry is not a finite number or if the
    length of a line is not in `lengths`.
    """
    require(path.is_file(), f"{path} is not there; check out commit 6148365")
    with naming(path):
        rows = np.loadtxt(path, ndmin=2)
        found, expected = rows.shape[1], f"expected {' or '.join(map(str, lengths))}, all finite"
        usable = found in lengths and np.isfinite(rows).all()
        require(usable, f"{found} numbers a line, {expected}")
    return rows


def read_runs(root):
    """All runs of a clone, one row each, accuracies in [0, 1].

    A line of `CURVES` reads, from its end: batch size, learning rate, weight decay, test and
    training accuracy in percent, 21 counts, and in some files the kind of the counted points, which
    tells the dimensions of `dimension` apart. The first file of `measure` has no training accuracy,
    which is taken to be 1. Columns: experiment, network, lr, batch_size, weight_decay, R0,
    R10, ..., count (the last of the curve), train_accuracy, test_accuracy, gap, source and more.
    Raises ValueError as `numbers` does, and for impossible values.
    """
    tables = []
    for folder in tqdm(CURVES, desc="the authors' records", unit="folder"):
        files = sorted((root / "tasks" / folder).glob("*.txt"))
        require(files, f"no text file in {root}/tasks/{folder}; check out commit 6148365")
        for path in files:
            tables += _read_curve(path, folder)
    for name, (experiment, network, columns) in OTHERS.items():
        table = pd.DataFrame(numbers(root / name, (len(columns),)), columns=columns)
        table = table.assign(experiment=experiment, network=network, source=f"{COMMIT}:{name}")
        if experiment.startswith("measure"):
            fit = table["train_accuracy"] / 100 if "train_accuracy" in table else 1.0
            table = table.assign(train_accuracy=fit, test_accuracy=table["test_accuracy"] / 100)
        tables.append(table)
    runs = pd.concat(tables, ignore_index=True)
    return runs.assign(gap=runs["train_accuracy"] - runs["test_accuracy"])


def _read_curve(path, folder):
    """The table of a file of `CURVES` in a list, empty for summaries and copies of other files."""
    prefix, network = FILE_NAME.fullmatch(path.stem).groups()
    if folder == "mix_aug" and network in ("mixup", "augmentation"):
        prefix, network = network, "resnet18"
    if network.lower() not in OUR_NAMES:
        return []
    rows = numbers(path, (len(CURVE), len(CURVE) + 1))
    table = pd.DataFrame(rows[:, -len(CURVE) :], columns=CURVE)
    percent = table[["train_accuracy", "test_accuracy"]]
    possible = ((percent >= 0) & (percent <= 100)).all(axis=1) & (table[COUNTS] >= 1).all(axis=1)
    first = f"{path}, run {int(np.argmin(possible)) + 1}"
    require(possible.all(), f"{first}: expected counts from 1, accuracies in percent")
    table[percent.columns] = percent / 100
    table["count"] = table["R200"]
    table["experiment"] = f"{folder} {prefix}".strip()
    if folder == "dimension":
        table["experiment"] = [f"dimension d={kind - 1:.0f}" for kind in rows[:, 0]]
    table["network"] = OUR_NAMES[network.lower()]
    return [table.assign(source=f"{COMMIT}:tasks/{folder}/{path.name}")]


def settings_table(runs):
    """Means over weight decays and seeds: one row per experiment, network, lr and batch size.

    `runs` is the number of runs averaged; `count_0` and `count_10` are the counts before training
    and after ten epochs.
    """
    runs = runs[runs["count"].notna()].rename(columns={"R0": "count_0", "R10": "count_10"})
    groups = runs.groupby(["experiment", "network", "lr", "batch_size"])
    columns = ["count", "train_accuracy", "test_accuracy", "count_0", "count_10"]
    table = groups[columns].mean().assign(source=groups["source"].first())
    table.insert(0, "runs", groups.size())
    return table.reset_index().astype({"batch_size": int}).round(6)
