"""A planned run as something that a process does: in how long, with how many threads, and how it ended."""

import contextlib
import dataclasses
import time
import traceback

import torch

from rc_utils.sweep import run
from rc_utils.sweep.specification import canonical_json
from rc_utils.training import StopTraining


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a planned run ended: status "done" with its record, "late", or "failed" with the error's text."""

    run_id: str
    status: str
    record: dict | None = None
    error: str = ""


def attempt(planned, device="cpu", threads=1, deadline=None, compile=False):
    """The Outcome of a planned run in this process; an error in it is an outcome, too.

    deadline: time.time() after which the run is not begun or given up; None for no limit.
    """
    run_id = planned.spec.run_id

    def late():
        return deadline is not None and time.time() > deadline

    if late():
        return Outcome(run_id, "late")
    try:
        with torch_threads(threads):
            return Outcome(run_id, "done", run.complete_run(planned, device, late, compile=compile))
    except StopTraining:
        return Outcome(run_id, "late")
    except Exception:
        settings = canonical_json(dataclasses.asdict(planned.spec))
        return Outcome(run_id, "failed", error=f"{traceback.format_exc()}settings: {settings}")


@contextlib.contextmanager
def torch_threads(number):
    """So many torch threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
