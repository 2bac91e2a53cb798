"""Every notebook of the book runs on a tiny campaign, and with other parameters than its own."""

import ast
import pathlib

import matplotlib.pyplot as plt
import nbformat
import pytest

from rc_utils.campaign import load_campaign
from rc_utils.notebooks import notebook_parameters
from rc_utils.paths import project_root
from rc_utils.sweep import sweep

NOTEBOOKS = sorted((project_root() / "notebooks").glob("*.ipynb"))
CAMPAIGNS = pathlib.Path(__file__).parent / "campaigns"

# What keeps a page to seconds; the rest of its parameters are its own.
SMALL = {
    "01_motivation": {"num_samples": 5, "num_networks": 2, "num_rescalings": 2},
    "02_counting": {"num_samples": 40},
    "03_main_correlation": {"forest_samples": 5, "forest_images": 100},
    "07_training_evolution": {"num_samples": 5},
    "12_your_network": {"epochs": 1},
    "14_scorecard": {"campaign": "shapes-tiny"},
}
OTHER = {
    "01_motivation": {"num_samples": 6, "num_networks": 1, "num_rescalings": 3, "seed": 1},
    "02_counting": {"num_samples": 41, "seed": 1},
    "03_main_correlation": {"forest_samples": 6, "forest_images": 100, "num_samples": 10, "seed": 1},
    "07_training_evolution": {"num_samples": 6, "seed": 1},
    "12_your_network": {"network": "ResNet18", "width": 2, "epochs": 1, "seed": 1},
    "14_scorecard": {"num_samples": 10},
}


@pytest.fixture(scope="session")
def swept(tmp_path_factory):
    """A folder of results with the runs of both campaigns."""
    folder = tmp_path_factory.mktemp("swept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RC_RESULTS", str(folder))
        for campaign in ("shapes-tiny", CAMPAIGNS / "tiny-all"):
            assert all(outcome.status == "done" for outcome in sweep(load_campaign(campaign)))
    return folder


def run(path, parameters, monkeypatch):
    """Execute a notebook's code in this process, `parameters` replacing its own; returns what its cells show.

    A kernel for each would take longer than the pages themselves; the book executes them in kernels.
    """
    shown, unknown = [], set(parameters) - set(notebook_parameters(path))
    assert not unknown
    monkeypatch.setattr(plt, "show", lambda: (shown.append("figure"), plt.close("all")))
    namespace = {"__name__": "__main__"}
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type != "code":
            continue
        body = ast.parse(cell.source).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), str(path), "exec"), namespace)
        if "parameters" in cell.metadata.get("tags", []):
            namespace.update(parameters)
        value = eval(compile(ast.Expression(last.value), str(path), "eval"), namespace) if last else None
        shown += [kind for kind in ("html", "markdown") if getattr(value, f"_repr_{kind}_", lambda: None)()]
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_on_the_tiny_campaign(notebook, swept, monkeypatch):
    monkeypatch.setenv("RC_RESULTS", str(swept))
    assert run(notebook, {"campaign": "shapes-tiny"} | SMALL.get(notebook.stem, {}), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_with_other_parameters(notebook, swept, monkeypatch):
    monkeypatch.setenv("RC_RESULTS", str(swept))
    monkeypatch.setenv("RC_CAMPAIGNS", str(CAMPAIGNS))
    assert run(notebook, {"campaign": "tiny-all", "seed": 1} | OTHER.get(notebook.stem, {}), monkeypatch)


def test_every_notebook_has_the_shared_parameters_and_no_outputs():
    for notebook in NOTEBOOKS:
        assert {"campaign", "device", "num_samples", "seed"} <= set(notebook_parameters(notebook)), notebook.name
        assert not any(cell.get("outputs") for cell in nbformat.read(notebook, 4).cells), notebook.name


def test_no_cell_of_a_notebook_grows_beyond_25_lines():
    for notebook in NOTEBOOKS:
        for cell in nbformat.read(notebook, 4).cells:
            if cell.cell_type == "code":
                assert len(cell.source.splitlines()) <= 25, f"{notebook.name}: {cell.source[:60]}"
