"""One function or region being converted: values so far, and how to append instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xyla.formats.mlir.ir import Operation, Value
from xyla.formats.mlir.types import Type
from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Metadata
from xyla.hlo.op_def import NO_ATTRS, Attrs, OpDef
from xyla.hlo.shape import Shape
from xyla.support.diagnostics import Span
from xyla.support.status import invalid, unimplemented

if TYPE_CHECKING:
    from xyla.formats.stablehlo.convert import Converter

# What a rule gives back: nothing, one instruction (a tuple-shaped one stands for all results), or one a result.
Result = Instruction | list[Instruction] | None
Rule = Callable[["Body", Operation], Result]


class Body:
    """Converts the operations of one block into one computation."""

    __slots__ = ("comp", "converter", "env", "metadata", "reach", "span")

    def __init__(self, converter: Converter, comp: Computation) -> None:
        self.converter = converter
        self.comp = comp
        self.env: dict[Value, Instruction | tuple[Instruction, int]] = {}
        self.metadata: Metadata | None = None
        self.span: Span | None = None
        # What the block belongs to when it is a region, for the error about values from outside.
        self.reach = ""

    # -- values ------------------------------------------------------------------------------------------------

    def get(self, value: Value) -> Instruction:
        """The instruction behind a value. Elements of a tuple are extracted, outer constants cloned, on first use."""
        found = self.env.get(value)
        if found is None:
            return self._outer_constant(value)
        if isinstance(found, tuple):
            found = self.env[value] = self.element(*found)
        return found

    def operands(self, op: Operation) -> list[Instruction]:
        """The instructions behind all operands."""
        return [self.get(v) for v in op.operands]

    def _outer_constant(self, value: Value) -> Instruction:
        owner = value.owner
        if isinstance(owner, Operation) and owner.name == "stablehlo.constant":
            inst = self.converter.constant(self, owner)
            self.env[value] = inst
            return inst
        if self.reach and value.owner is not None:
            raise unimplemented(f"{self.reach} uses %{value.name} from outside, which an HLO computation cannot do")
        raise invalid(f"value %{value.name} is used before it is defined")

    # -- instructions ------------------------------------------------------------------------------------------

    def add(
        self,
        op: OpDef[Any],
        operands: Sequence[Instruction] = (),
        attrs: Attrs = NO_ATTRS,
        *,
        shape: Shape,
        called: Sequence[Computation] = (),
        name: str = "",
    ) -> Instruction:
        """Appends an instruction that carries the current operation's metadata and span."""
        inst = self.comp.add(op, operands, attrs, called=called, shape=shape, name=name)
        inst.metadata = self.metadata
        inst.span = self.span
        return inst

    def element(self, inst: Instruction, index: int) -> Instruction:
        """Element `index` of a tuple-shaped instruction."""
        shape = inst.shape.tuple_shapes[index]
        element = self.comp.add(ops.GET_TUPLE_ELEMENT, [inst], ops.IndexAttrs(index), shape=shape)
        element.metadata, element.span = inst.metadata, inst.span
        return element

    def elements(self, inst: Instruction) -> list[Instruction]:
        """All elements of a tuple-shaped instruction."""
        return [self.element(inst, i) for i in range(len(inst.shape.tuple_shapes))]

    def tuple(self, items: Sequence[Instruction]) -> Instruction:
        """A tuple of `items`."""
        return self.add(ops.TUPLE, items, shape=Shape.tuple_of(i.shape for i in items))

    def pack(self, items: Sequence[Instruction]) -> Instruction:
        """The item itself when there is one, else a tuple (HLO's convention for results and loop state)."""
        return items[0] if len(items) == 1 else self.tuple(items)

    def unpack(self, inst: Instruction, count: int) -> list[Instruction]:
        """The reverse of `pack`."""
        return [inst] if count == 1 else self.elements(inst)

    def constant(self, literal: Literal) -> Instruction:
        """A constant instruction."""
        return self.add(ops.CONSTANT, (), ops.ConstantAttrs(literal), shape=literal.shape)

    def scalar(self, value: object, like: Shape) -> Instruction:
        """A rank-0 constant of `like`'s element type."""
        return self.constant(Literal.scalar(value, like.element_type))

    def splat(self, value: object, shape: Shape) -> Instruction:
        """`value` in every element of `shape`: a scalar constant and a broadcast."""
        scalar = self.scalar(value, shape)
        return scalar if shape.rank == 0 else self.broadcast(scalar, (), shape)

    def broadcast(self, operand: Instruction, dims: Sequence[int], shape: Shape) -> Instruction:
        """HLO broadcast: operand dimension i becomes dimension dims[i] of `shape`, same size."""
        return self.add(ops.BROADCAST, [operand], ops.DimensionsAttrs(tuple(dims)), shape=shape)

    def reshape(self, operand: Instruction, dims: Sequence[int]) -> Instruction:
        """The same elements under other static dims."""
        return self.add(ops.RESHAPE, [operand], ops.ReshapeAttrs(), shape=operand.shape.with_dims(dims))

    def convert(self, operand: Instruction, like: Shape) -> Instruction:
        """The operand in `like`'s element type (itself if it has it already)."""
        if operand.shape.element_type is like.element_type:
            return operand
        shape = operand.shape.without_layout().with_type(like.element_type)
        return self.add(ops.CONVERT, [operand], shape=shape)

    # -- types -------------------------------------------------------------------------------------------------

    def shape(self, type_: Type) -> Shape:
        """The HLO shape of an MLIR type. Raises NotHloError for `?` dimensions."""
        return self.converter.shape(type_)

    def result(self, op: Operation, index: int = 0) -> Shape:
        """The shape of a result. Raises INVALID_ARGUMENT if the operation has no such result."""
        if index >= len(op.results):
            raise invalid(f"{op.name} needs {index + 1} results, has {len(op.results)}")
        return self.converter.shape(op.results[index].type)

    def packed_result(self, op: Operation) -> Shape:
        """The one result's shape, or the tuple of all."""
        shapes = [self.converter.shape(v.type) for v in op.results]
        return shapes[0] if len(shapes) == 1 else Shape.tuple_of(shapes)


def arity(op: Operation, count: int, results: int = 1) -> None:
    """Raises INVALID_ARGUMENT unless the operation has this many operands and results."""
    if len(op.operands) != count:
        raise invalid(f"{op.name} needs {count} operands, has {len(op.operands)}")
    if len(op.results) != results:
        raise invalid(f"{op.name} needs {results} results, has {len(op.results)}")


def at_least(op: Operation, count: int) -> None:
    """Raises INVALID_ARGUMENT unless the operation has at least this many operands."""
    if len(op.operands) < count:
        raise invalid(f"{op.name} needs at least {count} operands, has {len(op.operands)}")


def regions(op: Operation, count: int) -> None:
    """Raises INVALID_ARGUMENT unless the operation has this many regions."""
    if len(op.regions) != count:
        raise invalid(f"{op.name} needs {count} regions, has {len(op.regions)}")
