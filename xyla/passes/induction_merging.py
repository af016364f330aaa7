"""Counters of one loop that are linear in another: part of the simplification of while loops."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xyla.analysis.while_loops import (
    constant_step,
    counter_index,
    initial_value,
    integer_constant,
    state_elements,
    value_limits,
)
from xyla.hlo import ops, rewriter
from xyla.hlo.literal import Literal
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import NoAttrs, OpDef
from xyla.hlo.shape import Shape
from xyla.passes.inlining import own
from xyla.passes.loops import resize
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import erase_dead


@dataclass(frozen=True, slots=True)
class _Linear:
    """The counter is `factor * base + offset`, computed in its own type, which wraps round as the counter does."""

    factor: int
    offset: int


def merge_counters(loop: Instruction, ctx: PassContext) -> bool:
    """(i, j) that start as constants and grow by constant steps s and k s  ->  (i), where j = k i + (j0 - k i0).

    Exact with wrap-around: all of it holds modulo 2^bits of j's type, which is no wider than i's. The counter that the
    condition compares stays, so that trip counts are still seen. Source: XLA's TryMergeInductionVariables.
    """
    found = _merged(loop)
    if found is None or not ctx.permit("merge-induction-variables", loop):
        return False
    base, derived = found
    own(loop)
    for comp in loop.called:
        readers = state_elements(comp)
        for index, linear in derived.items():
            for reader in readers.get(index, ()):
                source = rewriter.create(
                    comp, ops.GET_TUPLE_ELEMENT, [comp.parameters[0]], ops.IndexAttrs(base), like=reader
                )
                rewriter.replace_uses(reader, _value(source, linear, reader.shape))
                erase_dead([reader, source])
    shapes = loop.shape.tuple_shapes
    after = rewriter.create(loop.parent, ops.GET_TUPLE_ELEMENT, [loop], ops.IndexAttrs(base))
    outside = {index: _value(after, linear, shapes[index]) for index, linear in derived.items()}
    resize(loop, [i for i in range(len(shapes)) if i not in derived], outside=outside)
    erase_dead([*outside.values(), after])
    ctx.record(loop)
    return True


def _merged(loop: Instruction) -> tuple[int, dict[int, _Linear]] | None:
    """(the counter that stays, the others as functions of it), or None when there is nothing to merge."""
    counters = dict(_counters(loop))
    if len(counters) < 2:
        return None
    shapes = loop.shape.tuple_shapes
    tested = counter_index(loop)
    base = tested if tested in counters else max(counters, key=lambda i: (shapes[i].element_type.bits, -i))
    start, step = counters[base]
    derived = {}
    for index, (first, each) in counters.items():
        narrow = shapes[index].element_type.bits <= shapes[base].element_type.bits
        if index != base and narrow and each % step == 0:
            factor = each // step
            derived[index] = _Linear(factor, first - factor * start)
    return (base, derived) if derived else None


def _counters(loop: Instruction) -> Iterable[tuple[int, tuple[int, int]]]:
    """(index, (initial value, step)) of state elements that count from a constant in constant steps."""
    for index, shape in enumerate(loop.shape.tuple_shapes):
        if not shape.is_scalar or not shape.element_type.is_integer:
            continue
        start = initial_value(loop, index)
        first = integer_constant(start) if start is not None else None
        step = constant_step(loop, index) if first is not None else None
        if first is not None and step:
            yield index, (first, step)


def _value(source: Instruction, linear: _Linear, shape: Shape) -> Instruction:
    """`factor * source + offset` as a scalar of `shape`."""
    value = source
    if source.shape.element_type is not shape.element_type:
        value = rewriter.create(source.parent, ops.CONVERT, [source], shape=shape, like=source)
    if linear.factor != 1:
        value = _with_constant(value, ops.MULTIPLY, linear.factor, shape)
    return value if not linear.offset else _with_constant(value, ops.ADD, linear.offset, shape)


def _with_constant(value: Instruction, op: OpDef[NoAttrs], number: int, shape: Shape) -> Instruction:
    low, _ = value_limits(shape.element_type)
    wrapped = (number - low) % (1 << shape.element_type.bits) + low
    attrs = ops.ConstantAttrs(Literal.scalar(wrapped, shape.element_type))
    constant = rewriter.create(value.parent, ops.CONSTANT, (), attrs, shape=shape, like=value)
    return rewriter.create(value.parent, op, [value, constant], shape=shape, like=value)
