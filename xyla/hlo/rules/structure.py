"""Rules of leaves, tuples, tokens, copies and barriers.

Source: XLA operation semantics, one section an op. Tuples and copies carry layouts through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xyla.hlo.op_def import Attrs
from xyla.hlo.rules.common import bare, need_dim, wrong_operand
from xyla.hlo.shape import TOKEN_SHAPE, Shape
from xyla.support.dtypes import U32
from xyla.support.status import invalid

if TYPE_CHECKING:
    from xyla.hlo.module import Computation, Instruction
    from xyla.hlo.ops.basic import ConstantAttrs, IndexAttrs

_ID = Shape.array(U32, ())


def constant_shape(shapes: Sequence[Shape], attrs: ConstantAttrs, called: Sequence[Computation]) -> Shape:
    """constant: the literal's shape."""
    return attrs.literal.shape


def id_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """partition-id, replica-id: u32[]."""
    return _ID


def token_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """after-all: a token. It may wait for values as well as for tokens."""
    return TOKEN_SHAPE


def tuple_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """tuple: of the operands' shapes."""
    return Shape.tuple_of(shapes)


def element_shape(shapes: Sequence[Shape], attrs: IndexAttrs, called: Sequence[Computation]) -> Shape:
    """get-tuple-element: the element's shape."""
    shape, index = shapes[0], attrs.index
    if not shape.is_tuple:
        raise wrong_operand(0, shape, "a tuple")
    if not 0 <= index < len(shape.tuple_shapes):
        raise invalid(f"index {index} is out of range for operand 0, a tuple of {len(shape.tuple_shapes)}")
    return shape.tuple_shapes[index]


def same_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """copy, opt-barrier, domain: the operand's shape."""
    return shapes[0]


def add_dependency_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """add-dependency(x, token): the shape of x."""
    if not shapes[1].is_token:
        raise wrong_operand(1, shapes[1], "token[]")
    return shapes[0]


def copy_start_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """copy-start: (destination, source, context)."""
    return Shape.tuple_of([shapes[0], shapes[0], _ID])


def copy_done_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """copy-done: the destination."""
    shape = shapes[0]
    if not shape.is_tuple or len(shape.tuple_shapes) < 2:
        raise wrong_operand(0, shape, "(destination, source, context)")
    return shape.tuple_shapes[0]


def verify_iota(inst: Instruction) -> None:
    """iota: a number array; the counting dimension exists (a scalar counts nothing)."""
    shape = inst.shape
    if not shape.is_array:
        raise invalid(f"result is {bare(shape)}, expected an array")
    if shape.element_type.name == "pred":
        raise invalid(f"result is {bare(shape)}, expected an array of numbers")
    if shape.rank or inst.attrs.iota_dimension:
        need_dim("iota_dimension", inst.attrs.iota_dimension, shape.rank)


def verify_parameter(inst: Instruction) -> None:
    """parameter: numbered from 0; the computation's numbering is checked with the computation."""
    if inst.attrs.number < 0:
        raise invalid(f"parameter number {inst.attrs.number} is negative")
