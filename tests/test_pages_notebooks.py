"""Every notebook of the book runs on a tiny campaign, with other parameters than its own."""

import ast
import contextlib
import functools
import pathlib
import re

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
from pretended_gpu import pretended_gpu

from rc_studies import decisions
from rc_utils.notebooks import find_notebook, notebook_parameters
from rc_utils.paths import project_root
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.execute import sweep
from rc_utils.sweep.records import missing_runs

NAMES = sorted(path.stem for path in (project_root() / "notebooks").glob("*.ipynb"))
CAMPAIGNS = pathlib.Path(__file__).parent / "campaigns"

# The campaign of the pages that count a network anew: of a convolutional one that takes a minute.
PERCEPTRON = str(CAMPAIGNS / "tiny-mlp")
OPTIMIZERS = str(CAMPAIGNS / "tiny-optimizers")

# What keeps a page to seconds; the rest of its parameters are its own.
SMALL = {
    "01_motivation": {"epochs": 1, "num_samples": 6, "num_rescalings": 2},
    "02_counting": {"campaign": PERCEPTRON, "num_segments": 20, "num_triangles": 4,
                    "triangles": 1, "resolution": 20},
    "03_main_correlation": {"num_samples": 10},
    "05_ablations": {"imagenet": ""},
    "07_training_evolution": {"num_samples": 6},
    "08_theory": {"widths": [32], "num_wide": 4, "num_networks": 30, "num_inits": 3,
                  "num_equal": 16, "steps": 100, "n_train": 6, "hidden": 12},
    "09_linear_regions": {"sign_changes": [2], "widths": [8, 16], "sample_sizes": [8, 16],
                          "num_students": 2, "num_steps": 100, "num_stated": 1, "num_wide": 16,
                          "num_initializations": 500},
    "10_training_complexity": {"repetitions": 1, "epochs": 3, "num_points": 4, "image_epochs": 1},
    "11_beyond_the_grid": {"shown": PERCEPTRON, "num_samples": 41, "dimensions": "",
                           "exact_samples": 1, "triangles": 1, "classifiers": 2},
    "12_your_network": {"epochs": 1},
    "19_counterexample": {"num_points": 5, "trials": 2},
}  # fmt: skip

# Beside another seed. Pages that train or count little do so on a pretended card, and draw that.
CARD = {"device": "cuda"}
OTHER = {
    "02_counting": CARD, "07_training_evolution": CARD | {"campaign": PERCEPTRON},
    "05_ablations": {"imagenet": "tiny-all"},
    "12_your_network": CARD | {"network": "ResNet18", "width": 2, "experiment": "mixup"},
    "20_what_is_changed": {"num_triangles": 2},
}  # fmt: skip


@pytest.fixture(scope="session")
def trained(tmp_path_factory, worker_id):
    """Results with the runs of the campaigns, which the workers that ask train between them."""
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "swept"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RC_RESULTS", str(folder))
        for name in ("shapes-tiny", CAMPAIGNS / "tiny-all", PERCEPTRON, OPTIMIZERS):
            campaign = load_campaign(name)
            while missing_runs(campaign):
                assert {outcome.status for outcome in sweep(campaign)} <= {"done", "elsewhere"}
    return folder


@pytest.fixture
def run(trained, monkeypatch):
    """A function that runs a page on these results and with other parameters."""
    monkeypatch.setenv("RC_RESULTS", str(trained))
    return functools.partial(execute, monkeypatch)


# An unfilled place of a text, or the name of an object instead of what it holds.
LEFT_OVER = re.compile(r"\{\w+(:[^}]*)?\}| object at 0x|\bNone\b|\bNaN\b")


def execute(monkeypatch, name, others=(), **parameters):
    """Execute a notebook's code here, where a kernel would take longer than the page itself.

    others: parameters of those pages that have them.
    Every cell of a figure draws one with numbers in it or says why there is none; no table and no
    sentence is empty or holds what only Python understands.
    """
    shown, path = [], find_notebook(name)
    known = notebook_parameters(path)
    given = {key: value for key, value in dict(others).items() if key in known}
    given |= SMALL.get(name, {}) | parameters
    assert set(given) <= set(known)
    plt.close("all")  # what other tests have left open
    monkeypatch.setattr(plt, "show", lambda: (shown.extend(drawn()), plt.close("all")))
    namespace = {"__name__": "__main__"}
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type != "code":
            continue
        shown.clear()
        body = ast.parse(cell.source).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), str(path), "exec"), namespace)
        if "parameters" in cell.metadata.get("tags", []):
            namespace.update(given)
        value = last and eval(compile(ast.Expression(last.value), str(path), "eval"), namespace)
        texts = [getattr(value, f"_repr_{kind}_", lambda: None)() for kind in ("html", "markdown")]
        texts = [text[0] if isinstance(text, tuple) else text for text in texts if text is not None]
        if "figure" in cell.metadata.get("mystnb", {}):
            assert shown or any(texts), f"nothing is shown by\n{cell.source}"
            assert all(shown), f"an empty figure is drawn by\n{cell.source}"
        for text in texts:
            assert text.strip(), f"an empty text is shown by\n{cell.source}"
            left = LEFT_OVER.search(text)
            assert not left, f"{left[0]} is shown by\n{cell.source}"
    return namespace


def drawn():
    """For each open figure whether it has axes with something finite in them, or words instead."""
    for figure in map(plt.figure, plt.get_fignums()):
        full = [ax for ax in figure.axes if ax.get_visible() and ax.has_data()]
        words = figure.texts or any(ax.texts for ax in figure.axes)
        ends = [[*ax.get_xlim(), *ax.get_ylim()] for ax in full]
        yield bool(full or words) and np.isfinite(ends).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_on_a_tiny_campaign_with_other_parameters(name, run, monkeypatch):
    monkeypatch.setattr(decisions.beyond_settings, "__defaults__", (10, 3))  # splits: not 200
    if name[:2] not in ("17", "18", "20"):  # whose campaigns are the book's own
        monkeypatch.setenv("RC_CAMPAIGNS", str(CAMPAIGNS))
    others = dict.fromkeys(("campaign", "reference", "shown"), "tiny-all") | {"seed": 1}
    own = OTHER.get(name, {})
    with pretended_gpu() if "device" in own else contextlib.nullcontext():
        run(name, others, **own)


# Pages of claims, of which this campaign has not every experiment and measure.
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if re.match("0[134567]", name)])
def test_a_page_of_claims_runs_where_experiments_are_missing(name, run):
    run(name, dict.fromkeys(("campaign", "shown"), "shapes-tiny"))


@pytest.mark.slow
def test_runs_of_another_optimizer_or_other_data_are_not_held_against_the_paper(run):
    own = {"campaign": OPTIMIZERS, "shown": PERCEPTRON}
    first, second = run("06_augmentation", own), run("07_training_evolution", own)
    assert first["results"] == second["results"] == []
    (_, augmented), *others = first["pairs"].values()
    assert (len(augmented), others, second["during"]["count"][0].n) == (4, [], 8)


@pytest.mark.slow
def test_dimensions_are_compared_over_one_training_and_every_run_once(run):
    own = {"campaign": PERCEPTRON, "dimensions": str(CAMPAIGNS / "tiny-all")}
    other = run("11_beyond_the_grid", **own)["other"]
    assert (len(other), set(other["optimizer"]), set(other["mixup_alpha"])) == (4, {"sgd"}, {0.0})


@pytest.mark.slow
def test_a_count_with_the_name_of_another_stands_in_no_column(run, tmp_path):
    text = (CAMPAIGNS / "tiny-all" / "campaign.toml").read_text()
    swapped = text.replace("[counts.test]", "[counts.]").replace("[counts.random]", "[counts.test]")
    named = []
    for content in (text, swapped.replace("[counts.]", "[counts.random]")):
        (tmp_path / "campaign.toml").write_text(content)
        found = run("05_ablations", campaign=str(tmp_path))["entries"]
        named.append({"d=2", "Test", "Random"} & set(found["column"]))
    assert named == [{"d=2", "Test", "Random"}, {"d=2"}]


def test_notebooks_have_no_outputs_and_cells_of_25_lines_at_most():
    for name in NAMES:
        for cell in nbformat.read(find_notebook(name), 4).cells:
            if cell.cell_type == "code":
                assert not cell.outputs, name
                assert len(cell.source.splitlines()) <= 25, f"{name}: {cell.source[:60]}"
