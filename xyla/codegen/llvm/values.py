"""SSA values of the text writer: a name (or constant), a scalar LLVM type, a lane count."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

INT_BITS = {"i1": 1, "i2": 2, "i4": 4, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128}
FLOAT_BITS = {"half": 16, "float": 32, "double": 64}
# How an intrinsic's overload suffix spells a type: llvm.fma.v16f32, llvm.ctpop.i8, llvm.masked.load.v8i32.p0.
_MANGLE = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}


class Val:
    """One SSA value or constant.

    `text` is what an instruction writes ("%t7", "42", "splat (float 0x3FF0000000000000)"), `ty` the scalar LLVM type
    ("i32", "float", "ptr"), `lanes` the vector length; 1 means a scalar, so one emitter serves both.
    """

    __slots__ = ("lanes", "text", "ty")

    def __init__(self, text: str, ty: str, lanes: int = 1) -> None:
        self.text = text
        self.ty = ty
        self.lanes = lanes

    @property
    def type(self) -> str:
        """The full LLVM type: "float" or "<16 x float>"."""
        return llvm_type(self.ty, self.lanes)

    @property
    def typed(self) -> str:
        """Type and text, as an operand is written: "float %t3"."""
        return f"{llvm_type(self.ty, self.lanes)} {self.text}"

    def __repr__(self) -> str:
        return f"Val({self.typed})"


class Cx:
    """A complex value: two real values of one type. Complex numbers never exist as one LLVM value."""

    __slots__ = ("im", "re")

    def __init__(self, re: Val, im: Val) -> None:
        self.re = re
        self.im = im

    def __repr__(self) -> str:
        return f"Cx({self.re.typed}, {self.im.typed})"


Value = Val | Cx
Number = int | float | bool
Operand = Val | int | float | bool


def llvm_type(ty: str, lanes: int) -> str:
    """The LLVM spelling of a scalar or vector type."""
    return ty if lanes == 1 else f"<{lanes} x {ty}>"


def mangle(ty: str, lanes: int) -> str:
    """The overload suffix of a type in an intrinsic's name."""
    base = _MANGLE.get(ty, ty)
    return base if lanes == 1 else f"v{lanes}{base}"


def float_text(value: float, ty: str) -> str:
    """A floating constant in LLVM's exact hexadecimal form, rounded to `ty` first."""
    if ty == "half":
        return f"0xH{np.float16(value).view(np.uint16):04X}"
    if ty == "float":
        value = float(np.float32(value))
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def scalar_text(value: Number, ty: str) -> str:
    """The text of a scalar constant of type `ty`."""
    if ty in FLOAT_BITS:
        return float_text(float(value), ty)
    if ty == "i1":
        return "true" if value else "false"
    if ty == "ptr":
        return "null"
    bits = INT_BITS[ty]
    wrapped = int(value) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def constant(value: Number, ty: str, lanes: int = 1) -> Val:
    """A constant, splat over the lanes. Integers wrap to the type's width; floats round to it."""
    text = scalar_text(value, ty)
    return Val(text if lanes == 1 else f"splat ({ty} {text})", ty, lanes)


def vector_constant(values: Sequence[Number], ty: str) -> Val:
    """A vector constant with one value a lane (a scalar constant when there is one value)."""
    if len(values) == 1:
        return constant(values[0], ty)
    body = ", ".join(f"{ty} {scalar_text(v, ty)}" for v in values)
    return Val(f"<{body}>", ty, len(values))


def undef(ty: str, lanes: int = 1) -> Val:
    """A poison value."""
    return Val("poison", ty, lanes)
