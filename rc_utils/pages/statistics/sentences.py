"""Sentences of the statistics page, as Markdown."""

from __future__ import annotations

import pandas as pd

from rc_utils.pages.statistics import league


def rivals(table: pd.DataFrame) -> str:
    """The measures that the count is ahead of, behind, and not told apart from."""
    part = table.dropna(subset="low") if len(table) else table
    if part.empty:
        return "Too few settings to tell two measures apart."
    groups = {
        "ahead of": part[part["low"] > 0],
        "behind": part[part["high"] < 0],
        "not told apart from": part[(part["low"] <= 0) & (part["high"] >= 0)],
    }
    texts = [
        f"{words} {_and([f'{league.MEASURES[row.measure]} ({row.value:+.2f})' for row in rows.itertuples()])}"
        for words, rows in groups.items()
        if len(rows)
    ]
    return f"Within networks, the region count is {'; '.join(texts)}."


def worst_environments(table: pd.DataFrame) -> str:
    """Where each measure errs most, and in how many environments it does no better than a coin."""
    if table.empty:
        return "No two settings differ in one factor alone."
    lines = []
    for measure, part in table.groupby("measure", sort=False):
        worst, chance = part.loc[part["error"].idxmax()], int((part["error"] >= 0.5).sum())
        where = worst["environment"].replace("_", " ")
        lines.append(
            f"- {league.MEASURES[measure]}: worst at {where}, {worst['error']:.2f} of {worst['pairs']} pairs; "
            f"one half or more in {chance} of {len(part)} environments."
        )
    return "\n".join(lines)


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
