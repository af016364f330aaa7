"""Scanning the annotation texts that the IR keeps verbatim (shardings, origins, metadata), to write them as protos."""

from __future__ import annotations

import re

from xyla.support.status import XylaError, unimplemented

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(
    r"\s*(?:(?P<string>\"(?:[^\"\\]|\\.)*\"|'[^']*')|(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<word>[A-Za-z_][\w.\-]*)|(?P<mark><=|[^\s\w]))",
    re.DOTALL,
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_SHOWN = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", ord('"'): '\\"', ord("'"): "\\'", ord("\\"): "\\\\"}


class Tokens:
    """The tokens of one annotation; `what` names it in errors, which are UNIMPLEMENTED: the text has no proto form."""

    def __init__(self, text: str, what: str) -> None:
        self._text = text
        self._what = what
        self._items = _scan(_COMMENT.sub(" ", text))
        self._at = 0

    def error(self, why: str) -> XylaError:
        """The text cannot be written as a proto."""
        shown = self._text if len(self._text) <= 80 else self._text[:80] + "..."
        return unimplemented(f"{self._what} {shown} cannot be written as a proto: {why}")

    @property
    def next(self) -> str:
        """The next token, "" at the end."""
        return self._items[self._at] if self._at < len(self._items) else ""

    def take(self) -> str:
        """The next token, consumed."""
        token = self.next
        self._at += 1
        return token

    def accept(self, token: str) -> bool:
        """Consumes `token` if it comes next."""
        if self.next != token:
            return False
        self._at += 1
        return True

    def expect(self, token: str) -> None:
        """Consumes `token`, or raises."""
        if not self.accept(token):
            raise self.error(f"expected {token!r} before {self.next!r}")

    def finish(self) -> None:
        """Raises unless all is consumed."""
        if self.next:
            raise self.error(f"unexpected {self.next!r}")

    def integer(self) -> int:
        """An integer that fits int64."""
        token = self.take()
        if not re.fullmatch(r"-?[0-9]{1,19}", token) or not -(2**63) <= int(token) < 2**63:
            raise self.error(f"expected an integer before {token!r}")
        return int(token)

    def number(self) -> float:
        """A decimal number."""
        token = self.take()
        if not re.fullmatch(r"-?[0-9.]+(?:[eE][+-]?[0-9]+)?", token):
            raise self.error(f"expected a number before {token!r}")
        return float(token)

    def group(self) -> str:
        """The text of a `{...}` group, braces included."""
        out = []
        depth = 0
        while True:
            token = self.take()
            depth += (token == "{") - (token == "}")
            out.append(token)
            if not token or depth <= 0:
                break
        if depth or len(out) < 2:
            raise self.error("expected a group in braces")
        return " ".join(out)

    def string(self) -> str:
        """A quoted string, unescaped."""
        token = self.take()
        if token[:1] not in ("'", '"'):
            raise self.error(f"expected a string before {token!r}")
        return token[1:-1] if token[0] == "'" else unescape(token[1:-1]).decode("utf-8", "replace")

    def integers(self, opening: str, closing: str) -> list[int]:
        """`[1,2]`, separated by commas."""
        self.expect(opening)
        out: list[int] = []
        while not self.accept(closing):
            if out:
                self.expect(",")
            out.append(self.integer())
        return out


def _scan(text: str) -> list[str]:
    items, pos, end = [], 0, len(text.rstrip())
    while pos < end:
        match = _TOKEN.match(text, pos)
        if match is None:
            break
        items.append(match.group(match.lastgroup or 0))
        pos = match.end()
    return items


def unescape(text: str) -> bytes:
    """The bytes of a C-escaped string (octal, hexadecimal and letter escapes)."""

    def one(match: re.Match[bytes]) -> bytes:
        octal, hexadecimal, letter = match.groups()
        if octal:
            return bytes([int(octal, 8) & 0xFF])
        if hexadecimal:
            return bytes([int(hexadecimal, 16)])
        return _LETTERS.get(letter, letter)

    return _ESCAPE.sub(one, text.encode("utf-8", "surrogateescape"))


def escape(data: bytes) -> str:
    """`data` as the inside of a quoted string: printable ASCII as it is, the rest in letters and octal."""
    return "".join(_SHOWN.get(b) or (chr(b) if 0x20 <= b < 0x7F else f"\\{b:03o}") for b in data)
