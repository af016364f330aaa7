"""xyla: XLA, re-created in Python.

`load` reads a program, `run` compiles and executes it, `compile` returns an `Executable`, `interp.run` evaluates it
with the reference evaluator. `Client` offers devices, buffers and asynchronous executions, in PJRT's vocabulary.
Everything loads on first use, so `import xyla` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from xyla.support.version import __version__

if TYPE_CHECKING:
    from xyla import interp
    from xyla.clients.api import Executable, compile, load, load_executable, run
    from xyla.clients.buffer import Buffer
    from xyla.clients.client import Client, CompileOptions, Device, DeviceAssignment, Memory
    from xyla.clients.loaded_executable import LoadedExecutable
    from xyla.runtime.user_calls import register_custom_call
    from xyla.support.status import Status, XylaError

__all__ = [
    "Buffer",
    "Client",
    "CompileOptions",
    "Device",
    "DeviceAssignment",
    "Executable",
    "LoadedExecutable",
    "Memory",
    "Status",
    "XylaError",
    "__version__",
    "compile",
    "interp",
    "load",
    "load_executable",
    "register_custom_call",
    "run",
]

_HOME = {
    "Buffer": "xyla.clients.buffer",
    "Client": "xyla.clients.client",
    "CompileOptions": "xyla.clients.client",
    "Device": "xyla.clients.client",
    "DeviceAssignment": "xyla.clients.client",
    "LoadedExecutable": "xyla.clients.loaded_executable",
    "Memory": "xyla.clients.client",
    "Executable": "xyla.clients.api",
    "compile": "xyla.clients.api",
    "load": "xyla.clients.api",
    "load_executable": "xyla.clients.api",
    "run": "xyla.clients.api",
    "register_custom_call": "xyla.runtime.user_calls",
    "Status": "xyla.support.status",
    "XylaError": "xyla.support.status",
}


def __getattr__(name: str) -> Any:
    if name == "interp":
        return importlib.import_module("xyla.interp")
    if name not in _HOME:
        raise AttributeError(f"module 'xyla' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
