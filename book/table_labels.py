"""Sphinx extension: a table too wide for a phone has the class rc, and cells that name its columns.

On a phone each of its rows is a list. Of texts these are tables of three columns or more, of a
notebook those whose rows are long.
"""

import itertools
import re

PHONE = 44  # characters of a table's row that fit a phone


def setup(app):
    """Called by Sphinx."""
    app.connect("html-page-context", _mark)
    return {"parallel_read_safe": True, "version": "1"}


def _mark(app, pagename, templatename, context, doctree):
    if "body" in context:
        pattern = r'(?s)<table (?:border="0" )?class="(?:table|dataframe)">.*?</table>'
        context["body"] = re.sub(pattern, marked, context["body"])


def marked(found):
    """The HTML of a table, a match, with its class and labels; one that is narrow as it is."""
    is_frame = 'class="dataframe"' in found[0]
    rows = [re.findall(r"(?s)<t[hd].*?</t[hd]>", row) for row in found[0].split("</tr>")[:-1]]
    rows = [[re.sub("<[^>]*>", "", cell).strip() for cell in row] for row in rows]
    in_front = found[0].partition("<tbody>")[2].partition("</tr>")[0].count("<th")
    # A head may be broken between its words.
    longest = [[max(head.split() or [""], key=len) for head in rows[0]], *rows[1:]]
    width = sum(2 + max(map(len, column)) for column in zip(*longest, strict=False))
    if (width <= PHONE) if is_frame else (len(rows[0]) < 3 or in_front):
        return found[0]
    heads = ['data-label="{}"'.format(head.replace('"', "&quot;")) for head in rows[0]]
    labels, (head, mark, body) = itertools.cycle(heads[in_front:]), found[0].partition("<tbody>")
    body = re.sub("<td", lambda cell: f"{cell[0]} {next(labels)}", body)
    if in_front == 1:
        body = body.replace("<th", f"<th {heads[0]}")
    table = head + mark + body
    return re.sub('class="(table|dataframe)"', r'class="\1 rc"', table, count=1)
