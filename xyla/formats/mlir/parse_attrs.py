"""Reading attributes and locations."""

from __future__ import annotations

import re

from xyla.formats.mlir.attributes import (
    UNIT,
    AffineAttr,
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseAttr,
    DialectAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    LocationAttr,
    RawElementsAttr,
    StridedAttr,
    StringAttr,
    SymbolRef,
    TypeAttr,
)
from xyla.formats.mlir.ir import UNKNOWN, AliasLoc, CallSiteLoc, FileLoc, FusedLoc, Location, NameLoc
from xyla.formats.mlir.lexer import DENSE, HASH, NUMBER, STRING, SYMBOL, WORD
from xyla.formats.mlir.parse_types import TypeParser
from xyla.formats.mlir.types import F64, I64, IndexType, ScalarType, TensorType, Type

_ALIAS_LOC = re.compile(r"loc\(#([\w$.\-]+)\)")
_ARRAY_SPLIT = re.compile(r"[^\s,]+")


class AttrParser(TypeParser):
    """Types, plus attributes and locations."""

    def lookup_attr_alias(self, name: str) -> Attribute:
        """The attribute behind `#name`; defined by the module parser."""
        raise NotImplementedError

    def parse_attr(self) -> Attribute:
        """One attribute with its `: type` where it has one. Raises INVALID_ARGUMENT at what is none."""
        kind, tok = self.kind, self.tok
        if kind == NUMBER:
            return self._number()
        if kind == STRING:
            value = self.parse_string()
            return StringAttr(value, self.parse_type() if self.accept(":") else None)
        if kind == DENSE:
            return self.parse_dense()
        if kind == SYMBOL:
            return self.parse_symbol_ref()
        if kind == HASH:
            return self._hash()
        if tok == "[":
            return self._array()
        if tok == "{":
            return DictAttr(tuple(self.parse_dict().items()))
        if kind == WORD:
            return self._word_attr()
        if tok == "(" or self.at_type():
            return TypeAttr(self.parse_type())
        raise self.expected("an attribute")

    def parse_string(self) -> str:
        """A string literal's value."""
        if self.kind != STRING:
            raise self.expected("a string")
        value = self.unquote(self.tok, self.start)
        self.advance()
        return value

    def parse_symbol(self) -> str:
        """`@name` or `@"name"`: the bare name."""
        if self.kind != SYMBOL:
            raise self.expected("a symbol name")
        tok = self.tok[1:]
        name = self.unquote(tok, self.start + 1) if tok.startswith('"') else tok
        self.advance()
        return name

    def parse_symbol_ref(self) -> SymbolRef:
        """`@a::@b`."""
        root = self.parse_symbol()
        nested = []
        while self.accept("::"):
            nested.append(self.parse_symbol())
        return SymbolRef(root, tuple(nested))

    def parse_dense(self) -> DenseAttr:
        """`dense<...> : type`; the payload stays text until it is asked for."""
        start = self.start + len("dense<")
        # The digits may be 100 MB: they are cut out once, without the quotes around them.
        is_hex = self.text.startswith('"0x', start)
        body = self.text[start + 3 : self.end - 2] if is_hex else self.text[start : self.end - 1]
        self.advance()
        self.expect(":", "after a dense constant")
        return DenseAttr(body, self.parse_type(), start, is_hex)

    def parse_dict(self) -> dict[str, Attribute]:
        """`{key = attr, flag}`, current token `{`. Duplicate keys are refused."""
        self.expect("{")
        self.enter()
        entries: dict[str, Attribute] = {}
        while self.tok != "}":
            start = self.start
            key = self.parse_string() if self.kind == STRING else self.take(WORD, "an attribute name")
            if key in entries:
                raise self.error(f"attribute '{key}' is given twice", start)
            entries[key] = self.parse_attr() if self.accept("=") else UNIT
            if not self.accept(","):
                break
        self.leave()
        self.expect("}")
        return entries

    # -- parts -------------------------------------------------------------------------------------------------

    def _number(self) -> Attribute:
        start, tok = self.start, self.tok
        self.advance()
        type_ = self.parse_type() if self.accept(":") else None
        return self.number_attr(tok, type_, start)

    def number_attr(self, tok: str, type_: Type | None, start: int) -> Attribute:
        """The attribute of a number literal: hexadecimal for a float type means its bits."""
        if "." in tok:
            if type_ is not None and _is_integral(type_):
                raise self.error(f"{tok} is not an integer, but its type is {type_}", start)
            return FloatAttr(float(tok), type_ if type_ is not None else F64)
        value = self.to_int(tok)
        if type_ is None or _is_integral(type_):
            return IntegerAttr(value, type_ if type_ is not None else I64)
        if "0x" in tok:
            return FloatAttr(float("nan"), type_, value)
        raise self.error(f"'{tok}' needs a decimal point: its type is {type_}", start)

    def _array(self) -> ArrayAttr:
        self.expect("[")
        self.enter()
        items = []
        while self.tok != "]":
            items.append(self.parse_attr())
            if not self.accept(","):
                break
        self.leave()
        self.expect("]")
        return ArrayAttr(tuple(items))

    def _hash(self) -> Attribute:
        start, name = self.start, self.tok[1:]
        if self.text.startswith("<", self.end):
            end = self.balanced(self.end)
            self.seek(end)
            return DialectAttr(self.text[start:end])
        if "." not in name:
            found = self.lookup_attr_alias(name)
            self.advance()
            return found
        self.advance()
        return DialectAttr("#" + name)

    def _word_attr(self) -> Attribute:
        word = self.tok
        if word in ("true", "false"):
            self.advance()
            if self.accept(":"):
                self.parse_type()
            return BoolAttr(word == "true")
        if word == "unit":
            self.advance()
            return UNIT
        if word == "array":
            return self._dense_array()
        if word in ("affine_map", "affine_set", "strided"):
            start = self.start
            self.advance()
            end = self._raw_from(start)
            return (StridedAttr if word == "strided" else AffineAttr)(end)
        if word in ("dense_resource", "sparse", "dense"):
            start = self.start
            self.advance()
            text = self._raw_from(start)
            self.expect(":")
            return RawElementsAttr(text, self.parse_type())
        if word == "loc":
            return LocationAttr(str(self.parse_location()))
        return TypeAttr(self.parse_type())

    def _raw_from(self, start: int) -> str:
        """The text from `start` through the bracketed body at the current token."""
        self.raw_angle()
        return self.text[start : self._raw_end]

    def raw_angle(self) -> str:
        """Skips `<...>` at the current token and returns its text, brackets included."""
        if self.tok != "<":
            raise self.expected("'<'")
        start = self.start
        self._raw_end = self.balanced(start)
        self.seek(self._raw_end)
        return self.text[start : self._raw_end]

    def _dense_array(self) -> DenseArrayAttr:
        """`array<i64: 1, 2>`; read from the raw text in one go."""
        self.advance()
        if self.tok != "<":
            raise self.expected("'<'")
        self.advance()
        element = self.parse_type()
        if self.accept(">"):
            return DenseArrayAttr(element, ())
        if self.tok != ":":
            raise self.expected("':'")
        start = self.end
        stop = self.text.find(">", start)
        if stop < 0:
            raise self.error("'<' is never closed", start)
        words = _ARRAY_SPLIT.findall(self.text, start, stop)
        values = tuple(self._array_value(word, element, start) for word in words)
        self.seek(stop + 1)
        return DenseArrayAttr(element, values)

    def _array_value(self, word: str, element: Type, start: int) -> int | float:
        if word in ("true", "false"):
            return word == "true"
        try:
            if _is_integral(element):
                return self.to_int(word)
            return float(word)
        except ValueError:
            raise self.error(f"'{word[:40]}' is not a value of type {element}", start) from None

    # -- locations ---------------------------------------------------------------------------------------------

    def parse_optional_location(self) -> Location | None:
        """A trailing `loc(...)`, or None."""
        if self.tok != "loc":
            return None
        m = _ALIAS_LOC.match(self.text, self.start)
        if m is not None:
            self.seek(m.end())
            return AliasLoc(m[1])
        return self.parse_location()

    def parse_location(self) -> Location:
        """`loc(...)`."""
        self.expect("loc")
        self.expect("(")
        found = self._location()
        self.expect(")")
        return found

    def _location(self) -> Location:
        self.enter()
        found = self._location_body()
        self.leave()
        return found

    def _location_body(self) -> Location:
        if self.kind == HASH:
            if self.text.startswith("<", self.end):
                self._hash()
                return UNKNOWN
            return AliasLoc(self.take(HASH, "an alias")[1:])
        if self.kind == STRING:
            return self._named_location()
        word = self.take(WORD, "a location")
        if word == "unknown":
            return UNKNOWN
        if word == "callsite":
            self.expect("(")
            callee = self._location()
            self.expect("at")
            caller = self._location()
            self.expect(")")
            return CallSiteLoc(callee, caller)
        if word == "fused":
            return self._fused()
        if word == "loc":
            self.expect("(")
            found = self._location()
            self.expect(")")
            return found
        raise self.error(f"unknown kind of location '{word[:40]}'")

    def _named_location(self) -> Location:
        name = self.parse_string()
        if self.accept(":"):
            line = self.take_int("a line number")
            self.expect(":")
            col = self.take_int("a column")
            end = None
            if self.accept("to"):
                end_line = 0 if self.tok == ":" else self.take_int("a line number")
                self.expect(":")
                end = (end_line, self.take_int("a column"))
            return FileLoc(name, line, col, end)
        if self.accept("("):
            child = self._location()
            self.expect(")")
            return NameLoc(name, child)
        return NameLoc(name)

    def _fused(self) -> Location:
        metadata = None
        if self.accept("<"):
            metadata = self.parse_attr()
            self.expect(">")
        self.expect("[")
        parts = []
        while self.tok != "]":
            parts.append(self._location())
            if not self.accept(","):
                break
        self.expect("]")
        return FusedLoc(tuple(parts), metadata)


def _is_integral(type_: Type) -> bool:
    if isinstance(type_, ScalarType):
        return type_.is_integer
    return isinstance(type_, IndexType) or not isinstance(type_, ScalarType | TensorType)
