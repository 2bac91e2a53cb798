"""The authors' own records at full size: `python -m rc_utils.authors PATH-OF-A-CLONE`.

The first author's repository (GitHub lijingwei0502/implicit_bias) holds at commit 6148365 the text
files that the paper's tables rest on, one line per training run. From them come, in
`campaigns/authors`, settings.csv with means per setting and results.csv with every published
statement derived again. The repository has no licence: neither its files nor its lines are kept.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd

from rc_utils.correlation import (
    Estimate,
    change_per_doubling,
    correlate,
    mean,
    partial_correlation,
    slope,
)
from rc_utils.paths import campaigns_dir
from rc_utils.published import MAIN_NETWORKS, NETWORKS, statements

COMMIT = "lijingwei0502/implicit_bias@6148365"
FITS = 0.99
"""Training accuracy from which a run fits its data."""

# Folders whose lines hold a curve of counts. Left out: `rank_corr`, mix_aug/primal.txt, copies of
# `train` and basic/Resnet18.txt; `early`, `gradient` and `regression`, which no statement needs.
CURVES = "basic cifar100 2d adam adagrad train random 1drandom dimension svhn mix_aug batch_lr stop"
CURVES = (*CURVES.split(), "weight_decay")
COUNTS = [f"R{epoch}" for epoch in range(0, 201, 10)]
CURVE = [*COUNTS, "train", "test", "weight_decay", "lr", "batch_size"]
# The others: file -> (experiment, columns). Accuracies of `measure` are in percent.
ACCURACIES = ["count", "train", "test"]
OTHERS = {
    "tasks/ml/dt.txt": ("decision trees", ACCURACIES),
    "tasks/ml/rf.txt": ("random forests", ACCURACIES),
    "tasks/ml/knn.txt": ("nearest neighbours", ACCURACIES),
    "tasks/ml/svm.txt": ("support vectors", ACCURACIES),
    "tasks/ml/lr.txt": ("logistic regression", ACCURACIES),
    "tasks/measure/Resnet18.txt": ("measure", ["distance", "margin", "ratio", *CURVE[-4:]]),
    "ViT-CIFAR-main/region_count.txt": (
        "vit",
        ["train", "test", "count", "lr", "batch_size", "weight_decay"],
    ),
}
OUR_NAMES = {name.lower(): name for name in NETWORKS} | {"mobilenet": "MobileNetV2"}
FILE_NAME = re.compile("(batch|lr|)(.+?)(?:_new|_svhn|)")
SETTING = ["network", "lr", "batch_size"]
COMBINATION = [*SETTING, "weight_decay"]

# ---- Reading


def numbers(path: pathlib.Path, lengths: tuple[int, ...]) -> list[list[float]]:
    """Lines of a text file as numbers; blank lines are passed over.

    Raises ValueError naming file and line where something is no finite number, or where the line
    has not one of the `lengths`.
    """
    rows = []
    for place, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        where = f"{path}, line {place}"
        try:
            row = [float(word) for word in line.split()]
        except ValueError as error:
            raise ValueError(f"{where}: {error}; expected numbers between blanks") from None
        if row and (len(row) not in lengths or not np.isfinite(row).all()):
            expected = " or ".join(map(str, lengths))
            raise ValueError(f"{where}: {len(row)} numbers, expected {expected}, all finite")
        if row:
            rows.append(row)
    return rows


def read_runs(root: pathlib.Path) -> pd.DataFrame:
    """All runs of a clone, one row each, accuracies in [0, 1].

    A line of `CURVES` reads, from its end: batch size, learning rate, weight decay, test and
    training accuracy in percent, 21 counts, and in some files the kind of the counted points, which
    tells the dimensions of `dimension` apart. `measure` has no training accuracy: its networks are
    taken to fit. Columns: experiment, network, lr, batch_size, weight_decay, R0, R10, ...,
    count (the last of the curve), train_accuracy, test_accuracy, gap, source and more.
    Raises ValueError as `numbers`, for impossible values, and where a file is missing.
    """
    tables = []
    for folder in CURVES:
        files = sorted((root / "tasks" / folder).glob("*.txt"))
        if not files:
            raise ValueError(f"no text file in {root}/tasks/{folder}; check out commit 6148365")
        for path in files:
            tables += _read_curve(path, folder)
    for name, (experiment, columns) in OTHERS.items():
        table = pd.DataFrame(numbers(root / name, (len(columns),)), columns=columns)
        network = {"measure": "ResNet18", "vit": "ViT"}.get(experiment, "")
        table = table.assign(experiment=experiment, network=network, source=f"{COMMIT}:{name}")
        if experiment == "measure":
            table = table.assign(train=1.0, test=table["test"] / 100)
        tables.append(table)
    runs = pd.concat(tables, ignore_index=True)
    runs = runs.rename(columns={"train": "train_accuracy", "test": "test_accuracy"})
    return runs.assign(gap=runs["train_accuracy"] - runs["test_accuracy"])


def _read_curve(path: pathlib.Path, folder: str) -> Iterator[pd.DataFrame]:
    """Runs of one file of `CURVES`; nothing for summaries, such as correlation.txt, and copies."""
    prefix, network = FILE_NAME.fullmatch(path.stem).groups()
    if folder == "mix_aug" and network in ("mixup", "augmentation"):
        prefix, network = network, "resnet18"
    if network.lower() not in OUR_NAMES:
        return
    rows = numbers(path, (len(CURVE), len(CURVE) + 1))
    table = pd.DataFrame([row[-len(CURVE) :] for row in rows], columns=CURVE)
    percent = table[["train", "test"]]
    possible = ((percent >= 0) & (percent <= 100)).all(axis=1) & (table[COUNTS] >= 1).all(axis=1)
    if not possible.all():
        first = int(np.argmin(possible)) + 1
        raise ValueError(f"{path}, run {first}: expected counts from 1, accuracies in percent")
    table[["train", "test"]] = percent / 100
    table["count"] = table["R200"]
    table["experiment"] = f"{folder} {prefix}".strip()
    if folder == "dimension":
        table["experiment"] = [f"dimension d={row[0] - 1:.0f}" for row in rows]
    table["network"] = OUR_NAMES[network.lower()]
    yield table.assign(source=f"{COMMIT}:tasks/{folder}/{path.name}")


def settings_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Means over weight decays and seeds: one row per experiment, network, lr and batch size.

    `runs` says how many were averaged; `count_0` and `count_10` are the counts before training and
    after ten epochs.
    """
    runs = runs[runs["count"].notna()].rename(columns={"R0": "count_0", "R10": "count_10"})
    groups = runs.groupby(["experiment", *SETTING])
    columns = ["count", "train_accuracy", "test_accuracy", "count_0", "count_10"]
    table = groups[columns].mean().assign(source=groups["source"].first())
    table.insert(0, "runs", groups.size())
    return table.reset_index().astype({"batch_size": int}).round(6)


# ---- Deriving


def row(id_: str, quantity: str, found: Estimate, runs: pd.DataFrame) -> dict[str, object]:
    """Row of results.csv: an estimate and the files that it rests on."""
    sources = " ".join(pd.unique(runs["source"]))
    if sources.count(":") > len(MAIN_NETWORKS):
        sources = f"{COMMIT}:tasks/{runs['experiment'].iloc[0]}/"
    values = {"value": found.value, "low": found.low, "high": found.high, "n": found.n}
    return {"id": id_, "quantity": quantity, **values, "unit": found.unit, "source": sources}


def correlations(
    id_: str, runs: pd.DataFrame, kinds: tuple[str, ...] = (), x: str = "count"
) -> Iterator[dict[str, object]]:
    """Correlations of column `x` with the gap, the gap of runs that fit, and test accuracy.

    Each over combinations of learning rate, batch size and weight decay, seeds averaged, as the
    paper has it (without an interval: weight decays repeat a setting), and over settings. `kinds`
    names those to yield, all by default.
    """
    fitted = runs[runs["train_accuracy"] >= FITS]
    found = {
        "gap": (runs, "gap"),
        "gap where it fits": (fitted, "gap"),
        "test accuracy": (runs, "test_accuracy"),
    }
    for kind in kinds or found:
        part, y = found[kind]
        combined, settings = (part.groupby(keys)[[x, y]].mean() for keys in (COMBINATION, SETTING))
        value = correlate(combined[x], combined[y]).value
        printed = Estimate(value, n=len(combined), unit="combinations")
        yield row(id_, f"correlation with {kind}, combinations", printed, runs)
        ours = correlate(settings[x], settings[y])
        yield row(id_, f"correlation with {kind}, settings", ours, runs)


def fit_correlations(id_: str, runs: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Correlations of the count over the fits of a classical classifier.

    A line that repeats the numbers of another is the same classifier again: it enters the printed
    number ("lines"), but no interval ("fits").
    """
    once = runs.drop_duplicates(["count", "train_accuracy", "test_accuracy"])
    lines = Estimate(correlate(runs["count"], runs["gap"]).value, n=len(runs), unit="lines")
    yield row(id_, "correlation with gap, lines", lines, runs)
    for kind, y in (("gap", "gap"), ("test accuracy", "test_accuracy")):
        found = correlate(once["count"], once[y], unit="fits")
        yield row(id_, f"correlation with {kind}, fits", found, runs)


def published_rows(runs: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Rows of every published statement: what the records give, or why they give nothing."""
    none = pd.DataFrame({"source": [""]})
    derived: dict[str, list[dict[str, object]]] = {}
    for one in [*_single_rows(runs), *_bias_rows(runs), *_augmentation_rows(runs)]:
        derived.setdefault(str(one["id"]), []).append(one)
    for id_ in statements().index:
        group, network, column = (*id_.split("/"), "", "")[:3]
        experiment = _experiment(group, column)
        part = runs[(runs["experiment"] == experiment) & (runs["network"] == network)]
        if id_ == "architectures/ShuffleNetV2/d=2":  # which `dimension` lacks
            part = runs[(runs["experiment"] == "2d") & (runs["network"] == network)]
        if id_ in derived:
            yield from derived[id_]
        elif not part.empty:
            kinds = ("test accuracy",) if group == "test-accuracy" else ()
            yield from correlations(id_, part, kinds)
        else:
            nothing = Estimate(float("nan"), unit="")
            yield row(id_, f"none: {WHY_NONE[group]}", nothing, none)


WHY_NONE = {
    "architectures": "no runs of this column among the records",
    "grid-size": "the files do not vary the grid",
    "sample-size": "the files do not vary the number of segments",
    "range": "the files do not vary the range",
    "evolution": "the files hold accuracies of the last epoch only",
    "theory": "a statement about other networks",
    "safran": "another paper",
    "loukas": "another paper",
}


def _experiment(group: str, column: str) -> str:
    """Experiment that a published correlation is about, empty for none."""
    if group in ("main", "test-accuracy"):
        return "basic"
    named = {"CIFAR-10": "basic", "CIFAR-100": "cifar100", "SGD": "basic", "Adam": "adam"}
    named |= {"Adagrad": "adagrad", "Test": "basic", "Train": "train", "Random": "random"}
    is_dimension = group == "architectures" and column.startswith("d=")
    return f"dimension {column}" if is_dimension else named.get(column, "")


def _single_rows(runs: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Statements with a rule of their own: three networks pooled, forests, measures, epochs."""
    basic = runs[runs["experiment"] == "basic"]
    three = basic[basic["network"].isin(MAIN_NETWORKS)]
    combined = three.groupby(COMBINATION)[["count", "gap"]].mean()
    value = correlate(combined["count"], combined["gap"]).value
    printed = Estimate(value, n=len(combined), unit="combinations")
    yield row("main/overall", "correlation with gap, combinations", printed, three)
    means = three.groupby(SETTING)[["count", "gap"]].mean().reset_index()
    found = correlate(means["count"], means["gap"], units=_units(means))
    yield row("main/overall", "correlation with gap, settings", found, three)

    counts = basic.groupby(COMBINATION)["count"].mean()
    for name, value in (("least", counts.min()), ("most", counts.max())):
        found = Estimate(value, n=len(counts), unit="combinations")
        yield row(f"count-range/{name}", "mean count, combinations", found, basic)
    yield row("dimension/change", "largest change, settings", *_change_with_dimension(runs))

    trees = runs[runs["experiment"] == "decision trees"]
    forests = runs[runs["experiment"] == "random forests"]
    yield from fit_correlations("trees/decision-tree", trees)
    yield from fit_correlations("trees/random-forest", forests)
    yield from fit_correlations("trees/overall", pd.concat([trees, forests]))
    measured = runs[runs["experiment"] == "measure"]
    for name in ("distance", "margin"):
        yield from correlations(f"motivation/{name}", measured, ("gap",), x=name)

    plain = basic[basic["network"] == "ResNet18"]
    settings = plain.groupby(SETTING).mean(numeric_only=True)
    epochs = [id_ for id_ in statements().index if id_.startswith("evolution/count/")]
    for id_ in [*epochs, "range/[0, 1]/count"]:
        column = f"R{id_.split('/')[-1]}" if id_ in epochs else "count"
        yield row(id_, "mean count, settings", mean(settings[column]), plain)
    for version in ("v1", "v3"):
        id_ = f"evolution/gap-{version}/200"
        yield row(id_, "mean gap, settings", mean(settings["gap"]), plain)
    for id_ in ("evolution/correlation/200", "range/[0, 1]/correlation"):
        yield from correlations(id_, plain, ("gap",))


def _change_with_dimension(runs: pd.DataFrame) -> tuple[Estimate, pd.DataFrame]:
    """Change of the correlation from segments to d dimensions, mean over networks, furthest from 0."""
    found = []
    for d in (2, 3, 4, 5):
        changes = []
        for network, part in runs[runs["experiment"] == f"dimension d={d}"].groupby("network"):
            same = runs[(runs["experiment"] == "basic") & (runs["network"] == network)]
            means = [rows.groupby(SETTING)[["count", "gap"]].mean() for rows in (same, part)]
            before, after = (correlate(m["count"], m["gap"]).value for m in means)
            changes.append(after - before)
        found.append(Estimate(float(np.mean(changes)), n=len(changes), unit="networks"))
    rows = runs[runs["experiment"].str.startswith("dimension")].assign(experiment="dimension")
    return max(found, key=lambda e: abs(e.value)), rows


def _units(rows: pd.DataFrame) -> list[tuple[float, float]]:
    return list(zip(rows["lr"], rows["batch_size"], strict=True))


def _bias_rows(runs: pd.DataFrame) -> Iterator[dict[str, object]]:
    cell = "lr=" + runs["lr"].astype(str) + ", batch_size=" + runs["batch_size"].astype(str)
    runs = runs.assign(cell=cell).drop(columns="weight_decay")
    runs = runs[runs["network"].isin(MAIN_NETWORKS)]
    for factor, name in (("lr", "lr"), ("batch_size", "batch-size")):
        figure = f"batch_lr {name.partition('-')[0]}"
        for words, folder in (("nine settings", "basic"), ("the runs of the figure", figure)):
            rows = runs[runs["experiment"] == folder]
            for network in (*MAIN_NETWORKS, "overall"):
                part = rows if network == "overall" else rows[rows["network"] == network]
                quantity = f"change of count per doubling, {words}"
                found = change_per_doubling(part, factor)
                yield row(f"bias/{name}/{network}", quantity, found, part)


def _augmentation_rows(runs: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Mean changes over nine settings, and the change of the gap at equal count."""
    parts = {
        "plain": runs[(runs["experiment"] == "basic") & (runs["network"] == "ResNet18")],
        "mixup": runs[runs["experiment"] == "mix_aug mixup"],
        "crop-flip": runs[runs["experiment"] == "mix_aug augmentation"],
    }
    means = {name: part.groupby(SETTING).mean(numeric_only=True) for name, part in parts.items()}
    for id_, without, column in (
        ("mixup/count", "plain", "count"),
        ("mixup/gap", "plain", "gap"),
        ("crop-flip/count", "plain", "count"),
        ("crop-flip/test-accuracy", "plain", "test_accuracy"),
        ("crop-flip/accuracy-beyond-mixup", "mixup", "test_accuracy"),
        ("crop-flip/count-beyond-mixup", "mixup", "count"),
    ):
        added = id_.partition("/")[0]
        change = means[added][column] - means[without][column]
        yield row(id_, "mean change, settings", mean(change.dropna()), parts[added])
    for id_, without in (("crop-flip/shift", "plain"), ("crop-flip/shift-beyond-mixup", "mixup")):
        both = [means[without].assign(added=0.0), means["crop-flip"].assign(added=1.0)]
        rows = pd.concat(both).reset_index()
        found = slope(rows, "gap ~ count + added", "added", _units(rows))
        yield row(id_, "change of gap at equal count, settings", found, parts["crop-flip"])
    for name in ("mixup", "crop-flip"):
        yield from correlations(f"{name}/correlation", parts[name])


def full_size_rows(runs: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Rows without a statement that setting means cannot give; their ids begin with full-size.

    The effect of weight decay; runs of one setting with different seeds; runs with the same seed as
    well, so that they share their 100 segments; and experiments that were not published.
    """
    basic = runs[runs["experiment"] == "basic"].copy()
    basic["log_count"] = np.log(basic["count"])
    basic["setting"] = basic.groupby(SETTING).ngroup().astype(str)
    for network in NETWORKS:
        part = basic[basic["network"] == network]
        counts = part.pivot_table(index="setting", columns="weight_decay", values="count")
        words = "change of count, weight decay from 1e-7 to 1e-5"
        found = mean(counts[1e-5] - counts[1e-7])
        yield row(f"full-size/weight-decay/{network}", words, found, part)
    # The count before training tells the seeds of four networks apart; for the others it is 1.
    starts = basic.groupby("network")["R0"].transform("nunique")
    for id_, words, part, keys in (
        ("full-size/seeds", "other seed", basic, COMBINATION),
        ("full-size/seeds/same-segments", "same segments", basic[starts >= 3], [*SETTING, "R0"]),
    ):
        part = part.assign(group=part.groupby(keys).ngroup().astype(str))
        found = partial_correlation(part, "log_count", "gap", "C(group)", part["setting"])
        yield row(id_, f"correlation of log count and gap, same setting, {words}", found, part)
    for name in [experiment for experiment, columns in OTHERS.values() if columns is ACCURACIES]:
        id_ = f"full-size/{name.replace(' ', '-')}"
        yield from fit_correlations(id_, runs[runs["experiment"] == name])
    vit = runs[runs["experiment"] == "vit"]
    yield from correlations("full-size/vit", vit)
    yield from correlations("full-size/vit/without lr 0.001", vit[vit["lr"] != 0.001])
    for experiment in ("svhn", "1drandom", "2d", "stop", "weight_decay"):
        for network, part in runs[runs["experiment"] == experiment].groupby("network"):
            yield from correlations(f"full-size/{experiment}/{network}", part)


def write_tables(root: pathlib.Path, folder: pathlib.Path) -> None:
    """Write settings.csv and results.csv into `folder` from the clone at `root`."""
    runs = read_runs(root)
    results = pd.DataFrame([*published_rows(runs), *full_size_rows(runs)])
    folder.mkdir(parents=True, exist_ok=True)
    settings_table(runs).to_csv(folder / "settings.csv", index=False)
    results.round(6).to_csv(folder / "results.csv", index=False)
    print(f"{len(runs)} runs read, {len(results)} results written to {folder}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m rc_utils.authors PATH-OF-A-CLONE (see `make authors`)")
    write_tables(pathlib.Path(sys.argv[1]), campaigns_dir() / "authors")
