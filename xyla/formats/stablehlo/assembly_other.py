"""Custom assembly of the dialects that appear beside StableHLO: chlo, check, sdy, shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xyla.formats.mlir.attributes import Attribute, DenseArrayAttr, DialectAttr, FloatAttr, StringAttr
from xyla.formats.mlir.dialects import CustomParser
from xyla.formats.mlir.ir import Operation, Value
from xyla.formats.mlir.lexer import NUMBER, VALUE
from xyla.formats.mlir.types import F64, I32, Type
from xyla.formats.stablehlo.assembly import (
    Keys,
    finish,
    finish_functional,
    keyed,
    parse_return,
    read_int,
    read_pair,
    read_precision,
    read_string,
    simple,
)

if TYPE_CHECKING:
    from xyla.formats.mlir.parser import Parser

# -- chlo ------------------------------------------------------------------------------------------------------

_CHLO_SIMPLE = (
    "_asin_acos_kernel", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i1e", "broadcast_add",
    "broadcast_and", "broadcast_atan2", "broadcast_compare", "broadcast_complex", "broadcast_divide",
    "broadcast_maximum", "broadcast_minimum", "broadcast_multiply", "broadcast_next_after", "broadcast_or",
    "broadcast_polygamma", "broadcast_power", "broadcast_remainder", "broadcast_select", "broadcast_shift_left",
    "broadcast_shift_right_arithmetic", "broadcast_shift_right_logical", "broadcast_subtract", "broadcast_xor",
    "broadcast_zeta", "conj", "constant_like", "cosh", "digamma", "dynamic_reshape", "erf", "erf_inv", "erfc", "is_inf",
    "is_neg_inf", "is_pos_inf", "lgamma", "minimum_broadcast_shapes", "mulhi", "next_after", "polygamma",
    "reshape_dynamic", "sinh", "square", "tan", "zeta",
)  # fmt: skip


def _top_k(p: Parser, op: Operation) -> list[Type]:
    """`top_k(%a, k = 2) {attributes} : T -> (T, T)`."""
    p.expect("(")
    names = p.parse_operand_names()
    while p.accept(","):
        read_pair(p, op, {"k": ("k", read_int), "largest": ("largest", lambda q: q.parse_attr())})
    p.expect(")")
    return finish(p, op, names)


def _chlo_constant(p: Parser, op: Operation) -> list[Type]:
    op.properties["value"] = value = p.parse_attr()
    type_ = getattr(value, "type", None)
    if not isinstance(type_, Type):
        raise p.error("a constant needs a dense value with a type", op.start)
    return [type_]


def _scan(p: Parser, op: Operation) -> list[Type]:
    """`scan(%a) inits(%b) dimension=0 attributes {...} {region} : (T, U) -> (T, U)`."""
    inputs = p.parse_paren_operand_names()
    p.expect("inits")
    inits = p.parse_paren_operand_names()
    p.expect("dimension")
    p.expect("=")
    op.properties["dimension"] = read_int(p)
    op.properties["operandSegmentSizes"] = DenseArrayAttr(I32, (len(inputs), len(inits)))
    if p.accept("attributes"):
        op.attributes = p.parse_dict()
    op.regions.append(p.parse_region(op))
    return finish_functional(p, op, inputs + inits)


# -- check -----------------------------------------------------------------------------------------------------


def _read_number(p: Parser) -> Attribute:
    """A number without a type (the `:` that follows begins the operands' types)."""
    if p.kind != NUMBER:
        raise p.expected("a number")
    tok = p.tok
    p.advance()
    return FloatAttr(float(tok), F64) if "." in tok else p.number_attr(tok, None, p.start)


_CHECK_KEYS: Keys = {
    "tolerance": ("tolerance", _read_number),
    "probe_id": ("probe_id", read_string),
    "iter": ("iter", _read_number),
    "max_ulp_difference": ("max_ulp_difference", _read_number),
    "min_ulp_difference": ("min_ulp_difference", _read_number),
}


def _check_const(p: Parser, op: Operation) -> list[Type]:
    """`check.expect_eq_const %a, dense<...> : T, tolerance = 0.1`."""
    names = p.parse_operand_names()
    p.expect(",")
    op.properties["value"] = value = p.parse_attr()
    while p.accept(","):
        read_pair(p, op, _CHECK_KEYS)
    if p.tok == "{":
        op.attributes = p.parse_dict()
    type_ = getattr(value, "type", None)
    assert isinstance(type_, Type) or type_ is None
    op.operands = p.resolve(names, [type_] if type_ is not None else [])
    return []


def _check_pair(p: Parser, op: Operation) -> list[Type]:
    """`check.expect_close %a, %b, max_ulp_difference = 3 : T, T`."""
    names = p.parse_operand_names()
    while p.accept(","):
        read_pair(p, op, _CHECK_KEYS)
    if p.tok == "{":
        op.attributes = p.parse_dict()
    p.expect(":")
    types = p.parse_type_list()
    op.operands = p.resolve(names, types if len(types) == len(names) else types * len(names))
    return []


def _drop_results(p: Parser, op: Operation) -> list[Type]:
    """`interpreter.print %a {attributes} : T`."""
    simple(p, op)
    return []


# -- sdy -------------------------------------------------------------------------------------------------------


def _sdy_mesh(p: Parser, op: Operation) -> list[Type]:
    """`sdy.mesh @name = <["a"=2]>`."""
    op.properties["sym_name"] = StringAttr(p.parse_symbol())
    p.expect("=")
    op.properties["mesh"] = DialectAttr("#sdy.mesh" + p.raw_angle()) if p.tok == "<" else p.parse_attr()
    return []


def _sdy_constraint(p: Parser, op: Operation) -> list[Type]:
    """`sdy.sharding_constraint %a <@mesh, [{"a"}]> : T` (reshard alike)."""
    names = p.parse_operand_names()
    op.properties["sharding"] = DialectAttr("#sdy.sharding" + p.raw_angle())
    return finish(p, op, names)


def _sdy_words(p: Parser, op: Operation) -> list[Type]:
    """`sdy.propagation_barrier %a allowed_direction=NONE : T`, `sdy.sharding_group %a group_id=1 : T`."""
    names = p.parse_operand_names()
    while p.tok not in (":", "{"):
        key = p.tok
        p.advance()
        p.expect("=")
        op.properties[key] = StringAttr(p.tok)
        p.advance()
    results = finish(p, op, names)
    return [] if op.name == "sdy.sharding_group" else results


def _sdy_manual(p: Parser, op: Operation) -> list[Type]:
    """`sdy.manual_computation(%a) in_shardings=[..] out_shardings=[..] manual_axes={..} (%x: T) {...} : (T) -> T`."""
    names = p.parse_paren_operand_names()
    while p.tok in ("in_shardings", "out_shardings", "manual_axes"):
        key = p.tok
        p.advance()
        p.expect("=")
        op.properties[key] = StringAttr(p.raw_brackets())
    return _with_body(p, op, names)


def _sdy_named(p: Parser, op: Operation) -> list[Type]:
    """`sdy.named_computation<"f">(%a) in_shardings=.. (%x: T) {...} : (T) -> T`."""
    p.expect("<")
    op.properties["name"] = StringAttr(p.parse_string())
    p.expect(">")
    return _sdy_manual(p, op)


def _with_body(p: Parser, op: Operation, names: list[tuple[str, int]]) -> list[Type]:
    p.expect("(")
    arguments: list[tuple[str, Value, int]] = []
    while p.kind == VALUE:
        arguments.append(p.parse_argument())
        if not p.accept(","):
            break
    p.expect(")")
    op.regions.append(p.parse_region(op, arguments))
    return finish_functional(p, op, names)


# -- shape -----------------------------------------------------------------------------------------------------

_SHAPE_SIMPLE = (
    "add", "broadcast", "concat", "cstr_broadcastable", "cstr_eq", "dim", "from_extents", "get_extent", "max", "min",
    "mul", "num_elements", "rank", "shape_of", "to_extent_tensor",
)  # fmt: skip


def _const_shape(p: Parser, op: Operation) -> list[Type]:
    """`shape.const_shape [1, 2] : tensor<2xindex>`."""
    op.properties["shape"] = p.parse_attr()
    p.expect(":")
    return [p.parse_type()]


OTHER: dict[str, CustomParser] = {
    **{f"chlo.{name}": simple for name in _CHLO_SIMPLE},
    "chlo.top_k": _top_k,
    "chlo.scan": _scan,
    "chlo.constant": _chlo_constant,
    "chlo.ragged_dot": keyed({"precision": ("precision_config", read_precision)}),
    "check.expect_eq_const": _check_const,
    "check.expect_almost_eq_const": _check_const,
    "check.expect_eq": _check_pair,
    "check.expect_almost_eq": _check_pair,
    "check.expect_close": _check_pair,
    "check.expect_serialized_eq": _check_pair,
    "interpreter.probe": keyed({"probe_id": ("probe_id", read_string)}),
    "interpreter.print": _drop_results,
    "sdy.mesh": _sdy_mesh,
    "sdy.sharding_constraint": _sdy_constraint,
    "sdy.reshard": _sdy_constraint,
    "sdy.propagation_barrier": _sdy_words,
    "sdy.sharding_group": _sdy_words,
    "sdy.manual_computation": _sdy_manual,
    "sdy.named_computation": _sdy_named,
    "sdy.return": parse_return,
    **{f"shape.{name}": simple for name in _SHAPE_SIMPLE},
    "shape.const_shape": _const_shape,
}
