"""Launches as the LMHLO dialect itself writes them: `lmhlo.add` on memrefs, `lmhlo.fusion` with a region of MHLO.

    "lmhlo.fusion"() ({
      %a = bufferization.to_tensor %x : memref<4xf32>
      %b = mhlo.exponential %a : tensor<4xf32>
      memref.tensor_store %b, %y : memref<4xf32>
      "lmhlo.terminator"() : () -> ()
    }) : () -> ()

What such an operation does becomes a function on tensors, which the StableHLO reader turns into HLO. Source: the
dialects' operation definitions; operands come first, results last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from xyla.formats.mlir.attributes import Attribute, StringAttr, function_type_attr
from xyla.formats.mlir.dialects import CustomParser, Dialects
from xyla.formats.mlir.ir import Block, MlirModule, Operation, Region, Value
from xyla.formats.mlir.parser import Parser
from xyla.formats.mlir.types import MemRefType, TensorType, Type
from xyla.formats.stablehlo import from_mlir
from xyla.formats.stablehlo.assembly import REGULAR
from xyla.formats.stablehlo.assembly_structured import STRUCTURED
from xyla.hlo import ops, rewriter
from xyla.hlo.attr_types import FusionKind
from xyla.hlo.module import Instruction, Module
from xyla.hlo.shape import Layout, Shape
from xyla.lowering import lmhlo
from xyla.lowering.layouts import agree
from xyla.lowering.outline import Outlined
from xyla.support.status import invalid, unimplemented

# What share of the operands are results; of other operations the last one is.
_RESULTS = {"lmhlo.sort": Fraction(1, 2), "lmhlo.reduce": Fraction(1, 3), "lmhlo.reduce_window": Fraction(1, 3)}
_COUNTS = {"lmhlo.batch_norm_training": 3, "lmhlo.batch_norm_grad": 3, "lmhlo.rng_bit_generator": 2}
_LOADS = frozenset({"bufferization.to_tensor", "memref.tensor_load"})
_STORE = "memref.tensor_store"
_TERMINATORS = frozenset({"lmhlo.terminator", "mhlo.return"})
_NOT_ATTRIBUTES = frozenset({"operand_segment_sizes", "operandSegmentSizes", "backend_config"})


@dataclass(frozen=True, slots=True)
class Described:
    """What a launch reads and writes, and the module that says what it does."""

    opcode: str
    inputs: tuple[lmhlo.View, ...]
    outputs: tuple[lmhlo.View, ...]
    hlo: Outlined


def describe(module: MlirModule, op: Operation, view_of: Callable[[Value], Any]) -> Described:
    """The launch that an operation of the dialect stands for; `view_of` gives the view of each memref.

    Raises UNIMPLEMENTED for an operation that StableHLO has no counterpart of.
    """
    if op.name == "lmhlo.fusion":
        body, loaded, stored = _fused(op)
    else:
        body, loaded, stored = _applied(op)
    inputs, outputs = tuple(map(view_of, loaded)), tuple(map(view_of, stored))
    if not all(isinstance(v, lmhlo.View) for v in (*inputs, *outputs)):
        raise invalid(f"the operands of {op.name} are memrefs")
    hlo = _converted(module, op, body, inputs, outputs)
    return Described(hlo.entry.root.op.name, inputs, outputs, Outlined(lambda: hlo))


def _tensor(type_: Type) -> TensorType:
    if not isinstance(type_, MemRefType) or type_.dims is None:
        raise invalid(f"expected a ranked memref, got {type_}")
    return TensorType(type_.dims, type_.element)


# -- bodies on tensors -------------------------------------------------------------------------------------------


def _applied(op: Operation) -> tuple[Block, list[Value], list[Value]]:
    """A block that applies the operation to tensors, and the memrefs that it reads and writes."""
    count = len(op.operands)
    results = _COUNTS.get(op.name, 1) if op.name not in _RESULTS else int(count * _RESULTS[op.name])
    if not 0 < results <= count:
        raise invalid(f"{op.name} has {count} operands: none is left for its results")
    read, written = op.operands[: count - results], op.operands[count - results :]
    block, inner = Block(), Operation(_stable(op.name), op.start)
    block.arguments = [Value(f"a{i}", _tensor(v.type), block, i) for i, v in enumerate(read)]
    inner.end, inner.operands, inner.regions = op.end, list(block.arguments), op.regions
    inner.attributes = {**op.properties, **op.attributes}
    for name in _NOT_ATTRIBUTES & inner.attributes.keys():
        del inner.attributes[name]
    inner.results = [Value(f"r{i}", _tensor(v.type), inner, i) for i, v in enumerate(written)]
    _rename_nested(inner)
    block.operations = [inner, _return(inner.results)]
    return block, list(read), list(written)


def _fused(op: Operation) -> tuple[Block, list[Value], list[Value]]:
    """The same of a fusion: its loads are arguments, its stores results."""
    if op.operands or len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
        raise invalid("lmhlo.fusion is a region of one block, without operands")
    block = Block()
    read: list[Value] = []
    stored: list[tuple[Value, Value]] = []
    for inner in op.regions[0].blocks[0].operations:
        if inner.name in _LOADS:
            result = inner.results[0]
            result.owner, result.index = block, len(read)
            block.arguments.append(result)
            read.append(inner.operands[0])
        elif inner.name == _STORE:
            stored.append((inner.operands[0], inner.operands[1]))
        elif inner.name not in _TERMINATORS:
            inner.name = _stable(inner.name)
            _rename_nested(inner)
            block.operations.append(inner)
    if not stored:
        raise invalid("lmhlo.fusion stores nothing")
    block.operations.append(_return([tensor for tensor, _ in stored]))
    return block, read, [memref for _, memref in stored]


def _stable(name: str) -> str:
    """StableHLO's name of an operation of LMHLO or MHLO."""
    dialect, _, rest = name.partition(".")
    return f"stablehlo.{rest}" if dialect in ("lmhlo", "mhlo") else name


def _rename_nested(op: Operation) -> None:
    for inner in op.walk():
        if inner is not op:
            inner.name = _stable(inner.name)


def _return(values: Sequence[Value]) -> Operation:
    op = Operation("func.return")
    op.operands = list(values)
    return op


# -- to HLO ------------------------------------------------------------------------------------------------------


def _converted(
    source: MlirModule, op: Operation, body: Block, inputs: Sequence[lmhlo.View], outputs: Sequence[lmhlo.View]
) -> Module:
    """The HLO module of a function on tensors, its entry one instruction in the layouts of the views."""
    function = Operation("func.func", op.start)
    function.end = op.end
    name: Attribute = StringAttr("main")
    function.properties = {
        "sym_name": name,
        "function_type": function_type_attr(
            tuple(v.type for v in body.arguments), tuple(v.type for v in body.operations[-1].operands)
        ),
    }
    function.regions = [Region([body])]
    top = Operation("builtin.module", op.start)
    top.end, top.regions = op.end, [Region([Block()])]
    top.regions[0].blocks[0].operations = [function]
    made = from_mlir(MlirModule(top, source.source, source.locations))
    if not isinstance(made, Module):
        raise unimplemented(f"{op.name}: its shapes are not static")
    _one_instruction(made, [_laid_out(v) for v in inputs], [_laid_out(v) for v in outputs])
    return agree(made)


@dataclass(frozen=True, slots=True)
class _Order:
    """The dimensions of an array, fastest-varying first; None when it is row-major."""

    minor_to_major: tuple[int, ...] | None

    def of(self, shape: Shape) -> Shape:
        """The shape in this order."""
        return shape if self.minor_to_major is None else shape.with_layout(Layout.of(self.minor_to_major))


def _laid_out(view: lmhlo.View) -> _Order:
    order = view.type.minor_to_major
    return _Order(None if order == tuple(reversed(range(len(order)))) else order)


def _one_instruction(module: Module, inputs: Sequence[_Order], outputs: Sequence[_Order]) -> None:
    """Makes the entry's root the one instruction that does all, with operands and results as they lie in memory."""
    body = module.entry
    for p, order in zip(body.parameters, inputs, strict=True):
        rewriter.set_shape(p, order.of(p.shape))
    whole = _packed(body.root)
    if whole is not body.root:
        dead = [body.root, *body.root.operands]
        body.set_root(whole)
        for inst in dead:
            rewriter.erase(inst)
    result = _result_shape(body.root.shape, outputs)
    if len(body.instructions) == len(body.parameters) + 1 and list(body.root.operands) == list(body.parameters):
        rewriter.set_shape(body.root, result)
        return
    entry = module.add_computation("launch")
    for i, p in enumerate(body.parameters):
        entry.add(ops.PARAMETER, [], ops.ParameterAttrs(i), shape=p.shape)
    attrs = ops.FusionAttrs(FusionKind.LOOP)
    entry.set_root(entry.add(ops.FUSION, entry.parameters, attrs, called=[body], shape=result))
    module.set_entry(entry)


def _packed(root: Instruction) -> Instruction:
    """The instruction whose whole result tuple `root` only takes apart and puts together again, or `root`."""
    if root.op is not ops.TUPLE or not root.operands:
        return root
    elements = root.operands
    if any(e.op is not ops.GET_TUPLE_ELEMENT or e.attrs.index != i for i, e in enumerate(elements)):
        return root
    sources = {e.operands[0] for e in elements}
    whole = elements[0].operands[0]
    return whole if len(sources) == 1 and len(whole.shape.tuple_shapes) == len(elements) else root


def _result_shape(shape: Shape, outputs: Sequence[_Order]) -> Shape:
    if not shape.is_tuple:
        return outputs[0].of(shape)
    return Shape.tuple_of(o.of(s) for o, s in zip(outputs, shape.tuple_shapes, strict=True))


# -- assembly ----------------------------------------------------------------------------------------------------


def _as_stable(name: str, parse: CustomParser) -> CustomParser:
    """MHLO's assembly is StableHLO's."""

    def read(p: Parser, op: Operation) -> list[Type]:
        op.name = name
        return parse(p, op)

    return read


def _load(p: Parser, op: Operation) -> list[Type]:
    """`bufferization.to_tensor %m : memref<4xf32>`."""
    names = p.parse_operand_names()
    p.expect(":")
    start = p.start
    type_ = p.parse_type()
    if not isinstance(type_, MemRefType) or type_.dims is None:
        raise p.error(f"expected a ranked memref, got {type_}", start)
    op.operands = p.resolve(names, [type_])
    return [_tensor(type_)]


def _store(p: Parser, op: Operation) -> list[Type]:
    """`memref.tensor_store %t, %m : memref<4xf32>`."""
    names = p.parse_operand_names()
    p.expect(":")
    type_ = p.parse_type()
    op.operands = p.resolve(names, [_tensor(type_), type_])
    return []


_MHLO: dict[str, CustomParser] = {
    name.replace("stablehlo.", "mhlo."): _as_stable(name, parse)
    for name, parse in {**REGULAR, **STRUCTURED}.items()
    if name.startswith("stablehlo.")
}
REGIONS = Dialects({**_MHLO, **dict.fromkeys(sorted(_LOADS), _load), _STORE: _store})
