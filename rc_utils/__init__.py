"""Region counts in input space: data, networks, training, counting and the table of runs.

Each name is imported at its first use, so that records are read without torch (SPEC 1); the file
`__init__.pyi` beside this one says which names there are and where.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
