"""Where files lie, and writing those that others read at the same time: whole or not at all."""

import contextlib
import os
import pathlib
import sys
import uuid

_REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


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


def project_root():
    """The folder that holds `campaigns/`: the repository of this package, else the current folder."""
    return _REPOSITORY if (_REPOSITORY / "campaigns").is_dir() else pathlib.Path.cwd()


def campaigns_dir():
    """Folder of the campaigns; the environment variable RC_CAMPAIGNS names another."""
    return pathlib.Path(os.environ.get("RC_CAMPAIGNS") or project_root() / "campaigns")


def results_dir():
    """Folder of the records and weights made on this machine; RC_RESULTS names another."""
    return pathlib.Path(os.environ.get("RC_RESULTS") or project_root() / "results")


def print_lines(lines):
    """Print lines as they come, for as long as somebody reads them, which `head` does not."""
    try:
        for line in lines:
            print(line, flush=True)
    except BrokenPipeError:
        # Python writes what is left at its end, and would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
