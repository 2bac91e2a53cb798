"""Perceptrons and convolutional networks at equal training loss on MNIST (Loukas App. A.5).

`python -m rc_theory.complexity.architectures mnist` trains both on 100 images per class of MNIST
and writes campaigns/architectures/mnist.json.
"""

import datetime
import json
import sys
import time
from collections.abc import Mapping

import pandas as pd
import torch

from rc_theory.complexity.tasks import digit_tasks
from rc_theory.complexity.trajectory import Trajectory
from rc_utils.paths import project_root, write_atomically
from rc_utils.provenance import git_revision, hardware

# Training losses at which the networks are compared.
LEVELS = (0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
# Successive blocks of steps over which the length of the path is averaged.
BLOCKS = 10
SETTINGS = {"images_per_class": 100, "repetitions": 8, "num_test": 1000, "lr": 0.002}
SETTINGS |= {"iterations": 20_000, "seed": 0}


def equal_fit_table(paths: Mapping[str, Trajectory]) -> pd.DataFrame:
    """One row per network ("MLP", "CNN"), repetition and loss of LEVELS that all trainings reach.

    Columns: network, repetition, loss, steps (until the first block with at most that training
    loss), length (mean path of the first bias over the BLOCKS blocks up to it) and test_loss.
    """
    rows = []
    for level in LEVELS:
        if not all((path.train_loss <= level).any(0).all() for path in paths.values()):
            continue
        for network, path in paths.items():
            first = (path.train_loss <= level).argmax(0)
            for repetition, block in enumerate(first):
                blocks = slice(max(0, block + 1 - BLOCKS), block + 1)
                length = float(path.length[blocks, repetition, 0].mean())
                test_loss = float(path.test_loss[block, repetition])
                steps = int(path.steps[block])
                rows.append([network, repetition, level, steps, length, test_loss])
    columns = ["network", "repetition", "loss", "steps", "length", "test_loss"]
    return pd.DataFrame(rows, columns=columns)


def committed_table(dataset: str = "mnist") -> tuple[pd.DataFrame, str]:
    """The committed `equal_fit_table` of a dataset, and a phrase that says how it was made."""
    content = json.loads(_path(dataset).read_text(encoding="utf-8"))
    options, made = content["settings"], content["provenance"]
    words = (
        f"{content['dataset']}, {options['images_per_class']} images per class, "
        f"{options['repetitions']} trainings of each network for {options['iterations']:,} "
        f"iterations at learning rate {options['lr']:g}, made on {made['hardware']} with torch "
        f"{made['torch']}"
    )
    return pd.DataFrame(content["rows"]), words


def train_both(dataset: str, *, lr: float, iterations: int, **options) -> dict[str, Trajectory]:
    """Train both networks of App. A.5 in blocks of 100 steps; `options` are of `digit_tasks`."""
    paths = {}
    for name, task in digit_tasks(dataset=dataset, **options).items():
        _, paths[name] = task.run(epochs=iterations / task.train[1].shape[1], lr=lr, every=100)
    return paths


def main(dataset: str = "mnist") -> None:
    """Train both networks and write the table with its settings and its provenance."""
    torch.set_num_threads(1)
    started, begin = datetime.datetime.now(datetime.UTC), time.monotonic()
    rows = equal_fit_table(train_both(dataset, **SETTINGS)).to_dict("records")
    seconds = round(time.monotonic() - begin, 1)
    made = {"started": started.isoformat(timespec="seconds"), "seconds": seconds}
    made |= {"hardware": hardware(), "git_revision": git_revision(), "torch": torch.__version__}
    content = {"dataset": dataset, "settings": SETTINGS, "provenance": made, "rows": rows}
    _path(dataset).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(_path(dataset), json.dumps(content, indent=1).encode() + b"\n")


def _path(dataset):
    return project_root() / "campaigns" / "architectures" / f"{dataset}.json"


if __name__ == "__main__":
    main(*sys.argv[1:])
