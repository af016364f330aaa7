"""Custom calls that stand for dynamic operations: with known sizes they become the operations themselves.

Source: the StableHLO documentation of `stablehlo.dynamic_*` custom calls (experimental operations), `shape_assertion`
and `indices_of_shape_operands`, and the operand order seen in exported programs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from xyla.formats.mlir import dense
from xyla.formats.mlir.attributes import (
    ArrayAttr,
    Attribute,
    DenseArrayAttr,
    DenseAttr,
    DictAttr,
    IntegerAttr,
    StringAttr,
    SymbolRef,
)
from xyla.formats.mlir.ir import Operation
from xyla.formats.mlir.types import I64, TensorType
from xyla.formats.stablehlo.dynamic_fold import constant_value
from xyla.formats.stablehlo.program import NotHloError
from xyla.support.status import invalid, unimplemented

_PLACE = re.compile(r"\{(\d{1,3})\}")


def target(op: Operation) -> str:
    """What a custom call calls."""
    name = op.get("call_target_name")
    return name.value if isinstance(name, StringAttr) else ""


def sizes(op: Operation, index: int) -> tuple[int, ...]:
    """Operand `index` as integers. Raises NotHloError when they are not known."""
    if index >= len(op.operands):
        raise invalid(f"{op.name} has no operand {index}")
    found = constant_value(op.operands[index])
    if found is None:
        raise NotHloError(f"operand {index} of {op.name} ({target(op)}) does not follow from the argument shapes")
    return tuple(int(v) for v in found.reshape(-1))


# The operation that stands for a call, and its results' dims where operands do not give them.
Rewritten = tuple[Operation, Sequence[tuple[int, ...]] | None]


def rewrite(copy: Operation, op: Operation, functions: Mapping[str, Operation]) -> Rewritten:
    """What the custom call `copy` (operands refined) stands for: a dynamic operation, or itself.

    `op` is the original. Raises NotHloError when a size is not known.
    """
    known = _REWRITES.get(target(copy))
    if known is not None:
        return known(copy, op, functions)
    dims = _shape_operands(copy, len(op.results))
    if dims is not None:
        _drop_shape_operands(copy)
    return copy, dims


def checked(op: Operation) -> bool:
    """Whether `op` is a shape assertion, which is then checked. Raises INVALID_ARGUMENT when it does not hold."""
    if op.name != "stablehlo.custom_call" or target(op) != "shape_assertion":
        return False
    if not op.operands:
        raise invalid("shape_assertion needs a condition")
    if sizes(op, 0) not in ((0,), (1,)):
        raise invalid("the condition of shape_assertion is not one truth value")
    if sizes(op, 0) == (0,):
        message = op.get("error_message")
        text = message.value if isinstance(message, StringAttr) else "a shape assertion fails"
        raise invalid(_PLACE.sub(lambda m: _filled(op, m), text))
    return True


def _filled(op: Operation, match: re.Match[str]) -> str:
    """`{0}` names the first operand after the condition."""
    index = int(match[1]) + 1
    value = constant_value(op.operands[index]) if index < len(op.operands) else None
    return match[0] if value is None else str(value.reshape(-1)[0])


def _shape_operands(op: Operation, count: int) -> list[tuple[int, ...]] | None:
    """The result dims that `indices_of_shape_operands` points to; None without such an attribute."""
    attr = op.get("indices_of_shape_operands")
    if attr is None:
        return None
    indices = dense.ints(attr)
    if indices is None or len(indices) != count:
        raise invalid(f"indices_of_shape_operands of {op.name} needs one index a result")
    return [sizes(op, i) for i in indices]


def _drop_shape_operands(op: Operation) -> None:
    """With static results the shape operands have said all they had to say."""
    indices = dense.ints(op.get("indices_of_shape_operands"))
    if indices is None:
        return
    op.operands = [v for i, v in enumerate(op.operands) if i not in indices]
    op.properties = {k: v for k, v in op.properties.items() if k != "indices_of_shape_operands"}
    op.attributes = {k: v for k, v in op.attributes.items() if k != "indices_of_shape_operands"}


def _new(copy: Operation, name: str, properties: dict[str, Attribute]) -> Operation:
    new = Operation(name, copy.start)
    new.end, new.loc = copy.end, copy.loc
    new.properties = properties
    return new


def _i64_list(values: tuple[int, ...]) -> DenseArrayAttr:
    return DenseArrayAttr(I64, values)


def _region_of(copy: Operation, functions: Mapping[str, Operation], parameters: int) -> Operation:
    """The one function that the call names, which becomes a region."""
    attr = copy.get("called_computations")
    names = [a.root for a in attr.items if isinstance(a, SymbolRef)] if isinstance(attr, ArrayAttr) else []
    function = functions.get(names[0]) if len(names) == 1 else None
    block = function.regions[0].entry if function is not None and function.regions else None
    if function is None or block is None:
        raise invalid(f"{target(copy)} needs one called computation")
    if len(block.arguments) != parameters:
        raise invalid(f"@{names[0]} takes {len(block.arguments)} arguments, {target(copy)} gives it {parameters}")
    if any(op.name in ("func.call", "stablehlo.composite") for op in block.operations):
        raise unimplemented(f"{target(copy)}: @{names[0]} calls other functions")
    return function


def _rng_bit_generator(copy: Operation, op: Operation, functions: Mapping[str, Operation]) -> Rewritten:
    """(state, shape) -> (state, bits)."""
    algorithm = copy.get("rng_algorithm")
    new = _new(copy, "stablehlo.rng_bit_generator", {} if algorithm is None else {"rng_algorithm": algorithm})
    shape = sizes(copy, 1)
    new.operands = copy.operands[:1]
    state = copy.operands[0].type
    return new, [state.dims if isinstance(state, TensorType) else (), shape]


def _top_k(copy: Operation, op: Operation, functions: Mapping[str, Operation]) -> Rewritten:
    """(operand, k) -> (values, indices)."""
    count = sizes(copy, 1)
    if len(count) != 1:
        raise invalid("stablehlo.dynamic_top_k needs one k")
    new = _new(copy, "chlo.top_k", {"k": IntegerAttr(count[0], I64)})
    new.operands = copy.operands[:1]
    return new, None


def _reduce_window(copy: Operation, op: Operation, functions: Mapping[str, Operation]) -> Rewritten:
    """(inputs, inits, window dims, strides, base dilations, window dilations, padding [rank, 2]) -> results."""
    count = len(op.results)
    if len(copy.operands) != 2 * count + 5:
        raise invalid(f"{target(copy)} with {count} results needs {2 * count + 5} operands")
    keys = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    properties: dict[str, Attribute] = {key: _i64_list(sizes(copy, 2 * count + i)) for i, key in enumerate(keys)}
    flat = sizes(copy, 2 * count + 4)
    if len(flat) % 2:
        raise invalid(f"the padding of {target(copy)} is not a list of pairs")
    padding = np.array(flat, np.int64).reshape(-1, 2)
    properties["padding"] = DenseAttr(str(padding.tolist()), TensorType(padding.shape, I64))
    new = _new(copy, "stablehlo.reduce_window", properties)
    new.operands = copy.operands[: 2 * count]
    new.regions = _region_of(copy, functions, 2 * count).regions
    return new, None


def _approx_top_k(copy: Operation, op: Operation, functions: Mapping[str, Operation]) -> Rewritten:
    """(inputs, inits, k, shapes...) -> ApproxTopK, which has k in its configuration."""
    count = len(op.results)
    config = copy.get("mhlo.backend_config")
    if len(copy.operands) < 2 * count + 1 or not isinstance(config, DictAttr):
        raise invalid(f"{target(copy)} with {count} results needs {2 * count + 1} operands and a backend_config")
    dims, k = _shape_operands(copy, count), sizes(copy, 2 * count)
    if dims is None or len(k) != 1:
        raise invalid(f"{target(copy)} needs one k and indices_of_shape_operands")
    new = _new(copy, copy.name, {**copy.properties, **copy.attributes})
    new.properties.pop("indices_of_shape_operands", None)
    new.properties["call_target_name"] = StringAttr("ApproxTopK")
    new.properties["mhlo.backend_config"] = DictAttr((*config.entries, ("top_k", IntegerAttr(k[0], I64))))
    new.operands = copy.operands[: 2 * count]
    return new, dims


_REWRITES = {
    "stablehlo.dynamic_rng_bit_generator": _rng_bit_generator,
    "stablehlo.dynamic_top_k": _top_k,
    "stablehlo.dynamic_reduce_window": _reduce_window,
    "stablehlo.dynamic_approx_top_k": _approx_top_k,
}
