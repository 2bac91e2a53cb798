"""Sphinx extension: prepare wide tables for a phone, which shows each of their rows as a list.

They get the class rc and cells that name their column. In prose, tables of three columns or more
are wide; in a notebook, those whose rows exceed PHONE characters.
"""

import itertools
import re

PHONE, PAGE = 44, 80  # characters of a table's row that fit a phone, and a page beside the menus
INTERVAL = r"(-?[\d.]+) (\[-?[\d.]+,) (-?[\d.]+\])"  # a value with its interval


def setup(app):
    """Called by Sphinx."""
    app.connect("html-page-context", _mark)
    return {"parallel_read_safe": True, "version": "1"}


def _mark(app, pagename, templatename, context, doctree):
    if "body" in context:
        pattern = r'(?s)<table (?:border="0" )?class="(?:table|dataframe)">.*?</table>'
        context["body"] = re.sub(pattern, marked, context["body"])


def marked(found):
    """The HTML of a matched table, with class and labels if it is wide."""
    is_frame = 'class="dataframe"' in found[0]
    rows = [re.findall(r"(?s)<t[hd].*?</t[hd]>", row) for row in found[0].split("</tr>")[:-1]]
    rows = [[re.sub("<[^>]*>", "", cell).strip() for cell in row] for row in rows]
    row_heads = found[0].partition("<tbody>")[2].partition("</tr>")[0].count("<th")
    # A browser may break a column head between its words.
    longest = [[max(head.split() or [""], key=len) for head in rows[0]], *rows[1:]]
    width = sum(2 + max(map(len, column)) for column in zip(*longest, strict=False))
    is_wide = width > PHONE if is_frame else len(rows[0]) >= 3 and not row_heads
    if not is_wide:
        return found[0]
    heads = ['data-label="{}"'.format(head.replace('"', "&quot;")) for head in rows[0]]
    labels = itertools.cycle(heads[row_heads:])
    head, mark, body = found[0].partition("<tbody>")
    body = re.sub("<td", lambda cell: f"{cell[0]} {next(labels)}", body)
    if least_width(rows) <= PAGE:
        body = re.sub(f"<td(?=[^>]*>{INTERVAL})", '<td class="interval"', body)
    if row_heads == 1:
        body = body.replace("<th", f"<th {heads[0]}")
    table = head + mark + body
    return re.sub('class="(table|dataframe)"', r'class="\1 rc"', table, count=1)


def least_width(rows):
    """Characters of a row whose cells are broken between words, but not within an interval."""
    columns = [" ".join(column) for column in zip(*rows, strict=False)]
    words = [re.sub(INTERVAL, r"\1_\2_\3", column).split() for column in columns]
    return sum(2 + max(map(len, column), default=0) for column in words)
