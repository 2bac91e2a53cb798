"""Decision trees and random forests over the grid of v1 Table 1: accuracies and region counts.

They have no initialisation, learning rate or parameters, but they have regions (v1 Fig 2, right).
"""

import itertools
import json

import numpy as np
import pandas as pd

import rc_utils as rc
from rc_utils.paths import project_root
from rc_utils.sweep.records import INTERPOLATES

TREE, FOREST = "DecisionTree", "RandomForest"
DEPTHS = tuple(range(3, 18))
NUM_TREES, RESOLUTION, SEED = 100, 200, 0  # SEED draws the segments and the trees' splits


def forest_grid():
    """(kind, scikit-learn settings) of every combination of v1 Table 1, right.

    60 trees: depths x criteria x splitters; 30 forests: depths x criteria, since their trees always
    look for the best split.
    """
    both = itertools.product(DEPTHS, ("gini", "entropy"))
    pairs = [{"max_depth": depth, "criterion": criterion} for depth, criterion in both]
    trees = [(TREE, pair | {"splitter": s}) for pair in pairs for s in ("best", "random")]
    return trees + [(FOREST, pair) for pair in pairs]


def forest_runs(dataset, num_samples=200, progress=False):
    """One row per tree or forest: fitted on flattened pixels, with accuracies, gap, region count.

    dataset: arguments of `load_dataset`, such as {"name": "digits"}. CIFAR-10, as in the paper, is
    {"name": "cifar10"}, best with `n_train`. num_samples: segments, the same for all models.

    Columns: those of `load_runs` that correlations and figures read, and depth, criterion, splitter
    ("" for a forest). A table committed with the same settings (campaigns/forests/) is read, from
    whatever version of scikit-learn; any other takes a minute or more. The table's `attrs["note"]`
    is the committed note on the data.
    """
    settings = forest_settings(dataset, num_samples)
    path, note = committed(dataset), ""
    found = json.loads(path.read_bytes()) if path.exists() else {"settings": {}}
    if {key: found["settings"].get(key) for key in settings} == settings:
        rows, note = found["rows"], found["data"].get("note", "")
    else:
        rows = list(fit_grid(dataset, num_samples, progress))
    table = pd.DataFrame(rows)
    table.attrs["note"] = note
    return table


def forest_settings(dataset, num_samples):
    """Settings by which a committed table is recognised."""
    return {
        "dataset": dataset, "depths": list(DEPTHS), "num_samples": num_samples,
        "resolution": RESOLUTION, "num_trees": NUM_TREES, "seed": SEED, "format": 1,
    }  # fmt: skip


def committed(dataset):
    """File of the committed table of a dataset."""
    return project_root() / "campaigns" / "forests" / f"{dataset['name']}.json"


def fit_grid(dataset, num_samples, progress=False):
    """Rows of `forest_runs`, all of them fitted here."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier
    from tqdm import tqdm

    data = rc.load_dataset(**dataset)
    x_train = np.asarray(data.x_train).reshape(len(data.x_train), -1)
    x_test = np.asarray(data.x_test).reshape(len(data.x_test), -1)
    draw = {"num_samples": num_samples, "resolution": RESOLUTION, "seed": SEED}
    bar = {"desc": "trees and forests", "mininterval": 2.0, "disable": not progress}
    for kind, chosen in tqdm(forest_grid(), **bar):
        if kind == FOREST:
            model = RandomForestClassifier(**chosen, random_state=SEED, n_estimators=NUM_TREES)
        else:
            model = DecisionTreeClassifier(**chosen, random_state=SEED)
        model.fit(x_train, data.y_train)
        train, test = model.score(x_train, data.y_train), model.score(x_test, data.y_test)
        count = rc.region_count(model, x_train, **draw)
        yield {
            "campaign": dataset["name"], "experiment": "trees", "network": kind,
            "setting": ", ".join(f"{key}={value}" for key, value in chosen.items()), "status": "ok",
            "depth": chosen["max_depth"], "criterion": chosen["criterion"],
            "splitter": chosen.get("splitter", ""), "train_accuracy": train, "test_accuracy": test,
            "gap": train - test, "interpolates": train >= INTERPOLATES,
            "count": count.mean, "count_std_error": count.std_error,
        }  # fmt: skip
