"""The README's headline is what the committed records give."""

import pathlib
import re

import headline
import pandas as pd
import study_results

from rc_studies.studies import COUNT
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import read_frozen, write_record

ROOT = pathlib.Path(__file__).resolve().parent.parent


def test_readme_and_first_page_say_what_the_committed_records_give():
    campaign = load_campaign("cifar10-small")
    for record in read_frozen(campaign.folder / "runs.jsonl").values():
        # Another network, counted beyond what the committed one was: it is preferred where both are looked at.
        other = record | {"results": {k: v / 2 for k, v in record["results"].items()}}
        settings = {"num_samples": 1, "seed": 99}
        write_record(other | {"counts": [*record["counts"], {"settings": settings, "counts": [1], "seconds": 0}]})
    runs, results = headline.committed()
    card = headline.results_card(results)
    tested, points = headline.put_to_the_test(), headline.bullets(runs, campaign, card)
    networks = headline.predictors(runs, campaign)
    assert [tested[-1].count(f"| {word} |") for word in ("supports", "inconclusive")] == [1, 3]  # as tested[0] says
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(block in readme for block in headline.readme(tested, points, networks))
    intro = (ROOT / "book" / "intro.md").read_text(encoding="utf-8")
    assert all(block in intro for block in headline.first_page(tested, points, networks, campaign, card))
    assert not re.search(r"\bcells?\b", readme + intro, re.IGNORECASE)


def test_the_committed_figures_show_what_the_committed_records_give(tmp_path, monkeypatch):
    """Their words, numbers and links; where a line stands to the last digit may differ between machines."""
    _, results = headline.committed()
    committed = headline.FOLDER
    monkeypatch.setattr(headline, "FOLDER", tmp_path)
    forest = headline.results_from_forests(headline.forest_runs(headline.committed_forests()[0]))
    headline.figures(results + forest)
    pattern = re.compile(r'<text[^>]*>([^<]*)</text>|xlink:href="([^#"][^"]*)"')
    for name in headline.FIGURES:
        found = pattern.findall((tmp_path / f"{name}.svg").read_text(encoding="utf-8"))
        expected = pattern.findall((committed / f"{name}.svg").read_text(encoding="utf-8"))
        assert found == expected
        assert any(link.startswith("notebooks/") for _, link in found)


def test_the_first_page_says_what_each_study_decided(monkeypatch):
    rows = [{"experiment": "control", "seed": seed, COUNT: 1.0, "gap": 0.3} for seed in range(6)]
    for seed in range(6):
        for name, slope in (("random-labels-5", 0.2), ("third-class-0.1", 0.0)):
            rows.append({"experiment": name, "seed": seed, COUNT: 1.5, "gap": 0.3 + 0.5 * (slope + 0.01 * seed)})
    runs = pd.DataFrame(rows).assign(interpolates=True)
    studies = {"intervene": runs}
    monkeypatch.setattr(study_results, "complete_studies", lambda: studies)
    monkeypatch.setattr(study_results, "slope_across_settings", lambda: 0.2)
    found, decision = study_results.treatments()
    assert found.startswith("per unit of log count the gap changes by 0.225 [")
    assert "2 of 4 treatments move the count too little. Support needs 0.10," in found
    assert decision == "1 supports, 1 refutes"
    runs.loc[runs["experiment"] != "control", COUNT] = 1.1
    assert study_results.treatments() == ("no treatment moves it enough", "none")
    studies["axes"] = pd.DataFrame(
        {"experiment": name, "seed": seed, "lr": lr, COUNT: level + seed, "gap": sign * level}
        for seed in range(6)
        for lr in (0.003, 0.03)
        for level, sign, name in ((0, 1, "base"), (1, 1, "flip"), (2, -1, "sam"), (3, 1, "noise-30"))
    ).assign(train_accuracy=1.0, test_accuracy=lambda table: 1 - table["gap"])
    studies["axes"]["train_accuracy_true_labels"] = studies["axes"]["experiment"].map({"noise-30": -5.0})
    found, decision = study_results.along_axes()
    assert "sharpness-aware minimisation 100 % (refutes); label noise 0 %, flip 0 % (supports)." in found
    assert found.endswith("label noise has 100 %")
    assert decision == "1 refutes, 2 supports"
