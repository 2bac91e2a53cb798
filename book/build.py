"""Build the book: train the live campaigns, execute the notebooks that changed, render with Sphinx.

python book/build.py [--only PAGE] [--skip-sweep] [--device DEVICE]
"""

import argparse
import contextlib
import importlib.metadata
import json
import pathlib
import shutil
import subprocess
import sys
import time

import html_checks
import pages

from rc_utils import sweep

BOOK = pathlib.Path(__file__).resolve().parent
_STAMP = ".rendered.json"
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
    """Run what is missing of each campaign, on two worker processes."""
    for name in campaigns:
        arguments = [name, "--workers", "2", *(["--device", device] if device else [])]
        if sweep.main(arguments):
            command = f"{sys.executable} -m rc_utils.sweep {' '.join(arguments)}"
            raise BuildError(f"campaign {name} did not finish (its error is above): {command}")


def render(layout, missing=()):
    """Render the book with warnings as errors, unless its source is what it was; returns whether it had to.

    Without the pages `missing` a reference to one of them cannot be resolved, so that warnings are then only shown.
    """
    build = layout.book / "_build"
    source = _source_state(layout.book, missing)
    stamp = build / _STAMP
    previous = json.loads(stamp.read_text(encoding="utf8")) if stamp.is_file() else {}
    if previous == source:
        return False
    if any(previous.get(part) != source[part] for part in ("contents", "static")):
        # Sphinx keeps pages that are no longer in the table of contents, leaves style sheets as they are where no page
        # has changed, and does not repeat the warnings of pages it has read before: after a failure (which leaves no
        # stamp) it starts afresh, or the failure would pass.
        shutil.rmtree(build, ignore_errors=True)
    stamp.unlink(missing_ok=True)
    build.mkdir(exist_ok=True)
    _sphinx(layout.book, missing)
    _check(build / "html")
    stamp.write_text(json.dumps(source), encoding="utf8")
    return True


def _source_state(book, missing):
    """What a rendering depends on: the table of contents, hashes of the book's files, and the tools' versions."""
    files = [p for p in book.rglob("*") if p.is_file() and not {"_build", "__pycache__"} & set(p.parts)]
    return {
        "contents": pages.contents_without(book / "_toc.yml", missing),
        "files": pages.hash_of(files, book),
        "static": pages.hash_of([path for path in files if "_static" in path.parts], book),
        "versions": {name: importlib.metadata.version(name) for name in _RENDERERS},
    }


def _sphinx(book, missing):
    command = [pathlib.Path(sys.executable).with_name("jupyter-book"), "build", "--quiet", "--nitpick"]
    if missing:
        toc = book / "_build" / "_toc.yml"
        toc.write_text(pages.contents_without(book / "_toc.yml", missing), encoding="utf8")
        command += ["--toc", toc]
    else:
        command += ["--warningiserror", "--keep-going"]
    done = subprocess.run([*command, book], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    warnings = [line for line in done.stdout.splitlines() if "WARNING" in line or "ERROR" in line]
    if done.returncode:
        raise BuildError("Sphinx failed:\n" + ("\n".join(warnings) or done.stdout))
    print("".join(f"  {line}\n" for line in warnings), end="")


def _check(html):
    problems = html_checks.book_problems(html)
    if problems:
        raise BuildError("The pages are rendered but not fit to be read offline:\n" + "\n".join(problems))


def build(layout, *, only=(), skip_sweep=False, device=None):
    """Build the book of `layout`; returns the path of its first page.

    Raises BuildError, NotebookError, ValueError or FileNotFoundError with a message for the one who started it.
    """
    campaigns, table = pages.read_pages(layout.book / "pages.toml")
    pages.check_contents(table, layout.book / "_toc.yml")
    chosen = pages.select(table, only)
    if not skip_sweep:
        read = {name for page in chosen for name in page.campaigns}
        with _stage("Campaigns"):
            train([name for name in campaigns if not only or read & {name, "*"}], device)
    with _stage("Notebooks"):
        executed = pages.execute_pages(chosen, layout, device)
        print(f"  {len(executed)} executed, {len(chosen) - len(executed)} unchanged")
    missing = [page.name for page in table if not layout.executed(page).is_file()]
    with _stage("Pages"):
        print("  rendered" if render(layout, missing) else "  unchanged")
    if missing:
        print(f"Without the pages {', '.join(missing)}, which were not asked for and have not been executed before.")
    return layout.book / "_build" / "html" / "index.html"


def main(argv=None):
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--only", action="append", default=[], metavar="PAGE", help="execute this page alone; may be repeated"
    )
    parser.add_argument("--skip-sweep", action="store_true", help="use the records there are, train nothing")
    parser.add_argument(
        "--device", help="where to train and count, such as cuda; default: that of each notebook, and cpu"
    )
    args = parser.parse_args(argv)
    start = time.perf_counter()
    try:
        index = build(pages.Layout(BOOK, BOOK.parent), only=args.only, skip_sweep=args.skip_sweep, device=args.device)
    except (BuildError, pages.NotebookError, ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"Built in {time.perf_counter() - start:.0f} s: {index}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
