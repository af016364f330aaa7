"""The passes: a file each, or a folder with one `rules_<family>.py` a family. Importing a module registers it."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules


def load_all() -> None:
    """Imports every pass module, so that `passmgr.base.registered()` knows them all."""
    for info in iter_modules(__path__):
        import_module(f"{__name__}.{info.name}")
