"""Decision trees and random forests over the grid of v1 Table 1: accuracies and region counts.

They have no initialisation, learning rate or parameters, but they have regions (v1 Fig 2, right).
"""

import importlib.metadata
import itertools
import json

import numpy as np
import pandas as pd

import rc_utils as rc
from rc_utils.checks import naming, require
from rc_utils.paths import project_root, write_atomically
from rc_utils.sweep.records import INTERPOLATES

TREE, FOREST = "DecisionTree", "RandomForest"
DEPTHS = tuple(range(3, 18))


def forest_grid(depths=DEPTHS):
    """(kind, scikit-learn settings) of every combination of v1 Table 1, right.

    Trees: depths x criteria x splitters, 60 at the published depths 3..17; forests: depths x
    criteria, 30, since their trees always look for the best split.
    """
    both = itertools.product(depths, ("gini", "entropy"))
    pairs = [{"max_depth": depth, "criterion": criterion} for depth, criterion in both]
    trees = [(TREE, pair | {"splitter": s}) for pair in pairs for s in ("best", "random")]
    return trees + [(FOREST, pair) for pair in pairs]


def forest_runs(
    dataset=None, *, depths=DEPTHS, num_samples=200, resolution=200, num_trees=100, seed=0,
    progress=False,
):  # fmt: skip
    """One row per tree or forest: fitted on flattened pixels, with accuracies, gap, region count.

    dataset: arguments of `load_dataset`; default {"name": "digits"}. CIFAR-10, as in the paper, is
    {"name": "cifar10"}, best with `n_train`. seed: of the segments, which are the same for all
    models, and of the splits. num_samples, resolution: as in `region_count`.

    Columns: those of `load_runs` that correlations and figures read, and depth, criterion, splitter
    ("" for a forest). A table that is committed with the same settings (campaigns/forests/),
    whatever the version of scikit-learn, is read; any other takes a minute or more. Its `attrs` are
    its settings and, where committed, a note on the data. Raises ValueError for numbers out of
    range and a damaged table.
    """
    settings = {
        "dataset": {"name": "digits"} if dataset is None else dict(dataset),
        "depths": list(depths), "num_samples": num_samples, "resolution": resolution,
        "num_trees": num_trees, "seed": seed, "format": 1,
        "scikit-learn": importlib.metadata.version("scikit-learn"),
    }  # fmt: skip
    found, path = {"settings": {}}, _committed(settings["dataset"])
    with naming(f"{path} is damaged: restore it, or delete it to make it again"):
        if path.exists():
            found = json.loads(path.read_bytes())
            require({"settings", "rows"} <= set(found), "it has no settings and rows")
    if found["settings"] | {"scikit-learn": settings["scikit-learn"]} != settings:
        found = {"settings": settings, "rows": list(_fit_all(settings, progress))}
    table = pd.DataFrame(found["rows"])
    table.attrs = {"settings": found["settings"], "note": found.get("data", {}).get("note", "")}
    return table


def freeze_forests(dataset, **options):
    """Commit `forest_runs(dataset, **options)` and the provenance of its data; returns the path.

    That of page 03 is `freeze_forests({"name": "cifar10", "n_train": 3000}, progress=True)`.
    """
    table, path = forest_runs(dataset, **options), _committed(dataset)
    found = {"settings": table.attrs["settings"], "data": rc.load_dataset(**dataset).provenance}
    found |= {"rows": table.to_dict("records")}
    write_atomically(path, json.dumps(found, indent=1).encode() + b"\n")
    return path


def _committed(dataset):
    return project_root() / "campaigns" / "forests" / f"{dataset['name']}.json"


def _fit_all(settings, progress):
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier
    from tqdm import tqdm

    data, seed = rc.load_dataset(**settings["dataset"]), settings["seed"]
    x_train, x_test = (np.asarray(x).reshape(len(x), -1) for x in (data.x_train, data.x_test))
    draw = {key: settings[key] for key in ("num_samples", "resolution", "seed")}
    grid = forest_grid(settings["depths"])
    for kind, chosen in tqdm(grid, desc="trees and forests", mininterval=2.0, disable=not progress):
        if kind == FOREST:
            size = settings["num_trees"]
            model = RandomForestClassifier(**chosen, random_state=seed, n_estimators=size)
        else:
            model = DecisionTreeClassifier(**chosen, random_state=seed)
        model.fit(x_train, data.y_train)
        train, test = model.score(x_train, data.y_train), model.score(x_test, data.y_test)
        count = rc.region_count(model, x_train, **draw)
        yield {
            "campaign": settings["dataset"]["name"], "experiment": "trees", "network": kind,
            "cell": ", ".join(f"{key}={value}" for key, value in chosen.items()), "status": "ok",
            "depth": chosen["max_depth"], "criterion": chosen["criterion"],
            "splitter": chosen.get("splitter", ""), "train_accuracy": train, "test_accuracy": test,
            "gap": train - test, "interpolates": train >= INTERPOLATES,
            "count": count.mean, "count_std_error": count.std_error,
        }  # fmt: skip
