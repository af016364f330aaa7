"""Rules of the ops that call computations or the outside: while, conditional, call, fusion, async, feeds.

Source: XLA operation semantics, one section an op. Arguments must have exactly the parameters' shapes (layouts aside).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xyla.hlo.op_def import Attrs
from xyla.hlo.rules.common import bare, need_pred_scalar, same, wrong_operand
from xyla.hlo.rules.pairing import verify_start
from xyla.hlo.shape import EMPTY_TUPLE, TOKEN_SHAPE, Shape
from xyla.support.dtypes import PRED, S32
from xyla.support.status import invalid

if TYPE_CHECKING:
    from xyla.hlo.attr_types import OutputOperandAlias
    from xyla.hlo.module import Computation, Instruction


def _check_arguments(comp: Computation, shapes: Sequence[Shape]) -> None:
    """Each argument has its parameter's shape."""
    params = comp.parameters
    if len(params) != len(shapes):
        raise invalid(f"computation {comp.name!r} takes {len(params)} parameters, given {len(shapes)} operands")
    for i, (param, shape) in enumerate(zip(params, shapes, strict=True)):
        if param.shape is not shape and not same(param.shape, shape):
            raise invalid(
                f"operand {i} is {bare(shape)}, expected {bare(param.shape)} "
                f"(parameter {i} of computation {comp.name!r})"
            )


def call_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """call, fusion: what the callee returns."""
    _check_arguments(called[0], shapes)
    return called[0].root.shape


def verify_call(inst: Instruction) -> None:
    """call: valid aliasing; a composite has a name."""
    verify_aliasing(inst)
    if inst.attrs.is_composite and "composite.name" not in dict(inst.frontend_attributes):
        raise invalid("a composite call needs frontend attribute composite.name")


def while_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """while: the state's shape, which condition takes and body takes and returns."""
    condition, body = called
    _check_arguments(condition, shapes)
    _check_arguments(body, shapes)
    need_pred_scalar(condition)
    if not same(body.root.shape, shapes[0]):
        raise invalid(f"body {body.name!r} returns {bare(body.root.shape)}, expected {bare(shapes[0])}")
    return shapes[0]


def conditional_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """conditional(selector, argument per branch): what every branch returns."""
    selector = shapes[0]
    if selector.rank or selector.element_type not in (PRED, S32):
        raise wrong_operand(0, selector, "pred[] or s32[]")
    if not called or (selector.element_type is PRED and len(called) != 2):
        raise invalid(f"{len(called)} branches, expected {'2' if selector.element_type is PRED else 'at least 1'}")
    if len(shapes) != len(called) + 1:
        raise invalid(f"{len(shapes) - 1} arguments for {len(called)} branches")
    result = called[0].root.shape
    for i, branch in enumerate(called):
        # A branch that takes nothing is given an empty tuple.
        if branch.parameters or shapes[i + 1] is not EMPTY_TUPLE:
            _check_branch_argument(branch, shapes[i + 1], i)
        if not same(branch.root.shape, result):
            raise invalid(f"branch {branch.name!r} returns {bare(branch.root.shape)}, expected {bare(result)}")
    return result


def _check_branch_argument(branch: Computation, shape: Shape, index: int) -> None:
    if len(branch.parameters) != 1:
        raise invalid(f"branch {branch.name!r} takes {len(branch.parameters)} parameters, expected 1")
    if not same(branch.parameters[0].shape, shape):
        raise wrong_operand(index + 1, shape, f"{bare(branch.parameters[0].shape)} (branch {branch.name!r})")


def verify_aliasing(inst: Instruction) -> None:
    """output_to_operand_aliasing: both indices exist, and the aliased shapes agree; each output aliased once."""
    pairs: tuple[OutputOperandAlias, ...] = inst.attrs.output_to_operand_aliasing
    seen = set()
    for pair in pairs:
        if not 0 <= pair.operand < len(inst.operands):
            raise invalid(f"output_to_operand_aliasing names operand {pair.operand} of {len(inst.operands)}")
        out = inst.shape.subshape(pair.output_index)
        operand = inst.operands[pair.operand].shape.subshape(pair.operand_index)
        # A custom call may pin a value to memory and release it again: f32[8] with b(f32[8]).
        if not same(_content(out), _content(operand)):
            raise invalid(f"output_to_operand_aliasing pairs {bare(out)} with {bare(operand)}")
        if pair.output_index in seen:
            raise invalid(f"output_to_operand_aliasing names output {list(pair.output_index)} twice")
        seen.add(pair.output_index)


def _content(shape: Shape) -> Shape:
    return shape.tuple_shapes[0] if shape.is_buffer else shape


def verify_custom_call(inst: Instruction) -> None:
    """custom-call: a target; one layout constraint an operand; valid aliasing."""
    constraints = inst.attrs.operand_layout_constraints
    if not inst.attrs.custom_call_target:
        raise invalid("custom_call_target is empty")
    if constraints is not None:
        if len(constraints) != len(inst.operands):
            raise invalid(f"operand_layout_constraints has {len(constraints)} shapes for {len(inst.operands)} operands")
        for i, (want, operand) in enumerate(zip(constraints, inst.operands, strict=True)):
            if not same(want, operand.shape):
                raise wrong_operand(i, operand.shape, f"{bare(want)} (operand_layout_constraints)")
    verify_aliasing(inst)


def verify_infeed(inst: Instruction) -> None:
    """infeed(token): (data, token)."""
    if not inst.operands[0].shape.is_token:
        raise wrong_operand(0, inst.operands[0].shape, "token[]")
    parts = inst.shape.tuple_shapes
    if len(parts) != 2 or not parts[1].is_token:
        raise invalid(f"result is {bare(inst.shape)}, expected (data, token[])")


def outfeed_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """outfeed(data, token): a token; outfeed_shape is the data's."""
    if not shapes[1].is_token:
        raise wrong_operand(1, shapes[1], "token[]")
    stated: Shape | None = attrs.outfeed_shape  # type: ignore[attr-defined]
    if stated is not None and not same(stated, shapes[0]):
        raise wrong_operand(0, shapes[0], f"{bare(stated)} (outfeed_shape)")
    return TOKEN_SHAPE


def verify_async_start(inst: Instruction) -> None:
    """async-start: ((operands..), result, context..) of the wrapped computation; one async-done."""
    verify_start(inst)
    shapes = [o.shape for o in inst.operands]
    comp = inst.called[0]
    _check_arguments(comp, shapes)
    parts = inst.shape.tuple_shapes
    if len(parts) < 2 or not same(parts[0], Shape.tuple_of(shapes)):
        raise invalid(f"result is {bare(inst.shape)}, expected ({bare(Shape.tuple_of(shapes))}, result, ...)")
    if not same(parts[1], comp.root.shape):
        raise invalid(
            f"result element 1 is {bare(parts[1])}, computation {comp.name!r} returns {bare(comp.root.shape)}"
        )


def async_update_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """async-update: the operand's shape."""
    _need_async(shapes)
    return shapes[0]


def async_done_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """async-done: the result inside the started operation's tuple."""
    _need_async(shapes)
    return shapes[0].tuple_shapes[1]


def _need_async(shapes: Sequence[Shape]) -> None:
    shape = shapes[0]
    if len(shape.tuple_shapes) < 2 or not shape.tuple_shapes[0].is_tuple:
        raise wrong_operand(0, shape, "((operands), result, ...)")
