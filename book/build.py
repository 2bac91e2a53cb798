"""Build the book: train the live campaigns, execute the notebooks that changed, render with Sphinx.

python book/build.py [--only PAGE] [--skip-sweep] [--device DEVICE] [--pdf]
"""

import argparse
import contextlib
import importlib.metadata
import pathlib
import re
import shutil
import subprocess
import sys
import time

import downloads
import headline
import pages
import pdf

import rc_utils
from rc_utils.paths import write_atomically
from rc_utils.sweep import missing_runs
from rc_utils.sweep.campaign import load_campaign

ROOT = pathlib.Path(__file__).resolve().parent.parent
_STAMP = ".rendered"
_RENDERERS = ("jupyter-book", "sphinx", "sphinx-book-theme", "myst-nb", "sphinxcontrib-bibtex")


class BuildError(RuntimeError):
    """A stage of the build that failed; the message says which and what to do."""


@contextlib.contextmanager
def _stage(name):
    print(f"{name} ...", flush=True)
    start = time.perf_counter()
    yield
    print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)


def train(campaigns, device=None):
    """Make the missing runs of each campaign in two worker processes."""
    for name in campaigns:
        if not missing_runs(load_campaign(name)):
            continue
        from rc_utils.sweep import execute  # imports torch, so only if a run is missing

        arguments = [name, "--workers", "2", *(["--device", device] if device else [])]
        if execute.main(arguments):
            command = f"{sys.executable} -m rc_utils.sweep {' '.join(arguments)}"
            raise BuildError(f"campaign {name} did not finish (its error is above): {command}")


def render(layout, strict=True):
    """Render the book unless its source is unchanged; returns whether it was rendered.

    strict: treat warnings as errors and write the article; turn it off where a page is unexecuted
    or stale, to whose results others refer.
    """
    build, generated = layout.book / "_build", {"_build", "__pycache__"}
    files = [p for p in layout.book.rglob("*") if p.is_file()]
    files = [p for p in files if not generated & set(p.relative_to(layout.book).parts)]
    files += [p for p in (layout.root / "article").glob("*") if p.suffix in (".py", ".typ")]
    frame = [p for p in files if p.name.endswith(("_toc.yml", ".py")) or "_static" in p.parts]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _RENDERERS)
    source = [pages.hash_of(frame, layout.book), pages.hash_of(files, layout.book), versions]
    stamp = build / _STAMP
    previous = []
    if stamp.is_file():
        previous = stamp.read_text(encoding="utf8", errors="replace").splitlines()
    if previous == source and (build / "html" / "index.html").is_file():
        return False
    if previous[:1] != source[:1]:
        # Start afresh: Sphinx keeps pages that left the table of contents and, where no page has
        # changed, old style sheets and what an extension made. It does not repeat warnings of pages
        # it has read, so a second try after a failure (which leaves no stamp) would pass.
        shutil.rmtree(build, ignore_errors=True)
    stamp.unlink(missing_ok=True)
    build.mkdir(exist_ok=True)
    _sphinx(layout.book, strict)
    if strict:
        _write_article(layout.root / "article" / "build.py")
    downloads.write(layout, build / "html")
    write_atomically(stamp, "\n".join(source).encode())
    return True


def _write_article(program):
    if program.is_file():
        done = _run([sys.executable, program])
        if done.returncode:
            raise BuildError(f"the article failed:\n{done.stdout}")


def _run(command):
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def _sphinx(book, strict):
    program = pathlib.Path(sys.executable).with_name("jupyter-book")
    options = ["--warningiserror", "--keep-going"] if strict else []
    done = _run([program, "build", "--quiet", "--nitpick", book, *options])
    if done.returncode:
        lines = done.stdout.splitlines()
        warnings = [line for line in lines if "WARNING" in line or "ERROR" in line]
        raise BuildError("Sphinx failed:\n" + ("\n".join(warnings) or done.stdout))


def build(layout, *, only=(), skip_sweep=False, device=None, as_pdf=False):
    """Build the book of `layout`; returns the path of its first page.

    as_pdf: print it as one PDF as well. Raises BuildError, NotebookError, ValueError or
    FileNotFoundError with a message for the user.
    """
    campaigns, table = pages.read_pages(layout.book / "pages.toml")
    pages.check_contents(table, layout.book / "_toc.yml")
    chosen, there = pages.select(table, only), {page.name for page in table}
    for path in (layout.book / "notebooks").glob("*.csv"):
        if path.stem not in there:  # results of a page that is no more
            path.unlink()
    if not skip_sweep:
        read = {name for page in chosen for name in page.campaigns}
        with _stage("Campaigns"):
            train([name for name in campaigns if not only or read & {name, "*"}], device)
    with _stage("Notebooks"):
        executed = pages.execute_pages(chosen, layout, device)
        print(f"  {len(executed)} executed, {len(chosen) - len(executed)} unchanged")
    unexecuted = pages.write_unexecuted(table, layout)
    old = _stale(table, layout, device) if only else []
    if not old and layout.root == ROOT:
        headline.main()
    with _stage("Pages"):
        rendered = render(layout, strict=not old)
        print("  rendered" if rendered else "  unchanged")
    if as_pdf:
        _print_book(layout)
    if unexecuted:
        names = ", ".join(unexecuted)
        print(f"Shown without results, because not asked for and not executed before: {names}.")
    if old := ", ".join(name for name in old if name not in unexecuted):
        print(f"Shown as they were made, from other records or code than now: {old}.")
        print("README, first page and article are left as they were, too: `make book` mends all.")
    return layout.book / "_build" / "html" / "index.html"


def _stale(table, layout, device):
    """Names of the pages that are not those of their records and code, on any device."""
    names = []
    for page in table:
        try:
            is_old = pages.stale([page], layout, device) and pages.stale([page], layout)
        except (ValueError, FileNotFoundError):  # of a page that was not asked for
            is_old = True
        names += [page.name] if is_old else []
    return names


def _print_book(layout):
    """Write the book as one PDF, unless there is one of the pages as they are rendered now."""
    html = layout.book / "_build" / "html"
    path = html / "downloads" / "book.pdf"
    if path.is_file():
        return
    with _stage("PDF"):
        contents = (layout.book / "_toc.yml").read_text(encoding="utf8")
        pdf.write(html, re.findall(r"(?:root|file): (\S+)", contents), path)


def main(argv=None):
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    only = {"action": "append", "default": [], "metavar": "PAGE"}
    parser.add_argument("--only", **only, help="execute this page alone; may be repeated")
    records = "use the records there are, train nothing"
    parser.add_argument("--skip-sweep", action="store_true", help=records)
    place = "device such as cuda (default: cpu to train, each notebook's own to execute it)"
    parser.add_argument("--device", help=place)
    printed = "print the book as one PDF as well, with Chromium"
    parser.add_argument("--pdf", action="store_true", help=printed)
    args = parser.parse_args(argv)
    start = time.perf_counter()
    used = pathlib.Path(rc_utils.__file__).resolve().parent
    if used != ROOT / "rc_utils":
        message = f"this interpreter has the rc_utils of {used}, not of {ROOT}: call `make book`"
        print(f"error: {message}", file=sys.stderr)
        return 1
    try:
        options = {"only": args.only, "skip_sweep": args.skip_sweep, "device": args.device}
        index = build(pages.Layout(ROOT), **options, as_pdf=args.pdf)
    except (BuildError, pages.NotebookError, ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"Built in {time.perf_counter() - start:.0f} s: {index}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
