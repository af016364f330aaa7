"""Scanning HLO text: comments, names, strings, balanced groups, and errors that know where they are.

There is no token list: the parser matches compiled regular expressions at a position, which is several times
faster than a token loop. Comments are blanked out beforehand, in place, so that offsets stay true.
Source: XLA's HLO text format as its printer writes it (no grammar is published).
"""

from __future__ import annotations

import re

from xyla.support.diagnostics import Source, Span
from xyla.support.status import Status, XylaError, invalid

# A value may nest braces this deep; real texts stay below ten.
MAX_DEPTH = 128

NAME = r"[A-Za-z0-9_][\w.\-#]*+"
SPACE = re.compile(r"\s*+")
NAME_RE = re.compile(r"\s*+%?(" + NAME + ")")
WORD_RE = re.compile(r"\s*+([A-Za-z_][\w.\-]*+)")
INT_RE = re.compile(r"\s*+(-?[0-9]++)")
STRING_RE = re.compile(r'\s*+"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)
_COMMENT = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|/\*.*?(?:\*/|\Z)|//[^\n]*+',
    re.DOTALL,
)
_BRACKET = re.compile(r'[{}()\[\]]|"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_CLOSES = {"{": "}", "(": ")", "[": "]"}
_NOT_NEWLINE = re.compile(r"[^\n]")


def blank_comments(source: Source) -> str:
    """The text with every `/* */` and `//` comment outside strings turned into spaces of the same length.

    Raises a located INVALID_ARGUMENT for a comment that is never closed.
    """
    text = source.text
    if "//" not in text and "/*" not in text:
        return text

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        if found[0] == '"':
            return found
        if found[1] == "*" and (len(found) < 4 or not found.endswith("*/")):
            raise invalid("this comment is never closed", span=Span(source, match.start(), match.start() + 2))
        return _NOT_NEWLINE.sub(" ", found) if "\n" in found else " " * len(found)

    return _COMMENT.sub(blank, text)


class Cursor:
    """A position in a text. `text` has its comments blanked; `source.text` is what the user wrote."""

    __slots__ = ("pos", "source", "text")

    def __init__(self, source: Source, text: str, pos: int = 0) -> None:
        self.source = source
        self.text = text
        self.pos = pos

    def error(
        self,
        message: str,
        start: int | None = None,
        end: int | None = None,
        *,
        hint: str | None = None,
        status: Status = Status.INVALID_ARGUMENT,
    ) -> XylaError:
        """An error located at [start, end); by default at the next character that is not a space."""
        if start is None:
            self.skip()
            start = self.pos
        end = start + 1 if end is None else end
        return XylaError(status, message, span=Span(self.source, start, end), hint=hint)

    def span(self, start: int, end: int) -> Span:
        """Characters [start, end) of the source."""
        return Span(self.source, start, end)

    def skip(self) -> None:
        """Moves past white space."""
        match = SPACE.match(self.text, self.pos)
        if match is not None:
            self.pos = match.end()

    def peek(self) -> str:
        """The next character that is not a space; "" at the end."""
        self.skip()
        return self.text[self.pos : self.pos + 1]

    def accept(self, token: str) -> bool:
        """Moves past `token` if it comes next."""
        self.skip()
        if self.text.startswith(token, self.pos):
            self.pos += len(token)
            return True
        return False

    def expect(self, token: str, where: str) -> None:
        """Moves past `token`. Raises INVALID_ARGUMENT when something else comes."""
        if not self.accept(token):
            raise self.error(f"expected '{token}' {where}, found {self.found()}")

    def found(self) -> str:
        """What comes next, for a message."""
        self.skip()
        if self.pos >= len(self.text):
            return "the end of the text"
        match = re.compile(r'[\w.\-%]{1,40}|"[^"\n]{0,30}|.', re.DOTALL).match(self.text, self.pos)
        return f"'{match.group()[:40]}'" if match else "the end of the text"

    def match(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        """Matches `pattern` here and moves past it. Raises INVALID_ARGUMENT saying what was expected."""
        match = pattern.match(self.text, self.pos)
        if match is None:
            raise self.error(f"expected {expected}, found {self.found()}")
        self.pos = match.end()
        return match

    def name(self, what: str) -> str:
        """An instruction's or computation's name, without its `%`."""
        return self.match(NAME_RE, what).group(1)

    def integer(self, what: str) -> int:
        """A decimal integer that fits int64."""
        match = self.match(INT_RE, what)
        return checked_int(match.group(1))

    def balanced(self, start: int) -> int:
        """The offset just past the group that opens at `start` (a bracket). Raises for unbalanced or very deep ones."""
        stack: list[str] = []
        for match in _BRACKET.finditer(self.text, start):
            char = match.group()
            if char in _CLOSES:
                stack.append(_CLOSES[char])
                if len(stack) > MAX_DEPTH:
                    raise self.error(f"brackets are nested deeper than {MAX_DEPTH}", match.start())
            elif char[0] != '"':
                if char != stack.pop():
                    raise self.error(f"'{char}' closes a bracket that is not open", match.start())
                if not stack:
                    return match.end()
            elif len(char) == 1 or not char.endswith('"'):
                raise self.error("this string has no closing quote", match.start())
        raise self.error(f"'{self.text[start]}' is never closed", start)


def checked_int(text: str) -> int:
    """The integer, if it fits int64. Raises INVALID_ARGUMENT (not located) otherwise."""
    text = text.strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise invalid(f"expected an integer, found '{text[:40]}'")
    value = int(text) if len(digits) <= 20 else 1 << 64
    if not -(1 << 63) <= value < 1 << 63:
        raise invalid(f"integer {text[:24]} does not fit 64 bits")
    return value


def split_top(text: str, separator: str = ",") -> list[str]:
    """The parts of `text` at separators outside brackets and strings; [] for a blank text. Linear, not recursive."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{(\[]|[})\]]|' + re.escape(separator), text, re.DOTALL):
        token = match.group()
        if token == separator:
            if depth == 0:
                parts.append(text[start : match.start()].strip())
                start = match.end()
        elif token in "{([":
            depth += 1
        elif token in "})]":
            depth -= 1
    last = text[start:].strip()
    return [*parts, last] if parts or last else []


_ESCAPE = re.compile(r"((?:\\(?:x[0-9A-Fa-f]{1,2}|[0-7]{1,3}))+)|\\(.)", re.DOTALL)
_BYTE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3}))")
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def unescape(body: str) -> str:
    """The text of a C-escaped string body (between the quotes). A run of byte escapes that is UTF-8 is decoded."""
    return _ESCAPE.sub(_unescaped, body) if "\\" in body else body


def _unescaped(match: re.Match[str]) -> str:
    run, char = match.groups()
    if run is None:
        return _SIMPLE.get(char, char)
    data = bytes(int(h, 16) if h else int(o, 8) & 255 for h, o in _BYTE.findall(run))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")
