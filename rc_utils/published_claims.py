"""What the papers say beside their tables: one entry a claim, with the quantity of ours that tests it."""

from __future__ import annotations

from dataclasses import dataclass

from rc_utils.published_tables import EVOLUTION_SOURCE, GRID_SIZE_SOURCE, RANGE_SOURCE, SAMPLE_SIZE_SOURCE


@dataclass(frozen=True)
class Published:
    """One published statement: a number, or the direction of an effect.

    `kind` says how a result of ours is held against it:
    - "effect": a correlation or a change; its sign is the claim and `value`, where printed, its size;
    - "level": a count or a gap as such, which carries no sign;
    - "weak": a correlation that is said to be low;
    - "bound": the largest ratio of what was measured to what a theorem allows, at most 1 if it holds.
    `value` is None where nothing was printed; then `direction` ("positive" or "negative") is all there is. `decimals`
    says to how many decimals `value` was rounded. Values are in our units: gaps and accuracies in [-1, 1].
    """

    id: str
    experiment: str
    source: str
    claim: str
    quantity: str
    kind: str = "effect"
    value: float | None = None
    direction: str | None = None
    decimals: int = 2


_MIXUP, _CROP = "v1 Fig 7, v3 Fig 6", "v1 Fig 8, v3 Fig 7"
CLAIMS = (
    Published(
        "motivation/distance",
        "motivation",
        "v1 Fig 4, v3 Fig 2",
        "the distance from initialization hardly correlates with the gap",
        "correlation of d(W) and gap, ResNet18, CIFAR-10",
        "weak",
    ),
    Published(
        "motivation/margin",
        "motivation",
        "v1 Fig 4, v3 Fig 2",
        "the output margin hardly correlates with the gap",
        "correlation of margin and gap, ResNet18, CIFAR-10",
        "weak",
    ),
    Published(
        "main/overall",
        "main",
        "v1 Fig 2 left, v3 Fig 4",
        "the count correlates with the gap across three networks",
        "correlation of count and gap, three networks, CIFAR-10",
        value=0.93,
    ),
    Published(
        "trees/decision-tree",
        "trees",
        "v1 Fig 2 right",
        "the count of decision trees correlates with their gap",
        "correlation of count and gap, decision trees, CIFAR-10",
        value=0.96,
    ),
    Published(
        "trees/random-forest",
        "trees",
        "v1 Fig 2 right",
        "the count of random forests correlates with their gap",
        "correlation of count and gap, random forests, CIFAR-10",
        value=0.98,
    ),
    Published(
        "trees/overall",
        "trees",
        "v1 Fig 2 right",
        "the count correlates with the gap across trees and forests",
        "correlation of count and gap, trees and forests, CIFAR-10",
        value=0.90,
    ),
    Published(
        "grid-size/1d/change",
        "grid size",
        GRID_SIZE_SOURCE,
        "200 points on a segment are enough",
        "change of mean count from 200 to 500 points",
        "level",
        value=0.00,
    ),
    Published(
        "grid-size/2d/change",
        "grid size",
        GRID_SIZE_SOURCE,
        "30 points an edge are enough on a triangle",
        "change of mean count from 30 to 50 points an edge",
        "level",
        value=0.00,
    ),
    Published(
        "sample-size/change",
        "sample size",
        SAMPLE_SIZE_SOURCE,
        "100 segments are enough",
        "change of mean count from 100 to 500 segments",
        "level",
        value=0.01,
    ),
    Published(
        "range/trend",
        "range",
        RANGE_SOURCE,
        "a longer range of alpha crosses more regions",
        "change of mean count from [0, 1] to [-3, 4]",
        value=2.83,
    ),
    Published(
        "evolution/trend",
        "evolution",
        EVOLUTION_SOURCE,
        "the correlation rises during training",
        "correlation at the last epoch less that at the first counted",
        direction="positive",
    ),
    # "Not an increasing function": a falling one fits, a rising one does not.
    Published(
        "loukas/a2",
        "loukas",
        "Loukas App. A.2, Fig 4",
        "with a cross-entropy loss the distance from initialization does not increase with the complexity",
        "rank correlation of distance from initialization and label corruption, which is not positive",
        direction="negative",
    ),
    Published(
        "loukas/a7-last",
        "loukas",
        "Loukas App. A.7, Fig 10",
        "the trajectories of the last two layers' biases are uncorrelated with the complexity",
        "rank correlation of trajectory length and frequency, last two layers",
        "weak",
    ),
    Published(
        "loukas/a3",
        "loukas",
        "Loukas App. A.3, Fig 6",
        "the bound of Theorem 2 is about four times the Lipschitz constant",
        "bound / Lipschitz constant over the empty regions where it applies",
        "level",
        value=4.0,
        decimals=0,
    ),
    Published(
        "mixup/count",
        "mixup",
        _MIXUP,
        "mixup lowers the count",
        "change of count with mixup, ResNet18, CIFAR-10",
        direction="negative",
    ),
    Published(
        "mixup/gap",
        "mixup",
        _MIXUP,
        "mixup narrows the gap",
        "change of gap with mixup, ResNet18, CIFAR-10",
        direction="negative",
    ),
    Published(
        "mixup/correlation",
        "mixup",
        _MIXUP,
        "count and gap stay correlated under mixup",
        "correlation of count and gap with mixup, ResNet18, CIFAR-10",
        direction="positive",
    ),
    Published(
        "crop-flip/count",
        "crop-flip",
        _CROP,
        "random crop and flip lower the count",
        "change of count with crop and flip, ResNet18, CIFAR-10",
        direction="negative",
    ),
    Published(
        "crop-flip/test-accuracy",
        "crop-flip",
        _CROP,
        "random crop and flip raise the test accuracy",
        "change of test accuracy with crop and flip, ResNet18, CIFAR-10",
        direction="positive",
    ),
    Published(
        "crop-flip/shift",
        "crop-flip",
        _CROP,
        "random crop and flip shift the gap down at equal count",
        "change of gap at equal count, ResNet18, CIFAR-10",
        direction="negative",
    ),
    Published(
        "crop-flip/correlation",
        "crop-flip",
        _CROP,
        "count and gap stay correlated under crop and flip",
        "correlation of count and gap with crop and flip, ResNet18, CIFAR-10",
        direction="positive",
    ),
)

BOUNDS = (  # id, source, claim, ratio that is at most 1 if the claim holds.
    (
        "theory/theorem-5",
        "v1 Theorem 5",
        "at most k regions on every line bound the VC dimension by k",
        "shattered points / k",
    ),
    (
        "theory/theorem-5-gap",
        "v1 Theorem 5",
        "at most k regions on every line bound the expected gap by O(√(k / n))",
        "largest deviation of sample mean and expectation / √(k / n), with any constant",
    ),
    (
        "theory/theorem-6",
        "v1 Theorem 6, v3 Theorem 6.3",
        "at the edge of stability the mean count on training pairs is O(N / (r² η))",
        "mean count / (2 N λ_max / r² + 2), its form without η",
    ),
    (
        "theory/lemma-7",
        "v1 Lemma 7, v3 Lemma 6.4",
        "a segment has at most two more regions than its ends have active neurons",
        "R(x_a, x_b) / (N(x_a) + N(x_b) + 2)",
    ),
    (
        "theory/lemma-8",
        "v1 Lemma 8, v3 Lemma 6.5",
        "active neurons bound the sharpness from below",
        "(r² / N²) Σ N(x_i) / λ_max",
    ),
    (
        "safran/theorem-2.3",
        "Safran Theorem 2.3",
        "a wide network learns the teacher and has few linear regions",
        "linear regions / (32 r + 67)",
    ),
    (
        "safran/theorem-3.1",
        "Safran Theorem 3.1",
        "gradient flow on a wide network brings the training loss down to 1 / (2 n)",
        "(1 - δ) / share of students whose loss gets there",
    ),
    (
        "safran/theorem-3.2",
        "Safran Theorem 3.2",
        "width α r leaves a population loss of (1 - 0.75 α) / 4 on one initialization in four at least",
        "0.25 / share of initializations that no training brings below that loss",
    ),
    (
        "safran/theorem-4.2",
        "Safran Theorem 4.2",
        "once the loss is under 1 / n the limit has at most 32 r + 67 linear regions",
        "linear regions / (32 r + 67)",
    ),
    (
        "safran/corollary-5.1",
        "Safran Corollary 5.1",
        "that limit errs on at most a share ε of the population",
        "population error / ε",
    ),
    (
        "safran/example-1",
        "Safran Example 1",
        "gradient flow can converge to a point that does not maximize the margin",
        "squared norm of a better solution / squared norm of the limit",
    ),
    (
        "loukas/lemma-1",
        "Loukas Lemma 1",
        "a step of the first bias bounds the Lipschitz constant at its sample, from both sides",
        "largest ratio over both sides",
    ),
    (
        "loukas/lemma-3",
        "Loukas Lemma 3",
        "after long training with dropout λ_steady bounds the Lipschitz constant",
        "largest gradient norm / λ_steady",
    ),
    (
        "loukas/theorem-1",
        "Loukas Theorem 1",
        "the trajectory of the first bias bounds the Lipschitz constant at the data, from both sides",
        "largest ratio over both sides",
    ),
    (
        "loukas/theorem-2",
        "Loukas Theorem 2",
        "activations of training points bound the Lipschitz constant of empty regions",
        "Lipschitz constant / basis pursuit bound",
    ),
    (
        "loukas/theorem-3",
        "Loukas Theorem 3",
        "steady learners with dropout generalize",
        "generalization error / covering bound",
    ),
    (
        "loukas/corollary-1",
        "Loukas Corollary 1",
        "a (τ, φ)-steady learner has Lipschitz constant at most β φ at the data",
        "iterations at which a training point breaks the bound / what the proof allows",
    ),
    (
        "loukas/corollary-2",
        "Loukas Corollary 2",
        "the bias of a complex network varies at least so much",
        "lower bound / variance of the first bias",
    ),
    (
        "loukas/corollary-3",
        "Loukas Corollary 3",
        "the bias moves at most so far from its initialization",
        "distance from initialization / bound",
    ),
)
TRENDS = (  # id, source, claim, quantity; all of them positive.
    (
        "loukas/task-1",
        "Loukas Fig 2, Task 1",
        "the bias travels further for a sinusoid of higher frequency",
        "rank correlation of trajectory length and frequency",
    ),
    (
        "loukas/task-2",
        "Loukas Fig 2, Task 2",
        "the bias travels further with more corrupted labels",
        "rank correlation of trajectory length and label corruption",
    ),
    (
        "loukas/variance",
        "Loukas Fig 3a, 3c",
        "the bias varies more near convergence for a more complex task",
        "rank correlation of variance over the last 10 epochs and complexity",
    ),
    (
        "loukas/distance",
        "Loukas Fig 3b",
        "with a squared loss the bias ends further from its initialization for a higher frequency",
        "rank correlation of distance from initialization and frequency",
    ),
    (
        "loukas/a4",
        "Loukas App. A.4, Fig 7",
        "the whole trajectory grows with the complexity of the task",
        "rank correlation of total trajectory length and complexity",
    ),
    (
        "loukas/a5",
        "Loukas App. A.5, Fig 8",
        "on 100 MNIST images a class an MLP has a longer trajectory than a CNN",
        "log ratio of the trajectory lengths, MLP over CNN",
    ),
    (
        "loukas/a6",
        "Loukas App. A.6, Fig 9",
        "the trajectory is longer for the higher frequency at batch sizes 16 and 32 as well",
        "log ratio of the trajectory lengths, frequency 0.75 over 0.25",
    ),
    (
        "loukas/a7",
        "Loukas App. A.7, Fig 10",
        "the trajectories of the first three layers' biases follow the complexity",
        "rank correlation of trajectory length and frequency, first three layers",
    ),
)
