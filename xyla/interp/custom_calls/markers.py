"""Custom calls that only mark values (sharding, placement, layout) or assemble them; identity on one device."""

from __future__ import annotations

import numpy as np

from xyla.analysis.manual_partitions import TO_FULL, TO_SHARD
from xyla.hlo.module import Instruction
from xyla.interp import manual
from xyla.interp.custom_calls.table import config, target
from xyla.interp.movement import pad
from xyla.interp.numeric import zero_of
from xyla.interp.random_bits import threefry2x32
from xyla.interp.session import Session
from xyla.interp.table import TOKEN, Array, Kernel, Value
from xyla.support.status import Status, XylaError, invalid


@target(
    "annotate_device_placement", "AllocateDevicePlacement", "LayoutConstraint", "MoveToDevice", "MoveToHost", "Pin",
    "Sharding", "ShardBarrierFrom", "ShardBarrierTo", "Unpin", "xla.sdy.FuncResultSharding", "xla.sdy.Sharding",
    "xla.sdy.PropagationBarrier", "PinToDevice", "PinToDeviceSram", "SetBound", "InsertedByPreviousStep",
)  # fmt: skip
def _identity(inst: Instruction, session: Session) -> Kernel:
    if len(inst.operands) == 1:
        shape = inst.operands[0].shape
        if shape.is_array and inst.shape.is_array and not shape.same_dims(inst.shape):
            target = inst.attrs.custom_call_target
            raise invalid(f"{target} gives its operand, {shape}, which is not {inst.shape}", span=inst.span)
    elif not inst.shape.is_tuple:
        target = inst.attrs.custom_call_target
        raise invalid(f"{target} gives its operand: one, not {len(inst.operands)}", span=inst.span)
    return lambda *xs: xs if len(xs) != 1 else xs[0]


@target(*TO_SHARD)
def _to_shard(inst: Instruction, session: Session) -> Kernel:
    return manual.to_shard(inst, session)


@target(*TO_FULL)
def _to_full(inst: Instruction, session: Session) -> Kernel:
    return manual.to_full(inst, session)


@target("AllocateBuffer", "empty")
def _allocate_buffer(inst: Instruction, session: Session) -> Kernel:
    shape = inst.shape
    return lambda: np.zeros(shape.dims, shape.element_type.np)


@target("X64Combine")
def _x64_combine(inst: Instruction, session: Session) -> Kernel:
    """A 64-bit value from its low and high 32-bit words."""
    et = inst.shape.element_type

    def kernel(low: Array, high: Array) -> Array:
        if et.is_float:  # a double as the sum of two floats
            return np.asarray(low).astype(np.float64) + np.asarray(high).astype(np.float64)
        wide = np.asarray(low).view(np.uint32).astype(np.uint64)
        return (wide | (np.asarray(high).view(np.uint32).astype(np.uint64) << np.uint64(32))).view(et.np)

    return kernel


@target("SliceToDynamic")
def _slice_to_dynamic(inst: Instruction, session: Session) -> Kernel:
    """(padded array, size of each dimension...) -> the array cut to those sizes."""

    def kernel(x: Array, *sizes: Array) -> Array:
        return x[tuple(slice(0, min(int(s), d)) for s, d in zip(sizes, x.shape, strict=True))]

    return kernel


@target("PadToStatic")
def _pad_to_static(inst: Instruction, session: Session) -> Kernel:
    """A dynamic array -> (the array padded to its bounds, size of each dimension...)."""
    shape = inst.shape.tuple_shapes[0]

    def kernel(x: Array) -> Value:
        edges = [(0, bound - d, 0) for d, bound in zip(x.shape, shape.dims, strict=True)]
        return (pad(x, zero_of(shape.element_type), edges), *(np.int32(d) for d in x.shape))

    return kernel


@target("cu_threefry2x32", "cu_threefry2x32_ffi", "hip_threefry2x32", "hip_threefry2x32_ffi")
def _threefry(inst: Instruction, session: Session) -> Kernel:
    """(key0, key1, x0, x1) -> (y0, y1), element-wise."""
    return lambda k0, k1, x0, x1: threefry2x32(np.asarray(x0), np.asarray(x1), (np.asarray(k0), np.asarray(k1)))


@target("shape_assertion")
def _shape_assertion(inst: Instruction, session: Session) -> Kernel:
    """(condition, values...): an error with the program's own message when the condition is false."""
    text = str(config(inst).get("error_message", "")) or dict(inst.frontend_attributes).get("error_message", "")

    def kernel(condition: Array, *values: Array) -> Value:
        if not bool(condition):
            found = ", ".join(str(v) for v in values)
            raise XylaError(Status.INVALID_ARGUMENT, f"shape assertion failed ({found}): {text}".rstrip(": "))
        return ()

    return kernel


@target("NopReturnToken")
def _nop_token(inst: Instruction, session: Session) -> Kernel:
    return lambda *xs: TOKEN
