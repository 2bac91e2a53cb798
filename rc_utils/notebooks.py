"""Execute a notebook with other parameters.

    python -m rc_utils.notebooks 03_main_correlation -p campaign shapes-tiny -o out.ipynb

A parameter that a notebook does not have is an error, and so is a value of another type than its
default.
"""

import argparse
import ast
import pathlib
import sys

from rc_utils.checks import check_keys, checked_value, require, unknown_name
from rc_utils.paths import fix_folders, project_root, results_dir, write_atomically


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
        where = project_root() / "notebooks"
        raise FileNotFoundError(f"{unknown_name('notebook', name, known)} (in {where})")
    return known[name]


def _read(path):
    """The notebook at `path`, and its first cell tagged `parameters`, or None."""
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)
        tagged = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    except (nbformat.ValidationError, AttributeError) as error:
        raise ValueError(f"{path} is not a notebook: {str(error).splitlines()[0]}") from error
    return notebook, tagged[0] if tagged else None


def notebook_parameters(path):
    """Defaults of a notebook's parameters, by name, from its first cell tagged `parameters`.

    Raises ValueError if that cell holds anything but assignments of literals to names.
    """
    _, cell = _read(path)
    parameters = {}
    try:
        for node in ast.parse(cell.source if cell else "").body:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            single = len(targets) == 1 and isinstance(targets[0], ast.Name)
            require(single, f"found `{ast.unparse(node)}`")
            parameters[targets[0].id] = ast.literal_eval(node.value)
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
    try:
        return text if isinstance(default, str) else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def execute_notebook(path, output, parameters=None, *, cwd=None, progress=False):
    """Execute the notebook at `path` with `parameters` and write it, with outputs, to `output`.

    The kernel works in `cwd`, by default the current folder. progress: show a bar over the cells on
    stderr. Returns `output`, which is written when every cell has run. Raises ValueError as
    `check_parameters`, and NotebookError where a cell fails; the notebook up to there is then
    beside `output`, as `<name>.failed.ipynb`.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError
    from tqdm import tqdm

    check_parameters(path, parameters or {})
    path, written = pathlib.Path(path), pathlib.Path(output).resolve()
    failed = written.with_name(f"{written.name.removesuffix('.ipynb')}.failed.ipynb")
    for file in (written, failed):
        regular = file.is_file() or not file.exists()
        require(regular, f"the output {file} is a folder, a pipe or a device: give another")
        require(file != path.resolve(), f"the output {file} is the notebook itself: give another")
    fix_folders()  # the kernel may work in another folder
    notebook, tagged = _read(path)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    if parameters:
        lines = [f"{name} = {value!r}" for name, value in parameters.items()]
        given = nbformat.v4.new_code_cell("\n".join(lines), id="injected-parameters")
        given.metadata["tags"] = ["injected-parameters"]
        notebook.cells.insert(notebook.cells.index(tagged) + 1, given)
    with tqdm(total=len(notebook.cells), desc=path.stem, unit="cell", disable=not progress or None) as bar:
        client = NotebookClient(
            notebook,
            kernel_name="python3",
            resources={"metadata": {"path": str(cwd or pathlib.Path.cwd())}},
            on_cell_complete=lambda **_: bar.update(),
            # The kernel's notices, of an unencrypted connection or of being stopped, tell nothing.
            extra_arguments=["--log-level=CRITICAL"],
        )
        try:
            client.execute()
        except (CellExecutionError, DeadKernelError) as error:
            write_atomically(failed, nbformat.writes(notebook).encode())
            cause = f"its kernel died ({error}); is memory short?"
            if isinstance(error, CellExecutionError):
                cause = f"{error.ename}: {error.evalue}"
            where = f"{path.name} failed in its cell [{client.code_cells_executed}]"
            raise NotebookError(f"{where}: {cause} (the notebook up to there: {failed})") from None
    write_atomically(written, nbformat.writes(notebook).encode())
    return output


def main(argv=None):
    """The command line; returns the exit status."""
    description = __doc__.split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m rc_utils.notebooks", description=description)
    parser.add_argument("notebook", nargs="?", help="name in notebooks/, or a path")
    what = {"nargs": 2, "action": "append", "default": [], "metavar": ("NAME", "VALUE")}
    parser.add_argument("-p", "--parameter", help="may be repeated", **what)
    where = "default: results/notebooks/<name>.ipynb"
    parser.add_argument("-o", "--output", type=pathlib.Path, help=where)
    listed = "print parameters, or the notebooks without one"
    parser.add_argument("--list", action="store_true", help=listed)
    args = parser.parse_args(argv)
    try:
        if args.list and args.notebook is None:
            print("\n".join(known_notebooks()))
            return 0
        require(args.notebook is not None, "name a notebook; --list says which there are")
        path = find_notebook(args.notebook)
        if args.list:
            _, tagged = _read(path)
            print(tagged.source if tagged else "")
            return 0
        defaults = notebook_parameters(path)
        parameters = {name: parse_value(text, defaults.get(name)) for name, text in args.parameter}
        output = args.output or results_dir() / "notebooks" / path.name
        print(execute_notebook(path, output, parameters, progress=True))
    except (ValueError, OSError, NotebookError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
