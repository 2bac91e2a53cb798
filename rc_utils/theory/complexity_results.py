"""Our results for the statements of Loukas et al., and the bridge from their complexity to region counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import nn

from rc_utils.comparison import mean_interval
from rc_utils.correlation import Correlation, correlate
from rc_utils.paper import Result
from rc_utils.regions import exact_segment, region_count, sample_vertices
from rc_utils.theory.complexity import ROUNDING_FLOAT32, Check, Trajectory, all_checks
from rc_utils.theory.complexity_dropout import SteadyLearner
from rc_utils.theory.complexity_regions import RegionBound
from rc_utils.theory.complexity_tasks import Task
from rc_utils.theory.stacked import unstack

PAGE = "10_training_complexity"
LAST = 10  # The paper's "last 10 epochs".


def trend(task: Task, values: np.ndarray, *, seed: int = 0) -> Correlation:
    """Spearman's correlation of the level (frequency or corruption) with values (M,), bootstrapped over repetitions."""
    return correlate(task.level, values, "spearman", task.repetition, seed=seed)


def last_epochs(path: Trajectory) -> int:
    """Ten epochs, or all of a shorter training."""
    return min(LAST, len(path.steps))


def readouts(path: Trajectory) -> dict[str, np.ndarray]:
    """Of each model (M,): length an epoch over the last ten, total length, variance over the last ten, distance."""
    window = last_epochs(path)
    return {
        "length": path.length[-window:, :, 0].mean(0),
        "total": path.length[..., 0].sum(0),
        "variance": path.variance(window)[-1],
        "distance": path.distance[-1],
    }


def until_fit(path: Trajectory, loss: float) -> tuple[np.ndarray, np.ndarray]:
    """Total trajectory length until the training loss first falls to `loss`, (M,), and whether it did, (M,) bool.

    Where it never did, the length of the whole training, which is less than it would take.
    """
    fit = path.train_loss <= loss
    first = np.where(fit.any(0), fit.argmax(0), len(fit) - 1)
    return path.length[..., 0].cumsum(0)[first, np.arange(fit.shape[1])], fit.any(0)


def bound_result(id_: str, check: Check, words: str = "", tolerance: float = ROUNDING_FLOAT32) -> Result:
    """A `Check` as the Result of a bound; what exceeds 1 within `tolerance` is rounding."""
    detail = "; ".join(text for text in (words, check.detail) if text)
    return Result(id_, PAGE, check.within(tolerance), n=check.n, detail=detail)


def trend_result(id_: str, task: Task, values: np.ndarray, words: str, *, seed: int = 0) -> Result:
    """The Result of a `trend`; n counts the repetitions."""
    c = trend(task, values, seed=seed)
    return Result(id_, PAGE, c.value, c.low, c.high, c.n_cells, f"{words}; Spearman over {c.n} runs")


def log_ratio_result(id_: str, over: np.ndarray, under: np.ndarray, words: str, *, seed: int = 0) -> Result:
    """Mean of log(over / under), paired by repetition, (R,) each, with its bootstrap interval."""
    ratios = np.log(over / under)
    low, high = mean_interval(ratios, seed=seed)
    return Result(id_, PAGE, float(ratios.mean()), low, high, len(ratios), words)


def results_from_task_1(task: Task, path: Trajectory, *, seed: int = 0) -> list[Result]:
    """loukas/task-1, variance, distance and a4 from the runs of Task 1."""
    values = readouts(path)
    return [
        trend_result("loukas/task-1", task, values["length"], "Task 1, mean of the last epochs", seed=seed),
        trend_result("loukas/variance", task, values["variance"], "Task 1", seed=seed),
        trend_result("loukas/distance", task, values["distance"], "Task 1", seed=seed),
        trend_result("loukas/a4", task, values["total"], "Task 1, after equal epochs", seed=seed),
    ]


def results_from_task_2(task: Task, path: Trajectory, dataset: str, *, seed: int = 0) -> list[Result]:
    """loukas/task-2, variance, a2 and a4 from the runs of Task 2."""
    values, where = readouts(path), f"Task 2 on {dataset}"
    return [
        trend_result("loukas/task-2", task, values["length"], f"{where}, mean of the last epochs", seed=seed),
        trend_result("loukas/variance", task, values["variance"], where, seed=seed),
        trend_result("loukas/a2", task, values["distance"], where, seed=seed),
        trend_result("loukas/a4", task, values["total"], f"{where}, after equal epochs", seed=seed),
    ]


def check_table(runs: Sequence[tuple[str, Task, Trajectory]]) -> pd.DataFrame:
    """Every inequality of Loukas Sec. 4 on every stack: columns inequality, runs, ratio, n, detail."""
    rows = []
    for name, task, path in runs:
        for inequality, check in all_checks(path, task.train[1].shape[1], task.loss).items():
            rows.append({"inequality": inequality, "runs": name, **vars(check)})
    return pd.DataFrame(rows).sort_values("inequality", kind="stable", ignore_index=True)


def results_from_checks(checks: pd.DataFrame) -> list[Result]:
    """loukas/theorem-1, holding Lemma 1 too, and loukas/corollary-1 to -3, each over all stacks of a `check_table`."""
    results = []
    for id_, names in (("theorem-1", ("theorem-1", "lemma-1")), *((f"corollary-{k}",) * 2 for k in (1, 2, 3))):
        rows = checks[checks["inequality"].isin([names] if isinstance(names, str) else names)]
        if len(rows):
            words = "; ".join(f"{row.inequality}, {row.runs}: {row.ratio:.6g}" for row in rows.itertuples())
            check = Check(rows["ratio"].max(), int(rows["n"].sum()), words)
            results.append(bound_result(f"loukas/{id_}", check))
    return results


def results_from_theorem_2(bounds: Sequence[RegionBound], *, in_paper_setting: bool, seed: int = 0) -> list[Result]:
    """loukas/theorem-2, and loukas/a3 (the median factor over networks) where the setting is the paper's."""
    ratios = [bound.ratios for bound in bounds if len(bound.ratios)]
    if not ratios:
        return []
    applies, empty = (
        sum(int(n.sum()) for n in parts) for parts in zip(*((b.applies, ~b.filled) for b in bounds), strict=True)
    )
    check = Check(float(1 / np.concatenate(ratios).min()), sum(map(len, ratios)))
    # The linear programme is solved to 1e-7.
    results = [bound_result("loukas/theorem-2", check, f"applies to {applies} of {empty} empty regions", 1e-6)]
    medians = np.array([np.median(r) for r in ratios])
    low, high = mean_interval(medians, seed=seed)
    words = f"mean over {len(medians)} networks of the median over their regions"
    level = Result("loukas/a3", PAGE, float(medians.mean()), low, high, len(medians), words)
    return [*results, level] if in_paper_setting else results


def results_from_theorem_3(learners: Sequence[SteadyLearner]) -> list[Result]:
    """loukas/theorem-3: the gap over the least value of the bound."""
    worst = max(learners, key=lambda learner: learner.gap / learner.bound)
    vacuous = sum(learner.vacuous for learner in learners)
    words = (
        f"error difference {worst.gap:.3f}, bound at least {worst.bound:.2f}; vacuous for {vacuous} of {len(learners)}"
    )
    return [Result("loukas/theorem-3", PAGE, worst.gap / worst.bound, n=len(learners), detail=words)]


def accuracies(networks: nn.Sequential, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Training (as labelled) and test accuracy of each classifier of a stack, (M,) each."""
    found = []
    with torch.no_grad():
        for x, y in (task.train, task.test):
            z = networks(x.expand(len(y), *x.shape[1:])).squeeze(-1)
            found.append(((z > 0) == (y > 0.5)).double().mean(1).cpu().numpy())
    return found[0], found[1]


def bridge_table(
    task: Task,
    networks: nn.Sequential,
    path: Trajectory,
    *,
    num_segments: int = 1500,
    num_exact: int = 10,
    seed: int = 0,
) -> pd.DataFrame:
    """One row a run: both notions of complexity, and what they are to predict.

    level, repetition; total (trajectory length); lipschitz (mean at the training points at the end); count (regions of
    equal label on `num_segments` segments between training points, of 50 points each; NaN for regression, which has no
    labels); pieces (linear pieces on the first `num_exact` of them, solved for); gap (training less test accuracy, or
    for regression the test loss less the training loss).
    """
    rows = []
    for m, template in enumerate(task.networks):
        network = unstack(networks, template, m)
        points = task.train[0][m if len(task.train[0]) > 1 else 0]
        count = np.nan
        if task.loss == "bce":
            count = region_count(network, points, num_samples=num_segments, resolution=50, seed=seed).mean
        ends = sample_vertices(points.cpu(), dim=1, num_samples=num_exact, seed=seed)
        pieces = [exact_segment(network, *pair).num_linear_regions for pair in ends]
        rows.append({"count": count, "pieces": np.mean(pieces)})
    if task.loss == "bce":
        train, test = accuracies(networks, task)
        gap = train - test
    else:
        gap = path.test_loss[-1] - path.train_loss[-1]
    values = {"level": task.level, "repetition": task.repetition, "total": path.length[..., 0].sum(0), "gap": gap}
    return pd.DataFrame(rows).assign(**values, lipschitz=path.lipschitz_mean[-1])


PAIRS = (
    *(("total", "gap"), ("lipschitz", "gap"), ("count", "gap"), ("pieces", "gap")),
    *(("total", "count"), ("lipschitz", "count"), ("total", "pieces"), ("lipschitz", "pieces")),
)


def agreement(table: pd.DataFrame, pairs: Sequence[tuple[str, str]] = PAIRS, *, seed: int = 0) -> pd.DataFrame:
    """Spearman's correlations of the columns of a `bridge_table`, pooled and within a level, a row a pair.

    Within: of the ranks less their mean at the level, which leaves out what the level does to both. Intervals are
    bootstrapped over repetitions. Columns: x, y, pooled, pooled_low, pooled_high, within, within_low, within_high.
    """
    ranks = table[list(dict.fromkeys(c for pair in pairs for c in pair))].rank()
    centred = ranks - ranks.groupby(table["level"]).transform("mean")
    rows = []
    for x, y in pairs:
        pooled = correlate(table[x], table[y], "spearman", table["repetition"], seed=seed)
        within = correlate(centred[x], centred[y], "pearson", table["repetition"], seed=seed)
        row = {"x": x, "y": y}
        for key, c in (("pooled", pooled), ("within", within)):
            row |= {key: c.value, f"{key}_low": c.low, f"{key}_high": c.high}
        rows.append(row)
    return pd.DataFrame(rows)


def layer_trends(task: Task, path: Trajectory, *, seed: int = 0) -> pd.DataFrame:
    """App. A.7: for each layer's bias the `trend` of its length over the last ten epochs, and its mean length."""
    window = last_epochs(path)
    rows = []
    for layer in range(path.length.shape[2]):
        lengths = path.length[-window:, :, layer].mean(0)
        c = trend(task, lengths, seed=seed)
        rows.append({"layer": layer + 1, "length": lengths.mean(), "value": c.value, "low": c.low, "high": c.high})
    return pd.DataFrame(rows)


def first_layers_result(trends: pd.DataFrame, repetitions: int, layers: int = 3) -> Result:
    """loukas/a7 from `layer_trends`: the weakest trend of the first three layers, all of which are to follow."""
    first = trends[trends["layer"] <= layers]
    weakest = first.loc[first["value"].idxmin()]
    words = f"the weakest of layers 1 to {layers}: {', '.join(f'{value:.2f}' for value in first['value'])}"
    return Result("loukas/a7", PAGE, weakest["value"], weakest["low"], weakest["high"], repetitions, words)


def results_from_networks(
    by_network: dict[tuple[str, int], Trajectory], dataset: str, *, seed: int = 0
) -> list[Result]:
    """loukas/a5 from {("MLP" or "CNN", images a class): Trajectory}: log ratio of the total lengths at 100 a class.

    Nothing where 100 images a class were not trained on.
    """
    if ("MLP", 100) not in by_network:
        return []
    mlp, cnn = (by_network[name, 100].length[..., 0].sum(0) for name in ("MLP", "CNN"))
    return [log_ratio_result("loukas/a5", mlp, cnn, f"{dataset}, whole training", seed=seed)]


def results_from_batches(by_batch: dict[tuple[float, int], Trajectory], *, seed: int = 0) -> list[Result]:
    """loukas/a6 from {(frequency, batch size): Trajectory}: log ratio of the lengths, 0.75 over 0.25.

    Of the last tenth of training.
    """
    results = []
    for batch_size in sorted({batch for _, batch in by_batch}):
        lengths = (by_batch[frequency, batch_size].length[..., 0] for frequency in (0.75, 0.25))
        high, low = (length[-max(1, len(length) // 10) :].sum(0) for length in lengths)
        results.append(
            log_ratio_result("loukas/a6", high, low, f"batch size {batch_size}, last tenth of training", seed=seed)
        )
    return results


def bridge_words(labels: pd.DataFrame, label_column: str, pieces: pd.DataFrame, piece_column: str) -> str:
    """Markdown: whether the two notions agree, read off two tables of `agreement` by their intervals."""

    def sentence(table, x, y, where, what):
        row = table[(table["x"] == x) & (table["y"] == y)].iloc[0]
        parts = [_sign_words(row[key], row[f"{key}_low"], row[f"{key}_high"]) for key in ("pooled", "within")]
        return f"- {what} ({where}): over all runs {parts[0]}; within a level {parts[1]}."

    lines = [
        sentence(labels, "lipschitz", label_column, "Task 2", "Lipschitz constant and region count"),
        sentence(labels, "total", label_column, "Task 2", "Trajectory length and region count"),
        sentence(pieces, "lipschitz", piece_column, "Task 1", "Lipschitz constant and linear pieces"),
        sentence(pieces, "total", piece_column, "Task 1", "Trajectory length and linear pieces"),
        sentence(labels, "total", "gap", "Task 2", "Trajectory length and gap"),
        sentence(labels, label_column, "gap", "Task 2", "Region count and gap"),
    ]
    return "\n".join(lines)


def _sign_words(value: float, low: float, high: float) -> str:
    if not np.isfinite(low):
        return f"no interval ({value:.2f})"
    if low > 0 or high < 0:
        return f"they {'agree' if low > 0 else 'run against each other'} ({value:.2f} [{low:.2f}, {high:.2f}])"
    return f"not resolved ({value:.2f} [{low:.2f}, {high:.2f}])"
