"""The playground's program, _static/playground.js, has the package's counts, bounds and steps."""

import numpy as np
import pytest
import torch
from conftest import relu_network
from test_book import BOOK

from rc_exact import exact_segment
from rc_theory.two_layer import bounds, training
from rc_theory.two_layer.networks import Networks, sharpness

SCRIPT = BOOK / "extra" / "_static" / "playground.js"


@pytest.fixture
def evaluate(browser):
    """A function: the value of a JavaScript function of (library, data)."""
    page = browser.new_page()
    page.add_script_tag(path=SCRIPT)
    yield lambda function, data=None: page.evaluate(
        f"data => ({function})(window.rcPlayground, data)", data
    )
    page.close()


def plain(weights, signs):
    return {"weights": np.ravel(weights).tolist(), "signs": np.ravel(signs).tolist()}


def random_case(rng):
    """Weights (p, 3), signs (p,), two ends: f goes up and down at random bends, plus noise."""
    width, angle = int(rng.integers(2, 100)), rng.uniform(0, 2 * np.pi)
    across, bends = np.array([np.cos(angle), np.sin(angle)]), np.sort(rng.uniform(-1, 1, width))
    bent = np.column_stack([np.tile(across, (width, 1)), -bends])
    weights = 2 * bent + rng.normal(size=(width, 3)) * 0.003
    weights[0] /= 2
    weights = np.vstack([weights, rng.normal(size=(20, 3)) * 0.03])
    signs = np.concatenate([(-1.0) ** np.arange(width), rng.choice([-1.0, 1.0], 20)])
    return weights, signs, np.outer([-1.2, 1.2], across) + rng.normal(size=(2, 2)) * 0.1


def test_the_counts_are_those_of_exact_segment_on_60_networks(rng, evaluate):
    cases = [random_case(rng) for _ in range(60)]
    data = [plain(weights, signs) | {"ends": ends.tolist()} for weights, signs, ends in cases]
    found = evaluate("(p, data) => data.map(c => p.segment(c, ...c.ends))", data)
    counts = set()
    for (weights, signs, ends), ours in zip(cases, found, strict=True):
        exact = exact_segment(relu_network(weights[:, :2], weights[:, 2], signs[None]), *ends)
        assert (ours["count"], ours["first"]) == (exact.count, bool(exact.labels[0]))
        assert ours["boundaries"] == pytest.approx(exact.boundaries.tolist(), abs=1e-9)
        counts.add(exact.count)
    assert len(counts) > 8


def test_step_loss_count_and_bound_are_those_of_the_theory(rng, evaluate):
    points, targets = rng.uniform(-1, 1, (12, 2)), rng.choice([-1.0, 1.0], 12)
    weights, signs = rng.normal(size=(30, 3)), rng.choice([-1.0, 1.0], 30)
    values = np.hstack([points, np.ones((12, 1))]), targets, weights, signs
    x, y, w, a = (torch.as_tensor(v)[None] for v in values)
    lr = torch.tensor([0.01], dtype=torch.float64)
    trained = training.train(Networks(w, a), x, y, lr, steps=50)
    after = Networks(trained.weights[-1], trained.signs)
    data = plain(weights, signs) | {"points": points.tolist(), "targets": targets.tolist()}
    found = evaluate(
        """(p, {weights, signs, points, targets}) => {
            const net = {weights: Float64Array.from(weights), signs: Float64Array.from(signs)};
            const all = points.map((_, i) => i);
            for (let k = 0; k < 50; k++) p.descend(net, points, targets, all, 0.01);
            const lambda = p.sharpness(net, points), bound = p.bound(points, lambda);
            const count = p.meanCount(net, points);
            return [p.loss(net, points, targets), count, lambda, bound, [...net.weights]];
        }""",
        data,
    )
    theorem = bounds.check_all(after, x)[bounds.THEOREM_6]
    expected = [trained.loss[-1].item(), theorem.measured[0]]
    expected += [sharpness(after, x).item(), theorem.allowed[0]]
    assert found[:4] == pytest.approx(expected, rel=1e-7)
    assert found[4] == pytest.approx(after.weights.ravel().tolist(), rel=1e-9)


def test_the_verdict_says_when_the_claim_does_not_show(evaluate):
    texts = evaluate(
        """p => {
            const settings = {kind: "disc", number: 16, noise: 0.1, width: 32, batch: 4, seed: 0};
            const trained = (lr, count, diverged = false, loss = 0.2) =>
                ({...new p.Training(settings, lr), step: 2, recorded: 1, count, diverged, loss});
            const pairs = [[2, 3], [3, 2], [2, 2.001], [2, 3, true], [1, 3, false, 0.45]];
            return pairs.map(([many, few, ...of]) =>
                p.verdict(trained(0.1, many, ...of), trained(0.01, few))[0]);
        }"""
    )
    assert texts[0].startswith("After 1 steps: 2.00 regions")  # the step of the counts
    assert texts[0].endswith("0.01. As claimed.")
    assert "does not show: the larger learning rate has more regions, not fewer." in texts[1]
    assert "does not show: the larger learning rate has as many" in texts[2]
    assert "0.1 diverged" in texts[3]
    assert "With learning rate 0.1 the loss is above 0.25" in texts[4]  # as of dead neurons
