"""Custom assembly of the builtin and func dialects: module, func.func, func.call, func.return.

Source: the MLIR documentation of the 'builtin' and 'func' dialects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xyla.formats.mlir.attributes import ArrayAttr, Attribute, DictAttr, StringAttr, function_type_attr
from xyla.formats.mlir.dialects import Dialects
from xyla.formats.mlir.ir import Operation, Value
from xyla.formats.mlir.lexer import SYMBOL, VALUE, WORD
from xyla.formats.mlir.types import Type

if TYPE_CHECKING:
    from xyla.formats.mlir.parser import Parser

_NO_ATTRS = DictAttr(())


def _module(p: Parser, op: Operation) -> list[Type]:
    """`module @name attributes {...} { ... }`."""
    if p.kind == SYMBOL:
        op.properties["sym_name"] = StringAttr(p.parse_symbol())
    if p.accept("attributes"):
        op.attributes = p.parse_dict()
    op.regions.append(p.parse_region(op, [], isolated=True))
    return []


def _func(p: Parser, op: Operation) -> list[Type]:
    """`func.func private @name(%a: T {attrs}, ...) -> (T {attrs}) attributes {...} { ... }`."""
    if p.kind == WORD and p.tok in ("public", "private", "nested"):
        op.properties["sym_visibility"] = StringAttr(p.tok)
        p.advance()
    op.properties["sym_name"] = StringAttr(p.parse_symbol())
    arguments, inputs, arg_attrs = _signature(p)
    results: list[Type] = []
    result_attrs: list[DictAttr] = []
    if p.accept("->"):
        results, result_attrs = _results(p)
    op.properties["function_type"] = function_type_attr(tuple(inputs), tuple(results))
    _keep_attrs(op, "arg_attrs", arg_attrs)
    _keep_attrs(op, "res_attrs", result_attrs)
    if p.accept("attributes"):
        op.attributes = p.parse_dict()
    if p.tok == "{":
        op.regions.append(p.parse_region(op, arguments, isolated=True))
    return []


def _keep_attrs(op: Operation, key: str, attrs: list[DictAttr]) -> None:
    if any(a.entries for a in attrs):
        items: tuple[Attribute, ...] = tuple(attrs)
        op.properties[key] = ArrayAttr(items)


def _signature(p: Parser) -> tuple[list[tuple[str, Value, int]], list[Type], list[DictAttr]]:
    """The parameter list: named (a definition) or bare types (a declaration)."""
    arguments: list[tuple[str, Value, int]] = []
    inputs: list[Type] = []
    attrs: list[DictAttr] = []
    p.expect("(")
    while p.tok != ")":
        if p.kind == VALUE:
            start = p.start
            name = p.take(VALUE, "an argument name")
            p.expect(":")
            value = Value(name[1:], p.parse_type(), None, len(inputs))
            arguments.append((name, value, start))
            inputs.append(value.type)
        else:
            inputs.append(p.parse_type())
        attrs.append(_optional_dict(p))
        loc = p.parse_optional_location()
        if arguments:
            arguments[-1][1].loc = loc
        if not p.accept(","):
            break
    p.expect(")")
    return arguments, inputs, attrs


def _results(p: Parser) -> tuple[list[Type], list[DictAttr]]:
    if p.tok != "(":
        return [p.parse_type()], [_NO_ATTRS]
    types: list[Type] = []
    attrs: list[DictAttr] = []
    p.expect("(")
    while p.tok != ")":
        types.append(p.parse_type())
        attrs.append(_optional_dict(p))
        if not p.accept(","):
            break
    p.expect(")")
    return types, attrs


def _optional_dict(p: Parser) -> DictAttr:
    return DictAttr(tuple(p.parse_dict().items())) if p.tok == "{" else _NO_ATTRS


def _return(p: Parser, op: Operation) -> list[Type]:
    """`return %a, %b {attrs} : T, T`."""
    names = p.parse_operand_names()
    if p.tok == "{":
        op.attributes = p.parse_dict()
    types: list[Type] = []
    if names:
        p.expect(":")
        types = p.parse_type_list()
    op.operands = p.resolve(names, types)
    return []


def _call(p: Parser, op: Operation) -> list[Type]:
    """`call @f(%a) {attrs} : (T) -> T`."""
    op.properties["callee"] = p.parse_symbol_ref()
    names = p.parse_paren_operand_names()
    if p.tok == "{":
        op.attributes = p.parse_dict()
    p.expect(":")
    ftype = p.parse_function_type()
    op.operands = p.resolve(names, ftype.inputs)
    return list(ftype.results)


BUILTIN = Dialects(
    {"builtin.module": _module, "func.func": _func, "func.call": _call, "func.return": _return},
    frozenset({"builtin.module", "func.func"}),
    {"func.func": "func"},
)

# The assembly of any `return`-like terminator, for dialects that have their own.
parse_return = _return
