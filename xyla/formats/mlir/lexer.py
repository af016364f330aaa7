"""The lexer: one compiled expression, one token of look-ahead, and raw access to the text for opaque bodies.

Two kinds of token keep large programs cheap: a plain tensor type (`tensor<4x8xf32>`) and a dense constant
(`dense<...>`, payload included) are one token each, so a 64 MB hexadecimal payload is skipped by one character loop.
"""

from __future__ import annotations

import re
from typing import Final

from xyla.support.diagnostics import Source, Span
from xyla.support.status import XylaError, invalid

VALUE: Final = 1  # %x, %x#1
PUNCT: Final = 2
TENSOR: Final = 3  # tensor<4x8xf32>, all of it
DENSE: Final = 4  # dense<...>, all of it
NUMBER: Final = 5
WORD: Final = 6  # bare identifiers, dotted ones too
STRING: Final = 7
SYMBOL: Final = 8  # @x, @"x"
HASH: Final = 9  # #alias, #dialect.attr (not its body)
BANG: Final = 10  # !alias, !dialect.type (not its body)
CARET: Final = 11  # ^bb0
EOF: Final = 12
BAD: Final = 13

_STRING = r'"(?:[^"\\\n]++|\\.)*+"'
# `"0x...` is a hexadecimal payload: a plain scan for the quote runs at memory speed.
_HEX_STRING = r'"0x[^"]*+(?<!\\)"'

_TOKEN = re.compile(
    r"[ \t\r\n]*+(?://[^\n]*+[ \t\r\n]*+)*+(?:"
    r"(%(?:\d++|[A-Za-z_$.\-][\w$.\-]*+)(?:\#\d++)?)"
    r"|(->|::|\{-\#|[(){}\[\]<>,:=*+?/|])"
    r"|(tensor<[\w?]++(?:<f\d++>)?>)"
    rf'|(dense<(?:{_HEX_STRING}|[^">]*+)>)'
    r"|(-?(?:0x[0-9a-fA-F]++|\d++(?:\.\d*+(?:[eE][-+]?\d++)?)?))"
    r"|([A-Za-z_][\w$.]*+)"
    rf"|({_HEX_STRING}|{_STRING})"
    rf"|(@(?:[\w$.\-]++|{_STRING}))"
    r"|(\#[A-Za-z_\d][\w$.\-]*+)"
    r"|(![A-Za-z_][\w$.\-]*+)"
    r"|(\^[\w$.\-]++)"
    r"|(\Z)"
    r"|(.))",
    re.DOTALL,
)
_NESTING = re.compile(rf"[<>()\[\]{{}}]|->|{_STRING}")
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{2})|(.))", re.DOTALL)
_PAIRS = {"<": ">", "(": ")", "[": "]", "{": "}"}
_SIMPLE_ESCAPES = {"n": b"\n", "t": b"\t", '"': b'"', "\\": b"\\"}

# Deeper nesting of regions, attributes, types or locations is refused.
MAX_DEPTH = 500
# Integers beyond this many digits fit no MLIR type that we read.
_MAX_DIGITS = 80


class Lexer:
    """Holds the current token: `kind`, `tok` (its text), `start`, `end` (offsets)."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.kind = BAD
        self.tok = ""
        self.start = 0
        self.end = 0
        self.depth = 0
        self.advance()

    def advance(self) -> None:
        """Moves to the next token."""
        m = _TOKEN.match(self.text, self.end)
        assert m is not None
        assert m.lastindex is not None
        self.kind = kind = m.lastindex
        # A dense payload may be 100 MB: it is not copied here, `parse_dense` takes it from the text.
        self.tok = m[kind] if kind != DENSE else "dense<"
        self.start = m.start(kind)
        self.end = m.end()

    def seek(self, offset: int) -> None:
        """Makes the token at `offset` the current one."""
        self.end = offset
        self.advance()

    # -- expectations ------------------------------------------------------------------------------------------

    def at(self, tok: str) -> bool:
        """Whether the current token is exactly this punctuation or word."""
        return self.tok == tok and self.kind != EOF

    def accept(self, tok: str) -> bool:
        """Skips the token if it is `tok`."""
        if self.tok == tok:
            self.advance()
            return True
        return False

    def expect(self, tok: str, where: str = "") -> None:
        """Skips `tok`. Raises INVALID_ARGUMENT at the current token if it is anything else."""
        if self.tok != tok:
            raise self.expected(f"'{tok}'{' ' + where if where else ''}")
        self.advance()

    def take(self, kind: int, what: str) -> str:
        """Skips a token of `kind` and returns its text. Raises INVALID_ARGUMENT if it is of another kind."""
        if self.kind != kind:
            raise self.expected(what)
        tok = self.tok
        self.advance()
        return tok

    def take_int(self, what: str = "an integer") -> int:
        """Skips an integer and returns it."""
        if self.kind != NUMBER or "." in self.tok:
            raise self.expected(what)
        value = self.to_int(self.tok)
        self.advance()
        return value

    def to_int(self, text: str) -> int:
        """The value of a decimal or 0x integer. Raises INVALID_ARGUMENT when it is absurdly long."""
        if len(text) > _MAX_DIGITS:
            raise self.error(f"integer of {len(text)} digits is out of range")
        try:
            return int(text, 0) if "x" in text else int(text)
        except ValueError:
            raise self.error(f"expected an integer, found '{text}'") from None

    # -- errors ------------------------------------------------------------------------------------------------

    def error(self, message: str, start: int | None = None, hint: str | None = None) -> XylaError:
        """An INVALID_ARGUMENT error at `start` (default: the current token), to raise."""
        if start is None:
            start, end = self.start, max(self.end, self.start + 1)
        else:
            end = start + 1
        return invalid(message, span=Span(self.source, start, end), hint=hint)

    def expected(self, what: str) -> XylaError:
        """'expected X, found Y' at the current token, to raise."""
        if self.kind == EOF:
            found = "the end of the text"
        elif self.kind == BAD and self.tok == '"':
            found = "a string without an end"
        else:
            found = f"'{self.tok[:40]}'"
        return self.error(f"expected {what}, found {found}")

    def enter(self) -> None:
        """Counts one level of nesting; pair with `leave`. Raises INVALID_ARGUMENT past MAX_DEPTH."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"nesting is deeper than {MAX_DEPTH} levels")

    def leave(self) -> None:
        """Ends one level of nesting."""
        self.depth -= 1

    # -- raw text ----------------------------------------------------------------------------------------------

    def balanced(self, start: int) -> int:
        """The offset just past the bracket that closes the one at `start`; strings and `->` are stepped over."""
        stack = [_PAIRS[self.text[start]]]
        for m in _NESTING.finditer(self.text, start + 1):
            char = m[0]
            if char in _PAIRS:
                stack.append(_PAIRS[char])
            elif char == stack[-1]:
                stack.pop()
                if not stack:
                    return m.end()
            elif len(char) == 1:
                raise self.error(f"expected '{stack[-1]}', found '{char}'", m.start())
        raise self.error(f"'{self.text[start]}' is never closed", start)

    def raw_brackets(self) -> str:
        """Skips a bracketed body that starts at the current token and returns its text, brackets included."""
        if self.tok not in _PAIRS:
            raise self.expected("an opening bracket")
        start = self.start
        end = self.balanced(start)
        self.seek(end)
        return self.text[start:end]

    def unquote(self, literal: str, start: int) -> str:
        """The value of a string literal (quotes included); non-UTF-8 bytes become surrogate escapes."""
        body = literal[1:-1]
        if "\\" not in body:
            return body
        return self._unescape(body, start).decode("utf-8", "surrogateescape")

    def _unescape(self, body: str, start: int) -> bytes:
        out, last = bytearray(), 0
        for m in _ESCAPE.finditer(body):
            out += body[last : m.start()].encode("utf-8", "surrogatepass")
            last = m.end()
            if m[1]:
                out.append(int(m[1], 16))
            elif m[2] in _SIMPLE_ESCAPES:
                out += _SIMPLE_ESCAPES[m[2]]
            else:
                raise self.error(f"unknown escape '\\{m[2]}' in a string", start + 1 + m.start())
        return bytes(out + body[last:].encode("utf-8", "surrogatepass"))
