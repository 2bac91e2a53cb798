"""Parameters of notebooks: what is accepted, what is refused, and one real execution through the command line."""

import re
import subprocess
import sys

import nbformat
import pytest

from rc_utils import notebooks

PARAMETERS = """campaign = "shapes-tiny"  # which runs; campaign=... names a folder
num_samples: int = 10  # type: int
alpha_range = (0, 1)
scale = 0.5
device = None
exact = False
"""


@pytest.fixture
def notebook(tmp_path):
    cells = [
        nbformat.v4.new_markdown_cell("# A page"),
        nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("print(campaign, 2 * num_samples, scale)"),
    ]
    path = tmp_path / "page.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def test_defaults_are_read_even_where_comments_hold_equals_signs(notebook):
    assert notebooks.notebook_parameters(notebook) == {
        "campaign": "shapes-tiny",
        "num_samples": 10,
        "alpha_range": (0, 1),
        "scale": 0.5,
        "device": None,
        "exact": False,
    }


@pytest.mark.parametrize("source", ["a = b = 1", "a = 1 + x", "import os", "a, b = 1, 2", "a: int", "a ="])
def test_a_parameters_cell_holds_assignments_of_literals_only(tmp_path, source):
    cell = nbformat.v4.new_code_cell(source, metadata={"tags": ["parameters"]})
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "bad.ipynb")
    with pytest.raises(ValueError, match="literals only"):
        notebooks.notebook_parameters(tmp_path / "bad.ipynb")


def test_a_notebook_without_parameters_takes_none(tmp_path):
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "plain.ipynb")
    notebooks.check_parameters(tmp_path / "plain.ipynb", {})
    with pytest.raises(ValueError, match="'seed'"):
        notebooks.check_parameters(tmp_path / "plain.ipynb", {"seed": 0})


def test_an_unknown_parameter_names_the_nearest(notebook):
    with pytest.raises(ValueError, match=r"'num_sample'.*Did you mean 'num_samples'"):
        notebooks.check_parameters(notebook, {"num_sample": 3})


@pytest.mark.parametrize(
    "given", [{"scale": 1}, {"alpha_range": [-1, 2]}, {"device": "cuda"}, {"device": 0}, {"exact": True}]
)
def test_values_of_a_fitting_type_are_accepted(notebook, given):
    notebooks.check_parameters(notebook, given)


@pytest.mark.parametrize(
    "given", [{"num_samples": "many"}, {"num_samples": 1.5}, {"num_samples": True}, {"exact": 1}, {"campaign": 7}]
)
def test_a_value_of_another_type_is_refused(notebook, given):
    name = next(iter(given))
    with pytest.raises(ValueError, match=f"parameter {name} of page.ipynb must be of type"):
        notebooks.check_parameters(notebook, given)


def test_text_becomes_the_value_that_its_default_calls_for():
    assert notebooks.parse_value("2024", "shapes-tiny") == "2024"
    assert notebooks.parse_value("2024", 10) == 2024
    assert notebooks.parse_value("(-1, 2)", (0, 1)) == (-1, 2)
    assert notebooks.parse_value("cuda:0", None) == "cuda:0"


def test_an_unknown_notebook_names_the_nearest(tmp_path, monkeypatch, capsys):
    (tmp_path / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "notebooks" / "03_main.ipynb")
    monkeypatch.setattr(notebooks, "project_root", lambda: tmp_path)
    assert notebooks.find_notebook("03_main") == notebooks.find_notebook("03_main.ipynb")
    assert notebooks.main(["03_mian"]) == 1
    assert "Did you mean '03_main'?" in capsys.readouterr().err
    with pytest.raises(FileNotFoundError, match="elsewhere"):
        notebooks.find_notebook("elsewhere/03_main.ipynb")


def test_the_command_line_lists_and_refuses(notebook, capsys):
    assert notebooks.main([str(notebook), "--list"]) == 0
    assert "num_samples = 10" in capsys.readouterr().out
    assert notebooks.main([str(notebook), "-p", "campagin", "x"]) == 1
    assert "Did you mean 'campaign'?" in capsys.readouterr().err


def test_the_command_line_executes_with_other_parameters(notebook, tmp_path):
    output = tmp_path / "made" / "out.ipynb"
    command = [sys.executable, "-m", "rc_utils.notebooks", str(notebook), "-p", "num_samples", "21", "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(output)
    assert done.stderr == ""
    printed = [o.text for cell in nbformat.read(output, 4).cells for o in cell.get("outputs", [])]
    assert printed == ["shapes-tiny 42 0.5\n"]
    assert [p.name for p in output.parent.iterdir()] == ["out.ipynb"]
    assert not any(cell.get("outputs") for cell in nbformat.read(notebook, 4).cells)


def test_braces_in_paths_are_kept_as_they_are(notebook, tmp_path):
    folder = tmp_path / "d{a}"
    folder.mkdir()
    moved = notebook.rename(folder / "page.ipynb")
    output = tmp_path / "out-{scale}{}.ipynb"
    assert notebooks.main([str(moved), "-o", str(output)]) == 0
    assert output.is_file()
    assert sorted(p.name for p in tmp_path.glob("*.ipynb")) == [output.name]


@pytest.mark.parametrize("content", ["{}", "[]", "no JSON"])
def test_a_file_that_is_no_notebook_is_named(tmp_path, capsys, content):
    path = tmp_path / "x.ipynb"
    path.write_text(content)
    assert notebooks.main([str(path)]) == 1
    assert capsys.readouterr().err.startswith("error: ")


FIGURE = """import os
import matplotlib.pyplot as plt
from rc_utils import plotting

plotting.use_style()
plt.rcParams["svg.hashsalt"] = "same"
plt.plot([0, 1], [1, 0])
plt.show()
print(os.environ["RC_RESULTS"], os.path.basename(os.getcwd()), __name__)"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux alone")
def test_a_forked_kernel_shows_what_an_ordinary_one_shows(tmp_path):
    path = tmp_path / "page.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(FIGURE)]), path)
    outputs = []
    for fork in (False, True):
        done = notebooks.execute_notebook(path, tmp_path / f"{fork}.ipynb", cwd=tmp_path, fork=fork)
        outputs.append(nbformat.read(done, 4).cells[0].outputs)
    ordinary, forked = (re.sub("<dc:date>.*?</dc:date>", "", str(shown)) for shown in outputs)
    assert "image/svg+xml" in ordinary
    assert f"{tmp_path / 'results'} {tmp_path.name} __main__" in ordinary
    assert forked == ordinary


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux alone")
@pytest.mark.parametrize(
    ("source", "words"),
    [("import rc_utils\n1 / 0", "ZeroDivisionError"), ("import os\nos._exit(3)", "its kernel died")],
)
def test_a_forked_kernel_that_fails_or_dies_is_named(tmp_path, source, words):
    path = tmp_path / "page.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), path)
    with pytest.raises(notebooks.NotebookError, match=rf"page\.ipynb.*{words}"):
        notebooks.execute_notebook(path, tmp_path / "out.ipynb", fork=True)
    assert not (tmp_path / "out.ipynb").exists()


def test_a_notebook_that_a_failed_run_left_is_not_written_over(tmp_path):
    path = tmp_path / "out.failed.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")]), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="give another output"):
        notebooks.execute_notebook(path, tmp_path / "out.ipynb")
    assert path.read_bytes() == before
