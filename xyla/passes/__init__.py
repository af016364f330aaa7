"""The passes: a file each, or a folder with one `rules_<family>.py` a family. Importing a module registers it."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from xyla.passmgr.base import Pass, registered

# Passes whose module is not called as they are.
_MODULES = {"algsimp": "algebraic_simplifier"}


def load_all() -> None:
    """Imports every pass module, so that `passmgr.base.registered()` knows them all."""
    for info in iter_modules(__path__):
        import_module(f"{__name__}.{info.name}")


def find(name: str) -> type[Pass]:
    """The pass called `name`, importing only its own module where that is named after it. Raises KeyError."""
    if name not in registered():
        module = _MODULES.get(name, name.replace("-", "_"))
        if any(info.name == module for info in iter_modules(__path__)):
            import_module(f"{__name__}.{module}")
        else:
            load_all()
    return registered()[name]
