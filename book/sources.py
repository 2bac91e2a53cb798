"""Sphinx extension: a button on each page that leads to its source.

In the repository, whose address is `repository-code` of CITATION.cff; the book's own copy where none is named.
"""

import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def setup(app):
    """Called by Sphinx; the theme begins its list of buttons at the default priority of 500."""
    app.connect("html-page-context", _add_button, priority=502)
    return {"parallel_read_safe": True, "version": "1"}


def _add_button(app, pagename, templatename, context, doctree):
    if context.get("page_source_suffix"):
        citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
        copy = f"{context['pathto']('_sources', 1)}/{context['sourcename']}"
        url = source_address(pagename, context["page_source_suffix"], citation) or copy
        button = {"type": "link", "url": url, "text": "", "icon": "fas fa-code", "label": "source-file-button"}
        context["header_buttons"].append(button | {"tooltip": "Source of this page"})


def source_address(page, suffix, citation):
    """Address of a page's source in the repository that the text of a CITATION.cff names; "" without one."""
    repository = re.search(r"^repository-code: \"?([^\"\s]+)", citation, re.MULTILINE)
    if not repository:
        return ""
    folder, _, name = page.rpartition("/")
    if folder == "notebooks":
        pages = tomllib.loads((ROOT / "book" / "pages.toml").read_text(encoding="utf-8"))["pages"]
        return f"{repository[1]}/blob/HEAD/notebooks/{pages[name].get('notebook', name)}.ipynb"
    return f"{repository[1]}/blob/HEAD/book/{page}{suffix}"
