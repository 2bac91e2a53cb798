"""Breakpoints of a segment: sign changes of piecewise-affine functions, without duplicates."""

import torch

# Alphas closer than this are one breakpoint: float64 rounds them to about 1e-15.
BREAKPOINT_TOLERANCE = 1e-13


def sign_changes(alphas, z):
    """Alphas where entries of z (P, ...) change sign, (K,), and the indices of these entries.

    Each is alpha_p + (alpha_{p+1} - alpha_p) z_p / (z_p - z_{p+1}).
    """
    negative = z < 0
    row, *entries = (negative[1:] != negative[:-1]).nonzero(as_tuple=True)
    before, after = z[(row, *entries)], z[(row + 1, *entries)]
    at = alphas[row] + (alphas[row + 1] - alphas[row]) * (before / (before - after))
    finite = at.isfinite()
    return at[finite], [entry[finite] for entry in entries]


def distinct(at, alphas):
    """Sorted entries of `at` that are BREAKPOINT_TOLERANCE apart, from `alphas` (P,) as well."""
    new = at.sort().values
    new = new[(new - alphas[nearest(new, alphas)]).abs() > BREAKPOINT_TOLERANCE]
    apart = torch.ones(len(new), dtype=torch.bool, device=new.device)
    apart[1:] = new.diff() > BREAKPOINT_TOLERANCE
    return new[apart]


def nearest(at, alphas):
    """Index of the entry of `alphas` (P,), ascending, that is nearest to each of `at`."""
    above = torch.searchsorted(alphas, at).clamp(1, len(alphas) - 1)
    return above - (at - alphas[above - 1] < alphas[above] - at).long()
