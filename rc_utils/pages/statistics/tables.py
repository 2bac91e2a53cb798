"""Tables and sentences of the statistics page."""

from __future__ import annotations

import pandas as pd

from rc_utils.correlation import interval_text
from rc_utils.pages import show
from rc_utils.pages.statistics import league


def show_held_fixed(table: pd.DataFrame):
    """A `held_fixed` table for reading: what is held fixed, and the correlations of all and of interpolating rows."""
    shown = []
    for fixed, part in table.groupby("fixed", sort=False):
        row = {"Held fixed": fixed}
        for name, found in part.groupby("runs", sort=False):
            row[f"Correlation, {name}"] = _estimate(found.iloc[0])
            row[f"Rows, {name}"] = str(found.iloc[0]["rows"])
        shown.append(row)
    return show.show_table(pd.DataFrame(shown).fillna("–"))


def show_networks(table: pd.DataFrame):
    """A `networks_table` for reading."""
    words = {"count": "Count and gap", "log_count": "log count and gap", "ratio": "Batch size / lr and gap"}
    shown = {"Network": table["network"], "Rows": table["rows"], "Settings": table["settings"]}
    for column, title in words.items():
        shown[title] = [interval_text(c.value, c.low, c.high) for c in table[column]]
    return show.show_table(pd.DataFrame(shown))


def show_league(table: pd.DataFrame):
    """A `league_table` for reading: one row a measure, one column a statistic with its interval."""
    wide = table.assign(text=table.apply(_estimate, axis=1)).pivot(index="measure", columns="statistic", values="text")
    order = [list(dict.fromkeys(table[key])) for key in ("measure", "statistic")]
    wide = wide.loc[order[0], order[1]].rename(index=league.MEASURES, columns=league.STATISTICS)
    wide.columns.name = None
    return show.show_table(wide.rename_axis("Measure").reset_index())


def show_axes(table: pd.DataFrame):
    """An `axis_table` for reading: one row a measure, one column an axis with its interval and number of pairs."""
    names = [f"{_words(axis)} ({pairs} pairs)" for axis, pairs in zip(table["axis"], table["pairs"], strict=True)]
    wide = table.assign(text=table.apply(_estimate, axis=1), name=names)
    wide = wide.pivot_table(index="measure", columns="name", values="text", aggfunc="first", sort=False)
    wide.columns.name = None
    return show.show_table(wide.rename(index=league.MEASURES).rename_axis("Measure").reset_index())


def show_information(table: pd.DataFrame):
    """An `information_table` for reading."""
    shown = {
        "Given": table["given"],
        "Pairs a value": table["pairs"].round(0).astype(int),
        "Plug-in": table["value"].map("{:.2f}".format),
        "Permuted: mean": table["null_mean"].map("{:.2f}".format),
        "Permuted: 95 %": table["null_high"].map("{:.2f}".format),
        "p": table["p"].map("{:.3f}".format),
    }
    return show.show_table(pd.DataFrame(shown))


def answer(table: pd.DataFrame) -> str:
    """Markdown: what is left of the correlation, in words, from a `held_fixed` table."""
    rows = table[table["runs"] == "all"].set_index("fixed")
    lines = [f"- The correlation of count and gap is {_estimate(rows.loc['nothing'])}."]
    if "network" in rows.index:
        lines.append(f"- Within networks it is {_estimate(rows.loc['network'])}.")
    lines += [
        f"- After taking out {name}: {_estimate(rows.loc[name])}." for name in rows.index if name.startswith("a ")
    ]
    if league.SEEDS in rows.index:
        found = rows.loc[league.SEEDS]
        lines.append(
            f"- Between seeds of one setting and network ({found['rows']:.0f} means) it is {_estimate(found)}: "
            "no function of the settings can have a part in that."
        )
    return "\n".join(lines)


def rivals(table: pd.DataFrame) -> str:
    """Markdown: the measures that the count is ahead of, behind, and not told apart from."""
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
    """Markdown: where each measure errs most, and in how many environments it does no better than a coin."""
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
    """Markdown: Jiang's minimum, and how often the count is above chance."""
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


def _estimate(found: pd.Series) -> str:
    return interval_text(found["value"], found["low"], found["high"])


def _words(factor: str) -> str:
    return {"lr": "learning rate"}.get(factor, factor.replace("_", " "))


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
