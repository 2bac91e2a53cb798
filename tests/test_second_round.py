"""The deciding numbers of the second round, against closed forms and simulations."""

import numpy as np
import pytest

from rc_studies import power
from rc_studies import second_round as rules
from rc_utils import load_dataset
from rc_utils.datasets.load import stored
from rc_utils.paths import project_root


def test_rules_of_correlations_and_of_equivalence():
    for estimates, twins, gap in (
        ([(0.8, 0.71, 0.9), (0.9, 0.8, 0.95)], "supports", "supports"),
        ([(0.5, 0.21, 0.7), (0.5, 0.3, 0.6)], "supports", "inconclusive"),
        ([(0.5, 0.19, 0.7), (0.5, 0.3, 0.6)], "inconclusive", "inconclusive"),
        ([(0.0, -0.2, 0.19), (0.1, -0.1, 0.2001)], "inconclusive", "refutes"),
        ([(0.8, 0.71, 0.9), (0.0, -0.2, 0.19)], "inconclusive", "inconclusive"),
        ([(0.8, 0.71, 0.9)], "inconclusive", "inconclusive"),  # it takes two networks
        ([(0.8, 0.71, 0.9), (np.nan,) * 3], "inconclusive", "inconclusive"),
    ):
        found = [rules.decide(estimates, rules.BARS[group]) for group in ("twins", "gap")]
        assert found == [twins, gap]
    for difference, decision in (
        ((0.05, 0.01, 0.09), "equivalent"),
        ((0.3, 0.05, 0.5), "count ahead"),
        ((-0.3, -0.5, -0.05), "mixup ahead"),
        ((0.0, -0.11, 0.05), "open"),
    ):
        assert rules.decide_equivalence(difference, 0.1) == decision


def test_reliabilities_are_those_that_the_data_were_drawn_with():
    rng = np.random.default_rng(3)
    means = 3 * np.exp(rng.normal(0, 0.05, 300))
    counts = rng.poisson(means[:, None] - 1, (300, 1000)) + 1
    noise = np.mean((means - 1) / 1000 / means**2)
    expected = 0.05**2 / (0.05**2 + noise)
    assert rules.reliability_of_log_count(counts) == pytest.approx(expected, abs=0.03)
    # Images are easy or hard for all runs, and that is no noise: accuracies p_i, shifted by a run.
    hard, skill = rng.uniform(0.1, 0.9, 4000), rng.normal(0, 0.02, 200)
    right = rng.random((200, 4000)) < np.clip(hard + skill[:, None], 0, 1)
    noise = np.mean(hard * (1 - hard))
    for images in (4000, 40_000):
        expected = 0.02**2 / (0.02**2 + noise / images)
        assert rules.reliability_of_accuracy(right, images) == pytest.approx(expected, abs=0.03)


def test_networks_disagree_on_the_images_that_both_were_shown_whatever_their_order():
    same = np.tile(np.arange(4), (3, 1))
    labels = np.array([[0, 1, 2, 3], [0, 1, 2, 2], [1, 1, 0, 3]])
    expected = [(1 + 2) / 8, (1 + 3) / 8, (2 + 3) / 8]
    assert rules.disagreement(labels, same, 4).tolist() == pytest.approx(expected)
    orders = np.array([[2, 0, 3, 1], [0, 1, 2, 3], [3, 2, 1, 0]])
    shuffled = np.take_along_axis(labels, orders, axis=1)
    assert rules.disagreement(shuffled, orders, 9).tolist() == pytest.approx(expected)
    with pytest.raises(ValueError, match="no image in common"):
        rules.disagreement([[5], [5]], [[0], [1]], 2)


def test_predictions_are_of_the_images_that_the_seed_shows_first(tmp_path, monkeypatch, rng):
    monkeypatch.setenv("RC_DATA", str(tmp_path))
    labels = np.tile(np.arange(4), 15)
    images = rng.integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)
    arrays = {"x_train": images, "x_test": images[::-1], "y_train": labels, "y_test": labels}
    np.savez(tmp_path / "cifar10.npz", **arrays)
    settings = {"name": "cifar10", "n_train": 12, "n_test": 60, "seed": 3}
    shown = rules.order_of_test_images(stored("cifar10", tmp_path), {"dataset": settings})
    assert sorted(shown) == list(range(60))
    raw = load_dataset(**settings).x_test.raw.numpy()
    assert np.array_equal(raw.transpose(0, 2, 3, 1), images[::-1][shown])


@pytest.mark.slow
def test_the_protocol_quotes_what_the_command_prints(capsys):
    power.main()
    text = (project_root() / "book" / "protocol.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out.strip() in text


def test_a_lead_over_a_rival_without_correlation_has_an_interval_that_holds_the_truth(rng):
    gap, count = rng.normal(size=(2, 60))
    same = rules.difference_of_correlations(count, -count, gap, 200)
    assert same == pytest.approx((0, 0, 0), abs=1e-12)
    held = 0
    for _ in range(300):
        gap, count, rival = rng.normal(size=(3, 60))
        count = 0.4 * gap + np.sqrt(1 - 0.4**2) * count
        _, low, high = rules.difference_of_correlations(count, rival, gap, 500, rng)
        held += low <= 0.4 <= high
    assert held > 0.9 * 300
