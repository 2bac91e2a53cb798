"""One training loop, with what changes its results in `TrainConfig`, which is read without torch."""

import importlib
from typing import TYPE_CHECKING

from rc_utils.training.config import TrainConfig

if TYPE_CHECKING:
    from rc_utils.training.loop import StopTraining, TrainRun, evaluate, train

__all__ = ["StopTraining", "TrainConfig", "TrainRun", "evaluate", "train"]

if not TYPE_CHECKING:

    def __getattr__(name):
        if name in __all__:
            return getattr(importlib.import_module(f"{__name__}.loop"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
