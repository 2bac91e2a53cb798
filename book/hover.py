"""Figures whose points say what they are: their SVG stands in the page, and each point has its words as a tooltip.

A browser shows no tooltips inside an image. A figure drawn with `rc_utils.pages.plotting.words_of_points` has the words
of each point as the address of a link.
"""

import pathlib
import re

_IMAGE = re.compile(r'<img (?:[^>]*? )?src="([^"]+\.svg)"[^>]*>')
_ALT = re.compile(r' alt="([^"]*)"')
_POINT = re.compile(r'<a xlink:href="#([^"]+)"[^>]*>(.*?)</a>', re.DOTALL)


def setup(app):
    """Register with Sphinx, after the links to the figures' files have been added."""
    app.connect("html-page-context", _add_to_page, priority=950)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_to_page(app, pagename, templatename, context, doctree):
    if "body" in context:
        files = {name: app.srcdir / source for source, name in app.builder.images.items()}
        context["body"] = with_tooltips(context["body"], files)


def with_tooltips(body, files):
    """The HTML of a page, each figure that has words for its points in place of its image; files: {name: path}."""

    def replaced(image):
        path = files.get(pathlib.PurePosixPath(image[1]).name)
        graphic = pathlib.Path(path).read_text(encoding="utf8") if path else ""
        alt = _ALT.search(image[0])
        if not alt or not _POINT.search(graphic):
            return image[0]
        graphic = _POINT.sub(r"<g><title>\1</title>\2</g>", graphic[graphic.index("<svg ") :])
        return graphic.replace("<svg ", f'<svg class="rc-hover" role="img" aria-label="{alt[1]}" ', 1)

    return _IMAGE.sub(replaced, body)
