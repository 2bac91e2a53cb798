"""Sphinx extension: links to pages as in the repository, and a button that leads to the source."""

import pathlib
import re
import tomllib

BOOK = pathlib.Path(__file__).resolve().parent


def setup(app):
    """Called by Sphinx; the theme begins its list of buttons at the default priority of 500."""
    app.connect("source-read", _find_pages)
    app.connect("html-page-context", _add_button, priority=502)
    return {"parallel_read_safe": True, "version": "1"}


def _find_pages(app, page, source):
    # In the repository notebooks lie beside the folder of the book, in the book below it.
    source[0] = re.sub(r"\]\((\.\./)+(book/|(?=notebooks/))", "](/", source[0])


def _add_button(app, pagename, templatename, context, doctree):
    if context.get("page_source_suffix"):
        copy = f"{context['pathto']('_sources', 1)}/{context['sourcename']}"
        url = source_address(BOOK, pagename, context["page_source_suffix"]) or copy
        look = {"type": "link", "text": "", "icon": "fas fa-code", "label": "source-file-button"}
        context["header_buttons"].append({"url": url, "tooltip": "Source of this page"} | look)


def source_address(book, page, suffix):
    """Address of a page in the repository that CITATION.cff names; None if it names none."""
    citation = (book.parent / "CITATION.cff").read_text(encoding="utf-8")
    pages = tomllib.loads((book / "pages.toml").read_text(encoding="utf-8"))["pages"]
    folder, _, name = page.rpartition("/")
    path = f"book/{page}"
    if folder == "notebooks":
        path = f"notebooks/{pages[name].get('notebook', name)}"
    repository = re.search(r"^repository-code: (\S+)", citation, re.MULTILINE)
    return f"{repository[1]}/blob/HEAD/{path}{suffix}" if repository else None
