"""What the papers say beside their tables: one entry a claim, with the quantity of ours that tests it."""

from __future__ import annotations

from dataclasses import dataclass

from rc_utils.paper.published_tables import EVOLUTION_SOURCE, GRID_SIZE_SOURCE, RANGE_SOURCE, SAMPLE_SIZE_SOURCE


@dataclass(frozen=True)
class Published:
    """One published statement: a number, or the direction of an effect.

    `kind` says how a result of ours is held against it:
    - "effect": a correlation or a change; its sign is the claim and `value`, where printed, its size;
    - "level": a count or a gap as such, which carries no sign;
    - "settled": a change that is said to be none, `value` as it was printed;
    - "differs": a change that is said to be there, in neither direction;
    - "strong", "weak": a correlation that is said to be high, or low, without a number;
    - "bound": the largest ratio of what was measured to what a theorem allows, at most 1 if it holds;
    - "proved", "refuted": such a ratio, of a statement that a proof or a counterexample of ours settles.
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
_CROP_V1 = "v1 Fig 8"  # The captions of v3 are missing from the text at hand.
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
        "change of mean count from 200 points to 500 or more",
        "settled",
        value=0.00,
    ),
    Published(
        "grid-size/2d/change",
        "grid size",
        GRID_SIZE_SOURCE,
        "30 points an edge are enough on a triangle",
        "change of mean count from 30 points an edge to 50 or more",
        "settled",
        value=0.00,
    ),
    Published(
        "sample-size/change",
        "sample size",
        SAMPLE_SIZE_SOURCE,
        "100 segments are enough",
        "change of mean count from 100 to 500 segments",
        "settled",
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
    Published(
        "loukas/a2",
        "loukas",
        "Loukas App. A.2, Fig 4",
        "with a cross-entropy loss the distance from initialization is not an increasing function of the complexity",
        "least change of the mean distance from one level of label corruption to the next, over the mean distance",
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
        "loukas/a7-decay",
        "loukas",
        "Loukas App. A.7, Fig 10",
        "the trajectories shorten by almost an order of magnitude at each layer",
        "trajectory length of a layer's bias / that of the next layer's",
        "level",
        value=10.0,
        decimals=0,
    ),
    Published(
        "theory/lr",
        "theory",
        "v1 App. G, v3 Sec. 6.2",
        "with a larger learning rate gradient descent yields smaller region counts (two-layer networks)",
        "change of mean count per doubling of the learning rate, at equal training loss and at the edge of stability",
        direction="negative",
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
        "count and gap stay highly correlated under mixup",
        "correlation of count and gap with mixup, ResNet18, CIFAR-10",
        "strong",
        direction="positive",
    ),
    Published(
        "crop-flip/count",
        "crop-flip",
        _CROP_V1,
        "random crop and flip lower the count",
        "change of count with crop and flip, ResNet18, CIFAR-10",
        direction="negative",
    ),
    Published(
        "crop-flip/test-accuracy",
        "crop-flip",
        _CROP_V1,
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
        "crop-flip/shift-beyond-mixup",
        "crop-flip",
        "v1 App. F, Fig 8, v3 Sec. 7",
        "crop and flip shift the gap further down at equal count than mixup does",
        "change of gap at equal count from mixup to crop and flip, ResNet18, CIFAR-10",
        direction="negative",
    ),
    Published(
        "crop-flip/accuracy-beyond-mixup",
        "crop-flip",
        _CROP_V1,
        "crop and flip raise the test accuracy more than mixup does",
        "change of test accuracy from mixup to crop and flip, ResNet18, CIFAR-10",
        direction="positive",
    ),
    Published(
        "crop-flip/count-beyond-mixup",
        "crop-flip",
        "v3 Sec. 7",
        "crop and flip affect the count otherwise than mixup does",
        "change of count from mixup to crop and flip, ResNet18, CIFAR-10",
        "differs",
    ),
    Published(
        "crop-flip/correlation",
        "crop-flip",
        _CROP,
        "count and gap stay highly correlated under crop and flip",
        "correlation of count and gap with crop and flip, ResNet18, CIFAR-10",
        "strong",
        direction="positive",
    ),
)
