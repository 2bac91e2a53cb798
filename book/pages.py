"""The notebook pages of the book: which there are, which are stale, and their execution."""

import concurrent.futures
import dataclasses
import fnmatch
import hashlib
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import tomllib

import nbformat
from tqdm import tqdm

from rc_utils.notebooks import (
    NotebookError,
    check_parameters,
    execute_notebook,
    notebook_parameters,
)
from rc_utils.paths import write_atomically
from rc_utils.published import RESULTS
from rc_utils.sweep import campaign, records
from rc_utils.validation import check_keys, check_name, require, settings_from_dict, unknown_name

STAMP = "rc_fingerprint"
_WORKERS = 2


@dataclasses.dataclass(frozen=True)
class Page:
    """One notebook page: a table [pages.NAME] of pages.toml.

    `depends` are patterns relative to the repository; `results_of` are pages whose kept results
    (`rc_utils.published`) it shows, so that it is executed after them; * stands for all others.
    """

    name: str
    campaigns: tuple | list = ()
    depends: tuple | list = ()
    results_of: tuple | list = ()
    notebook: str = ""
    title: str = ""
    parameters: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Layout:
    """Folders of a book: `root` holds book/, notebooks/ and all that pages depend on."""

    root: pathlib.Path

    @property
    def book(self):
        """The folder of pages.toml, the prose and the configuration."""
        return self.root / "book"

    def source(self, page):
        """The notebook as written; a page may execute another page's with other parameters."""
        return self.root / "notebooks" / f"{page.notebook or page.name}.ipynb"

    def executed(self, page):
        """The notebook with its outputs, which Sphinx reads."""
        return self.book / "notebooks" / f"{page.name}.ipynb"

    def results(self, page):
        """The results that the page has kept, if it has any (`rc_utils.published.keep_results`)."""
        return self.executed(page).with_suffix(".csv")


def read_pages(path):
    """The campaigns to train and the pages of a pages.toml; unknown keys name the nearest one."""
    table = tomllib.loads(path.read_text(encoding="utf8"))
    check_keys(path.name, table, ["train", "depends", "pages"])
    common = tuple(table.get("depends", []))
    pages = []
    for name, row in table.get("pages", {}).items():
        page = settings_from_dict(Page, {**row, "name": name}, f"{path.name}: pages.{name}")
        pages.append(dataclasses.replace(page, depends=common + tuple(page.depends)))
    return tuple(table.get("train", [])), pages


def select(pages, names):
    """Pages called `names`, in the book's order; all pages if there are no names."""
    known = [page.name for page in pages]
    for name in names:
        check_name("page", name, known)
    return [page for page in pages if page.name in names or not names]


def check_contents(pages, toc_path):
    """Raise ValueError unless the table of contents lists exactly the pages of pages.toml."""
    listed = set(re.findall(r"file: notebooks/(\S+)", toc_path.read_text(encoding="utf8")))
    differing = sorted(listed ^ {page.name for page in pages})
    if differing:
        have, lack = toc_path.name, "pages.toml"
        if differing[0] not in listed:
            have, lack = lack, have
        where = f"page {differing[0]} is in {have} but not in {lack}"
        raise ValueError(f"{where}; add it there, or remove it here")


def fingerprint(page, layout):
    """SHA-256 over the page's notebook, parameters and files it depends on, by path and content."""
    files = [layout.source(page)]
    for pattern in page.depends:
        found = list(layout.root.glob(pattern))
        require(found, f"depends of page {page.name}: {pattern} matches no file in {layout.root}")
        files += found
    for name in page.campaigns:
        files += campaign_files(name)
    files += results_read(page, layout)
    contents = hash_of({file.resolve() for file in files if file.is_file()}, layout.root)
    parts = [page.name, page.parameters, page.title, contents]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def results_read(page, layout):
    """Result files of other pages that a page shows."""
    folder = layout.book / "notebooks"
    found = [path for pattern in page.results_of for path in folder.glob(f"{pattern}.csv")]
    return [path for path in found if path != layout.results(page)]


def hash_of(files, folder):
    """SHA-256 over files, by content and path relative to `folder`."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"\0{os.path.relpath(file, folder)}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def campaign_files(pattern):
    """Specifications and records of the campaigns whose names match `pattern`."""
    names = fnmatch.filter(campaign.list_campaigns(), pattern)
    if not names:
        raise unknown_name("campaign", pattern, campaign.list_campaigns())
    files = []
    # No other campaign is loaded, so that an unreadable one stops only its own pages.
    for found in map(campaign.load_campaign, names):
        files += [found.folder / "campaign.toml", found.folder / "runs.jsonl"]
        files += [records.record_path(run_id) for run_id in found.runs()]
    return files


def write_unexecuted(pages, layout):
    """Copy the pages that were never executed, so that links to them work; returns their names."""
    missing = [page for page in pages if _stamp_of(layout.executed(page)) is None]
    for page in missing:
        layout.executed(page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(layout.source(page), layout.executed(page))
    return [page.name for page in missing]


def execute_pages(pages, layout, device=None):
    """Execute the stale pages, two at a time, and return their names.

    Pages that show results of others come last. `device` is passed to notebooks that have such a
    parameter. Raises NotebookError after all pages have been tried, with the error of every page
    that failed.
    """
    for page in [with_device(page, layout, device) for page in pages]:
        check_parameters(layout.source(page), page.parameters)
    executed, errors = [], []
    # papermill changes the current folder of its process: pages need processes of their own.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(_WORKERS, context, _one_thread) as pool:
        for shows_results in (False, True):
            running = {}
            now = [page for page in pages if bool(page.results_of) == shows_results]
            for page in stale(now, layout, device):
                running[page.name] = pool.submit(_execute_page, page, layout)
            for name, future in tqdm(running.items(), unit="page", disable=not running):
                error = future.exception()
                tqdm.write(f"  {name} {'FAILED' if error else 'executed'}")
                if error:
                    errors.append(f"page {name}: {error}")
            executed += list(running)
    if errors:
        raise NotebookError("\n".join(errors))
    return executed


def stale(pages, layout, device=None):
    """The pages, with `device`, whose copy or results are not those of what they depend on."""
    given = [with_device(page, layout, device) for page in pages]
    prints = [(page, fingerprint(page, layout), _stamp_of(layout.executed(page))) for page in given]
    return [p for p, now, then in prints if now != then or _lost_results(p, layout)]


def with_device(page, layout, device):
    """The page with the parameter `device`, if its notebook has one and `device` is not None."""
    source = layout.source(page)
    if not source.is_file():
        missing = f"page {page.name}: there is no {source}"
        raise FileNotFoundError(f"{missing}; write it or remove the page from pages.toml")
    if device is None or "device" not in notebook_parameters(source):
        return page
    return dataclasses.replace(page, parameters={**page.parameters, "device": device})


def _stamp_of(executed):
    """Fingerprint stored in an executed notebook; None if there is none or it is damaged."""
    try:
        return json.loads(executed.read_text(encoding="utf8"))["metadata"].get(STAMP)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _lost_results(page, layout):
    """Whether the results a page keeps are missing; a page with another's notebook keeps none."""
    keeps = not page.notebook and "keep_results(" in layout.source(page).read_text(encoding="utf8")
    return keeps and not layout.results(page).is_file()


def _execute_page(page, layout):
    # Results appear with the stamp alone: of a page that fails after keeping some, there are none.
    results, stamp = layout.results(page), fingerprint(page, layout)
    kept = results.with_suffix(".kept")
    for path in (results, kept):
        path.unlink(missing_ok=True)
    os.environ[RESULTS] = "" if page.notebook else str(kept)
    execute_notebook(layout.source(page), layout.executed(page), page.parameters, cwd=layout.root)
    executed = nbformat.read(layout.executed(page), as_version=4)
    executed.metadata[STAMP] = stamp
    if page.title:
        executed.cells[0].source = page.title
        for cell in executed.cells[1:]:
            if cell.cell_type == "markdown":  # on the other page's runs: its last heading stays
                lines = cell.source.splitlines()
                cell.source = "\n".join([line for line in lines if line.startswith("#")][-1:])
        executed.cells = [cell for cell in executed.cells if cell.source]
    for cell in executed.cells:
        # Two pages may share the name of a figure; nothing refers to it.
        cell.metadata.get("mystnb", {}).get("figure", {}).pop("name", None)
    write_atomically(layout.executed(page), f"{nbformat.writes(executed)}\n".encode())
    if kept.is_file():
        kept.replace(results)


def _one_thread():
    os.environ.setdefault("OMP_NUM_THREADS", "1")
