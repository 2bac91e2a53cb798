"""What a larger batch does to the count at equal updates."""

from __future__ import annotations

import pandas as pd

from rc_utils.correlation import HYPERPARAMETERS, finished, require_columns


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
