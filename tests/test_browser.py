"""The book in a real browser, cut off from the network: what a reader would trip over.

The pages are those of `book/_build/html` where the book has been built, else of the tiny book of
test_book.py.
"""

import functools
import json
import pathlib
import re
import shutil
import urllib.parse

import build
import numpy as np
import pytest
from axe_playwright_python.base import AXE_SCRIPT
from PIL import Image
from test_book import BOOK, write_source
from test_pages_explorer import counts_of as counts_by_run
from test_pages_explorer import random_grids

from rc_studies import explorer
from rc_utils.counting import count_components, make_lattice
from rc_utils.plotting import CLASS_COLOURS

pytestmark = pytest.mark.slow

HTML = BOOK / "_build" / "html"
TINY_PAGES = ["genindex.html", "intro.html", "notebooks/line.html", "search.html"]
ADDRESS = "http://127.0.0.1/"  # nothing is asked there: `show` answers
DESKTOP = {"width": 1280, "height": 900}
WIDTHS = (1400, 1024, 390)
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]  # levels A and AA
# (rule, part of the selector) of violations by tools: Sphinx's <dd> without <dt>, docutils' lists.
NOT_OURS = (("definition-list", "#rc_"), ("aria-required-children", ".citation-list"))
GIF = "data:image/gif;base64,R0lGODlhAQABAAAAACw="


def built_pages():
    """The pages of the built book but for its first address, which leads to the introduction."""
    if not (HTML / "index.html").is_file():
        return TINY_PAGES
    pages = sorted(str(path.relative_to(HTML)) for path in HTML.rglob("*.html"))
    return [page for page in pages if page != "index.html" and not page.startswith("_static/")]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """Folder of the built book, or of a tiny one built here."""
    if (HTML / "index.html").is_file():
        return HTML
    root = tmp_path_factory.mktemp("tiny")
    write_source(root)
    return build.build(build.pages.Layout(root)).parent


@pytest.fixture(scope="module")
def opened(browser):
    """One tab for all tests: to open one takes as long as to read a page."""
    tab = browser.new_context(viewport=DESKTOP, reduced_motion="reduce").new_page()
    tab.set_default_timeout(60_000)
    tab.requests, tab.errors = [], []
    tab.on("request", lambda request: tab.requests.append(request.url))
    tab.on("console", lambda m: tab.errors.append(m.text) if m.type == "error" else None)
    tab.on("pageerror", lambda error: tab.errors.append(str(error)))
    return tab


@pytest.fixture
def tab(opened):
    """The tab without a page; `requests` and `errors` are what happens in it from now on."""
    opened.goto("about:blank")
    opened.unroute_all(behavior="ignoreErrors")  # also what is asked for while a page is left
    opened.set_viewport_size(DESKTOP)
    opened.emulate_media(color_scheme="light")
    opened.requests, opened.errors = [], []
    return opened


def show(tab, folder, page):
    """Open a page in a tab that finds the files of a folder at ADDRESS."""

    def answer(route):
        path = folder / path_of(route.request.url)
        options = {"path": path} if path.is_file() else {"status": 404}
        route.fulfill(**options)

    tab.route(f"{ADDRESS}**", answer)
    tab.goto(ADDRESS + page)


def path_of(url):
    """Path of a file below ADDRESS."""
    return urllib.parse.unquote(urllib.parse.urlsplit(url).path.removeprefix("/"))


def problems(tab, root):
    """What is wrong with the page in `tab`, as sentences; root is the folder that is served."""
    own = (ADDRESS, "data:", "blob:")
    found = [f"asks for {url}" for url in tab.requests if not url.startswith(own)]
    found += [f"console: {text}" for text in tab.errors]
    found += [f"formula not rendered: {text}" for text in look(tab, "rawFormulas")]
    found += [f"broken image: {source}" for source in look(tab, "brokenImages")]
    found += [f"without a name: {source}" for source in look(tab, "noName")]
    found += broken_links(tab, root)
    tab.evaluate(AXE_SCRIPT + ONLY_FIRST)
    found += [f"light: {text}" for text in violations(tab, WCAG)]
    tab.emulate_media(color_scheme="dark")
    if tab.evaluate("'mode' in document.documentElement.dataset"):
        tab.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    found += [f"printed in {theme} colours" for theme in look(tab, "printed")]
    found += [f"dark: {text}" for text in violations(tab, ["color-contrast"])]
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        found += [f"cut off at {width} px: {text}" for text in look(tab, "cutOff")]
        found += [f"broken at {width} px: {word}" for word in look(tab, "brokenWords")]
    found += [f"wider than a phone: {text}" for text in look(tab, "tooWide")]
    return found


CHECKS = pathlib.Path(__file__).with_name("page_checks.js").read_text(encoding="utf8")


def look(tab, check):
    """What a function of page_checks.js finds on the page in `tab`."""
    return tab.evaluate(f"{CHECKS}.{check}()")


def broken_links(tab, root):
    found, links = [], "() => [...document.querySelectorAll('a[href]')].map(e => e.href)"
    for link in sorted(set(tab.evaluate(links))):
        url, fragment = urllib.parse.urldefrag(link)
        if url.startswith(ADDRESS):
            path = root / path_of(url)
            path = path / "index.html" if path.is_dir() else path
            anchor = urllib.parse.unquote(fragment)
            if not path.is_file():
                found.append(f"broken link: {link}")
            elif anchor and path.suffix == ".html" and anchor not in anchors(path):
                found.append(f"link to nothing on its page: {link}")
    return found


@functools.cache
def anchors(path):
    return set(re.findall(r'\sid="([^"]+)"', path.read_text(encoding="utf8")))


# Contrast takes long: it is looked at where a page has a look, a colour on backgrounds, first.
ONLY_FIRST = 'axe.configure({ rules: [{ id: "color-contrast", selector: "[data-first]" }] });'


def violations(tab, rules):
    """Serious and critical violations of rules of axe-core, which the tab has, but the theme's."""
    look(tab, "markFirst")
    found, options = [], {"runOnly": rules, "resultTypes": ["violations"], "preload": False}
    for rule in tab.evaluate("options => axe.run(options)", options)["violations"]:
        for node in rule["nodes"]:
            selector = " ".join(map(str, node["target"]))
            theirs = any(rule["id"] == known and part in selector for known, part in NOT_OURS)
            if node["impact"] in ("serious", "critical") and not theirs:
                found.append(f"{rule['id']} at {selector}: {node['html'][:100]}")
    return found


@pytest.mark.parametrize("page", built_pages())
def test_a_page_is_sound(tab, book, page):
    show(tab, book, page)
    tab.evaluate("async () => { if (window.MathJax?.startup) await MathJax.startup.promise; }")
    found = problems(tab, book)
    assert not found, "\n".join(found)


DARK = "@media (prefers-color-scheme: dark) {p {color: #eee}}"
NARROW = '<table style="table-layout: fixed; width: 30px; overflow-wrap: anywhere">'
WIDE = '<table style="width: 1100px"><tr><td>wide</td></tr></table>'
# What is wrong with a piece of a page -> the piece.
BROKEN = {
    "asks for http://cdn": '<img alt="a" src="http://cdn.example/x.png">',
    "asks for http://fonts": "<style>@import 'http://fonts.example/x.css';</style>",
    "console: no": '<script>console.error("no")</script>',
    "formula not rendered": '<span class="math">\\(x\\)</span>',
    r"broken image: \S+lost.png": '<img alt="a" src="lost.png">',
    "without a name: data": f'<figure><img src="{GIF}"></figure>',
    r"without a name: \S+a.svg": '<figure><img alt="x/a.svg" src="../x/a.svg"></figure>',
    r"broken link: \S+lost.html": '<a href="lost.html">a page</a>',
    "link to nothing": '<a href="#lost">a place</a>',
    "light: button-name": "<button></button>",
    "dark: color-contrast": f"<style>{DARK}</style><p>pale</p>",
    "without a name: <input": "<label><output></output><input></label>",
    "broken at 390 px: -0.65": f"{NARROW}<tr><td>-0.65</td></tr></table>",
    "broken at 1024 px: 123456": f"{NARROW}<tr><td>123456</td></tr></table>",
    "cut off at 1024": f'<div style="overflow: auto">{WIDE}</div>',
    "wider than a phone": '<div style="width: 500px">wide</div>',
}


def test_each_problem_is_found(show_alone, tmp_path):
    """All of them on one page."""
    found = problems(show_alone("".join(BROKEN.values())), tmp_path)
    assert [words for words in BROKEN if not any(re.match(words, text) for text in found)] == []


@pytest.fixture(scope="module")
def made_explorer(tiny_data):
    """An explorer of two random networks: its grids and its page."""
    triangles = explorer.draw_triangles(tiny_data, 2, seed=0)
    runs = ("learning rate 0.01", "learning rate 0.02")
    grids = random_grids(tiny_data, triangles, runs, resolution=30)
    counts, notes = counts_by_run(grids), {run: {} for run in runs}
    return grids, explorer.explorer_html(grids, counts, tiny_data, triangles, notes)


@pytest.fixture
def show_alone(tab, tmp_path):
    """Open a page with a body and the style sheet and script of a name; returns its tab."""

    def show_body(body, name=""):
        for folder in (BOOK / "_static", BOOK / "extra" / "_static"):
            left_out = shutil.ignore_patterns("mathjax")
            shutil.copytree(folder, tmp_path / "_static", ignore=left_out, dirs_exist_ok=True)
        head = '<meta charset="utf8"><meta name="viewport" content="width=device-width">'
        head += '<title>Alone</title><link rel="icon" href="data:,">'
        if name:
            head += f'<link rel="stylesheet" href="_static/{name}.css">'
            body += f'<script src="_static/{name}.js"></script>'
        page = f'<!doctype html><html lang="en">{head}<main><h1>Alone</h1>{body}</main></html>'
        (tmp_path / "x.html").write_text(page, encoding="utf8")
        show(tab, tmp_path, "x.html")
        return tab

    return show_body


def counts_shown(tab):
    numbers = tab.locator(".rc-explorer figcaption strong").all_inner_texts()
    return [int(text.split()[0]) for text in numbers]


def counts_of(grids, triangle, epoch):
    return [int(count_components(run[epoch], "simplex")[triangle]) for run in grids.values()]


def test_the_explorer_shows_our_counts_and_follows_the_keys(show_alone, made_explorer, tmp_path):
    grids, page = made_explorer
    tab = show_alone(page, "explorer")
    assert counts_shown(tab) == counts_of(grids, 0, 9)
    tab.keyboard.press("Tab")
    tab.keyboard.press("ArrowDown")
    assert counts_shown(tab) == counts_of(grids, 1, 9)
    tab.keyboard.press("Tab")  # to the button that plays
    tab.keyboard.press("Tab")
    tab.keyboard.press("ArrowLeft")
    assert counts_shown(tab) == counts_of(grids, 1, 5)
    tab.keyboard.press("Home")
    assert counts_shown(tab) == counts_of(grids, 1, 0)
    status = tab.locator("[role=status]").inner_text()
    first, second = counts_of(grids, 1, 0)
    play = tab.get_by_role("button")
    play.click()
    assert play.inner_text() == "Pause"
    tab.get_by_role("slider").press("ArrowRight")  # whoever moves the slider takes it over
    assert play.inner_text() == "Play"
    said = f"Triangle 2, epoch 0 of 9: {first} regions with learning rate 0.01, "
    said += f"{second} regions with learning rate 0.02."
    assert status == said
    assert len({*counts_of(grids, 0, 9), *counts_of(grids, 1, 9), first, second}) > 3
    assert problems(tab, tmp_path) == []


def test_the_explorer_paints_labels_where_they_belong(show_alone, made_explorer, tmp_path):
    tab, grid = show_alone(made_explorer[1], "explorer"), made_explorer[0]["learning rate 0.02"][9]
    corners = tab.evaluate("""() => {
        const svg = document.querySelectorAll(".rc-explorer svg")[1];
        const place = svg.getScreenCTM();
        const points = [...svg.querySelector(".rc-outline").points];
        return points.map(p => p.matrixTransform(place)).map(p => [p.x, p.y]);
    }""")
    tab.screenshot(path=tmp_path / "x.png")
    pixels = np.asarray(Image.open(tmp_path / "x.png").convert("RGB")).astype(int)
    coordinates = make_lattice(2, grid.shape[1]).coordinates
    inside = coordinates.min(1) > 0  # the outline covers the points on the edges
    columns, rows = (coordinates @ np.asarray(corners))[inside].T.round().astype(int)
    labels = grid[0][grid[0] >= 0][inside]
    colours = np.array([[int(CLASS_COLOURS[k][i : i + 2], 16) for i in (1, 3, 5)] for k in labels])
    right = np.abs(pixels[rows, columns] - colours).max(1) <= 2
    assert len(set(labels)) > 2
    assert right.mean() > 0.97


def test_the_playground_trains_and_shows_the_counts_of_its_segment(show_alone, tmp_path):
    page = (BOOK / "playground.md").read_text()
    tab = show_alone(re.search(r"```\{raw\} html\n(.*?)```", page, re.DOTALL)[1])
    tab.get_by_role("button", name="Start", exact=True).click()
    tab.wait_for_function("Number(document.querySelector('[data-rc=step]').textContent) >= 300")
    tab.get_by_role("button", name="Pause").click()
    tab.get_by_role("button", name="End of the segment").first.press("Shift+ArrowLeft")
    shown = [int(text.split()[0]) for text in tab.locator("[data-rc=regions]").all_inner_texts()]
    count = "t => t.recorded === t.step && rcPlayground.segment(t.network, ...p.ends).count"
    counts = f"() => {{ const [p] = rcPlayground.playgrounds; return p.trainings.map({count}); }}"
    assert shown == tab.evaluate(counts)
    assert problems(tab, tmp_path) == []


def level(name, count, gap, regions):
    """A level of a change, with one triangle of one label."""
    triangle = {"regions": regions, "paths": {"0": "M0,208l240,0 -120,-208z"}}
    return {"name": name, "count": count, "gap": gap, "triangles": [triangle]}


def test_what_is_changed_is_chosen_by_keyboard(show_alone, tmp_path):
    small = level("rate 0.1", [3, 4], [0.5, 0.6], 7)
    large = level("rate 1", [2, 3], [0.4, 0.5], 5)
    many = level("200 images", [3.5, 4.5], [0.4, 0.5], 8)
    changes = [{"name": "rate", "bases": [{"levels": [small, large]}], "note": ""}]
    bases = [{"levels": [small, large, many]}]
    changes.append({"name": "images", "bases": bases, "note": "A note."})
    triangles = [{"images": [GIF] * 3, "classes": ["a", "b", "c"]}]
    data = {"bases": ["0.1", "1"], "changes": changes, "triangles": triangles}
    data["labels"] = [{"name": "cat", "colour": "#CC6677"}]
    body = '<div class="rc-changes" role="group" aria-label="x"><script type="application/json">'
    body += f"{json.dumps(data)}</script><p>No script</p></div>"
    tab = show_alone(body, "changes")
    status, numbers = tab.locator("[role=status]"), tab.locator("figcaption strong")
    said = "Fewer regions (3.50 to 2.50) and a smaller gap (0.550 to 0.450): "
    assert status.inner_text() == said + "along the claim, in 2 of 2 seeds."
    assert numbers.all_inner_texts() == ["7 regions", "5 regions"]
    tab.keyboard.press("Tab")
    tab.keyboard.press("ArrowDown")
    said = "More regions (3.50 to 4.00) and a smaller gap (0.550 to 0.450): "
    assert status.inner_text() == said + "against the claim, in 2 of 2 seeds."
    assert numbers.all_inner_texts() == ["7 regions", "8 regions"]
    assert tab.get_by_text("A note.").is_visible()
    assert problems(tab, tmp_path) == []
