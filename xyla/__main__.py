"""`python -m xyla`: the `xyla` command, for where the script is not on the path."""

from __future__ import annotations

import sys

from xyla.clients.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
