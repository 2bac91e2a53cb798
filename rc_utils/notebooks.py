"""Execute a notebook with other parameters.

    python -m rc_utils.notebooks 03_main_correlation -p campaign shapes-tiny -o out.ipynb

A parameter that a notebook does not have is an error, and so is a value of another type.
"""

import argparse
import ast
import json
import logging
import pathlib
import sys

from rc_utils.paths import fix_folders, project_root, results_dir
from rc_utils.validation import check_keys, check_name, checked_value, naming, require


class NotebookError(RuntimeError):
    """A notebook that could not be executed; names the notebook, the cell and the cell's error."""


def find_notebook(name):
    """Path of a notebook given by its path or by its name in `notebooks/`."""
    if name.endswith(".ipynb"):
        return pathlib.Path(name)
    folder = project_root() / "notebooks"
    check_name("notebook", name, [path.stem for path in folder.glob("*.ipynb")])
    return folder / f"{name}.ipynb"


def _cells(path):
    import nbformat

    return nbformat.read(path, as_version=4).cells


def notebook_parameters(path, tag="parameters"):
    """Defaults of a notebook's parameters, by name, from its cell tagged `parameters`.

    tag: "injected-parameters" for those that an executed copy was given. Raises ValueError if the
    cell assigns anything but literals, or if there are several.
    """
    tagged = [c for c in _cells(path) if tag in c.metadata.get("tags", [])]
    several = f"{path}: {len(tagged)} cells are tagged {tag}, the last would win: join them"
    require(len(tagged) < 2, several)
    source, parameters = tagged[0].source if tagged else "", {}
    try:
        for node in ast.parse(source).body:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            parameters[target.id] = ast.literal_eval(node.value)
    except (SyntaxError, AttributeError, ValueError) as error:
        fault = f"{path}: its parameters cell may hold assignments of literals only"
        raise ValueError(f"{fault}: {error}") from error
    return parameters


def check_parameters(path, parameters):
    """Raise ValueError for a parameter that the notebook does not have or cannot be given.

    Any value that JSON keeps fits a default of None; an int fits a float, a list a tuple and back.
    """
    defaults, name = notebook_parameters(path), pathlib.Path(path).name
    check_keys(f"the parameters of {name}", parameters, defaults)
    for key, value in parameters.items():
        where = f"parameter {key} of {name}"
        with naming(where):
            kept = json.loads(json.dumps(value, allow_nan=False)) == _as_lists(value)
        require(kept, f"{where} cannot be {value!r}: keys have to be texts, numbers finite")
        if defaults[key] is not None:
            checked_value(value, type(defaults[key]), where)
        is_seed = key == "seed" and isinstance(value, int)
        require(not is_seed or value >= 0, f"{where} is {value}; expected 0 or more")


def _as_lists(value):
    """The value with a list for every tuple in it."""
    if isinstance(value, dict):
        return {key: _as_lists(item) for key, item in value.items()}
    return [_as_lists(item) for item in value] if isinstance(value, list | tuple) else value


def parse_value(text, default=None):
    """Value of a parameter given as text: a literal, unless the default is a text or it is none."""
    try:
        return text if isinstance(default, str) else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def execute_notebook(path, output, parameters=None, *, cwd=None, progress=False):
    """Execute the notebook at `path` with `parameters` and write it, with outputs, to `output`.

    An executed copy keeps the parameters that it was given unless `parameters` names them. The
    kernel works in `cwd`, by default the current folder. progress: show a bar over the cells on
    stderr. Returns `output`, which appears only when every cell has run. Raises ValueError as
    `check_parameters`, and NotebookError where a cell fails; the notebook up to there is then
    beside `output`, as `<name>.failed.ipynb`.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError

    parameters = notebook_parameters(path, "injected-parameters") | (parameters or {})
    check_parameters(path, parameters)
    path, written = pathlib.Path(path), pathlib.Path(output).resolve()
    partial = written.with_name(f"{written.name.removesuffix('.ipynb')}.failed.ipynb")
    is_free = path.resolve() not in (written, partial)
    require(is_free, f"the output {written} would replace the notebook {path}: give another")
    require(not written.is_dir(), f"the output {written} is a folder: give a file")
    written.parent.mkdir(parents=True, exist_ok=True)
    fix_folders()  # the kernel may work in another folder
    # It warns of comments with an equals sign; the parameters are checked already.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    try:
        papermill.execute_notebook(
            str(path),
            str(partial),
            # Tuples as lists: papermill would write a tuple as a text.
            json.loads(json.dumps(parameters)),
            kernel_name="python3",
            language="python",
            progress_bar={"desc": path.stem, "disable": None} if progress else False,
            cwd=str(cwd or pathlib.Path.cwd()),
            # The kernel's notices, of an unencrypted connection or of being stopped, tell nothing.
            extra_arguments=["--log-level=CRITICAL"],
        )
    except papermill.PapermillExecutionError:
        pass  # the failed cell is named below, also if papermill knows no cause
    except DeadKernelError as error:
        raise NotebookError(f"{path.name}: its kernel died ({error}); is memory short?") from None
    for cell in _cells(partial):
        status = cell.metadata.get("papermill", {}).get("status")
        if cell.cell_type == "code" and status != "completed":
            where = f"{path.name} failed in its cell [{cell.execution_count}]"
            raise NotebookError(f"{where}: {_cause(cell)} (the notebook up to there: {partial})")
    partial.replace(written)
    return output


def _cause(cell):
    """Error message of a failed cell, which a failed magic only prints."""
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
    add("notebook", help="name in notebooks/, or a path; its first code cell lists its parameters")
    several = {"nargs": 2, "action": "append", "default": [], "metavar": ("NAME", "VALUE")}
    add("-p", "--parameter", help="may be repeated", **several)
    add("-o", "--output", type=pathlib.Path, help="default: results/notebooks/<name>.ipynb")
    args = parser.parse_args(argv)
    try:
        path = find_notebook(args.notebook)
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
