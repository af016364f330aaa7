"""Which op gets which kernel, and why the others get none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xyla.codegen.fused import NeedScalarError
from xyla.codegen.kernel import KernelSpec, refuse
from xyla.codegen.kernels.conv import conv_kernel
from xyla.codegen.kernels.dot import dot_kernel
from xyla.codegen.kernels.loop import loop_kernel, root_of
from xyla.codegen.kernels.random_bits import random_bits_kernel
from xyla.codegen.kernels.reduce import reduce_kernel
from xyla.codegen.kernels.scatter import bitcast_kernel, copy_kernel, scatter_kernel, update_slice_kernel
from xyla.codegen.kernels.sort import sort_kernel
from xyla.codegen.kernels.topk import topk_kernel
from xyla.codegen.kernels.transpose import transpose_kernel
from xyla.codegen.kernels.windows import reduce_window_kernel, select_and_scatter_kernel
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef, Trait, all_ops
from xyla.hlo.op_table import OpTable
from xyla.runtime.program import GemmCall
from xyla.support.status import Status, XylaError

KernelRule = Callable[[Instruction], KernelSpec | GemmCall]
KERNEL: OpTable[KernelRule] = OpTable("the kernel table")

_ELEMENTWISE = tuple(op for op in all_ops() if op.has(Trait.ELEMENTWISE))
_MOVEMENT = (
    ops.BITCAST_CONVERT, ops.BROADCAST, ops.CONCATENATE, ops.DYNAMIC_SLICE,
    ops.GATHER, ops.GET_DIMENSION_SIZE, ops.IOTA, ops.MAP, ops.PAD, ops.RESHAPE,
    ops.REVERSE, ops.SLICE,
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


def build_kernel(inst: Instruction) -> KernelSpec | GemmCall:
    """The kernel (or library call) of an instruction; a fusion counts as one.

    Raises UNIMPLEMENTED, with the reason, when there is none: the instruction then needs a handler. A fusion without a
    kernel can also be run by running its computation's instructions one by one.
    """
    if inst.op not in _PADDING_SAFE and (inst.shape.is_dynamic or any(o.shape.is_dynamic for o in inst.operands)):
        raise refuse(inst, "a dimension of dynamic size")
    try:
        return KERNEL[inst.op](inst)
    except NeedScalarError:
        raise refuse(inst, "a called computation branches where the kernel holds vectors") from None


def kernel_or_reason(inst: Instruction) -> KernelSpec | GemmCall | str:
    """The kernel of an instruction, or why there is none."""
    try:
        return build_kernel(inst)
    except XylaError as error:
        if error.status is not Status.UNIMPLEMENTED:
            raise
        return error.message


def _fusion(inst: Instruction) -> KernelSpec | GemmCall:
    """By the fusion's root: a family with a kernel of its own takes the fused producers along."""
    return FUSION_ROOTS.get(root_of(inst).op, loop_kernel)(inst)


# Families whose kernels read their operands through the graph emitter, so that a fusion may end in them.
FUSION_ROOTS: dict[OpDef[Any], KernelRule] = {
    ops.CONVOLUTION: conv_kernel,
    ops.DOT: dot_kernel,
    ops.REDUCE: reduce_kernel,
    ops.REDUCE_WINDOW: reduce_window_kernel,
    ops.SCATTER: scatter_kernel,
    ops.SELECT_AND_SCATTER: select_and_scatter_kernel,
    ops.SORT: sort_kernel,
    ops.TOPK: topk_kernel,
    ops.DYNAMIC_UPDATE_SLICE: update_slice_kernel,
}
KERNEL.rule(ops.FUSION)(_fusion)
KERNEL.rule(ops.RNG_BIT_GENERATOR)(random_bits_kernel)
_no_kernel(
    "it is not lowered natively yet",
    ops.BATCH_NORM_TRAINING, ops.BATCH_NORM_INFERENCE, ops.BATCH_NORM_GRAD, ops.RAGGED_DOT, ops.SCALED_DOT,
)  # fmt: skip
KERNEL.rule(ops.COPY)(copy_kernel)
KERNEL.rule(ops.TRANSPOSE)(transpose_kernel)
KERNEL.rule(ops.BITCAST)(bitcast_kernel)
for _op, _rule in FUSION_ROOTS.items():
    KERNEL.rule(_op)(_rule)
