"""Rules for the transcendental functions, real and complex."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xyla.codegen.elements_table import ELEMENT, Site, by_kind
from xyla.codegen.llvm import Builder, Cx, Val, Value
from xyla.codegen.math import complex_math, exponential, special, trigonometric
from xyla.hlo import ops
from xyla.hlo.op_def import OpDef


def _register(
    op: OpDef[Any],
    real: Callable[..., Val],
    cplx: Callable[[Builder, Cx], Cx] | Callable[[Builder, Cx, Cx], Cx] | None = None,
) -> None:
    def rule(b: Builder, s: Site, *args: Value) -> Value:
        return by_kind(b, s, args, real=real, cplx=cplx)

    rule.__doc__ = real.__doc__
    ELEMENT.rule(op)(rule)


_register(ops.EXP, exponential.exp, complex_math.exp)
_register(ops.EXPM1, exponential.expm1, complex_math.expm1)
_register(ops.LOG, exponential.log, complex_math.log)
_register(ops.LOG1P, exponential.log1p, complex_math.log1p)
_register(ops.LOGISTIC, exponential.logistic, complex_math.logistic)
_register(ops.TANH, exponential.tanh, complex_math.tanh)
_register(ops.SINH, exponential.sinh, complex_math.sinh)
_register(ops.COSH, exponential.cosh, complex_math.cosh)
_register(ops.ASINH, exponential.asinh, complex_math.asinh)
_register(ops.ACOSH, exponential.acosh, complex_math.acosh)
_register(ops.ATANH, exponential.atanh, complex_math.atanh)
_register(ops.SINE, trigonometric.sin, complex_math.sine)
_register(ops.COSINE, trigonometric.cos, complex_math.cos)
_register(ops.TAN, trigonometric.tan, complex_math.tan)
_register(ops.ATAN2, trigonometric.atan2, complex_math.atan2)
_register(ops.ASIN, trigonometric.asin, complex_math.asin)
_register(ops.ACOS, trigonometric.acos, complex_math.acos)
_register(ops.SQRT, lambda b, x: b.sqrt(x), complex_math.sqrt)
_register(ops.RSQRT, special.rsqrt, complex_math.rsqrt)
_register(ops.CBRT, special.cbrt, complex_math.cbrt)
_register(ops.ERF, special.erf)
