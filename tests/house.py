"""How large the package is, beside what it may be: `python -m tests.house`, a part of `make lint`.

A limit is what was there when it was last set, and is only ever lowered, down to the goal.
"""

import ast
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "rc_utils"


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
    """What is counted: how much there is, may be and should be of it, by its name."""
    entries = [path for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    entries.remove(PACKAGE / "__init__.py")
    pages, theory = PACKAGE / "pages", ROOT / "rc_theory"
    library = [path for path in entries if path not in (pages, theory)]
    modules = [lines_of(file) for file in PACKAGE.rglob("*.py")]
    lengths = function_lengths()
    return {
        "entries of rc_utils": (len(entries), 14, 14),
        "lines of the library": (lines_of(*library), 9410, 7000),
        "lines of theory": (lines_of(theory), 2750, 3000),
        "lines of pages": (lines_of(pages), 3000, 3000),
        "lines of rc_utils": (lines_of(PACKAGE), 15200, 13000),
        "lines of tests": (lines_of(ROOT / "tests"), 10800, 9500),
        "functions": (len(lengths), 925, 750),
        "modules of more than 300 lines": (sum(number > 300 for number in modules), 0, 0),
        "functions of more than 40 lines": (sum(number > 40 for number in lengths), 3, 0),
    }


def main():
    """Print the table; returns 1 where a limit is passed."""
    print(f"{'':32}{'now':>8}{'limit':>8}{'goal':>8}")
    passed = []
    for name, (found, limit, goal) in sizes().items():
        print(f"{name:32}{found:8,}{limit:8,}{goal:8,}")
        if found > limit:
            passed.append(name)
    if passed:
        print(f"more than the limit: {', '.join(passed)}; delete something, see CONTRIBUTING.md", file=sys.stderr)
    return int(bool(passed))


if __name__ == "__main__":
    sys.exit(main())
