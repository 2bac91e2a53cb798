"""Decision rules of the five studies of the count, as `book/protocol.md` says."""

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

PLAIN = "count"  # stands beside log(count) and decides nothing
SPLITS_APART = 10_000  # what the random states of the partitions of one seed differ by
TERMS_OF_CUBIC = 19  # of three variables
PENALTIES = np.logspace(-3, 3, 13)
SETTINGS_ACROSS = "network == 'ResNet18' and experiment == 'sgd' and interpolates"  # of study 2


def forms(runs: pd.DataFrame) -> dict[str, list[np.ndarray]]:
    """Each measure by name: as it is and, a rival that is positive, by its logarithm."""
    log_count = runs[COUNT].to_numpy(float)
    found = {COUNT: [log_count], PLAIN: [np.exp(log_count)]}
    for column, name in RIVALS.items():
        values = runs.get(column, pd.Series(np.nan, runs.index)).to_numpy(float)
        within = pd.Series(values).groupby(runs["network"].to_numpy()).agg(np.ptp)
        if np.isfinite(values).all() and within.min() > 0:
            found[name] = [values, np.log(values)] if (values > 0).all() else [values]
    return found


def seed_correlations(runs: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """By network and measure: r with the gap, both less the means of their groups, with intervals.

    `difference` is |r of log count| - |r|, resampled with the signs of the sample. A rival's form
    is the one with the larger |r|. Fisher's interval decides; the bootstrap's stands beside it.
    """
    rows = []
    for network, group in runs[runs["interpolates"]].groupby("network", sort=False):
        groups = group["experiment"].to_numpy()

        def centred(values, groups=groups):
            return values - pd.DataFrame(values).groupby(groups).transform("mean").to_numpy()

        gap, measures = _closest_forms(group, centred)
        controls = group["experiment"].nunique() - 1
        found = {name: _fisher(values, gap, controls) for name, values in measures.items()}
        turned = {name: np.sign(found[name].value) * values for name, values in measures.items()}
        for name, values in measures.items():
            own = functools.partial(_correlations, values, gap)

            def difference(weights, gap=gap, count=turned[COUNT], rival=turned[name]):
                return _correlations(count, gap, weights) - _correlations(rival, gap, weights)

            resampled = {"units": range(len(gap)), "seed": seed, "unit": "runs"}
            both = [bootstrap(statistic, **resampled) for statistic in (own, difference)]
            rows.append((network, name, found[name], *both))
    return pd.DataFrame(rows, columns=["network", "measure", "r", "bootstrap", "difference"])


def decide_seeds(table: pd.DataFrame) -> str:
    """Supports: r above 0, at least 0.5, in both networks; refutes: upper end below 0.3 in both."""
    found = table[table["measure"] == COUNT]["r"]
    both = len(found) > 1
    supports = both and all(r.low > 0 and r.value >= 0.5 for r in found)
    return decision(supports, both and all(r.high < 0.3 for r in found))


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
        left = [_residuals_of_lines(values, gap, runs["network"], fitted) for values in choices]
        columns[f"by {name}"] = gap - min(left, key=lambda one: np.square(one[fitted]).sum())
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
    """By measure: R² over the predicted settings, and R² of log(count) less it.

    An R² compares the squared errors of the `predictions` with those of each network's mean SGD
    gap; the bootstrap is over networks.
    """
    table = predictions(runs)
    sgd = table["experiment"] == "sgd"
    others = table[~sgd]
    errors = others.filter(like="by ").rename(columns=lambda name: name.removeprefix("by "))
    errors = errors.rsub(others["gap"], axis=0) ** 2
    level = table[sgd].groupby("network")["gap"].mean()
    total = (others["gap"] - others["network"].map(level)) ** 2
    errors, total = (one.groupby(others["network"], sort=False).sum() for one in (errors, total))
    options = {"units": total.index, "seed": seed, "unit": "networks"}
    total, rows = total.to_numpy(), []
    for name in errors:
        own, more = errors[name].to_numpy(), (errors[name] - errors[COUNT]).to_numpy()
        gain = np.round(total - own, 12)  # 0 for what is constant within networks, not 1e-16
        score = bootstrap(functools.partial(_ratio, gain, total), **options)
        difference = bootstrap(functools.partial(_ratio, more, total), **options)
        rows.append({"measure": name, "R2": score, "difference": difference})
    return pd.DataFrame(rows)


def decide_transfer(table: pd.DataFrame) -> str:
    """Supports: R² from 0.5, resolved above the best rival's; refutes: less, or not above that."""
    found, rival = table.set_index("measure"), best_rival(table, "R2")
    count = found["R2"][COUNT].value
    refuted = count < 0.5 or found["R2"][rival].value >= count
    return decision(not refuted and found["difference"][rival].low > 0, refuted)


def slope_across_settings(sgd: pd.DataFrame) -> float:
    """Slope of the gap on log(count) over ResNet18's SGD settings of study 2."""
    own = sgd.query(SETTINGS_ACROSS)
    return float(np.polyfit(own[COUNT], own["gap"], 1)[0])


def changes_from_control(runs: pd.DataFrame) -> pd.DataFrame:
    """Interpolating runs by `arm`, with x, y: log(count), gap less those of the seed's control."""
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
    """By arm: slope of the gap's change on that of log(count), over seeds; largest mean move."""
    rows = []
    for arm, changes in changes_from_control(runs).groupby("arm", sort=False):
        slope = mean(changes.groupby("seed").apply(_slope_of_changes), unit="seeds")
        moves = changes.groupby("experiment")["x"].mean()
        rows.append({"arm": arm, "slope": slope, "moved": moves[moves.abs().idxmax()]})
    return pd.DataFrame(rows)


def _slope_of_changes(changes):
    return (changes["x"] * changes["y"]).sum() / (changes["x"] ** 2).sum()


def decide_arm(slope: Estimate, moved: float, across: float) -> str:
    """Supports: interval above half of `across`; refutes: below it; the count has to have moved."""
    if abs(moved) < 0.4:
        return "not moved"
    return decision(slope.low > across / 2, slope.high < across / 2)


def slopes_by_measure(runs: pd.DataFrame, sgd: pd.DataFrame, arm: str) -> pd.DataFrame:
    """By measure: the effect of a treatment of study 3, against what the settings of study 2 show.

    The slope of the gap's change on the measure's change, over the slope of gap on measure across
    ResNet18's SGD settings, each measure in the form that fits the gap of those settings better.
    Columns: measure, ratio (mean over seeds), passes: its interval is above a half, as for a count.
    """
    runs, sgd = runs[runs["interpolates"]], sgd.query(SETTINGS_ACROSS)
    gap, across = runs["gap"].to_numpy(float), sgd["gap"].to_numpy(float)
    treated = runs["experiment"].str.startswith(ARMS[arm]).to_numpy()
    control = (runs["experiment"] == "control").to_numpy()
    of_settings, seeds, rows = forms(sgd), runs["seed"].to_numpy(), []
    for name, choices in forms(runs).items():
        pairs = list(zip(of_settings.get(name, []), choices, strict=False))
        if not pairs or name == PLAIN:
            continue
        settings, values = max(pairs, key=lambda pair: abs(np.corrcoef(pair[0], across)[0, 1]))
        slope, ratios = np.polyfit(settings, across, 1)[0], []
        for seed in np.unique(seeds[treated]):
            own, start = treated & (seeds == seed), control & (seeds == seed)
            x, y = values[own] - values[start], gap[own] - gap[start]
            ratios.append((x @ y) / (x @ x) / slope)
        ratio = mean(ratios, unit="seeds")
        rows.append({"measure": name, "ratio": ratio, "passes": ratio.low > 0.5})
    return pd.DataFrame(rows)


def sign_errors(runs: pd.DataFrame, outcome: str = "gap", *, seed: int = 0) -> pd.DataFrame:
    """By axis: the share of pairs of levels whose larger count has the smaller gap, worst first.

    With outcome "test_accuracy": whose larger count has the larger accuracy. Units: lr and seed.
    """
    sign, rows = {"gap": 1, "test_accuracy": -1}[outcome], []
    for axis, levels in AXES.items():
        wrong, pairs = [], []
        for _, unit in runs[runs["experiment"].isin(levels)].groupby(["lr", "seed"]):
            both = itertools.combinations(np.asarray_chkfinite(unit[[COUNT, outcome]]), 2)
            products = [sign * (b - a).prod() for a, b in both]
            wrong.append(sum(product < 0 for product in products))
            pairs.append(len(products))
        wrong, pairs = np.array(wrong, float), np.array(pairs, float)
        if not pairs.any():
            continue
        share_of = functools.partial(_ratio, wrong, pairs)
        share = bootstrap(share_of, range(len(pairs)), seed=seed, unit="bases")
        if len(pairs) >= MIN_UNITS and np.isnan(share.low):  # the same share in every resample
            share = replace(share, low=share.value, high=share.value)
        rows.append({"axis": axis, "sign-error": share, "decision": decide_axis(share)})
    return pd.DataFrame(rows).sort_values(
        "sign-error", key=lambda shares: shares.map(lambda share: -share.value), ignore_index=True
    )


def decide_axis(share: Estimate) -> str:
    """Supports: upper end below a half; refutes: lower end above it."""
    return decision(share.high < 0.5, share.low > 0.5)


def looks(runs: pd.DataFrame, count: str = "main") -> dict[str, pd.DataFrame]:
    """The runs of study-independent when the loss first fell below 0.01, and at their end.

    `updates` are the steps so far. "equal loss" has this count, and no run that never gets there.
    """
    n_train = load_campaign("study-independent").dataset["n_train"]
    end = runs.assign(updates=np.ceil(n_train / runs["batch_size"]) * runs["epochs"])
    origin = "reference" if (runs["origin"] == "reference").all() else None
    points = load_evolution("study-independent", origin)
    points = points[points["reached_loss"].notna() & points["run_id"].isin(runs["run_id"])]
    updates = np.ceil(n_train / points["batch_size"]) * points["epoch"]
    known = runs.set_index("run_id")["interpolates"]
    reached = points.assign(updates=updates, interpolates=points["run_id"].map(known))
    return {"equal loss": reached.assign(**{COUNT: np.log(reached[f"count_{count}"])}), "end": end}


def partial_correlations(
    runs: pd.DataFrame, *, seed: int = 0, num_resamples: int = 10_000, **options
) -> pd.DataFrame:
    """By measure: the correlation with the gap of what is left of both beyond the settings.

    num_resamples: of the bootstrap that stands beside Fisher's interval; 0 for none.
    options: of `beyond_settings`.
    """
    runs = runs[runs["interpolates"]].reset_index(drop=True)
    beyond, rows = functools.partial(beyond_settings, runs, seed=seed, **options), []
    gap, measures = _closest_forms(runs, beyond)
    resampled = {"units": range(len(gap)), "num_resamples": num_resamples, "seed": seed}
    for name, best in measures.items():
        if name not in (COUNT, PLAIN) and not np.isfinite(_correlation(best, gap)):
            continue  # the number of parameters, which is constant within a network
        row = {"measure": name, "r": _fisher(best, gap, 2)}
        if num_resamples:
            of_best = functools.partial(_correlations, best, gap)
            row["bootstrap"] = bootstrap(of_best, **resampled, unit="runs")
        rows.append(row)
    return pd.DataFrame(rows)


def beyond_settings(
    runs: pd.DataFrame, values: np.ndarray, seed: int, splits: int = 200, runs_a_term: int = 3
) -> np.ndarray:
    """Residuals of `values` (n, m) beyond the settings, scaled to unit variance in each network.

    Ridge regression on a cubic in log lr, log batch size and log updates, or on these alone where a
    network has fewer than `runs_a_term` runs for each term of the cubic. A run is predicted by a
    fit without its fold, a tenth of its network; predictions are means over `splits` random
    partitions into folds, so that no one partition decides. Nothing is fitted to fewer than 3 runs.
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
    """Cross-validated predictions of `values` (n, m), means over partitions into ten folds."""
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
    own = values[rows]
    spread = np.where(np.ptp(own, axis=0) > 0, own.std(axis=0), 1)
    return (values - own.mean(axis=0)) / spread


def split_by_split(runs: pd.DataFrame, seeds: int = 60) -> pd.DataFrame:
    """Study 5 as registered, with one partition into folds: r and the decision by seed."""
    rows = []
    for seed in range(seeds):
        table = partial_correlations(runs, seed=seed, splits=1, runs_a_term=0, num_resamples=0)
        r = table.set_index("measure")["r"][COUNT]
        rows.append({"seed": seed, "r": r.value, "decision": decide_independent(table)})
    return pd.DataFrame(rows)


def ridge_predictions(terms: np.ndarray, values: np.ndarray, new_terms: np.ndarray) -> np.ndarray:
    """Ridge regressions of columns of `values` (n, m) on `terms` (n, k), at `new_terms`: (p, m).

    Each column has its own penalty, of `PENALTIES` the one with the least squared leave-one-out
    error: scikit-learn's RidgeCV with alpha_per_target, too slow for a page's thousands of fits.
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
    """Supports: interval above 0.2, r above the best rival; refutes: upper end below either."""
    found, rival = table.set_index("measure")["r"], best_rival(table)
    r, best = found[COUNT], abs(found[rival].value) if rival else 0.0
    return decision(r.low > 0.2 and r.value > best, r.high < 0.2 or r.high < best)


def best_rival(table: pd.DataFrame, score: str = "r") -> str:
    """The rival with the largest |r|, or "R2", in a table of a study; "" where it has none."""
    rivals = table[~table["measure"].isin([COUNT, PLAIN])]
    values = [abs(each.value) if score == "r" else each.value for each in rivals[score]]
    by_name = dict(zip(rivals["measure"], values, strict=True))
    return max(by_name, key=by_name.get, default="")


def _ratio(part, whole, weights):
    return (weights @ part) / (weights @ whole)


def _closest_forms(runs, left_of):
    """The gap, and each measure in its form with the larger |r|, by name, as `left_of` leaves them.

    left_of: from columns (n, m) to what is left of them.
    """
    found, measures = forms(runs), {}
    columns = [runs["gap"].to_numpy(float), *itertools.chain(*found.values())]
    gap, *left = left_of(np.column_stack(columns)).T
    for name, choices in found.items():
        own = [left.pop(0) for _ in choices]
        measures[name] = max(own, key=lambda values: abs(_correlation(values, gap)))
    return gap, measures


def _correlation(x, y):
    """Pearson's correlation about zero: x and y are centred within their groups already."""
    return float(_correlations(x, y, np.ones((1, len(x))))[0])


def _correlations(x, y, weights):
    with np.errstate(invalid="ignore"):  # one run has no correlation
        return (weights @ (x * y)) / np.sqrt((weights @ x**2) * (weights @ y**2))


def _fisher(x, y, taken):
    """With Fisher's interval, where `taken` numbers were taken out beside a common mean."""
    r, runs = _correlation(x, y), len(x)
    return Estimate(r, *fisher_interval(r, runs - taken), runs, "runs")
