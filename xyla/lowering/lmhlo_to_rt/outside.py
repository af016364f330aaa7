"""What leaves the program: custom calls, infeed, outfeed, and the device's identity."""

from __future__ import annotations

import numpy as np

from xyla.lowering import lmhlo
from xyla.lowering.lmhlo_to_rt.table import Context, Typed, malformed, rule
from xyla.lowering.units import HandlerUnit
from xyla.runtime.custom_calls import OUTSIDE, in_hlo
from xyla.runtime.program import ArrayType, Attribute, CustomCallStep, Deferred, Slice

# A place among a target's arguments that the call leaves open: an empty buffer.
HOLE: Typed = (Slice(0, 0, 0), ArrayType(np.dtype(np.int8), (0,), (1,)))
MAX_ARGUMENTS = 1 << 16


@rule(lmhlo.CustomCall)
def _custom_call(op: lmhlo.CustomCall, context: Context) -> None:
    """A registered function is found by its name when the executable is made; others are what their HLO says."""
    inputs, outputs = context.typed(op.args), context.typed(op.output)
    mapping = op.target_arg_mapping
    if mapping is not None:
        inputs = _placed(op, inputs, mapping.args_to_target_args, mapping.num_args)
        outputs = _placed(op, outputs, mapping.results_to_target_results, mapping.num_results)
    given: dict[str, Attribute] = {
        "api_version": op.api_version,
        "backend_config": op.backend_config,
        "call_target_name": op.call_target_name,
    }
    unit, hlo = op.unit if isinstance(op.unit, HandlerUnit) else None, op.hlo
    if in_hlo(op.call_target_name):
        unit = None
    elif unit is not None and "hlo" in unit.attributes:
        given["hlo"] = unit.attributes["hlo"]
    elif hlo is not None:
        given["hlo"] = Deferred(lambda: hlo.text)
    reason = unit.reason if unit is not None else "a custom call"
    # What is prepared knows nothing of holes.
    prepared = unit.handler if unit is not None and mapping is None else None
    location = op.span.where() if op.span is not None else ""
    name = op.name or op.call_target_name
    context.units.append((op.name, HandlerUnit(OUTSIDE, prepared, reason, given)))
    context.out.append(CustomCallStep(name, OUTSIDE, inputs, outputs, given, reason, prepared, location))


def _placed(op: lmhlo.Op, given: tuple[Typed, ...], places: tuple[int, ...], count: int) -> tuple[Typed, ...]:
    """The target's arguments or results: those given at their places, holes elsewhere."""
    if len(places) != len(given) or any(not 0 <= p < count for p in places) or len(set(places)) != len(places):
        raise malformed(op, f"target_arg_mapping: {list(places)} does not place {len(given)} values among {count}")
    if count > MAX_ARGUMENTS:
        raise malformed(op, f"target_arg_mapping: {count} arguments, {MAX_ARGUMENTS} are possible")
    found = dict(zip(places, given, strict=True))
    return tuple(found.get(i, HOLE) for i in range(count))


@rule(lmhlo.Infeed)
def _infeed(op: lmhlo.Infeed, context: Context) -> None:
    context.library_call(op, "xla.gpu.infeed", (), op.outputs, {"config": op.config})


@rule(lmhlo.Outfeed)
def _outfeed(op: lmhlo.Outfeed, context: Context) -> None:
    context.library_call(op, "xla.gpu.outfeed", op.inputs, (), {"config": op.config})


@rule(lmhlo.ReplicaId)
def _replica_id(op: lmhlo.ReplicaId, context: Context) -> None:
    context.library_call(op, "xla.gpu.replica_id", (), (op.output,), {})


@rule(lmhlo.PartitionId)
def _partition_id(op: lmhlo.PartitionId, context: Context) -> None:
    context.library_call(op, "xla.gpu.partition_id", (), (op.output,), {})
