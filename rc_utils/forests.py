"""Decision trees and random forests over the grid of v1 Table 1: accuracies and region counts, kept in one table.

They have no initialisation, learning rate or parameters to be rescaled, but they have regions: the count is the one
measure of this book that they share with networks (v1 Fig 2, right).
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import itertools
import json
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

import rc_utils as rc
from rc_utils.correlation import correlate
from rc_utils.paths import campaigns_dir, results_dir, write_atomically
from rc_utils.published import Result, correlation_result
from rc_utils.sweep.campaign import canonical_json
from rc_utils.sweep.records import INTERPOLATES

TREE, FOREST = "DecisionTree", "RandomForest"
DEPTHS = tuple(range(3, 18))
CRITERIA = ("gini", "entropy")
SPLITTERS = ("best", "random")
IDS = {TREE: "trees/decision-tree", FOREST: "trees/random-forest"}


def forest_grid(depths: Sequence[int] = DEPTHS) -> list[tuple[str, dict]]:
    """(kind, scikit-learn settings) of every cell of v1 Table 1, right.

    Trees: depths x criteria x splitters, 60 at the published depths 3..17; forests: depths x criteria, 30, since their
    trees always look for the best split.
    """
    trees = [
        (TREE, {"max_depth": depth, "criterion": criterion, "splitter": splitter})
        for depth, criterion, splitter in itertools.product(depths, CRITERIA, SPLITTERS)
    ]
    cells = itertools.product(depths, CRITERIA)
    return trees + [(FOREST, {"max_depth": depth, "criterion": criterion}) for depth, criterion in cells]


def build_forest(kind: str, settings: Mapping, *, num_trees: int = 100, seed: int = 0):
    """The unfitted scikit-learn classifier of a cell of `forest_grid`; `num_trees` is scikit-learn's default."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    if kind == TREE:
        return DecisionTreeClassifier(**settings, random_state=seed)
    return RandomForestClassifier(**settings, n_estimators=num_trees, random_state=seed)


def forest_runs(
    dataset: Mapping | None = None,
    *,
    depths: Sequence[int] = DEPTHS,
    num_samples: int = 200,
    resolution: int = 200,
    num_trees: int = 100,
    seed: int = 0,
    progress: bool = False,
) -> pd.DataFrame:
    """One row a tree or forest: fitted on flattened pixels, with its accuracies, gap and region count.

    dataset: arguments of `load_dataset`; default {"name": "digits"}. CIFAR-10, as in the paper, is {"name": "cifar10"},
    best with `n_train`. seed: of the segments, which are the same for all models, and of the splits.
    num_samples, resolution: segments and points on each, as in `region_count`.

    Columns: those of `load_runs` that correlations and figures read (campaign, experiment, network, cell, status,
    train_accuracy, test_accuracy, gap, interpolates, count, count_std_error) and depth, criterion, splitter ("" for a
    forest). A table that is committed with the same settings (campaigns/forests/), whatever the version of
    scikit-learn, is read; any other is kept under results/forests/ and read from there the next time. Its `attrs` are
    its settings and, where committed, a note on the data.
    Raises ValueError for an unknown setting of the dataset, numbers out of range and a damaged table.
    """
    settings = {
        "dataset": {"name": "digits"} if dataset is None else dict(dataset),
        "depths": list(depths),
        "num_samples": num_samples,
        "resolution": resolution,
        "num_trees": num_trees,
        "seed": seed,
        "format": 1,
        "scikit-learn": importlib.metadata.version("scikit-learn"),
    }
    found = _kept(settings, progress)
    table = pd.DataFrame(found["rows"])
    table.attrs = {"settings": found["settings"], "note": found.get("data", {}).get("note", "")}
    return table


def _kept(settings: Mapping, progress: bool) -> dict:
    """The committed table with these settings, else the one of this machine, made where there is none."""
    path = _committed(settings["dataset"])
    if path.exists():
        table = _read(path)
        if table["settings"] | {"scikit-learn": settings["scikit-learn"]} == settings:
            return table
    digest = hashlib.sha256(canonical_json(settings).encode()).hexdigest()
    path = results_dir() / "forests" / f"{digest[:16]}.json"
    if not path.exists():
        _write(path, {"settings": settings, "rows": list(_fit_all(settings, progress))})
    return _read(path)


def freeze_forests(dataset: Mapping, **options) -> pathlib.Path:
    """Commit `forest_runs(dataset, **options)` with the provenance of its data, as campaigns/forests/<name>.json."""
    table = forest_runs(dataset, **options)
    data = rc.load_dataset(**dataset).provenance
    content = {"settings": table.attrs["settings"], "data": data, "rows": table.to_dict("records")}
    return _write(_committed(dataset), content)


def _committed(dataset: Mapping) -> pathlib.Path:
    return campaigns_dir() / "forests" / f"{dataset['name']}.json"


def _read(path: pathlib.Path) -> dict:
    """A kept table. Raises ValueError naming a damaged file."""
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): restore it, or delete it to make it again") from error


def _write(path: pathlib.Path, content: Mapping) -> pathlib.Path:
    write_atomically(path, json.dumps(content, indent=1).encode() + b"\n")
    return path


def _fit_all(settings: Mapping, progress: bool) -> Iterator[dict]:
    from tqdm import tqdm

    data = rc.load_dataset(**settings["dataset"])
    x_train = np.asarray(data.x_train).reshape(len(data.x_train), -1)
    x_test = np.asarray(data.x_test).reshape(len(data.x_test), -1)
    y_train, y_test = data.y_train.numpy(), data.y_test.numpy()
    cells = forest_grid(settings["depths"])
    for kind, cell in tqdm(cells, desc="trees and forests", mininterval=2.0, disable=not progress):
        model = build_forest(kind, cell, num_trees=settings["num_trees"], seed=settings["seed"])
        model.fit(x_train, y_train)
        train = float((model.predict(x_train) == y_train).mean())
        test = float((model.predict(x_test) == y_test).mean())
        draw = {key: settings[key] for key in ("num_samples", "resolution", "seed")}
        count = rc.region_count(model, x_train, **draw)
        yield {
            "campaign": settings["dataset"]["name"],
            "experiment": "trees",
            "network": kind,
            "cell": ", ".join(f"{key}={value}" for key, value in cell.items()),
            "status": "ok",
            "depth": cell["max_depth"],
            "criterion": cell["criterion"],
            "splitter": cell.get("splitter", ""),
            "train_accuracy": train,
            "test_accuracy": test,
            "gap": train - test,
            "interpolates": train >= INTERPOLATES,
            "count": count.mean,
            "count_std_error": count.std_error,
        }


def describe_forests(table: pd.DataFrame) -> str:
    """One sentence of Markdown: how many trees and forests, on what, how well they do."""
    kinds = table["network"].value_counts()
    best = table.loc[table["test_accuracy"].idxmax()]
    return (
        f"Dataset {table['campaign'].iloc[0]}: {kinds.get(TREE, 0)} decision trees and {kinds.get(FOREST, 0)} random "
        f"forests, depth {table['depth'].min()} to {table['depth'].max()}; {int(table['interpolates'].sum())} of them "
        f"interpolate. Best test accuracy {best['test_accuracy']:.3f} ({best['network']}, {best['cell']})."
    ) + (f" Data: {table.attrs['note']}." if table.attrs.get("note") else "")


def accuracy_table(table: pd.DataFrame) -> pd.DataFrame:
    """Pearson's correlations of the count with the gap and with test accuracy, of all and of those that interpolate.

    One row a kind: kind, n, gap, test_accuracy, n_fitted, gap_fitted, test_accuracy_fitted; correlations are
    `Estimate`s.
    """
    rows = []
    for kind, group in table.groupby("network", sort=False):
        row: dict = {"kind": kind}
        for ending, part in (("", group), ("_fitted", group[group["interpolates"].astype(bool)])):
            row[f"n{ending}"] = len(part)
            for column in ("gap", "test_accuracy"):
                row[column + ending] = correlate(part["count"], part[column], unit="models")
        rows.append(row)
    return pd.DataFrame(rows)


def results_from_forests(table: pd.DataFrame, *, seed: int = 0) -> list[Result]:
    """Our results for trees/decision-tree, trees/random-forest and trees/overall (v1 Fig 2 right), Pearson.

    The detail has the correlation with test accuracy too: a gap can be small because nothing is fitted.
    """
    groups = {IDS[kind]: group for kind, group in table.groupby("network", sort=False)}
    groups["trees/overall"] = table
    label = f"trees on {table['campaign'].iloc[0]}"
    results = []
    for id_, group in groups.items():
        accuracy = correlate(group["count"], group["test_accuracy"]).value
        detail = f"Pearson over {len(group)} models; of count and test accuracy {accuracy:.2f}"
        found = correlation_result(id_, label, group, "gap")
        results += [dataclasses.replace(result, detail=detail) for result in found]
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit the trees and forests of a dataset and commit their table: for instance `cifar10 --n-train 3000`."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m rc_utils.forests", description=(main.__doc__ or "").split(":")[0])
    parser.add_argument("dataset", help="digits, cifar10, ...")
    parser.add_argument("--n-train", type=int, help="training images (default: all)")
    options = parser.parse_args(arguments)
    dataset = {"name": options.dataset} | ({} if options.n_train is None else {"n_train": options.n_train})
    try:
        print(freeze_forests(dataset, progress=True))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
