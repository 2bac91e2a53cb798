from .config import TrainConfig
from .loop import StopTraining, TrainRun, evaluate, train

__all__ = ["StopTraining", "TrainConfig", "TrainRun", "evaluate", "train"]
