"""Our results for the statements of Loukas et al."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from rc_utils.comparison import mean_interval
from rc_utils.correlation import Correlation, correlate
from rc_utils.paper import Result
from rc_utils.theory.complexity import ROUNDING_FLOAT32, ROUNDING_FLOAT64, Check, Trajectory, all_checks
from rc_utils.theory.complexity_counterexamples import counterexamples
from rc_utils.theory.complexity_dropout import SteadyLearner
from rc_utils.theory.complexity_regions import RegionBound
from rc_utils.theory.complexity_tasks import Task
from rc_utils.theory.stacked import IdentityLayer

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
    return Result(id_, PAGE, c.value, c.low, c.high, c.n_units, f"{words}; Spearman over {c.n} runs")


def log_ratio_result(id_: str, over: np.ndarray, under: np.ndarray, words: str, *, seed: int = 0) -> Result:
    """Mean of log(over / under), paired by repetition, (R,) each, with its bootstrap interval."""
    ratios = np.log(over / under)
    low, high = mean_interval(ratios, seed=seed)
    return Result(id_, PAGE, float(ratios.mean()), low, high, len(ratios), words)


def equal_fit_result(id_: str, task: Task, path: Trajectory, loss: float, words: str, *, seed: int = 0) -> Result:
    """The Result of the `trend` of the total length up to a common training loss (`until_fit`)."""
    totals, fitted = until_fit(path, loss)
    words = f"{words}, until the training loss first is {loss:g}, which {fitted.sum()} of {len(fitted)} runs reach"
    if not fitted.all():
        words += " (the others count with all of their path, less than they would need)"
    return trend_result(id_, task, totals, words, seed=seed)


def results_from_task_1(task: Task, path: Trajectory, fit_loss: float, *, seed: int = 0) -> list[Result]:
    """loukas/task-1, test-loss, variance, distance and a4 from the runs of Task 1."""
    values = readouts(path)
    c = correlate(values["length"], path.test_loss[-1], "spearman", task.repetition, seed=seed)
    words = f"Task 1, mean of the last epochs; Spearman over {c.n} runs"
    return [
        Result("loukas/test-loss", PAGE, c.value, c.low, c.high, c.n_units, words),
        trend_result("loukas/task-1", task, values["length"], "Task 1, mean of the last epochs", seed=seed),
        trend_result("loukas/variance", task, values["variance"], "Task 1", seed=seed),
        trend_result("loukas/distance", task, values["distance"], "Task 1", seed=seed),
        equal_fit_result("loukas/a4", task, path, fit_loss, "Task 1", seed=seed),
    ]


def results_from_task_2(task: Task, path: Trajectory, fit_loss: float, dataset: str, *, seed: int = 0) -> list[Result]:
    """loukas/task-2, variance, a2 and a4 from the runs of Task 2."""
    values, where = readouts(path), f"Task 2 on {dataset}"
    return [
        trend_result("loukas/task-2", task, values["length"], f"{where}, mean of the last epochs", seed=seed),
        trend_result("loukas/variance", task, values["variance"], where, seed=seed),
        trend_result("loukas/a2", task, values["distance"], where, seed=seed),
        equal_fit_result("loukas/a4", task, path, fit_loss, where, seed=seed),
    ]


def check_table(runs: Sequence[tuple[str, Task, Trajectory]]) -> pd.DataFrame:
    """Every inequality of Loukas Sec. 4 on every stack: columns inequality, runs, trained (whether the first layer is
    no identity), tolerance (what rounding explains in the stack's precision), ratio, n, detail."""
    rows = []
    for name, task, path in runs:
        trained = not isinstance(task.networks[0][0], IdentityLayer)
        tolerance = ROUNDING_FLOAT64 if task.train[0].dtype == torch.float64 else ROUNDING_FLOAT32
        for inequality, check in all_checks(path, task.train[1].shape[1], task.loss).items():
            row = {"inequality": inequality, "runs": name, "trained": trained, "tolerance": tolerance}
            rows.append(row | vars(check))
    return pd.DataFrame(rows).sort_values("inequality", kind="stable", ignore_index=True)


def counterexample_table() -> pd.DataFrame:
    """The `counterexamples`, as texts."""
    rows = [{"Inequality": i, "Ratio": f"{c.ratio:.3g}", "Where": c.detail} for i, c in counterexamples().items()]
    return pd.DataFrame(rows)


# What is checked instead of what is printed.
REPAIRED = {
    "lemma-1": "for n_1 = n",
    "theorem-1": "for n_1 = n",
    "corollary-2": "for intervals, with the bias after the last step",
    "corollary-3": "for n_1 = n",
}


def results_from_checks(checks: pd.DataFrame) -> list[Result]:
    """loukas/lemma-1, theorem-1 and corollary-1 to -3 from a `check_table`.

    The statements as printed, so that their `counterexamples` count; what they become where these are ruled out is
    checked on the stacks whose first layer is trained. With an identity both gradients are the same vector.
    """
    results, examples = [], counterexamples()
    for id_, words in REPAIRED.items():
        rows = checks[(checks["inequality"] == id_) & checks["trained"]]
        if len(rows):
            found = [Check(r.ratio, r.n).within(r.tolerance) for r in rows.itertuples()]
            verb, example = "holds" if max(found) <= 1 else "fails", examples[id_]
            detail = (
                f"fails as printed, with a ratio of {example.ratio:.3g}: {example.detail}; {verb} {words} in "
                f"{rows['n'].sum():,} checks of a trained first layer, largest ratio {max(found):.3g}"
            )
            results.append(
                Result(f"loukas/{id_}", PAGE, max(example.ratio, *found), n=int(rows["n"].sum()) + 1, detail=detail)
            )
    rows = checks[checks["inequality"] == "corollary-1"]
    words = "; ".join(f"{row.runs}: {row.detail}" for row in rows.itertuples())
    detail = f"speaks of the limit of long training, which no finite run contradicts; {words}"
    return [*results, Result("loukas/corollary-1", PAGE, np.nan, n=int(rows["n"].sum()), detail=detail)]


def results_from_theorem_2(bounds: Sequence[RegionBound], *, seed: int = 0) -> list[Result]:
    """loukas/theorem-2, and loukas/a3, the factor over the Lipschitz constant, which is a level of its setting."""
    ratios = [bound.ratios for bound in bounds if len(bound.ratios)]
    if not ratios:
        return []
    applies, empty = (
        sum(int(n.sum()) for n in parts) for parts in zip(*((b.applies, ~b.filled) for b in bounds), strict=True)
    )
    check = Check(float(1 / np.concatenate(ratios).min()), sum(map(len, ratios)))
    medians = np.array([np.median(r) for r in ratios])
    low, high = mean_interval(medians, seed=seed)
    words = (
        "the factor is a level of its setting, and the paper prints no widths, initialization, learning rate or number "
        f"of steps; in ours it is {medians.mean():.2f} [{low:.2f}, {high:.2f}], the mean over {len(medians)} networks "
        "of the median over their regions"
    )
    return [
        # The linear programme is solved to 1e-7.
        bound_result("loukas/theorem-2", check, f"applies to {applies} of {empty} empty regions", 1e-6),
        Result("loukas/a3", PAGE, np.nan, n=len(medians), detail=words),
    ]


def results_from_theorem_3(learners: Sequence[SteadyLearner]) -> list[Result]:
    """loukas/theorem-3: the gap over the least value of the bound; loukas/lemma-3: gradient norms over lambda_steady.

    No value where the bound says nothing or a hypothesis of both is not met by all learners.
    """
    table = pd.DataFrame([vars(learner) for learner in learners])
    n, unmet = len(table), unmet_hypotheses(table)
    vacuous = int((table["bound"] >= 1).sum())
    words = (
        f"vacuous for {vacuous} of {n} networks: two error rates differ by at most 1, here by "
        f"{table['gap'].max():.2g}, and the bound is at least {table['bound'].min():.3g}"
    )
    factors = table["steady_lipschitz"] / table["lipschitz"]
    lemma = f"λ_steady is {factors.min():,.0f} to {factors.max():,.0f} times the largest gradient norm at our points"
    missing = f"; hypotheses not met: {unmet}" if unmet else ""
    gap, lipschitz = (table["gap"] / table["bound"]).max(), (1 / factors).max()
    return [
        Result("loukas/theorem-3", PAGE, np.nan if vacuous or unmet else gap, n=n, detail=words + missing),
        Result("loukas/lemma-3", PAGE, np.nan if unmet else lipschitz, n=n, detail=lemma + missing),
    ]


def unmet_hypotheses(table: pd.DataFrame) -> str:
    """Which hypotheses of Theorem 3 some learner (a row) does not meet, in words; nothing where all meet them."""
    least = table[["unchanged", "covered"]].min()
    wanted = table["steps_wanted"]
    parts = []
    if least["unchanged"] < 1:
        parts.append(f"(a) activations stayed at only {least['unchanged']:.1%} of the training points")
    if least["covered"] < 1:
        parts.append(f"(b) holds at only {least['covered']:.1%} of all points")
    if (table["steps"] < wanted).any():
        parts.append(f"{table['steps'].min()} steps where Lemma 3 wants {wanted.max():,.0f}, logarithms apart")
    return ", ".join(parts)


def layer_trends(task: Task, path: Trajectory, *, seed: int = 0) -> pd.DataFrame:
    """App. A.7: for each layer's bias the `trend` of its length over the last ten epochs, and its mean length."""
    window = last_epochs(path)
    rows = []
    for layer in range(path.length.shape[2]):
        lengths = path.length[-window:, :, layer].mean(0)
        c = trend(task, lengths, seed=seed)
        rows.append({"layer": layer + 1, "length": lengths.mean(), "value": c.value, "low": c.low, "high": c.high})
    return pd.DataFrame(rows)


def layer_results(trends: pd.DataFrame, repetitions: int, layers: int = 3) -> list[Result]:
    """loukas/a7 and a7-last from `layer_trends`: the weakest trend of the first three layers, all of which are to
    follow, and the strongest of the others, none of which is to. The last bias moves by 1 whatever the network."""
    first, last = trends[trends["layer"] <= layers], trends[trends["layer"] > layers].dropna(subset=["value"])
    results = []
    for id_, rows, words in (("a7", first, "the weakest"), ("a7-last", last, "the strongest")):
        if len(rows):
            row = rows.loc[rows["value"].idxmin() if id_ == "a7" else rows["value"].abs().idxmax()]
            values = ", ".join(f"{r.value:.2f} in layer {r.layer}" for r in rows.itertuples())
            result = Result(
                f"loukas/{id_}", PAGE, row["value"], row["low"], row["high"], repetitions, f"{words} of {values}"
            )
            results.append(result)
    return results


def results_from_networks(
    by_network: dict[tuple[str, int], Trajectory], dataset: str, fit_loss: float, *, seed: int = 0
) -> list[Result]:
    """loukas/a5 from {("MLP" or "CNN", images a class): Trajectory}: log ratio of the total lengths at 100 a class, up
    to a common training loss.

    Nothing where 100 images a class were not trained on.
    """
    if ("MLP", 100) not in by_network:
        return []
    (mlp, mlp_fits), (cnn, cnn_fits) = (until_fit(by_network[name, 100], fit_loss) for name in ("MLP", "CNN"))
    words = (
        f"{dataset}, until the training loss first is {fit_loss:g}, which {mlp_fits.sum()} MLPs and "
        f"{cnn_fits.sum()} CNNs of {len(mlp)} each reach"
    )
    return [log_ratio_result("loukas/a5", mlp, cnn, words, seed=seed)]


def results_from_batches(by_batch: dict[tuple[float, int], Trajectory], *, seed: int = 0) -> list[Result]:
    """loukas/a6 and a6-batch from {(frequency, batch size): Trajectory}, over the last tenth of training.

    a6: log ratio of the lengths, frequency 0.75 over 0.25, with batches. a6-batch: the largest batch over single
    samples, after as many iterations.
    """
    lengths = {key: path.length[-max(1, len(path.length) // 10) :, :, 0].sum(0) for key, path in by_batch.items()}
    sizes, window = sorted({size for _, size in by_batch}), "last tenth of training"
    results = [
        log_ratio_result("loukas/a6", lengths[0.75, n], lengths[0.25, n], f"batch size {n}, {window}", seed=seed)
        for n in sizes
        if n > 1
    ]
    if sizes[0] == 1 < sizes[-1]:
        for frequency in (0.25, 0.75):
            words = f"frequency {frequency:g}, {window}, batches normalised by their mean derivative"
            batch, single = lengths[frequency, sizes[-1]], lengths[frequency, 1]
            results.append(log_ratio_result("loukas/a6-batch", batch, single, words, seed=seed))
    return results
