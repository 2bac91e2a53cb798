"""The explorer's data: runs that differ in lr alone, labels and counts that survive encoding."""

import base64
import dataclasses
import io
import json
import re

import matplotlib.pyplot as plt
import numpy as np
import torch

from rc_studies import explorer
from rc_utils.counting import count_components, label_grid
from rc_utils.sweep import run as sweep_run

EPOCHS = (0, 5, 9)


def random_grids(data, triangles, runs, resolution):
    """{run: {epoch: grid}} of random networks that cut the triangles into several regions."""

    def network(seed):
        generator = torch.Generator().manual_seed(seed)
        first = torch.randn(data.x_train[:1].numel(), 32, generator=generator) / 8
        second = torch.randn(32, 10, generator=generator)
        return lambda x: torch.sin(torch.as_tensor(x).flatten(1) @ first) @ second

    corners, grids = data.x_train[triangles], {}
    for k, run in enumerate(runs):
        networks = {e: network(e + k) for e in EPOCHS}
        grids[run] = {e: label_grid(networks[e], corners, resolution=resolution) for e in EPOCHS}
    return grids


def counts_of(grids):
    """The number of areas that a reader sees: a cell of a picture touches six others."""
    counts = {}
    for run, by_epoch in grids.items():
        of_run = [count_components(grid, "simplex") for grid in by_epoch.values()]
        counts[run] = np.stack(of_run, axis=1)
    return counts


def test_the_two_runs_differ_in_lr_alone_and_did_not_diverge(monkeypatch):
    small, large = sweep_run.lr_pair("shapes-quick")
    assert (small.spec.train.lr, large.spec.train.lr) == (0.02, 0.05)
    assert small.spec.network == large.spec.network
    assert small.spec.train == dataclasses.replace(large.spec.train, lr=0.02)
    found = {large.spec.run_id: ({"status": "diverged"}, "live")}
    monkeypatch.setattr(sweep_run.records, "find_records", lambda _: found)
    assert sweep_run.lr_pair("shapes-quick")[1].spec.train.lr < 0.05


def test_pictures_classes_labels_and_counts_are_those_of_the_grids(tiny_data):
    triangles = explorer.draw_triangles(tiny_data, 2, seed=0)
    grids = random_grids(tiny_data, triangles, ("lr 0.01", "lr 0.02"), resolution=12)
    names = (*tiny_data.class_names[:-1], "</script><b>")
    named = dataclasses.replace(tiny_data, class_names=names)
    counts, notes = counts_of(grids), {"lr 0.01": {}, "lr 0.02": {5: "a note"}}
    text = explorer.explorer_html(grids, counts, named, triangles, notes)
    assert text.count("</script>") == 1
    assert "<b>" not in text.split("<script")[0]
    data = json.loads(re.search(r'application/json">(.*?)</script>', text, re.DOTALL)[1])
    assert data["classes"][-1]["name"] == "</script><b>"
    for corners, triangle in zip(triangles, data["triangles"], strict=True):
        assert triangle["classes"] == tiny_data.y_train[corners].tolist()
        for index, address in zip(corners, triangle["images"], strict=True):
            png = io.BytesIO(base64.b64decode(address.partition(",")[2]))
            picture = np.round(255 * plt.imread(png)[..., :3])
            assert np.array_equal(picture.transpose(2, 0, 1), tiny_data.x_train.raw[index])
    assert data["epochs"] == list(EPOCHS)
    assert [run["notes"] for run in data["runs"]] == [["", "", ""], ["", "a note", ""]]
    for run, by_epoch in zip(data["runs"], grids.values(), strict=True):
        labels = np.frombuffer(base64.b64decode(run["labels"]), np.uint8)
        labels = labels.reshape(2, len(EPOCHS), 12 * 13 // 2)
        for e, grid in enumerate(by_epoch.values()):
            assert np.array_equal(labels[:, e], grid[:, grid[0] >= 0])
        assert run["counts"] == counts[run["name"]].tolist()
    assert max(c for run in data["runs"] for row in run["counts"] for c in row) > 3
