"""Unary math, powers, complex parts, and element-wise ops of broadcasts."""

from __future__ import annotations

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import Trait, all_ops
from xyla.hlo.shape import Shape
from xyla.passes.algebraic_simplifier.common import (
    broadcast,
    dynamic,
    either_zero,
    exactly,
    is_constant,
    is_elementwise,
    is_float,
    is_integral,
    non_negative,
    number,
    when,
)
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, rule_table

# -- signs and rounding -------------------------------------------------------------------------------------------


def negate_negate(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """-(-x) = x."""
    x = inst.operands[0]
    return x.operands[0] if x.op is ops.NEGATE else None


def negate_difference(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """-(x - y) = y - x, for integers (0 has no sign)."""
    x = inst.operands[0]
    if x.op is not ops.SUBTRACT or not inst.shape.element_type.is_integer:
        return None
    return rw.binary(ops.SUBTRACT, x.operands[1], x.operands[0])


def abs_non_negative(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """|x| = x, where x is never negative."""
    x = inst.operands[0]
    return x if not x.shape.element_type.is_complex and non_negative(x) else None


def abs_negate(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """|-x| = |x| and ||x|| = |x|."""
    x = inst.operands[0]
    if x.op is ops.ABS:
        return x
    return rw.unary(ops.ABS, x.operands[0]) if x.op is ops.NEGATE else None


_ROUNDED = (ops.FLOOR, ops.CEIL, ops.ROUND_EVEN, ops.ROUND_AFZ)


def round_whole(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """floor(x) = x, and so on, where x is whole: an integer, or rounded already."""
    x = inst.operands[0]
    if is_integral(x) or x.op in _ROUNDED or (x.op is ops.CONVERT and is_integral(x.operands[0])):
        return x
    return None


# -- exponentials, logarithms, roots ------------------------------------------------------------------------------


def exp_zero(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """exp(0) = 1."""
    return rw.splat(1, inst.shape) if is_float(inst) and either_zero(inst.operands[0]) else None


@value_changing(Fp.FAST, "exp(log x) becomes x, also where x is negative")
def exp_log(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """exp(log x) = x."""
    x = inst.operands[0]
    return x.operands[0] if x.op is ops.LOG else None


@value_changing(Fp.FAST, "log(exp x) becomes x, also where exp x overflows")
def log_exp(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """log(exp x) = x, for real x."""
    x = inst.operands[0]
    return x.operands[0] if x.op is ops.EXP and is_float(inst) else None


@value_changing(Fp.FAST, "log(power(x, y)) becomes y * log(x), also where the power overflows or x is negative")
def log_power(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """log(power(x, y)) = y * log(|x|) for an even constant y, else y * log(x)."""
    x = inst.operands[0]
    if x.op is not ops.POWER or not is_float(inst):
        return None
    base, exponent = x.operands
    value = number(exponent)
    if value is not None and value % 2 == 0:
        base = rw.unary(ops.ABS, base)
    return rw.binary(ops.MULTIPLY, exponent, rw.unary(ops.LOG, base))


@value_changing(Fp.FAST, "sqrt(x*x) becomes |x|, also where x*x overflows or underflows")
def sqrt_square(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """sqrt(x * x) = |x|, for real x."""
    x = inst.operands[0]
    if x.op is not ops.MULTIPLY or x.operands[0] is not x.operands[1] or not is_float(inst):
        return None
    return rw.unary(ops.ABS, x.operands[0])


def _reciprocal(x: Instruction) -> Instruction | None:
    """y of 1 / y, where y is never negative."""
    if x.op is not ops.DIVIDE or not is_float(x) or not exactly(x.operands[0], 1):
        return None
    return x.operands[1] if non_negative(x.operands[1]) else None


@value_changing(Fp.FAST, "rsqrt(1/x) becomes sqrt(x), also where 1/x overflows")
def rsqrt_reciprocal(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """rsqrt(1 / x) = sqrt(x), where x is not negative."""
    y = _reciprocal(inst.operands[0])
    return None if y is None else rw.unary(ops.SQRT, y)


@value_changing(Fp.FAST, "rsqrt(power(x, -2)) becomes |x|, also where the power overflows")
def rsqrt_power(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """rsqrt(power(x, -2)) = |x|."""
    x = inst.operands[0]
    if x.op is not ops.POWER or not is_float(inst) or not exactly(x.operands[1], -2):
        return None
    return rw.unary(ops.ABS, x.operands[0])


# -- power --------------------------------------------------------------------------------------------------------


def power_zero(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """power(x, 0) = 1, for a NaN too."""
    real = is_float(inst) or inst.shape.element_type.is_integer
    return rw.splat(1, inst.shape) if real and either_zero(inst.operands[1]) else None


def power_one(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """power(x, 1) = x."""
    x, y = inst.operands
    return x if exactly(y, 1) and not x.shape.element_type.is_complex else None


def power_integer(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """power(x, 2) = x * x and power(x, 3) = x * x * x, for integers."""
    return _multiplied_out(inst, rw) if inst.shape.element_type.is_integer else None


def _multiplied_out(inst: Instruction, rw: Rewrite) -> Instruction | None:
    x, y = inst.operands
    if not exactly(y, 2) and not exactly(y, 3):
        return None
    square = rw.binary(ops.MULTIPLY, x, x)
    return square if exactly(y, 2) else rw.binary(ops.MULTIPLY, square, x)


@value_changing(Fp.DEFAULT, "a power becomes products, a quotient or a root: rounds differently")
def power_simple(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """power(x, 2) = x * x; power(x, 3) = x * x * x; power(x, -1) = 1 / x; power(|x|, 0.5) = sqrt(|x|)."""
    x, y = inst.operands
    if not is_float(inst):
        return None
    if exactly(y, -1):
        return rw.binary(ops.DIVIDE, rw.splat(1, inst.shape), x)
    if exactly(y, 0.5):
        return rw.unary(ops.SQRT, x) if non_negative(x) else None
    return _multiplied_out(inst, rw)


@value_changing(Fp.FAST, "power(power(x, y), z) becomes power(x, y * z): domains and overflows differ")
def power_power(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """power(power(x, y), z) = power(x, y * z)."""
    x, z = inst.operands
    if x.op is not ops.POWER or not is_float(inst):
        return None
    return rw.binary(ops.POWER, x.operands[0], rw.binary(ops.MULTIPLY, x.operands[1], z))


@value_changing(Fp.FAST, "power(exp(x), y) becomes exp(x * y): overflows elsewhere")
def power_exp(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """power(exp(x), y) = exp(x * y)."""
    x, y = inst.operands
    if x.op is not ops.EXP or not is_float(inst):
        return None
    return rw.unary(ops.EXP, rw.binary(ops.MULTIPLY, x.operands[0], y))


# -- complex numbers ----------------------------------------------------------------------------------------------


def real_part(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """real(complex(x, y)) = x; real(x) = x for real x."""
    x = inst.operands[0]
    if x.op is ops.COMPLEX:
        return x.operands[0]
    return None if x.shape.element_type.is_complex else x


@dynamic
def imaginary_part(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """imag(complex(x, y)) = y; imag(x) = 0 for real x."""
    x = inst.operands[0]
    if x.op is ops.COMPLEX:
        return x.operands[1]
    if x.shape.element_type.is_complex:
        return None
    result = rw.splat(0, inst.shape.static())
    for d, is_dynamic in enumerate(inst.shape.dynamic):
        if is_dynamic:
            size = rw.add(ops.GET_DIMENSION_SIZE, [x], ops.DimensionAttrs(d))
            result = rw.add(ops.SET_DIMENSION_SIZE, [result, size], ops.DimensionAttrs(d))
    return result


def complex_parts(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """complex(real(x), imag(x)) = x."""
    x, y = inst.operands
    if x.op is ops.REAL and y.op is ops.IMAG and x.operands[0] is y.operands[0]:
        return x.operands[0]
    return None


# -- element-wise ops of broadcasts -------------------------------------------------------------------------------


@when("enable_sink_broadcast")
def sink_broadcast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """broadcast(x) op broadcast(y) = broadcast(x op y), for equal dimensions or scalar constants: fewer elements."""
    if not is_elementwise(inst) or inst.shape.rank == 0 or inst.shape.num_elements <= 1:
        return None
    wide = _wide_operand(inst)
    if wide is None:
        return None
    small, dims = wide.operands[0], wide.attrs.dimensions
    if small.shape.num_elements >= inst.shape.num_elements:
        return None
    operands = [_narrowed(o, small, dims, rw) for o in inst.operands]
    shape = Shape.array(inst.shape.element_type, small.shape.dims)
    return broadcast(rw, rw.like([o for o in operands if o is not None], shape=shape), dims, inst.shape)


def _wide_operand(inst: Instruction) -> Instruction | None:
    """The broadcast whose operand is the largest, if every operand is a broadcast that can follow it."""
    if any(o.op is not ops.BROADCAST and not (o.shape.is_scalar and inst.shape.rank) for o in inst.operands):
        return None
    broadcasts = [o for o in inst.operands if o.op is ops.BROADCAST and o.shape.rank]
    if not broadcasts:
        return None
    wide = max(broadcasts, key=lambda o: o.operands[0].shape.rank)
    for o in broadcasts:
        small = o.operands[0]
        same = o.attrs.dimensions == wide.attrs.dimensions and small.shape.same_dims(wide.operands[0].shape)
        if not same and not small.shape.is_scalar:
            return None
    if all(is_constant(o) for o in inst.operands) and wide.operands[0].shape.rank:
        return None
    return wide


def _narrowed(o: Instruction, small: Instruction, dims: tuple[int, ...], rw: Rewrite) -> Instruction:
    if o.op is not ops.BROADCAST:
        return o  # a scalar predicate or clamp bound
    inner = o.operands[0]
    if inner.shape.is_scalar and small.shape.rank:
        return broadcast(rw, inner, (), Shape.array(inner.shape.element_type, small.shape.dims))
    return inner


_ELEMENTWISE = [op for op in all_ops() if op.has(Trait.ELEMENTWISE)]
TABLE = rule_table(
    ([ops.NEGATE], (negate_negate, negate_difference)),
    ([ops.ABS], (abs_non_negative, abs_negate)),
    (_ROUNDED, (round_whole,)),
    ([ops.EXP], (exp_zero, exp_log)),
    ([ops.LOG], (log_exp, log_power)),
    ([ops.SQRT], (sqrt_square,)),
    ([ops.RSQRT], (rsqrt_reciprocal, rsqrt_power)),
    ([ops.POWER], (power_zero, power_one, power_integer, power_simple, power_power, power_exp)),
    ([ops.REAL], (real_part,)),
    ([ops.IMAG], (imaginary_part,)),
    ([ops.COMPLEX], (complex_parts,)),
    (_ELEMENTWISE, (sink_broadcast,)),
)
