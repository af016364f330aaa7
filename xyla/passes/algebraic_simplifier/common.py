"""What the simplifier's rules share: questions about values, small builders, evaluation of constants, rule gates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from xyla.hlo import ops
from xyla.hlo.attr_types import PaddingDim, SliceDim
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import NO_ATTRS, Attrs, OpDef, Trait
from xyla.hlo.shape import Shape
from xyla.passmgr.rules import Rewrite, splat_value
from xyla.support.dtypes import PRED, ElementType

F = TypeVar("F", bound=Callable[..., Any])
# How far questions about a value look through its operands.
DEPTH = 6
# Constants up to this many elements are computed on the spot.
FOLD_ELEMENTS = 4096


# -- gates: when a rule is in the table ---------------------------------------------------------------------------


def when(option: str) -> Callable[[F], F]:
    """Decorator: the rule runs only when the pass's option `option` is true."""

    def mark(rule: F) -> F:
        rule.__dict__["gates"] = (*rule.__dict__.get("gates", ()), option)
        return rule

    return mark


def logical(rule: F) -> F:
    """Decorator: the rule ignores layouts, so it runs only while they do not matter."""
    rule.__dict__["only"] = "logical"
    return rule


def physical(rule: F) -> F:
    """Decorator: the rule is about layouts, so it runs only in layout-sensitive mode."""
    rule.__dict__["only"] = "physical"
    return rule


def dynamic(rule: F) -> F:
    """Decorator: the rule is right for dynamic shapes too (the others are not tried on them)."""
    rule.__dict__["dynamic"] = True
    return rule


# -- questions ----------------------------------------------------------------------------------------------------


def is_float(inst: Instruction) -> bool:
    """Whether its elements are real floating-point numbers."""
    return inst.shape.element_type.is_float


def is_integral(inst: Instruction) -> bool:
    """Whether its elements are integers or booleans: arithmetic that wraps and has no NaN."""
    et = inst.shape.element_type
    return et.is_integer or et is PRED


def exactly(inst: Instruction, value: complex) -> bool:
    """Whether every element is `value`; the sign of a zero counts."""
    found = splat_value(inst)
    if found is None or not bool(found == value):
        return False
    if value != 0 or not inst.shape.element_type.is_float:
        return True
    return bool(np.signbit(found)) == bool(np.signbit(value))


def either_zero(inst: Instruction) -> bool:
    """Whether every element is 0 or -0."""
    found = splat_value(inst)
    return found is not None and bool(found == 0)


def number(inst: Instruction) -> float | None:
    """The value of a real splat as a Python float, exact for every float type and for integers below 2^53."""
    found = splat_value(inst)
    return None if found is None or inst.shape.element_type.is_complex else float(found)


def integer(inst: Instruction) -> int | None:
    """The value of an integer splat."""
    found = splat_value(inst)
    return int(found) if found is not None and inst.shape.element_type.is_integer else None


def is_constant(inst: Instruction) -> bool:
    """Whether it is a constant (not elided) or the broadcast of one."""
    if inst.op is ops.BROADCAST:
        inst = inst.operands[0]
    return inst.op is ops.CONSTANT and not inst.attrs.literal.elided and inst.shape.is_array


def single_user(inst: Instruction) -> bool:
    """Whether exactly one use is left, so that rebuilding its user frees it."""
    return sum(inst.users.values()) == 1 and not inst.is_root


def scalar_splat(inst: Instruction) -> Instruction | None:
    """The scalar that is broadcast into `inst`, if it is the broadcast of one."""
    if inst.op is ops.BROADCAST and inst.operands[0].shape.is_scalar:
        return inst.operands[0]
    return None


_NON_NEGATIVE = (ops.ABS, ops.EXP, ops.LOGISTIC, ops.COSH)
_KEEPS_SIGN = (
    ops.BROADCAST, ops.RESHAPE, ops.TRANSPOSE, ops.SLICE, ops.REVERSE, ops.COPY, ops.SQRT, ops.CBRT, ops.CEIL,
    ops.FLOOR, ops.ROUND_EVEN, ops.ROUND_AFZ, ops.TANH, ops.RSQRT,
)  # fmt: skip


def non_negative(inst: Instruction, depth: int = DEPTH) -> bool:
    """Whether no element is below zero or -0 (NaN is allowed). False when unsure; an integer square may wrap."""
    et = inst.shape.element_type
    if et.is_unsigned or et is PRED:
        return True
    if inst.op is ops.IOTA:  # a counter too large for its type wraps
        return et.is_float or inst.shape.dims[inst.attrs.iota_dimension] <= 1 << (et.bits - 1)
    if et.is_complex or depth == 0:
        return False
    value = splat_value(inst)
    if value is not None:
        return float(value) >= 0 and not bool(np.signbit(float(value)))
    if inst.op in _NON_NEGATIVE:
        return et.is_float
    return _non_negative_through(inst, depth - 1)


def _non_negative_through(inst: Instruction, depth: int) -> bool:
    args = inst.operands
    if inst.op in _KEEPS_SIGN:
        return non_negative(args[0], depth)
    if inst.op is ops.CONVERT:
        source, target = args[0].shape.element_type, inst.shape.element_type
        if target.is_float:
            return not source.is_complex and non_negative(args[0], depth)
        # From an integer type, one that does not fit wraps; a float saturates, and NaN becomes 0.
        fits = source.is_float or source is PRED or source.bits + int(source.is_unsigned) <= target.bits
        return fits and not source.is_complex and non_negative(args[0], depth)
    if not is_float(inst):
        return _non_negative_integer(inst, depth)
    if inst.op is ops.MULTIPLY:
        return args[0] is args[1] or all(non_negative(a, depth) for a in args)
    if inst.op is ops.POWER:
        exponent = number(args[1])
        return non_negative(args[0], depth) or (exponent is not None and exponent > 0 and exponent % 2 == 0)
    if inst.op in (ops.ADD, ops.DIVIDE, ops.MINIMUM):
        return all(non_negative(a, depth) for a in args)
    if inst.op is ops.SELECT:
        return all(non_negative(a, depth) for a in args[1:])
    if inst.op is ops.MAXIMUM:
        return any((number(a) or 0) > 0 for a in args) or all(non_negative(a, depth) for a in args)
    return False


def _non_negative_integer(inst: Instruction, depth: int) -> bool:
    """The ops of signed integers that keep clear of the sign bit. Sums and products may wrap into it, |x| as well."""
    args = inst.operands
    if inst.op in (ops.MAXIMUM, ops.AND):
        return any(non_negative(a, depth) for a in args)
    if inst.op in (ops.MINIMUM, ops.OR, ops.XOR):
        return all(non_negative(a, depth) for a in args)
    if inst.op is ops.CLAMP:  # the upper bound wins where it lies below the lower one
        return all(non_negative(a, depth) for a in (args[0], args[2]))
    if inst.op is ops.SELECT:
        return all(non_negative(a, depth) for a in args[1:])
    if inst.op in (ops.REMAINDER, ops.SHIFT_RIGHT_ARITHMETIC):  # the sign is the dividend's
        return non_negative(args[0], depth)
    if inst.op is ops.SHIFT_RIGHT_LOGICAL:
        amount = integer(args[1])
        return non_negative(args[0], depth) or (amount is not None and amount >= 1)
    return inst.op in (ops.POPCNT, ops.CLZ)


def never_negative_zero(inst: Instruction, depth: int = DEPTH) -> bool:
    """Whether no element is -0.0. False when unsure."""
    if is_integral(inst) or non_negative(inst, depth):
        return True
    value = number(inst)
    if value is not None:
        return not (value == 0 and bool(np.signbit(value)))
    if depth == 0:
        return False
    if inst.op is ops.CONVERT:
        return is_integral(inst.operands[0])
    if inst.op is ops.ADD:  # -0 is the sum of -0 and -0 only (rounding to nearest)
        return any(never_negative_zero(o, depth - 1) for o in inst.operands)
    if inst.op is ops.SUBTRACT:
        return never_negative_zero(inst.operands[0], depth - 1)
    return False


_REDUCERS = (ops.ADD, ops.MULTIPLY, ops.MAXIMUM, ops.MINIMUM, ops.AND, ops.OR, ops.XOR)


def reducer(comp: Computation) -> OpDef[Any] | None:
    """The commutative op that a two-parameter computation applies to both its parameters; None for any other."""
    root = comp.root
    if root.op not in _REDUCERS or len(comp.parameters) != 2:
        return None
    if {o.attrs.number for o in root.operands if o.op is ops.PARAMETER} != {0, 1}:
        return None
    same = all(p.shape.element_type is root.shape.element_type for p in comp.parameters)
    return root.op if same and root.shape.is_scalar else None


def is_identity(op: OpDef[Any], value: Instruction) -> bool:
    """Whether op(x, value) is x, bit for bit, for every x. The float sum's identity is -0.0, not +0.0."""
    et = value.shape.element_type
    if op in (ops.MAXIMUM, ops.MINIMUM):
        bound = lowest(et) if op is ops.MAXIMUM else highest(et)
        return bound is not None and exactly(value, bound)
    if op is ops.MULTIPLY:
        return exactly(value, 1)
    if op is ops.AND:
        return exactly(value, 1 if et is PRED else -1 if et.is_signed else 2**et.bits - 1)
    if op is ops.ADD and et.is_float:
        return exactly(value, -0.0)
    return op in (ops.ADD, ops.OR, ops.XOR) and not et.is_complex and exactly(value, 0)


def lowest(et: ElementType) -> float | None:
    """What maximum never chooses: -inf, or the least integer; None for types without infinities."""
    if et is PRED:
        return 0
    if et.is_integer:
        return -(1 << (et.bits - 1)) if et.is_signed else 0
    return -np.inf if has_infinity(et) else None


def highest(et: ElementType) -> float | None:
    """What minimum never chooses: inf, or the largest integer; None for types without infinities."""
    if et is PRED:
        return 1
    if et.is_integer:
        return (1 << (et.bits - (1 if et.is_signed else 0))) - 1
    return np.inf if has_infinity(et) else None


def has_infinity(et: ElementType) -> bool:
    """Whether a float type has infinities."""
    return et.name in ("f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3", "f8e3m4")


def kept(rank: int, gone: Sequence[int]) -> list[int]:
    """The dimensions of `rank` that are not in `gone`."""
    drop = set(gone)
    return [d for d in range(rank) if d not in drop]


def squeezed(dims: Sequence[int]) -> tuple[int, ...]:
    """The sizes other than 1."""
    return tuple(d for d in dims if d != 1)


def power_of_two(value: float | None) -> bool:
    """Whether a number is a power of two or the negative of one."""
    return value is not None and np.isfinite(value) and value != 0 and abs(np.frexp(value)[0]) == 0.5


# -- builders -----------------------------------------------------------------------------------------------------


def broadcast(rw: Rewrite, x: Instruction, dims: Sequence[int], shape: Shape) -> Instruction:
    """Broadcast `x`, its dimension i becoming dims[i] of `shape` (x itself when that changes nothing)."""
    if x.shape.dims == shape.dims and tuple(dims) == tuple(range(shape.rank)):
        return x
    result = Shape.array(x.shape.element_type, shape.dims, shape.layout)
    return rw.add(ops.BROADCAST, [x], ops.DimensionsAttrs(tuple(dims)), shape=result)


def reshape(rw: Rewrite, x: Instruction, dims: Sequence[int]) -> Instruction:
    """Reshape `x` (x itself when it has those dims)."""
    if x.shape.dims == tuple(dims):
        return x
    return rw.add(ops.RESHAPE, [x], ops.ReshapeAttrs(), shape=Shape.array(x.shape.element_type, tuple(dims)))


def transpose(rw: Rewrite, x: Instruction, perm: Sequence[int]) -> Instruction:
    """Transpose `x`: result dimension i is dimension perm[i] (x itself for the identity)."""
    if tuple(perm) == tuple(range(x.shape.rank)):
        return x
    return rw.add(ops.TRANSPOSE, [x], ops.DimensionsAttrs(tuple(perm)))


def slice_of(rw: Rewrite, x: Instruction, ranges: Sequence[SliceDim]) -> Instruction:
    """Slice `x` (x itself when all of it is taken)."""
    if all(r.start == 0 and r.limit == d and r.stride == 1 for r, d in zip(ranges, x.shape.dims, strict=True)):
        return x
    return rw.add(ops.SLICE, [x], ops.SliceAttrs(tuple(ranges)))


def pad(rw: Rewrite, x: Instruction, value: Instruction, padding: Sequence[PaddingDim]) -> Instruction:
    """Pad `x` (x itself when nothing is added or removed)."""
    if all(p == PaddingDim(0, 0, 0) for p in padding):
        return x
    return rw.add(ops.PAD, [x, value], ops.PadAttrs(tuple(padding)))


def convert(rw: Rewrite, x: Instruction, et: ElementType) -> Instruction:
    """Convert `x` (x itself when it has that element type)."""
    return x if x.shape.element_type is et else rw.add(ops.CONVERT, [x], shape=x.shape.with_type(et))


def concatenate(rw: Rewrite, parts: Sequence[Instruction], dim: int) -> Instruction:
    """Concatenate (the only part itself when there is one)."""
    return parts[0] if len(parts) == 1 else rw.add(ops.CONCATENATE, list(parts), ops.DimensionAttrs(dim))


def zeros(rw: Rewrite, shape: Shape) -> Instruction:
    """Zeros of an array shape."""
    return rw.splat(0, shape)


# -- constants ----------------------------------------------------------------------------------------------------


def evaluate(
    op: OpDef[Any],
    operands: Sequence[Literal],
    attrs: Attrs = NO_ATTRS,
    *,
    shape: Shape | None = None,
    called: Sequence[Computation] = (),
) -> Literal:
    """The value of one op on constants, as the evaluator defines it. Raises what the evaluator raises."""
    # Imported on first use: the evaluator costs 0.2 s, and many programs have nothing to fold.
    from xyla.interp.api import Evaluator, to_literal

    comp = Module("constant").add_computation("constant")
    leaves = [comp.add(ops.CONSTANT, (), ops.ConstantAttrs(x), shape=x.shape) for x in operands]
    if shape is None and op.infer is not None:
        shape = op.infer([x.shape for x in operands], attrs, called)
    inst = comp.add(op, leaves, attrs, shape=shape)
    # Linked by hand: the callee belongs to another module and must not learn of this caller.
    inst.called = tuple(called)
    value = Evaluator().evaluate_instruction(inst, [x.array for x in operands])
    return to_literal(value, inst.shape)


def scalar_literal(inst: Instruction) -> Literal | None:
    """The scalar literal of a splat."""
    value = splat_value(inst)
    return None if value is None else Literal.of(np.asarray(value), inst.shape.element_type)


def fold_scalars(op: OpDef[Any], *args: Instruction) -> Literal | None:
    """op on splats, as a scalar literal; None when one is not a splat."""
    literals = [scalar_literal(a) for a in args]
    if any(x is None for x in literals):
        return None
    attrs = ops.UnaryMathAttrs() if op.attrs is ops.UnaryMathAttrs else NO_ATTRS
    return evaluate(op, [x for x in literals if x is not None], attrs)


def splat_of(rw: Rewrite, literal: Literal, shape: Shape) -> Instruction:
    """A scalar literal in every element of the dims of `shape`."""
    scalar = rw.constant(literal)
    return broadcast(rw, scalar, (), shape) if shape.rank else scalar


def is_elementwise(inst: Instruction) -> bool:
    """Whether each result element depends on the operands' elements at the same place only."""
    return inst.op.has(Trait.ELEMENTWISE) and inst.shape.is_array
