"""Derive settings.csv and results.csv of this folder from a clone of the authors' repository.

`python campaigns/authors/derive.py PATH-OF-A-CLONE`; `make authors` clones it first. settings.csv
has means per setting. results.csv has every published statement, derived again, and the further
results of page 17.
"""

import pathlib
import sys

import numpy as np
import pandas as pd
from tqdm import tqdm

from campaigns.authors.records import COMMIT, FITS, OTHERS, read_runs, settings_table
from rc_utils.correlation import (
    Estimate,
    change_per_doubling,
    correlate,
    mean,
    partial_correlation,
    slope,
)
from rc_utils.published import MAIN_NETWORKS, NETWORKS, statements
from rc_utils.sweep.records import INTERPOLATES

SETTING = ["network", "lr", "batch_size"]
COMBINATION = [*SETTING, "weight_decay"]
# Last part of a statement's id, a column of a published table -> experiment.
EXPERIMENTS = {"CIFAR-10": "basic", "CIFAR-100": "cifar100", "SGD": "basic", "Adam": "adam"}
EXPERIMENTS |= {"Adagrad": "adagrad", "Test": "basic", "Train": "train", "Random": "random"}
WHY_NONE = {
    "architectures": "no runs of this column among the records",
    "grid-size": "the files do not vary the grid",
    "sample-size": "the files do not vary the number of segments",
    "range": "the files do not vary the range",
    "motivation": "a statement about one function",
    "evolution": "the files hold accuracies of the last epoch only",
    "theory": "a statement about other networks",
    "safran": "another paper",
    "loukas": "another paper",
}


def row(id_, quantity, found, runs):
    """Row of results.csv: an estimate and the files that it rests on."""
    sources = pd.unique(runs["source"])
    if len(sources) > len(MAIN_NETWORKS):
        sources = [f"{COMMIT}:tasks/{runs['experiment'].iloc[0]}/"]
    values = {"value": found.value, "low": found.low, "high": found.high, "n": found.n}
    values |= {"unit": found.unit, "source": " ".join(sources)}
    return {"id": id_, "quantity": quantity} | values


def without_interval(rows, unit):
    """Correlation of count and gap as in the paper; no interval, as rows repeat a setting."""
    return Estimate(correlate(rows["count"], rows["gap"]).value, n=len(rows), unit=unit)


def correlations(id_, runs, kinds=("gap", "gap where it fits", "test accuracy"), x="count"):
    """Correlations of column `x` with the gap, the gap of runs that fit, and test accuracy.

    Each is given twice: over combinations of learning rate, batch size and weight decay, as in the
    paper (without an interval, as weight decays repeat a setting), and over settings.
    """
    for kind in kinds:
        y = "test_accuracy" if kind == "test accuracy" else "gap"
        part = runs[runs["train_accuracy"] >= INTERPOLATES] if kind == "gap where it fits" else runs
        combined = part.groupby(COMBINATION)[[x, y]].mean()
        settings = part.groupby(SETTING)[[x, y]].mean()
        value = correlate(combined[x], combined[y]).value
        printed = Estimate(value, n=len(combined), unit="combinations")
        yield row(id_, f"correlation with {kind}, combinations", printed, runs)
        ours = correlate(settings[x], settings[y])
        yield row(id_, f"correlation with {kind}, settings", ours, runs)


def fit_correlations(id_, runs):
    """Correlations of the count over the fits of a classical classifier.

    Lines with equal numbers are one classifier: all of them enter the correlation that the paper
    printed ("lines"), one of them those with intervals ("fits").
    """
    once = runs.drop_duplicates(FITS)
    yield row(id_, "correlation with gap, lines", without_interval(runs, "lines"), runs)
    for kind, y in (("gap", "gap"), ("test accuracy", "test_accuracy")):
        found = correlate(once["count"], once[y], unit="fits")
        yield row(id_, f"correlation with {kind}, fits", found, runs)


def published_rows(runs):
    """Rows of every published statement: what the records give, or why they give nothing."""
    derived = {}
    for one in [*_single_rows(runs), *_bias_rows(runs), *_augmentation_rows(runs)]:
        derived.setdefault(one["id"], []).append(one)
    for id_ in tqdm(statements().index, desc="statements"):
        group, network, column = (*id_.split("/"), "", "")[:3]
        experiment = EXPERIMENTS.get(column, "")
        if group in ("main", "test-accuracy"):
            experiment = "basic"
        elif group == "architectures" and column.startswith("d="):
            experiment = f"dimension {column}"
            if network == "ShuffleNetV2" and column == "d=2":
                experiment = "2d"  # `dimension` lacks the triangles of this network
        part = runs[(runs["experiment"] == experiment) & (runs["network"] == network)]
        if id_ in derived:
            yield from derived[id_]
        elif part.empty:
            nothing = Estimate(float("nan"), unit="")
            yield row(id_, f"none: {WHY_NONE[group]}", nothing, pd.DataFrame({"source": [""]}))
        elif group == "test-accuracy":
            yield from correlations(id_, part, ("test accuracy",))
        else:
            yield from correlations(id_, part)


def _single_rows(runs):
    """Statements with a rule of their own: three networks pooled, forests, measures, epochs."""
    basic = runs[runs["experiment"] == "basic"]
    three = basic[basic["network"].isin(MAIN_NETWORKS)]
    printed = without_interval(three.groupby(COMBINATION)[["count", "gap"]].mean(), "combinations")
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
        found = mean(settings["gap"])
        yield row(f"evolution/gap-{version}/200", "mean gap, settings", found, plain)
    for id_ in ("evolution/correlation/200", "range/[0, 1]/correlation"):
        yield from correlations(id_, plain, ("gap",))


def _change_with_dimension(runs):
    """Largest change of r from segments to d dimensions over d, each a mean over networks."""
    found = []
    for d in (2, 3, 4, 5):
        changes = []
        for network, part in runs[runs["experiment"] == f"dimension d={d}"].groupby("network"):
            same = runs[(runs["experiment"] == "basic") & (runs["network"] == network)]
            means = [rows.groupby(SETTING)[["count", "gap"]].mean() for rows in (same, part)]
            before, after = [correlate(m["count"], m["gap"]).value for m in means]
            changes.append(after - before)
        found.append(Estimate(float(np.mean(changes)), n=len(changes), unit="networks"))
    rows = runs[runs["experiment"].str.startswith("dimension")].assign(experiment="dimension")
    return max(found, key=lambda e: abs(e.value)), rows


def _units(rows):
    return list(zip(rows["lr"], rows["batch_size"], strict=True))


def _bias_rows(runs):
    setting = "lr=" + runs["lr"].astype(str) + ", batch_size=" + runs["batch_size"].astype(str)
    runs = runs.assign(setting=setting).drop(columns="weight_decay")
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
    three = runs[runs["experiment"] == "basic"]
    found = change_per_doubling(three, "batch_size", "test_accuracy")
    yield row("bias/accuracy", "change of test accuracy per doubling, nine settings", found, three)


def _augmentation_rows(runs):
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


def full_size_rows(runs):
    """Rows beyond the published statements, which need single runs; their ids begin with full-size.

    The effect of weight decay; runs of one setting with different seeds; runs of one setting on the
    same 100 segments, that is with one seed; and experiments that were not published.
    """
    basic = runs[runs["experiment"] == "basic"].copy()
    basic["log_count"] = np.log(basic["count"])
    basic["setting"] = basic.groupby(SETTING).ngroup().astype(str)
    for network in NETWORKS:
        part = basic[basic["network"] == network]
        counts = part.pivot_table(index="setting", columns="weight_decay", values="count")
        words = "change of count, weight decay from 1e-7 to 1e-5"
        change = mean(counts[1e-5] - counts[1e-7])
        yield row(f"full-size/weight-decay/{network}", words, change, part)
        part = part.assign(group=part.groupby(COMBINATION).ngroup().astype(str))
        found = partial_correlation(part, "log_count", "gap", "C(group)", part["setting"])
        found = Estimate(found.value, n=found.n)  # three seeds recur in all settings: no interval
        words = "correlation of log count and gap, same setting, other seed"
        yield row(f"full-size/seeds/{network}", words, found, part)
    # No file names its seeds. Four networks differ before training; the others have count 1 there.
    four = basic[basic.groupby("network")["R0"].transform("nunique") >= 3]
    for id_, words, part, keys in (
        ("full-size/seeds", "other seed", basic, COMBINATION),
        ("full-size/seeds/four-networks", "other seed, four networks", four, COMBINATION),
        ("full-size/seeds/same-segments", "same segments", four, [*SETTING, "R0"]),
    ):
        part = part.assign(group=part.groupby(keys).ngroup().astype(str))
        unit = "setting" if "R0" in keys else "network"  # three seeds recur in all settings
        found = partial_correlation(part, "log_count", "gap", "C(group)", part[unit])
        found = Estimate(found.value, found.low, found.high, found.n, f"{unit}s")
        yield row(id_, f"correlation of log count and gap, same setting, {words}", found, part)
    for name, _, columns in OTHERS.values():
        if columns is FITS:
            classical = runs[runs["experiment"] == name]
            yield from fit_correlations(f"full-size/{name.replace(' ', '-')}", classical)
    vit = runs[runs["experiment"] == "vit"]
    yield from correlations("full-size/vit", vit)
    yield from correlations("full-size/vit/without lr 0.001", vit[vit["lr"] != 0.001])
    again = runs[runs["experiment"] == "measure, second file"]
    yield from correlations("full-size/distance, second file", again, ("gap",), x="distance")
    for experiment in ("svhn", "1drandom", "2d", "stop", "weight_decay"):
        for network, part in runs[runs["experiment"] == experiment].groupby("network"):
            yield from correlations(f"full-size/{experiment}/{network}", part)


def write_tables(root, folder):
    """Write settings.csv and results.csv into `folder` from the clone at `root`."""
    runs = read_runs(root)
    results = pd.DataFrame([*published_rows(runs), *full_size_rows(runs)])
    folder.mkdir(parents=True, exist_ok=True)
    settings_table(runs).to_csv(folder / "settings.csv", index=False)
    results.round(6).to_csv(folder / "results.csv", index=False)
    print(f"{len(runs)} runs read, {len(results)} results written to {folder}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python campaigns/authors/derive.py PATH-OF-A-CLONE (see `make authors`)")
    try:
        write_tables(pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent)
    except ValueError as error:
        sys.exit(f"error: {error}")
