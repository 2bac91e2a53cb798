"""Pretrained networks on segments between images: what the program makes, without any download."""

import pathlib
import re

import numpy as np
import pandas as pd
import torch
from PIL import Image

from rc_studies import imagenet
from rc_utils.counting import make_lattice

ROOT = pathlib.Path(__file__).resolve().parents[1]


def test_a_row_says_how_many_regions_have_neither_label_of_the_ends(rng):
    class Steps(torch.nn.Module):
        """Ten labels by the brightness of an image."""

        def forward(self, x):
            return -((x.mean((1, 2, 3))[:, None] - torch.arange(10) / 9) ** 2)

    images = np.repeat(np.repeat(np.repeat(rng.random((20, 1, 1, 1)), 3, 1), 8, 2), 8, 3).astype(np.float32)
    row = imagenet.counted("steps", Steps(), images, 10, points=200)
    assert row["labels"] == row["regions"]  # brightness moves one way along a segment
    assert 0 < row["foreign_share"] < 1
    assert row["regions_low"] < row["regions"] < row["regions_high"]


def test_the_triangle_names_its_labels_and_outlines_them():
    lattice = make_lattice(2, 12)
    labels = (lattice.coordinates[:, 0] > 0.5).astype(int)
    squares = [Image.new("RGB", (20, 20), colour) for colour in ("red", "green", "blue")]
    svg = imagenet.triangle_svg(labels, lattice.coordinates, ["cat & dog", "cup"], squares, ["a", "b", "c"], 2)
    assert re.findall(r"<title>(.*?):", svg) == ["cat &amp; dog", "cup"]
    assert "2 labels in 2 regions" in svg
    assert svg.count("<image") == 3
    shares = [float(share) for share in re.findall(r"([\d.]+) % of the triangle", svg)]
    assert abs(sum(shares) - 100) < 0.2


def test_the_committed_picture_and_table_are_whole():
    svg = (ROOT / "book" / "_static" / "hero.svg").read_text(encoding="utf-8")
    told = re.search(r'aria-label="([^"]+)"', svg)[1]
    number = int(re.search(r"(\d+) labels in", told)[1])
    assert len(re.findall("<title>", svg)) == number > 10
    path = ROOT / "campaigns" / "imagenet" / "results.csv"
    if path.is_file():
        table = pd.read_csv(path)
        assert not table.isna().any().any()
        assert (table["regions_low"] < table["regions"]).all()
