"""Operations on quantized tensors as integer and float HLO.

Three kinds. Operations that only move, select or pass on elements work on the storage integers. Quantization and
dequantization are formulas (quantized.py). All others follow the specification's dequantize-op-quantize rule: operands
become values, the operation runs on them, its results are quantized again; an operand or a result that is not
quantized (hybrid operations, comparisons) stays as it is. Source: the StableHLO specification.
"""

from __future__ import annotations

from collections.abc import Callable

from xyla.formats.mlir.ir import Operation, Value
from xyla.formats.mlir.types import TensorType
from xyla.formats.stablehlo import quantized
from xyla.formats.stablehlo.body import Body, Result, Rule, arity
from xyla.formats.stablehlo.quantized import QuantType, dequantize, quantize
from xyla.hlo.module import Instruction
from xyla.support.status import invalid, unimplemented

# The region says what they do: its operations see quantized scalars.
_REGIONAL = frozenset(
    "stablehlo." + name
    for name in (
        "all_reduce", "map", "reduce", "reduce_scatter", "reduce_window", "scatter", "select_and_scatter", "sort",
    )
)  # fmt: skip
# Elements are moved as they are, so all tensors must agree on what an element means.
_MOVING = frozenset(
    "stablehlo." + name
    for name in (
        "all_gather", "all_to_all", "broadcast", "broadcast_in_dim", "collective_broadcast", "collective_permute",
        "concatenate", "dynamic_broadcast_in_dim", "dynamic_gather", "dynamic_pad", "dynamic_reshape", "dynamic_slice",
        "dynamic_update_slice", "gather", "pad", "real_dynamic_slice", "reshape", "reverse", "select", "slice",
        "torch_index_select", "transpose",
    )
)  # fmt: skip
# Order is kept by quantization, so these agree on storage when all tensors are quantized alike.
_MONOTONE = frozenset({"stablehlo.clamp", "stablehlo.maximum", "stablehlo.minimum"})
# Values are passed on, or are bits.
_PASSING = frozenset({
    "func.call", "stablehlo.bitcast_convert", "stablehlo.case", "stablehlo.composite", "stablehlo.constant",
    "stablehlo.custom_call", "stablehlo.get_dimension_size", "stablehlo.get_tuple_element", "stablehlo.if",
    "stablehlo.optimization_barrier", "stablehlo.set_dimension_size", "stablehlo.tuple", "stablehlo.while",
})  # fmt: skip

Bind = Callable[[Body, Operation, Result], None]


def involved(op: Operation) -> bool:
    """Whether an operand or a result is quantized."""
    return any(_is_quantized(v) for v in op.operands) or any(_is_quantized(v) for v in op.results)


def _is_quantized(value: Value) -> bool:
    return isinstance(value.type, TensorType) and quantized.of_type(value.type) is not None


def convert(body: Body, op: Operation, rule: Rule, bind: Bind) -> Result:
    """The instructions for `op`; `rule` is its conversion on plain tensors, `bind` records what a rule gave back.

    Raises INVALID_ARGUMENT where tensors that must be quantized alike are not.
    """
    kinds = [quantized.of_type(v.type) for v in (*op.operands, *op.results)]
    present = [k for k in kinds if k is not None]
    alike = all(k.same_values(present[0]) for k in present)
    if op.name in _PASSING:
        return rule(body, op)
    if op.name in _REGIONAL:
        _check_region(op)
        return rule(body, op)
    if op.name in _MOVING:
        if not alike:
            raise invalid(f"the tensors of {op.name} are quantized differently")
        return rule(body, op)
    if op.name in _MONOTONE and alike and len(present) == len(kinds):
        return rule(body, op)
    return _on_values(body, op, rule, bind)


def _check_region(op: Operation) -> None:
    """A region must take the tensors' own element types: storage integers of another type would mean other values."""
    known = [k for v in op.operands if (k := quantized.of_type(v.type)) is not None]
    for region in op.regions:
        for value in region.entry.arguments if region.entry is not None else ():
            kind = quantized.of_type(value.type)
            if kind is not None and not any(kind.same_values(k) for k in known):
                raise unimplemented(f"{op.name}: a region that takes {value.type}, a type of no operand")


def _on_values(body: Body, op: Operation, rule: Rule, bind: Bind) -> Result:
    """dequantize-op-quantize: the operation runs on stand-ins of the expressed types."""
    plain = Operation(op.name, op.start)
    plain.end, plain.loc = op.end, op.loc
    plain.properties, plain.attributes, plain.regions = op.properties, op.attributes, op.regions
    for value in op.operands:
        kind = quantized.of_type(value.type)
        if kind is None:
            plain.operands.append(value)
            continue
        stand_in = _stand_in(value, kind)
        body.env[stand_in] = dequantize(body, body.get(value), kind)
        plain.operands.append(stand_in)
    kinds = [quantized.of_type(v.type) for v in op.results]
    plain.results = [v if k is None else _stand_in(v, k) for v, k in zip(op.results, kinds, strict=True)]
    bind(body, plain, rule(body, plain))
    out: list[Instruction] = []
    for value, kind in zip(plain.results, kinds, strict=True):
        inst = body.get(value)
        out.append(inst if kind is None else quantize(body, inst, kind))
    return out


def _stand_in(value: Value, kind: QuantType) -> Value:
    assert isinstance(value.type, TensorType)
    return Value(value.name, quantized.expressed_type(value.type, kind), None, value.index)


def _uniform_quantize(body: Body, op: Operation) -> Result:
    """The operand here is plain: a quantized one has been dequantized, which makes this a requantization."""
    arity(op, 1)
    return body.get(op.operands[0])


def _uniform_dequantize(body: Body, op: Operation) -> Result:
    arity(op, 1)
    inst = body.get(op.operands[0])
    if inst.shape.element_type is not body.result(op).element_type:
        raise invalid(f"{op.name} gives {op.results[0].type} for values of type {inst.shape}")
    return inst


# Between dequantization of the operands and quantization of the results nothing is left to do.
RULES: dict[str, Rule] = {
    "stablehlo.uniform_quantize": _uniform_quantize,
    "stablehlo.uniform_dequantize": _uniform_dequantize,
}
