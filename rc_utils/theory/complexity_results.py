"""Our results for the statements of Loukas et al."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from rc_utils.comparison import mean_interval
from rc_utils.correlation import Correlation, correlate, interval_text
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


@dataclass(frozen=True)
class Fit:
    """Training of M models until a common loss; arrays (M,): total trajectory length, number of blocks, and whether it
    got there. Where it never did, both are those of the whole training, less than it would take."""

    length: np.ndarray
    blocks: np.ndarray
    reached: np.ndarray


def until_fit(path: Trajectory, loss: float) -> Fit:
    """Training up to the end of the first block at which the training loss is at most `loss`."""
    fit = path.train_loss <= loss
    first = np.where(fit.any(0), fit.argmax(0), len(fit) - 1)
    return Fit(path.length[..., 0].cumsum(0)[first, np.arange(fit.shape[1])], first + 1, fit.any(0))


def last_tenth(path: Trajectory) -> slice:
    """The blocks of the last tenth of training, one at least."""
    return slice(-max(1, len(path.steps) // 10), None)


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


def equal_fit_results(task: Task, path: Trajectory, loss: float, words: str, *, seed: int = 0) -> list[Result]:
    """loukas/a4 and slower: the `trend` of the total length and of the number of epochs up to a common training loss.

    The length is the number of epochs times the length an epoch: the words of a4 say what each of them does alone.
    """
    fit = until_fit(path, loss)
    runs = f"{fit.reached.sum()} of {len(fit.reached)} runs"
    words = f"{words}, until the training loss first is {loss:g}, which {runs} reach"
    if not fit.reached.all():
        words += " (the others count with all of their training, less than they would need)"
    pace = trend(task, fit.length / fit.blocks, seed=seed)
    alone = f"; the number of epochs alone has {trend(task, fit.blocks, seed=seed).value:.2f}, the length an epoch "
    alone += interval_text(pace.value, pace.low, pace.high)
    return [
        trend_result("loukas/a4", task, fit.length, words + alone, seed=seed),
        trend_result("loukas/slower", task, fit.blocks, words, seed=seed),
    ]


def results_from_task_1(task: Task, path: Trajectory, fit_loss: float, *, seed: int = 0) -> list[Result]:
    """loukas/task-1, test-loss, variance, distance, a4 and slower from the runs of Task 1."""
    values = readouts(path)
    # With a squared loss epsilon^2, which bounds the variance from below in Corollary 2, is twice the loss.
    scaled = trend(task, values["variance"] / path.train_loss[-last_epochs(path) :].mean(0), seed=seed)
    fitted = f"Task 1; over the training loss it has {interval_text(scaled.value, scaled.low, scaled.high)}"
    c = correlate(values["length"], path.test_loss[-1], "spearman", task.repetition, seed=seed)
    words = f"Task 1, mean of the last epochs; Spearman over {c.n} runs"
    return [
        Result("loukas/test-loss", PAGE, c.value, c.low, c.high, c.n_units, words),
        trend_result("loukas/task-1", task, values["length"], "Task 1, mean of the last epochs", seed=seed),
        trend_result("loukas/variance", task, values["variance"], fitted, seed=seed),
        trend_result("loukas/distance", task, values["distance"], "Task 1", seed=seed),
        *equal_fit_results(task, path, fit_loss, "Task 1", seed=seed),
    ]


def results_from_task_2(task: Task, path: Trajectory, fit_loss: float, dataset: str, *, seed: int = 0) -> list[Result]:
    """loukas/task-2, variance, a2, a4 and slower from the runs of Task 2."""
    values, where = readouts(path), f"Task 2 on {dataset}"
    return [
        trend_result("loukas/task-2", task, values["length"], f"{where}, mean of the last epochs", seed=seed),
        trend_result("loukas/variance", task, values["variance"], where, seed=seed),
        trend_result("loukas/a2", task, values["distance"], where, seed=seed),
        *equal_fit_results(task, path, fit_loss, where, seed=seed),
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
# With an identity for the first layer they are equalities.
EQUALITIES = ("lemma-1", "theorem-1")


def results_from_checks(checks: pd.DataFrame) -> list[Result]:
    """loukas/lemma-1, theorem-1 and corollary-1 to -3 from a `check_table`.

    The statements as printed, so that their `counterexamples` count, and what they become where these are ruled out.
    Lemma 1 and Theorem 1 are checked on the stacks whose first layer is trained: with an identity both gradients are
    the same vector.
    """
    results, examples = [], counterexamples()
    for id_, words in REPAIRED.items():
        rows = checks[(checks["inequality"] == id_) & (checks["trained"] | (id_ not in EQUALITIES))]
        if len(rows):
            found = [Check(r.ratio, r.n).within(r.tolerance) for r in rows.itertuples()]
            verb, example = "holds" if max(found) <= 1 else "fails", examples[id_]
            detail = (
                f"fails as printed, with a ratio of {example.ratio:.3g}: {example.detail}; {verb} {words} in "
                f"{rows['n'].sum():,} checks, largest ratio {max(found):.3g}"
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
    """loukas/a7, a7-last and a7-decay from `layer_trends`.

    a7: the weakest trend of the first three layers, all of which are to follow. a7-last: the strongest of the others,
    none of which is to, without a value where the first do not follow either: such a training tells no layers apart.
    The last bias moves by 1 whatever the network. a7-decay: a level, so without a value.
    """
    first, last = trends[trends["layer"] <= layers], trends[trends["layer"] > layers].dropna(subset=["value"])
    results, follow = [], False
    if first["value"].notna().any():
        weakest = first.loc[first["value"].idxmin()]
        follow = weakest["value"] > 0 and not weakest["low"] <= 0
        estimate = (weakest["value"], weakest["low"], weakest["high"], repetitions)
        results.append(Result("loukas/a7", PAGE, *estimate, f"the weakest of {_in_layers(first)}"))
    if len(last):
        words, strongest = f"the strongest of {_in_layers(last)}", last.loc[last["value"].abs().idxmax()]
        estimate = (strongest["value"], strongest["low"], strongest["high"], repetitions)
        if not follow:
            estimate = (np.nan, np.nan, np.nan, repetitions)
            words += "; the first layers do not follow the frequency either, so that these are not told from them"
        results.append(Result("loukas/a7-last", PAGE, *estimate, words))
    lengths = trends["length"].to_numpy()
    factor = (lengths[0] / lengths[-1]) ** (1 / max(1, len(lengths) - 1))
    words = (
        "the factor is a level of its setting, and the paper prints neither widths nor an initialization; in ours the "
        f"lengths an epoch are {', '.join(f'{v:.3g}' for v in lengths)}, on average a factor {factor:.2f} a layer"
    )
    return [*results, Result("loukas/a7-decay", PAGE, np.nan, n=repetitions, detail=words)]


def _in_layers(rows: pd.DataFrame) -> str:
    return ", ".join(f"{r.value:.2f} in layer {r.layer}" for r in rows.itertuples())


def results_from_networks(
    by_network: dict[tuple[str, int], Trajectory], dataset: str, *, seed: int = 0
) -> list[Result]:
    """loukas/a5 and a5-test from {("MLP" or "CNN", images a class): Trajectory}: log ratios of the lengths at 100 a
    class, over the last tenth of as many iterations, and of the test losses at their end.

    Nothing where 100 images a class were not trained on.
    """
    if ("MLP", 100) not in by_network:
        return []
    mlp, cnn = by_network["MLP", 100], by_network["CNN", 100]
    lengths = [path.length[last_tenth(path), :, 0].sum(0) for path in (mlp, cnn)]
    losses = [path.test_loss[-1] for path in (mlp, cnn)]
    fits = " and ".join(f"{path.train_loss[-1].mean():.2g}" for path in (mlp, cnn))
    words = f"{dataset}, {len(mlp.steps) * mlp.every:,} iterations, to mean training losses of {fits}"
    return [
        log_ratio_result("loukas/a5", *lengths, f"{words}; last tenth of training", seed=seed),
        log_ratio_result("loukas/a5-test", *losses, words, seed=seed),
    ]


def results_from_batches(by_batch: dict[tuple[float, int], Trajectory], *, seed: int = 0) -> list[Result]:
    """loukas/a6, a6-test and a6-batch from {(frequency, batch size): Trajectory}, over the last tenth of training.

    a6: log ratio of the lengths, frequency 0.75 over 0.25, with batches; a6-test: Spearman's correlation of length and
    test loss over the same runs. a6-batch: log ratio of the lengths, the largest batch over single samples, after as
    many iterations.
    """
    lengths = {key: path.length[last_tenth(path), :, 0].sum(0) for key, path in by_batch.items()}
    losses = {key: path.test_loss[last_tenth(path)].mean(0) for key, path in by_batch.items()}
    sizes, window, frequencies = sorted({size for _, size in by_batch}), "last tenth of training", (0.25, 0.75)
    results = []
    for n in [n for n in sizes if n > 1]:
        words = f"batch size {n}, {window}"
        results.append(log_ratio_result("loukas/a6", lengths[0.75, n], lengths[0.25, n], words, seed=seed))
        length, loss = (np.concatenate([values[w, n] for w in frequencies]) for values in (lengths, losses))
        units = np.tile(np.arange(len(length) // 2), 2)
        c = correlate(length, loss, "spearman", units, seed=seed)
        words += f"; Spearman over {c.n} runs"
        results.append(Result("loukas/a6-test", PAGE, c.value, c.low, c.high, c.n_units, words))
    if sizes[0] == 1 < sizes[-1]:
        for frequency in frequencies:
            words = f"frequency {frequency:g}, {window}, batches normalised by their mean derivative"
            batch, single = lengths[frequency, sizes[-1]], lengths[frequency, 1]
            results.append(log_ratio_result("loukas/a6-batch", batch, single, words, seed=seed))
    return results
