"""Reading types: `tensor<2x?xf32, #enc>`, `memref<...>`, `(i32) -> f32`, `!dialect.type<...>`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xyla.formats.mlir.lexer import BANG, EOF, NUMBER, TENSOR, WORD, Lexer
from xyla.formats.mlir.types import (
    DYNAMIC,
    INDEX,
    NONE,
    ComplexType,
    DialectType,
    FunctionType,
    MemRefType,
    ScalarType,
    TensorType,
    TupleType,
    Type,
    UnrankedTensorType,
    VectorType,
)
from xyla.support.diagnostics import Source, did_you_mean

if TYPE_CHECKING:
    from xyla.formats.mlir.attributes import Attribute

_SCALAR = re.compile(r"(?:[su]?i([1-9]\d{0,7})|bf16|tf32|f(?:16|32|64|80|128)|f\d{1,2}E\d{1,2}M\d{1,2}\w{0,8})\Z")
_DIMS = re.compile(r"\s*((?:(?:\d+|\?)\s*x\s*)*)")
_VECTOR_DIMS = re.compile(r"\s*((?:(?:\d+|\[\s*\d+\s*\])\s*x\s*)*)")
_UNRANKED = re.compile(r"\s*\*\s*x")
_PLAIN_TENSOR = re.compile(r"tensor<((?:(?:\d+|\?)x)*)([a-zA-Z]\w*(?:<f\d+>)?)>\Z")
_MAX_DIM = 2**63 - 1
_WORDS = ("tensor", "vector", "memref", "tuple", "complex", "index", "none", "f32", "i32")


class TypeParser(Lexer):
    """The lexer, plus types. Aliases are resolved by the subclass that reads definitions."""

    def __init__(self, source: Source) -> None:
        self._plain: dict[str, TensorType] = {}
        self.type_aliases: dict[str, Type] = {}
        super().__init__(source)

    def parse_type(self) -> Type:
        """One type. Raises INVALID_ARGUMENT at what is not a type."""
        if self.kind == TENSOR:
            found = self._plain.get(self.tok)
            if found is not None:
                self.advance()
                return found
            return self._plain_tensor()
        if self.kind == WORD:
            return self._word_type()
        if self.kind == BANG:
            return self._dialect_type()
        if self.tok == "(":
            return self.parse_function_type()
        raise self.expected("a type")

    def parse_type_list(self) -> list[Type]:
        """`T, T`: at least one type."""
        types = [self.parse_type()]
        while self.accept(","):
            types.append(self.parse_type())
        return types

    def parse_paren_types(self) -> list[Type]:
        """`(T, T)`, possibly empty."""
        self.expect("(")
        types: list[Type] = []
        if self.tok != ")":
            types = self.parse_type_list()
        self.expect(")")
        return types

    def parse_function_type(self) -> FunctionType:
        """`(T, T) -> T` or `(T) -> (T, T)`."""
        self.enter()
        inputs = self.parse_paren_types()
        self.expect("->")
        results = self.parse_results()
        self.leave()
        return FunctionType(tuple(inputs), tuple(results))

    def parse_results(self) -> list[Type]:
        """What follows `->`: one type or a parenthesised list."""
        return self.parse_paren_types() if self.tok == "(" else [self.parse_type()]

    def parse_attr(self) -> Attribute:
        """An attribute; defined by the attribute parser (tensor encodings and memref layouts need it)."""
        raise NotImplementedError

    def lookup_type_alias(self, name: str) -> Type:
        """The type behind `!name`; defined by the module parser."""
        raise NotImplementedError

    # -- parts -------------------------------------------------------------------------------------------------

    def _plain_tensor(self) -> TensorType:
        m = _PLAIN_TENSOR.match(self.tok)
        element: Type
        if m is None:
            raise self.error(f"'{self.tok[:60]}' is not a tensor type")
        name = m[2]
        if name.startswith("complex<"):
            element = ComplexType(self._scalar(name[8:-1]))
        else:
            element = self._scalar(name)
        found = TensorType(self._dims(m[1]), element)
        self._plain[self.tok] = found
        self.advance()
        return found

    def _dims(self, text: str) -> tuple[int, ...]:
        """Sizes from `4x?x`."""
        out = []
        for part in text.split("x")[:-1]:
            part = part.strip()
            size = DYNAMIC if part == "?" else self.to_int(part)
            if size > _MAX_DIM:
                raise self.error(f"dimension {part} does not fit 64 bits")
            out.append(size)
        return tuple(out)

    def _scalar(self, name: str) -> Type:
        if name == "index":
            return INDEX
        if name == "none":
            return NONE
        if _SCALAR.match(name) is None:
            near = did_you_mean(name, _WORDS)
            hint = f"did you mean '{near}'?" if near else None
            raise self.error(f"'{name[:40]}' is not a type", hint=hint)
        return ScalarType(name)

    def _word_type(self) -> Type:
        word = self.tok
        if word == "tensor":
            return self._tensor()
        if word == "memref":
            return self._memref()
        if word == "vector":
            return self._vector()
        if word == "complex":
            return self._complex()
        if word == "tuple":
            return self._tuple()
        found = self._scalar(word)
        self.advance()
        return found

    def _open(self) -> None:
        """Steps to the `<` after the current word, leaving the text just past it unread."""
        self.advance()
        if self.tok != "<":
            raise self.expected("'<'")
        self.enter()

    def _close(self) -> None:
        self.leave()
        self.expect(">")

    def _read_dims(self) -> tuple[int, ...] | None:
        """Dimensions just past `<` (None: `*x`); the token after them becomes current."""
        m = _UNRANKED.match(self.text, self.end)
        if m is not None:
            self.seek(m.end())
            return None
        m = _DIMS.match(self.text, self.end)
        assert m is not None
        dims = self._dims(m[1])
        self.seek(m.end())
        return dims

    def _tensor(self) -> Type:
        self._open()
        dims = self._read_dims()
        element = self.parse_type()
        encoding = self.parse_attr() if self.accept(",") else None
        self._close()
        if dims is None:
            return UnrankedTensorType(element)
        return TensorType(dims, element, encoding)

    def _memref(self) -> Type:
        self._open()
        dims = self._read_dims()
        element = self.parse_type()
        extras = []
        while self.accept(","):
            extras.append(self.parse_attr())
        self._close()
        if len(extras) > 2:
            raise self.error("a memref has at most a layout and a memory space")
        if len(extras) == 2:
            return MemRefType(dims, element, extras[0], extras[1])
        if extras and is_layout(extras[0]):
            return MemRefType(dims, element, extras[0])
        return MemRefType(dims, element, None, extras[0] if extras else None)

    def _vector(self) -> Type:
        self._open()
        m = _VECTOR_DIMS.match(self.text, self.end)
        assert m is not None
        parts = [p.strip() for p in m[1].split("x")[:-1]]
        self.seek(m.end())
        element = self.parse_type()
        self._close()
        scalable = tuple(p.startswith("[") for p in parts)
        dims = tuple(self.to_int(p.strip("[] ")) for p in parts)
        return VectorType(dims, element, scalable if any(scalable) else ())

    def _complex(self) -> Type:
        self._open()
        self.advance()
        element = self.parse_type()
        self._close()
        return ComplexType(element)

    def _tuple(self) -> Type:
        self._open()
        self.advance()
        elements: list[Type] = []
        if self.tok != ">":
            elements = self.parse_type_list()
        self._close()
        return TupleType(tuple(elements))

    def _dialect_type(self) -> Type:
        start, name = self.start, self.tok[1:]
        if self.text.startswith("<", self.end):
            end = self.balanced(self.end)
            self.seek(end)
            return DialectType(self.text[start:end])
        if "." not in name:
            found = self.lookup_type_alias(name)
            self.advance()
            return found
        self.advance()
        return DialectType("!" + name)

    def at_type(self) -> bool:
        """Whether the current token can start a type."""
        if self.kind in (TENSOR, BANG):
            return True
        if self.kind != WORD:
            return False
        return self.tok in _WORDS or _SCALAR.match(self.tok) is not None

    def at_end(self) -> bool:
        """Whether the text is used up."""
        return self.kind == EOF

    def at_number(self) -> bool:
        """Whether the current token is a number."""
        return self.kind == NUMBER


def is_layout(attr: Attribute) -> bool:
    """Whether a lone memref parameter is a layout (a map or strides) rather than a memory space."""
    from xyla.formats.mlir.attributes import AffineAttr, StridedAttr

    return isinstance(attr, AffineAttr | StridedAttr)
