"""Region count: the mean number of connected regions of equal predicted label on random simplices between data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rc_utils.checks import check_name, check_number, require
from rc_utils.regions.adaptive import count_adaptively
from rc_utils.regions.arrays import as_points
from rc_utils.regions.classifier import as_classifier
from rc_utils.regions.components import count_along_edges, non_negative
from rc_utils.regions.evaluation import Model, Points
from rc_utils.regions.grid import BOX_PADDING, label_lattice, lattice_corners
from rc_utils.regions.lattice import make_lattice
from rc_utils.regions.mesh import count_on_meshes
from rc_utils.regions.sampling import median_distance, vertex_blocks

# How often the lattice's interval is halved, at most, by dimension; once in more than three.
HALVINGS = {2: 9, 3: 3}


@dataclass(frozen=True, eq=False)
class RegionCount:
    """Numbers of regions on sampled simplices.

    Attributes:
        counts: (num_samples,) int64, regions on each simplex, read-only; the i-th belongs to the same simplex for every
            model counted with the same points and settings.
        num_evaluations: points at which the model was evaluated.
        settings: the settings of the call, defaults filled in.
        labels: of segments, the labels of each one's regions in their order, a list of int64 arrays; None in more
            dimensions.
    """

    counts: np.ndarray
    num_evaluations: int
    settings: Mapping[str, Any]
    labels: list[np.ndarray] | None = None

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
        settings = ", ".join(f"{key}={value!r}" for key, value in self.settings.items() if value is not None)
        return f"{self.mean:.3f} ± {self.std_error:.3f} regions ({settings})"

    __repr__ = __str__


def region_count(
    model: Model,
    points: Points,
    *,
    dim: int = 1,
    resolution: int | None = None,
    num_samples: int = 100,
    alpha_range: tuple[float, float] = (0.0, 1.0),
    sampling: str = "pairs",
    domain: str = "simplex",
    adjacency: str | None = None,
    strategy: str = "grid",
    seed: int = 0,
    batch_size: int | None = None,
    direction_length: float | None = None,
    padding: float = BOX_PADDING,
) -> RegionCount:
    """Region count R_d of a classifier: E[number of maximally connected regions of equal label] (v1 Definition 4).

    The expectation is over simplices spanned by dim + 1 random data points; regions are connected components of equal
    label on a lattice of the simplex.

    Args:
        model: torch module, scikit-learn classifier, or callable from a batch to scores or labels (`as_classifier`). A
            module is evaluated in evaluation mode, without gradients, without TF32, and left as it was; in one thread
            at a time, since its modes are its own.
        points: data (N, *shape): NumPy array, torch tensor, image tensor, data frame.
        dim: d >= 1, the dimension of the simplices.
        resolution: points on each edge; None takes 200, 30, 16, 12, 10 for d = 1..5, 50 for a box.
        num_samples: simplices.
        alpha_range: (low, high) of alpha in (1 - alpha) x_1 + alpha x_2, all of it covered by `resolution` points;
            other than (0, 1) in one dimension only (v1 Table 4).
        sampling: "pairs" (distinct data points) or "random_direction" (a data point and random directions of length
            `direction_length`, v1 Table 8; None takes the median distance between data points).
        domain: "simplex", or "box": the plane of Somepalli et al. (2022) around a triangle, `padding` being the share
            of its extents that it reaches beyond it.
        adjacency: what a region is in two dimensions and more; on segments all are the same. None takes "linear".
            "linear": the pieces of the scores, interpolated linearly between lattice points. Errs where a region or a
            gap is narrower than the spacing, both ways. Of a model that returns labels alone, as "simplex".
            "simplex", "face", "full": points of one label that are neighbours (`make_lattice`). They break the sharp
            tips of regions into single points, at every resolution, "face" most of all and depending on the order of
            the vertices; "full" joins regions that only touch. The paper's reading is "face".
        strategy: "grid", every lattice point is evaluated; "adaptive", more points where a region could hide: on
            segments from a coarse lattice down to 1/32 of the grid's interval (`count_adaptively`); else, with
            adjacency "linear", from the lattice on, down to 1/512 of its interval on planes, 1/8 in three dimensions
            and 1/2 beyond (`refine`). That needs scores that bend gradually, such as logits: probabilities that are
            flat at 0 and 1 hide regions.
        seed: draws the simplices, the same for every model and device.
        batch_size: points in one forward pass; None chooses. Running out of memory halves it.

    The points do not depend on the batch size. A network's scores can, in their last bits, for batches of a few points
    (another matrix kernel); a label does only where two scores are equal to seven digits.

    Returns:
        RegionCount.

    Raises ValueError for an invalid or unknown setting, too few points, points or scores that are not finite, and
    outputs of a wrong shape; TypeError for a model of another kind; MemoryError if a single point is too much.
    """
    points = as_points(points)
    check_number("padding", padding, 0)
    lattice = make_lattice(dim, resolution, alpha_range=alpha_range, domain=domain, adjacency=adjacency)
    check_strategy(strategy, lattice)
    draw = {"dim": dim, "num_samples": num_samples, "sampling": sampling, "seed": seed}
    if sampling == "random_direction" and direction_length is None:
        direction_length = median_distance(points, seed)
    classifier = as_classifier(model, points)
    options = {"direction_length": direction_length, "device": classifier.device, "dtype": classifier.dtype}
    blocks = vertex_blocks(points, **draw, **options, labels=lattice.num_points)
    corners = (lattice_corners(vertices, lattice, padding) for vertices in blocks)
    parts = [STRATEGIES[strategy](classifier, block, lattice, batch_size) for block in corners]
    counts, num_evaluations = np.concatenate([part[0] for part in parts]), sum(part[1] for part in parts)
    counts.setflags(write=False)
    labels = None
    if dim == 1:
        labels = np.split(np.concatenate([part[2] for part in parts]), np.cumsum(counts)[:-1])
    settings = {
        **draw,
        "resolution": lattice.resolution,
        "alpha_range": tuple(alpha_range),
        "direction_length": direction_length,
        "domain": domain,
        "padding": padding if domain == "box" else None,
        "adjacency": lattice.adjacency,
        "strategy": strategy,
    }
    return RegionCount(counts, num_evaluations, settings, labels)


def check_strategy(strategy, lattice):
    """Raise ValueError for an unknown strategy, or one that does not count what the lattice's adjacency says."""
    check_name("strategy", strategy, STRATEGIES)
    require(
        strategy == "grid" or lattice.dim == 1 or lattice.adjacency == "linear",
        f"strategy 'adaptive' in {lattice.dim} dimensions counts with adjacency 'linear', got {lattice.adjacency!r}; "
        "give one of them up",
    )


def count_on_grid(classifier, corners, lattice, batch_size):
    """Regions of each simplex (B,) int64, the number of evaluations, every lattice point being evaluated, and the
    labels of the regions along segments, None in more dimensions."""
    if lattice.dim > 1 and lattice.adjacency == "linear":
        return *count_on_meshes(classifier, corners, lattice, batch_size), None
    labels = label_lattice(classifier, corners, lattice, batch_size)
    if lattice.dim > 1:
        return count_along_edges(non_negative(labels.cpu().numpy()), lattice.edges), labels.numel(), None
    begins = torch.ones_like(labels, dtype=torch.bool)
    begins[:, 1:] = labels[:, 1:] != labels[:, :-1]
    return begins.sum(1).cpu().numpy(), labels.numel(), labels[begins].cpu().numpy().astype(np.int64)


def count_where_needed(classifier, corners, lattice, batch_size):
    """As `count_on_grid`, evaluating more points where the scores leave the count in doubt."""
    if lattice.dim == 1:
        return count_adaptively(classifier, corners, lattice, batch_size)
    return *count_on_meshes(classifier, corners, lattice, batch_size, HALVINGS.get(lattice.dim, 1)), None


# A strategy takes a classifier, corners (B, d + 1, *shape), a lattice and a batch size, and returns the counts (B,),
# the number of evaluations and, of segments, the labels of all regions in their order.
STRATEGIES = {"grid": count_on_grid, "adaptive": count_where_needed}
