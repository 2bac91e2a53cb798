from .config import TrainConfig
from .loop import TrainRun, evaluate, train

__all__ = ["TrainConfig", "TrainRun", "evaluate", "train"]
