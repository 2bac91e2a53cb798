"""Tables and sentences of the statistics page."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rc_utils.correlation import MIN_CELLS, interval_text
from rc_utils.pages import show
from rc_utils.pages.statistics import league
from rc_utils.pages.statistics.cells import Cells
from rc_utils.paper.verdict import AGREES, DISAGREES, NOT_RESOLVED, NOT_TESTED

_ERRORS = ("sign_error", "worst_sign_error")


def describe_cells(cells: Cells, missing: list[str]) -> str:
    """Markdown: how many cells there are for the statistics, what they differ in, and what cannot be said of them."""
    n, factors = len(cells.factors), league.p.varying(cells.factors)
    text = f"{n} cells differ in {_and([_words(f) for f in factors]) or 'nothing'}."
    if n < MIN_CELLS:
        text += f" With fewer than {MIN_CELLS} cells no interval is given."
    if "network" not in factors:
        text += " There is one network, so that nothing is compared between networks."
    if missing:
        text += f" Not measured in this campaign: {_and([league.MEASURES[m] for m in missing])}."
    if cells.segments is None:
        text += " The segments of the runs are not the same, so that they are not drawn again."
    return text


def show_held_fixed(table: pd.DataFrame):
    """A `held_fixed` table for reading: what is held fixed, and the correlations of all and of interpolating cells."""
    shown = []
    for fixed, part in table.groupby("fixed", sort=False):
        row = {"Held fixed": fixed}
        for name, found in part.groupby("runs", sort=False):
            found = found.iloc[0]
            row[f"Correlation, {name} cells"] = _estimate(found)
            row[f"Cells, {name}"] = f"{found['n_cells']} in {found['n_strata']}" if found["n_strata"] else "none"
        shown.append(row)
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
    named = {"adjusted": "value"}
    shown = {
        "Given": table["given"],
        "Pairs a value": table["pairs"].round(0).astype(int),
        "Plug-in": table["value"].map("{:.3f}".format),
        "Permuted: mean": table["null_mean"].map("{:.3f}".format),
        "Permuted: 95 %": table["null_high"].map("{:.3f}".format),
        "p": table["p"].map("{:.3f}".format),
        "Above the mean": [_estimate(row) for _, row in table.drop(columns="value").rename(columns=named).iterrows()],
    }
    return show.show_table(pd.DataFrame(shown))


def answer(table: pd.DataFrame) -> str:
    """Markdown: what is left of the correlation within one learning rate, in words, from a `held_fixed` table."""
    rows = table.set_index(["runs", "fixed"])
    if ("all", "learning rate") not in rows.index:
        return "The cells have one learning rate: every correlation on this page is within it."
    lines = []
    for runs, words in (("all", "Among all cells"), ("interpolating", "Among the cells that interpolate")):
        free, within = rows.loc[(runs, "nothing")], rows.loc[(runs, "learning rate")]
        if np.isnan(within["value"]) or np.isnan(free["value"]):
            lines.append(f"- {words} there are too few ({int(free['n_cells'])}) for a correlation.")
            continue
        lines.append(
            f"- {words} the correlation is {_estimate(free)}; within one learning rate {_estimate(within)}, "
            f"**{_resolved(within)}**.{_hardest(rows.loc[runs], free)}"
        )
    return "\n".join(lines)


def _hardest(rows: pd.DataFrame, free: pd.Series) -> str:
    """What takes most of the correlation away."""
    held = rows.drop(index=["nothing", "learning rate"]).dropna(subset="value")
    if held.empty:
        return ""
    name = (held["value"] * np.sign(free["value"])).idxmin()
    return f" Least is left with {name} held fixed: {_estimate(held.loc[name])}, {_resolved(held.loc[name])}."


def _resolved(found: pd.Series) -> str:
    if np.isnan(found["low"]):
        return "without an interval"
    if found["low"] > 0:
        return "resolved from 0"
    return "resolved from 0, but negative" if found["high"] < 0 else "not resolved from 0"


def best_measures(table: pd.DataFrame) -> str:
    """Markdown: for each statistic the measure that does best, and where the region count stands."""
    lines = []
    for statistic, part in table.dropna(subset="value").groupby("statistic", sort=False):
        ordered = part.sort_values("value", ascending=statistic in _ERRORS, kind="stable")
        best, names = ordered.iloc[0], list(ordered["measure"])
        if "count" not in names:
            continue
        count = ordered[ordered["measure"] == "count"].iloc[0]
        place = f"the region count is number {names.index('count') + 1} of {len(names)} with {_estimate(count)}"
        if best["measure"] == "count":
            lines.append(f"- {league.STATISTICS[statistic]}: {place}.")
        else:
            best_text = f"{league.MEASURES[best['measure']]} leads with {_estimate(best)}"
            lines.append(f"- {league.STATISTICS[statistic]}: {best_text}, {place}.")
    return "\n".join(lines) or "The campaign has no region count named main."


def rivals(table: pd.DataFrame) -> str:
    """Markdown: by statistic, the measures that the count is resolved to be ahead of, behind, and level with."""
    lines = []
    for statistic, part in table.dropna(subset="low").groupby("statistic", sort=False):
        groups = {
            "ahead of": part[part["low"] > 0],
            "behind": part[part["high"] < 0],
            "not told apart from": part[(part["low"] <= 0) & (part["high"] >= 0)],
        }
        texts = [
            f"{words} {_and([f'{league.MEASURES[r.measure]} ({r.value:+.2f})' for r in rows.itertuples()])}"
            for words, rows in groups.items()
            if len(rows)
        ]
        lines.append(f"- {league.STATISTICS[statistic]}: the region count is {'; '.join(texts)}.")
    return "\n".join(lines) or "Too few cells to tell two measures apart."


def worst_environments(table: pd.DataFrame) -> str:
    """Markdown: where each measure errs most, and in how many environments it does no better than a coin."""
    if table.empty:
        return "No two cells differ in one factor alone."
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
    """Markdown: Jiang's minimum, and what is left of it when chance is taken out."""
    if table.empty:
        return "Too few cells to condition on anything."
    least, kept = table.loc[table["value"].idxmin()], table[table["p"] <= 0.05]
    low, high = table["null_mean"].min(), table["null_mean"].max()
    names = f": given {'; given '.join(kept['given'])}" if len(kept) else ""
    return (
        f"The minimum over conditionings is {least['value']:.3f}, given {least['given']}. A count that knows nothing "
        f"has {low:.3f} to {high:.3f} by chance, depending on the conditioning: before this is taken out, values of "
        "different conditionings do not compare, and their minimum favours those with many pairs a value. The count is "
        f"above chance (p at most 0.05, one test a row) in {len(kept)} of {len(table)} conditionings{names}."
    )


def verdicts(held: pd.DataFrame, table: pd.DataFrame, information: pd.DataFrame) -> str:
    """Markdown: the verdict on each part of the claim, with the numbers it stands on."""
    rows, lines = held.set_index(["runs", "fixed"]), []
    for (runs, fixed), claim in {
        ("all", "nothing"): "the count predicts the gap over all cells",
        ("all", "learning rate"): "it does so within one learning rate",
        ("all", "network and learning rate"): "and within one network",
        ("interpolating", "learning rate"): "it does so within one learning rate when the cells interpolate",
        ("all", league.SMOOTH): "within one network it knows more than a smooth function of batch size / learning rate",
        ("all", "network and learning rate and batch size"): "it does so where only weight decay and seeds differ",
        ("all", "everything but the seed"): "it does so between the seeds of one cell",
    }.items():
        if (runs, fixed) in rows.index:
            found = rows.loc[(runs, fixed)]
            lines.append(f"- {claim}: **{_verdict(found)}** — {_estimate(found)}.")
    worst = table[(table["measure"] == "count") & (table["statistic"] == "worst_sign_error")]
    if len(worst) and np.isfinite(worst["value"].iloc[0]):
        found = worst.iloc[0]
        lines.append(f"- it orders better than a coin in every environment: **{_coin(found)}** — {_estimate(found)}.")
    if len(information):
        above, all_ = int((information["p"] <= 0.05).sum()), len(information)
        verdict = AGREES if above == all_ else NOT_RESOLVED
        text = f"**{verdict}** — above chance in {above} of {all_} conditionings"
        lines.append(f"- it tells something of the gap given any one or two hyper-parameters, the others free: {text}.")
    return "\n".join(lines)


def _verdict(found: pd.Series) -> str:
    """On the claim that a value is positive."""
    if np.isnan(found["value"]):
        return NOT_TESTED
    return AGREES if found["low"] > 0 else DISAGREES if found["high"] < 0 else NOT_RESOLVED


def _coin(found: pd.Series) -> str:
    """On the claim that a share of wrongly ordered pairs is below one half."""
    return AGREES if found["high"] < 0.5 else DISAGREES if found["low"] > 0.5 else NOT_RESOLVED


def _estimate(found: pd.Series) -> str:
    return interval_text(found["value"], found["low"], found["high"])


def _words(factor: str) -> str:
    return {"lr": "learning rate"}.get(factor, factor.replace("_", " "))


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
