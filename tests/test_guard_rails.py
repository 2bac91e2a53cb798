"""What no rewrite may change: tables of the records, run ids, settings, datasets, counts.

`python -m tests.test_guard_rails` writes guard_rails.json anew, which is right after a record was
added and wrong after a change of the code.
"""

import dataclasses
import hashlib
import json
import pathlib

import numpy as np
import pandas as pd
import pytest
import torch

import rc_utils as rc
from rc_utils.counting import make_lattice
from rc_utils.datasets import load_dataset
from rc_utils.paths import campaigns_dir
from rc_utils.published import NETWORKS
from rc_utils.sweep import load_campaign, trained_network
from rc_utils.sweep.campaign import list_campaigns
from rc_utils.sweep.records import load_evolution, load_runs
from rc_utils.sweep.run import complete_run, dataset_of
from rc_utils.training import TrainConfig

FILE = pathlib.Path(__file__).with_name("guard_rails.json")
DIGESTS = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
RECORDED = [name for name in list_campaigns() if (campaigns_dir() / name / "runs.jsonl").exists()]


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def column_digests(table):
    """{column: digest} of a table; numbers as shortest text that gives them back: 2 is 2.0."""
    table = table.drop(columns=["campaign"], errors="ignore")
    columns = {}
    for name in sorted(table.columns):
        values = table[name]
        if values.dtype == object:
            values = pd.to_numeric(values, errors="ignore")
        numeric = pd.api.types.is_numeric_dtype(values)
        texts = [repr(float(v)) for v in values] if numeric else [str(v) for v in values]
        columns[str(name)] = digest("\n".join(texts))
    return columns


def tables():
    found = {}
    for name in RECORDED:
        runs = load_runs(name).sort_values(["experiment", "run_id", "network"], kind="stable")
        found[f"runs {name}"] = {"rows": len(runs)} | column_digests(runs)
        evolution = load_evolution(name)
        if len(evolution):
            evolution = evolution.sort_values(["experiment", "run_id", "epoch"], kind="stable")
            found[f"evolution {name}"] = {"rows": len(evolution)} | column_digests(evolution)
    return found


def ids():
    names = list_campaigns()
    return {f"ids {name}": digest("\n".join(load_campaign(name).runs())) for name in names}


def datasets():
    drawn = load_dataset("shapes", n_train=200, n_test=100, image_size=8, seed=3, label_noise=0.1)
    digits = load_dataset("digits", n_train=100, n_test=50, seed=1)
    found = {"shapes": drawn.provenance["sha256"], "digits": digits.provenance["sha256"]}
    return found | {"defaults": repr(load_dataset("shapes"))}


def layers(name):
    """Digest of a network's layers: type, shape of the output, rate of dropout."""
    seen = []

    def see(layer, given, output):
        seen.append([type(layer).__name__, *output.shape, getattr(layer, "p", 0)])

    with torch.device("meta"):
        network = rc.build_network(name).eval()
        for layer in network.modules():
            layer.register_forward_hook(see)
        network(torch.zeros(1, 3, 32, 32))
    return digest(json.dumps(seen))


COUNTS = {
    "segments": {"dim": 1, "num_samples": 40},
    "adaptive segments": {"dim": 1, "num_samples": 40, "strategy": "adaptive"},
    "wider range": {"dim": 1, "num_samples": 20, "alpha_range": (-1, 2)},
    "random directions": {"dim": 1, "num_samples": 20, "sampling": "random_direction"},
    "triangles": {"dim": 2, "num_samples": 6},
    "adaptive triangles": {"dim": 2, "num_samples": 6, "strategy": "adaptive"},
    "triangles, face": {"dim": 2, "num_samples": 6, "adjacency": "face"},
    "triangles, simplex": {"dim": 2, "num_samples": 6, "adjacency": "simplex"},
    "triangles, full": {"dim": 2, "num_samples": 6, "adjacency": "full"},
    "tetrahedra": {"dim": 3, "num_samples": 3},
    "tetrahedra, face": {"dim": 3, "num_samples": 3, "adjacency": "face"},
    "four dimensions, face": {"dim": 4, "num_samples": 3, "adjacency": "face"},
}


def rough_network():
    """A ReLU network of 12 inputs with large, untrained weights: the same on every machine."""
    rng = np.random.default_rng(7)
    layers = []
    for rows, columns in ((48, 12), (48, 48), (6, 48)):
        layer = torch.nn.Linear(columns, rows)
        weight = rng.normal(0, 1.6 / columns**0.5, (rows, columns))
        layer.weight.data = torch.from_numpy(weight).float()
        layer.bias.data = torch.from_numpy(rng.normal(0, 0.5, rows)).float()
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def counts():
    """Regions on every simplex of `COUNTS`, of the rough network and of a network at its start."""
    points = np.random.default_rng(8).normal(size=(60, 12)).astype(np.float32)
    data = load_dataset("shapes", n_train=60, n_test=20, image_size=8, seed=0)
    start = rc.build_network("ResNet18", width=4, image_size=8, seed=1)
    found = {}
    for name, options in COUNTS.items():
        found[name] = rc.region_count(rough_network(), points, **options)
    found["network at its start"] = rc.region_count(start, data.x_train, num_samples=40)
    return {name: count.counts.tolist() for name, count in found.items()}


def all_digests():
    """Everything that is compared; the runs of shapes-tiny are not, which depend on the CPU."""
    others = {"datasets": datasets(), "TrainConfig": dataclasses.asdict(TrainConfig())}
    others["networks"] = {name: layers(name) for name in NETWORKS}
    lattices = [make_lattice(dim) for dim in (1, 2, 3, 4, 5, 6)]
    others["lattices"] = [[lattice.resolution, lattice.adjacency] for lattice in lattices]
    return tables() | ids() | others | {"counts": counts()}


@pytest.fixture(scope="module")
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RC_RESULTS", "/nonexistent")
        return all_digests()


@pytest.mark.parametrize("name", DIGESTS)
def test_nothing_that_is_committed_has_changed(found, name):
    assert found[name] == DIGESTS[name]


def test_every_committed_table_is_compared(found):
    assert sorted(found) == sorted(DIGESTS)


def test_tiny_campaign_counts_what_the_networks_have(results):
    """A count of shapes-tiny by its record, and by a loop that shares no code with the counting."""
    campaign = load_campaign("shapes-tiny")
    planned = next(iter(campaign.runs().values()))
    complete_run(planned)
    row = load_runs(campaign).iloc[0]
    network, data = trained_network(planned), dataset_of(planned.spec)
    settings = campaign.counts["main"]
    uniform = np.random.default_rng([0, 0]).random((settings["num_samples"], 2))
    n, counts = len(data.x_train), []
    for first, second in uniform:
        i, j = int(first * n), int(second * (n - 1))
        j += j >= i
        ends = data.x_train[[i, j]]
        t = torch.linspace(0, 1, settings.get("resolution", 200))[:, None, None, None]
        labels = network(torch.lerp(ends[0], ends[1], t)).argmax(1).numpy()
        counts.append(1 + int((labels[1:] != labels[:-1]).sum()))
    assert abs(np.mean(counts) - row["count"]) < 0.05


if __name__ == "__main__":
    FILE.write_text(json.dumps(all_digests(), indent=1) + "\n", encoding="utf-8")
