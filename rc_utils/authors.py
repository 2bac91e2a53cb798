"""The authors' own records at full size, summed up in two tables: `python -m rc_utils.authors PATH-OF-A-CLONE`.

The first author's repository (GitHub lijingwei0502/implicit_bias) holds at commit 6148365 the text files that the
paper's tables rest on, one line per training run: the count every ten epochs, final accuracies, hyper-parameters. From
them come `campaigns/authors/settings.csv`, means per setting, and `campaigns/authors/results.csv`, every published
statement derived again. The repository has no licence, so neither its files nor its lines are kept here.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd

from rc_utils.checks import campaigns_dir
from rc_utils.correlation import (
    Estimate,
    change_per_doubling,
    correlate,
    mean,
    partial_correlation,
    slope,
)
from rc_utils.published import MAIN_NETWORKS, NETWORKS, statements

COMMIT = "lijingwei0502/implicit_bias@6148365"
FITS = 0.99
"""Training accuracy from which a run fits its data."""

# Folders whose files hold one curve of 21 counts a line. `rank_corr` repeats `train`, mix_aug/primal.txt repeats
# basic/Resnet18.txt; `early` has the counts of every epoch, `gradient` and `regression` no count that a table needs.
CURVES = (
    "basic",
    "cifar100",
    "2d",
    "adam",
    "adagrad",
    "train",
    "random",
    "1drandom",
    "dimension",
    "svhn",
)
CURVES += ("mix_aug", "batch_lr", "stop", "weight_decay")
EPOCHS = range(0, 201, 10)
OUR_NAMES = {name.lower(): name for name in NETWORKS} | {"mobilenet": "MobileNetV2"}
FILE_NAME = re.compile("(batch|lr|)(.+?)(?:_new|_svhn|)")
SETTING = ["network", "lr", "batch_size"]
COMBINATION = [*SETTING, "weight_decay"]


def numbers(path: pathlib.Path, lengths: tuple[int, ...]) -> list[list[float]]:
    """Lines of a text file as numbers; blank lines are passed over.

    Raises ValueError naming file and line where something is no finite number, or their number is not in `lengths`.
    """
    rows = []
    for place, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = [float(word) for word in line.split()]
        except ValueError as error:
            raise ValueError(
                f"{path}, line {place}: {error}; expected numbers between blanks"
            ) from None
        if row and (len(row) not in lengths or not np.isfinite(row).all()):
            expected = " or ".join(map(str, lengths))
            raise ValueError(
                f"{path}, line {place}: {len(row)} numbers, expected {expected}, all finite"
            )
        if row:
            rows.append(row)
    return rows


def read_curves(root: pathlib.Path) -> pd.DataFrame:
    """Runs of the folders `CURVES`, one row per run, accuracies in [0, 1].

    A line reads, from its end: batch size, lr, weight decay, test accuracy, training accuracy (percent), 21 counts, and
    in some files the kind of the counted points, which tells the dimensions of `dimension` apart. Columns: experiment,
    network, lr, batch_size, weight_decay, R0, R10, ..., R200, count (the last), train_accuracy, test_accuracy, gap,
    source. Raises ValueError as `numbers`, for a line whose values cannot be, and where a folder is missing.
    """
    columns = [
        *(f"R{epoch}" for epoch in EPOCHS),
        "train",
        "test",
        "weight_decay",
        "lr",
        "batch_size",
    ]
    tables = []
    for folder in CURVES:
        files = sorted((root / "tasks" / folder).glob("*.txt"))
        if not files:
            raise ValueError(
                f"no text files in {root / 'tasks' / folder}; check out commit 6148365 of the repository"
            )
        for path in files:
            prefix, network = FILE_NAME.fullmatch(path.stem).groups()
            if folder == "mix_aug" and network in ("mixup", "augmentation"):
                prefix, network = network, "resnet18"
            if network.lower() not in OUR_NAMES:
                continue  # summaries, such as correlation.txt, and copies
            rows = numbers(path, (len(columns), len(columns) + 1))
            table = pd.DataFrame([row[-len(columns) :] for row in rows], columns=columns)
            table["experiment"] = folder
            if folder == "dimension":
                table["experiment"] = [f"dimension d={row[0] - 1:.0f}" for row in rows]
            elif prefix:
                table["experiment"] = f"{folder} {prefix}"
            table["network"] = OUR_NAMES[network.lower()]
            table["source"] = f"{COMMIT}:tasks/{folder}/{path.name}"
            possible = table[["train", "test"]].ge(0).all(axis=1) & table[["train", "test"]].le(
                100
            ).all(axis=1)
            possible &= (
                table.filter(regex=r"^R\d").ge(1).all(axis=1)
                & table["lr"].gt(0)
                & table["batch_size"].ge(1)
            )
            if not possible.all():
                raise ValueError(
                    f"{path}, run {int((~possible).to_numpy().argmax()) + 1}: expected counts of at least 1, "
                    "accuracies in percent, a learning rate above 0"
                )
            tables.append(table)
    return _with_gap(pd.concat(tables, ignore_index=True).rename(columns={"R200": "count"}), 100)


def read_others(root: pathlib.Path) -> pd.DataFrame:
    """Runs without a curve: classical classifiers (`ml`), measures of ResNet18 (`measure`) and the ViT, as `read_curves`.

    `measure` has distance, margin and test accuracy alone: its gap is that of networks that fit, 1 - test accuracy.
    """
    forms = {"dt": "decision trees", "rf": "random forests", "knn": "nearest neighbours"}
    forms |= {"svm": "support vectors", "lr": "logistic regression"}
    tables = []
    for stem, words in forms.items():
        rows = numbers(root / f"tasks/ml/{stem}.txt", (3,))
        table = pd.DataFrame(rows, columns=["count", "train", "test"])
        tables.append(table.assign(experiment=words, source=f"{COMMIT}:tasks/ml/{stem}.txt"))
    columns = ["distance", "margin", "ratio", "test", "weight_decay", "lr", "batch_size"]
    table = pd.DataFrame(numbers(root / "tasks/measure/Resnet18.txt", (7,)), columns=columns)
    source = f"{COMMIT}:tasks/measure/Resnet18.txt"
    table = table.assign(experiment="measure", network="ResNet18", train=100.0, source=source)
    table[["train", "test"]] /= 100
    tables.append(table)
    path = "ViT-CIFAR-main/region_count.txt"
    columns = ["train", "test", "count", "lr", "batch_size", "weight_decay"]
    table = pd.DataFrame(numbers(root / path, (6,)), columns=columns)
    tables.append(table.assign(experiment="vit", network="ViT", source=f"{COMMIT}:{path}"))
    return _with_gap(pd.concat(tables, ignore_index=True), 1)


def _with_gap(runs: pd.DataFrame, unit: float) -> pd.DataFrame:
    runs = runs.assign(
        train_accuracy=runs.pop("train") / unit, test_accuracy=runs.pop("test") / unit
    )
    return runs.assign(gap=runs["train_accuracy"] - runs["test_accuracy"])


def settings_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Means over weight decays and seeds, one row per experiment, network, learning rate and batch size.

    `runs` says how many were averaged, `count_0` and `count_10` are the counts before training and after ten epochs (empty for the ViT).
    """
    groups = runs.groupby(["experiment", *SETTING], sort=True)
    table = groups[["count", "train_accuracy", "test_accuracy", "R0", "R10"]].mean()
    table.insert(0, "runs", groups.size())
    table = table.rename(columns={"R0": "count_0", "R10": "count_10"}).assign(
        source=groups["source"].first()
    )
    return table.reset_index().astype({"batch_size": int}).round(6)


def row(id_: str, quantity: str, found: Estimate, source: str) -> dict[str, object]:
    """Row of results.csv."""
    values = {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "n": found.n,
        "unit": found.unit,
    }
    return {"id": id_, "quantity": quantity, **values, "source": source}


def correlations(
    id_: str, runs: pd.DataFrame, x: str = "count", only: tuple[str, ...] = ()
) -> list[dict[str, object]]:
    """Correlations of column `x` with the gap, the gap of runs that fit, and test accuracy (or `only` some of them).

    Each over combinations of learning rate, batch size and weight decay, averaged over seeds, as the paper does (no
    interval: weight decays repeat a setting), and over settings with Fisher's interval.
    """
    fitted = runs[runs["train_accuracy"] >= FITS]
    rows = []
    kinds = (
        ("gap", runs, "gap"),
        ("gap where it fits", fitted, "gap"),
        ("test accuracy", runs, "test_accuracy"),
    )
    for words, part, y in kinds:
        if only and words not in only:
            continue
        for keys, unit in ((COMBINATION, "combinations"), (SETTING, "settings")):
            means = part.groupby(keys)[[x, y]].mean()
            found = correlate(means[x], means[y])
            if unit == "combinations":
                found = Estimate(found.value, n=len(means))
            found = Estimate(found.value, found.low, found.high, found.n, unit)
            rows.append(row(id_, f"correlation with {words}, {unit}", found, _sources(runs)))
    return rows


def _sources(runs: pd.DataFrame) -> str:
    return " ".join(pd.unique(runs["source"]))


def _experiment(id_: str) -> str:
    """Folder whose runs a published correlation is about, empty for none."""
    group, _, what = id_.partition("/")
    column = what.partition("/")[2]
    if group == "architectures":
        folders = {"CIFAR-10": "basic", "CIFAR-100": "cifar100"}
        return folders.get(column) or (f"dimension {column}" if column.startswith("d=") else "")
    folders = {
        "SGD": "basic",
        "Adam": "adam",
        "Adagrad": "adagrad",
        "Test": "basic",
        "Train": "train",
    }
    folders["Random"] = "random"
    if group in ("optimizers", "hyperplanes"):
        return folders[column]
    return "basic" if group in ("main", "test-accuracy") else ""


def published_rows(runs: pd.DataFrame, others: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Rows of every published statement: what the records give, or why they give nothing."""
    basic = runs[runs["experiment"] == "basic"]
    plain = basic[basic["network"] == "ResNet18"]
    special = {"main/overall": list(_pooled(basic))}
    for id_, name in (
        ("trees/decision-tree", "decision trees"),
        ("trees/random-forest", "random forests"),
    ):
        special[id_] = forest_rows(id_, others[others["experiment"] == name])
    trees = others[others["experiment"].isin(["decision trees", "random forests"])]
    special["trees/overall"] = forest_rows("trees/overall", trees)
    measured = others[others["experiment"] == "measure"]
    for name in ("distance", "margin"):
        special[f"motivation/{name}"] = correlations(
            f"motivation/{name}", measured, x=name, only=("gap",)
        )
    special |= _bias_rows(runs) | _evolution_rows(plain) | _augmentation_rows(runs, plain)
    for id_ in statements().index:
        experiment = _experiment(id_)
        part = runs[(runs["experiment"] == experiment) & (runs["network"] == id_.split("/")[1])]
        if part.empty and id_ == "architectures/ShuffleNetV2/d=2":
            part = runs[(runs["experiment"] == "2d") & (runs["network"] == "ShuffleNetV2")]
        if id_ in special:
            yield from special[id_]
        elif not part.empty:
            only = ("test accuracy",) if id_.startswith("test-accuracy/") else ()
            yield from correlations(id_, part, only=only)
        else:
            yield row(id_, f"none: {_why_none(id_)}", Estimate(float("nan"), unit=""), "")


def _why_none(id_: str) -> str:
    reasons = {
        "architectures": "no runs of this column among the records",
        "grid-size": "the files do not vary the grid",
        "sample-size": "the files do not vary the number of segments",
        "range": "the files do not vary the range",
        "evolution": "the files hold accuracies of the last epoch only",
        "theory": "a statement about other networks",
        "safran": "another paper",
        "loukas": "another paper",
    }
    return reasons[id_.partition("/")[0]]


def _pooled(basic: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Three networks pooled; settings, which the networks share, are the units."""
    three = basic[basic["network"].isin(MAIN_NETWORKS)]
    combined = three.groupby(COMBINATION)[["count", "gap"]].mean()
    value = correlate(combined["count"], combined["gap"]).value
    yield row(
        "main/overall",
        "correlation with gap, combinations",
        Estimate(value, n=len(combined), unit="combinations"),
        _sources(three),
    )
    means = three.groupby(SETTING)[["count", "gap"]].mean().reset_index()
    found = correlate(
        means["count"], means["gap"], units=list(zip(means["lr"], means["batch_size"], strict=True))
    )
    yield row("main/overall", "correlation with gap, settings", found, _sources(three))


def forest_rows(id_: str, runs: pd.DataFrame) -> list[dict[str, object]]:
    """Correlations of the count with gap and test accuracy over the fits of a classical classifier."""
    # A fit with the numbers of another is that classifier again: it enters the printed number, but no interval.
    once = runs.drop_duplicates(["count", "train_accuracy", "test_accuracy"])
    lines = Estimate(correlate(runs["count"], runs["gap"]).value, n=len(runs), unit="lines")
    rows = [row(id_, "correlation with gap, lines", lines, _sources(runs))]
    for words, y in (("gap", "gap"), ("test accuracy", "test_accuracy")):
        found = correlate(once["count"], once[y], unit="fits")
        rows.append(row(id_, f"correlation with {words}, fits", found, _sources(runs)))
    return rows


def _bias_rows(runs: pd.DataFrame) -> dict[str, list]:
    rows = {}
    basic = runs[(runs["experiment"] == "basic") & runs["network"].isin(MAIN_NETWORKS)]
    for factor, name in (("lr", "lr"), ("batch_size", "batch-size")):
        figure = runs[runs["experiment"] == f"batch_lr {name.partition('-')[0]}"]
        for network in (*MAIN_NETWORKS, "overall"):
            id_ = f"bias/{name}/{network}"
            rows[id_] = []
            for words, table in (("nine settings", basic), ("the runs of the figure", figure)):
                part = table if network == "overall" else table[table["network"] == network]
                cell = (
                    "lr="
                    + part["lr"].astype(str)
                    + ", batch_size="
                    + part["batch_size"].astype(str)
                )
                found = change_per_doubling(
                    part.drop(columns="weight_decay").assign(cell=cell), factor
                )
                rows[id_].append(
                    row(id_, f"change of count per doubling, {words}", found, _sources(part))
                )
    return rows


def _evolution_rows(plain: pd.DataFrame) -> dict[str, list]:
    rows = {}
    settings = plain.rename(columns={"count": "R200"}).groupby(SETTING).mean(numeric_only=True)
    for id_ in statements().index:
        parts = id_.split("/")
        if parts[:2] == ["evolution", "count"]:
            found = mean(settings[f"R{parts[2]}"])
            rows[id_] = [row(id_, "mean count, settings", found, _sources(plain))]
        elif parts[0] == "evolution" and parts[1].startswith("gap") and parts[2] == "200":
            rows[id_] = [row(id_, "mean gap, settings", mean(settings["gap"]), _sources(plain))]
    rows["evolution/correlation/200"] = correlations(
        "evolution/correlation/200", plain, only=("gap",)
    )
    rows["range/[0, 1]/correlation"] = correlations(
        "range/[0, 1]/correlation", plain, only=("gap",)
    )
    rows["range/[0, 1]/count"] = [
        row("range/[0, 1]/count", "mean count, settings", mean(settings["R200"]), _sources(plain))
    ]
    return rows


def _augmentation_rows(runs: pd.DataFrame, plain: pd.DataFrame) -> dict[str, list]:
    """Means of the change over nine settings, and the change of the gap at equal count."""
    parts = {"plain": plain, "mixup": runs[runs["experiment"] == "mix_aug mixup"]}
    parts["crop-flip"] = runs[runs["experiment"] == "mix_aug augmentation"]
    means = {name: part.groupby(SETTING).mean(numeric_only=True) for name, part in parts.items()}
    rows = {}
    changes = (
        ("mixup/count", "plain", "mixup", "count"),
        ("mixup/gap", "plain", "mixup", "gap"),
        ("crop-flip/count", "plain", "crop-flip", "count"),
        ("crop-flip/test-accuracy", "plain", "crop-flip", "test_accuracy"),
        ("crop-flip/accuracy-beyond-mixup", "mixup", "crop-flip", "test_accuracy"),
        ("crop-flip/count-beyond-mixup", "mixup", "crop-flip", "count"),
    )
    for id_, without, with_, column in changes:
        difference = (means[with_][column] - means[without][column]).dropna()
        rows[id_] = [row(id_, "mean change, settings", mean(difference), _sources(parts[with_]))]
    for id_, without in (("crop-flip/shift", "plain"), ("crop-flip/shift-beyond-mixup", "mixup")):
        both = pd.concat(
            [means[without].assign(added=0.0), means["crop-flip"].assign(added=1.0)]
        ).reset_index()
        units = list(zip(both["lr"], both["batch_size"], strict=True))
        found = slope(both, "gap ~ count + added", "added", units)
        rows[id_] = [
            row(id_, "change of gap at equal count, settings", found, _sources(parts["crop-flip"]))
        ]
    for name in ("mixup", "crop-flip"):
        rows[f"{name}/correlation"] = correlations(f"{name}/correlation", parts[name])
    return rows


def full_size_rows(runs: pd.DataFrame, others: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Rows that no statement of the paper asks for and that setting means cannot give: ids that begin with full-size.

    Effect of weight decay; runs of one setting that differ in their seed, and in their weight decay alone, where the
    count at epoch 0 tells the seeds apart and so all runs of a group share their 100 segments; unpublished experiments.
    """
    basic = runs[runs["experiment"] == "basic"].copy()
    basic["log_count"] = np.log(basic["count"])
    basic["group"] = basic.groupby(SETTING).ngroup().astype(str)
    basic["same"] = basic.groupby(COMBINATION).ngroup().astype(str)
    for network in NETWORKS:
        part = basic[basic["network"] == network]
        counts = part.pivot_table(index="group", columns="weight_decay", values="count")
        words = "change of count, weight decay from 1e-7 to 1e-5"
        yield row(
            f"full-size/weight-decay/{network}",
            words,
            mean(counts[1e-5] - counts[1e-7]),
            _sources(part),
        )
    source = f"{COMMIT}:tasks/basic/"
    found = partial_correlation(basic, "log_count", "gap", "C(same)", basic["group"])
    yield row(
        "full-size/seeds",
        "correlation of log count and gap, same setting, other seed",
        found,
        source,
    )
    # The start of four networks varies with the seed; that of the others is 1 for each seed.
    starts = basic.groupby("network")["R0"].nunique()
    seeded = basic[basic["network"].isin(starts[starts >= 3].index)].copy()
    seeded["drawn"] = seeded.groupby([*SETTING, "R0"]).ngroup().astype(str)
    found = partial_correlation(seeded, "log_count", "gap", "C(drawn)", seeded["group"])
    words = "correlation of log count and gap, same setting and segments"
    yield row("full-size/seeds/same-segments", words, found, source)
    for name in (
        "decision trees",
        "random forests",
        "nearest neighbours",
        "support vectors",
        "logistic regression",
    ):
        yield from forest_rows(
            f"full-size/{name.replace(' ', '-')}", others[others["experiment"] == name]
        )
    vit = others[others["experiment"] == "vit"]
    yield from correlations("full-size/vit", vit)
    yield from correlations("full-size/vit/without lr 0.001", vit[vit["lr"] != 0.001])
    for experiment in ("svhn", "1drandom", "2d", "stop", "weight_decay"):
        for network, part in runs[runs["experiment"] == experiment].groupby("network"):
            yield from correlations(f"full-size/{experiment}/{network}", part)


def write_tables(root: pathlib.Path, folder: pathlib.Path) -> None:
    """Write settings.csv and results.csv into `folder` from the clone at `root`."""
    runs, others = read_curves(root), read_others(root)
    folder.mkdir(parents=True, exist_ok=True)
    with_settings = others[others["experiment"].isin(["vit"])]
    settings_table(pd.concat([runs, with_settings])).to_csv(folder / "settings.csv", index=False)
    results = pd.DataFrame([*published_rows(runs, others), *full_size_rows(runs, others)])
    results.round(6).to_csv(folder / "results.csv", index=False)
    print(f"{len(runs) + len(others)} runs read, {len(results)} results written to {folder}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(
            "usage: python -m rc_utils.authors PATH-OF-A-CLONE (of github.com/lijingwei0502/implicit_bias)"
        )
    write_tables(pathlib.Path(sys.argv[1]), campaigns_dir() / "authors")
