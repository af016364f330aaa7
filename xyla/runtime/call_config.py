"""The configuration that a program states with a custom call, as attributes.

HLO keeps it as text: a dictionary `{axis = 1 : i64, pads = array<i64: 1, 2>}` of the typed interface, or a string,
which may hold JSON. Source: the MLIR language reference ("Attributes"), XLA's custom-call documentation.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from xyla.runtime.call_types import Kind, Signature
from xyla.runtime.program import Attribute, CustomCallStep
from xyla.support.status import XylaError, invalid

MAX_DEPTH = 50
# The attribute under which a function that wants the configuration's text as it is asks for it.
CONFIG = "backend_config"
_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>[-+]?(?:0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))"""
    r"""|(?P<word>[A-Za-z_][\w.$]*)|(?P<mark>[{}\[\]<>=,:@#!()?*]|->))""",
    re.S,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "'": "'"}
_ESCAPE = re.compile(r"\\([0-7]{3}|[0-9A-Fa-f]{2}|.)", re.S)


def attributes_of_config(text: str) -> dict[str, Attribute] | None:
    """The attributes that a configuration states; None when it is a string without structure.

    Raises INVALID_ARGUMENT for a dictionary that does not end, or holds what is no attribute.
    """
    text = text.strip()
    if text.startswith('"'):
        text = unquoted(text).strip()
    if not text:
        return {}
    if not text.startswith("{"):
        return None
    try:
        return {str(k): _of_json(v) for k, v in json.loads(text).items()}
    except ValueError:
        return _Reader(text).whole()


def attributes_in(config: str, signature: Signature, step: CustomCallStep) -> dict[str, Attribute]:
    """The attributes that a call's configuration states, for a function with this signature.

    Raises INVALID_ARGUMENT when the text has no structure and the function does not ask for it as it is.
    """
    wanted = signature.attributes
    as_text = wanted is not None and CONFIG in wanted and wanted[CONFIG].kind is Kind.STRING
    if as_text or wanted is None:
        found = None if as_text else attributes_of_config(config)
        if found is None or not config:
            return {CONFIG: unquoted(config)} if config or as_text else {}
        return found
    stated = attributes_of_config(config)
    if stated is None:
        raise invalid(f"%{step.name}: {step.target} takes attributes, but the configuration is {config[:60]}")
    return stated


def unquoted(text: str) -> str:
    """The value of a string literal (octal and hexadecimal escapes are bytes of UTF-8); other text as it is."""
    if len(text) < 2 or not (text.startswith('"') and text.endswith('"')):
        return text
    return _ESCAPE.sub(_escape, text[1:-1])


def _escape(match: re.Match[str]) -> str:
    body = match[1]
    if len(body) == 1:
        return _ESCAPES.get(body, body)
    return chr(int(body, 8 if len(body) == 3 else 16))


def _of_json(value: Any) -> Attribute:
    if isinstance(value, dict):
        return {str(k): _of_json(v) for k, v in value.items()}
    if isinstance(value, list):
        return tuple(_of_json(v) for v in value)
    if isinstance(value, bool | int | float | str):
        return value
    raise invalid(f"the configuration holds {json.dumps(value)}, which is no attribute")


class _Reader:
    """One dictionary being read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self.kind, self.token = "", ""
        self._advance()

    def whole(self) -> dict[str, Attribute]:
        found = self._dictionary()
        if self.kind:
            raise self._error("the end")
        return found

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            rest = self._text[self._at :].strip()
            if rest:
                raise invalid(f"the configuration has {rest[:20]!r}, which is no attribute")
            self.kind, self.token = "", ""
            return
        self._at = match.end()
        self.kind, self.token = str(match.lastgroup), match[str(match.lastgroup)]

    def _error(self, wanted: str) -> XylaError:
        return invalid(f"the configuration has {self.token or 'its end'!r}, expected {wanted}: {self._text[:60]}")

    def _accept(self, token: str) -> bool:
        if self.token != token or self.kind == "string":
            return False
        self._advance()
        return True

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise self._error(repr(token))

    def _dictionary(self) -> dict[str, Attribute]:
        self._expect("{")
        found: dict[str, Attribute] = {}
        while self.token != "}" or self.kind == "string":
            if self.kind not in ("word", "string"):
                raise self._error("a name")
            name = unquoted(self.token)
            self._advance()
            found[name] = self._value() if self._accept("=") else True
            if not self._accept(","):
                break
        self._expect("}")
        return found

    def _value(self) -> Attribute:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise invalid(f"the configuration is nested more than {MAX_DEPTH} deep")
        value = self._plain()
        self._depth -= 1
        type_ = self._type() if self._accept(":") else ""
        if isinstance(value, int) and not isinstance(value, bool) and type_.startswith(("f", "bf")):
            return float(value)
        return value

    def _plain(self) -> Attribute:
        token, kind = self.token, self.kind
        if kind == "string":
            self._advance()
            return unquoted(token)
        if kind == "number":
            self._advance()
            return _number(token)
        if token == "{":
            return self._dictionary()
        if token == "[":
            return self._list("[", "]")
        if token in ("true", "false"):
            self._advance()
            return token == "true"
        if token == "unit":
            self._advance()
            return True
        if token == "array":
            return self._array()
        if token == "dense":
            return self._dense()
        raise self._error("an attribute")

    def _list(self, opening: str, closing: str) -> tuple[Attribute, ...]:
        self._expect(opening)
        values: list[Attribute] = []
        while self.token != closing or self.kind == "string":
            values.append(self._value())
            if not self._accept(","):
                break
        self._expect(closing)
        return tuple(values)

    def _array(self) -> tuple[Attribute, ...]:
        """`array<i64: 1, 2>`."""
        self._advance()
        self._expect("<")
        element = self._type()
        values = self._numbers(">") if self._accept(":") else ()
        self._expect(">")
        return _typed(values, element)

    def _dense(self) -> Attribute:
        """`dense<[1, 2]> : tensor<2xi64>`, of one dimension or none."""
        self._advance()
        self._expect("<")
        single = self.token != "["
        values = self._numbers(">") if single else self._list("[", "]")
        self._expect(">")
        self._expect(":")
        type_ = self._type()
        sized = re.fullmatch(r"tensor<(?:(\d+)x)?([a-z]\w*)>", type_)
        if sized is None:
            raise invalid(f"a configuration's tensor has one dimension at most, not the type {type_}")
        if sized[1] is None:
            return _typed(values, sized[2])[0]
        count = int(sized[1])
        if count > 1 << 20:
            raise invalid(f"a tensor of {count} elements in a configuration")
        return _typed(values * count if single and len(values) == 1 else values, sized[2])

    def _numbers(self, closing: str) -> tuple[Attribute, ...]:
        values: list[Attribute] = []
        while self.token != closing:
            values.append(self._plain())
            if not self._accept(","):
                break
        return tuple(values)

    def _type(self) -> str:
        """A type's text: a word, with what stands in its angle brackets."""
        if self.kind != "word":
            raise self._error("a type")
        start = self._at - len(self.token)
        self._advance()
        if self.token != "<":
            return self._text[start : self._at - len(self.token)].strip() if self.kind else self._text[start:].strip()
        end = self._text.find(">", self._at)
        if end < 0:
            raise self._error("'>'")
        text = self._text[start : end + 1]
        self._at = end + 1
        self._advance()
        return text


def _typed(values: tuple[Attribute, ...], element: str) -> tuple[Attribute, ...]:
    if element.startswith(("f", "bf")):
        return tuple(float(v) for v in values if isinstance(v, int | float))
    return values


def _number(token: str) -> int | float:
    if token.lower().lstrip("+-").startswith("0x"):
        return int(token, 16)
    if re.fullmatch(r"[-+]?\d+", token):
        return int(token)
    return float(np.float64(token))
