"""What holds and what fails of the theorems of Loukas et al., as Results: proofs, counterexamples and checks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from rc_utils.pages.training_complexity.results import PAGE
from rc_utils.paper.verdict import Result
from rc_utils.theory.complexity.counterexamples import counterexamples
from rc_utils.theory.complexity.inequalities import ROUNDING_FLOAT32, ROUNDING_FLOAT64, Check, all_checks
from rc_utils.theory.complexity.stacked import IdentityLayer
from rc_utils.theory.complexity.tasks import Task
from rc_utils.theory.complexity.trajectory import Trajectory


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


def in_words(id_: str) -> str:
    """The name of a statement from its id: Lemma 1, upper."""
    return id_.replace("-", " ").replace("/", ", ").capitalize()


# Under which condition the checks of these hold; with an identity for the first layer both sides are equalities.
SQUARE, EQUALITIES = "for n_1 = n", ("lemma-1", "theorem-1")


def results_from_checks(checks: pd.DataFrame, sides: tuple[np.ndarray, np.ndarray]) -> list[Result]:
    """Results for Lemma 1, Theorem 1 and Corollaries 1 to 3 from a `check_table`, and for the other `counterexamples`.

    sides: the ratios of `both_sides`, first layers wider than their input. Lemma 1 and Theorem 1 are checked on the
    stacks whose first layer is trained: with an identity both gradients are the same vector.
    """
    usable = checks[checks["trained"] | ~checks["inequality"].str.startswith(EQUALITIES)]
    found = dict(list(usable.groupby("inequality")))
    examples, results = counterexamples(), []

    def checked(id_):
        rows = found[id_]
        return max(Check(r.ratio, r.n).within(r.tolerance) for r in rows.itertuples()), int(rows["n"].sum())

    lower, upper = sides
    for name in EQUALITIES:
        ratio, n = checked(f"{name}/lower")
        words = f"trained first layers, and {len(lower):,} random ones wider than their input"
        largest = max(ratio, float(lower.max()))  # one step of a random network is a trajectory, too
        results.append(Result(f"loukas/{name}/lower", PAGE, largest, n=n + len(lower), detail=words))
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
    results.append(Result("loukas/corollary-2/interval", PAGE, ratio, n=n, detail="proved for intervals in App. B.4"))
    ratio, n = checked("corollary-3")
    words = f"{examples['corollary-3'].detail}; {SQUARE} it holds, in {n:,} checks with largest ratio {ratio:.3g}"
    results.append(Result("loukas/corollary-3", PAGE, examples["corollary-3"].ratio, n=1, detail=words))
    for id_ in ("remark", "claim-1", "lemma-3", "steady-tight", "lemma-5", "lemma-6"):
        results.append(Result(f"loukas/{id_}", PAGE, examples[id_].ratio, n=1, detail=examples[id_].detail))
    rows = checks[checks["inequality"] == "corollary-1"]
    words = "; ".join(f"{row.runs}: {row.detail}" for row in rows.itertuples())
    detail = f"speaks of the limit of long training, which no finite run contradicts; {words}"
    return [*results, Result("loukas/corollary-1", PAGE, np.nan, n=int(rows["n"].sum()), detail=detail)]
