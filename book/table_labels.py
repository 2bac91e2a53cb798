"""Sphinx extension: a table of texts in three columns or more is marked as the notebooks' are.

It gets the class rc, and its cells name their column: on a phone each row is a list of them.
"""

import itertools
import re


def setup(app):
    """Called by Sphinx."""
    app.connect("html-page-context", _mark)
    return {"parallel_read_safe": True, "version": "1"}


def _mark(app, pagename, templatename, context, doctree):
    if "body" in context:
        context["body"] = re.sub(r'(?s)<table class="table">.*?</table>', marked, context["body"])


def marked(found):
    """The HTML of a table, a match, with its class and labels; one of two columns as it is."""
    top, rows = found[0].partition("</thead>")[::2]
    heads = [re.sub("<[^>]*>", "", head) for head in re.findall("<th .*?</th>", top)]
    if len(heads) < 3 or "<th" in rows:
        return found[0]
    labels = itertools.cycle(f'<td data-label="{head}"' for head in heads)
    return re.sub("<td", lambda _: next(labels), found[0]).replace('"table"', '"table rc"', 1)
