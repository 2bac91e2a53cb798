"""Folders of the project, and a write that is whole or not at all."""

import contextlib
import os
import pathlib
import uuid

_REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


def project_root():
    """Folder that holds `campaigns/`: the repository of this package, else the current folder."""
    return _REPOSITORY if (_REPOSITORY / "campaigns").is_dir() else pathlib.Path.cwd()


def campaigns_dir():
    """Folder of the campaigns; the environment variable RC_CAMPAIGNS names another."""
    return _folder("campaigns")


def results_dir():
    """Folder of the records and weights made on this machine; RC_RESULTS names another."""
    return _folder("results")


def data_dir():
    """Folder of stored datasets; RC_DATA names another."""
    return _folder("data")


def _folder(name):
    given = os.environ.get(f"RC_{name.upper()}")
    return pathlib.Path(given).expanduser().absolute() if given else project_root() / name


def fix_folders():
    """Make RC_CAMPAIGNS, RC_RESULTS, RC_DATA absolute, for child processes in other folders."""
    for name in ("campaigns", "results", "data"):
        if os.environ.get(f"RC_{name.upper()}"):
            os.environ[f"RC_{name.upper()}"] = str(_folder(name))


def write_atomically(path, content):
    """Write bytes to a temporary name beside `path`, flush them to the disk, rename.

    Raises OSError that names `path` and says what to do; what was there before is then as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        advice = "free disk space or make the folder writable, then run the same command again"
        raise OSError(error.errno, f"{error.strerror}; {advice}", str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
