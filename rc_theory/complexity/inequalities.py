"""The inequalities of Loukas et al., Sec. 4, checked on trajectories."""

from dataclasses import dataclass

import numpy as np

from rc_theory.complexity.trajectory import Trajectory, windows_sum


@dataclass(frozen=True)
class Check:
    """The largest ratio of measured to allowed in `n` checks of an inequality."""

    ratio: float
    n: int
    detail: str = ""

    def within(self, tolerance: float) -> float:
        """The ratio, rounded down to 1 if it exceeds 1 by no more than `tolerance`."""
        return 1.0 if 1 < self.ratio <= 1 + tolerance else self.ratio


def largest_ratio(measured: np.ndarray, allowed: np.ndarray) -> float:
    """Largest measured / allowed, where 0 / 0 counts 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(measured > 0, measured / allowed, 0).max())


def check_theorem_1(path: Trajectory) -> tuple[Check, Check]:
    """Both sides of Theorem 1, over every block and over all steps up to its end."""
    low = high = 0.0
    bounds = (path.lower, path.length[..., 0], path.upper)
    for lower, length, upper in (bounds, [v.cumsum(0) for v in bounds]):
        low, high = max(low, largest_ratio(lower, length)), max(high, largest_ratio(length, upper))
    return Check(low, 2 * path.lower.size), Check(high, 2 * path.lower.size)


def check_corollary_2(path: Trajectory, window: int = 10, *, ends: bool = True) -> Check:
    """Corollary 2 over each `window` successive blocks: lower bound over variance.

    `ends` includes the bias after the last step, as a correct proof must; the printed statement and
    proof do not.
    """
    steps = window * path.every
    mean = path.lr * windows_sum(path.lower, window) / (2 * steps)
    finite = np.isfinite(path.inverse_square)
    inverse = windows_sum(np.where(finite, path.inverse_square, 0), window)
    # A step with epsilon = 0 makes the harmonic mean, and the bound, 0.
    exact = windows_sum((~finite).astype(float), window) > 0
    harmonic = np.where(exact, 0, steps / np.where(exact, 1, inverse))
    variance = path.variance(window, ends=ends)
    return Check(largest_ratio(mean**2 * harmonic, variance), variance.size)


def check_corollary_3(path: Trajectory) -> Check:
    """Corollary 3 at the end of every block: distance over sum alpha epsilon lambda / s_n."""
    return Check(largest_ratio(path.distance, path.reach.cumsum(0)), path.distance.size)


def all_checks(path: Trajectory, loss: str) -> dict[str, Check]:
    """Every inequality of Loukas Sec. 4, by its id; Corollary 3 for the squared loss alone.

    Corollary 2 is checked over each 1, 2, 5 and 10 successive blocks, because it is nearly sharp
    over single steps and vacuous over a thousand.
    """
    steps = int(path.num_checked.sum())
    checks = {"lemma-1/lower": Check(float(path.lemma_lower.max()), steps)}
    checks["lemma-1/upper"] = Check(float(path.lemma_upper.max()), steps)
    checks["theorem-1/lower"], checks["theorem-1/upper"] = check_theorem_1(path)
    windows = [check_corollary_2(path, w) for w in (1, 2, 5, 10) if w <= len(path.steps)]
    checks["corollary-2"] = Check(max(w.ratio for w in windows), sum(w.n for w in windows))
    if loss == "mse":
        checks["corollary-3"] = check_corollary_3(path)
    return checks
