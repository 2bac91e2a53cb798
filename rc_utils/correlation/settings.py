"""From runs to settings, the units of all statistics.

A *setting* is one combination of what really differs: learning rate, batch size, whatever else a grid varies. Networks
share it. Seeds are replicates of a setting, and so are weight decays of at most `NEGLIGIBLE_DECAY`, which leave a
network nearly as it is: replicates are averaged, and count as one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rc_utils.checks import check_name
from rc_utils.correlation.estimates import Estimate, correlate, slope

NEGLIGIBLE_DECAY = 1e-5
HYPERPARAMETERS = (
    *("lr", "batch_size", "weight_decay", "optimizer", "epochs"),
    *("momentum", "mixup_alpha", "crop_padding", "flip_probability"),
)
LOGS = {"log2_lr": "lr", "log2_batch": "batch_size"}  # the columns of `with_logs`
_KEYS = ("campaign", "experiment", "network", "setting")
_DROPPED = ("run_id", "seed", "status", "cell")


def require_columns(runs: pd.DataFrame, columns: Sequence[str]) -> None:
    """Raise ValueError naming the first of `columns` that `runs` lacks, and the nearest that it has."""
    for column in columns:
        check_name("column of the runs", column, runs.columns)


def finished(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that did not diverge: all of them where the table has no column `status`."""
    return runs[runs["status"] == "ok"] if "status" in runs.columns else runs


def _decay_is_negligible(runs: pd.DataFrame) -> bool:
    """Whether all weight decays are, by their column or, without one, by the texts of the cells."""
    if "weight_decay" in runs.columns:
        decays = runs["weight_decay"]
    else:
        decays = runs["cell"].astype(str).str.extract(r"weight_decay=([^,]+)")[0].astype(float)
    return bool((decays.dropna() <= NEGLIGIBLE_DECAY).all())


def setting_names(runs: pd.DataFrame) -> pd.Series:
    """The setting of each row, (n,): the text of its `cell` without a negligible weight decay; the column `setting`
    of rows that are averaged already. Raises ValueError without either.
    """
    if "setting" in runs.columns:
        return runs["setting"]
    require_columns(runs, ["cell"])
    text = runs["cell"].astype(str)
    if not _decay_is_negligible(runs):
        return text
    kept = text.str.split(", ").map(lambda parts: [part for part in parts if not part.startswith("weight_decay=")])
    return kept.str.join(", ")


def average_replicates(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a network and setting: numeric columns averaged over the runs that finished.

    The paper averages over seeds (v1 App. C.1), and here weight decays that do nothing are averaged as well. Rows are
    kept apart by campaign, experiment, network and `setting`, as far as `runs` has them. `interpolates` holds where
    every run interpolates; other columns are kept where the runs agree; a negligible weight decay, `run_id`, `seed` and
    `cell` give way to `num_seeds` and `num_runs`. A setting whose runs all diverged stays, with status
    "diverged" and no numbers but its hyper-parameters. `count_std_error` becomes the mean over the runs, an upper bound
    for that of the mean count, since runs share their simplices. A number missing in one run is missing in the mean.
    Raises ValueError without `network` and `cell`.
    """
    require_columns(runs, ["network", "cell"])
    dropped = [*_DROPPED, *(["weight_decay"] if _decay_is_negligible(runs) else [])]
    runs = runs.assign(setting=setting_names(runs)).reset_index(drop=True)
    keys = [key for key in _KEYS if key in runs.columns]
    values = [column for column in runs.columns if column not in (*keys, *dropped)]
    code = runs.groupby(keys, sort=False, dropna=False).ngroup().to_numpy()
    first = np.unique(code, return_index=True)[1]
    done = finished(runs)
    num_runs = np.bincount(code[done.index], minlength=len(first))
    rows = runs.loc[first, [*keys, *values]].reset_index(drop=True)
    for column in values:
        # A hyper-parameter stays where its runs agree, a number too, but not that of a setting whose runs all diverged.
        stays = column in HYPERPARAMETERS or not pd.api.types.is_numeric_dtype(runs[column])
        kept = _agreed(runs[column], code, first) & (stays | (num_runs > 0))
        if not kept.all():
            averaged = _average_column(done[column].groupby(code[done.index]), runs[column], rows.index)
            rows[column] = rows[column].astype(averaged.dtype).where(kept, averaged)
    if "seed" in runs.columns:
        rows["num_seeds"] = done["seed"].groupby(code[done.index]).nunique().reindex(rows.index, fill_value=0)
    else:
        rows["num_seeds"] = num_runs
    rows["status"] = np.where(num_runs > 0, "ok", "diverged")
    rows["num_runs"] = num_runs
    return rows


def _agreed(column: pd.Series, code: np.ndarray, first: np.ndarray) -> np.ndarray:
    """For each setting whether its rows, those of its `code`, have the value of its `first` row."""
    value = pd.factorize(column, use_na_sentinel=False)[0]
    return np.bincount(code, weights=value != value[first][code]) == 0


def _average_column(groups: pd.api.typing.SeriesGroupBy, column: pd.Series, index: pd.Index) -> pd.Series:
    if pd.api.types.is_bool_dtype(column):
        return groups.all().reindex(index, fill_value=False)
    if pd.api.types.is_numeric_dtype(column):
        # A missing number in one run is missing in the mean: averaging the others would hide it.
        return groups.mean().where(groups.count() == groups.size()).reindex(index)
    return pd.Series(None, dtype=object, index=index)


def with_logs(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` with log2_lr, log2_batch and log2_ratio, binary logarithms of lr, batch size and batch size / lr."""
    lr, batch = np.log2(rows["lr"].astype(float)), np.log2(rows["batch_size"].astype(float))
    return rows.assign(log2_lr=lr, log2_batch=batch, log2_ratio=batch - lr)


def formula_of(rows: pd.DataFrame) -> str:
    """What the change of the count with learning rate and batch size is taken from: one level for each network (and for
    each value of what else differs), and one slope for each of both, as far as they vary.

    Of rows that differ in all of it: "count ~ C(network) + log2_lr + log2_batch".
    """
    terms = [f"C({key})" for key in ("network", *HYPERPARAMETERS) if key in rows.columns and rows[key].nunique() > 1]
    terms = [term for term in terms if term not in ("C(lr)", "C(batch_size)", "C(weight_decay)")]
    terms += [log for log, key in LOGS.items() if rows[key].nunique() > 1]
    return f"count ~ {' + '.join(terms) or '1'}"


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
    rows = with_logs(rows).assign(count=rows[column])  # a formula would take the hyphen of a column's name for a minus
    return slope(rows, formula_of(rows), term, rows["setting"])


def correlate_settings(rows: pd.DataFrame, x: str, y: str, method: str = "pearson", **options) -> Estimate:
    """`correlate` of two columns of the rows of `average_replicates`, or of runs, over their settings."""
    require_columns(rows, [x, y])
    return correlate(rows[x], rows[y], method, setting_names(rows).to_numpy(), **options)


def correlation_table(
    runs: pd.DataFrame,
    x: str = "count",
    y: str = "gap",
    methods: Sequence[str] = ("pearson", "spearman", "kendall"),
    *,
    num_resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Correlations of two columns for each network and overall, one row a network and method.

    Replicates are averaged first (`average_replicates`), diverged runs are left out. Returns the columns network (the
    last is "overall"), method, value, low, high, n (rows, one a network and setting), n_units (settings).
    Raises ValueError for a column that is missing and as `correlate`.
    """
    require_columns(runs, ["network", "cell", x, y])
    rows = finished(average_replicates(runs))
    groups = [(name, rows[rows["network"] == name]) for name in pd.unique(runs["network"])]
    records = []
    for name, group in [*groups, ("overall", rows)]:
        for method in methods:
            c = correlate_settings(group, x, y, method, num_resamples=num_resamples, seed=seed)
            records.append((name, method, c.value, c.low, c.high, len(group), c.n))
    return pd.DataFrame(records, columns=["network", "method", "value", "low", "high", "n", "n_units"])
