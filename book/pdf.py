"""The built book as one PDF: pages printed by Chromium, in the order of the contents, joined."""

import io
import re
import shutil

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_MARGIN = dict.fromkeys(("top", "bottom", "left", "right"), "15mm")
_WAIT_FOR_FORMULAS = "async () => { if (window.MathJax?.startup) await MathJax.startup.promise; }"


def chromium():
    """The path of a Chromium. Raises FileNotFoundError where there is none."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        raise FileNotFoundError(
            "the PDF is printed by Chromium and there is none on the path; install it, or leave "
            "out --pdf"
        )
    return program


def write(html, names, path):
    """Print the pages `names` below `html` and join them at `path`, with an outline and links."""
    from playwright.sync_api import sync_playwright
    from pypdf import PdfReader, PdfWriter

    writer, starts = PdfWriter(), {}
    with sync_playwright() as playwright:
        tab = playwright.chromium.launch(executable_path=chromium()).new_page(color_scheme="light")
        for name in names:
            tab.goto((html / f"{name}.html").as_uri())
            tab.evaluate(_WAIT_FOR_FORMULAS)
            tab.emulate_media(media="print")
            printed = PdfReader(io.BytesIO(tab.pdf(format="A4", margin=_MARGIN)))
            starts[(html / f"{name}.html").as_uri()] = len(writer.pages)
            writer.append(printed, outline_item=re.sub(r" — .*", "", tab.title()))
    _join_links(writer, starts, html.as_uri())
    writer.compress_identical_objects()
    writer.add_metadata({"/Title": "Region counts in input space"})
    path.parent.mkdir(exist_ok=True)
    writer.write(path)


def _join_links(writer, starts, root):
    """Turn links to printed pages into links within the PDF; remove links to other local files."""
    from pypdf.generic import ArrayObject, NameObject

    for page in writer.pages:
        kept = ArrayObject()
        for reference in page.get("/Annots", []):
            annotation = reference.get_object()
            address = str(annotation.get("/A", {}).get("/URI", ""))
            target = starts.get(address.partition("#")[0])
            if target is not None:
                del annotation["/A"]
                place = [writer.pages[target].indirect_reference, NameObject("/Fit")]
                annotation[NameObject("/Dest")] = ArrayObject(place)
            if target is not None or not address.startswith(root):
                kept.append(reference)
        if "/Annots" in page:
            page[NameObject("/Annots")] = kept
