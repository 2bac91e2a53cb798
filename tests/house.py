"""How large the package is, beside what it may be: `python -m tests.house`, a part of `make lint`.

A limit is what was there when it was last set, and is only ever lowered, down to the goal.
"""

import ast
import dataclasses
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "rc_utils"


@dataclasses.dataclass(frozen=True)
class Size:
    """Something that is counted: how much there is, how much there may be, and how much there should be."""

    name: str
    found: int
    limit: int
    goal: int

    @property
    def passed(self):
        """Whether there is more than there may be."""
        return self.found > self.limit


def lines_of(*paths):
    """Number of lines of Python files, and of those in folders."""
    files = [file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def function_lengths():
    """Number of lines of every function of the package."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py")]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [function.end_lineno - function.lineno + 1 for function in functions]


def sizes():
    """Everything that is counted."""
    entries = [path for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    entries.remove(PACKAGE / "__init__.py")
    pages, theory = PACKAGE / "pages", PACKAGE / "theory"
    library = [path for path in entries if path not in (pages, theory)]
    modules = [lines_of(file) for file in PACKAGE.rglob("*.py")]
    lengths = function_lengths()
    return [
        Size("entries of rc_utils", len(entries), 14, 14),
        Size("lines of the library", lines_of(*library), 9870, 7000),
        Size("lines of theory", lines_of(theory), 2970, 3000),
        Size("lines of pages", lines_of(pages), 3880, 3000),
        Size("lines of rc_utils", lines_of(PACKAGE), 16770, 13000),
        Size("lines of tests", lines_of(ROOT / "tests"), 13320, 9500),
        Size("functions", len(lengths), 1040, 750),
        Size("modules of more than 300 lines", sum(number > 300 for number in modules), 0, 0),
        Size("functions of more than 40 lines", sum(number > 40 for number in lengths), 5, 0),
    ]


def longest_modules(number=5):
    """(lines, path) of the longest modules of the package."""
    modules = [(lines_of(file), file.relative_to(ROOT).as_posix()) for file in PACKAGE.rglob("*.py")]
    return sorted(modules, reverse=True)[:number]


def main():
    """Print the table; returns 1 where a limit is passed."""
    counted = sizes()
    print(f"{'':32}{'now':>8}{'limit':>8}{'goal':>8}")
    for size in counted:
        print(f"{size.name:32}{size.found:8,}{size.limit:8,}{size.goal:8,}{'  TOO MUCH' * size.passed}")
    print("longest modules: " + ", ".join(f"{path} {number}" for number, path in longest_modules()))
    passed = [size.name for size in counted if size.passed]
    if passed:
        print(f"more than the limit: {', '.join(passed)}; delete something, see CONTRIBUTING.md", file=sys.stderr)
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main())
