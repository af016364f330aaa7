"""Custom assembly of the upstream dialects in which buffer-level programs are written: arith, memref, scf, gpu.

Only what such programs use. Source: the MLIR documentation of the 'arith', 'memref', 'scf' and 'gpu' dialects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xyla.formats.mlir.attributes import (
    UNIT,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TypeAttr,
    function_type_attr,
)
from xyla.formats.mlir.dialects import CustomParser, Dialects
from xyla.formats.mlir.ir import Block, Operation, Region, Value
from xyla.formats.mlir.lexer import DENSE, NUMBER, STRING, SYMBOL, VALUE, WORD
from xyla.formats.mlir.types import I1, I32, I64, INDEX, MemRefType, TensorType, Type

if TYPE_CHECKING:
    from xyla.formats.mlir.parser import Parser

Names = list[tuple[str, int]]


def _attributes(p: Parser, op: Operation) -> None:
    if p.tok == "{":
        op.attributes.update(p.parse_dict())


def _indices(p: Parser) -> Names:
    """`[%i, %j]`."""
    p.expect("[")
    names = p.parse_operand_names()
    p.expect("]")
    return names


def _terminated(region: Region, name: str) -> Region:
    """The region with the terminator that its assembly leaves out."""
    if not region.blocks:
        region.blocks.append(Block())
    ops = region.blocks[-1].operations
    if not ops or ops[-1].name != name:
        ops.append(Operation(name))
    return region


# -- arith -----------------------------------------------------------------------------------------------------


def _constant(p: Parser, op: Operation) -> list[Type]:
    """`arith.constant 0 : index`, `true`, `dense<...> : tensor<...>`."""
    _attributes(p, op)
    start = p.start
    value = p.parse_attr()
    op.properties["value"] = value
    if isinstance(value, BoolAttr):
        return [I1]
    if isinstance(value, IntegerAttr | FloatAttr | DenseAttr):
        return [value.type]
    raise p.error("expected a typed constant", start)


def _same_type(p: Parser, op: Operation) -> list[Type]:
    """`arith.addi %a, %b : i32`."""
    names = p.parse_operand_names()
    _attributes(p, op)
    p.expect(":")
    type_ = p.parse_type()
    op.operands = p.resolve(names, [type_] * len(names))
    return [type_]


_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def _compare(p: Parser, op: Operation) -> list[Type]:
    """`arith.cmpi slt, %a, %b : i32`."""
    start = p.start
    word = p.take(WORD, "a predicate")
    if word not in _PREDICATES:
        raise p.error(f"'{word[:20]}' is none of {', '.join(_PREDICATES)}", start)
    op.properties["predicate"] = IntegerAttr(_PREDICATES.index(word), I64)
    p.expect(",")
    _same_type(p, op)
    return [I1]


def _select(p: Parser, op: Operation) -> list[Type]:
    """`arith.select %c, %a, %b : i32`."""
    names = p.parse_operand_names()
    _attributes(p, op)
    p.expect(":")
    type_ = p.parse_type()
    op.operands = p.resolve(names, [I1, *[type_] * (len(names) - 1)])
    return [type_]


def _cast(p: Parser, op: Operation) -> list[Type]:
    """`arith.index_cast %a : index to i32`."""
    names = p.parse_operand_names()
    _attributes(p, op)
    p.expect(":")
    source = p.parse_type()
    p.expect("to")
    op.operands = p.resolve(names, [source])
    return [p.parse_type()]


# -- memref ----------------------------------------------------------------------------------------------------


def _view(p: Parser, op: Operation) -> list[Type]:
    """`memref.view %m[%offset][%sizes] : memref<16xi8> to memref<4xf32>`."""
    names = p.parse_operand_names()
    names += _indices(p)
    names += _indices(p)
    _attributes(p, op)
    p.expect(":")
    source = p.parse_type()
    p.expect("to")
    op.operands = p.resolve(names, [source, *[INDEX] * (len(names) - 1)])
    return [p.parse_type()]


def _int_list(p: Parser) -> DenseArrayAttr:
    """`[0, 1]`: numbers only."""
    p.expect("[")
    values: list[int] = []
    while p.tok != "]":
        if p.kind != NUMBER:
            raise p.error("only static offsets, sizes and strides are understood")
        values.append(p.take_int("a number"))
        if not p.accept(","):
            break
    p.expect("]")
    return DenseArrayAttr(I64, tuple(values))


def _reinterpret_cast(p: Parser, op: Operation) -> list[Type]:
    """`memref.reinterpret_cast %m to offset: [0], sizes: [2, 3], strides: [1, 2] : T to T`."""
    names = p.parse_operand_names()
    p.expect("to")
    for number, key in enumerate(("offset", "sizes", "strides")):
        if number:
            p.expect(",")
        p.expect(key)
        p.expect(":")
        op.properties[f"static_{key.removesuffix('s')}s"] = _int_list(p)
    _attributes(p, op)
    p.expect(":")
    source = p.parse_type()
    p.expect("to")
    op.operands = p.resolve(names, [source])
    return [p.parse_type()]


def _get_global(p: Parser, op: Operation) -> list[Type]:
    """`memref.get_global @name : memref<4xf32>`."""
    op.properties["name"] = p.parse_symbol_ref()
    _attributes(p, op)
    p.expect(":")
    return [p.parse_type()]


def _global(p: Parser, op: Operation) -> list[Type]:
    """`memref.global "private" constant @name : memref<4xf32> = dense<0.0>`."""
    if p.kind == STRING:
        op.properties["sym_visibility"] = StringAttr(p.parse_string())
    if p.accept("constant"):
        op.properties["constant"] = UNIT
    op.properties["sym_name"] = StringAttr(p.parse_symbol())
    p.expect(":")
    start = p.start
    type_ = p.parse_type()
    if not isinstance(type_, MemRefType) or type_.dims is None:
        raise p.error(f"a global is a ranked memref, not {type_}", start)
    op.properties["type"] = TypeAttr(type_)
    if p.accept("="):
        op.properties["initial_value"] = _initial(p, TensorType(type_.dims, type_.element))
    _attributes(p, op)
    return []


def _initial(p: Parser, type_: TensorType) -> Attribute:
    if p.accept("uninitialized"):
        return UNIT
    if p.kind != DENSE:
        raise p.expected("dense<...> or 'uninitialized'")
    start = p.start + len("dense<")
    is_hex = p.text.startswith('"0x', start)
    body = p.text[start + 3 : p.end - 2] if is_hex else p.text[start : p.end - 1]
    p.advance()
    return DenseAttr(body, type_, start, is_hex)


def _alloc(p: Parser, op: Operation) -> list[Type]:
    """`memref.alloca(%n) {alignment = 64 : i64} : memref<?xf32>`."""
    names = p.parse_paren_operand_names()
    _attributes(p, op)
    p.expect(":")
    op.operands = p.resolve(names, [INDEX] * len(names))
    return [p.parse_type()]


def _load(p: Parser, op: Operation) -> list[Type]:
    """`memref.load %m[%i] : memref<4xf32>`."""
    names = p.parse_operand_names()
    names += _indices(p)
    _attributes(p, op)
    p.expect(":")
    start = p.start
    type_ = p.parse_type()
    if not isinstance(type_, MemRefType):
        raise p.error(f"expected a memref, got {type_}", start)
    op.operands = p.resolve(names, [type_, *[INDEX] * (len(names) - 1)])
    return [type_.element]


# -- scf -------------------------------------------------------------------------------------------------------


def _while(p: Parser, op: Operation) -> list[Type]:
    """`scf.while : () -> () { ... } do { ... }`: loops whose state is in memory."""
    if p.tok == "(":
        p.parse_paren_operand_names()
    p.expect(":")
    start = p.start
    ftype = p.parse_function_type()
    if ftype.inputs or ftype.results:
        raise p.error("only loops without values are understood: their state is in memory", start)
    op.regions.append(p.parse_region(op))
    p.expect("do")
    op.regions.append(_terminated(p.parse_region(op), "scf.yield"))
    if p.accept("attributes"):
        op.attributes = p.parse_dict()
    return []


def _condition(p: Parser, op: Operation) -> list[Type]:
    """`scf.condition(%c)`."""
    op.operands = p.resolve(p.parse_paren_operand_names(), [I1])
    return []


def _yield(p: Parser, op: Operation) -> list[Type]:
    """`scf.yield`."""
    return []


def _index_switch(p: Parser, op: Operation) -> list[Type]:
    """`scf.index_switch %i case 0 { ... } default { ... }`: the default region comes first in the operation."""
    op.operands = p.resolve(p.parse_operand_names(), [INDEX])
    _attributes(p, op)
    cases: list[int] = []
    regions: list[Region] = []
    while p.accept("case"):
        cases.append(p.take_int("a case value"))
        regions.append(_terminated(p.parse_region(op), "scf.yield"))
    p.expect("default")
    op.regions = [_terminated(p.parse_region(op), "scf.yield"), *regions]
    op.properties["cases"] = DenseArrayAttr(I64, tuple(cases))
    return []


# -- gpu -------------------------------------------------------------------------------------------------------


def _memcpy(p: Parser, op: Operation) -> list[Type]:
    """`gpu.memcpy %dst, %src : T, T`."""
    names = p.parse_operand_names()
    _attributes(p, op)
    p.expect(":")
    op.operands = p.resolve(names, p.parse_type_list())
    return []


def _gpu_module(p: Parser, op: Operation) -> list[Type]:
    """`gpu.module @name attributes {...} { ... }`."""
    op.properties["sym_name"] = StringAttr(p.parse_symbol())
    if p.accept("attributes"):
        op.attributes = p.parse_dict()
    op.regions.append(p.parse_region(op, [], isolated=True))
    return []


def _gpu_func(p: Parser, op: Operation) -> list[Type]:
    """`gpu.func @name(%a: T) kernel attributes {...} { ... }`."""
    op.properties["sym_name"] = StringAttr(p.parse_symbol())
    arguments: list[tuple[str, Value, int]] = []
    p.expect("(")
    while p.kind == VALUE:
        arguments.append(p.parse_argument())
        if p.tok == "{":
            p.parse_dict()
        if not p.accept(","):
            break
    p.expect(")")
    op.properties["function_type"] = function_type_attr(tuple(value.type for _, value, _ in arguments), ())
    if p.accept("kernel"):
        op.attributes["gpu.kernel"] = UNIT
    if p.accept("attributes"):
        op.attributes.update(p.parse_dict())
    op.regions.append(p.parse_region(op, arguments, isolated=True))
    return []


def _launch_func(p: Parser, op: Operation) -> list[Type]:
    """`gpu.launch_func @m::@f blocks in (%x, %y, %z) threads in (%x, %y, %z) args(%a : T)`."""
    if p.kind != SYMBOL:
        raise p.expected("a kernel's name")
    op.properties["kernel"] = p.parse_symbol_ref()
    sizes: Names = []
    for word in ("blocks", "threads"):
        p.expect(word)
        p.expect("in")
        start = p.start
        sizes += p.parse_paren_operand_names()
        if len(sizes) % 3:
            raise p.error("a grid and a block have three sizes each", start)
    op.operands = p.resolve(sizes, [INDEX] * 6)
    count = 0
    if p.accept("args"):
        p.expect("(")
        while p.kind == VALUE:
            name = (p.tok, p.start)
            p.advance()
            p.expect(":")
            op.operands += p.resolve([name], [p.parse_type()])
            count += 1
            if not p.accept(","):
                break
        p.expect(")")
    op.properties["operandSegmentSizes"] = DenseArrayAttr(I32, (0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, count, 0))
    _attributes(p, op)
    return []


def _return(p: Parser, op: Operation) -> list[Type]:
    """`gpu.return`."""
    return []


_ARITH: dict[str, CustomParser] = {
    "arith.constant": _constant,
    "arith.cmpi": _compare,
    "arith.select": _select,
    "arith.index_cast": _cast,
    "arith.extui": _cast,
    "arith.extsi": _cast,
    "arith.trunci": _cast,
    **{f"arith.{name}": _same_type for name in ("addi", "subi", "muli", "andi", "ori", "xori", "minsi", "maxsi")},
}
_MEMREF: dict[str, CustomParser] = {
    "memref.view": _view,
    "memref.reinterpret_cast": _reinterpret_cast,
    "memref.get_global": _get_global,
    "memref.global": _global,
    "memref.alloc": _alloc,
    "memref.alloca": _alloc,
    "memref.load": _load,
}
_SCF: dict[str, CustomParser] = {
    "scf.while": _while,
    "scf.condition": _condition,
    "scf.yield": _yield,
    "scf.index_switch": _index_switch,
}
_GPU: dict[str, CustomParser] = {
    "gpu.memcpy": _memcpy,
    "gpu.module": _gpu_module,
    "gpu.func": _gpu_func,
    "gpu.launch_func": _launch_func,
    "gpu.return": _return,
    "gpu.module_end": _return,
}

UPSTREAM = Dialects({**_ARITH, **_MEMREF, **_SCF, **_GPU}, frozenset({"gpu.module", "gpu.func"}))
