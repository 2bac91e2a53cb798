"""Our results for the statements of Loukas et al., from runs, proofs, counterexamples and checks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from rc_theory.complexity.counterexamples import counterexamples
from rc_theory.complexity.inequalities import ROUNDING_FLOAT32, ROUNDING_FLOAT64, Check, all_checks
from rc_theory.complexity.stacked import IdentityLayer
from rc_theory.complexity.tasks import Task
from rc_theory.complexity.trajectory import Trajectory
from rc_utils.correlation import Estimate, bootstrap, correlate, interval_text
from rc_utils.published import Result

PAGE = "10_training_complexity"


def trend(task: Task, values: np.ndarray, *, seed: int = 0) -> Estimate:
    """Spearman's correlation of the level (frequency or corruption) with values (M,), bootstrapped
    over repetitions.
    """
    return correlate(task.level, values, "spearman", task.repetition, unit="repetitions")


def until_fit(path: Trajectory, loss: float) -> pd.DataFrame:
    """Training up to the end of the first block at which the training loss is at most `loss`, one
    row a model.

    Columns: length (of the whole trajectory), blocks (their number), and reached, whether it got
    there. Where it never did, both are those of the whole training, less than it would take.
    """
    fit = path.train_loss <= loss
    first = np.where(fit.any(0), fit.argmax(0), len(fit) - 1)
    length = path.length[..., 0].cumsum(0)[first, np.arange(fit.shape[1])]
    return pd.DataFrame({"length": length, "blocks": first + 1, "reached": fit.any(0)})


def trend_result(id_: str, task: Task, values: np.ndarray, words: str, *, seed: int = 0) -> Result:
    """The Result of a `trend`; n counts the repetitions."""
    c = trend(task, values, seed=seed)
    return Result(
        id_, PAGE, c.value, c.low, c.high, c.n, f"{words}; Spearman over {len(values)} runs"
    )


def least_rise_result(
    id_: str, task: Task, values: np.ndarray, words: str, *, seed: int = 0
) -> Result:
    """The least change of the mean of values (M,) from one level to the next, over the mean of all,
    with its bootstrap interval over repetitions: positive where they increase with the level
    throughout.
    """
    by_level = pd.DataFrame({"level": task.level, "repetition": task.repetition, "value": values})
    grid = by_level.pivot(index="repetition", columns="level", values="value").to_numpy()
    grid = grid / grid.mean()
    found = bootstrap(
        lambda weights: np.diff(weights @ grid / len(grid), axis=1).min(1),
        range(len(grid)),
        seed=seed,
    )
    steps = np.diff(grid.mean(0))
    words += f"; steps of {', '.join(f'{step:+.2f}' for step in steps)} of the mean distance"
    return Result(id_, PAGE, found.value, found.low, found.high, len(grid), words)


def equal_fit_results(
    task: Task, path: Trajectory, loss: float, words: str, *, seed: int = 0
) -> list[Result]:
    """loukas/a4 and slower: the `trend` of the total length and of the number of epochs up to a
    common training loss.

    The length is the number of epochs times the length an epoch: the words of a4 say what each of
    them does alone.
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


def check_table(runs: Sequence[tuple[str, Task, Trajectory]]) -> pd.DataFrame:
    """Every inequality of Loukas Sec. 4 on every stack: columns inequality, runs, trained (whether
    the first layer is no identity), tolerance (what rounding explains in the stack's precision),
    ratio, n, detail.
    """
    rows = []
    for name, task, path in runs:
        trained = not isinstance(task.networks[0][0], IdentityLayer)
        tolerance = ROUNDING_FLOAT64 if task.train[0].dtype == torch.float64 else ROUNDING_FLOAT32
        for inequality, check in all_checks(path, task.loss).items():
            row = {
                "inequality": inequality,
                "runs": name,
                "trained": trained,
                "tolerance": tolerance,
            }
            rows.append(row | vars(check))
    return pd.DataFrame(rows).sort_values("inequality", kind="stable", ignore_index=True)


def in_words(id_: str) -> str:
    """The name of a statement from its id: Lemma 1, upper."""
    return id_.replace("-", " ").replace("/", ", ").capitalize()


# Under which condition the checks of these hold; with an identity for the first layer both sides
# are equalities.
SQUARE, EQUALITIES = "for n_1 = n", ("lemma-1", "theorem-1")


def results_from_checks(checks: pd.DataFrame, sides: tuple[np.ndarray, np.ndarray]) -> list[Result]:
    """Results for Lemma 1, Theorem 1 and Corollaries 1 to 3 from a `check_table`, and for the other
    `counterexamples`.

    sides: the ratios of `both_sides`, first layers wider than their input. Lemma 1 and Theorem 1
    are checked on the stacks whose first layer is trained: with an identity both gradients are the
    same vector.
    """
    usable = checks[checks["trained"] | ~checks["inequality"].str.startswith(EQUALITIES)]
    found = dict(list(usable.groupby("inequality")))
    examples, results = counterexamples(), []

    def checked(id_):
        rows = found[id_]
        return max(Check(r.ratio, r.n).within(r.tolerance) for r in rows.itertuples()), int(
            rows["n"].sum()
        )

    lower, upper = sides
    for name in EQUALITIES:
        ratio, n = checked(f"{name}/lower")
        words = f"trained first layers, and {len(lower):,} random ones wider than their input"
        largest = max(
            ratio, float(lower.max())
        )  # one step of a random network is a trajectory, too
        results.append(
            Result(f"loukas/{name}/lower", PAGE, largest, n=n + len(lower), detail=words)
        )
        example, (ratio, n) = examples[f"{name}/upper"], checked(f"{name}/upper")
        words = (
            f"{example.detail}; it fails for {np.mean(upper > 1):.1%} of {len(upper):,} random first layers wider than "
            f"their input, median factor {np.median(upper):.2g}, largest {upper.max():.2g}; {SQUARE} it holds, in "
            f"{n:,} checks with largest ratio {ratio:.3g}"
        )
        results.append(Result(f"loukas/{name}/upper", PAGE, example.ratio, n=1, detail=words))
    ratio, n = checked("corollary-2")
    example = examples["corollary-2"]
    results.append(Result("loukas/corollary-2", PAGE, example.ratio, n=1, detail=example.detail))
    results.append(
        Result(
            "loukas/corollary-2/interval",
            PAGE,
            ratio,
            n=n,
            detail="proved for intervals in App. B.4",
        )
    )
    ratio, n = checked("corollary-3")
    words = f"{examples['corollary-3'].detail}; {SQUARE} it holds, in {n:,} checks with largest ratio {ratio:.3g}"
    results.append(
        Result("loukas/corollary-3", PAGE, examples["corollary-3"].ratio, n=1, detail=words)
    )
    for id_ in ("remark", "claim-1", "lemma-3", "steady-tight", "lemma-5", "lemma-6"):
        results.append(
            Result(f"loukas/{id_}", PAGE, examples[id_].ratio, n=1, detail=examples[id_].detail)
        )
    return results
