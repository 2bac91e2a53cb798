"""How large the project is, beside what it may be: `python -m tests.house`, a part of `make lint`.

A limit leaves 5 % of air above what there is, so that no repair is refused for its size, at most up
to the goal. Above the goal it is only ever lowered, but for code that moves from one package to
another.
"""

import ast
import inspect
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = ("rc_utils", "rc_theory", "rc_studies", "rc_exact")


def lines_of(folder):
    """Number of lines of the Python files below a folder."""
    return sum(len(file.read_text("utf-8").splitlines()) for file in (ROOT / folder).rglob("*.py"))


def text_of(notebook, kind="code", tag=None):
    """The code of a notebook, or of its cells with a tag; its prose, of the kind "markdown"."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    cells = [cell for cell in cells if cell["cell_type"] == kind]
    chosen = [cell for cell in cells if tag is None or tag in cell["metadata"].get("tags", [])]
    return "\n".join("".join(cell["source"]) for cell in chosen)


def words(text):
    """Number of words outside code blocks, comments and addresses."""
    text = re.sub(r"```.*?```|<!--.*?-->|\]\([^)]*\)", " ", text, flags=re.DOTALL)
    return len(re.findall(r"\S*\w\S*", text))


def files_reached(code):
    """Number of files whose functions and classes code names, and these name, and so on.

    The imports of the code are executed, and nothing else.
    """
    tree, names, seen = ast.parse(code), {}, set()
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), "imports", "exec"), names)
    waiting = named_in(compile(tree, "code", "exec"), names)
    while waiting:
        thing = inspect.unwrap(waiting.pop())
        if thing in seen or not is_ours(thing):
            continue
        seen.add(thing)
        if inspect.isclass(thing):
            members = [getattr(m, "fget", getattr(m, "func", m)) for m in vars(thing).values()]
            waiting += [*filter(inspect.isfunction, members), *thing.__bases__]
        elif inspect.isfunction(thing):
            waiting += named_in(thing.__code__, thing.__globals__)
    return len({thing.__module__ for thing in seen})


def named_in(code, names):
    """Functions and classes that a code object names; names: its globals."""
    found = [names[name] for name in code.co_names if name in names]
    modules = [thing for thing in found if inspect.ismodule(thing) and is_ours(thing)]
    found += [getattr(m, name) for m in modules for name in code.co_names if hasattr(m, name)]
    for inner in filter(inspect.iscode, code.co_consts):
        found += named_in(inner, names)
    return [thing for thing in found if inspect.isclass(thing) or inspect.isroutine(thing)]


def is_ours(thing):
    """Whether a module, class or function is of the packages."""
    name = getattr(thing, "__module__", None) or getattr(thing, "__name__", "")
    return str(name).split(".")[0] in PACKAGES


def sizes():
    """What is counted: how much there is, may be and should be of it, by its name."""
    notebooks = list((ROOT / "notebooks").glob("*.ipynb"))
    prose = {path.stem: words(text_of(path, "markdown")) for path in notebooks}
    # All but the protocol, which stays as it was registered.
    names = ("README", "book/intro", "book/playground", "book/related", "book/downloads")
    pages = [*(ROOT / f"{name}.md" for name in names), *(ROOT / "book" / "guide").glob("*.md")]
    prose |= {path.stem: words(path.read_text("utf-8")) for path in pages}
    reached = {path.stem: files_reached(text_of(path)) for path in notebooks}
    lines = sum(len(text_of(path).splitlines()) for path in notebooks)
    hidden = sum(len(text_of(path, tag="hide-input").splitlines()) for path in notebooks)
    return {
        "lines of rc_utils": (lines_of("rc_utils"), 6850, 5000),
        "files of rc_utils": (len(list((ROOT / "rc_utils").rglob("*.py"))), 36, 40),
        "lines of rc_theory": (lines_of("rc_theory"), 2720, 2600),
        "lines of rc_studies": (lines_of("rc_studies"), 1200, 1200),
        "lines of rc_exact": (lines_of("rc_exact"), 1105, 1300),
        "lines of book": (lines_of("book"), 890, 900),
        # With two parts of rc_utils until November 2026: the authors' files, tables of segments.
        "lines of programs in campaigns": (lines_of("campaigns"), 830, 830),
        "lines of benchmarks": (lines_of("benchmarks"), 1000, 1000),
        "lines of tests": (lines_of("tests"), 8000, 8000),
        "files reached from page 03": (reached["03_main_correlation"], 9, 12),
        "files reached from a page, at most": (max(reached.values()), 26, 25),
        "hidden lines of notebook code, percent": (round(100 * hidden / lines), 35, 40),
        "words of prose": (sum(prose.values()), 14_000, 14_000),
        "words of the README": (prose["README"], 700, 700),
        "words of the first page": (prose["intro"], 400, 400),
        "words of page 18": (prose["18_under_test"], 1500, 1500),
    }


def main():
    """Print the table; exits with an error where a limit is passed."""
    print(f"{'':40}{'now':>8}{'limit':>8}{'goal':>8}")
    passed = []
    for name, (found, limit, goal) in sizes().items():
        print(f"{name:40}{found:8,}{limit:8,}{goal:8,}")
        if found > limit:
            passed.append(name)
    if passed:
        names = ", ".join(passed)
        sys.exit(f"more than the limit: {names}; delete something, see CONTRIBUTING.md")


if __name__ == "__main__":
    main()
