"""Provenance of a result: the machine, the versions, the revision of the code."""

import functools
import os
import pathlib
import platform
import subprocess

import numpy as np
import torch


def provenance(data, device, started, seconds, compile):
    """Provenance of a record as plain JSON values."""
    versions = {"python": platform.python_version()}
    versions |= {"torch": torch.__version__, "numpy": np.__version__}
    if torch.device(device).type == "cuda":
        versions |= {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    return {
        "started": started.isoformat(timespec="seconds"),
        "seconds_train": round(seconds, 3),
        "device": str(device),
        "hardware": hardware(device),
        # Such as "AVX2": processors with other instructions round differently.
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "git_revision": git_revision(),
        "versions": versions,
        "execution": {"compile": True} if compile else {},
        "data": data.provenance,
    }


def hardware(device="cpu"):
    """Name of the processor or of the graphics card."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    path = pathlib.Path("/proc/cpuinfo")  # on Linux alone
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@functools.cache
def git_revision():
    """Revision of the code: RC_REVISION, else git's, "+" if tracked files differ, or "unknown"."""
    if os.environ.get("RC_REVISION"):
        return os.environ["RC_REVISION"]
    root = pathlib.Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():  # an installed package may lie in somebody else's repository
        return "unknown"
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--dirty=+"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
