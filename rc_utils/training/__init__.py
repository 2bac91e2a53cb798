"""One training loop; what changes its results is in `TrainConfig`, which is read without torch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
