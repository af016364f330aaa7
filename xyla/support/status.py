"""Status codes (absl's) and the one exception type that crosses xyla's public surface."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xyla.support.diagnostics import Span


class Status(Enum):
    """absl::StatusCode, by name and number."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


# Characters of a message; the rest is cut off.
MAX_MESSAGE = 2000


class XylaError(Exception):
    """An error a user can act on: a status, one message, and where in the input it was found.

    `span` may be attached later by a layer that knows the source (see `located`).
    """

    def __init__(self, status: Status, message: str, *, span: Span | None = None, hint: str | None = None) -> None:
        # A damaged input may hold a value of any length, and messages show values.
        message = message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "..."
        super().__init__(message)
        self.status = status
        self.message = message
        self.span = span
        self.hint = hint

    def located(self, span: Span | None) -> XylaError:
        """The same error, with `span` filled in if it had none."""
        if self.span is None:
            self.span = span
        return self

    def render(self) -> str:
        """`file:line:col: message`, the source line with a caret, and the hint (no trailing newline)."""
        hint = f"\nhint: {self.hint}" if self.hint else ""
        if self.span is None:
            return f"{self.status.name}: {self.message}{hint}"
        return f"{self.span.where()}: {self.status.name}: {self.message}\n{self.span.excerpt()}{hint}"

    def __str__(self) -> str:
        return self.render()


def invalid(message: str, *, span: Span | None = None, hint: str | None = None) -> XylaError:
    """An INVALID_ARGUMENT error, to raise."""
    return XylaError(Status.INVALID_ARGUMENT, message, span=span, hint=hint)


def unimplemented(message: str, *, span: Span | None = None, hint: str | None = None) -> XylaError:
    """An UNIMPLEMENTED error, to raise: names the op or feature and the reason."""
    return XylaError(Status.UNIMPLEMENTED, message, span=span, hint=hint)


def internal(message: str, *, span: Span | None = None, hint: str | None = None) -> XylaError:
    """An INTERNAL error, to raise: xyla broke one of its own invariants."""
    return XylaError(Status.INTERNAL, message, span=span, hint=hint)
