"""The command `python -m rc_utils.notebooks`."""

import sys

from rc_utils.notebooks.execute import main

if __name__ == "__main__":
    sys.exit(main())
