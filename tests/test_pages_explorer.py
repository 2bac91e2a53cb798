"""The explorer's data: two runs that differ in lr alone, triangles, and labels and counts that survive the encoding."""

import base64
import dataclasses
import io
import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from rc_studies import explorer
from rc_utils.counting import count_components, label_grid

EPOCHS = (0, 5, 9)


def random_grids(data, triangles, runs, resolution):
    """{run: {epoch: grid}} of random networks that cut the triangles into several regions."""

    def network(seed):
        generator = torch.Generator().manual_seed(seed)
        first = torch.randn(data.x_train[:1].numel(), 32, generator=generator) / 8
        second = torch.randn(32, 10, generator=generator)
        return lambda x: torch.sin(torch.as_tensor(x).flatten(1) @ first) @ second

    return {
        run: {
            e: label_grid(network(e + k), data.x_train[triangles], resolution=resolution)
            for e in EPOCHS
        }
        for k, run in enumerate(runs)
    }


def counts_of(grids):
    """The number of areas that a reader sees: a cell of a picture touches six others."""
    return {
        run: np.stack(
            [count_components(grid.labels, "simplex") for grid in by_epoch.values()], axis=1
        )
        for run, by_epoch in grids.items()
    }


def test_the_two_runs_differ_in_lr_alone_and_did_not_diverge_and_a_pair_that_is_not_there_is_refused(
    monkeypatch,
):
    small, large = explorer.lr_pair("shapes-quick")
    assert (small.spec.train.lr, large.spec.train.lr) == (0.01, 0.02)
    assert small.spec.network == large.spec.network
    assert small.spec.train == dataclasses.replace(large.spec.train, lr=0.01)
    assert small.spec.train.batch_size == 100
    diverged = ({"status": "diverged"}, "live")
    monkeypatch.setattr(explorer, "find_records", lambda ids, path: {large.spec.run_id: diverged})
    assert explorer.lr_pair("shapes-quick")[1].spec.train.lr < 0.02
    monkeypatch.setattr(explorer, "find_records", lambda ids, path: dict.fromkeys(ids, diverged))
    with pytest.raises(
        ValueError, match=r"batch size 100 that differ in lr alone, and did not diverge"
    ):
        explorer.lr_pair("shapes-quick")
    with pytest.raises(ValueError, match=r"unknown network .* 'LeNet'"):
        explorer.lr_pair("shapes-quick", network="LeNet")


def test_pictures_classes_labels_and_counts_are_those_of_the_grids_in_a_small_and_whole_page(
    tiny_data,
):
    triangles = explorer.draw_triangles(tiny_data, 2, seed=0)
    grids = random_grids(tiny_data, triangles, ("lr 0.01", "lr 0.02"), resolution=12)
    named = dataclasses.replace(
        tiny_data, class_names=(*tiny_data.class_names[:-1], "</script><b>")
    )
    text = explorer.explorer_html(
        grids, counts_of(grids), named, triangles, {"lr 0.01": {}, "lr 0.02": {5: "a note"}}
    )
    assert len(text) < 50_000
    assert text.count("</script>") == 1
    assert "<b>" not in text.split("<script")[0]
    data = json.loads(
        re.search(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)[1]
    )
    assert data["classes"][-1]["name"] == "</script><b>"
    for corners, triangle in zip(triangles, data["triangles"], strict=True):
        assert triangle["classes"] == tiny_data.y_train[corners].tolist()
        for index, address in zip(corners, triangle["images"], strict=True):
            png = io.BytesIO(base64.b64decode(address.partition(",")[2]))
            picture = np.round(255 * plt.imread(png)[..., :3])
            assert np.array_equal(picture.transpose(2, 0, 1), tiny_data.x_train.raw[index])
    many = dataclasses.replace(tiny_data, num_classes=12, class_names=tuple("abcdefghijkl"))
    text = explorer.explorer_html(
        grids, counts_of(grids), many, triangles, {run: {} for run in grids}
    )
    assert len(set(re.findall(r'"colour":"(#\w+)"', text))) == 12
    assert data["epochs"] == list(EPOCHS)
    assert [run["notes"] for run in data["runs"]] == [["", "", ""], ["", "a note", ""]]
    num_points = 12 * 13 // 2
    for run, by_epoch in zip(data["runs"], grids.values(), strict=True):
        labels = np.frombuffer(base64.b64decode(run["labels"]), np.uint8).reshape(
            2, len(EPOCHS), num_points
        )
        for e, grid in enumerate(by_epoch.values()):
            assert np.array_equal(grid.lattice.to_grid(labels[:, e].astype(int)), grid.labels)
            assert [row[e] for row in run["counts"]] == count_components(
                grid.labels, "simplex"
            ).tolist()
    assert max(c for run in data["runs"] for row in run["counts"] for c in row) > 3
