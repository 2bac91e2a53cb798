"""The command `python -m rc_utils.sweep`."""

import sys

from rc_utils.sweep.execute import main

if __name__ == "__main__":
    sys.exit(main())
