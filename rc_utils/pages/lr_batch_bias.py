"""What learning rate and batch size do to the count: slopes, and equal updates."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rc_utils.correlation import HYPERPARAMETERS, Estimate, average_replicates, finished, require_columns, slope
from rc_utils.correlation.settings import with_logs


def formula_of(rows: pd.DataFrame, column: str) -> str:
    """What the change of `column` with learning rate and batch size is taken from: one level for each network (and for
    each value of what else differs), and one slope for each of both, as far as they vary.

    Of rows that differ in all of it: "count ~ C(network) + log2_lr + log2_batch".
    """
    terms = [f"C({key})" for key in ("network", *HYPERPARAMETERS) if key in rows.columns and rows[key].nunique() > 1]
    terms = [term for term in terms if term not in ("C(lr)", "C(batch_size)", "C(weight_decay)")]
    terms += [log for log, key in LOGS.items() if rows[key].nunique() > 1]
    return f"{column} ~ {' + '.join(terms) or '1'}"


LOGS = {"log2_lr": "lr", "log2_batch": "batch_size"}


def change_per_doubling(runs: pd.DataFrame, factor: str, column: str = "count") -> Estimate:
    """Change of `column` when `factor`, lr or batch_size, doubles: a coefficient of `formula_of`, by `slope`.

    Replicates are averaged, and errors are clustered by setting, which networks share. NaN where the factor does not
    vary. Raises ValueError for a missing column or a number of it that is missing or infinite.
    """
    require_columns(runs, ["network", "cell", *LOGS.values(), column])
    rows = finished(average_replicates(runs))
    missing = int((~np.isfinite(rows[column].to_numpy(float))).sum())
    if missing:
        raise ValueError(f"{column} is missing or infinite in {missing} of {len(rows)} settings; leave these runs out")
    if rows[factor].nunique() < 2:
        return Estimate(float("nan"))
    term = next(log for log, key in LOGS.items() if key == factor)
    return slope(with_logs(rows), formula_of(rows, column), term, rows["setting"])


def at_equal_updates(runs: pd.DataFrame) -> pd.DataFrame:
    """What a larger batch does to the count at equal epochs, and at about as many updates.

    One row a network, learning rate and pair of batch sizes and of epochs whose numbers of updates, epochs / batch
    size, are within a factor of 1.5: network, lr, small, large (batch sizes), short, long (epochs), updates (those of
    the large batch over those of the small), equal_epochs (large less small batch, both trained long), equal_updates
    (large batch trained long less small batch trained short). Runs of several experiments are compared where they agree
    in all else, seed and weight decay too, and then averaged. No row where all runs have as many epochs.
    """
    require_columns(runs, ["network", "lr", "batch_size", "epochs", "seed", "count"])
    keys = [key for key in ("network", *HYPERPARAMETERS, "seed") if key in runs.columns]
    keys = [key for key in keys if key not in ("batch_size", "epochs")]
    columns = [*keys, "batch_size", "epochs", "count"]
    runs = finished(runs).drop_duplicates(columns[:-1])[columns]
    small = runs.rename(columns={"batch_size": "small", "epochs": "short", "count": "s"})
    large = runs.rename(columns={"batch_size": "large", "epochs": "long", "count": "l"})
    pairs = small.merge(large, on=keys)
    pairs["updates"] = (pairs["long"] / pairs["large"]) / (pairs["short"] / pairs["small"])
    pairs = pairs[(pairs["small"] < pairs["large"]) & pairs["updates"].between(1 / 1.5, 1.5)]
    trained_long = small.rename(columns={"short": "long", "s": "same"})
    pairs = pairs.merge(trained_long, on=[*keys, "small", "long"])
    pairs = pairs.assign(equal_epochs=pairs["l"] - pairs["same"], equal_updates=pairs["l"] - pairs["s"])
    by = ["network", "lr", "small", "large", "short", "long"]
    return pairs.groupby(by, sort=False)[["updates", "equal_epochs", "equal_updates"]].mean().reset_index()
