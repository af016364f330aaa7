"""Which LMHLO operation stands for an HLO instruction that is no kernel: one rule an op, in tables.

A rule is asked when the target has no kernel. It gives None where only the evaluator does what the instruction says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xyla.hlo import ops
from xyla.hlo.attr_types import CustomCallApiVersion
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.lowering import lmhlo
from xyla.lowering.outline import Outlined, as_entry, outline
from xyla.lowering.units import HandlerUnit
from xyla.runtime.custom_calls import CallContext
from xyla.runtime.program import Deferred
from xyla.support.dtypes import PRED

if TYPE_CHECKING:
    from xyla.lowering.hlo_to_lmhlo import Lowering

Rule = Callable[["Lowering", Instruction], "lmhlo.Op | None"]
StartRule = Callable[["Lowering", Instruction, "lmhlo.Token | None"], "lmhlo.Op | None"]

# Device to device, in XLA's ChannelHandle.
_DEVICES = 1
_API_VERSIONS = {version: number for number, version in enumerate(CustomCallApiVersion)}
_KINDS: dict[OpDef[Any], str] = {
    ops.ADD: "add", ops.MULTIPLY: "multiply", ops.MINIMUM: "minimum", ops.MAXIMUM: "maximum", ops.AND: "and",
    ops.OR: "or",
}  # fmt: skip


_LOGICAL = frozenset({"and", "or"})  # for integers these are no reductions of the library


# -- linear algebra and transforms -------------------------------------------------------------------------------


def gemm(low: Lowering, inst: Instruction) -> lmhlo.Op:
    """A dot that is one (batched) matrix product."""
    a, b = inst.attrs, low.arrays(*inst.operands)
    dims = lmhlo.DotDims(a.lhs_batch_dims, a.rhs_batch_dims, a.lhs_contracting_dims, a.rhs_contracting_dims)
    return lmhlo.Gemm(b[0], b[1], low.arrays(inst)[0], dims)


def _fft(low: Lowering, inst: Instruction) -> lmhlo.Op:
    (x,), (y,) = low.arrays(*inst.operands), low.arrays(inst)
    return lmhlo.Fft(x, y, inst.attrs.fft_type, inst.attrs.fft_length)


def _cholesky(low: Lowering, inst: Instruction) -> lmhlo.Op:
    (a,), (out,) = low.arrays(*inst.operands), low.arrays(inst)
    return lmhlo.Cholesky(a, out, lower=inst.attrs.lower)


def _triangular_solve(low: Lowering, inst: Instruction) -> lmhlo.Op:
    at, (a, b), (out,) = inst.attrs, low.arrays(*inst.operands), low.arrays(inst)
    made = lmhlo.TriangularSolve(a, b, out, at.left_side, at.lower, at.unit_diagonal, at.transpose_a)
    made.layout_a, made.layout_b, made.layout_output = (v.type.minor_to_major for v in (a, b, out))
    return made


def _custom_call(low: Lowering, inst: Instruction) -> lmhlo.Op:
    """Tokens and opaques are no buffers: the target takes them all the same, so they are holes among its arguments."""
    given = [v for o in inst.operands for v in low.views(o)]
    results = low.views(inst)
    args, outputs = _numbers(given), _numbers(results)
    mapping = None
    if len(args) < len(given) or len(outputs) < len(results):
        mapping = lmhlo.ArgMapping(len(given), len(results), args, outputs)
    return lmhlo.CustomCall(
        low.arrays(*inst.operands),
        low.arrays(inst),
        inst.attrs.custom_call_target,
        has_side_effect=inst.attrs.custom_call_has_side_effect,
        backend_config=inst.backend_config,
        api_version=_API_VERSIONS[inst.attrs.api_version],
        target_arg_mapping=mapping,
        hlo=Outlined.of(inst),
    )


def _numbers(views: Sequence[lmhlo.View | None]) -> tuple[int, ...]:
    return tuple(i for i, v in enumerate(views) if v is not None)


# -- collectives -------------------------------------------------------------------------------------------------


def _groups(inst: Instruction) -> dict[str, Any]:
    """The keyword attributes that collectives share."""
    shared: dict[str, Any] = {"channel_id": _channel(inst)}
    for name in ("constrain_layout", "use_global_device_ids"):
        shared[name] = getattr(inst.attrs, name, False)
    return shared


def _channel(inst: Instruction) -> lmhlo.ChannelHandle | None:
    number: int = inst.attrs.channel_id
    return lmhlo.ChannelHandle(number, _DEVICES) if number > 0 else None


def _reducer(inst: Instruction) -> lmhlo.Reducer:
    """The reduction by name where one operation does it."""
    comp = inst.called[0]
    root = comp.root
    kind = _KINDS.get(root.op)
    if kind is not None and len(comp.parameters) == 2 and set(root.operands) == set(comp.parameters):
        return lmhlo.Reducer(kind)
    return lmhlo.Reducer(hlo=Outlined(lambda: as_entry(comp)))


def has_library_reduction(inst: Instruction) -> bool:
    """Whether the runtime's library combines values as a collective's computation does; else the evaluator does it."""
    kind = _reducer(inst).kind
    return kind != "" and (kind not in _LOGICAL or inst.operands[0].shape.element_type is PRED)


def _results(low: Lowering, inst: Instruction) -> tuple[lmhlo.View, ...]:
    """Where a collective's results go; a start's result tuple holds its operands too."""
    if inst.op not in PASSES_ON or not inst.shape.is_tuple:
        return low.arrays(inst)
    found = low.assignment.dataflow.index.element(inst.shape, low.views(inst), 1)
    return tuple(v for v in found if v is not None)


def _all_reduce(low: Lowering, inst: Instruction, token: lmhlo.Token | None) -> lmhlo.Op:
    inputs, results = low.arrays(*inst.operands), _results(low, inst)
    groups, reducer, shared = inst.attrs.replica_groups.groups, _reducer(inst), _groups(inst)
    if token is None:
        return lmhlo.AllReduce(inputs, results, groups, computation=reducer, **shared)
    return lmhlo.AllReduceStart(inputs, results, groups, computation=reducer, token=token, **shared)


def _all_gather(low: Lowering, inst: Instruction, token: lmhlo.Token | None) -> lmhlo.Op:
    inputs, results = low.arrays(*inst.operands), _results(low, inst)
    groups, dimension, shared = inst.attrs.replica_groups.groups, inst.attrs.dimension, _groups(inst)
    if token is None:
        return lmhlo.AllGather(inputs, results, groups, all_gather_dimension=dimension, **shared)
    return lmhlo.AllGatherStart(inputs, results, groups, all_gather_dimension=dimension, token=token, **shared)


def _reduce_scatter(low: Lowering, inst: Instruction, token: lmhlo.Token | None) -> lmhlo.Op:
    inputs, results = low.arrays(*inst.operands), _results(low, inst)
    groups = inst.attrs.replica_groups.groups
    shared = {"scatter_dimension": inst.attrs.dimension, "computation": _reducer(inst), **_groups(inst)}
    if token is None:
        return lmhlo.ReduceScatter(inputs, results, groups, **shared)
    return lmhlo.ReduceScatterStart(inputs, results, groups, token=token, **shared)


def _all_to_all(low: Lowering, inst: Instruction, token: lmhlo.Token | None) -> lmhlo.Op:
    inputs, results = low.arrays(*inst.operands), _results(low, inst)
    groups, shared = inst.attrs.replica_groups.groups, _groups(inst)
    if token is None:
        return lmhlo.AllToAll(inputs, results, groups, split_dimension=inst.attrs.dimension, **shared)
    return lmhlo.AllToAllStart(inputs, results, groups, token=token, split_dimension=inst.attrs.dimension, **shared)


def _collective_permute(low: Lowering, inst: Instruction, token: lmhlo.Token | None) -> lmhlo.Op | None:
    if inst.attrs.slice_sizes:
        return None
    inputs, results, pairs = low.arrays(*inst.operands), _results(low, inst), inst.attrs.source_target_pairs
    if token is None:
        return lmhlo.CollectivePermute(inputs, results, pairs, channel_id=_channel(inst))
    return lmhlo.CollectivePermuteStart(inputs, results, pairs, token=token, channel_id=_channel(inst))


def _collective_broadcast(low: Lowering, inst: Instruction) -> lmhlo.Op:
    groups = inst.attrs.replica_groups.groups
    return lmhlo.CollectiveBroadcast(low.arrays(*inst.operands), low.arrays(inst), groups, **_groups(inst))


def _ragged_all_to_all(low: Lowering, inst: Instruction) -> lmhlo.Op:
    groups = inst.attrs.replica_groups.groups
    return lmhlo.RaggedAllToAll(
        low.arrays(*inst.operands), low.arrays(inst)[0], groups, channel_id=_channel(inst)
    )  # fmt: skip


def _at_once(rule: StartRule) -> Rule:
    return lambda low, inst: rule(low, inst, None)


# -- feeds and identities ----------------------------------------------------------------------------------------


def _infeed(low: Lowering, inst: Instruction) -> lmhlo.Op:
    return lmhlo.Infeed(low.arrays(inst), config=inst.attrs.infeed_config)


def _outfeed(low: Lowering, inst: Instruction) -> lmhlo.Op:
    return lmhlo.Outfeed(low.arrays(*inst.operands), config=inst.attrs.outfeed_config)


def _replica_id(low: Lowering, inst: Instruction) -> lmhlo.Op:
    return lmhlo.ReplicaId(*low.arrays(inst))


def _partition_id(low: Lowering, inst: Instruction) -> lmhlo.Op:
    return lmhlo.PartitionId(*low.arrays(inst))


# -- what the evaluator does with a result that is partly an operand ---------------------------------------------

# Their result's first element (copy-start: its second) is the operand itself.
PASSES_ON: frozenset[OpDef[Any]] = frozenset(
    {ops.SEND, ops.COPY_START, ops.ALL_GATHER_START, ops.COLLECTIVE_PERMUTE_START}
)


def keep_defined(inst: Instruction, unit: HandlerUnit) -> tuple[HandlerUnit, Outlined, tuple[int, ...]]:
    """A unit that stores only what an instruction makes itself, that as text, and the numbers of those leaves.

    The rest of its result is an operand, whose memory may not be written.
    """
    kept = _defined(inst)
    arrays = [i for i, (_, leaf) in enumerate(inst.shape.leaves()) if leaf.is_array]
    places = [arrays.index(leaf) for leaf in kept]
    hlo = Outlined(lambda: outline(inst, kept))
    whole = unit.handler

    def run(context: CallContext, given: Sequence[Any]) -> Sequence[Any]:
        assert whole is not None
        found = whole(context, given)
        return [found[i] for i in places]

    attributes = {**unit.attributes, "hlo": Deferred(lambda: hlo.text)}
    return HandlerUnit(unit.target, run if whole is not None else None, unit.reason, attributes), hlo, kept


def _defined(inst: Instruction) -> tuple[int, ...]:
    """The leaves of a result tuple that are no operand's."""
    passed = 1 if inst.op is ops.COPY_START else 0
    numbers = enumerate(inst.shape.leaves())
    return tuple(i for i, (index, leaf) in numbers if leaf.is_array and index[:1] != (passed,))


UNITS: dict[OpDef[Any], Rule] = {
    ops.FFT: _fft,
    ops.CHOLESKY: _cholesky,
    ops.TRIANGULAR_SOLVE: _triangular_solve,
    ops.CUSTOM_CALL: _custom_call,
    ops.ALL_REDUCE: _at_once(_all_reduce),
    ops.ALL_GATHER: _at_once(_all_gather),
    ops.REDUCE_SCATTER: _at_once(_reduce_scatter),
    ops.ALL_TO_ALL: _at_once(_all_to_all),
    ops.COLLECTIVE_PERMUTE: _at_once(_collective_permute),
    ops.COLLECTIVE_BROADCAST: _collective_broadcast,
    ops.RAGGED_ALL_TO_ALL: _ragged_all_to_all,
    ops.INFEED: _infeed,
    ops.OUTFEED: _outfeed,
    ops.REPLICA_ID: _replica_id,
    ops.PARTITION_ID: _partition_id,
}
# What begins asynchronous work: start ops, and the collectives that an async-start may wrap.
STARTS: dict[OpDef[Any], StartRule] = {
    ops.ALL_REDUCE_START: _all_reduce,
    ops.ALL_GATHER_START: _all_gather,
    ops.COLLECTIVE_PERMUTE_START: _collective_permute,
}
WRAPPED: dict[OpDef[Any], StartRule] = {
    ops.ALL_REDUCE: _all_reduce,
    ops.ALL_GATHER: _all_gather,
    ops.REDUCE_SCATTER: _reduce_scatter,
    ops.ALL_TO_ALL: _all_to_all,
    ops.COLLECTIVE_PERMUTE: _collective_permute,
}
DONE: frozenset[OpDef[Any]] = frozenset(
    {ops.ALL_REDUCE_DONE, ops.ALL_GATHER_DONE, ops.COLLECTIVE_PERMUTE_DONE, ops.ASYNC_DONE}
)
DONE_OF: dict[OpDef[Any], type[lmhlo.Done]] = {
    ops.ALL_REDUCE_START: lmhlo.AllReduceDone,
    ops.ALL_GATHER_START: lmhlo.AllGatherDone,
    ops.COLLECTIVE_PERMUTE_START: lmhlo.CollectivePermuteDone,
    ops.ALL_REDUCE: lmhlo.AllReduceDone,
    ops.ALL_GATHER: lmhlo.AllGatherDone,
    ops.REDUCE_SCATTER: lmhlo.ReduceScatterDone,
    ops.ALL_TO_ALL: lmhlo.AllToAllDone,
    ops.COLLECTIVE_PERMUTE: lmhlo.CollectivePermuteDone,
}
