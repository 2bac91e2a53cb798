"""Decision rules of the five studies of the first round, as registered in `book/protocol.md`."""

import functools
import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold
from sklearn.preprocessing import PolynomialFeatures

from rc_studies.studies import ARMS, AXES, COUNT, RIVALS, decision
from rc_utils.correlation import MIN_UNITS, Estimate, bootstrap, fisher_interval, mean
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import load_evolution
from rc_utils.validation import require

PLAIN = "count"  # shown beside log(count); decides nothing
SPLITS_APART = 10_000  # step between the random states of the partitions of one seed
MOVED = 0.4  # mean change of log(count) from which an arm of study 3 is decided
TERMS_OF_CUBIC = 19  # non-constant terms of a cubic polynomial in three variables
PENALTIES = np.logspace(-3, 3, 13)
SETTINGS_ACROSS = "network == 'ResNet18' and experiment == 'sgd' and interpolates"  # of study 2


def forms(runs: pd.DataFrame) -> dict[str, list[np.ndarray]]:
    """Forms of each measure by name: its values and, for a positive rival, their logarithm.

    A rival that is constant within a network, or not finite in a run, is left out.
    """
    log_count = runs[COUNT].to_numpy(float)
    found = {COUNT: [log_count], PLAIN: [np.exp(log_count)]}
    for column, name in RIVALS.items():
        values = runs.get(column, pd.Series(np.nan, runs.index)).to_numpy(float)
        within = pd.Series(values).groupby(runs["network"].to_numpy()).agg(np.ptp)
        if np.isfinite(values).all() and within.min() > 0:
            found[name] = [values, np.log(values)] if (values > 0).all() else [values]
    return found


def seed_correlations(runs: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Correlation of each measure with the gap by network, both centred within their groups.

    `r` has Fisher's interval, which decides; `bootstrap`: r with that of a bootstrap. `difference`:
    |r of log count| - |r|, with the signs of the sample. A rival has the form with the larger |r|.
    """
    rows = []
    for network, group in runs[runs["interpolates"]].groupby("network", sort=False):
        groups = group["experiment"].to_numpy()

        def centred(values, groups=groups):
            return values - pd.DataFrame(values).groupby(groups).transform("mean").to_numpy()

        gap, measures = _closest_forms(group, centred)
        controls = group["experiment"].nunique() - 1
        found = {name: _fisher(values, gap, controls) for name, values in measures.items()}
        signed = {name: np.sign(found[name].value) * values for name, values in measures.items()}
        for name, values in measures.items():
            own = functools.partial(_correlations, values, gap)

            def difference(weights, gap=gap, count=signed[COUNT], rival=signed[name]):
                return _correlations(count, gap, weights) - _correlations(rival, gap, weights)

            options = {"units": range(len(gap)), "seed": seed, "unit": "runs"}
            intervals = bootstrap(own, **options), bootstrap(difference, **options)
            rows.append((network, name, found[name], *intervals))
    return pd.DataFrame(rows, columns=["network", "measure", "r", "bootstrap", "difference"])


def decide_seeds(table: pd.DataFrame) -> str:
    """Supports: interval above 0 and r >= 0.5 in both networks; refutes: upper ends below 0.3."""
    found = table[table["measure"] == COUNT]["r"]
    both = len(found) > 1
    supports = both and all(r.low > 0 and r.value >= 0.5 for r in found)
    return decision(supports, both and all(r.high < 0.3 for r in found))


def predictions(runs: pd.DataFrame) -> pd.DataFrame:
    """Interpolating runs with columns `by <measure>`: the gap predicted by a line in the measure.

    A line is fitted to the experiment "sgd" of each network; networks without such runs are left
    out. A measure has the form with the smaller squared error over all lines.
    """
    runs = runs[runs["interpolates"]]
    with_sgd = runs.loc[runs["experiment"] == "sgd", "network"]
    runs = runs[runs["network"].isin(with_sgd)].reset_index(drop=True)
    fitted = (runs["experiment"] == "sgd").to_numpy()
    gap = runs["gap"].to_numpy(float)
    columns = {}
    for name, choices in forms(runs).items():
        residuals = [_residuals_of_lines(form, gap, runs["network"], fitted) for form in choices]
        columns[f"by {name}"] = gap - min(residuals, key=lambda r: np.square(r[fitted]).sum())
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
    """R² of each measure over the predicted settings, and R² of log(count) minus it.

    R² = 1 - (squared errors of `predictions`) / (squared differences from the network's mean SGD
    gap). The bootstrap is over networks.
    """
    table = predictions(runs)
    is_sgd = table["experiment"] == "sgd"
    others = table[~is_sgd]
    gap, network = others["gap"], others["network"]
    predicted = others.filter(like="by ").rename(columns=lambda name: name.removeprefix("by "))
    level = table[is_sgd].groupby("network")["gap"].mean()
    errors = (predicted.sub(gap, axis=0) ** 2).groupby(network, sort=False).sum()
    total = ((gap - network.map(level)) ** 2).groupby(network, sort=False).sum()
    options = {"units": total.index, "seed": seed, "unit": "networks"}
    total, rows = total.to_numpy(), []
    for name in errors:
        own, excess = errors[name].to_numpy(), (errors[name] - errors[COUNT]).to_numpy()
        gain = np.round(total - own, 12)  # exactly 0 for a measure that predicts the mean SGD gap
        score = bootstrap(functools.partial(_ratio, gain, total), **options)
        difference = bootstrap(functools.partial(_ratio, excess, total), **options)
        rows.append({"measure": name, "R2": score, "difference": difference})
    return pd.DataFrame(rows)


def decide_transfer(table: pd.DataFrame) -> str:
    """Refutes: R² below 0.5, or not above the best rival's; else supports: difference above 0.

    Raises ValueError without a rival.
    """
    found, rival = table.set_index("measure"), best_rival(table, "R2")
    require(rival, "no rival has an R² to compare with")
    count = found["R2"][COUNT].value
    refuted = count < 0.5 or found["R2"][rival].value >= count
    return decision(not refuted and found["difference"][rival].low > 0, refuted)


def slope_across_settings(sgd: pd.DataFrame) -> float:
    """Slope of the gap on log(count) over ResNet18's SGD settings of study 2."""
    own = sgd.query(SETTINGS_ACROSS)
    return float(np.polyfit(own[COUNT], own["gap"], 1)[0])


def changes_from_control(runs: pd.DataFrame) -> pd.DataFrame:
    """Interpolating treated runs by `arm`; x, y: log(count), gap minus those of the control."""
    runs = runs[runs["interpolates"]]
    control = runs[runs["experiment"] == "control"].set_index("seed")
    tables = []
    for arm, prefix in ARMS.items():
        treated = runs[runs["experiment"].str.startswith(prefix) & runs["seed"].isin(control.index)]
        before = control.loc[treated["seed"], [COUNT, "gap"]].to_numpy().T
        x, y = treated[COUNT] - before[0], treated["gap"] - before[1]
        tables.append(treated.assign(arm=arm, x=x, y=y))
    return pd.concat(tables, ignore_index=True)


def intervention_slopes(runs: pd.DataFrame) -> pd.DataFrame:
    """For each arm: mean over seeds of the slope of y on x, and the largest mean change of x."""
    rows = []
    for arm, changes in changes_from_control(runs).groupby("arm", sort=False):
        slope = mean(changes.groupby("seed").apply(_slope_of_changes), unit="seeds")
        moves = changes.groupby("experiment")["x"].mean()
        rows.append({"arm": arm, "slope": slope, "moved": moves[moves.abs().idxmax()]})
    return pd.DataFrame(rows)


def _slope_of_changes(changes):
    return (changes["x"] * changes["y"]).sum() / (changes["x"] ** 2).sum()


def decide_arm(slope: Estimate, moved: float, across: float) -> str:
    """Supports: interval above half of `across`; refutes: below it; not moved: |moved| < 0.4."""
    if not abs(moved) >= MOVED:  # or NaN
        return "not moved"
    return decision(slope.low > across / 2, slope.high < across / 2)


def slopes_by_measure(runs: pd.DataFrame, sgd: pd.DataFrame, arm: str) -> pd.DataFrame:
    """Effect of an arm of study 3 by measure, relative to the settings of study 2.

    `ratio`: slope of the gap's change on the measure's change, mean over seeds, divided by the
    slope of gap on measure across ResNet18's SGD settings. A measure has the form that fits these
    settings better. `passes`: the interval of the ratio is above a half, as `decide_arm` asks.
    """
    runs, sgd = runs[runs["interpolates"]], sgd.query(SETTINGS_ACROSS)
    gap, sgd_gap = runs["gap"].to_numpy(float), sgd["gap"].to_numpy(float)
    treated = runs["experiment"].str.startswith(ARMS[arm]).to_numpy()
    control = (runs["experiment"] == "control").to_numpy()
    of_settings, seeds, rows = forms(sgd), runs["seed"].to_numpy(), []
    for name, choices in forms(runs).items():
        pairs = list(zip(of_settings.get(name, []), choices, strict=False))
        if not pairs or name == PLAIN:
            continue
        settings, values = max(pairs, key=lambda pair: abs(np.corrcoef(pair[0], sgd_gap)[0, 1]))
        slope, ratios = np.polyfit(settings, sgd_gap, 1)[0], []
        for seed in np.intersect1d(seeds[treated], seeds[control]):
            own, start = treated & (seeds == seed), control & (seeds == seed)
            x, y = values[own] - values[start], gap[own] - gap[start]
            ratios.append((x @ y) / (x @ x) / slope)
        ratio = mean(ratios, unit="seeds")
        rows.append({"measure": name, "ratio": ratio, "passes": ratio.low > 0.5})
    return pd.DataFrame(rows)


def sign_errors(runs: pd.DataFrame, outcome: str = "gap", *, seed: int = 0) -> pd.DataFrame:
    """Share of pairs of levels, by axis, whose larger count has the smaller gap; worst axis first.

    With outcome "test_accuracy": has the larger accuracy. Pairs with equal counts or outcomes are
    left out. Units of the bootstrap: lr and seed.
    """
    sign, rows = {"gap": 1, "test_accuracy": -1}[outcome], []
    for axis, levels in AXES.items():
        wrong, pairs = [], []
        for _, unit in runs[runs["experiment"].isin(levels)].groupby(["lr", "seed"]):
            both = itertools.combinations(np.asarray_chkfinite(unit[[COUNT, outcome]]), 2)
            products = [sign * (b - a).prod() for a, b in both]
            if any(products):
                wrong.append(sum(product < 0 for product in products))
                pairs.append(np.count_nonzero(products))
        wrong, pairs = np.array(wrong, float), np.array(pairs, float)
        if not len(pairs):
            continue
        share_of = functools.partial(_ratio, wrong, pairs)
        share = bootstrap(share_of, range(len(pairs)), seed=seed, unit="bases")
        if len(pairs) >= MIN_UNITS and np.isnan(share.low):  # every resample has the same share
            share = replace(share, low=share.value, high=share.value)
        rows.append({"axis": axis, "sign-error": share, "decision": decide_axis(share)})
    table = pd.DataFrame(rows, columns=["axis", "sign-error", "decision"])
    shares = table["sign-error"].map(lambda share: share.value)
    order = shares.sort_values(ascending=False, kind="stable").index  # ties as in `AXES`
    return table.loc[order].reset_index(drop=True)


def decide_axis(share: Estimate) -> str:
    """Supports: upper end below a half; refutes: lower end above it."""
    return decision(share.high < 0.5, share.low > 0.5)


def looks(runs: pd.DataFrame, count: str = "main") -> dict[str, pd.DataFrame]:
    """The runs of study 5 when the loss first fell below 0.01 ("equal loss"), and at the "end".

    `updates`: steps so far. count: label of the count at equal loss, which some runs never reach.
    """
    n_train = load_campaign("study-independent").dataset["n_train"]
    end = runs.assign(updates=np.ceil(n_train / runs["batch_size"]) * runs["epochs"])
    points = load_evolution("study-independent", "reference")
    points = points[points["reached_loss"].notna() & points["run_id"].isin(runs["run_id"])]
    updates = np.ceil(n_train / points["batch_size"]) * points["epoch"]
    known = runs.set_index("run_id")["interpolates"]
    reached = points.assign(updates=updates, interpolates=points["run_id"].map(known))
    return {"equal loss": reached.assign(**{COUNT: np.log(reached[f"count_{count}"])}), "end": end}


def partial_correlations(
    runs: pd.DataFrame, *, seed: int = 0, num_resamples: int = 10_000, **options
) -> pd.DataFrame:
    """Partial correlation of each measure with the gap, given the settings.

    num_resamples: of the bootstrap beside Fisher's interval; 0 for no bootstrap.
    options: of `beyond_settings`.
    """
    runs = runs[runs["interpolates"]].reset_index(drop=True)
    beyond, rows = functools.partial(beyond_settings, runs, seed=seed, **options), []
    gap, measures = _closest_forms(runs, beyond)
    resampled = {"units": range(len(gap)), "num_resamples": num_resamples, "seed": seed}
    for name, best in measures.items():
        row = {"measure": name, "r": _fisher(best, gap, 2)}
        if num_resamples:
            of_best = functools.partial(_correlations, best, gap)
            row["bootstrap"] = bootstrap(of_best, **resampled, unit="runs")
        rows.append(row)
    return pd.DataFrame(rows)


def beyond_settings(
    runs: pd.DataFrame, values: np.ndarray, seed: int, splits: int = 200, runs_a_term: int = 3
) -> np.ndarray:
    """Residuals of `values` (n, m) given the settings, scaled to unit variance in each network.

    Ridge regression on a cubic in log lr, log batch size and log updates, or on these alone if the
    network has fewer than `runs_a_term` runs per term; below 3 runs, values are centred only. Means
    of ten-fold predictions over `splits` random partitions, so that no single partition decides.
    """
    settings = np.log(runs[["lr", "batch_size", "updates"]].to_numpy(float))
    residuals = np.empty(values.shape)
    for network in runs["network"].unique():
        own = (runs["network"] == network).to_numpy()
        rest = values[own]
        if len(rest) >= 3:
            degree = 3 if len(rest) >= runs_a_term * TERMS_OF_CUBIC else 1
            rest = rest - _predicted(settings[own], rest, degree, seed, splits)
        spread = rest.std(axis=0)
        residuals[own] = (rest - rest.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return residuals


def _predicted(settings, values, degree, seed, splits):
    """Cross-validated predictions of `values` (n, m), averaged over partitions into ten folds."""
    total = np.zeros(values.shape)
    powers = PolynomialFeatures(degree, include_bias=False).fit(settings).powers_
    for split in range(splits):
        folds = KFold(min(10, len(values)), shuffle=True, random_state=seed + SPLITS_APART * split)
        for fitted, left_out in folds.split(settings):
            ladder = _scaled(settings, fitted)[:, :, None] ** np.arange(degree + 1)
            terms = _scaled(np.prod(ladder[:, [0, 1, 2], powers], axis=2), fitted)
            total[left_out] += ridge_predictions(terms[fitted], values[fitted], terms[left_out])
    return total / splits


def _scaled(values, rows):
    """Columns with mean 0 and standard deviation 1 over `rows`."""
    own = values[rows]
    spread = np.where(np.ptp(own, axis=0) > 0, own.std(axis=0), 1)
    return (values - own.mean(axis=0)) / spread


def split_by_split(runs: pd.DataFrame, seeds: int = 60) -> pd.DataFrame:
    """Study 5 as registered, with one partition into folds: r and decision, one row per seed."""
    rows = []
    for seed in range(seeds):
        table = partial_correlations(runs, seed=seed, splits=1, runs_a_term=0, num_resamples=0)
        r = table.set_index("measure")["r"][COUNT]
        rows.append({"seed": seed, "r": r.value, "decision": decide_independent(table)})
    return pd.DataFrame(rows)


def ridge_predictions(terms: np.ndarray, values: np.ndarray, new_terms: np.ndarray) -> np.ndarray:
    """Predictions (p, m) at `new_terms` of ridge regressions of `values` (n, m) on `terms` (n, k).

    Each column of `values` has the penalty of `PENALTIES` with the least squared leave-one-out
    error, as in scikit-learn's RidgeCV with alpha_per_target, too slow for thousands of fits.
    """
    centre, level = terms.mean(axis=0), values.mean(axis=0)
    u, s, vt = np.linalg.svd(terms - centre, full_matrices=False)
    inner = u.T @ (values - level)
    shrinkage = s**2 / (s**2 + PENALTIES[:, None])  # (penalties, k)
    residuals = values - level - u @ (shrinkage[:, :, None] * inner)  # (penalties, n, m)
    leverage = 1 / len(terms) + shrinkage @ (u**2).T
    errors = ((residuals / (1 - leverage)[:, :, None]) ** 2).sum(axis=1)
    factors = (s / (s**2 + PENALTIES[errors.argmin(axis=0)][:, None])).T  # (k, m)
    return level + (new_terms - centre) @ vt.T @ (factors * inner)


def decide_independent(table: pd.DataFrame) -> str:
    """Supports: interval above 0.2, r above the best rival; refutes: upper end below either."""
    found, rival = table.set_index("measure")["r"], best_rival(table)
    r, best = found[COUNT], abs(found[rival].value) if rival else 0.0
    return decision(r.low > 0.2 and r.value > best, r.high < 0.2 or r.high < best)


def best_rival(table: pd.DataFrame, score: str = "r") -> str:
    """Name of the rival with the largest |r|, or "R2", in a study's table; "" if it has none."""
    rivals = table[~table["measure"].isin([COUNT, PLAIN])]
    values = [abs(each.value) if score == "r" else each.value for each in rivals[score]]
    by_name = {k: v for k, v in zip(rivals["measure"], values, strict=True) if not np.isnan(v)}
    return max(by_name, key=by_name.get, default="")


def _ratio(part, whole, weights):
    return (weights @ part) / (weights @ whole)


def _closest_forms(runs, residuals_of):
    """Residuals of the gap, and by name of each measure in the form with the larger |r|.

    residuals_of: function of columns (n, m).
    """
    found, measures = forms(runs), {}
    columns = [runs["gap"].to_numpy(float), *itertools.chain(*found.values())]
    gap, *residuals = residuals_of(np.column_stack(columns)).T
    for name, choices in found.items():
        own, residuals = residuals[: len(choices)], residuals[len(choices) :]
        measures[name] = max(own, key=lambda values: abs(_correlation(values, gap)))
    return gap, measures


def _correlation(x, y):
    """Pearson's correlation of x and y, which are centred already."""
    return float(_correlations(x, y, np.ones((1, len(x))))[0])


def _correlations(x, y, weights):
    with np.errstate(invalid="ignore"):  # one run has no correlation
        return (weights @ (x * y)) / np.sqrt((weights @ x**2) * (weights @ y**2))


def _fisher(x, y, taken):
    """Correlation with Fisher's interval; `taken`: parameters fitted beyond a common mean."""
    r, runs = _correlation(x, y), len(x)
    return Estimate(r, *fisher_interval(r, runs - taken), runs, "runs")
