"""MLIR types: frozen values, compared structurally, printed as MLIR spells them.

Source: the MLIR language reference ("Type System", "Builtin Dialect types") and the StableHLO specification ("Types").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xyla.formats.mlir.attributes import Attribute

# The size of a `?` dimension.
DYNAMIC = -1


@dataclass(frozen=True, slots=True)
class Type:
    """Base of all types."""


@dataclass(frozen=True, slots=True)
class ScalarType(Type):
    """An integer or float type, by its MLIR spelling: i1, si8, ui32, f32, bf16, f8E4M3FN, tf32."""

    name: str

    @property
    def is_integer(self) -> bool:
        """Whether this is i<N>, si<N> or ui<N>."""
        return self.name.lstrip("su")[:1] == "i"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class IndexType(Type):
    """`index`."""

    def __str__(self) -> str:
        return "index"


@dataclass(frozen=True, slots=True)
class NoneType(Type):
    """`none`."""

    def __str__(self) -> str:
        return "none"


@dataclass(frozen=True, slots=True)
class ComplexType(Type):
    """`complex<f32>`."""

    element: Type

    def __str__(self) -> str:
        return f"complex<{self.element}>"


@dataclass(frozen=True, slots=True)
class TensorType(Type):
    """`tensor<2x?xf32, encoding>`; a `?` dimension is DYNAMIC."""

    dims: tuple[int, ...]
    element: Type
    encoding: Attribute | None = None

    @property
    def is_static(self) -> bool:
        """Whether no dimension is `?`."""
        return DYNAMIC not in self.dims

    def __str__(self) -> str:
        tail = f", {self.encoding}" if self.encoding is not None else ""
        return f"tensor<{_dims(self.dims)}{self.element}{tail}>"


@dataclass(frozen=True, slots=True)
class UnrankedTensorType(Type):
    """`tensor<*xf32>`."""

    element: Type

    def __str__(self) -> str:
        return f"tensor<*x{self.element}>"


@dataclass(frozen=True, slots=True)
class VectorType(Type):
    """`vector<4x[8]xf32>`; `scalable` has one flag a dimension."""

    dims: tuple[int, ...]
    element: Type
    scalable: tuple[bool, ...] = ()

    def __str__(self) -> str:
        flags = self.scalable or (False,) * len(self.dims)
        dims = "".join(f"[{d}]x" if s else f"{d}x" for d, s in zip(self.dims, flags, strict=True))
        return f"vector<{dims}{self.element}>"


@dataclass(frozen=True, slots=True)
class MemRefType(Type):
    """`memref<4x?xf32, layout, memory space>`; `dims` None when unranked."""

    dims: tuple[int, ...] | None
    element: Type
    layout: Attribute | None = None
    memory_space: Attribute | None = None

    def __str__(self) -> str:
        dims = "*x" if self.dims is None else _dims(self.dims)
        tail = "".join(f", {a}" for a in (self.layout, self.memory_space) if a is not None)
        return f"memref<{dims}{self.element}{tail}>"


@dataclass(frozen=True, slots=True)
class TupleType(Type):
    """`tuple<tensor<f32>, i32>`."""

    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.elements))}>"


@dataclass(frozen=True, slots=True)
class FunctionType(Type):
    """`(i32) -> (f32, f32)`."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]

    def __str__(self) -> str:
        results = ", ".join(map(str, self.results))
        if len(self.results) != 1 or isinstance(self.results[0], FunctionType):
            results = f"({results})"
        return f"({', '.join(map(str, self.inputs))}) -> {results}"


@dataclass(frozen=True, slots=True)
class DialectType(Type):
    """`!dialect.name<body>`, kept as text: `text` is all of it, from the `!` on."""

    text: str

    @property
    def head(self) -> str:
        """The part before the parameters: `quant.uniform`, `stablehlo.token`."""
        return self.text[1:].split("<", 1)[0]

    @property
    def body(self) -> str:
        """The text between the outermost angle brackets ("" if none)."""
        at = self.text.find("<")
        return self.text[at + 1 : -1] if at >= 0 else ""

    def __str__(self) -> str:
        return self.text


def _dims(dims: tuple[int, ...]) -> str:
    return "".join("?x" if d == DYNAMIC else f"{d}x" for d in dims)


INDEX = IndexType()
NONE = NoneType()
I1 = ScalarType("i1")
I32 = ScalarType("i32")
I64 = ScalarType("i64")
F32 = ScalarType("f32")
F64 = ScalarType("f64")
