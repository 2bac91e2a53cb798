"""Our results for the statements of Loukas et al."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rc_utils.correlation import Estimate, bootstrap, correlate, interval_text, mean
from rc_utils.paper.verdict import Result
from rc_utils.theory.complexity.tasks import Task
from rc_utils.theory.complexity.trajectory import Trajectory

PAGE = "10_training_complexity"
LAST = 10  # The paper's "last 10 epochs".


def trend(task: Task, values: np.ndarray, *, seed: int = 0) -> Estimate:
    """Spearman's correlation of the level (frequency or corruption) with values (M,), bootstrapped over repetitions."""
    return correlate(task.level, values, "spearman", task.repetition, seed=seed, unit="repetitions")


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


def variance_over_loss(path: Trajectory) -> np.ndarray:
    """The variance of the first bias over the training loss, both over the last epochs, (M,).

    With a squared loss epsilon^2, which bounds the variance from below in Corollary 2, is twice the loss.
    """
    window = last_epochs(path)
    return path.variance(window)[-1] / path.train_loss[-window:].mean(0)


def until_fit(path: Trajectory, loss: float) -> pd.DataFrame:
    """Training up to the end of the first block at which the training loss is at most `loss`, one row a model.

    Columns: length (of the whole trajectory), blocks (their number), and reached, whether it got there. Where it never
    did, both are those of the whole training, less than it would take.
    """
    fit = path.train_loss <= loss
    first = np.where(fit.any(0), fit.argmax(0), len(fit) - 1)
    length = path.length[..., 0].cumsum(0)[first, np.arange(fit.shape[1])]
    return pd.DataFrame({"length": length, "blocks": first + 1, "reached": fit.any(0)})


def last_tenth(path: Trajectory) -> slice:
    """The blocks of the last tenth of training, one at least."""
    return slice(-max(1, len(path.steps) // 10), None)


def trend_result(id_: str, task: Task, values: np.ndarray, words: str, *, seed: int = 0) -> Result:
    """The Result of a `trend`; n counts the repetitions."""
    c = trend(task, values, seed=seed)
    return Result(id_, PAGE, c.value, c.low, c.high, c.n, f"{words}; Spearman over {len(values)} runs")


def least_rise_result(id_: str, task: Task, values: np.ndarray, words: str, *, seed: int = 0) -> Result:
    """The least change of the mean of values (M,) from one level to the next, over the mean of all, with its bootstrap
    interval over repetitions: positive where they increase with the level throughout."""
    by_level = pd.DataFrame({"level": task.level, "repetition": task.repetition, "value": values})
    grid = by_level.pivot(index="repetition", columns="level", values="value").to_numpy()
    grid = grid / grid.mean()
    found = bootstrap(lambda weights: np.diff(weights @ grid / len(grid), axis=1).min(1), range(len(grid)), seed=seed)
    steps = np.diff(grid.mean(0))
    words += f"; steps of {', '.join(f'{step:+.2f}' for step in steps)} of the mean distance"
    return Result(id_, PAGE, found.value, found.low, found.high, len(grid), words)


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
    scaled = trend(task, variance_over_loss(path), seed=seed)
    fitted = f"Task 1; over the training loss it has {interval_text(scaled.value, scaled.low, scaled.high)}"
    c = correlate(values["length"], path.test_loss[-1], "spearman", task.repetition, seed=seed)
    words = f"Task 1, mean of the last epochs; Spearman over {len(task.level)} runs"
    return [
        Result("loukas/test-loss", PAGE, c.value, c.low, c.high, c.n, words),
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
        least_rise_result("loukas/a2", task, values["distance"], where, seed=seed),
        *equal_fit_results(task, path, fit_loss, where, seed=seed),
    ]


def layer_results(trends: pd.DataFrame, repetitions: int) -> list[Result]:
    """loukas/a7, a7-last and a7-decay (App. A.7) from a row a layer: layer (from 1), length (the mean of its bias' over
    the last epochs), and value, low and high of the `trend` of the lengths.

    a7: the weakest trend of the first three layers, all of which are to follow. a7-last: the strongest of the others,
    none of which is to, without a value where the first do not follow either: such a training tells no layers apart.
    The last bias moves by 1 whatever the network. a7-decay: a level, so without a value.
    """
    first, last = trends[trends["layer"] <= 3], trends[trends["layer"] > 3].dropna(subset=["value"])
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


def results_from_batches(by_batch: dict[tuple[float, int], Trajectory], *, seed: int = 0) -> list[Result]:
    """loukas/a6, a6-test and a6-batch from {(frequency, batch size): Trajectory}, over the last tenth of training.

    a6: log ratio of the lengths, frequency 0.75 over 0.25, with batches; a6-test: Spearman's correlation of length and
    test loss over the same runs. a6-batch: `_batch_size_result`, after as many iterations.
    """
    lengths = {key: path.length[last_tenth(path), :, 0].sum(0) for key, path in by_batch.items()}
    losses = {key: path.test_loss[last_tenth(path)].mean(0) for key, path in by_batch.items()}
    sizes, window = sorted({size for _, size in by_batch}), "last tenth of training"
    results = []
    for n in [n for n in sizes if n > 1]:
        words = f"batch size {n}, {window}"
        ratio = mean(np.log(lengths[0.75, n] / lengths[0.25, n]), "repetitions")
        results.append(Result("loukas/a6", PAGE, ratio.value, ratio.low, ratio.high, ratio.n, words))
        length, loss = (np.concatenate([values[w, n] for w in (0.25, 0.75)]) for values in (lengths, losses))
        units = np.tile(np.arange(len(length) // 2), 2)
        c = correlate(length, loss, "spearman", units, seed=seed)
        words += f"; Spearman over {len(length)} runs"
        results.append(Result("loukas/a6-test", PAGE, c.value, c.low, c.high, c.n, words))
    if sizes[0] == 1 < sizes[-1]:
        results.append(_batch_size_result(by_batch, sizes[-1]))
    return results


def batch_size_ratios(by_batch: dict[tuple[float, int], Trajectory], largest: int) -> pd.DataFrame:
    """Log ratios of the lengths of batches of `largest` samples over single ones, for two normalisations of a batch's
    step, with their intervals over repetitions: step (in words), frequency, value, low, high, n."""
    rows = []
    steps = {"the mean of |ε|": lambda path: path.length[..., 0], "|mean ε|": lambda path: path.net_length}
    for name, pick in steps.items():
        for frequency in (0.25, 0.75):
            batch, single = (by_batch[frequency, n] for n in (largest, 1))
            ratios = np.log(pick(batch)[last_tenth(batch)].sum(0) / pick(single)[last_tenth(single)].sum(0))
            rows.append({"step": name, "frequency": frequency} | vars(mean(ratios, "repetitions")))
    return pd.DataFrame(rows)


def _batch_size_result(by_batch, largest):
    """loukas/a6-batch: without a value, since the normalisation of a batch's step, not printed, decides its sign."""
    ratios = batch_size_ratios(by_batch, largest)
    parts = [
        f"{interval_text(row.value, row.low, row.high, '+')} with {row.step} at frequency {row.frequency:g}"
        for row in ratios.itertuples()
    ]
    detail = (
        f"the text does not normalise the step of a batch, and its normalisation decides the sign: {'; '.join(parts)}"
    )
    return Result("loukas/a6-batch", PAGE, np.nan, n=int(ratios["n"].iloc[-1]), detail=detail)
