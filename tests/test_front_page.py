"""README, first page and page 20: their numbers and pictures are those of pages and records."""

import fnmatch
import json
import pathlib
import re

import headline
import numpy as np
import pandas as pd
import pytest

from rc_studies import changes
from rc_utils.correlation import correlation_lead
from rc_utils.published import kept_results
from rc_utils.sweep import list_campaigns, load_campaign
from rc_utils.sweep.records import load_runs

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
INTRO = (ROOT / "book" / "intro.md").read_text(encoding="utf-8")


def runs_of(campaign):
    """One row for each committed run, read by json and pandas alone."""
    settings = {"num_samples": 1000, "points": "train", "strategy": "adaptive"}
    rows = []
    text = (ROOT / "campaigns" / campaign / "runs.jsonl").read_text(encoding="utf-8")
    for record in map(json.loads, text.splitlines()):
        (counts,) = [c["counts"] for c in record["counts"] if c["settings"] == settings]
        row = {"network": record["spec"]["network"]["name"], "count": np.mean(counts)}
        rows.append(row | record["spec"]["train"] | record["results"])
    return pd.DataFrame(rows).eval("gap = train_accuracy - test_accuracy")


def shown_after(words):
    """The first number of the README behind `words`, and its decimals."""
    number = re.search(r"-?\d+\.\d+", README.split(words, 1)[1])[0]
    return float(number), len(number.partition(".")[2])


def test_the_numbers_of_the_readme_by_hand():
    runs = runs_of("cifar10-small")
    keys = ["network", "lr", "batch_size"]
    as_main = runs["optimizer"].eq("sgd") & runs["momentum"].eq(0.9)
    as_main &= runs["crop_padding"].eq(0) & runs["epochs"].eq(80)
    plain = runs[as_main & runs["mixup_alpha"].eq(0)]
    means = plain.groupby(keys)[["count", "gap"]].mean().reset_index()
    three = means[means["network"].isin(["ResNet18", "SENet18", "EfficientNetB0"])]
    expected = {"of three narrow networks correlate at": three["count"].corr(three["gap"])}
    text = (ROOT / "campaigns" / "full-size" / "runs.jsonl").read_text(encoding="utf-8")
    full = [line for line in text.splitlines() if '"ResNet18"' in line]
    assert f"Over {len(full)} full-size ResNet18 settings our counts" in README
    for words, value in expected.items():
        shown, decimals = shown_after(words)
        assert round(value, decimals) == pytest.approx(shown), words


def test_batch_size_over_learning_rate_seems_ahead_near_the_papers_gap_as_the_readme_says():
    assert "in VGG19; batch size / learning rate seems ahead." in README
    for campaign in ("gap-resnet18", "gap-vgg19"):
        runs = load_runs(campaign)
        ratio = np.log(runs["batch_size"] / runs["lr"])
        lead = correlation_lead(ratio, np.log(runs["count"]), runs["gap"], runs["run_id"])
        assert lead.low < 0 < 0.1 < lead.value


def test_readme_and_first_page_say_what_the_pages_kept(monkeypatch):
    results = {result.id: result for result in kept_results()}
    if "study/2/R² of mixup accuracy" not in results:
        pytest.skip("the book is not built: `make book`")
    readme, intro = headline.blocks(results)
    assert readme in README
    assert intro in INTRO
    drawn = (ROOT / "book" / "_static" / "headline.svg").read_text(encoding="utf-8")
    monkeypatch.setattr(headline.plt, "close", lambda: None)
    assert headline.same_figure(headline.figure(results), drawn)
    figure = headline.plt.gcf()
    for text in figure.findobj(lambda part: re.search("[a-z]", getattr(part, "get_text", str)())):
        assert 0 <= (box := text.get_window_extent()).x0 <= box.x1 <= figure.bbox.x1, text


def test_a_figure_whose_points_moved_is_another():
    svg = '<path style="fill: #0072b2" d="M 10.01 20.5 L 90 40.1"/><text x="1.5">gap</text>'
    changes = ("10.01", "10.02"), ("10.01", "12.01"), ("90", "99"), ("gap", "r"), ("72b2", "5e00")
    same = [headline.same_figure(svg, svg.replace(*change)) for change in changes]
    assert same == [True, False, False, False, False]


def test_the_numbers_of_runs_in_the_readme_are_those_of_the_records():
    groups = [(["cifar10-small"], " runs"), (["full-size"], ", from a GPU")]
    groups += [(["study-*"], " |"), (["twins-*", "gap-*"], " |")]
    for patterns, words in groups:
        names = [n for n in list_campaigns() if any(fnmatch.fnmatch(n, p) for p in patterns)]
        made = sum((ROOT / "campaigns" / n / "runs.jsonl").read_bytes().count(b"\n") for n in names)
        asked = sum(len(load_campaign(name).runs()) for name in names)
        assert (f"all {asked}" if made == asked else f"{made} of {asked}") + words in README


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
