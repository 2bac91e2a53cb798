"""Open JupyterLab on notebooks/, with a results folder of its own. Options are passed on to it.

python book/lab.py [--no-browser] [--ServerApp.port=8888] ...

The lab starts from what `make book` left: its results folder, `lab` in that of the book, has the same files as links.
A file is only ever replaced, never written into, so that an edited notebook reads the book's records and weights and
changes none of them.
"""

import json
import os
import pathlib
import shutil
import sys

from rc_utils.paper.scorecard import PAGE
from rc_utils.paths import results_dir

NOTEBOOKS = pathlib.Path(__file__).resolve().parents[1] / "notebooks"
FIRST = "12_your_network.ipynb"
SHARED = ("records", "weights", "findings", "forests")
# A notebook is saved when its reader says so: it is the source of a page.
SETTINGS = {"@jupyterlab/docmanager-extension/plugin.jupyterlab-settings": {"autosave": False}}
# Nothing here asks another server: no news, no look for updates, no catalogue of extensions.
QUIET = (
    "--LabApp.news_url=",
    "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
)


def share_results(book, lab):
    """Link the files of the results folder `book` that `lab` lacks, or has an older version of; returns how many."""
    number = 0
    for path in [path for folder in SHARED for path in (book / folder).glob("[!.]*") if path.is_file()]:
        target = lab / path.relative_to(book)
        if target.exists() and target.stat().st_mtime >= path.stat().st_mtime:
            continue
        number += 1
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            os.link(path, target)
        except OSError:  # a file system without links
            shutil.copy2(path, target)
    return number


def write_settings(folder):
    """The lab's own settings, where the reader has not changed them."""
    for name, settings in SETTINGS.items():
        path = folder / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(settings))


def command(lab, options=()):
    """The command line that opens page 12 in JupyterLab, with settings and layout below the folder `lab`."""
    places = (
        f"--ServerApp.root_dir={NOTEBOOKS}",
        f"--LabApp.default_url=/lab/tree/{FIRST}",
        f"--LabApp.user_settings_dir={lab / 'settings'}",
        f"--LabApp.workspaces_dir={lab / 'workspaces'}",
    )
    # In a container there is no other user, and JupyterLab asks for the word.
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return [sys.executable, "-m", "jupyterlab", *places, *QUIET, *as_root, *options]


def main(options):
    """Become JupyterLab, in whose kernels RC_RESULTS names the lab's folder."""
    lab = results_dir().resolve() / "lab"
    number = share_results(results_dir().resolve(), lab)
    write_settings(lab / "settings")
    print(f"{number} new files of the book's results; what you compute is kept in {lab}", flush=True)
    environment = {key: value for key, value in os.environ.items() if key != PAGE} | {"RC_RESULTS": str(lab)}
    line = command(lab, options)
    os.execve(line[0], line, environment)


if __name__ == "__main__":
    main(sys.argv[1:])
