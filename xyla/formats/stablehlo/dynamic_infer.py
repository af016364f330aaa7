"""Result types of an operation whose operands are static: what `?` stands for.

Most operations keep the dims of one operand; dynamic ones say theirs in an operand that must be known; for the others
the operation is converted in a scratch computation and HLO's shape inference answers. Source: the constraints on
result shapes in the StableHLO specification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xyla.formats.mlir.ir import Operation, Value
from xyla.formats.mlir.types import DYNAMIC, TensorType, TupleType, Type
from xyla.formats.stablehlo import decode_attrs as read
from xyla.formats.stablehlo import quantized, rules_mhlo
from xyla.formats.stablehlo.body import Body
from xyla.formats.stablehlo.convert import RULES
from xyla.formats.stablehlo.dynamic_calls import sizes, target
from xyla.formats.stablehlo.dynamic_fold import Folder, constant_value
from xyla.formats.stablehlo.program import NotHloError
from xyla.formats.stablehlo.types import dimension_bounds
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import NO_ATTRS, Attrs, OpDef
from xyla.hlo.shape import Shape
from xyla.support.status import invalid, unimplemented

Dims = tuple[int, ...]
Inferred = list[Dims]


def is_open(kind: Type) -> bool:
    """Whether the type has a `?` without a bound, here or in an element of a tuple."""
    if isinstance(kind, TupleType):
        return any(is_open(e) for e in kind.elements)
    if not isinstance(kind, TensorType) or kind.is_static:
        return False
    bounds = dimension_bounds(kind)
    return bounds is None or any(d == DYNAMIC and b == DYNAMIC for d, b in zip(kind.dims, bounds, strict=True))


def result_types(op: Operation, declared: list[Type], folder: Folder, dims: Sequence[Dims] | None) -> list[Type]:
    """The types of `op`'s results: `declared` with each open `?` replaced.

    `op` has its static operands and regions; `dims`: the results' dims where they are known already.
    Raises INVALID_ARGUMENT when sizes contradict the declared ones, NotHloError when one does not follow from operands.
    """
    if not any(map(is_open, declared)) and not _says_shape(op):
        return declared
    if op.name in _TYPED:
        return _TYPED[op.name](op, declared)
    found = list(dims) if dims is not None else _infer(op, declared, folder)
    if len(found) != len(declared):
        raise invalid(f"{op.name} has {len(found)} results, {len(declared)} are named")
    return [_merge(op, kind, size) for kind, size in zip(declared, found, strict=True)]


def _says_shape(op: Operation) -> bool:
    """Whether a known operand says the result's shape, which a static result type must agree with."""
    index = _SHAPED.get(op.name)
    return index is not None and index < len(op.operands) and constant_value(op.operands[index]) is not None


def _merge(op: Operation, kind: Type, dims: Dims) -> Type:
    if not isinstance(kind, TensorType):
        raise unimplemented(f"{op.name} with a result of type {kind}")
    if len(dims) != len(kind.dims) or any(k not in (d, DYNAMIC) for k, d in zip(kind.dims, dims, strict=True)):
        raise invalid(f"{op.name} gives a result of shape [{', '.join(map(str, dims))}], its type says {kind}")
    if any(d < 0 for d in dims):
        raise invalid(f"{op.name} gives a result of negative size: [{', '.join(map(str, dims))}]")
    return TensorType(dims, kind.element) if is_open(kind) else kind


def _infer(op: Operation, declared: list[Type], folder: Folder) -> Inferred:
    shaped = _SHAPED.get(op.name)
    if shaped is not None:
        return [sizes(op, shaped)]
    formula = _FORMULAS.get(op.name)
    if formula is not None:
        return formula(op, declared)
    dialect, _, name = op.name.partition(".")
    if dialect == "stablehlo" and name in _PROBED:
        return [_probe(op, _tensor(op, declared), folder)]
    if dialect == "chlo" and name.startswith("broadcast_"):
        return [_broadcast(op)]
    return _like_operands(op, declared)


# -- sizes that operands have ----------------------------------------------------------------------------------


def operand_dims(op: Operation, index: int) -> Dims:
    """The static dims of an operand. Raises INVALID_ARGUMENT if there is none."""
    kind = op.operands[index].type if index < len(op.operands) else None
    if not isinstance(kind, TensorType) or is_open(kind):
        raise invalid(f"{op.name} needs a tensor of known shape as operand {index}, not {kind}")
    if not kind.is_static:
        raise unimplemented(f"{op.name} of bounded dimensions with a result of unbounded ones")
    return kind.dims


def _like_operands(op: Operation, declared: list[Type]) -> Inferred:
    """Element by element: each result has the dims of the operand at its place, or of the first of its rank."""
    if op.name == "stablehlo.custom_call" and target(op) not in _LIKE_OPERAND:
        raise unimplemented(f"the result shape of custom call @{target(op)} for dynamic operands")
    if op.name.split(".")[0] not in ("stablehlo", "chlo", "sdy") or op.name in _OWN_SHAPE:
        raise unimplemented(f"the result shape of {op.name} for dynamic operands")
    ranks = [len(v.type.dims) if isinstance(v.type, TensorType) else -1 for v in op.operands]
    out: Inferred = []
    for i, kind in enumerate(declared):
        rank = len(kind.dims) if isinstance(kind, TensorType) else -1
        at = i if len(declared) > 1 and i < len(ranks) and ranks[i] == rank else None
        if at is None:
            at = next((j for j, r in enumerate(ranks) if r == rank), None)
        if at is None:
            raise invalid(f"no operand of {op.name} has the rank of its result, {kind}")
        out.append(operand_dims(op, at))
    return out


def _operand(index: int) -> Callable[[Operation, list[Type]], Inferred]:
    return lambda op, declared: [operand_dims(op, index)]


def _tensor(op: Operation, declared: list[Type]) -> TensorType:
    if len(declared) != 1 or not isinstance(declared[0], TensorType):
        raise invalid(f"{op.name} needs one tensor as its result")
    return declared[0]


def _reshape(op: Operation, declared: list[Type]) -> Inferred:
    """At most one `?`: what is left of the element count."""
    kind, count = _tensor(op, declared), _count(operand_dims(op, 0))
    known = _count(tuple(d for d in kind.dims if d != DYNAMIC))
    if kind.dims.count(DYNAMIC) > 1 or not known:
        raise NotHloError(f"the result of {op.name} has several unknown dimensions: {kind}")
    return [tuple(count // known if d == DYNAMIC else d for d in kind.dims)]


def _count(dims: Dims) -> int:
    count = 1
    for d in dims:
        count *= d
    return count


def _bitcast(op: Operation, declared: list[Type]) -> Inferred:
    """Equal ranks: the operand's dims. Else the last dimension appears or goes away."""
    kind, dims = _tensor(op, declared), operand_dims(op, 0)
    if len(kind.dims) <= len(dims):
        return [dims[: len(kind.dims)]]
    return [(*dims, kind.dims[-1])]


def _reduce(op: Operation, declared: list[Type]) -> Inferred:
    gone = read.ints(op, "dimensions")
    half = len(op.operands) // 2
    return [tuple(d for i, d in enumerate(operand_dims(op, k)) if i not in gone) for k in range(half)]


def _reduce_window(op: Operation, declared: list[Type]) -> Inferred:
    half = len(op.operands) // 2
    window = read.window(
        op, read.ints(op, "window_dimensions"), lhs_dilations="base_dilations", rhs_dilations="window_dilations"
    )
    if any(min(w.stride, w.lhs_dilate, w.rhs_dilate) < 1 for w in window.dims):
        raise invalid(f"strides and dilations of {op.name} must be positive")
    out: Inferred = []
    for k in range(half):
        dims = operand_dims(op, k)
        if len(dims) != len(window.dims):
            raise invalid(f"the window of {op.name} has {len(window.dims)} dimensions, operand {k} has {len(dims)}")
        out.append(tuple(w.output_size(d) for d, w in zip(dims, window.dims, strict=True)))
    return out


def _old_broadcast(op: Operation, declared: list[Type]) -> Inferred:
    return [(*read.ints(op, "broadcast_sizes"), *operand_dims(op, 0))]


def _top_k(op: Operation, declared: list[Type]) -> Inferred:
    dims = (*operand_dims(op, 0)[:-1], read.integer(op, "k"))
    return [dims, dims]


def _sort(op: Operation, declared: list[Type]) -> Inferred:
    return [operand_dims(op, i) for i in range(len(op.operands))]


def _broadcast(op: Operation) -> Dims:
    """NumPy's rule over all operands (trailing dimensions align)."""
    shapes = [operand_dims(op, i) for i in range(len(op.operands))]
    out: list[int] = []
    for back in range(1, max(map(len, shapes), default=0) + 1):
        found = {s[-back] for s in shapes if len(s) >= back}
        wide = found - {1}
        if len(wide) > 1:
            raise invalid(f"the operands of {op.name} do not broadcast: {shapes}")
        out.append(wide.pop() if wide else 1)
    return tuple(reversed(out))


# -- sizes that HLO's inference knows --------------------------------------------------------------------------


class _Probe(Body):
    """A body whose rules do not know the result's shape: HLO infers it."""

    __slots__ = ()

    def add(
        self,
        op: OpDef[Any],
        operands: Sequence[Instruction] = (),
        attrs: Attrs = NO_ATTRS,
        *,
        shape: Shape | None,
        called: Sequence[Computation] = (),
        name: str = "",
    ) -> Instruction:
        return self.comp.add(op, operands, attrs, called=called, shape=shape, name=name)

    def result(self, op: Operation, index: int = 0) -> Shape:
        return None  # type: ignore[return-value]  # what `add` takes as: infer it


def _probe(op: Operation, declared: Type, folder: Folder) -> Dims:
    """The dims that HLO infers for the one instruction that `op` becomes."""
    scratch = folder.scratch()
    body = _Probe(scratch.converter, scratch.comp)
    number = 0
    for value in dict.fromkeys(op.operands):
        if _is_constant(value):
            continue
        attrs = ops.ParameterAttrs(number)
        kind, shape = quantized.of_type(value.type), body.shape(value.type)
        shape = shape if kind is None else shape.with_type(kind.expressed)
        body.env[value] = body.add(ops.PARAMETER, (), attrs, shape=shape)
        number += 1
    op.results = [Value("r", declared, op, 0)]
    result = RULES[op.name](body, op)
    op.results = []
    assert isinstance(result, Instruction)  # each of _PROBED has one result
    return result.shape.dims


def _is_constant(value: Value) -> bool:
    return isinstance(value.owner, Operation) and value.owner.name == "stablehlo.constant"


# -- whole types -----------------------------------------------------------------------------------------------


def _operand_types(op: Operation, declared: list[Type]) -> list[Type]:
    return [v.type for v in op.operands]


def _branch_types(op: Operation, declared: list[Type]) -> list[Type]:
    """What the first branch returns; the conversion checks that the others agree."""
    block = op.regions[0].entry if op.regions else None
    if block is None or not block.operations:
        raise invalid(f"{op.name} needs a branch")
    return [v.type for v in block.operations[-1].operands]


def _tuple(op: Operation, declared: list[Type]) -> list[Type]:
    return [TupleType(tuple(v.type for v in op.operands))]


def _get_tuple_element(op: Operation, declared: list[Type]) -> list[Type]:
    kind, index = op.operands[0].type if op.operands else None, read.integer(op, "index")
    if not isinstance(kind, TupleType) or not 0 <= index < len(kind.elements):
        raise invalid(f"{kind} has no element {index}")
    return [kind.elements[index]]


_TYPED: dict[str, Callable[[Operation, list[Type]], list[Type]]] = {
    "stablehlo.while": _operand_types,
    "stablehlo.optimization_barrier": _operand_types,
    "stablehlo.if": _branch_types,
    "stablehlo.case": _branch_types,
    "stablehlo.tuple": _tuple,
    "stablehlo.get_tuple_element": _get_tuple_element,
}
# Operations whose dims are the value of an operand, by its index.
_SHAPED = {
    "stablehlo.dynamic_broadcast_in_dim": 1,
    "stablehlo.dynamic_iota": 0,
    "stablehlo.dynamic_reshape": 1,
    "stablehlo.rng": 2,
    "chlo.dynamic_reshape": 1,
}
_FORMULAS: dict[str, Callable[[Operation, list[Type]], Inferred]] = {
    "stablehlo.reshape": _reshape,
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.broadcast": _old_broadcast,
    "stablehlo.triangular_solve": _operand(1),
    "stablehlo.scatter": lambda op, declared: [operand_dims(op, i) for i in range(len(declared))],
    "stablehlo.sort": _sort,
    "chlo.top_k": _top_k,
}
_PROBED = frozenset({
    "concatenate", "convolution", "dot", "dot_general", "dynamic_conv", "dynamic_gather", "dynamic_pad", "fft",
    "gather", "pad", "real_dynamic_slice", "slice", "transpose",
})  # fmt: skip
# Custom calls that work element by element.
_LIKE_OPERAND = frozenset({
    *rules_mhlo.UNARY, "Sharding", "annotate_device_placement", "xla.sdy.Sharding",
})  # fmt: skip
# Operations whose result is shaped unlike any operand and that have no formula here.
_OWN_SHAPE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_gather", "all_to_all", "batch_norm_grad", "batch_norm_training", "broadcast_in_dim", "einsum",
        "infeed", "iota", "recv", "reduce_scatter", "torch_index_select", "unary_einsum",
    )
)  # fmt: skip
