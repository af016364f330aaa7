"""Custom assembly of StableHLO operations whose form is regular.

Most forms are one pattern: operands, then `key = value` pairs, an attribute dictionary and a type signature. The table
`KEYED` names the pairs. Irregular forms (reduce, while, convolution, ...) are in `assembly_structured`.
Source: the StableHLO specification and the operations' assembly formats as they appear in published programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xyla.formats.mlir.attributes import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DialectAttr,
    IntegerAttr,
    StringAttr,
)
from xyla.formats.mlir.dialects import CustomParser
from xyla.formats.mlir.ir import Operation
from xyla.formats.mlir.lexer import SYMBOL, WORD
from xyla.formats.mlir.types import I1, I32, I64, ComplexType, FunctionType, TensorType, TupleType, Type

if TYPE_CHECKING:
    from xyla.formats.mlir.parser import Parser

ValueReader = Callable[["Parser"], Attribute]
Names = list[tuple[str, int]]

# -- values of `key = value` -----------------------------------------------------------------------------------


def read_ints(p: Parser) -> Attribute:
    """`[0, -1]`."""
    return DenseArrayAttr(I64, tuple(int_list(p)))


def int_list(p: Parser) -> list[int]:
    """`[0, -1]` as a list."""
    p.expect("[")
    out = []
    while p.tok != "]":
        out.append(p.take_int())
        if not p.accept(","):
            break
    p.expect("]")
    return out


def read_int(p: Parser) -> Attribute:
    """An i64."""
    return IntegerAttr(p.take_int(), I64)


def read_int32(p: Parser) -> Attribute:
    """An i32."""
    return IntegerAttr(p.take_int(), I32)


def read_bool(p: Parser) -> Attribute:
    """`true` or `false`."""
    if p.tok not in ("true", "false"):
        raise p.expected("'true' or 'false'")
    value = p.tok == "true"
    p.advance()
    return BoolAttr(value)


def read_string(p: Parser) -> Attribute:
    """A string."""
    return StringAttr(p.parse_string())


def read_any(p: Parser) -> Attribute:
    """Any attribute."""
    return p.parse_attr()


def read_enum(kind: str) -> ValueReader:
    """A word of enum `kind`, kept as `#stablehlo<kind WORD>` like the generic form has it."""

    def read(p: Parser) -> Attribute:
        if p.tok == "#stablehlo" or p.tok == "#chlo":
            return p.parse_attr()
        return DialectAttr(f"#stablehlo<{kind} {p.take(WORD, f'a {kind}')}>")

    return read


def read_precision(p: Parser) -> Attribute:
    """`[DEFAULT, HIGHEST]`."""
    one = read_enum("precision")
    p.expect("[")
    items = []
    while p.tok != "]":
        items.append(one(p))
        if not p.accept(","):
            break
    p.expect("]")
    return ArrayAttr(tuple(items))


def read_algorithm(p: Parser) -> Attribute:
    """`<lhs_precision_type = tf32, ...>`, with or without `#stablehlo.dot_algorithm`."""
    if p.tok == "<":
        return DialectAttr("#stablehlo.dot_algorithm" + p.raw_angle())
    return p.parse_attr()


def read_accuracy(p: Parser) -> Attribute:
    """`<mode>` of result_accuracy."""
    if p.tok == "<":
        return DialectAttr("#stablehlo.result_accuracy" + p.raw_angle())
    return p.parse_attr()


# operation -> {key: (attribute, how to read it)}; operands come first, the type signature last.
Keys = dict[str, tuple[str, ValueReader]]

_ACCURACY: Keys = {"result_accuracy": ("result_accuracy", read_accuracy)}
KEYED: dict[str, Keys] = {
    "broadcast": {"sizes": ("broadcast_sizes", read_ints)},
    "broadcast_in_dim": {"dims": ("broadcast_dimensions", read_ints)},
    "cholesky": {"lower": ("lower", read_bool)},
    "concatenate": {"dim": ("dimension", read_int)},
    "dynamic_broadcast_in_dim": {
        "dims": ("broadcast_dimensions", read_ints),
        "expanding_dims": ("known_expanding_dimensions", read_ints),
        "nonexpanding_dims": ("known_nonexpanding_dimensions", read_ints),
    },
    "dot": {"precision": ("precision_config", read_precision)},
    "dynamic_iota": {"dim": ("iota_dimension", read_int)},
    "dynamic_slice": {"sizes": ("slice_sizes", read_ints)},
    "einsum": {"config": ("einsum_config", read_string), "precision": ("precision_config", read_precision)},
    "unary_einsum": {"config": ("einsum_config", read_string)},
    "fft": {"type": ("fft_type", read_enum("fft_type")), "length": ("fft_length", read_ints)},
    "get_dimension_size": {"dim": ("dimension", read_int)},
    "set_dimension_size": {"dim": ("dimension", read_int)},
    "iota": {"dim": ("iota_dimension", read_int)},
    "pad": {
        "low": ("edge_padding_low", read_ints),
        "high": ("edge_padding_high", read_ints),
        "interior": ("interior_padding", read_ints),
    },
    "reverse": {"dims": ("dimensions", read_ints)},
    "rng": {"distribution": ("rng_distribution", read_enum("rng_distribution"))},
    "rng_bit_generator": {"algorithm": ("rng_algorithm", read_enum("rng_algorithm"))},
    "torch_index_select": {"dim": ("dim", read_int), "batch_dims": ("batch_dims", read_int)},
    "transpose": {"dims": ("permutation", read_ints)},
    "dynamic_pad": {},
    "dynamic_reshape": {},
    "dynamic_update_slice": {},
    "real_dynamic_slice": {},
    "dynamic_gather": {},
}

# Operands and a signature, nothing else.
SIMPLE = (
    "abs", "add", "after_all", "and", "atan2", "bitcast_convert", "cbrt", "ceil", "clamp", "complex", "convert",
    "cosine", "count_leading_zeros", "create_token", "divide", "exponential", "exponential_minus_one", "floor", "imag",
    "is_finite", "log", "log_plus_one", "logistic", "maximum", "minimum", "multiply", "negate", "not",
    "optimization_barrier", "or", "partition_id", "popcnt", "power", "real", "remainder", "replica_id", "reshape",
    "round_nearest_afz", "round_nearest_even", "rsqrt", "select", "shift_left", "shift_right_arithmetic",
    "shift_right_logical", "sign", "sine", "sqrt", "subtract", "tan", "tanh", "tuple", "uniform_dequantize",
    "uniform_quantize", "xor", "cross-replica-sum", "collective_permute",
)  # fmt: skip

# -- signatures ------------------------------------------------------------------------------------------------


def finish(p: Parser, op: Operation, names: Names) -> list[Type]:
    """`{attributes} : signature`: resolves the operands and gives the result types."""
    if p.tok == "{":
        op.attributes = p.parse_dict()
    p.expect(":", f"before the type of {op.name}")
    inputs, results = signature(p, op.name, len(names))
    op.operands = p.resolve(names, inputs)
    return results


def finish_functional(p: Parser, op: Operation, names: Names) -> list[Type]:
    """`{attributes} : (T) -> T`."""
    if p.tok == "{":
        op.attributes = p.parse_dict()
    p.expect(":", f"before the type of {op.name}")
    ftype = p.parse_function_type()
    op.operands = p.resolve(names, ftype.inputs)
    return list(ftype.results)


def signature(p: Parser, name: str, arity: int) -> tuple[list[Type], list[Type]]:
    """Operand and result types from a full function type or one of its abbreviations."""
    if p.tok == "(":
        ftype: FunctionType = p.parse_function_type()
        return list(ftype.inputs), list(ftype.results)
    types = p.parse_type_list()
    if p.accept("->"):
        return types, p.parse_results()
    return _abbreviated(name, arity, types)


def _abbreviated(name: str, arity: int, types: list[Type]) -> tuple[list[Type], list[Type]]:
    last = types[-1]
    if name == "stablehlo.select" and len(types) == 2:
        return [types[0], last, last], [last]
    if name == "stablehlo.optimization_barrier" and len(types) == arity:
        return types, types
    if name == "stablehlo.complex" and isinstance(last, TensorType) and isinstance(last.element, ComplexType):
        part = TensorType(last.dims, last.element.element, last.encoding)
        return [part] * arity, [last]
    if name == "stablehlo.tuple" and isinstance(last, TupleType):
        return list(last.elements), [last]
    if name == "stablehlo.is_finite" and isinstance(last, TensorType):
        return [last] * arity, [TensorType(last.dims, I1, last.encoding)]
    return [last] * arity, [last]


# -- parsers ---------------------------------------------------------------------------------------------------


def simple(p: Parser, op: Operation) -> list[Type]:
    """`%a, %b {attributes} : signature`; the operands may stand in parentheses."""
    names = p.parse_paren_operand_names() if p.tok == "(" else p.parse_operand_names()
    while p.accept(","):
        read_pair(p, op, _ACCURACY)
    if not names and op.name == "stablehlo.optimization_barrier" and p.tok != ":":
        return []
    return finish(p, op, names)


def keyed(keys: Keys) -> CustomParser:
    """`%a, %b, key = value, ... {attributes} : signature`."""

    def parse(p: Parser, op: Operation) -> list[Type]:
        names = p.parse_operand_names()
        if names:
            while p.accept(","):
                read_pair(p, op, keys)
        elif p.tok != ":":
            read_pair(p, op, keys)
        return finish(p, op, names)

    return parse


def read_pair(p: Parser, op: Operation, keys: Keys) -> None:
    """`key = value` into the properties. Raises INVALID_ARGUMENT for a key the operation does not have."""
    found = keys.get(p.tok)
    if found is None:
        raise p.expected(" or ".join(f"'{k} ='" for k in keys) or f"the type of {op.name}")
    p.advance()
    p.expect("=")
    op.properties[found[0]] = found[1](p)


def _return(p: Parser, op: Operation) -> list[Type]:
    names = p.parse_operand_names()
    if p.tok == "{":
        op.attributes = p.parse_dict()
    types = p.parse_type_list() if p.accept(":") else []
    op.operands = p.resolve(names, types)
    return []


def _constant(p: Parser, op: Operation) -> list[Type]:
    """`constant {attributes} dense<...> : type`, or the generic tail `() <{value = ...}> : () -> type`."""
    if p.tok == "(":
        return generic_tail(p, op)
    if p.tok == "{":
        op.attributes = p.parse_dict()
    op.properties["value"] = value = p.parse_attr()
    if p.accept("->"):
        return p.parse_results()
    type_ = getattr(value, "type", None)
    if not isinstance(type_, Type):
        raise p.error("a constant needs a dense value with a type", op.start)
    return [type_]


def generic_tail(p: Parser, op: Operation) -> list[Type]:
    """`(operands) <{properties}> {attributes} : type`."""
    names = p.parse_paren_operand_names()
    if p.accept("<"):
        op.properties = p.parse_dict()
        p.expect(">")
    return finish_functional(p, op, names)


def _compare(p: Parser, op: Operation) -> list[Type]:
    """`compare LT, %a, %b, SIGNED : signature`."""
    op.properties["comparison_direction"] = read_enum("comparison_direction")(p)
    p.expect(",")
    names = p.parse_operand_names()
    if p.accept(","):
        op.properties["compare_type"] = read_enum("comparison_type")(p)
    return finish(p, op, names)


def _slice(p: Parser, op: Operation) -> list[Type]:
    """`slice %a [0:4, 2:8:3] : signature`."""
    names = p.parse_operand_names()
    starts, limits, strides = [], [], []
    p.expect("[")
    while p.tok != "]":
        starts.append(p.take_int())
        p.expect(":")
        limits.append(p.take_int())
        strides.append(p.take_int() if p.accept(":") else 1)
        if not p.accept(","):
            break
    p.expect("]")
    op.properties["start_indices"] = DenseArrayAttr(I64, tuple(starts))
    op.properties["limit_indices"] = DenseArrayAttr(I64, tuple(limits))
    op.properties["strides"] = DenseArrayAttr(I64, tuple(strides))
    return finish(p, op, names)


def _get_tuple_element(p: Parser, op: Operation) -> list[Type]:
    """`get_tuple_element %t[1] : signature`."""
    names = p.parse_operand_names()
    p.expect("[")
    op.properties["index"] = read_int32(p)
    p.expect("]")
    return finish(p, op, names)


def _reduce_precision(p: Parser, op: Operation) -> list[Type]:
    """`reduce_precision %a, format = e8m7 : signature`."""
    names = p.parse_operand_names()
    p.expect(",")
    p.expect("format")
    p.expect("=")
    exponent, m, mantissa = p.tok[1:].partition("m")
    if p.tok[:1] != "e" or not m or not exponent.isdigit() or not mantissa.isdigit() or len(p.tok) > 12:
        raise p.expected("a format such as e8m7")
    p.advance()
    op.properties["exponent_bits"] = IntegerAttr(int(exponent), I32)
    op.properties["mantissa_bits"] = IntegerAttr(int(mantissa), I32)
    return finish(p, op, names)


def _dot_general(p: Parser, op: Operation) -> list[Type]:
    """`dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [..], ... : T`."""
    names = p.parse_operand_names()
    dims: dict[str, tuple[list[int], list[int]]] = {}
    while p.accept(","):
        if p.tok in ("batching_dims", "contracting_dims"):
            key = p.tok
            p.advance()
            p.expect("=")
            lhs = int_list(p)
            p.expect("x")
            dims[key] = (lhs, int_list(p))
        else:
            keys: Keys = {
                "precision": ("precision_config", read_precision),
                "algorithm": ("algorithm", read_algorithm),
            }
            read_pair(p, op, keys)
    batch = dims.get("batching_dims", ([], []))
    contract = dims.get("contracting_dims", ([], []))
    op.properties["dot_dimension_numbers"] = DialectAttr(
        f"#stablehlo.dot<lhs_batching_dimensions = {batch[0]}, rhs_batching_dimensions = {batch[1]}, "
        f"lhs_contracting_dimensions = {contract[0]}, rhs_contracting_dimensions = {contract[1]}>"
    )
    return finish(p, op, names)


def _trace(p: Parser, op: Operation) -> list[Type]:
    """`trace %a, "tag" : T`; it has no result."""
    names = p.parse_operand_names()
    p.expect(",")
    op.properties["tag"] = StringAttr(p.parse_string())
    finish(p, op, names)
    return []


def _custom_call(p: Parser, op: Operation) -> list[Type]:
    """`custom_call @target(%a) {attributes} : signature`."""
    if p.kind == SYMBOL:
        op.properties["call_target_name"] = StringAttr(p.parse_symbol())
    else:
        op.properties["call_target_name"] = StringAttr(p.parse_string())
    names = p.parse_paren_operand_names()
    return finish(p, op, names)


def _composite(p: Parser, op: Operation) -> list[Type]:
    """`composite "name" %a, %b {attributes} : signature`."""
    op.properties["name"] = StringAttr(p.parse_string())
    names = p.parse_operand_names()
    return finish(p, op, names)


REGULAR: dict[str, CustomParser] = {
    **{f"stablehlo.{name}": simple for name in SIMPLE},
    **{f"stablehlo.{name}": keyed(keys) for name, keys in KEYED.items()},
    "stablehlo.return": _return,
    "stablehlo.constant": _constant,
    "stablehlo.compare": _compare,
    "stablehlo.slice": _slice,
    "stablehlo.get_tuple_element": _get_tuple_element,
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.custom_call": _custom_call,
    "stablehlo.trace": _trace,
    "stablehlo.composite": _composite,
}
parse_return = _return
