"""The drawer at the end of a notebook page: how to run it, its parameters, and the code that the page leaves out.

A page shows the code that teaches. Cells tagged `hide-input` set up, draw and print; they move to the drawer.
"""

import urllib.parse

import nbformat

PLUMBING = "hide-input"


def add(notebook, page):
    """Append the drawer to an executed notebook, and take from the page the inputs that are in it."""
    parameters, plumbing = "", []
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if "parameters" in tags:
            parameters = cell.source
            cell.metadata["tags"] = [*tags, "remove-cell"]
        elif "injected-parameters" in tags:
            cell.metadata["tags"] = [*tags, "remove-cell"]
        elif PLUMBING in tags:
            plumbing.append(cell.source)
            cell.metadata["tags"] = [tag for tag in tags if tag != PLUMBING] + ["remove-input"]
    text = _text(page, parameters, plumbing, _tables(notebook), notebook.metadata.get("papermill", {}).get("duration"))
    notebook.cells.append(nbformat.v4.new_markdown_cell(text))


def _tables(notebook):
    """The tables of a page as comma-separated values, in their order."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    found = [output.get("metadata", {}).get("text/html", {}).get("csv") for output in outputs]
    return [values for values in found if values]


def _text(page, parameters, plumbing, tables, seconds):
    given = "".join(f" -p {name} {value}" for name, value in page.parameters.items())
    command = f"$ .venv/bin/python -m rc_utils.notebooks {page.name}{given}"
    parts = [f"Run this page yourself, {_duration(seconds)}:", _fenced("console", command)]
    if parameters:
        parts += ["With `-p NAME VALUE` it takes these parameters:", _fenced("python", parameters)]
    if plumbing:
        parts += ["The code that sets up, draws and prints:", _fenced("python", "\n\n".join(plumbing))]
    if tables:
        links = [_link(f"{page.name}-{number}.csv", values) for number, values in enumerate(tables, 1)]
        parts += ["The tables of this page, in their order:", _fenced("{raw} html", "\n".join(links))]
    return "::::{dropdown} Code and parameters\n" + "\n\n".join(parts) + "\n::::"


def _link(name, values):
    """A download that needs no file beside the page."""
    return f'<a download="{name}" href="data:text/csv;charset=utf-8,{urllib.parse.quote(values)}">{name}</a>'


def _duration(seconds):
    if not seconds:
        return "with another output where you like"
    minutes = round(seconds / 60)
    return f"about {minutes} minute{'s' * (minutes > 1)}" if minutes else "less than a minute"


def _fenced(language, code):
    fence = "`" * 8  # more than any code here has
    return f"{fence}{language}\n{code}\n{fence}"
