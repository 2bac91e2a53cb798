"""Our results for the statements of Loukas et al."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rc_utils.correlation import Estimate, bootstrap, correlate, interval_text
from rc_utils.paper.verdict import Result
from rc_utils.theory.complexity.tasks import Task
from rc_utils.theory.complexity.trajectory import Trajectory

PAGE = "10_training_complexity"
LAST = 10  # The paper's "last 10 epochs".


def trend(task: Task, values: np.ndarray, *, seed: int = 0) -> Estimate:
    """Spearman's correlation of the level (frequency or corruption) with values (M,), bootstrapped over repetitions."""
    return correlate(task.level, values, "spearman", task.repetition, seed=seed, unit="repetitions")


def readouts(path: Trajectory) -> dict[str, np.ndarray]:
    """Of each model (M,): length an epoch over the last ten, total length, variance over the last ten, distance."""
    return {
        "length": path.length[-LAST:, :, 0].mean(0),
        "total": path.length[..., 0].sum(0),
        "variance": path.variance(min(LAST, len(path.steps)))[-1],
        "distance": path.distance[-1],
    }


def until_fit(path: Trajectory, loss: float) -> pd.DataFrame:
    """Training up to the end of the first block at which the training loss is at most `loss`, one row a model.

    Columns: length (of the whole trajectory), blocks (their number), and reached, whether it got there. Where it never
    did, both are those of the whole training, less than it would take.
    """
    fit = path.train_loss <= loss
    first = np.where(fit.any(0), fit.argmax(0), len(fit) - 1)
    length = path.length[..., 0].cumsum(0)[first, np.arange(fit.shape[1])]
    return pd.DataFrame({"length": length, "blocks": first + 1, "reached": fit.any(0)})


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
