"""What the book was built with: the machine, the versions, the seconds of every page."""

import importlib.metadata
import os
import pathlib
import platform

import pandas as pd
import torch

from rc_utils.pages import show_table
from rc_utils.paths import project_root
from rc_utils.provenance import git_revision, hardware, instructions

PACKAGES = ("torch", "torchvision", "numpy", "scipy", "pandas", "scikit-learn", "numba", "matplotlib", "papermill",
            "distributed", "jupyter-book", "sphinx")  # fmt: skip


def machine_table(device="cpu"):
    """The processor and its vector instructions, its cores, the device and the revision of the code."""
    rows = {
        "Processor": f"{hardware('cpu')} ({instructions()})",
        "Cores": str(os.cpu_count()),
        "Memory": _memory(),
        "Device": f"{device} ({hardware(device)})" if device != "cpu" else "cpu",
        "CUDA available": "yes" if torch.cuda.is_available() else "no",
        "System": f"{platform.system()} {platform.machine()}",
        "Code": git_revision(),
    }
    return show_table(pd.DataFrame({"": rows.keys(), "Value": rows.values()}))


def version_table():
    """Versions of Python and of the packages that matter; one that is not installed is said so."""
    rows = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            rows[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            rows[name] = "not installed"
    return show_table(pd.DataFrame({"Package": rows.keys(), "Version": rows.values()}))


def execution_table(folder=None):
    """Seconds of the last execution of every executed page that is there."""
    import nbformat

    folder = pathlib.Path(folder) if folder else project_root() / "book" / "notebooks"
    rows = []
    for path in sorted(p for p in folder.glob("*.ipynb") if not p.name.endswith(".failed.ipynb")):
        run = nbformat.read(path, as_version=4).metadata.get("papermill", {})
        if run.get("duration"):
            rows.append(
                {"Page": path.stem, "Seconds": round(run["duration"], 1), "Executed": run["end_time"][:16] + " UTC"}
            )
    return show_table(pd.DataFrame(rows, columns=["Page", "Seconds", "Executed"]))


def _memory():
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (ValueError, OSError, AttributeError):
        return "unknown"
