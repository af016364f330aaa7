"""Source spans: how an error finds its line and draws its caret."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

# An input may be one 100 MB line: an excerpt shows at most this much of it around the caret.
EXCERPT_WIDTH = 120


class Source:
    """A named input text, shared by all spans into it. Line starts are indexed on the first question only."""

    __slots__ = ("_starts", "name", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self._starts: list[int] | None = None

    def position(self, offset: int) -> tuple[int, int]:
        """1-based (line, column) of a character offset."""
        starts = self._line_starts()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line_bounds(self, offset: int) -> tuple[int, int]:
        """Character range [start, end) of the line that holds `offset`, without its newline."""
        starts = self._line_starts()
        start = starts[bisect_right(starts, offset) - 1]
        end = self.text.find("\n", start)
        return start, len(self.text) if end < 0 else end

    def _line_starts(self) -> list[int]:
        if self._starts is None:
            starts, at, find = [0], 0, self.text.find
            while (at := find("\n", at)) >= 0:
                at += 1
                starts.append(at)
            self._starts = starts
        return self._starts


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a source."""

    source: Source
    start: int
    end: int

    def where(self) -> str:
        """`name:line:col`."""
        line, col = self.source.position(self.start)
        return f"{self.source.name}:{line}:{col}"

    def excerpt(self) -> str:
        """The source line (clipped around the span when long) with a caret line below it."""
        lo, hi = self.source.line_bounds(self.start)
        left = max(lo, self.start - EXCERPT_WIDTH // 2)
        right = min(hi, left + EXCERPT_WIDTH)
        head = "..." if left > lo else ""
        tail = "..." if right < hi else ""
        text = self.source.text[left:right].replace("\t", " ").replace("\r", " ")
        width = max(1, min(self.end, right) - self.start)
        caret = " " * (len(head) + self.start - left) + "^" + "~" * (width - 1)
        return f"  {head}{text}{tail}\n  {caret}"


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """The closest candidate to a misspelt word, or None if nothing is close."""
    if len(word) > 80:
        return None
    close = get_close_matches(word, list(candidates), n=1, cutoff=0.7)
    return close[0] if close else None
