"""What is changed: the committed triangles are of the networks on record, and drawn as counted."""

import json

import headline
import numpy as np
from test_front_page import INTRO, ROOT

from rc_studies import changes

FOLDER = ROOT / "campaigns" / "study-axes"
FOUND = json.loads((FOLDER / "triangles.json").read_text(encoding="utf-8"))
RECORDS = [json.loads(line) for line in (FOLDER / "runs.jsonl").read_text().splitlines()]


def test_the_networks_are_those_on_record_with_seed_0():
    settings = {record["run_id"]: record["spec"]["train"] for record in RECORDS}
    first = {k for k, train in settings.items() if train["seed"] == train["crop_padding"] == 0}
    assert set(FOUND["networks"]) == first
    for run_id, network in FOUND["networks"].items():
        for place, triangle in enumerate(network["triangles"]):
            assert changes.is_whole(triangle), (run_id, place)
            assert set(triangle["paths"]) <= set(map(str, range(len(FOUND["labels"]))))
            assert 1 <= len(triangle["paths"]) <= triangle["regions"]
            # A region too small to be seen has no outline; one that touches itself has two.
            outlines = sum(path.count("M") for path in triangle["paths"].values())
            assert outlines >= 0.6 * triangle["regions"]


def test_the_walls_are_the_first_triangles_of_the_means_beside_them():
    walls, caption = headline.walls()
    assert (ROOT / "book" / "_static" / "walls.svg").read_text(encoding="utf-8") == walls
    assert caption in INTRO
    counted = {run_id for run_id, network in FOUND["networks"].items() if "counts" in network}
    base = {record["run_id"]: record for record in RECORDS if record["run_id"] in counted}
    assert sorted(r["spec"]["train"]["lr"] for r in base.values()) == [0.003, 0.03]
    for run_id, record in base.items():
        network, lr = FOUND["networks"][run_id], record["spec"]["train"]["lr"]
        regions = [triangle["regions"] for triangle in network["triangles"]]
        assert regions == network["counts"][: changes.OF_BASE]
        assert len(network["counts"]) == changes.COUNTED
        assert f"{np.mean(network['counts']):.2f} at {lr:g}" in caption
    assert walls.count("<g transform") == 2 * headline.COLUMNS * headline.ROWS
