"""Fit decision trees and random forests over the grid of v1 Table 1.

    python -m rc_exact.forests cifar10 --n-train 3000

writes campaigns/forests/cifar10.json, the table that page 03 reads. They have no initialisation,
learning rate or parameters, but they have regions (v1 Fig 2, right).
"""

import argparse
import importlib.metadata
import itertools
import json

import numpy as np

import rc_utils as rc
from rc_utils.paths import project_root, write_atomically
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


def fit_grid(data, num_samples):
    """One row per tree or forest: fitted on flattened pixels, with accuracies, gap, region count.

    num_samples: segments, the same for all models. Columns: those of `load_runs` that correlations
    and figures read, and depth, criterion, splitter ("" for a forest).
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier
    from tqdm import tqdm

    x_train = np.asarray(data.x_train).reshape(len(data.x_train), -1)
    x_test = np.asarray(data.x_test).reshape(len(data.x_test), -1)
    draw = {"num_samples": num_samples, "resolution": RESOLUTION, "seed": SEED}
    for kind, chosen in tqdm(forest_grid(), desc="trees and forests", mininterval=2.0):
        if kind == FOREST:
            model = RandomForestClassifier(**chosen, random_state=SEED, n_estimators=NUM_TREES)
        else:
            model = DecisionTreeClassifier(**chosen, random_state=SEED)
        model.fit(x_train, data.y_train)
        train, test = model.score(x_train, data.y_train), model.score(x_test, data.y_test)
        count = rc.region_count(model, x_train, **draw)
        yield {
            "campaign": data.name, "experiment": "trees", "network": kind,
            "setting": ", ".join(f"{key}={value}" for key, value in chosen.items()), "status": "ok",
            "depth": chosen["max_depth"], "criterion": chosen["criterion"],
            "splitter": chosen.get("splitter", ""), "train_accuracy": train, "test_accuracy": test,
            "gap": train - test, "interpolates": train >= INTERPOLATES,
            "count": count.mean, "count_std_error": count.std_error,
        }  # fmt: skip


def main(argv=None):
    """The command line."""
    description = __doc__.split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m rc_exact.forests", description=description)
    parser.add_argument("dataset", help="such as digits; its table is replaced")
    parser.add_argument("--n-train", type=int, help="training images (default: all)")
    parser.add_argument("--num-samples", type=int, default=200, help="segments (default: 200)")
    args = parser.parse_args(argv)
    dataset = {"name": args.dataset}
    if args.n_train is not None:
        dataset["n_train"] = args.n_train
    try:
        data = rc.load_dataset(**dataset)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    settings = {
        "dataset": dataset, "depths": list(DEPTHS), "num_samples": args.num_samples,
        "resolution": RESOLUTION, "num_trees": NUM_TREES, "seed": SEED, "format": 1,
        "scikit-learn": importlib.metadata.version("scikit-learn"),
    }  # fmt: skip
    rows = list(fit_grid(data, args.num_samples))
    table = {"settings": settings, "data": data.provenance, "rows": rows}
    path = project_root() / "campaigns" / "forests" / f"{args.dataset}.json"
    write_atomically(path, json.dumps(table, indent=1).encode() + b"\n")
    print(path)


if __name__ == "__main__":
    main()
