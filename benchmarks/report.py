"""Rows as a table."""

import importlib.metadata
import os
import platform
import statistics

import pandas as pd
import torch

from rc_utils.provenance import hardware

PACKAGES = ("torch", "numpy", "scipy", "scikit-image")
COLUMNS = ("benchmark", "against", "ours", "other", "ratio", "min-max", "target", "met")


def header(scale):
    """Hardware and threads, versions, and the meaning of the ratios: three lines."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    return (
        f"{hardware()}, {os.cpu_count()} cores, torch threads: {torch.get_num_threads()}\n"
        f"Python {platform.python_version()}, {versions}\n"
        f"medians of {scale.repeats} turns; the ratio is a speed-up (>=) or a share of time (<=)"
    )


def table(rows):
    """One line per row, all of it text."""
    lines = []
    for row in rows:
        amounts = [amount_text(side, row.unit) for side in (row.ours, row.other)]
        ratios = f"{row.ratio:.3g}", f"{min(row.ratios):.3g}-{max(row.ratios):.3g}"
        target = "{} {:g}".format(*row.target) if row.target else "-"
        lines.append((row.benchmark, row.against, *amounts, *ratios, target, row.verdict))
    return pd.DataFrame(lines, columns=COLUMNS)


def as_text(found):
    """A `table` as text, with the names of both sides left-aligned."""
    widths = {name: found[name].str.len().max() for name in COLUMNS[:2]}
    left = {name: f"{{:<{width}}}".format for name, width in widths.items()}
    return found.to_string(index=False, formatters=left)


def amount_text(amounts, unit="s"):
    """Median of the amounts with its unit; seconds are shown in milliseconds."""
    if unit != "s":
        return f"{statistics.median(amounts):,.4g} {unit}"
    milliseconds = 1000 * statistics.median(amounts)
    return f"{milliseconds:,.0f} ms" if milliseconds >= 100 else f"{milliseconds:.3g} ms"
