"""Walks over nested computations without Python recursion."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

Nested = Generator["Nested", Any, Any]


def drive(start: Nested) -> Any:
    """Runs nested generators on an explicit stack; returns `start`'s value. `yield g`: run g, give me its result."""
    stack = [start]
    value: Any = None
    while stack:
        try:
            callee = stack[-1].send(value)
        except StopIteration as stop:
            stack.pop()
            value = stop.value
        else:
            stack.append(callee)
            value = None
    return value
