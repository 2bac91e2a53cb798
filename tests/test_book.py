"""A tiny book, built by the code that builds the real one."""

import concurrent.futures
import dataclasses
import pathlib
import re
import shutil
import tomllib
import urllib.parse

import nbformat
import pytest
import yaml

from rc_utils.paper.scorecard import findings_path
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import record_path

BOOK = pathlib.Path(__file__).resolve().parents[1] / "book"

PROSE = """# Start

The count is $r^2$ {cite:p}`li2025region`; see {numref}`fig-line` and {term}`regions <region>`.

$$\\sum_i x_i$$
"""
BIBLIOGRAPHY = """# Words

```{glossary}
region
  A piece of
  equal label.
```

```{bibliography}
:all:
```
"""
PAGES = 'depends = ["lib.py"]\n\n[pages.line]\nparameters = { n = 4 }\n'
CONTENTS = "format: jb-book\nroot: intro\nchapters:\n- file: notebooks/line\n- file: bibliography\n"
FIGURE = {"mystnb": {"figure": {"caption": "A line.", "name": "fig-line"}, "image": {"alt": "A rising line"}}}


@pytest.fixture(scope="module")
def build():
    """The module book/build.py, imported as Python does when it runs the script."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BOOK))
        import build

        yield build


@pytest.fixture(scope="module")
def pages(build):
    return build.pages


def write_notebook(path, *cells, parameters="n = 3  # points"):
    first = nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A page"), first, *cells])
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, path)


def write_source(root):
    """The source of a book with one prose page and one notebook, under the real book's configuration."""
    book = root / "book"
    book.mkdir()
    for path in (BOOK / "_config.yml", BOOK / "references.bib", *BOOK.glob("*.py")):
        shutil.copy(path, book)
    for name in ("_static", "extra"):
        shutil.copytree(BOOK / name, book / name)
    (book / "intro.md").write_text(PROSE)
    (book / "bibliography.md").write_text(BIBLIOGRAPHY)
    (book / "pages.toml").write_text(PAGES)
    (book / "_toc.yml").write_text(CONTENTS)
    (root / "lib.py").write_text("x = 1\n")
    code = nbformat.v4.new_code_cell
    write_notebook(
        root / "notebooks" / "line.ipynb",
        code("from myst_nb import glue\nglue('half', n / 8, display=False)"),
        code("import sys\nprint('no' + 'ise', file=sys.stderr)"),
        code("import pandas as pd\nfrom rc_utils.pages import show\nshow.show_table(pd.DataFrame({'a&b': [n / 8]}))"),
        code("import matplotlib.pyplot as plt\nplt.plot(range(n));", metadata=FIGURE | {"tags": ["hide-input"]}),
        nbformat.v4.new_markdown_cell("It is {glue:text}`half:.3f`."),
    )


@pytest.fixture
def layout(pages, tmp_path):
    write_source(tmp_path)
    return pages.Layout(tmp_path / "book", tmp_path)


@pytest.fixture(scope="module")
def built(build, pages, tmp_path_factory):
    root = tmp_path_factory.mktemp("tiny")
    write_source(root)
    layout = pages.Layout(root / "book", root)
    return layout, build.build(layout)


def only_page(layout, pages):
    return pages.read_pages(layout.book / "pages.toml")[1][0]


@pytest.mark.slow
def test_the_book_renders_offline(build, built):
    _, index = built
    assert index.is_file()
    assert build.html_checks.book_problems(index.parent) == []
    intro = (index.parent / "intro.html").read_text()
    assert 'src="_static/mathjax/tex-mml-chtml.js' in intro
    assert r"\sum_i x_i" in intro
    assert (index.parent / "_static" / "mathjax" / "tex-mml-chtml.js").is_file()
    page = (index.parent / "notebooks" / "line.html").read_text()
    assert 'alt="A rising line"' in page
    assert 'title="A piece of equal label."' in intro
    assert "0.500" in page  # the value glued by the parameter given, not by the default
    assert "noise" not in page
    before, drawer = page.split("Code and parameters")
    assert "matplotlib" not in before  # the code of the figure is in the drawer alone
    (table,) = re.findall(r'download="line-1.csv" href="data:text/csv;charset=utf-8,([^"]*)"', drawer)
    assert urllib.parse.unquote(table) == "a&b\n0.5\n"
    drawer = re.sub(r"<[^>]+>", "", drawer)
    assert all(word in drawer for word in ("import matplotlib", "# points", "rc_utils.notebooks line -p n 4"))


@pytest.mark.slow
def test_a_second_build_does_nothing(build, pages, built, capsys):
    layout, index = built
    page = only_page(layout, pages)
    files = [index, layout.executed(page), index.parent / "notebooks" / "line.html"]
    before = [f.stat().st_mtime_ns for f in files]
    assert build.build(layout) == index
    assert [f.stat().st_mtime_ns for f in files] == before
    assert "0 executed, 1 unchanged" in capsys.readouterr().out


@pytest.mark.slow
def test_a_changed_style_sheet_reaches_the_pages(build, built):
    layout, index = built
    sheet = layout.book / "_static" / "custom.css"
    sheet.write_text(sheet.read_text() + "\n/* another */\n")
    assert build.render(layout)
    assert "/* another */" in (index.parent / "_static" / "custom.css").read_text()


@pytest.mark.slow
def test_a_warning_of_sphinx_fails_the_build_until_it_is_repaired(build, built, monkeypatch):
    layout, index = built
    (layout.book / "intro.md").write_text(PROSE + "\nSee [](nowhere.md).\n")
    with pytest.raises(build.BuildError, match=r"intro\.md.*nowhere"):
        build.render(layout)
    rendered = []
    monkeypatch.setattr(build, "_sphinx", lambda book, *options: rendered.append(book))
    (layout.book / "intro.md").write_text(PROSE)
    assert build.render(layout)
    assert rendered == [layout.book]  # what failed was not taken for finished,
    assert not index.exists()  # nor kept: Sphinx would not repeat its warnings
    assert not build.render(layout)


@pytest.mark.slow
def test_changed_pages_are_executed_again_and_a_failing_one_is_named(pages, built, tmp_path):
    shutil.copytree(built[0].root, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("_build"))
    layout = pages.Layout(tmp_path / "book", tmp_path)
    page = only_page(layout, pages)
    assert pages.execute_pages([page], layout) == []
    other = dataclasses.replace(page, parameters={"n": 5})
    write_notebook(layout.root / "notebooks" / "broken.ipynb", nbformat.v4.new_code_cell("1 / (n - 3)"))
    broken = dataclasses.replace(page, name="broken", parameters={})
    with pytest.raises(pages.NotebookError, match=r"page broken: broken\.ipynb failed in its cell") as caught:
        pages.execute_pages([other, broken], layout)
    assert "ZeroDivisionError: division by zero" in str(caught.value)
    assert not layout.executed(broken).exists()
    cells = nbformat.read(layout.executed(page), 4).cells
    assert any("n = 5" in cell.source for cell in cells)
    assert pages.execute_pages([other], layout) == []


@pytest.fixture
def order(pages, monkeypatch):
    """The names of pages in the order in which they would be executed: they are written with their stamp, not run."""
    names = []

    def submit(pool, page, stamp, layout, *, fork):
        notebook = nbformat.read(layout.source(page), 4)
        notebook.metadata[pages.STAMP] = stamp
        layout.executed(page).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, layout.executed(page))
        names.append(page.name)
        future = concurrent.futures.Future()
        future.set_result(None)
        return future

    monkeypatch.setattr(pages, "_submit", submit)
    return names


@pytest.mark.slow
def test_a_page_that_shows_findings_follows_the_pages_that_keep_them(pages, layout):
    keep = "from rc_utils.paper.verdict import Result\nfrom rc_utils.paper.scorecard import keep_results\n"
    keep += "keep_results([Result('theory/lemma-7', 'here', n / 4)])"
    show = "from rc_utils.paper.scorecard import kept_results\nprint([result.value for result in kept_results()])"
    for name, source in (("keeper", keep), ("card", show)):
        write_notebook(layout.root / "notebooks" / f"{name}.ipynb", nbformat.v4.new_code_cell(source))
    card, keeper = pages.Page("card", findings=["keeper"]), pages.Page("keeper")
    assert pages.execute_pages([card, keeper], layout) == ["keeper", "card"]
    assert "[0.75]" in layout.executed(card).read_text()
    assert pages.execute_pages([card, keeper], layout) == []


def test_a_page_is_executed_again_where_findings_changed_and_their_page_where_they_are_lost(pages, layout, order):
    for name in ("keeper", "card"):
        write_notebook(layout.root / "notebooks" / f"{name}.ipynb", nbformat.v4.new_code_cell("n"))
    card, keeper = pages.Page("card", findings=["keeper"]), pages.Page("keeper")
    findings_path("keeper").parent.mkdir(parents=True, exist_ok=True)
    findings_path("keeper").write_text("[]")
    assert pages.execute_pages([card, keeper], layout) == ["keeper", "card"] == order
    assert pages.execute_pages([card, keeper], layout) == []
    findings_path("keeper").write_text("[ ]")
    assert pages.execute_pages([card, keeper], layout) == ["card"]
    findings_path("keeper").unlink()
    assert pages.execute_pages([card, keeper], layout) == ["keeper", "card"]


def test_the_last_page_is_executed_after_all_others_whenever_one_of_them_was(pages, layout, order):
    for name in ("status", "other"):
        write_notebook(layout.root / "notebooks" / f"{name}.ipynb", nbformat.v4.new_code_cell("n"))
    status, other = pages.Page("status", last=True), pages.Page("other")
    assert pages.execute_pages([status, other], layout) == ["other", "status"]
    assert pages.execute_pages([status, other], layout) == []
    changed = dataclasses.replace(other, parameters={"n": 2})
    assert pages.execute_pages([status, changed], layout) == ["other", "status"]
    assert order == ["other", "status"] * 2


def test_a_fingerprint_covers_notebook_parameters_and_dependencies(pages, layout):
    page = only_page(layout, pages)
    prints = [pages.fingerprint(page, layout)]
    assert pages.fingerprint(page, layout) == prints[0]
    prints.append(pages.fingerprint(dataclasses.replace(page, parameters={"n": 5}), layout))
    (layout.root / "lib.py").write_text("x = 2\n")
    prints.append(pages.fingerprint(page, layout))
    write_notebook(layout.source(page), nbformat.v4.new_code_cell("n"))
    prints.append(pages.fingerprint(page, layout))
    assert len(set(prints)) == len(prints)


def test_a_fingerprint_covers_the_records_of_its_campaigns(pages, layout):
    page = dataclasses.replace(only_page(layout, pages), campaigns=("shapes-t*",))
    before = pages.fingerprint(page, layout)
    record = record_path(next(iter(load_campaign("shapes-tiny").runs())))
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    assert pages.fingerprint(page, layout) != before
    with pytest.raises(ValueError, match="Did you mean 'shapes-tiny'"):
        pages.fingerprint(dataclasses.replace(page, campaigns=("shapes-tinny",)), layout)


def test_wrong_tables_are_refused(build, pages, layout):
    table = layout.book / "pages.toml"
    table.write_text(PAGES + 'campaign = ["shapes-tiny"]\n')
    with pytest.raises(ValueError, match="Did you mean 'campaigns'"):
        build.build(layout)
    table.write_text(PAGES.replace("n = 4", "m = 4"))
    with pytest.raises(ValueError, match=r"'m'.*line\.ipynb|line\.ipynb.*'m'"):
        build.build(layout)
    table.write_text(PAGES + "\n[pages.extra]\n")
    with pytest.raises(ValueError, match=r"page extra is in pages\.toml but not in _toc\.yml"):
        build.build(layout)
    table.write_text(PAGES.replace("lib.py", "lost.py"))
    with pytest.raises(ValueError, match=r"lost\.py matches no file"):
        build.build(layout)
    with pytest.raises(ValueError, match="Did you mean 'line'"):
        build.build(layout, only=["lines"])
    table.write_text(PAGES)
    (layout.root / "notebooks" / "line.ipynb").unlink()
    with pytest.raises(FileNotFoundError, match=r"page line: there is no .*line\.ipynb"):
        build.build(layout)


def test_the_device_reaches_the_notebooks_that_take_one(pages, layout):
    page = only_page(layout, pages)
    assert pages.with_device(page, layout, "cuda") == page
    write_notebook(layout.source(page), parameters='device = "cpu"')
    assert pages.with_device(page, layout, "cuda").parameters == {"n": 4, "device": "cuda"}


@pytest.mark.slow
def test_a_page_that_was_not_asked_for_is_shown_without_results(build, layout, capsys, monkeypatch):
    write_notebook(layout.root / "notebooks" / "extra.ipynb", nbformat.v4.new_code_cell("print(3 * n)"))
    (layout.book / "pages.toml").write_text(PAGES + "\n[pages.extra]\n")
    toc = layout.book / "_toc.yml"
    toc.write_text(toc.read_text() + "- file: notebooks/extra\n")
    index = build.build(layout, only=["line"])
    assert "not executed before: extra." in capsys.readouterr().out
    assert "print" in (index.parent / "notebooks" / "extra.html").read_text()
    monkeypatch.setattr(build, "_sphinx", lambda *_: None)  # the page is executed, whatever becomes of it
    build.build(layout)
    assert "9" in nbformat.read(layout.executed(build.pages.Page("extra")), 4).cells[-2].outputs[0]["text"]


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<script src="//cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="https://cdn.example/x.css">',
        '<link rel="preconnect" href="https://fonts.example">',
        '<img alt="a" src="https://cdn.example/x.png">',
        '<img alt="a" src="x.png" srcset="https://cdn.example/x.png 2x">',
        '<iframe src="https://cdn.example/"></iframe>',
        '<video poster="//cdn.example/x.png"></video>',
        '<div style="background: url(https://cdn.example/x.png)"></div>',
        "<style>@import 'https://cdn.example/x.css';</style>",
        '<script type="module">import x from "https://cdn.example/x.mjs"</script>',
        '<span class="math notranslate">\\(\\boldsymbol{x}\\)</span>',
        '<img src="x.png">',
        '<img src="../_images/x.png" alt="_images/x.png">',
    ],
)
def test_what_is_fetched_or_has_no_alt_text_is_found(build, text):
    assert len(build.html_checks.page_problems(f"<html><body>{text}</body></html>")) == 1


@pytest.mark.parametrize(
    "text",
    [
        '<a href="https://example.org">a link to follow</a>',
        '<script src="../_static/x.js"></script>',
        '<link rel="stylesheet" href="x.css"><link rel="canonical" href="https://example.org/">',
        '<img alt="a line" src="data:image/png;base64,AAAA//AA">',
        '<img alt="" src="ornament.svg">',
        '<script>const home = "https://example.org/"</script>',
        "<p>https://example.org/x.js</p>",
        '<span class="math">\\(\\mathbf{x}\\)</span><code>\\boldsymbol{x}</code>',
    ],
)
def test_what_a_page_may_have_is_not_reported(build, text):
    assert build.html_checks.page_problems(f"<html><body>{text}</body></html>") == []


def test_a_style_sheet_that_fetches_is_found(build, tmp_path):
    (tmp_path / "x.css").write_text("@font-face { src: url('//fonts.example/x.woff2') }")
    assert build.html_checks.book_problems(tmp_path) == ["x.css: style fetches //fonts.example/x.woff2"]


def test_the_real_book_is_consistent(pages):
    train, table = pages.read_pages(BOOK / "pages.toml")
    pages.check_contents(table, BOOK / "_toc.yml")
    assert set(train) <= {name for page in table for name in page.campaigns}
    assert tomllib.loads((BOOK / "pages.toml").read_text())["depends"]
    config = yaml.safe_load((BOOK / "_config.yml").read_text())["sphinx"]["config"]
    mathjax = BOOK / "extra" / "_static" / config["mathjax_path"]
    assert mathjax.is_file()
    assert list((mathjax.parent / "output" / "chtml" / "fonts" / "woff-v2").glob("*.woff"))


@pytest.mark.parametrize("content", ["", "[1]"])
def test_a_stamp_that_cannot_be_read_is_a_stale_one(build, layout, monkeypatch, content):
    rendered = []
    monkeypatch.setattr(build, "_sphinx", lambda book, *options: rendered.append(book))
    stamp = layout.book / "_build" / ".rendered"
    assert build.render(layout)
    assert not build.render(layout)
    stamp.write_text(content)
    assert build.render(layout)
    assert not build.render(layout)
    assert len(rendered) == 2


@pytest.mark.parametrize("content", ["", "[]", '{"metadata": []}'])
def test_a_damaged_page_is_executed_again(pages, layout, order, content):
    page = pages.Page("line")
    assert pages.execute_pages([page], layout) == ["line"]
    assert pages.execute_pages([page], layout) == []
    layout.executed(page).write_text(content)
    assert pages.execute_pages([page], layout) == ["line"]
    assert pages.execute_pages([page], layout) == []
