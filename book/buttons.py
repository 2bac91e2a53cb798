"""Buttons of the pages: downloads, the SVG of each figure and, where asked for, places that open a notebook.

The links lead to files of the book. Only launch buttons lead elsewhere, and only where a reader follows them.
"""

import os
import re
import tomllib

import launch

_FIGURE = re.compile(r'<figure[^>]* id="([\w-]+)".*?</figure>', re.DOTALL)
_SVG = re.compile(r'<img [^>]*src="([^"]+\.svg)"')


def setup(app):
    """Register with Sphinx; RC_LAUNCH and RC_PDF are set by build.py."""
    app.add_config_value("rc_launch", os.environ.get("RC_LAUNCH", ""), "html")
    app.add_config_value("rc_pdf", os.environ.get("RC_PDF", ""), "html")
    # After the theme's own buttons, to which these are added.
    app.connect("html-page-context", _add_to_page, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_to_page(app, pagename, templatename, context, doctree):
    groups = {button["label"]: button for button in context.get("header_buttons", [])}
    if "download-buttons" in groups:
        groups["download-buttons"]["buttons"] += download_buttons(context["pathto"], pdf=bool(app.config.rc_pdf))
    if app.config.rc_launch:
        table = tomllib.loads((app.srcdir / "pages.toml").read_text(encoding="utf8"))
        links = launch.links(pagename, table, app.config.rc_launch)
        if links:
            context["header_buttons"].insert(0, _group("Open this page elsewhere", "fas fa-rocket", "launch", links))
    if "body" in context:
        context["body"] = with_svg_links(context["body"])


def download_buttons(pathto, pdf):
    """Buttons for the files that `downloads.write` makes."""
    files = {"notebooks.zip": "all notebooks", "records.zip": "records (.csv)"}
    if pdf:
        files["book.pdf"] = "book (.pdf)"
    return [_link(pathto(f"downloads/{name}", 1), text, "fas fa-file-arrow-down") for name, text in files.items()]


def _group(tooltip, icon, label, links):
    buttons = [_link(url, text, icon) for text, url in links.items()]
    return {"type": "group", "tooltip": tooltip, "icon": icon, "label": f"{label}-buttons", "buttons": buttons}


def _link(url, text, icon):
    return {"type": "link", "url": url, "text": text, "icon": icon, "label": "download-file-button"}


def with_svg_links(body):
    """The HTML of a page with a link to the vector graphic below each figure that has a name."""

    def with_link(match):
        name, image = match[1], _SVG.search(match[0])
        if not image:
            return match[0]
        link = f'<p class="rc-svg"><a href="{image[1]}" download="{name}.svg">{name}.svg</a></p>'
        end = "</figcaption>" if "</figcaption>" in match[0] else "</figure>"
        return match[0].replace(end, link + end)

    return _FIGURE.sub(with_link, body)
