"""Where the commands print tables and texts. Imported when one prints: rich takes as long to load as `--help` does."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console

PIPED_WIDTH = 160


def console(stream: TextIO | None = None) -> Console:
    """A console on `stream` (standard output when None) that takes text as it is: no markup, no colours by value.

    Piped output keeps whole lines: a table is not squeezed into 80 columns.
    """
    file = stream or sys.stdout
    width = None if file.isatty() else PIPED_WIDTH
    return Console(file=file, width=width, highlight=False, markup=False, soft_wrap=True)
