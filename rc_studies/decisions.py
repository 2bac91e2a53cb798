"""Decision rules of the five studies of the count, as `book/protocol.md` says."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold
from sklearn.preprocessing import PolynomialFeatures

from rc_studies.rivals import RIVALS
from rc_studies.studies import ARMS, AXES, COUNT
from rc_utils.correlation import MIN_UNITS, Estimate, bootstrap, fisher_interval, mean
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import load_evolution

PLAIN = "count"  # stands beside log(count) and decides nothing
SPLITS = 200  # partitions into folds that residuals of study 5 are averaged over
SPLITS_APART = 10_000  # what the random states of the partitions of one seed differ by
TERMS_OF_CUBIC = 19  # of three variables
PENALTIES = np.logspace(-3, 3, 13)
RUNS_A_TERM = 3  # of a network, for each term of the cubic in study 5


def forms(runs: pd.DataFrame) -> dict[str, list[np.ndarray]]:
    """Each measure by name: both counts as they are; a rival as it is and, where it is positive, by its logarithm."""
    log_count = runs[COUNT].to_numpy(float)
    found = {COUNT: [log_count], PLAIN: [np.exp(log_count)]}
    for column, name in RIVALS.items():
        values = runs.get(column, pd.Series(np.nan, runs.index)).to_numpy(float)
        if not np.isfinite(values).all() or np.ptp(values) == 0:
            continue
        found[name] = [values]
        if (values > 0).all():
            found[name].append(np.log(values))
    return found


def seed_correlations(runs: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """By network and measure: r with the gap within the groups, and |r of log count| - |r| of a rival, with intervals.

    A rival's form is the one with the larger |r|. Fisher's interval decides; the bootstrap's stands
    beside it.
    """
    rows = []
    for network, group in runs[runs["interpolates"]].groupby("network", sort=False):
        gap = _centred(group["gap"].to_numpy(float), group["experiment"])
        measures = {}
        for name, choices in forms(group).items():
            centred = [_centred(values, group["experiment"]) for values in choices]
            measures[name] = max(centred, key=lambda values: abs(_correlation(values, gap)))
        of_count = functools.partial(_correlations, measures[COUNT], gap)
        means = group["experiment"].nunique() - 1
        for name, values in measures.items():
            own = functools.partial(_correlations, values, gap)

            def difference(weights, own=own, of_count=of_count):
                return np.abs(of_count(weights)) - np.abs(own(weights))

            row = {
                "network": network,
                "measure": name,
                "r": _with_fisher(_correlation(values, gap), len(gap), means),
            }
            row["bootstrap"] = bootstrap(own, range(len(gap)), seed=seed, unit="runs")
            row["difference"] = bootstrap(difference, range(len(gap)), seed=seed, unit="runs")
            rows.append(row)
    return pd.DataFrame(rows)


def decide_seeds(table: pd.DataFrame) -> str:
    """Supports: in both networks above 0, and r at least 0.5; refutes: upper end below 0.3 in both."""
    found = table[table["measure"] == COUNT]["r"]
    if len(found) > 1 and all(r.low > 0 and r.value >= 0.5 for r in found):
        return "supports"
    return "refutes" if len(found) > 1 and all(r.high < 0.3 for r in found) else "inconclusive"


def predictions(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that interpolate with `by <measure>`, the gap that a line in that measure predicts.

    The lines are fitted on the experiment "sgd" of each network, in the form that fits all of them
    better; a network without such a run is left out.
    """
    runs = runs[runs["interpolates"]]
    with_sgd = runs.loc[runs["experiment"] == "sgd", "network"]
    runs = runs[runs["network"].isin(with_sgd)].reset_index(drop=True)
    fitted = (runs["experiment"] == "sgd").to_numpy()
    gap = runs["gap"].to_numpy(float)
    columns = {}
    for name, choices in forms(runs).items():
        residuals = [
            _residuals_of_lines(values, gap, runs["network"], fitted) for values in choices
        ]
        columns[f"by {name}"] = gap - min(
            residuals, key=lambda values: np.square(values[fitted]).sum()
        )
    return runs.assign(**columns)


def _residuals_of_lines(values, gap, networks, fitted):
    residuals = np.empty(len(gap))
    for network in networks.unique():
        own = (networks == network).to_numpy()
        if np.ptp(values[own & fitted]) == 0:
            slope, level = 0.0, gap[own & fitted].mean()
        else:
            slope, level = np.polyfit(values[own & fitted], gap[own & fitted], 1)
        residuals[own] = gap[own] - level - slope * values[own]
    return residuals


def transfer_scores(runs: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """By measure: R² over the predicted settings, and R² of log(count) less it, bootstrapped over networks.

    An R² compares the squared errors of the `predictions` with those of each network's mean SGD
    gap.
    """
    table = predictions(runs)
    sgd = table["experiment"] == "sgd"
    others = table[~sgd]
    errors = others.filter(like="by ").rename(columns=lambda name: name.removeprefix("by "))
    errors = errors.rsub(others["gap"], axis=0) ** 2
    total = (
        others["gap"] - others["network"].map(table[sgd].groupby("network")["gap"].mean())
    ) ** 2
    errors, total = (
        squares.groupby(others["network"], sort=False).sum() for squares in (errors, total)
    )
    options = {"units": total.index, "seed": seed, "unit": "networks"}
    total, rows = total.to_numpy(), []
    for name in errors:
        own, more = errors[name].to_numpy(), (errors[name] - errors[COUNT]).to_numpy()
        gain = np.round(total - own, 12)  # 0 for what is constant within networks, not 1e-16
        row = {
            "measure": name,
            "R2": bootstrap(lambda w, gain=gain: (w @ gain) / (w @ total), **options),
        }
        row["difference"] = bootstrap(lambda w, more=more: (w @ more) / (w @ total), **options)
        rows.append(row)
    return pd.DataFrame(rows)


def decide_transfer(table: pd.DataFrame) -> str:
    """Supports: R² at least 0.5 and resolved above the best rival's; refutes: not above that, or below 0.5."""
    found, rival = table.set_index("measure"), best_rival(table, "R2")
    count = found["R2"][COUNT].value
    if count < 0.5 or found["R2"][rival].value >= count:
        return "refutes"
    return "supports" if found["difference"][rival].low > 0 else "inconclusive"


def slope_across_settings(sgd: pd.DataFrame) -> float:
    """Slope of the gap on log(count) over ResNet18's SGD settings of study 2."""
    own = sgd[(sgd["network"] == "ResNet18") & (sgd["experiment"] == "sgd") & sgd["interpolates"]]
    return float(np.polyfit(own[COUNT], own["gap"], 1)[0])


def changes_from_control(runs: pd.DataFrame) -> pd.DataFrame:
    """The treated runs of study 3 that interpolate, with arm, x and y: the changes of log(count) and of the gap from
    the control of their seed."""
    runs = runs[runs["interpolates"]]
    control = runs[runs["experiment"] == "control"].set_index("seed")
    tables = []
    for arm, prefix in ARMS.items():
        treated = runs[runs["experiment"].str.startswith(prefix) & runs["seed"].isin(control.index)]
        before = control.loc[treated["seed"], [COUNT, "gap"]].to_numpy()
        tables.append(
            treated.assign(
                arm=arm, x=treated[COUNT] - before[:, 0], y=treated["gap"] - before[:, 1]
            )
        )
    return pd.concat(tables, ignore_index=True)


def intervention_slopes(runs: pd.DataFrame) -> pd.DataFrame:
    """By arm: the mean over seeds of the slope of the gap's change on that of log(count), and the largest mean move."""
    rows = []
    for arm, changes in changes_from_control(runs).groupby("arm", sort=False):
        slopes = changes.groupby("seed").apply(
            lambda g: (g["x"] * g["y"]).sum() / (g["x"] ** 2).sum()
        )
        moves = changes.groupby("experiment")["x"].mean()
        rows.append(
            {
                "arm": arm,
                "slope": mean(slopes.to_numpy(), unit="seeds"),
                "moved": moves[moves.abs().idxmax()],
            }
        )
    return pd.DataFrame(rows)


def decide_arm(slope: Estimate, moved: float, across: float) -> str:
    """Supports: interval above half the slope across settings; refutes: below it; a count that moved is needed."""
    if abs(moved) < 0.4:
        return "not moved"
    if slope.low > across / 2:
        return "supports"
    return "refutes" if slope.high < across / 2 else "inconclusive"


def slopes_by_measure(runs: pd.DataFrame, sgd: pd.DataFrame, arm: str) -> pd.DataFrame:
    """Effect of a treatment of study 3 by every measure: the slope of the gap's change on the
    measure's change, over the slope of gap on measure across ResNet18's SGD settings of study 2.

    Each measure is in the form that fits the gap of those settings better. Columns: measure, ratio
    (mean over seeds) and passes: whether its interval lies above a half, the bar of the count.
    """
    runs = runs[runs["interpolates"]]
    sgd = sgd[(sgd["network"] == "ResNet18") & (sgd["experiment"] == "sgd") & sgd["interpolates"]]
    gap, gap_of_settings = runs["gap"].to_numpy(float), sgd["gap"].to_numpy(float)
    treated = runs["experiment"].str.startswith(ARMS[arm]).to_numpy()
    control = (runs["experiment"] == "control").to_numpy()
    of_settings, seeds, rows = forms(sgd), runs["seed"].to_numpy(), []
    for name, choices in forms(runs).items():
        pairs = list(zip(of_settings.get(name, []), choices, strict=False))
        if not pairs or name == PLAIN:
            continue
        settings, values = max(
            pairs, key=lambda pair: abs(np.corrcoef(pair[0], gap_of_settings)[0, 1])
        )
        slope, ratios = np.polyfit(settings, gap_of_settings, 1)[0], []
        for seed in np.unique(seeds[treated]):
            own, start = treated & (seeds == seed), control & (seeds == seed)
            x, y = values[own] - values[start], gap[own] - gap[start]
            ratios.append((x @ y) / (x @ x) / slope)
        ratio = mean(ratios, unit="seeds")
        rows.append({"measure": name, "ratio": ratio, "passes": ratio.low > 0.5})
    return pd.DataFrame(rows)


def sign_errors(runs: pd.DataFrame, outcome: str = "gap", *, seed: int = 0) -> pd.DataFrame:
    """By axis: the share of pairs of levels in which the larger count goes with the smaller gap, worst first.

    With outcome "test_accuracy": the larger count with the larger accuracy. Units: base setting and
    seed.
    """
    sign = {"gap": 1, "test_accuracy": -1}[outcome]
    rows = []
    for axis, levels in AXES.items():
        wrong, pairs = [], []
        for _, unit in runs[runs["experiment"].isin(levels)].groupby(["lr", "seed"]):
            changes = [
                b - a for a, b in itertools.combinations(unit[[COUNT, outcome]].to_numpy(), 2)
            ]
            wrong.append(sum(sign * change.prod() < 0 for change in changes))
            pairs.append(len(changes))
        wrong, pairs = np.array(wrong, float), np.array(pairs, float)
        if not pairs.any():
            continue
        share = bootstrap(
            lambda w, wrong=wrong, pairs=pairs: (w @ wrong) / (w @ pairs),
            range(len(pairs)),
            seed=seed,
            unit="bases",
        )
        if len(pairs) >= MIN_UNITS and np.isnan(
            share.low
        ):  # the same share in every unit, and so in every resample
            share = replace(share, low=share.value, high=share.value)
        rows.append({"axis": axis, "sign-error": share, "decision": decide_axis(share)})
    return pd.DataFrame(rows).sort_values(
        "sign-error", key=lambda c: c.map(lambda e: -e.value), ignore_index=True
    )


def decide_axis(share: Estimate) -> str:
    """Supports: upper end below a half; refutes: lower end above it."""
    if share.high < 0.5:
        return "supports"
    return "refutes" if share.low > 0.5 else "inconclusive"


def looks(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Two tables of the runs of study-independent: when the training loss first fell below 0.01, and at the end.

    `updates` are the steps so far. Runs that never reached that loss are left out of the first.
    """
    n_train = load_campaign("study-independent").dataset["n_train"]
    end = runs.assign(updates=np.ceil(n_train / runs["batch_size"]) * runs["epochs"])
    origin = "reference" if (runs["origin"] == "reference").all() else None
    points = load_evolution("study-independent", origin)
    points = points[points["reached_loss"].notna() & points["run_id"].isin(runs["run_id"])]
    updates = np.ceil(n_train / points["batch_size"]) * points["epoch"]
    known = runs.set_index("run_id")["interpolates"]
    reached = points.assign(updates=updates, interpolates=points["run_id"].map(known))
    return {"equal loss": reached.assign(**{COUNT: np.log(reached["count_main"])}), "end": end}


def partial_correlations(
    runs: pd.DataFrame, *, seed: int = 0, num_resamples: int = 10_000, **options
) -> pd.DataFrame:
    """By measure: the correlation with the gap of what is left of both beyond the settings, as the protocol says.

    num_resamples: of the bootstrap that stands beside Fisher's interval; 0 for none. options: of
        `beyond_settings`.
    """
    runs = runs[runs["interpolates"]].reset_index(drop=True)
    found, rows = forms(runs), []
    columns = [
        runs["gap"].to_numpy(float),
        *(choice for choices in found.values() for choice in choices),
    ]
    gap, *left = beyond_settings(runs, np.column_stack(columns), seed, **options).T
    for name, choices in found.items():
        residuals, left = left[: len(choices)], left[len(choices) :]
        best = max(residuals, key=lambda values: abs(_correlation(values, gap)))
        r = _correlation(best, gap)
        if not np.isfinite(r) and name not in (
            COUNT,
            PLAIN,
        ):  # the number of parameters: constant within a network
            continue
        row = {"measure": name, "r": _with_fisher(r, len(runs), 2)}
        if num_resamples:
            row["bootstrap"] = bootstrap(
                lambda w, v=best: _correlations(v, gap, w),
                range(len(gap)),
                num_resamples=num_resamples,
                seed=seed,
                unit="runs",
            )
        rows.append(row)
    return pd.DataFrame(rows)


def beyond_settings(
    runs: pd.DataFrame,
    values: np.ndarray,
    seed: int,
    splits: int = SPLITS,
    runs_a_term: int = RUNS_A_TERM,
) -> np.ndarray:
    """Residuals (n, m) of the columns of `values`, of unit variance within each network, from the settings.

    Ridge regression on a cubic in log lr, log batch size and log updates, or on these alone where a
    network has fewer than `runs_a_term` runs for each term of the cubic. A run is predicted by a
    fit without its fold, a tenth of the network's runs; predictions are means over `splits` random
    partitions into folds, so that no one partition decides. Nothing is fitted to fewer than three
    runs.
    """
    settings = np.log(runs[["lr", "batch_size", "updates"]].to_numpy(float))
    residuals = np.empty(values.shape)
    for network in runs["network"].unique():
        own = (runs["network"] == network).to_numpy()
        left = values[own]
        if len(left) >= 3:
            degree = 3 if len(left) >= runs_a_term * TERMS_OF_CUBIC else 1
            left = left - _predicted(settings[own], left, degree, seed, splits)
        spread = left.std(axis=0)
        residuals[own] = (left - left.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return residuals


def _predicted(settings, values, degree, seed, splits):
    """Cross-validated predictions of `values` (n, m), means over random partitions into ten folds."""
    total = np.zeros(values.shape)
    powers = PolynomialFeatures(degree, include_bias=False).fit(settings).powers_
    for split in range(splits):
        folds = KFold(min(10, len(values)), shuffle=True, random_state=seed + SPLITS_APART * split)
        for fitted, left_out in folds.split(settings):
            terms = np.prod(_scaled(settings, fitted)[:, None] ** powers, axis=2)
            terms = _scaled(terms, fitted)
            total[left_out] += ridge_predictions(terms[fitted], values[fitted], terms[left_out])
    return total / splits


def _scaled(values, rows):
    """Columns with mean 0 and standard deviation 1 over `rows`."""
    return (values - values[rows].mean(axis=0)) / np.where(
        np.ptp(values[rows], axis=0) > 0, values[rows].std(axis=0), 1
    )


def split_by_split(runs: pd.DataFrame, seeds: int = 60) -> pd.DataFrame:
    """Study 5 as registered, with a single partition into folds: by seed, r of the count and the decision."""
    rows = []
    for seed in range(seeds):
        table = partial_correlations(runs, seed=seed, splits=1, runs_a_term=0, num_resamples=0)
        r = table.set_index("measure")["r"][COUNT]
        rows.append({"seed": seed, "r": r.value, "decision": decide_independent(table)})
    return pd.DataFrame(rows)


def ridge_predictions(terms: np.ndarray, values: np.ndarray, new_terms: np.ndarray) -> np.ndarray:
    """Ridge regressions of each column of `values` (n, m) on `terms` (n, k), at `new_terms` (p, k): (p, m).

    Each column has its own penalty, of `PENALTIES` the one with the least squared leave-one-out
    error: scikit-learn's RidgeCV with alpha_per_target, whose thousands of fits a page cannot wait
        for.
    """
    centre, level = terms.mean(axis=0), values.mean(axis=0)
    u, s, vt = np.linalg.svd(terms - centre, full_matrices=False)
    inner = u.T @ (values - level)
    kept = s**2 / (s**2 + PENALTIES[:, None])  # (penalties, k)
    left = values - level - u @ (kept[:, :, None] * inner)  # (penalties, n, m)
    leverage = 1 / len(terms) + kept @ (u**2).T
    errors = ((left / (1 - leverage)[:, :, None]) ** 2).sum(axis=1)
    shrunk = (s / (s**2 + PENALTIES[errors.argmin(axis=0)][:, None])).T  # (k, m)
    return level + (new_terms - centre) @ vt.T @ (shrunk * inner)


def decide_independent(table: pd.DataFrame) -> str:
    """Supports: interval above 0.2 and above the best rival; refutes: upper end below 0.2 or the best rival."""
    found = table.set_index("measure")["r"]
    rival = best_rival(table)
    best = abs(found[rival].value) if rival else 0.0
    r = found[COUNT]
    if r.high < 0.2 or r.high < best:
        return "refutes"
    return "supports" if r.low > 0.2 and r.value > best else "inconclusive"


def best_rival(table: pd.DataFrame, score: str = "r") -> str:
    """The rival with the largest |r| in a table of the decisions, or with the largest "R2"; "" where it has none."""
    rivals = table[~table["measure"].isin([COUNT, PLAIN])]
    values = {
        rival: estimate.value
        for rival, estimate in zip(rivals["measure"], rivals[score], strict=True)
    }
    return max(
        values, key=lambda rival: abs(values[rival]) if score == "r" else values[rival], default=""
    )


def _centred(values, groups):
    frame = pd.Series(values)
    return (frame - frame.groupby(groups.to_numpy()).transform("mean")).to_numpy()


def _correlation(x, y):
    """Pearson's correlation about zero: x and y are centred within their groups already."""
    return float(_correlations(x, y, np.ones((1, len(x))))[0])


def _correlations(x, y, weights):
    with np.errstate(invalid="ignore"):  # one run has no correlation
        return (weights @ (x * y)) / np.sqrt((weights @ x**2) * (weights @ y**2))


def _with_fisher(r, runs, taken):
    """With the interval of `runs` less as many as numbers were taken out of them beside a common mean."""
    return Estimate(r, *fisher_interval(r, runs, taken), runs, "runs")
