"""Results that pages keep for the scorecard, and how pages show tables."""

import pandas as pd
import pytest

from rc_utils.correlation import Estimate
from rc_utils.pages import show
from rc_utils.pages.scorecard import ablation_cells
from rc_utils.sweep import campaign


def test_a_page_does_not_train_a_large_campaign():
    with pytest.raises(ValueError, match=r"cifar10-paper' has no record yet and asks for [\d,]+ runs.*--plan"):
        show.campaign_runs("cifar10-paper")


def test_tables_are_headed_in_words_and_say_once_what_all_estimates_of_a_column_are_over():
    alike = [Estimate(0.1, 0.0, 0.2, 60, "runs"), Estimate(0.5, 0.4, 0.6, 60, "runs"), ""]
    different = [Estimate(0.1, 0.0, 0.2, 60, "runs"), Estimate(0.5, 0.4, 0.6, 9, "runs"), ""]
    shown = show.show_table(pd.DataFrame({"r": alike, "std_error": different, "RegNetX_200MF": 1.0})).data
    for head in ("r (60 runs)", "standard error", "RegNetX_200MF"):
        assert f"<th>{head}</th>" in shown
        assert f'data-label="{head}"' in shown
    assert ">0.50 [0.40, 0.60]</td>" in shown
    assert ">0.50 [0.40, 0.60] (9 runs)</td>" in shown


def test_the_studies_are_looked_at_on_their_own_page_alone(monkeypatch):
    """Their protocol forbids it before they are complete."""
    monkeypatch.setattr(
        campaign, "list_campaigns", lambda: ["study-transfer", "twins-resnet18", "gap-resnet18", "cifar10-small"]
    )
    assert set(ablation_cells("architectures", "shapes-tiny")["campaign"]) == {"", "cifar10-small"}
    asked = []
    monkeypatch.setattr(show, "results_from_campaign", lambda name, **options: asked.append(name) or [])
    monkeypatch.setattr(show, "committed_forests", lambda: [])
    monkeypatch.setattr(show, "forest_runs", lambda dataset: None)
    monkeypatch.setattr(show, "results_from_forests", lambda table, seed: [])
    assert show.all_results() == []
    assert asked == ["cifar10-small"]
