"""Power of the decision rules of the second round, by simulation.

`python -m rc_studies.power` prints the table of the protocol. Each rule is applied to independent
runs, as in these studies, drawn from a normal distribution with known correlations.
"""

import numpy as np
import pandas as pd
from tqdm import tqdm

from rc_studies import second_round as rules
from rc_utils.correlation import fisher_interval, weighted_pearson


def correlated(rng, number, r_count, r_mixup, between):
    """Gap, log count and mixup accuracy of `number` runs (3, number), correlated as given."""
    matrix = np.array([[1, r_count, r_mixup], [r_count, 1, between], [r_mixup, between, 1]])
    # By Cholesky: eigenvectors of equal eigenvalues differ between processors.
    return rng.multivariate_normal(np.zeros(3), matrix, size=number, method="cholesky").T


def shares(decisions):
    """Share of each decision among the draws, {decision: share}."""
    return pd.Series(decisions).value_counts(normalize=True).to_dict()


def power_of_correlations(bar, number, truths, draws=2000, seed=0):
    """Share of each decision by a bar on the r of two networks, one row per true r of both."""
    rng, rows = np.random.default_rng(seed), []
    for r in tqdm(truths, desc=f"bar {bar}", unit="truth", disable=None):
        sample = correlated(rng, 2 * draws * number, r, 0.0, 0.0)
        gap, count, _ = sample.reshape(3, 2 * draws, number)
        found = weighted_pearson(gap, count, np.ones_like(gap)).tolist()
        estimates = [(value, *fisher_interval(value, number)) for value in found]
        pairs = zip(estimates[::2], estimates[1::2], strict=True)
        decisions = [rules.decide(pair, bar) for pair in pairs]
        rows.append({"true r": r, "runs of a network": number} | shares(decisions))
    return pd.DataFrame(rows).fillna(0.0)


def power_of_equivalence(number, truths, margin, draws=200, resamples=400, seed=0):
    """Share of each decision on equivalence, by true r of count, mixup accuracy, between them."""
    rng, rows = np.random.default_rng(seed), []
    for r_count, r_mixup, between in tqdm(truths, desc="equivalence", unit="truth", disable=None):
        decisions = []
        for _ in range(draws):
            gap, count, mixup = correlated(rng, number, r_count, r_mixup, between)
            lead = rules.difference_of_correlations(count, mixup, gap, resamples, rng)
            decisions.append(rules.decide_equivalence(lead, margin))
        row = {"true r": r_count, "of mixup": r_mixup, "between them": between}
        rows.append(row | {"runs of a network": number} | shares(decisions))
    return pd.DataFrame(rows).fillna(0.0)


def main():
    """Print the tables of power that the protocol quotes."""
    options = {"index": False, "float_format": "%.2f"}
    truths = (-0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    print("Twins: r of log count and gap in both networks")
    print(power_of_correlations(rules.BARS["twins"], 120, truths).to_string(**options))
    truths = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
    print("\nAt the paper's gap: r in both networks")
    print(power_of_correlations(rules.BARS["gap"], 30, truths).to_string(**options))
    within = "twins within {twins}, settings within {gap}".format(**rules.MARGINS)
    print(f"\nEquivalence with mixup accuracy, in one network: {within}")
    # In study 1, |r| of log count with mixup accuracy is 0.5.
    twins = [(0.5, 0.5, 0.5), (0.5, 0.5, 0.8), (0.5, 0.3, 0.5), (0.3, 0.5, 0.5)]
    settings = [(0.9, 0.9, 0.9), (0.95, 0.95, 0.95), (0.9, 0.7, 0.7), (0.7, 0.9, 0.7)]
    print(power_of_equivalence(120, twins, rules.MARGINS["twins"]).to_string(**options))
    print(power_of_equivalence(30, settings, rules.MARGINS["gap"]).to_string(**options))


if __name__ == "__main__":
    main()
