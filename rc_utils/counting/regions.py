"""Region count: the mean number of connected regions of equal label on simplices between data."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tqdm import tqdm

from rc_utils.counting.classifier import (
    ONE_SCORE,
    as_classifier,
    classifier_inside,
    label_lattice,
    probed_inside,
    require_sign,
)
from rc_utils.counting.lattice import count_along_edges, make_lattice
from rc_utils.counting.mesh import HALVINGS, STRATEGIES, count_on_meshes
from rc_utils.counting.sampling import Draw
from rc_utils.counting.segments import begins, sample_adaptively
from rc_utils.evaluation import undisturbed
from rc_utils.validation import check_count, check_name, require

AUTHORS: dict[int | str, dict[str, Any]] = {
    1: {"dim": 1, "resolution": 200},
    2: {"dim": 2, "resolution": 10, "adjacency": "full"},
    **{dim: {"dim": dim, "resolution": 5, "adjacency": "face"} for dim in (3, 4, 5)},
    "random": {"dim": 1, "resolution": 200, "sampling": "noise", "direction_length": 0.5},
}  # fmt: skip
"""Settings of the authors' own counting: `region_count(model, points, **AUTHORS[2])`.

By dimension, and "random" for segments in random directions: 100 simplices of standardised images.
From the code of the paper's first author, GitHub lijingwei0502/implicit_bias: `plot.py` at commit
6148365, random directions from `train_and_test.py` at 6ef8869, which has their records (else 0.1).
"""


@dataclass(frozen=True, eq=False)
class RegionCount:
    """Numbers of regions on sampled simplices.

    Attributes:
        counts: (num_samples,) int64; the i-th belongs to the same simplex for every model counted
            with the same points and settings.
        num_evaluations: points at which the model was evaluated.
        settings: the settings of the call, defaults filled in.
    """

    counts: np.ndarray
    num_evaluations: int
    settings: Mapping[str, Any]

    @property
    def mean(self) -> float:
        """The region count."""
        return float(self.counts.mean())

    @property
    def std_error(self) -> float:
        """Standard error of the mean over simplices, s / sqrt(n); NaN for a single simplex."""
        n = len(self.counts)
        return float(self.counts.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")

    def __str__(self) -> str:
        given = [f"{key}={value!r}" for key, value in self.settings.items() if value is not None]
        return f"{self.mean:.3f} ± {self.std_error:.3f} regions ({', '.join(given)})"

    __repr__ = __str__


def region_count(
    model: Any,
    points: Any,
    *,
    dim: int = 1,
    resolution: int | None = None,
    num_samples: int = 100,
    alpha_range: tuple[float, float] = (0.0, 1.0),
    sampling: str = "pairs",
    adjacency: str | None = None,
    strategy: str = "grid",
    coarse: int | None = None,
    seed: int = 0,
    batch_size: int | None = None,
    direction_length: float | None = None,
    progress: bool = False,
) -> RegionCount:
    """Region count R_d: E[number of connected regions of equal label] (v1 Definition 4).

    The expectation is over simplices spanned by dim + 1 random data points; regions are connected
    components of equal label on a lattice of the simplex. Settings of the authors: `AUTHORS`.

    Args:
        model: torch module, scikit-learn classifier, or callable from a batch to scores or labels
            (`as_classifier`). A module is evaluated in evaluation mode, without gradients, without
            TF32, and left as it was. Count in one thread: threads share its mode and TF32's switch.
        points: data `(N, *shape)`: torch tensor, image tensor, data frame, array of any library.
        dim, num_samples: d >= 1, the dimension of the simplices, and their number.
        resolution: points on each edge; None takes 200, 30, 16, 12, 10 for d = 1..5, then 8.
            On triangles of rough networks one adaptive count in ten to twenty is off, mostly by 1.
        alpha_range: (low, high) of alpha in (1 - alpha) x_1 + alpha x_2, all of it covered by
            `resolution` points; other than (0, 1) in one dimension only (v1 Table 4).
        sampling, direction_length, seed: "pairs", "random_direction" or "noise"
            (`sample_vertices`); the same simplices for every model and device.
        adjacency: what a region is in two dimensions and more. None takes "linear" in up to five,
            "simplex" beyond.
            "linear": pieces where one label is highest, by linear interpolation between lattice
            points. Misses regions and gaps narrower than their spacing. Takes 2 GB in seven
            dimensions and is refused beyond. For a model that returns labels it is "simplex".
            "simplex", "face", "full": neighbouring points of equal label (`make_lattice`). Sharp
            tips break into single points, most with "face"; "full" joins regions that only touch.
        strategy: "grid" evaluates the lattice points, "adaptive" more points where a region could
            hide. On segments it starts coarse and goes down to 1/32 of the grid's interval. Beyond,
            adjacency is "linear"; it starts at the lattice and goes down to 1/512 of its interval
            on triangles (hours for one that oscillates everywhere), 1/8 in three dimensions and 1/2
            in more (tens of seconds a simplex in five), but no finer than scores are rounded. They
            should bend gradually, as logits do: probabilities flat at 0 and 1 hide regions.
        coarse: intervals for each unit of alpha that an adaptive segment is first cut into; None
            takes 24. 8 take half the evaluations, and err on rough networks as often as a grid.
        batch_size: points in one forward pass; None chooses. Running out of memory halves it.
        progress: show a bar over the points on stderr, with the time left.

    The model is probed first, by some ninety evaluations, or a thousand if it returns labels, votes
    or one score that is never negative; `num_evaluations` leaves them out. It is refused with the
    reason if it is random, depends on its batch, changes itself, rounds to 16 bits or returns one
    probability (`probed`).

    The points do not depend on the batch size. A network's scores can, in their last bits; a label
    does only where two scores are equal to seven digits. Where two outputs are copies of each other
    rounding alone makes regions.

    Raises ValueError for an invalid setting, too few points, points that are not finite, scores
    that are NaN or +inf, and outputs of a wrong shape; TypeError for a model of another kind; and
    what the model raises, also if memory runs out.
    """
    lattice = make_lattice(dim, resolution, alpha_range=alpha_range, adjacency=adjacency)
    check_name("strategy", strategy, STRATEGIES)
    if coarse is not None:
        belongs = f"coarse={coarse!r} belongs to strategy 'adaptive' on segments, dim=1"
        require(strategy == "adaptive" and dim == 1, belongs)
        coarse = check_count("coarse", coarse, 2)
    fits = strategy == "grid" or dim == 1 or lattice.adjacency == "linear"
    fault = f"strategy 'adaptive' in {dim} dimensions counts with adjacency 'linear'"
    require(fits, f"{fault}, got {lattice.adjacency!r}; give one of them up")
    draw = Draw(points, dim, num_samples, sampling, seed, direction_length)
    classifier = as_classifier(model, draw.points, getattr(points, "columns", None))
    total = draw.num_samples * len(lattice.coordinates)
    if strategy == "adaptive":  # a seventh of a grid on segments, two or three of them beyond
        total = round(total / 7 if dim == 1 else total * 2.5)
    found, evaluations = [], []
    bar = tqdm(total=total, desc="region count", unit="point", disable=not progress)
    # Once for all batches, since changing the modes of many parts takes time.
    with bar, undisturbed(classifier.module, classifier.device):

        def tick(number):
            evaluations.append(number)
            bar.update(number)

        for corners in draw.blocks(classifier.device, classifier.dtype, len(lattice.coordinates)):
            far = corners.abs().max() * float(np.abs(lattice.coordinates).max())
            fault = f"points beyond {corners.dtype}: alpha_range or direction_length is too large"
            require(far.isfinite(), fault)
            if not found:
                classifier = require_sign(probed_inside(classifier, corners, batch_size))
                classifier = replace(classifier, tick=tick)
            found.append(_count_simplices(classifier, corners, lattice, strategy, coarse))
    are_labels = classifier.outputs.ndim == 1
    adjacency = "simplex" if are_labels and lattice.adjacency == "linear" else lattice.adjacency
    settings = {
        "dim": draw.dim, "num_samples": draw.num_samples, "sampling": sampling, "seed": draw.seed,
        "resolution": lattice.resolution, "alpha_range": tuple(alpha_range),
        "direction_length": draw.direction_length, "adjacency": adjacency if dim > 1 else None,
        "strategy": strategy, "coarse": coarse,
    }  # fmt: skip
    counts = np.concatenate(found)
    fault = f"{ONE_SCORE}: it never changes; if that is right, return two scores, (0, s)"
    require(counts.max() > 1 or classifier.outputs.shape[1:] != (1,), fault)
    return RegionCount(counts, sum(evaluations), settings)


def _count_simplices(classifier, corners, lattice, strategy, coarse):
    """Regions (B,) int64 on each of corners (B, d + 1, *shape)."""
    adaptive = strategy == "adaptive"
    if adaptive and lattice.dim == 1:
        samples = sample_adaptively(classifier, corners, lattice, coarse)
        return np.bincount(samples.segment[begins(samples)])
    linear = lattice.adjacency == "linear" and lattice.dim > 1
    if adaptive or (linear and classifier.outputs.ndim == 2):
        halvings = HALVINGS.get(lattice.dim, 1) if adaptive else 0
        return count_on_meshes(classifier, corners, lattice, halvings)
    labels = label_lattice(classifier, corners, lattice)
    return count_along_edges(labels, lattice.edges)


def label_grid(model, vertices, *, resolution=None, batch_size=None):
    """The labels that `region_count` counts on a grid: integers `(B, *grid)`, for pictures.

    -1 where the grid has no point of a simplex; the others are in the order of `make_lattice`.
    `vertices` are `(B, d + 1, *shape)`, as `sample_vertices` returns them; the others are as in
    `region_count`. Labels are replaced by their ranks if one is negative; those of a scikit-learn
    classifier are positions in its `classes_`. Raises ValueError as `region_count`.
    """
    classifier, corners = classifier_inside(model, vertices, batch_size)
    lattice = make_lattice(corners.shape[1] - 1, resolution)
    return lattice.to_grid(label_lattice(classifier, corners, lattice))
