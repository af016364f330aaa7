"""The version of xyla: what the package says it is, and what saved executables are checked against."""

from __future__ import annotations

__version__ = "0.1.0"
