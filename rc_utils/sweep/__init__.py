"""Campaigns: what is asked for, running it, and the records on disk; these are read without torch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
