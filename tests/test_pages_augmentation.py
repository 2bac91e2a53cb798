"""Effects of an augmentation from cells whose differences and shift are known by construction."""

import itertools

import numpy as np
import pandas as pd
import pytest

from rc_utils.pages.augmentation import matched_settings, paired_difference, results_from_augmentation, vertical_shift
from rc_utils.published import scorecard


def made_runs(augmented="crop-flip", *, fewer=0.5, shift=-0.1, seeds=2):
    """gap = 0.1 count without; with the augmentation `fewer` regions and `shift` at equal count."""
    rng = np.random.default_rng(0)
    rows = []
    for on, i, seed in itertools.product((0, 1), range(9), range(seeds)):
        count = 3 + 0.2 * i - fewer * on + 0.002 * rng.normal()
        gap = 0.1 * count + shift * on + 0.002 * rng.normal()
        row = {"experiment": augmented if on else "main", "lr": 0.1 * 2.0**-i, "cell": f"lr {i}", "seed": seed}
        rows.append(row | {"count": count, "gap": gap, "test_accuracy": 1 - gap})
    same = {"network": "ResNet18", "batch_size": 32, "weight_decay": 1e-5, "optimizer": "sgd", "train_accuracy": 1.0}
    return pd.DataFrame(rows).assign(**same, status="ok", interpolates=True)


@pytest.mark.parametrize("made", [-0.1, 0.0])
def test_differences_and_shift_are_recovered(made):
    """A move along the line is a smaller gap and no vertical shift."""
    without, with_ = matched_settings(made_runs(shift=made), "crop-flip")
    assert paired_difference(without, with_, "count").value == pytest.approx(-0.5, abs=0.01)
    assert paired_difference(without, with_, "gap").high < -0.04
    shift = vertical_shift(without, with_)
    assert shift.low < made < shift.high
    assert shift.high - shift.low < 0.01
    assert [shift.slope, shift.slope_without, shift.slope_with] == pytest.approx([0.1] * 3, abs=0.01)


def test_results_carry_the_published_ids_and_what_was_not_run_gives_none():
    for name, count in (("mixup", 3), ("crop-flip", 4)):
        results = results_from_augmentation(made_runs(name), "made", name)
        assert len(results) == count
        card = scorecard(results)
        assert set(card[card["campaign"] != ""]["verdict"]) == {"supports"}
    against = results_from_augmentation(made_runs("mixup", fewer=-0.5, shift=0.2), "made", "mixup")
    assert scorecard(against).set_index("id").loc["mixup/count", "verdict"] == "contradicts"
    assert results_from_augmentation(made_runs("mixup"), "made", "crop-flip") == []
    with pytest.raises(ValueError, match="no runs of experiment 'crop-flip'; there are main, mixup"):
        matched_settings(made_runs("mixup"), "crop-flip")


def test_a_change_whose_sign_depends_on_the_count_is_no_shift():
    runs = made_runs()
    tilted = runs["experiment"] == "crop-flip"
    runs.loc[tilted, "gap"] = 0.3 - 0.1 * (runs.loc[tilted, "count"] - 3.3)
    shift = vertical_shift(*matched_settings(runs, "crop-flip"))
    assert shift.crosses
    assert [shift.slope_without, shift.slope_with] == pytest.approx([0.1, -0.1], abs=0.01)
    # Lines that run opposite ways without crossing among the counts have no common slope either.
    apart = runs.assign(gap=runs["gap"] - tilted)
    for table, words in ((runs, "the lines cross"), (apart, "the lines run opposite ways")):
        result = {r.id: r for r in results_from_augmentation(table, "made", "crop-flip")}["crop-flip/shift"]
        assert np.isnan(result.value)
        assert words in result.detail
    assert not vertical_shift(*matched_settings(made_runs(), "crop-flip")).crosses


def test_crop_and_flip_are_compared_with_mixup():
    mixed = made_runs("mixup", fewer=0.3, shift=-0.02)
    cropped = made_runs("crop-flip", shift=-0.1)
    runs = pd.concat([mixed, cropped[cropped["experiment"] != "main"]])
    results = results_from_augmentation(runs, "made", "crop-flip")
    values = {r.id: r.value for r in results if "beyond" in r.id}
    # The gap is 0.1 of the count, which mixup lowers by 0.3 and crop and flip by 0.5.
    expected = {"shift": -0.08, "accuracy": 0.08 + 0.02, "count": -0.2}
    expected = {f"crop-flip/{name}-beyond-mixup": value for name, value in expected.items()}
    assert values == pytest.approx(expected, abs=0.01)


def test_rows_are_of_the_same_hyper_parameters_and_seeds():
    """A seed that one experiment lacks, or in which it diverged, is in neither mean."""
    runs = made_runs(seeds=3).sample(frac=1, random_state=0)
    plain, seed = runs["experiment"] == "main", runs["seed"]
    runs.loc[plain & (seed == 2), "count"] += 50
    runs.loc[~plain & (seed == 1), "count"] += 50
    runs.loc[~plain & (seed == 1), "status"] = "diverged"
    extra = runs.iloc[[0]].assign(experiment="main", lr=7.0, cell="alone")
    without, with_ = matched_settings(pd.concat([runs[plain | (seed < 2)], extra]), "crop-flip")
    assert len(without) == 9
    assert without["lr"].tolist() == with_["lr"].tolist()
    assert set(with_["experiment"]) == {"crop-flip"}
    assert set(without["num_seeds"]) == set(with_["num_seeds"]) == {1}
    assert paired_difference(without, with_, "count").value == pytest.approx(-0.5, abs=0.01)
