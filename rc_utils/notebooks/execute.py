"""Execute a notebook with other parameters.

    python -m rc_utils.notebooks 03_main_correlation -p campaign shapes-tiny -p num_samples 50 -o out.ipynb

papermill only warns about a parameter that a notebook does not have; here it is an error, and so is a value of another
type than the default. Needs papermill and nbformat.
"""

import argparse
import ast
import json
import logging
import pathlib
import sys

from rc_utils.checks import (
    check_keys,
    checked_value,
    project_root,
    require,
    results_dir,
    unknown_name,
)


class NotebookError(RuntimeError):
    """A notebook that could not be executed; the message names the notebook, the cell and the cell's error."""


def find_notebook(name):
    """Path of a notebook given by its path, or by its name in the folder `notebooks/` of the project.

    Raises FileNotFoundError, naming the nearest notebook, where there is none.
    """
    path = pathlib.Path(name)
    if path.suffix == ".ipynb" and path.is_file():
        return path
    folder = project_root() / "notebooks"
    known = {p.stem: p for p in folder.glob("*.ipynb")}
    if name not in known:
        raise FileNotFoundError(f"{unknown_name('notebook', name, known)} (in {folder})")
    return known[name]


def notebook_parameters(path):
    """Defaults of a notebook's parameters, by name, from its first cell tagged `parameters`; {} without one.

    Raises ValueError if that cell holds anything but assignments of literals to names.
    """
    import nbformat

    try:
        cells = nbformat.read(path, as_version=4).cells
    except (nbformat.ValidationError, AttributeError) as error:
        raise ValueError(f"{path} is not a notebook: {str(error).splitlines()[0]}") from error
    source = next((c.source for c in cells if "parameters" in c.metadata.get("tags", [])), "")
    try:
        return dict(_literal_assignment(node) for node in ast.parse(source).body)
    except (SyntaxError, ValueError) as error:
        raise ValueError(
            f"{path}: its parameters cell may hold assignments of literals only, one name each: {error}"
        ) from error


def _literal_assignment(node):
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if len(targets) != 1 or not isinstance(targets[0], ast.Name) or getattr(node, "value", None) is None:
        raise ValueError(f"found `{ast.unparse(node)}`")
    return targets[0].id, ast.literal_eval(node.value)


def check_parameters(path, parameters):
    """Raise ValueError for a parameter the notebook does not have or whose value has another type than its default.

    A default of None takes any value that JSON can hold, a float an int, and lists and tuples each other.
    """
    defaults = notebook_parameters(path)
    check_keys(f"the parameters of {pathlib.Path(path).name}", parameters, defaults)
    for name, value in parameters.items():
        where = f"parameter {name} of {pathlib.Path(path).name}"
        try:
            json.dumps(value)
        except TypeError as error:
            raise ValueError(f"{where} cannot be {value!r}: {error}; expected numbers, texts, lists or None") from error
        if defaults[name] is not None:
            checked_value(value, type(defaults[name]), where)


def parse_value(text, default=None):
    """Value of a parameter given as text: unchanged where the default is a string, else a literal if it is one."""
    if isinstance(default, str):
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def execute_notebook(path, output, parameters=None, *, cwd=None, fork=False):
    """Execute the notebook at `path` with `parameters` and write it, with its outputs, to `output`, which is returned.

    The kernel (`python3`) works in `cwd`, by default the current folder. `fork` spares it its imports
    (`rc_utils.notebooks.forked_kernel`, on Linux and without a GPU only). `output` appears only when every cell has
    run. Raises ValueError as `check_parameters`, and NotebookError where a cell fails; the notebook up to there is then
    left beside `output`, as `<name>.failed.ipynb`.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    check_parameters(path, parameters or {})
    path, written = pathlib.Path(path), pathlib.Path(output).resolve()
    partial = written.with_name(f"{written.name.removesuffix('.ipynb')}.failed.ipynb")
    for file in (written, partial):
        require(file.is_file() or not file.exists(), f"the output {file} is a folder, a pipe or a device: give another")
        require(file != path.resolve(), f"the output {file} is the notebook itself: give another")
    written.parent.mkdir(parents=True, exist_ok=True)
    # papermill writes a tuple as a text, and as a list what JSON makes of it.
    options = {"parameters": json.loads(json.dumps(parameters or {})), "cwd": str(cwd or pathlib.Path.cwd())}
    if fork:
        from rc_utils.notebooks.forked_kernel import ForkedKernelManager

        options["kernel_manager_class"] = ForkedKernelManager
    # Its notices, of an unencrypted connection or of being stopped at the end, tell a reader nothing.
    options["extra_arguments"] = ["--log-level=CRITICAL"]
    # papermill reads parameters line by line and warns where a comment holds an equals sign; ours are checked already.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    # It fills in what stands between single braces.
    files = [str(file).replace("{", "{{").replace("}", "}}") for file in (path, partial)]
    try:
        papermill.execute_notebook(*files, kernel_name="python3", language="python", progress_bar=False, **options)
    except PapermillExecutionError as error:
        what = f"failed in its cell [{error.exec_count}]: {error.ename}: {error.evalue}{error}"
        raise NotebookError(f"{path.name} {what}The notebook up to there: {partial}") from None
    except DeadKernelError as error:
        raise NotebookError(f"{path.name}: its kernel died ({error}); is memory short?") from None
    partial.replace(written)
    return output


def main(argv=None):
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m rc_utils.notebooks", description=__doc__.split("\n")[0])
    parser.add_argument("notebook", help="name in notebooks/, or a path")
    parser.add_argument(
        "-p", "--parameter", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), help="may be repeated"
    )
    parser.add_argument("-o", "--output", type=pathlib.Path, help="default: results/notebooks/<name>.ipynb")
    parser.add_argument("--list", action="store_true", help="print the parameters with their defaults and stop")
    args = parser.parse_args(argv)
    try:
        path = find_notebook(args.notebook)
        defaults = notebook_parameters(path)
        if args.list:
            print("\n".join(f"{name} = {value!r}" for name, value in defaults.items()))
            return 0
        parameters = {name: parse_value(text, defaults.get(name)) for name, text in args.parameter}
        output = args.output or results_dir() / "notebooks" / path.name
        print(execute_notebook(path, output, parameters))
    except (ValueError, OSError, NotebookError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
