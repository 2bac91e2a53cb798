"""How large the project is, beside what it may be: `python -m tests.house`, a part of `make lint`.

A limit leaves 5 % of air above what there is, so that no repair is refused for its size, at most up
to the goal. Above the goal it is only ever lowered, but for code that moves from one package to
another.
"""

import ast
import functools
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = ("rc_utils", "rc_theory", "rc_studies", "rc_exact")


def lines_of(folder):
    """Number of lines of the Python files below a folder."""
    return sum(len(file.read_text("utf-8").splitlines()) for file in (ROOT / folder).rglob("*.py"))


def code_of(notebook, tag=None):
    """The code of a notebook, or of its cells with a tag."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    cells = [cell for cell in cells if cell["cell_type"] == "code"]
    chosen = [cell for cell in cells if tag is None or tag in cell["metadata"].get("tags", [])]
    return "\n".join("".join(cell["source"]) for cell in chosen)


def modules_reached(code):
    """Modules of the packages that code reaches, by a static call graph.

    Its nodes are the functions, classes and constants of modules; each reaches those that it names.
    """
    tree, seen = ast.parse(code), set()
    waiting = names_in(tree, imported_names(tree, ""))
    while waiting:
        definition = definition_of(waiting.pop())
        if definition is not None and definition not in seen:
            seen.add(definition)
            module, name = definition
            nodes, imports = contents(module)
            own = {other: f"{module}.{other}" for other in nodes}
            waiting += names_in(nodes[name], imports | own)
    return {module for module, _ in seen}


def names_in(tree, known):
    """Absolute dotted names in a piece of code, whose first parts are known, {name: absolute}."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)]
    names = map(ast.unparse, nodes)
    dotted = [name.split(".") for name in names if re.fullmatch(r"[\w.]+", name)]
    return [".".join([known[head], *rest]) for head, *rest in dotted if head in known]


def definition_of(name):
    """(module, name) of what an absolute dotted name stands for; None outside of the packages."""
    parts, module = name.split("."), ""
    if parts[0] not in PACKAGES:
        return None
    while parts and file_of(inner := f"{module}.{parts[0]}".lstrip(".")).exists():
        module = inner
        parts = parts[1:]
    nodes, imports = contents(module)
    if not parts or parts[0] in nodes:
        return (module, parts[0]) if parts else None
    return definition_of(".".join([imports[parts[0]], *parts[1:]])) if parts[0] in imports else None


@functools.cache
def contents(module):
    """Definitions of a module, {name: node}, and absolute names of its imports, {name: name}."""
    file, nodes, imports = file_of(module), {}, {}
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for path in (file, file.with_suffix(".pyi")):
        tree = ast.parse(path.read_text("utf-8") if path.exists() else "")
        imports |= imported_names(tree, package)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                nodes[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
                nodes |= dict.fromkeys(names, node)
    return nodes, imports


def file_of(module):
    """File of a module or package, or the path where it would be."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def imported_names(tree, package):
    """{name: absolute name} of the imports in a module of a package."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            origin = [package] if getattr(node, "level", 0) else []
            origin += [node.module] if getattr(node, "module", None) else []
            for alias in node.names:
                found[alias.asname or alias.name] = ".".join([*origin, alias.name])
    return found


def sizes():
    """What is counted: how much there is, may be and should be of it, by its name."""
    notebooks = list((ROOT / "notebooks").glob("*.ipynb"))
    reached = {path.stem: len(modules_reached(code_of(path))) for path in notebooks}
    lines = sum(len(code_of(path).splitlines()) for path in notebooks)
    hidden = sum(len(code_of(path, "hide-input").splitlines()) for path in notebooks)
    return {
        "lines of rc_utils": (lines_of("rc_utils"), 6850, 5000),
        "files of rc_utils": (len(list((ROOT / "rc_utils").rglob("*.py"))), 36, 40),
        "lines of rc_theory": (lines_of("rc_theory"), 2720, 2600),
        "lines of rc_studies": (lines_of("rc_studies"), 1200, 1200),
        "lines of rc_exact": (lines_of("rc_exact"), 1105, 1300),
        "lines of book": (lines_of("book"), 880, 900),
        # With the reader of the authors' files, which was a part of rc_utils until November 2026.
        "lines of programs in campaigns": (lines_of("campaigns"), 800, 800),
        "lines of benchmarks": (lines_of("benchmarks"), 1000, 1000),
        "lines of tests": (lines_of("tests"), 8300, 8000),
        "files reached from page 03": (reached["03_main_correlation"], 9, 12),
        "files reached from a page, at most": (max(reached.values()), 26, 25),
        "hidden lines of notebook code, percent": (round(100 * hidden / lines), 32, 40),
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
