"""Custom assembly of StableHLO operations with regions or windows: reduce, while, convolution."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xyla.formats.mlir.attributes import Attribute, DenseArrayAttr, DenseAttr, DialectAttr
from xyla.formats.mlir.dialects import CustomParser
from xyla.formats.mlir.ir import Block, Operation, Region, Value
from xyla.formats.mlir.lexer import VALUE, WORD
from xyla.formats.mlir.types import I1, I64, TensorType, Type
from xyla.formats.stablehlo.assembly import Names, finish, finish_functional, int_list

if TYPE_CHECKING:
    from xyla.formats.mlir.parser import Parser

_CONV_DIMS = re.compile(r"\[[^\[\]]*\]\s*x\s*\[[^\[\]]*\]\s*->\s*\[[^\[\]]*\]")
Argument = tuple[str, Value, int]

# -- reduce ----------------------------------------------------------------------------------------------------


def _reduce(p: Parser, op: Operation) -> list[Type]:
    """`reduce(%a init: %i), (...) [applies op] across dimensions = [..] : T [reducer(%x: T, %y: T) (...) {...}]`."""
    inputs, inits = _reduce_operands(p)
    applied = ""
    if p.accept("applies"):
        applied = p.take(WORD, "an operation name")
    p.expect("across")
    p.expect("dimensions")
    p.expect("=")
    op.properties["dimensions"] = DenseArrayAttr(I64, tuple(int_list(p)))
    results = finish_functional(p, op, inputs + inits)
    if applied:
        op.regions.append(_applied_region(p, op, applied, len(inputs)))
    else:
        op.regions.append(_reducer(p, op, len(inputs)))
    return results


def _reduce_operands(p: Parser) -> tuple[Names, Names]:
    inputs: Names = []
    inits: Names = []
    while True:
        p.expect("(")
        start = p.start
        inputs.append((p.take(VALUE, "a value"), start))
        p.expect("init")
        p.expect(":")
        start = p.start
        inits.append((p.take(VALUE, "a value"), start))
        p.expect(")")
        if not p.accept(","):
            return inputs, inits


def _applied_region(p: Parser, op: Operation, name: str, count: int) -> Region:
    """The region that `applies name` stands for: one operation on two scalars and a return."""
    init = op.operands[-1].type
    if count != 1 or not isinstance(init, TensorType):
        raise p.error("'applies' needs one input and a tensor init value", op.start)
    if name not in p.dialects.custom:
        raise p.error(f"'{name}' is not an operation that reduce can apply", op.start)
    block = Block()
    block.arguments = [Value(f"arg{i}", init, block, i) for i in range(2)]
    inner = Operation(name, op.start)
    inner.operands = list(block.arguments)
    inner.results = [Value("", init, inner, 0)]
    end = Operation("stablehlo.return", op.start)
    end.operands = list(inner.results)
    inner.end = end.end = p.start
    block.operations = [inner, end]
    return Region([block])


def _reducer(p: Parser, op: Operation, count: int) -> Region:
    """`reducer(%x0: T, %y0: T) (%x1: U, %y1: U) {...}`: the block takes x0, x1, ..., y0, y1, ..."""
    p.expect("reducer")
    first: list[Argument] = []
    second: list[Argument] = []
    while p.tok == "(":
        p.advance()
        first.append(p.parse_argument())
        p.expect(",")
        second.append(p.parse_argument())
        p.expect(")")
    if len(first) != count:
        raise p.error(f"reducer has {len(first)} argument pairs for {count} inputs", op.start)
    p.parse_optional_location()
    return p.parse_region(op, first + second)


# -- while -----------------------------------------------------------------------------------------------------


def _while(p: Parser, op: Operation) -> list[Type]:
    """`while(%x = %init, ...) : T, ... attributes {...} cond {...} do {...}`."""
    bound: Names = []
    inits: Names = []
    p.expect("(")
    while p.tok != ")":
        start = p.start
        bound.append((p.take(VALUE, "an argument name"), start))
        p.expect("=")
        start = p.start
        inits.append((p.take(VALUE, "a value"), start))
        if not p.accept(","):
            break
    p.expect(")")
    types = p.parse_type_list() if p.accept(":") and bound else []
    op.operands = p.resolve(inits, types)
    if p.accept("attributes"):
        op.attributes = p.parse_dict()
    for word in ("cond", "do"):
        p.expect(word)
        arguments: list[Argument] = []
        for (name, start), type_ in zip(bound, types, strict=True):
            arguments.append((name, Value(name[1:], type_, None, 0), start))
        op.regions.append(p.parse_region(op, arguments))
    return types


# -- convolution -----------------------------------------------------------------------------------------------


def _convolution(p: Parser, op: Operation) -> list[Type]:
    """`convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {...} {...} : signature`."""
    names = p.parse_paren_operand_names()
    p.expect("dim_numbers")
    if p.tok != "=":
        raise p.expected("'='")
    m = _CONV_DIMS.match(p.text, _skip_space(p.text, p.end))
    if m is None:
        raise p.error("expected dimension numbers such as [b, 0, f]x[0, i, o]->[b, 0, f]")
    op.properties["dimension_numbers"] = DialectAttr(f"#stablehlo.conv<{m[0]}>")
    p.seek(m.end())
    if p.accept(","):
        p.expect("window")
        p.expect("=")
        _window(p, op)
    return finish(p, op, names)


def _skip_space(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def _window(p: Parser, op: Operation) -> None:
    """`{stride = [1, 1], pad = [[0, 1], [0, 1]], lhs_dilate = .., rhs_dilate = .., reverse = [false, true]}`."""
    keys = {"stride": "window_strides", "lhs_dilate": "lhs_dilation", "rhs_dilate": "rhs_dilation"}
    p.expect("{")
    while p.tok != "}":
        key = p.take(WORD, "a window field")
        p.expect("=")
        if key in keys:
            op.properties[keys[key]] = DenseArrayAttr(I64, tuple(int_list(p)))
        elif key == "pad":
            op.properties["padding"] = _padding(p)
        elif key == "reverse":
            op.properties["window_reversal"] = _bools(p)
        else:
            raise p.error(f"a window has no field '{key}'")
        if not p.accept(","):
            break
    p.expect("}")


def _padding(p: Parser) -> Attribute:
    start = p.start
    p.expect("[")
    pairs: list[list[int]] = []
    while p.tok != "]":
        pairs.append(int_list(p))
        if len(pairs[-1]) != 2:
            raise p.error("padding is a list of pairs", start)
        if not p.accept(","):
            break
    p.expect("]")
    text = str(pairs) if pairs else ""
    return DenseAttr(text, TensorType((len(pairs), 2), I64), start)


def _bools(p: Parser) -> Attribute:
    """`[false, true]`, or the integers 0 and 1."""
    p.expect("[")
    out: list[bool] = []
    while p.tok != "]":
        if p.tok not in ("true", "false", "0", "1"):
            raise p.expected("'true' or 'false'")
        out.append(p.tok in ("true", "1"))
        p.advance()
        if not p.accept(","):
            break
    p.expect("]")
    return DenseArrayAttr(I1, tuple(out))


STRUCTURED: dict[str, CustomParser] = {
    "stablehlo.reduce": _reduce,
    "stablehlo.while": _while,
    "stablehlo.convolution": _convolution,
    "stablehlo.dynamic_conv": _convolution,
}
