"""Execute a notebook with other parameters.

    python -m rc_utils.notebooks 03_main_correlation -p campaign shapes-tiny -p num_samples 50 -o out.ipynb

papermill only warns about a parameter that a notebook does not have; here it is an error, and so is a value of another
type than the default. Needs papermill and nbformat.
"""

import argparse
import ast
import logging
import pathlib
import sys

from rc_utils.checks import (
    check_keys,
    checked_value,
    print_lines,
    project_root,
    require,
    results_dir,
    unknown_name,
    write_atomically,
)

_TRACEBACK_LINES = 30


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
    if path.stem not in known or (path.parent != pathlib.Path(".") and path.parent.resolve() != folder):
        raise FileNotFoundError(f"{unknown_name('notebook', name, known)} (in {folder})")
    return known[path.stem]


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

    A default of None takes any value that a notebook can be given, a float an int, and lists and tuples each other.
    """
    defaults = notebook_parameters(path)
    check_keys(f"the parameters of {pathlib.Path(path).name}", parameters, defaults)
    for name, value in parameters.items():
        where = f"parameter {name} of {pathlib.Path(path).name}"
        _as_written(value, where)
        if defaults[name] is not None:
            checked_value(value, type(defaults[name]), where)


def _as_written(value, where):
    """A value as papermill writes it into a cell, tuples as lists; ValueError for one that would come out as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_as_written(item, where) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _as_written(item, where) for key, item in value.items()}
    raise ValueError(
        f"{where} holds {value!r}, which cannot be written into a notebook: expected numbers, texts, None, lists, and "
        "dictionaries with texts as keys"
    )


def parse_value(text, default=None):
    """Value of a parameter given as text: unchanged where the default is a string, else a literal if it is one."""
    if isinstance(default, str):
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def execute_notebook(path, output, parameters=None, *, cwd=None, metadata=None, fork=False):
    """Execute the notebook at `path` with `parameters` and write it, with its outputs, to `output`.

    The kernel (`python3`) works in `cwd`, by default the current folder. `metadata` is added to the executed notebook's
    own. `fork` spares the kernel its imports (`rc_utils.notebooks.forked_kernel`, on Linux and without a GPU only).
    `output` appears only when every cell has run. Raises ValueError as `check_parameters`, and NotebookError where
    a cell fails; the notebook up to there is then left beside `output`, as `<name>.failed.ipynb`.
    """
    import nbformat
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    check_parameters(path, parameters or {})
    asked_for, output = output, _file_to_write(output, path)
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = _file_to_write(output.with_name(f"{output.name.removesuffix('.ipynb')}.failed.ipynb"))
    if partial.resolve() == pathlib.Path(path).resolve():
        raise ValueError(f"a failed run to {output} is left in {partial}, the notebook itself: give another output")
    written = {name: _as_written(value, name) for name, value in (parameters or {}).items()}
    options = {"kernel_name": "python3", "language": "python", "cwd": str(cwd or pathlib.Path.cwd())}
    if fork:
        from rc_utils.notebooks.forked_kernel import ForkedKernelManager

        options["kernel_manager_class"] = ForkedKernelManager
    # Its notices, of an unencrypted connection or of being stopped at the end, tell a reader nothing.
    options["extra_arguments"] = ["--log-level=CRITICAL"]
    # papermill reads parameters line by line and warns where a comment holds an equals sign; ours are checked already.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    try:
        papermill.execute_notebook(_literal(path), _literal(partial), written, progress_bar=False, **options)
    except PapermillExecutionError as error:
        raise NotebookError(_describe(path, error, partial)) from None
    except DeadKernelError as error:
        raise NotebookError(f"{pathlib.Path(path).name}: its kernel died ({error}); is memory short?") from None
    notebook = nbformat.read(partial, as_version=4)
    notebook.metadata.update(metadata or {})
    write_atomically(output, f"{nbformat.writes(notebook)}\n".encode())
    partial.unlink()
    return asked_for


def _file_to_write(output, source=None):
    """The file that writing to `output` makes or replaces: that of a link, where it is one.

    Raises ValueError for what is there and no regular file, such as a folder, a pipe or a device, and for `source`.
    """
    path = pathlib.Path(output).resolve()
    taken = path.exists() and not path.is_file()
    require(not taken, f"the output {output} is a folder, a pipe or a device: give the path of another file")
    itself = source is not None and path == pathlib.Path(source).resolve()
    require(not itself, f"the output {output} is the notebook itself: give the path of another file")
    return path


def _literal(path):
    """A path for papermill, which fills in what stands between braces."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _describe(path, error, partial):
    from papermill.exceptions import strip_color

    trace = strip_color("\n".join(error.traceback)).splitlines()
    return "\n".join(
        [
            f"{pathlib.Path(path).name} failed in its cell [{error.exec_count}]: {error.ename}: {error.evalue}",
            *("    " + line for line in trace[-_TRACEBACK_LINES:]),
            f"    The notebook up to there: {partial}",
        ]
    )


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
            print_lines(f"{name} = {value!r}" for name, value in defaults.items())
            return 0
        parameters = {name: parse_value(text, defaults.get(name)) for name, text in args.parameter}
        output = args.output or results_dir() / "notebooks" / path.name
        print(execute_notebook(path, output, parameters))
    except (ValueError, OSError, NotebookError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
