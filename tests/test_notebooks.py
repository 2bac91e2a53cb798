"""Parameters of notebooks: what is accepted and refused; one execution by the command line."""

import os
import re
import runpy
import shutil
import sys

import nbformat
import pytest

from rc_utils import notebooks as execute

PARAMETERS = """campaign = "shapes-tiny"  # which runs; campaign=... names a folder
num_samples: int = 10  # type: int
alpha_range = (0, 1)
scale = 0.5
device = None
exact = False
"""


def written(path, *sources, **metadata):
    """A notebook with a cell for each source, the first with this metadata, written to `path`."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    cells[0].metadata.update(metadata)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


@pytest.fixture
def notebook(tmp_path):
    shown = "print(campaign, 2 * num_samples, scale, sum(alpha_range), device['x'][0][1])"
    return written(tmp_path / "page.ipynb", PARAMETERS, shown, tags=["parameters"])


def test_values_of_the_type_of_their_default_are_accepted_and_others_refused(notebook):
    for given in ({"scale": 1}, {"alpha_range": [-1, 2]}, {"device": "cuda"}, {"exact": True}, {}):
        execute.check_parameters(notebook, given)
    for name, value in (("num_samples", 1.5), ("num_samples", True), ("campaign", 7)):
        with pytest.raises(ValueError, match=f"{name} of page.ipynb must be of type"):
            execute.check_parameters(notebook, {name: value})
    for keys_that_change in ({"a": {True: 1}}, [{1.5: 2}], {"a": [1, {None: 2}]}, ({1: 2},)):
        with pytest.raises(ValueError, match="keys have to be texts, numbers finite"):
            execute.check_parameters(notebook, {"device": keys_that_change})
    assert execute.parse_value("2024", "shapes-tiny") == "2024"
    assert execute.parse_value("2024", 10) == 2024


def test_the_command_line_refuses(notebook, capsys):
    assert execute.main([str(notebook), "-p", "campagin", "x"]) == 1
    assert "Did you mean 'campaign'?" in capsys.readouterr().err
    before = notebook.read_bytes()
    failed = shutil.copy(notebook, notebook.with_name("page.failed.ipynb"))
    for path, output, words in (
        (notebook, notebook.parent, "is a folder: give a file"),
        (notebook, notebook, "give another"),
        (failed, notebook, "give another"),  # a corrected copy, which would be written over
    ):
        assert execute.main([str(path), "-o", str(output)]) == 1
        assert words in capsys.readouterr().err
    assert notebook.read_bytes() == failed.read_bytes() == before
    for source in ("import os", "a, b = 1, 2", "%matplotlib inline"):
        written(notebook, source, tags=["parameters"])
        assert execute.main([str(notebook)]) == 1
        assert "may hold assignments of literals only" in capsys.readouterr().err
    twice = nbformat.read(written(notebook, "n = 1", "n = 3", tags=["parameters"]), 4)
    twice.cells[1].metadata.tags = ["parameters"]
    for kind in ("code", "markdown"):
        twice.cells[1].cell_type = kind
        nbformat.write(twice, notebook)
        assert execute.main([str(notebook), "-p", "n", "2"]) == 1
        assert "2 cells are tagged parameters" in capsys.readouterr().err


def test_the_command_line_executes_with_other_parameters(notebook, tmp_path, monkeypatch, capfd):
    output = tmp_path / "out.ipynb"
    command = ["notebooks", str(notebook), "-o", str(output)]
    given = {"num_samples": "21", "alpha_range": "(1, 2)", "device": "{'x': [[3, 4]]}"}
    for name, value in given.items():
        command += ["-p", name, value]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(execute.__file__, run_name="__main__")
    assert (ended.value.code, *capfd.readouterr()) == (0, f"{output}\n", "")
    printed = [o.text for cell in nbformat.read(output, 4).cells for o in cell.get("outputs", [])]
    assert printed == ["shapes-tiny 42 0.5 3 4\n"]
    assert not any(cell.get("outputs") for cell in nbformat.read(notebook, 4).cells)
    # Another parameter for the executed copy leaves it those that it had.
    again = execute.execute_notebook(output, tmp_path / "again.ipynb", {"scale": 2.0})
    printed = [o.text for cell in nbformat.read(again, 4).cells for o in cell.get("outputs", [])]
    assert printed == ["shapes-tiny 42 2.0 3 4\n"]


@pytest.mark.parametrize(("source", "words"), [
    ("raise SystemExit(0)", "SystemExit: 0"),
    ("%%nosuchmagic\nx", "%%nosuchmagic"),
    ("raise ValueError('unknown campaign')", "ValueError: unknown campaign"),
    ("import os\nos._exit(3)", "its kernel died"),
])  # fmt: skip
def test_the_cause_of_a_failing_cell_is_one_line_also_in_the_last_cell(tmp_path, source, words):
    path = written(tmp_path / "page.ipynb", "n = 1", source)
    with pytest.raises(execute.NotebookError, match=rf"page\.ipynb.*{re.escape(words)}") as caught:
        execute.execute_notebook(path, tmp_path / "out.ipynb")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.ipynb").exists()


def test_a_kernel_in_another_folder_has_the_folders_of_the_caller(tmp_path, monkeypatch):
    """A relative RC_RESULTS is of the folder of the command, and ~ is the reader's home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RC_RESULTS", "res")
    monkeypatch.setenv("RC_DATA", "~/pictures")
    (tmp_path / "elsewhere").mkdir()
    source = "from rc_utils import paths\nprint(paths.results_dir(), paths.data_dir())"
    path = written(tmp_path / "page.ipynb", source)
    execute.execute_notebook(path, tmp_path / "out.ipynb", cwd=tmp_path / "elsewhere")
    (output,) = nbformat.read(tmp_path / "out.ipynb", 4).cells[0].outputs
    assert output.text == f"{tmp_path / 'res'} {os.path.expanduser('~/pictures')}\n"
