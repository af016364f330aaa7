"""Element-wise opcodes. Each rule picks the arithmetic by element type once; kernels broadcast as NumPy does.

Spec: XLA operation semantics ("Element-wise unary functions", "... binary ...", Clamp, Select, ConvertElementType).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection, ComparisonType
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.interp import integer, math_complex, math_real
from xyla.interp.extrema import MAXIMUM, MINIMUM
from xyla.interp.mixed import common_type
from xyla.interp.numeric import bitcast_convert, convert, narrow, total_order_key, widen
from xyla.interp.session import Session
from xyla.interp.table import EVAL, Array, Kernel
from xyla.support.dtypes import F64, PRED, ElementType
from xyla.support.status import unimplemented

_Fn = Callable[..., Any]


def type_of(inst: Instruction, operand: int = 0) -> ElementType:
    """Element type of an operand, or the type in which a mixed-precision instruction computes."""
    return common_type(inst) or inst.operands[operand].shape.element_type


def _in_compute_type(fn: _Fn, et: ElementType) -> Kernel:
    """fn on widened operands, narrowed once; fn itself when `et` computes natively."""
    if widen(np.zeros((), et.np), et).dtype == et.np:
        return fn
    return lambda *xs: narrow(np.asarray(fn(*[widen(x, et) for x in xs])), et)


def _refuse(inst: Instruction, et: ElementType) -> Exception:
    return unimplemented(f"{inst.op.name} is not defined for {et}", span=inst.span)


# -- unary ---------------------------------------------------------------------------------------------------------


@EVAL.rule(
    ops.ACOS, ops.ACOSH, ops.ASIN, ops.ASINH, ops.ATANH, ops.CBRT, ops.COSH, ops.COSINE, ops.ERF, ops.EXP, ops.EXPM1,
    ops.LOG, ops.LOG1P, ops.LOGISTIC, ops.RSQRT, ops.SINE, ops.SINH, ops.TAN, ops.TANH,
)  # fmt: skip
def _math(inst: Instruction, session: Session) -> Kernel:
    et, name = type_of(inst), inst.op.name
    if et.is_complex and name in math_complex.COMPLEX:
        fn = math_complex.COMPLEX[name]
        return lambda x: math_complex.apply_wide(fn, et, x)
    if not et.is_float:
        raise _refuse(inst, et)
    fn = math_real.REAL[name]
    return lambda x: math_real.apply_wide(fn, et, x)


@EVAL.rule(ops.SQRT)
def _sqrt(inst: Instruction, session: Session) -> Kernel:
    et = type_of(inst)
    if et.is_complex:
        return lambda x: math_complex.apply_wide(np.sqrt, et, x)
    return _in_compute_type(np.sqrt, et)


def _unary(op: OpDef[Any], real: _Fn | None, integer_fn: _Fn | None) -> None:
    @EVAL.rule(op)
    def rule(inst: Instruction, session: Session) -> Kernel:
        et = type_of(inst)
        fn = real if et.is_float else integer_fn if et.is_integer else None
        if fn is None:
            raise _refuse(inst, et)
        return _in_compute_type(fn, et)


def _afz(x: Array) -> Array:
    return math_real.round_afz(np.asarray(x))


_unary(ops.CEIL, np.ceil, np.asarray)
_unary(ops.FLOOR, np.floor, np.asarray)
_unary(ops.ROUND_AFZ, _afz, np.asarray)
_unary(ops.ROUND_EVEN, np.rint, np.asarray)


@EVAL.rule(ops.ABS)
def _abs(inst: Instruction, session: Session) -> Kernel:
    et = type_of(inst)
    if et.is_complex:
        return lambda x: math_complex.apply_wide(math_complex.magnitude, et, x)
    return _in_compute_type(np.abs, et)


@EVAL.rule(ops.SIGN)
def _sign(inst: Instruction, session: Session) -> Kernel:
    et = type_of(inst)
    if et.is_complex:
        return lambda x: math_complex.sign(np.asarray(x))
    return _in_compute_type(lambda x: math_real.sign(np.asarray(x)) if et.is_float else np.sign(x), et)


@EVAL.rule(ops.NEGATE)
def _negate(inst: Instruction, session: Session) -> Kernel:
    et = type_of(inst)
    return np.asarray if et is PRED else _in_compute_type(np.negative, et)


@EVAL.rule(ops.NOT)
def _not(inst: Instruction, session: Session) -> Kernel:
    et = type_of(inst)
    return np.logical_not if et is PRED else _in_compute_type(np.invert, et)


@EVAL.rule(ops.POPCNT, ops.CLZ)
def _bit_counts(inst: Instruction, session: Session) -> Kernel:
    et = type_of(inst)
    fn = integer.popcount if inst.op is ops.POPCNT else integer.leading_zeros
    return _in_compute_type(lambda x: fn(np.asarray(x), et), et)


@EVAL.rule(ops.IS_FINITE)
def _is_finite(inst: Instruction, session: Session) -> Kernel:
    et = type_of(inst)
    return lambda x: np.isfinite(widen(x, et))


@EVAL.rule(ops.REAL, ops.IMAG)
def _part(inst: Instruction, session: Session) -> Kernel:
    et, real = type_of(inst), inst.op is ops.REAL
    if et.is_complex:
        return operator.attrgetter("real" if real else "imag")
    return np.asarray if real else lambda x: np.zeros(np.shape(x), et.np)


# -- binary --------------------------------------------------------------------------------------------------------


def _binary(op: OpDef[Any], fn: _Fn, *, on_pred: _Fn | None = None, on_complex: _Fn | None = None) -> None:
    @EVAL.rule(op)
    def rule(inst: Instruction, session: Session) -> Kernel:
        et = type_of(inst)
        if et is PRED and on_pred is not None:
            return on_pred
        if et.is_complex and on_complex is not None:
            return lambda x, y: math_complex.apply_wide(on_complex, et, x, y)
        return _in_compute_type(fn, et)


_binary(ops.ADD, np.add, on_pred=np.logical_or)
_binary(ops.SUBTRACT, np.subtract, on_pred=np.logical_xor)
_binary(ops.MULTIPLY, np.multiply, on_pred=np.logical_and, on_complex=math_complex.multiply)
_binary(ops.MAXIMUM, MAXIMUM)
_binary(ops.MINIMUM, MINIMUM)
_binary(ops.AND, np.bitwise_and, on_pred=np.logical_and)
_binary(ops.OR, np.bitwise_or, on_pred=np.logical_or)
_binary(ops.XOR, np.bitwise_xor, on_pred=np.logical_xor)


@EVAL.rule(ops.DIVIDE)
def _divide(inst: Instruction, session: Session) -> Kernel:
    et = type_of(inst)
    if et.is_complex:
        return lambda x, y: math_complex.apply_wide(math_complex.divide, et, x, y)
    if et.is_float:
        return _in_compute_type(np.divide, et)
    return _in_compute_type(lambda x, y: integer.divide(np.asarray(x), np.asarray(y), et), et)


@EVAL.rule(ops.REMAINDER)
def _remainder(inst: Instruction, session: Session) -> Kernel:
    et = type_of(inst)
    if et.is_float:
        return _in_compute_type(np.fmod, et)
    return _in_compute_type(lambda x, y: integer.remainder(np.asarray(x), np.asarray(y), et), et)


def _real_power(x: Array, y: Array) -> Array:
    """NumPy's power, but for the exponent 0.5: there it may take the square root, which is wrong for -inf and -0."""
    out = np.power(x, y)
    half = y == 0.5
    if not np.any(half):
        return np.asarray(out)
    exact = np.where(np.isneginf(x), np.asarray(np.inf, x.dtype), np.where(x == 0, np.asarray(0, x.dtype), out))
    return np.asarray(np.where(half, exact, out))


@EVAL.rule(ops.POWER)
def _power(inst: Instruction, session: Session) -> Kernel:
    et = type_of(inst)
    if et.is_complex:
        return lambda x, y: math_complex.apply_wide(math_complex.power, et, x, y)
    if et.is_float:
        return lambda x, y: math_real.apply_wide(_real_power, et, x, y)
    if et is PRED:
        return lambda x, y: np.logical_or(x, np.logical_not(y))
    return _in_compute_type(lambda x, y: integer.power(x, y, et), et)


@EVAL.rule(ops.ATAN2)
def _atan2(inst: Instruction, session: Session) -> Kernel:
    et = type_of(inst)
    if et.is_complex:
        return lambda y, x: math_complex.apply_wide(math_complex.atan2, et, y, x)
    return lambda y, x: math_real.apply_wide(np.arctan2, et, y, x)


@EVAL.rule(ops.SHIFT_LEFT, ops.SHIFT_RIGHT_ARITHMETIC, ops.SHIFT_RIGHT_LOGICAL)
def _shift(inst: Instruction, session: Session) -> Kernel:
    et = type_of(inst)
    if inst.op is ops.SHIFT_LEFT:
        return _in_compute_type(np.left_shift, et)
    fn = integer.shift_right_logical if inst.op is ops.SHIFT_RIGHT_LOGICAL else integer.shift_right_arithmetic
    return _in_compute_type(lambda x, n: fn(x, n, et), et)


@EVAL.rule(ops.COMPLEX)
def _complex(inst: Instruction, session: Session) -> Kernel:
    return math_complex.make


# -- comparison, selection -----------------------------------------------------------------------------------------

_COMPARE = {
    ComparisonDirection.EQ: np.equal,
    ComparisonDirection.NE: np.not_equal,
    ComparisonDirection.GE: np.greater_equal,
    ComparisonDirection.GT: np.greater,
    ComparisonDirection.LE: np.less_equal,
    ComparisonDirection.LT: np.less,
}


@EVAL.rule(ops.COMPARE)
def _compare(inst: Instruction, session: Session) -> Kernel:
    et, fn = type_of(inst), _COMPARE[inst.attrs.direction]
    if inst.attrs.type is ComparisonType.TOTALORDER and et.is_float:
        return lambda x, y: fn(total_order_key(x, et), total_order_key(y, et))
    if widen(np.zeros((), et.np), et).dtype == et.np:
        return fn
    return lambda x, y: fn(widen(x, et), widen(y, et))


@EVAL.rule(ops.SELECT)
def _select(inst: Instruction, session: Session) -> Kernel:
    def kernel(pred: Array, on_true: Any, on_false: Any) -> Any:
        if np.ndim(pred) == 0:
            return on_true if pred else on_false
        return np.where(pred, on_true, on_false)

    return kernel


@EVAL.rule(ops.CLAMP)
def _clamp(inst: Instruction, session: Session) -> Kernel:
    # min(max(x, lo), hi), NaN from any of the three wins.
    return _in_compute_type(lambda lo, x, hi: MINIMUM(MAXIMUM(x, lo), hi), type_of(inst, 1))


# -- conversions ---------------------------------------------------------------------------------------------------


@EVAL.rule(ops.CONVERT)
def _convert(inst: Instruction, session: Session) -> Kernel:
    src, dst = type_of(inst), inst.shape.element_type
    return lambda x: convert(x, src, dst)


@EVAL.rule(ops.BITCAST_CONVERT)
def _bitcast_convert(inst: Instruction, session: Session) -> Kernel:
    src, dst = type_of(inst), inst.shape.element_type
    return lambda x: bitcast_convert(np.asarray(x), src, dst)


@EVAL.rule(ops.REDUCE_PRECISION)
def _reduce_precision(inst: Instruction, session: Session) -> Kernel:
    et, a = type_of(inst), inst.attrs
    if not et.is_float:
        raise _refuse(inst, et)
    if et.bits < 16:
        return lambda x: narrow(_quantize(widen(x, et), 23, a.exponent_bits, a.mantissa_bits), et)
    mantissa = {16: 7 if et.name == "bf16" else 10, 32: 23, 64: 52}[et.bits]
    return lambda x: _quantize(np.asarray(x), mantissa, a.exponent_bits, a.mantissa_bits)


def _quantize(x: Array, own_mantissa: int, exponent_bits: int, mantissa_bits: int) -> Array:
    """Rounds to nearest even at `mantissa_bits`; past the exponent range: infinity, or zero of the same sign."""
    width = 8 * x.dtype.itemsize
    uint = np.dtype(f"u{x.dtype.itemsize}").type
    bits = np.ascontiguousarray(x).view(uint).reshape(x.shape)
    own_exponent = width - 1 - own_mantissa
    drop = own_mantissa - mantissa_bits
    if drop > 0:
        last = (bits >> uint(drop)) & uint(1)
        bits = (bits + (last + uint((1 << (drop - 1)) - 1))) & uint(~((1 << drop) - 1) & ((1 << width) - 1))
    if exponent_bits < own_exponent:
        own_bias, bias = (1 << (own_exponent - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        exponent = (bits >> uint(own_mantissa)) & uint((1 << own_exponent) - 1)
        sign = bits & uint(1 << (width - 1))
        infinity = uint(((1 << own_exponent) - 1) << own_mantissa)
        bits = np.where(exponent > uint(own_bias + bias), sign | infinity, bits)
        bits = np.where(exponent <= uint(own_bias - bias), sign, bits)
    wide = x.astype(np.float64)
    nan = x if mantissa_bits > 0 else np.copysign(x.dtype.type(np.inf), x)  # no mantissa bit is left to say NaN
    return np.where(np.isnan(wide), nan, np.asarray(bits).astype(uint).view(x.dtype).reshape(x.shape))


@EVAL.rule(ops.STOCHASTIC_CONVERT)
def _stochastic_convert(inst: Instruction, session: Session) -> Kernel:
    src, dst, bits = type_of(inst), inst.shape.element_type, type_of(inst, 1)
    if not dst.is_integer:
        raise unimplemented(f"stochastic-convert to {dst}: XLA defines it for integer results only", span=inst.span)

    def kernel(x: Array, random: Array) -> Array:
        """|x| is rounded up with the probability of its fraction: when random < fraction * 2^bits."""
        wide = np.asarray(widen(x, src)).astype(np.float64)
        size = np.abs(wide)
        whole = np.floor(size)
        threshold = np.ldexp(size - whole, bits.bits)
        up = np.isfinite(size) & (np.asarray(random).astype(np.float64) < threshold)
        return convert(np.copysign(whole + up, wide), F64, dst)

    return kernel
