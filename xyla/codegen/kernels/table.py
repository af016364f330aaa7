"""Which op gets which kernel, and why the others get none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xyla.codegen.fused import NeedScalarError
from xyla.codegen.kernel import KernelSpec, refuse
from xyla.codegen.kernels.loop import loop_kernel
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef, Trait, all_ops
from xyla.hlo.op_table import OpTable
from xyla.support.status import Status, XylaError

KernelRule = Callable[[Instruction], KernelSpec]
KERNEL: OpTable[KernelRule] = OpTable("the kernel table")

_ELEMENTWISE = tuple(op for op in all_ops() if op.has(Trait.ELEMENTWISE))
_MOVEMENT = (
    ops.BITCAST, ops.BITCAST_CONVERT, ops.BROADCAST, ops.CONCATENATE, ops.COPY, ops.DYNAMIC_SLICE,
    ops.DYNAMIC_UPDATE_SLICE, ops.FUSION, ops.GATHER, ops.GET_DIMENSION_SIZE, ops.IOTA, ops.MAP, ops.PAD, ops.RESHAPE,
    ops.REVERSE, ops.SLICE, ops.TRANSPOSE,
)  # fmt: skip
KERNEL.rule(*_ELEMENTWISE, *_MOVEMENT)(loop_kernel)


def _no_kernel(why: str, *without: OpDef[Any]) -> None:
    for op in without:
        KERNEL.unsupported(op, why)


_STRUCTURE = "it moves no elements: the compiler resolves it to buffers"
_CONTROL = "it is control flow: the runtime's program runs it"
_DEVICES = "it talks to other devices or the host"
_LIBRARY = "it runs as a library call"
_no_kernel(
    _STRUCTURE,
    ops.PARAMETER,
    ops.CONSTANT,
    ops.TUPLE,
    ops.GET_TUPLE_ELEMENT,
    ops.AFTER_ALL,
    ops.ADD_DEPENDENCY,
    ops.OPT_BARRIER,
    ops.DOMAIN,
)
_no_kernel(
    _CONTROL,
    ops.CALL,
    ops.WHILE,
    ops.CONDITIONAL,
    ops.ASYNC_START,
    ops.ASYNC_UPDATE,
    ops.ASYNC_DONE,
    ops.COPY_START,
    ops.COPY_DONE,
    ops.SCAN,
)
_no_kernel(
    _DEVICES,
    *(o for o in all_ops() if o.has(Trait.COLLECTIVE)),
)
_no_kernel(
    _DEVICES,
    ops.ALL_REDUCE_DONE,
    ops.ALL_GATHER_DONE,
    ops.COLLECTIVE_PERMUTE_DONE,
    ops.SEND,
    ops.SEND_DONE,
    ops.RECV,
    ops.RECV_DONE,
    ops.INFEED,
    ops.OUTFEED,
    ops.PARTITION_ID,
    ops.REPLICA_ID,
)
_no_kernel(_LIBRARY, ops.FFT, ops.CHOLESKY, ops.TRIANGULAR_SOLVE, ops.CUSTOM_CALL)
_no_kernel("it draws from the host's generator", ops.RNG, ops.RNG_GET_AND_UPDATE_STATE)
_no_kernel("its result's size is known at run time only", ops.SET_DIMENSION_SIZE, ops.DYNAMIC_RESHAPE)

# Ops whose kernels may run over padded buffers: what they put into the padding is never looked at.
_PADDING_SAFE = frozenset(_ELEMENTWISE) | {ops.COPY, ops.MAP}


def kernel_or_reason(inst: Instruction) -> KernelSpec | str:
    """The kernel of an instruction (a fusion counts as one), or why there is none."""
    try:
        return _build(inst)
    except NeedScalarError:
        return f"{inst.op.name!r} needs branches that its kernel cannot hold"
    except XylaError as error:
        if error.status is not Status.UNIMPLEMENTED:
            raise
        return error.message


def build_kernel(inst: Instruction) -> KernelSpec | None:
    """The kernel of an instruction (a fusion counts as one), or None: the instruction needs a handler.

    A fusion without a kernel can be run by running its computation's instructions one by one.
    """
    spec = kernel_or_reason(inst)
    return None if isinstance(spec, str) else spec


def _build(inst: Instruction) -> KernelSpec:
    if inst.op not in _PADDING_SAFE and (inst.shape.is_dynamic or any(o.shape.is_dynamic for o in inst.operands)):
        raise refuse(inst, "a dimension of dynamic size")
    return KERNEL[inst.op](inst)
