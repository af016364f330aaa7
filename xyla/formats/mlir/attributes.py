"""MLIR attributes: typed frozen records, printed as MLIR spells them. Dense payloads are decoded on demand (dense.py).

Source: the MLIR language reference ("Attributes", "Builtin Dialect attributes").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xyla.formats.mlir.types import FunctionType, ScalarType, Type


@dataclass(frozen=True, slots=True)
class Attribute:
    """Base of all attributes."""


@dataclass(frozen=True, slots=True)
class UnitAttr(Attribute):
    """`unit`, and a dictionary entry without a value."""

    def __str__(self) -> str:
        return "unit"


@dataclass(frozen=True, slots=True)
class BoolAttr(Attribute):
    """`true`, `false`."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True, slots=True)
class IntegerAttr(Attribute):
    """`3 : i32`; without a type MLIR means i64."""

    value: int
    type: Type

    def __str__(self) -> str:
        return f"{self.value} : {self.type}"


@dataclass(frozen=True, slots=True)
class FloatAttr(Attribute):
    """`1.5 : f32`. `bits` is the raw pattern when the text was hexadecimal (`value` is then NaN until decoded)."""

    value: float
    type: Type
    bits: int | None = None

    def __str__(self) -> str:
        if self.bits is not None:
            return f"{self.bits:#X} : {self.type}".replace("0X", "0x")
        return f"{float_text(self.value)} : {self.type}"


@dataclass(frozen=True, slots=True)
class StringAttr(Attribute):
    """A string; bytes outside UTF-8 are kept with `surrogateescape`. `type` for a typed string (`"x" : i32`)."""

    value: str
    type: Type | None = None

    def __str__(self) -> str:
        return quote(self.value) + (f" : {self.type}" if self.type is not None else "")


@dataclass(frozen=True, slots=True)
class ArrayAttr(Attribute):
    """`[a, b]`."""

    items: tuple[Attribute, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True, slots=True)
class DictAttr(Attribute):
    """`{a = 1 : i32, flag}`: entries in source order."""

    entries: tuple[tuple[str, Attribute], ...]

    def get(self, key: str) -> Attribute | None:
        """The value under `key`, or None."""
        return next((v for k, v in self.entries if k == key), None)

    def __str__(self) -> str:
        return "{" + dict_body(self.entries) + "}"


@dataclass(frozen=True, slots=True)
class DenseArrayAttr(Attribute):
    """`array<i64: 1, 2>`: values are int, bool or float by the element type."""

    element: Type
    values: tuple[int | float, ...]

    def __str__(self) -> str:
        if not self.values:
            return f"array<{self.element}>"
        boolean = self.element == ScalarType("i1")
        texts = (
            ("true" if v else "false") if boolean else str(v) if isinstance(v, int) else float_text(v)
            for v in self.values
        )
        return f"array<{self.element}: {', '.join(texts)}>"


@dataclass(frozen=True, slots=True)
class DenseAttr(Attribute):
    """`dense<body> : type`. `body` is the text between the brackets; `start` its offset in the source, for errors.

    `hex`: the constant was written `dense<"0x...">` and `body` is the digits alone. Decode with `dense.decode`.
    """

    body: str
    type: Type
    start: int = -1
    hex: bool = False

    def __str__(self) -> str:
        body = f'"0x{self.body}"' if self.hex else self.body
        return f"dense<{body}> : {self.type}"


@dataclass(frozen=True, slots=True)
class RawElementsAttr(Attribute):
    """`dense_resource<...>`, `sparse<...>` with their type: kept as text."""

    text: str
    type: Type

    def __str__(self) -> str:
        return f"{self.text} : {self.type}"


@dataclass(frozen=True, slots=True)
class SymbolRef(Attribute):
    """`@main`, `@outer::@inner`."""

    root: str
    nested: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "::".join(symbol(name) for name in (self.root, *self.nested))


@dataclass(frozen=True, slots=True)
class TypeAttr(Attribute):
    """A type used as an attribute."""

    type: Type

    def __str__(self) -> str:
        return str(self.type)


@dataclass(frozen=True, slots=True)
class AffineAttr(Attribute):
    """`affine_map<...>`, `affine_set<...>`: kept as text."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class StridedAttr(Attribute):
    """`strided<[4, 1], offset: 2>`, a memref layout: kept as text."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class LocationAttr(Attribute):
    """`loc(...)` used as an attribute: `text` is what stands between the parentheses."""

    text: str

    def __str__(self) -> str:
        return f"loc({self.text})"


@dataclass(frozen=True, slots=True)
class DialectAttr(Attribute):
    """`#dialect.name<body>` or `#dialect<name body>`, kept as text from the `#` on."""

    text: str

    @property
    def head(self) -> str:
        """`dialect.name`, whichever of the two spellings the text uses."""
        head, _, body = self.text[1:].partition("<")
        if "." in head or not body:
            return head
        return f"{head}.{body[:-1].strip().split(' ', 1)[0].split('<', 1)[0]}"

    @property
    def body(self) -> str:
        """The parameters: what follows the name, without the brackets."""
        head, _, body = self.text[1:].partition("<")
        body = body[:-1]
        if "." in head:
            return body
        rest = body.strip()[len(self.head) - len(head) - 1 :].strip()
        return rest[1:-1] if rest.startswith("<") else rest

    def __str__(self) -> str:
        return self.text


def float_text(value: float) -> str:
    """The shortest decimal that reads back as `value`, with the point that MLIR requires."""
    if math.isnan(value) or math.isinf(value):
        import struct

        return "0x" + struct.pack(">d", value).hex().upper()
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    return text if "." in mantissa else f"{mantissa}.0{e}{exponent}"


def quote(value: str) -> str:
    """A string as MLIR prints it: printable ASCII as is, all else as \\XX bytes."""
    out = []
    for byte in value.encode("utf-8", "surrogateescape"):
        char = chr(byte)
        if char == "\\":
            out.append("\\\\")
        elif char == '"' or not 32 <= byte < 127:
            out.append(f"\\{byte:02X}")
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def symbol(name: str) -> str:
    """`@name`, quoted when it is not a bare identifier."""
    return f"@{name}" if is_bare_id(name) else f"@{quote(name)}"


def is_bare_id(name: str) -> bool:
    """Whether `name` needs no quotes: a letter or `_`, then letters, digits, `_`, `$`, `.`."""
    head_ok = bool(name) and (name[0].isalpha() or name[0] == "_")
    return head_ok and name.isascii() and all(c.isalnum() or c in "_$." for c in name)


def dict_body(entries: tuple[tuple[str, Attribute], ...]) -> str:
    """`a = 1 : i32, flag`."""
    parts = []
    for key, value in entries:
        name = key if is_bare_id(key) else quote(key)
        parts.append(name if isinstance(value, UnitAttr) else f"{name} = {value}")
    return ", ".join(parts)


def function_type_attr(inputs: tuple[Type, ...], results: tuple[Type, ...]) -> TypeAttr:
    """The `function_type` attribute of a function."""
    return TypeAttr(FunctionType(inputs, results))


UNIT = UnitAttr()
