"""Arithmetic in narrow floats runs in a wider type, and mixed precision is resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo.module import Instruction, Module
from xyla.passes.element_type_converter import convert_types, type_map
from xyla.passes.retyping import is_arithmetic
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext


@dataclass(frozen=True, slots=True)
class _FloatNormalization(Pass):
    """Computes in `high` what is written in a narrow float, reductions included; a result rounds once, at the op's end.

    Ops named in `supported` (comma-separated opcodes, e.g. of a target that has bf16 dots) stay as they are.

        ROOT r = bf16[4] reduce(bf16[4,99] x, z), dimensions={1}, to_apply=add
          ==>  s = f32[4] reduce(convert(x), convert(z)), dimensions={1}, to_apply=add_f32
               ROOT t = bf16[4] convert(s)
    """

    low: ClassVar[str] = ""
    high: str = "f32"
    supported: str = ""

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Each instruction once."""
        kept = {word.strip() for word in self.supported.split(",")}

        def wanted(inst: Instruction) -> bool:
            return inst.op.name not in kept and is_arithmetic(inst)

        return convert_types(module, ctx, type_map(self.low, self.high), wanted)


@register
@dataclass(frozen=True, slots=True)
class FloatNormalizationBf16(_FloatNormalization):
    """Float normalisation of bf16: see `float-normalization-*`, e.g. add(bf16) ==> convert(add(f32))."""

    name: ClassVar[str] = "float-normalization-bf16"
    low: ClassVar[str] = "bf16"


@register
@dataclass(frozen=True, slots=True)
class FloatNormalizationF16(_FloatNormalization):
    """Float normalisation of f16, e.g. add(f16) ==> convert(add(f32))."""

    name: ClassVar[str] = "float-normalization-f16"
    low: ClassVar[str] = "f16"


@register
@dataclass(frozen=True, slots=True)
class FloatNormalizationF8E5M2(_FloatNormalization):
    """Float normalisation of f8e5m2, by default to f16."""

    name: ClassVar[str] = "float-normalization-f8e5m2"
    low: ClassVar[str] = "f8e5m2"
    high: str = "f16"


@register
@dataclass(frozen=True, slots=True)
class FloatNormalizationF8E4M3Fn(_FloatNormalization):
    """Float normalisation of f8e4m3fn, by default to f16."""

    name: ClassVar[str] = "float-normalization-f8e4m3fn"
    low: ClassVar[str] = "f8e4m3fn"
    high: str = "f16"


@register
@dataclass(frozen=True, slots=True)
class FloatNormalizationF8E4M3(_FloatNormalization):
    """Float normalisation of f8e4m3, by default to f16."""

    name: ClassVar[str] = "float-normalization-f8e4m3"
    low: ClassVar[str] = "f8e4m3"
    high: str = "f16"


@register
@dataclass(frozen=True, slots=True)
class FloatNormalizationF8E3M4(_FloatNormalization):
    """Float normalisation of f8e3m4, by default to f16."""

    name: ClassVar[str] = "float-normalization-f8e3m4"
    low: ClassVar[str] = "f8e3m4"
    high: str = "f16"


@register
@dataclass(frozen=True, slots=True)
class FloatNormalizationF4E2M1Fn(_FloatNormalization):
    """Float normalisation of f4e2m1fn, by default to f16."""

    name: ClassVar[str] = "float-normalization-f4e2m1fn"
    low: ClassVar[str] = "f4e2m1fn"
    high: str = "f16"


@register
@dataclass(frozen=True, slots=True)
class FloatNormalizationF8E8M0Fnu(_FloatNormalization):
    """Float normalisation of f8e8m0fnu (powers of two), by default to f32."""

    name: ClassVar[str] = "float-normalization-f8e8m0fnu"
    low: ClassVar[str] = "f8e8m0fnu"
