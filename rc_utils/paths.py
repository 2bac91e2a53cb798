"""Where things lie: campaigns are committed, results and data belong to the machine."""

import os
import pathlib

_REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


def project_root():
    """The folder that holds `campaigns/`: the repository of this package, else the current folder."""
    return _REPOSITORY if (_REPOSITORY / "campaigns").is_dir() else pathlib.Path.cwd()


def campaigns_dir():
    """Folder of the campaigns; the environment variable RC_CAMPAIGNS names another."""
    return pathlib.Path(os.environ.get("RC_CAMPAIGNS") or project_root() / "campaigns")


def results_dir():
    """Folder of the records and weights made on this machine; RC_RESULTS names another."""
    return pathlib.Path(os.environ.get("RC_RESULTS") or project_root() / "results")
