"""What grid, samples, range and adjacency do to the count of one network (v1 Tables 2, 3 and 4)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import torch
from torch import nn

from rc_utils.checks import require
from rc_utils.paper import Result
from rc_utils.regions import count_components, label_grid, region_count, sample_vertices
from rc_utils.regions.lattice import ADJACENCIES

RANGES = ((0, 1), (-1, 2), (-2, 3), (-3, 4))
Z = 1.959964  # Two-sided 95 % of the normal distribution.


def grid_size_table(
    model, points, dim: int, resolutions: Sequence[int], *, num_samples: int = 100, seed: int = 0
) -> pd.DataFrame:
    """Counts of the same simplices at several resolutions, one row each (v1 Table 2).

    Columns: resolution, count, std_error, differing (share of simplices whose number is not that of the last
    resolution, best the finest) and num_evaluations.
    """
    draw = {"dim": dim, "num_samples": num_samples, "seed": seed}
    counts = [region_count(model, points, resolution=r, **draw) for r in resolutions]
    return pd.DataFrame(
        {
            "resolution": list(resolutions),
            "count": [c.mean for c in counts],
            "std_error": [c.std_error for c in counts],
            "differing": [float((c.counts != counts[-1].counts).mean()) for c in counts],
            "num_evaluations": [c.num_evaluations for c in counts],
        }
    )


def sample_size_table(counts: np.ndarray, sizes: Sequence[int]) -> pd.DataFrame:
    """Mean over the first n simplices with its 95 % interval (normal), for each n of `sizes` (v1 Table 3).

    Columns: n, count, low, high. Raises ValueError for an n outside 2..len(counts).
    """
    counts = np.asarray(counts, dtype=float)
    rows = []
    for n in sizes:
        require(2 <= n <= len(counts), f"n is {n}; expected 2 to {len(counts)}, the number of simplices counted")
        mean, half = counts[:n].mean(), Z * counts[:n].std(ddof=1) / math.sqrt(n)
        rows.append({"n": n, "count": mean, "low": mean - half, "high": mean + half})
    return pd.DataFrame(rows)


def required_samples(counts: np.ndarray, precision: float) -> int:
    """Simplices for a 95 % interval of mean ± precision: n = ceil((1.96 s / precision)^2), s the deviation of `counts`.

    For the difference of two networks hand in the differences of their counts on the same simplices.
    Raises ValueError unless precision > 0.
    """
    require(precision > 0, f"precision is {precision}; expected a positive number of regions")
    return math.ceil((Z * float(np.std(counts, ddof=1)) / precision) ** 2)


def range_counts(
    model, points, ranges=RANGES, *, per_unit: int = 200, num_samples: int = 100, seed: int = 0
) -> dict[tuple, np.ndarray]:
    """{(low, high): counts (num_samples,)} of the same segments over ranges of alpha (v1 Table 4).

    The resolution grows with the range, `per_unit` points for each unit of alpha, so that the spacing stays.
    """
    return {
        tuple(span): region_count(
            model,
            points,
            alpha_range=tuple(span),
            resolution=round(per_unit * (span[1] - span[0])),
            num_samples=num_samples,
            seed=seed,
        ).counts
        for span in ranges
    }


def range_table(counts: dict[tuple, np.ndarray]) -> pd.DataFrame:
    """One row a range of `range_counts`: count, std_error, and per_unit, the count above one per unit of alpha."""
    rows = []
    for (low, high), values in counts.items():
        error = values.std(ddof=1) / math.sqrt(len(values))
        row = {"range": f"[{low}, {high}]", "count": values.mean(), "std_error": error}
        rows.append(row | {"per_unit": (values.mean() - 1) / (high - low)})
    return pd.DataFrame(rows)


def results_from_ranges(counts: dict[tuple, np.ndarray], campaign: str) -> list[Result]:
    """Our result for range/trend: the change of the mean count from [0, 1] to [-3, 4], over the same segments.

    No result without both ranges.
    """
    if not {(0, 1), (-3, 4)} <= set(counts):
        return []
    change = counts[(-3, 4)] - counts[(0, 1)]
    half = Z * change.std(ddof=1) / math.sqrt(len(change))
    bounds = (change.mean() - half, change.mean() + half, len(change), f"one network, {len(change)} segments")
    return [Result("range/trend", campaign, float(change.mean()), *bounds)]


def adjacency_table(model, points, *, resolution: int = 30, num_samples: int = 50, seed: int = 0) -> pd.DataFrame:
    """Counts on the same triangles and on the box around each, with each adjacency.

    Columns: domain, adjacency, count, std_error. The labels are computed once for a domain; a box has no `simplex`
    adjacency.
    """
    vertices = sample_vertices(points, dim=2, num_samples=num_samples, seed=seed)
    rows = []
    for domain in ("simplex", "box"):
        grid = label_grid(model, vertices, resolution=resolution, domain=domain)
        for adjacency in ADJACENCIES:
            if domain == "box" and adjacency == "simplex":
                continue
            counts = np.asarray(count_components(grid.labels, adjacency=adjacency))
            error = counts.std(ddof=1) / math.sqrt(len(counts))
            rows.append({"domain": domain, "adjacency": adjacency, "count": counts.mean(), "std_error": error})
    return pd.DataFrame(rows)


def with_batch_statistics(network: nn.Module) -> Callable:
    """A classifier that normalises with the statistics of each batch, as in training; dropout stays off.

    The network itself is left as it is. What it predicts at a point depends on the other points of the batch: a
    function of batches, not of inputs.
    """
    copied = copy.deepcopy(network).eval()
    for module in copied.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.train()

    @torch.no_grad()
    def classify(batch):
        return copied(batch)

    return classify


def mode_table(network: nn.Module, points, *, num_samples: int = 50, resolution: int = 200, seed: int = 0):
    """Counts on the same segments in evaluation mode and with batch statistics over one and over ten segments a batch.

    Columns: mode, count, std_error, differing (share of segments whose number is not that of evaluation mode).
    """
    draw = {"num_samples": num_samples, "resolution": resolution, "seed": seed}
    batched = with_batch_statistics(network)
    counts = {
        "evaluation mode": region_count(network, points, **draw),
        "batch statistics, one segment a batch": region_count(batched, points, batch_size=resolution, **draw),
        "batch statistics, ten segments a batch": region_count(batched, points, batch_size=10 * resolution, **draw),
    }
    first = next(iter(counts.values()))
    return pd.DataFrame(
        [
            {
                "mode": mode,
                "count": count.mean,
                "std_error": count.std_error,
                "differing": float((count.counts != first.counts).mean()),
            }
            for mode, count in counts.items()
        ]
    )
