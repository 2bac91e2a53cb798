"""Pretrained networks on segments between images: what the program makes, without any download."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import ROOT

import rc_utils as rc
from campaigns.imagenet import count as imagenet
from campaigns.imagenet import hero
from rc_utils.counting import sample_vertices
from rc_utils.counting.segments import segment_table


def small_network(classes=6):
    torch.manual_seed(3)
    first, last = torch.nn.Linear(48, 64), torch.nn.Linear(64, classes)
    first.weight.data *= 6
    return torch.nn.Sequential(torch.nn.Flatten(), first, torch.nn.Tanh(), last)


def steps(x):
    """Ten labels by the brightness of an image."""
    return -((x.mean((1, 2, 3))[:, None] - torch.arange(10) / 9) ** 2)


def test_a_segment_has_the_regions_that_region_count_finds_and_a_brightness_each_label_once(rng):
    images = rng.random((30, 3, 4, 4)).astype(np.float32)
    network = small_network()
    table = segment_table(network, sample_vertices(images, num_samples=45, seed=2))
    count = rc.region_count(network, images, num_samples=45, seed=2, strategy="adaptive")
    assert table["regions"].tolist() == count.counts.tolist()
    assert table["evaluations"].sum() == count.num_evaluations
    assert table["regions"].max() > 2
    values = torch.tensor([[0.0, 1.0], [0.03, 0.2], [0.52, 0.54]])
    table = segment_table(steps, values[:, :, None, None, None].expand(3, 2, 3, 8, 8))
    assert table["labels"].tolist() == table["regions"].tolist() == [10, 3, 1]
    assert table["foreign_share"].tolist() == pytest.approx([0.8, 1 / 3, 0])
    row = imagenet.summary(table, table.assign(regions=table["regions"] + [1, 1, 4]))
    assert (row["segments"], row["regions"]) == (3, 14 / 3)
    assert row["more_low"] < row["more"] == -2 < row["more_high"]


def test_the_guide_and_the_first_page_show_the_committed_results():
    results = pd.read_csv(ROOT / "campaigns" / "imagenet" / "results.csv")
    shown = pd.read_csv(ROOT / "book" / "guide" / "imagenet.csv", dtype=str)
    pd.testing.assert_frame_equal(shown, hero.shown_table(results).astype(str))
    svg = hero.PICTURE.read_text(encoding="utf-8")
    told = re.search(r'role="img" aria-label="([^"]+)"', svg)[1]
    classes, regions = map(int, re.search(r"(\d+) classes in (\d+) regions", told).groups())
    shares = re.findall(r"<title>.*?: ([\d.]+) % of the triangle", svg)
    assert classes == len(shares) > 10
    assert sum(map(float, shares)) == pytest.approx(100, abs=0.5)
    intro = (ROOT / "book" / "intro.md").read_text(encoding="utf-8")
    assert hero.caption(classes, regions) in intro
