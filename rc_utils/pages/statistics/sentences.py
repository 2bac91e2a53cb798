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


def information_summary(table: pd.DataFrame) -> str:
    """Jiang's minimum, and how often the count is above chance."""
    if table.empty:
        return "Too few settings to condition on anything."
    least, kept = table.loc[table["value"].idxmin()], table[table["p"] <= 0.05]
    low, high = table["null_mean"].min(), table["null_mean"].max()
    names = f": given {'; given '.join(kept['given'])}" if len(kept) else ""
    return (
        f"The minimum over conditionings is {least['value']:.2f}, given {least['given']}. A count that knows nothing "
        f"has {low:.2f} to {high:.2f} by chance, depending on the conditioning. The count is above chance (p at most "
        f"0.05, one test a row) in {len(kept)} of {len(table)} conditionings{names}."
    )


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
