"""A tiny book, built by the code that builds the real one."""

import dataclasses
import pathlib
import shutil

import build
import nbformat
import pages
import pytest

from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import record_path

BOOK = pathlib.Path(__file__).resolve().parents[1] / "book"

PROSE = """# Start

The count is $r^2$ {cite:p}`li2025region`.

$$\\sum_i x_i$$

```{bibliography}
```
"""
PAGES = 'depends = ["lib.py"]\n\n[pages.line]\nparameters = { n = 4 }\n'
CONTENTS = "format: jb-book\nroot: intro\nchapters:\n- file: notebooks/line\n"
FIGURE = {"figure": {"caption": "A line.", "name": "fig-line"}, "image": {"alt": "A rising line"}}


def write_notebook(path, *cells):
    first = nbformat.v4.new_code_cell("n = 3  # points", metadata={"tags": ["parameters"]})
    cells = [nbformat.v4.new_markdown_cell("# A page"), first, *cells]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, path)


def write_source(root):
    """The source of a book of one prose page and one notebook, with the real configuration."""
    book = root / "book"
    book.mkdir()
    for path in (BOOK / "_config.yml", BOOK / "references.bib", *BOOK.glob("*.py")):
        shutil.copy(path, book)
    for name in ("_static", "extra"):
        shutil.copytree(BOOK / name, book / name)
    (book / "intro.md").write_text(PROSE)
    (book / "pages.toml").write_text(PAGES)
    (book / "_toc.yml").write_text(CONTENTS)
    (root / "lib.py").write_text("x = 1\n")
    (root / "CITATION.cff").write_text("repository-code: https://example.org/us\n")
    code = nbformat.v4.new_code_cell
    drawing = "import matplotlib.pyplot as plt\nplt.plot(range(n));"
    write_notebook(
        root / "notebooks" / "line.ipynb",
        code("print(f'{n / 8:.3f}')"),
        code("import sys\nprint('no' + 'ise', file=sys.stderr)"),
        code(drawing, metadata={"mystnb": FIGURE, "tags": ["hide-input"]}),
    )


@pytest.fixture
def layout(tmp_path):
    write_source(tmp_path)
    return pages.Layout(tmp_path)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = tmp_path_factory.mktemp("tiny")
    write_source(root)
    layout = pages.Layout(root)
    return layout, build.build(layout)


def only_page(layout):
    return pages.read_pages(layout.book / "pages.toml")[1][0]


@pytest.mark.slow
def test_the_book_renders_what_it_needs_offline(built):
    _, index = built
    intro = (index.parent / "intro.html").read_text()
    assert 'src="_static/mathjax/tex-mml-chtml.js' in intro
    assert (index.parent / "_static" / "mathjax" / "tex-mml-chtml.js").is_file()
    page = (index.parent / "notebooks" / "line.html").read_text()
    assert 'alt="A rising line"' in page
    assert "0.500" in page  # by the parameter given, not by the default
    assert "noise" not in page
    assert 'href="https://example.org/us/blob/HEAD/notebooks/line.ipynb"' in page


@pytest.mark.slow
def test_a_second_build_does_nothing_and_a_warning_fails_until_it_is_repaired(built, capsys):
    layout, index = built
    files = [index, layout.executed(only_page(layout))]
    before = [f.stat().st_mtime_ns for f in files]
    assert build.build(layout) == index
    assert [f.stat().st_mtime_ns for f in files] == before
    assert "0 executed, 1 unchanged" in capsys.readouterr().out
    (layout.book / "intro.md").write_text(f"{PROSE}\nSee [](nowhere.md).\n")
    for _ in range(2):  # Sphinx alone repeats no warning of a page that it has read
        with pytest.raises(build.BuildError, match=r"intro\.md.*nowhere"):
            build.render(layout)


def test_the_package_of_another_checkout_builds_nothing(monkeypatch, capsys):
    monkeypatch.setattr(build.rc_utils, "__file__", "/elsewhere/rc_utils/__init__.py")
    monkeypatch.setattr(build, "build", lambda *_, **__: pytest.fail("built"))
    assert build.main([]) == 1
    assert "has the rc_utils of /elsewhere/rc_utils" in capsys.readouterr().err


@pytest.mark.slow
def test_a_page_that_shows_results_comes_last_and_is_named_where_it_fails(layout):
    code = "from rc_utils import published\n"
    code += "published.keep_results([published.Result('theory/lemma-7', 'here', n / 4)])\n"
    keeper = pages.Page("keeper", parameters={"n": 5})
    write_notebook(layout.source(keeper), nbformat.v4.new_code_cell(code))
    keeping, code = code, "from rc_utils import published\n"
    code += f"import pathlib; folder = pathlib.Path({str(layout.book / 'notebooks')!r})\n"
    code += "raise ValueError([r.value for r in published.kept_results(folder)])"
    card = pages.Page("card", results_of=["*"])
    write_notebook(layout.source(card), nbformat.v4.new_code_cell(code))
    words = r"page card: card\.ipynb failed in its cell .*ValueError: \[1\.25\]"
    with pytest.raises(pages.NotebookError, match=words):
        pages.execute_pages([card, keeper], layout)
    assert not layout.executed(card).exists()
    assert pages.execute_pages([keeper], layout) == []
    shown = pages.fingerprint(card, layout)
    layout.results(keeper).write_text("id,value")
    assert pages.fingerprint(card, layout) != shown
    before = layout.source(keeper).read_bytes()
    write_notebook(layout.source(keeper), *map(nbformat.v4.new_code_cell, (keeping, "1 / 0")))
    with pytest.raises(pages.NotebookError, match="division by zero"):
        pages.execute_pages([keeper], layout)
    layout.source(keeper).write_bytes(before)  # what is kept of the edit shows no more
    assert pages.execute_pages([keeper], layout) == ["keeper"]


def test_a_fingerprint_covers_notebook_parameters_dependencies_and_records(layout):
    page = only_page(layout)
    prints = [pages.fingerprint(page, layout)]
    assert pages.fingerprint(page, layout) == prints[0]
    prints.append(pages.fingerprint(dataclasses.replace(page, parameters={"n": 5}), layout))
    (layout.root / "lib.py").write_text("x = 2\n")
    prints.append(pages.fingerprint(page, layout))
    write_notebook(layout.source(page), nbformat.v4.new_code_cell("n"))
    page = dataclasses.replace(page, campaigns=("shapes-t*",))
    prints += [pages.fingerprint(only_page(layout), layout), pages.fingerprint(page, layout)]
    record = record_path(next(iter(load_campaign("shapes-tiny").runs())))
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    prints.append(pages.fingerprint(page, layout))
    assert len(set(prints)) == len(prints)
    with pytest.raises(ValueError, match="Did you mean 'shapes-tiny'"):
        pages.fingerprint(dataclasses.replace(page, campaigns=("shapes-tinny",)), layout)
