"""Execute a notebook with other parameters.

    python -m rc_utils.notebooks 03_main_correlation -p campaign shapes-tiny -o out.ipynb

papermill only warns about a parameter that a notebook does not have; here it is an error, and so is
a value of another type than its default.
"""

import argparse
import ast
import json
import logging
import pathlib
import sys

from rc_utils.checks import check_keys, checked_value, require, unknown_name
from rc_utils.paths import fix_folders, project_root, results_dir


class NotebookError(RuntimeError):
    """A notebook that could not be executed; names the notebook, the cell and the cell's error."""


def find_notebook(name):
    """Path of a notebook given by its path or by its name in `notebooks/`."""
    path, known = pathlib.Path(name), known_notebooks()
    if path.suffix == ".ipynb" and path.is_file():
        return path
    if name not in known:
        raise FileNotFoundError(f"{unknown_name('notebook', name, known)} (in {project_root() / 'notebooks'})")
    return known[name]


def known_notebooks():
    """Notebooks in the folder `notebooks/` of the project, by name."""
    return {path.stem: path for path in sorted((project_root() / "notebooks").glob("*.ipynb"))}


def _code_cells(path):
    """Code cells of a notebook, and which of them holds the parameters, or None."""
    import nbformat

    try:
        cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    except (nbformat.ValidationError, AttributeError) as error:
        raise ValueError(f"{path} is not a notebook: {str(error).splitlines()[0]}") from error
    tagged = [c for c in cells if "parameters" in c.metadata.get("tags", [])]
    return cells, tagged[0] if tagged else None


def notebook_parameters(path):
    """Defaults of a notebook's parameters, by name, from its first cell tagged `parameters`.

    Raises ValueError if that cell holds anything but assignments of literals to names.
    """
    _, cell = _code_cells(path)
    parameters = {}
    try:
        for node in ast.parse(cell.source).body if cell else ():
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            several = isinstance(node, ast.Assign) and len(node.targets) > 1
            require(isinstance(target, ast.Name) and not several, f"found `{ast.unparse(node)}`")
            parameters[target.id] = ast.literal_eval(node.value)
    except (SyntaxError, ValueError, AttributeError, TypeError) as error:
        advice = "its parameters cell may hold assignments of literals only, one name each"
        raise ValueError(f"{path}: {advice}: {error}") from error
    return parameters


def check_parameters(path, parameters):
    """Raise ValueError for a parameter that the notebook does not have or cannot be given.

    A default of None takes any value, a float an int, lists and tuples each other.
    """
    defaults, name = notebook_parameters(path), pathlib.Path(path).name
    check_keys(f"the parameters of {name}", parameters, defaults)
    for key, value in parameters.items():
        if defaults[key] is not None:
            checked_value(value, type(defaults[key]), f"parameter {key} of {name}")


def parse_value(text, default=None):
    """Value of a parameter given as text: as it is where the default is a text, else a literal."""
    if isinstance(default, str):
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def execute_notebook(path, output, parameters=None, *, cwd=None):
    """Execute the notebook at `path` with `parameters` and write it, with outputs, to `output`.

    The kernel works in `cwd`, by default the current folder. Returns `output`, which appears only
    when every cell has run. Raises ValueError as `check_parameters`, and NotebookError where a cell
    fails; the notebook up to there is then beside `output`, as `<name>.failed.ipynb`.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError

    check_parameters(path, parameters or {})
    path, written = pathlib.Path(path), pathlib.Path(output).resolve()
    partial = written.with_name(f"{written.name.removesuffix('.ipynb')}.failed.ipynb")
    require(path.resolve() not in (written, partial), f"the output {written} is the notebook itself: give another")
    written.parent.mkdir(parents=True, exist_ok=True)
    fix_folders()  # the kernel may work in another folder
    # papermill writes a tuple as a text, and as a list what JSON makes of it.
    options = {
        "parameters": json.loads(json.dumps(parameters or {})),
        "cwd": str(cwd or pathlib.Path.cwd()),
    }
    # Its notices, of an unencrypted connection or of being stopped at the end, tell a reader nothing.
    options["extra_arguments"] = ["--log-level=CRITICAL"]
    # papermill warns where a comment holds an equals sign; the parameters are checked already.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    # It fills in what stands between single braces.
    files = [str(file).replace("{", "{{").replace("}", "}}") for file in (path, partial)]
    try:
        papermill.execute_notebook(*files, kernel_name="python3", language="python", progress_bar=False, **options)
    except papermill.PapermillExecutionError:
        pass  # what failed is said below: papermill passes over some failures
    except DeadKernelError as error:
        raise NotebookError(f"{path.name}: its kernel died ({error}); is memory short?") from None
    for cell in _code_cells(partial)[0]:
        if cell.metadata.get("papermill", {}).get("status") != "completed":
            errors = [f"{o.ename}: {o.evalue}" for o in cell.outputs if o.output_type == "error"]
            cause = f"{path.name} failed in its cell [{cell.execution_count}]: {', '.join(errors)}"
            raise NotebookError(f"{cause} (the notebook up to there: {partial})")
    partial.replace(written)
    return output


def main(argv=None):
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m rc_utils.notebooks", description=__doc__.split("\n")[0])
    parser.add_argument("notebook", nargs="?", help="name in notebooks/, or a path")
    what = {"nargs": 2, "action": "append", "default": [], "metavar": ("NAME", "VALUE")}
    parser.add_argument("-p", "--parameter", help="may be repeated", **what)
    parser.add_argument("-o", "--output", type=pathlib.Path, help="default: results/notebooks/<name>.ipynb")
    parser.add_argument("--list", action="store_true", help="print parameters, or the notebooks without one")
    args = parser.parse_args(argv)
    try:
        if args.list and args.notebook is None:
            print("\n".join(known_notebooks()))
            return 0
        require(args.notebook is not None, "name a notebook; --list says which there are")
        path = find_notebook(args.notebook)
        defaults = notebook_parameters(path)
        if args.list:
            _, cell = _code_cells(path)
            print(cell.source if cell else "no parameters")
            return 0
        parameters = {name: parse_value(text, defaults.get(name)) for name, text in args.parameter}
        print(execute_notebook(path, args.output or results_dir() / "notebooks" / path.name, parameters))
    except (ValueError, OSError, NotebookError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
