"""Rows as a table for people, and as a CSV file."""

import csv
import importlib.metadata
import os
import platform
import statistics

import torch

from rc_utils.provenance import hardware

PACKAGES = ("torch", "numpy", "scipy", "scikit-image")
COLUMNS = ("benchmark", "against", "ours", "other", "ratio", "min-max", "target", "met")


def header(scale):
    """Hardware, threads and versions, a line each."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    return "\n".join(
        (
            f"{hardware()}, {os.cpu_count()} cores, torch threads: {torch.get_num_threads()}",
            f"Python {platform.python_version()}, {versions}",
            f"medians of {scale.repeats} turns; the ratio is how many times as fast ours is where the target is a "
            "lower bound, and how much of the other's time it takes where it is an upper bound",
        )
    )


def cells(row):
    """The columns of one row, as text."""
    low, high = min(row.ratios), max(row.ratios)
    ours, other = (amount_text(amounts, row.unit) for amounts in (row.ours, row.other))
    return (
        row.benchmark, row.against, ours, other, f"{row.ratio:.3g}", f"{low:.3g}-{high:.3g}", str(row.target or "-"),
        row.verdict,
    )  # fmt: skip


def amount_text(amounts, unit="s"):
    """Median of some amounts; seconds are shown in milliseconds."""
    if unit != "s":
        return f"{statistics.median(amounts):,.4g} {unit}"
    milliseconds = 1000 * statistics.median(amounts)
    return f"{milliseconds:,.0f} ms" if milliseconds >= 100 else f"{milliseconds:.3g} ms"


def table(rows):
    """An aligned table with one line a row."""
    lines = [COLUMNS, *map(cells, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    rule = tuple("-" * width for width in widths)
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in (lines[0], rule, *lines[1:])
    )


def write_csv(rows, path):
    """The table as CSV; the folder is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *map(cells, rows)])
