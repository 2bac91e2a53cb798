"""Execute a notebook with other parameters.

    python -m rc_utils.notebooks 03_main_correlation -p campaign shapes-tiny -o out.ipynb

A parameter that a notebook does not have is an error, and so is a value of another type.
"""

import argparse
import ast
import json
import logging
import pathlib
import re
import sys

from rc_utils.checks import check_keys, checked_value, naming, require, unknown_name
from rc_utils.paths import fix_folders, project_root, results_dir


class NotebookError(RuntimeError):
    """A notebook that could not be executed; names the notebook, the cell and the cell's error."""


def known_notebooks():
    """Notebooks in the folder `notebooks/` of the project, by name."""
    return {path.stem: path for path in sorted((project_root() / "notebooks").glob("*.ipynb"))}


def find_notebook(name):
    """Path of a notebook given by its path or by its name in `notebooks/`."""
    path, known = pathlib.Path(name), known_notebooks()
    if path.suffix == ".ipynb" and path.is_file():
        return path
    if name not in known:
        folder = project_root() / "notebooks"
        raise FileNotFoundError(f"{unknown_name('notebook', name, known)} (in {folder})")
    return known[name]


def _code_cells(path):
    """Code cells of a notebook, and which of them holds the parameters, or None."""
    import nbformat

    try:
        cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    except (nbformat.ValidationError, ValueError, AttributeError) as error:
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
        for node in ast.parse(cell.source if cell else "").body:
            targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
            single = len(targets) == 1 and isinstance(targets[0], ast.Name)
            require(single, f"found `{ast.unparse(node)}`")
            parameters[targets[0].id] = ast.literal_eval(node.value)
    except (SyntaxError, ValueError, AttributeError, TypeError) as error:
        fault = f"{path}: its parameters cell may hold assignments of literals only"
        raise ValueError(f"{fault}: {error}") from error
    return parameters


def check_parameters(path, parameters):
    """Raise ValueError for a parameter that the notebook does not have or cannot be given.

    A default of None takes any value that JSON can hold, a float an int, a list a tuple, and back.
    """
    defaults, name = notebook_parameters(path), pathlib.Path(path).name
    check_keys(f"the parameters of {name}", parameters, defaults)
    for key, value in parameters.items():
        where = f"parameter {key} of {name}"
        with naming(f"{where} cannot be {value!r}"):
            same = json.loads(json.dumps(value)) == _with_lists(value)
            require(same, "JSON does not keep it: keys have to be texts, numbers finite")
        if defaults[key] is not None:
            checked_value(value, type(defaults[key]), where)
        emptied = isinstance(value, list | tuple) and defaults[key] and not value
        require(not emptied, f"{where} is an empty list: give at least one value")


def _with_lists(value):
    if isinstance(value, list | tuple):
        return [_with_lists(item) for item in value]
    return {k: _with_lists(v) for k, v in value.items()} if isinstance(value, dict) else value


def parse_value(text, default=None):
    """Value of a parameter given as text: as it is where the default is a text, else a literal."""
    try:
        return text if isinstance(default, str) else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def execute_notebook(path, output, parameters=None, *, cwd=None, progress=False):
    """Execute the notebook at `path` with `parameters` and write it, with outputs, to `output`.

    The kernel works in `cwd`, by default the current folder. progress: show a bar over the cells on
    stderr. Returns `output`, which appears only when every cell has run. Raises ValueError as
    `check_parameters`, and NotebookError where a cell fails; the notebook up to there is then
    beside `output`, as `<name>.failed.ipynb`.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError

    check_parameters(path, parameters or {})
    path, written = pathlib.Path(path), pathlib.Path(output).resolve()
    partial = written.with_name(f"{written.name.removesuffix('.ipynb')}.failed.ipynb")
    for file in (written, partial):
        regular = file.is_file() or not file.exists()
        require(regular, f"the output {file} is a folder, a pipe or a device: give another")
        require(file != path.resolve(), f"the output {file} is the notebook itself: give another")
    written.parent.mkdir(parents=True, exist_ok=True)
    fix_folders()  # the kernel may work in another folder
    # It warns where a comment holds an equals sign; the parameters are checked already.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    # It fills in what stands between single braces.
    files = [str(file).replace("{", "{{").replace("}", "}}") for file in (path, partial)]
    try:
        papermill.execute_notebook(
            *files,
            # papermill writes a tuple as a text, and as a list what JSON makes of it.
            json.loads(json.dumps(parameters or {})),
            kernel_name="python3",
            language="python",
            progress_bar={"desc": path.stem, "disable": None} if progress else False,
            cwd=str(cwd or pathlib.Path.cwd()),
            # The kernel's notices, of an unencrypted connection or of being stopped, tell nothing.
            extra_arguments=["--log-level=CRITICAL"],
        )
    except papermill.PapermillExecutionError:
        pass  # what failed is said below, with a cause where papermill has none
    except DeadKernelError as error:
        raise NotebookError(f"{path.name}: its kernel died ({error}); is memory short?") from None
    for cell in _code_cells(partial)[0]:
        if cell.metadata.get("papermill", {}).get("status") != "completed":
            where = f"{path.name} failed in its cell [{cell.execution_count}]"
            raise NotebookError(f"{where}: {_cause(cell)} (the notebook up to there: {partial})")
    partial.replace(written)
    return output


def _cause(cell):
    """Error message of a failed cell; that of a magic is only in what it prints."""
    for output in cell.outputs:
        if output.output_type == "error":
            return f"{output.ename}: {output.evalue}"
    printed = "".join(o.text for o in cell.outputs if o.get("name") == "stderr").strip()
    return printed.splitlines()[-1] if printed else "it did not run"


def main(argv=None):
    """The command line; returns the exit status."""
    description = __doc__.split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m rc_utils.notebooks", description=description)
    add = parser.add_argument
    add("notebook", nargs="?", help="name in notebooks/, or a path")
    several = {"nargs": 2, "action": "append", "default": [], "metavar": ("NAME", "VALUE")}
    add("-p", "--parameter", help="may be repeated", **several)
    add("-o", "--output", type=pathlib.Path, help="default: results/notebooks/<name>.ipynb")
    add("--list", action="store_true", help="print parameters, or the notebooks without one")
    args = parser.parse_args(argv)
    try:
        if args.list and args.notebook is None:
            print("\n".join(known_notebooks()))
            return 0
        require(args.notebook is not None, "name a notebook; --list says which there are")
        path = find_notebook(args.notebook)
        defaults = notebook_parameters(path)
        cells, own = _code_cells(path)
        if args.list:
            print(own.source if own else "")
            return 0
        parameters = {name: parse_value(text, defaults.get(name)) for name, text in args.parameter}
        check_parameters(path, parameters)
        others = "\n".join(cell.source for cell in cells if cell is not own)
        for name in parameters:
            if not re.search(rf"\b{name}\b", others):
                print(f"note: no cell of {path.name} uses the parameter {name}", file=sys.stderr)
        output = args.output or results_dir() / "notebooks" / path.name
        print(execute_notebook(path, output, parameters, progress=True))
    except (ValueError, OSError, NotebookError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
