"""Where the papers are silent, disagree or look wrong: what this book does about it, and what can be computed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from rc_utils.correlation import average_seeds, correlate, finished
from rc_utils.published_tables import ARCHITECTURES, EVOLUTION, GRID_SIZE, HYPERPLANES, NETWORKS, RANGE
from rc_utils.regions import region_count


@dataclass(frozen=True)
class Question:
    """One open question: where it arises, what is the matter, and what this book does."""

    id: str
    where: str
    matter: str
    done: str


DOUBTS = (
    Question("evolution-gap", "v1 Table 6, v3 Table 3",
             "the gaps part from epoch 80 on; counts and correlations are equal", "both stand beside ours"),
    Question("swapped-columns", "v1/v3 Table 8", "the column Test equals the main results, which use training pairs",
             "training pairs are used for everything; the columns are compared as labelled"),
    Question("theorem-5", "v1 Theorem 5", "the proof puts the shattered points on a line, which d >= 2 does not imply",
             "two families that break the statement are counted; v3 dropped it"),
    Question("lemma-words", "v1 Lemmas 7 and 8",
             "the sentences say lower where the formula is an upper bound, and upper where it is a lower one",
             "the formulas are taken"),
    Question("theorem-6-sum", "v1 Theorem 6", "the bound names x_1 and x_2 inside a double sum over i and j",
             "read as x_i and x_j"),
    Question("mean-counts", "v3 Tables 3, 4 and 6", "three mean counts for what reads as one setting",
             "no mean count is held against ours outside the paper's own setting"),
    Question("loukas-prints", "Loukas App. A",
             "A.1 prints z(1) twice; the derivative of the cross-entropy needs an absolute value",
             "z(1) and z(2) are taken, and 1 / |1 - y - f|"),
    Question("gap-or-accuracy", "v1 abstract and figures",
             "some plots show test accuracy; cells that do not interpolate tell another story in the gap",
             "both are shown, and hollow markers do not interpolate"),
)  # fmt: skip
SILENCES = (
    Question("coefficient", "v1 Sec. 3", "which correlation coefficient", "Pearson; Spearman and Kendall beside it"),
    Question("connectivity", "v1 App. D.1", "which grid points are neighbours", "one step along a grid axis"),
    Question("grid", "v1 Table 5", "the grid for d = 3, 4, 5", "16, 12 and 10 points an edge"),
    Question("momentum", "v1 App. C.1", "the momentum of SGD", "0.9"),
    Question("mode", "v1 Sec. 2.1", "evaluation or training mode while counting", "evaluation mode"),
    Question("shufflenet", "v1 Table 5", "the width of ShuffleNetV2", "x1, 1,263,854 parameters"),
    Question("direction", "v1 Table 8", "the length of the random direction",
             "the median distance between data points"),
    Question("mixup", "v1 Fig 7", "the parameter of mixup's Beta distribution",
             "a setting of the campaign, `mixup_alpha`"),
    Question("optimizers", "v1 Table 7", "the learning rates of Adam and Adagrad",
             "a setting of the experiment, `grid.lr`"),
)  # fmt: skip


def question_table(questions, answers: dict[str, str]) -> pd.DataFrame:
    """Questions as texts, with the computed answer by id where there is one."""
    return pd.DataFrame(
        [
            {"Where": q.where, "Open": q.matter, "What this book does": q.done, "Computed": answers.get(q.id, "–")}
            for q in questions
        ]
    )


def answers_from_print() -> dict[str, str]:
    """Answers that need the printed tables and short computations only."""
    gaps = [(epoch, v1 - v3 / 100) for epoch, _, v1, v3, _ in EVOLUTION if v1 is not None]
    parts = [epoch for epoch, difference in gaps if abs(difference) > 0.01]
    test = np.array(HYPERPLANES)[:, 0]
    main = np.array(ARCHITECTURES)[:, 0]
    counts = ", ".join(f"{v:.2f}" for v in (EVOLUTION[-1][1], GRID_SIZE[1][2][1], RANGE[0][1]))
    lines = "; ".join(f"R^{d}: {n} on lines, {k} points shattered" for d, n, k in half_space_regions())
    convex = "; ".join(f"{k} points shattered, {n} on lines" for n, k in convex_regions())
    return {
        "evolution-gap": f"they differ by up to {max(abs(d) for _, d in gaps):.2f}, first at epoch {parts[0]}",
        "swapped-columns": f"Test equals the main results for {int((test == main).sum())} of {len(NETWORKS)} networks",
        "theorem-5": f"half-spaces, most regions: {lines}. Indicators of convex sets: {convex}",
        "mean-counts": f"{counts}",
        "loukas-prints": f"1 / |1 - y - f| is off automatic differentiation by {bce_derivative_error():.1e} at most",
    }


def half_space_regions(dims=(2, 5, 10), num_samples: int = 200) -> list[tuple[int, int, int]]:
    """(d, most regions on random segments over random half-spaces of R^d, points that half-spaces shatter).

    The points are 0 and the unit vectors: each of their 2^(d+1) labellings is checked on the half-space that gives it.
    """
    rows = []
    for d in dims:
        rng = np.random.default_rng(d)
        cloud, normal = rng.normal(size=(50, d)), rng.normal(size=d)
        most = region_count(lambda x, w=normal: (x @ w > 0.1).astype(int), cloud, num_samples=num_samples).counts.max()
        points = np.vstack([np.zeros(d), np.eye(d)])
        signs = 2 * np.array(list(itertools.product((0, 1), repeat=d + 1))) - 1
        # w.0 + b = s_0 and w.e_i + b = s_i: b = s_0 and w_i = s_i - s_0.
        scores = (signs[:, 1:] - signs[:, :1]) @ points.T + signs[:, :1]
        rows.append((d, int(most), d + 1 if (np.sign(scores) == signs).all() else 0))
    return rows


def convex_regions(sizes=(4, 8), num_samples: int = 100) -> list[tuple[int, int]]:
    """(most regions on random segments over indicators of polygons, points on a circle that polygons shatter).

    Every subset of k points on a circle is the set of those inside the hull of the subset; the segments are drawn
    between points around it. All labellings are checked.
    """
    rows = []
    for k in sizes:
        circle = np.exp(2j * np.pi * np.arange(k) / k)
        points = np.stack([circle.real, circle.imag], 1)
        cloud = np.random.default_rng(k).normal(size=(60, 2))
        subsets = [np.array(s, bool) for s in itertools.product((0, 1), repeat=k)]
        shattered = all((in_hull(points, points[s]) == s).all() for s in subsets)
        largest = [points[s] for s in subsets if s.sum() >= 3][-20:]
        counts = [
            region_count(lambda x, c=c: in_hull(x, c).astype(int), cloud, num_samples=num_samples).counts.max()
            for c in largest
        ]
        rows.append((int(max(counts)), k if shattered else 0))
    return rows


def in_hull(x: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Whether the points x (n, 2) lie in the convex hull of `corners` (k, 2), given in counter-clockwise order."""
    if len(corners) == 0:
        return np.zeros(len(x), bool)
    if len(corners) == 1:
        return np.linalg.norm(x - corners[0], axis=1) < 1e-6
    edges = np.roll(corners, -1, axis=0) - corners
    offset = x[:, None, :] - corners[None]
    inside = (edges[:, 0] * offset[..., 1] - edges[:, 1] * offset[..., 0] > -1e-6).all(1)
    if len(corners) == 2:  # both half-planes leave the line; the segment is where the distances add up
        ends = np.linalg.norm(offset, axis=2).sum(1)
        inside &= ends < np.linalg.norm(edges[0]) + 1e-6
    return inside


def bce_derivative_error() -> float:
    """Largest difference between |d BCE(y, f) / d f| by automatic differentiation and 1 / |1 - y - f|, relative."""
    f = torch.linspace(0.02, 0.98, 49, dtype=torch.float64, requires_grad=True)
    worst = 0.0
    for y in (0.0, 1.0):
        loss = -(y * f.log() + (1 - y) * (1 - f).log()).sum()
        (slope,) = torch.autograd.grad(loss, f)
        claimed = 1 / (1 - y - f.detach()).abs()
        worst = max(worst, float(((slope.abs() - claimed) / claimed).abs().max()))
    return worst


def answers_from_runs(runs: pd.DataFrame, *, seed: int = 0) -> dict[str, str]:
    """Answers from a campaign's table of runs (all experiments), as far as it can give them; all cells of `main`."""
    main = finished(runs[runs["experiment"] == "main"])
    if main.empty or not main["count"].notna().any():
        return {}
    cells = finished(average_seeds(main))
    methods = ("pearson", "spearman", "kendall")
    text = ", ".join(f"{m} {_text(cells, 'count', 'gap', m, seed)}" for m in methods)
    fitted = cells[cells["interpolates"].astype(bool)]
    answers = {
        "coefficient": f"over all cells: {text}",
        "gap-or-accuracy": (
            f"all {len(cells)} cells: gap {_text(cells, 'count', 'gap', seed=seed)}, test accuracy "
            f"{_text(cells, 'count', 'test_accuracy', seed=seed)}; the {len(fitted)} that interpolate: gap "
            f"{_text(fitted, 'count', 'gap', seed=seed)}, test accuracy "
            f"{_text(fitted, 'count', 'test_accuracy', seed=seed)}"
        ),
    }
    if "count_test" in cells.columns and cells["count_test"].notna().all():
        pairs = {"training": "count", "test": "count_test"}
        text = ", ".join(f"{name} pairs {_text(cells, column, 'gap', seed=seed)}" for name, column in pairs.items())
        answers["swapped-columns"] = f"here: {text}"
    if "no-momentum" in set(runs["experiment"]):
        plain = finished(average_seeds(runs[runs["experiment"] == "no-momentum"]))
        answers["momentum"] = (
            f"correlation with 0.9: {_text(cells, 'count', 'gap', seed=seed)}; without: "
            f"{_text(plain, 'count', 'gap', seed=seed)}; mean count {cells['count'].mean():.2f} and "
            f"{plain['count'].mean():.2f}"
        )
    return answers


def _text(cells: pd.DataFrame, x: str, y: str, method: str = "pearson", seed: int = 0) -> str:
    if len(cells) < 3:
        return "too few cells"
    c = correlate(cells[x], cells[y], method, seed=seed)
    return f"{c.value:.2f}" + (f" [{c.low:.2f}, {c.high:.2f}]" if np.isfinite(c.low) else "")
