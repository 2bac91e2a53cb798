"""Exact segments: the region boundaries between two points, solved for instead of sampled."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
