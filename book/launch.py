"""The pages' notebooks as they are opened elsewhere: on Binder, or on Colab, where they first clone a release.

    python book/launch.py FOLDER [--colab OWNER/NAME]

A notebook has the parameters that the book gives its page. Pages that train networks first are left out.
"""

import argparse
import pathlib
import sys
import tomllib

import nbformat
import pages
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Where binder/postBuild writes the notebooks, relative to the repository, and the branch that has them for Colab.
FOLDER = "book/_build/launch"
BRANCH = "colab"


def tag():
    """The name of this release in git."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    return f"v{project['version']}"


def opened_elsewhere(table):
    """Names of the pages of a pages.toml (its parsed table) that train no campaign."""
    trained = set(table.get("train", []))
    return [name for name, row in table["pages"].items() if not trained & set(row.get("campaigns", []))]


def links(pagename, table, repository):
    """{text: address} of the places that open the notebook behind a page; none where it is no such notebook."""
    folder, _, name = pagename.rpartition("/")
    if folder != "notebooks" or name not in opened_elsewhere(table):
        return {}
    return {
        "Binder": f"https://mybinder.org/v2/gh/{repository}/{tag()}?urlpath=lab/tree/{FOLDER}/{name}.ipynb",
        "Colab": f"https://colab.research.google.com/github/{repository}/blob/{BRANCH}/{name}.ipynb",
    }


def colab_cell(repository):
    """The first cell of a notebook on Colab: clone the release, install it, and work in its folder."""
    return (
        f"!git clone --quiet --depth 1 --branch {tag()} https://github.com/{repository} region-counts\n"
        "%cd region-counts\n"
        '%pip install --quiet ".[fast,data,figures]"'
    )


def write(folder, repository=None):
    """Write the notebooks into `folder`, for Colab if a repository OWNER/NAME is given; returns their paths."""
    source = ROOT / "book" / "pages.toml"
    names = opened_elsewhere(tomllib.loads(source.read_text(encoding="utf8")))
    layout = pages.Layout(ROOT)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for page in pages.select(pages.read_pages(source)[1], names):
        notebook = load_notebook_node(str(layout.source(page)))
        if page.parameters:
            notebook = parameterize_notebook(notebook, page.parameters)
        if repository:
            notebook.cells.insert(0, nbformat.v4.new_code_cell(colab_cell(repository)))
        paths.append(folder / f"{page.name}.ipynb")
        nbformat.write(notebook, paths[-1])
    return paths


def main(argv=None):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--colab", metavar="OWNER/NAME", help="the repository on GitHub that the notebooks clone")
    args = parser.parse_args(argv)
    paths = write(args.folder, args.colab)
    print(f"{len(paths)} notebooks in {args.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
