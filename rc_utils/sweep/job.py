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


@dataclasses.dataclass(frozen=True)
class Job:
    """What a process does with one planned run.

    deadline: time.time() after which no run is begun and a run in progress is given up; None for no limit.
    execution: `compile` of `train`.
    """

    device: str = "cpu"
    threads: int = 1
    deadline: float | None = None
    execution: dict = dataclasses.field(default_factory=dict)

    def __call__(self, planned):
        """The Outcome of the run; an error in it is an outcome, too."""
        run_id = planned.spec.run_id
        if self._late():
            return Outcome(run_id, "late")
        try:
            with torch_threads(self.threads):
                return Outcome(run_id, "done", run.complete_run(planned, self.device, self._late, **self.execution))
        except StopTraining:
            return Outcome(run_id, "late")
        except Exception:
            settings = canonical_json(dataclasses.asdict(planned.spec))
            return Outcome(run_id, "failed", error=f"{traceback.format_exc()}settings: {settings}")

    def _late(self):
        return self.deadline is not None and time.time() > self.deadline


@contextlib.contextmanager
def torch_threads(number):
    """So many torch threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
