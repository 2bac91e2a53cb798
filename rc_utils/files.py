"""Writing files that others read at the same time: whole or not at all, and one writer after the other."""

import contextlib
import os
import uuid


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
    _sync_folder(path.parent)


def _sync_folder(folder):
    """Make a rename durable; some file systems refuse to open folders, and then there is nothing to flush."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def locked(path):
    """One process at a time inside the block, among those that name the same `path`, an empty file.

    A file system that knows no locks lets all of them in.
    """
    import fcntl  # here, because files can be written on systems that have no such module

    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
