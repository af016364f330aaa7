"""Launches, copies and plain calls of the host.

A launch is what the target makes of its instruction: a kernel over a launch range, a product for BLAS, or a handler.
"""

from __future__ import annotations

from xyla.codegen.kernel import KernelSpec
from xyla.lowering import lmhlo
from xyla.lowering.arrays import array_type
from xyla.lowering.lmhlo_to_rt.products import gemm_of_instruction
from xyla.lowering.lmhlo_to_rt.table import Context, malformed, refuse, rule
from xyla.lowering.units import HandlerUnit, Unit
from xyla.runtime.program import Deferred, GemmCall, KernelStep, Slice


@rule(lmhlo.Launch)
def _launch(op: lmhlo.Launch, context: Context) -> None:
    unit = context.unit_of(op, op.hlo)
    if op.unit is None:
        _check_arrays(op, unit)
    match unit:
        case KernelSpec():
            _kernel(op, unit, context)
        case HandlerUnit():
            context.handler(op, unit, op.inputs, op.outputs)
        case GemmCall():
            instruction = op.instruction if op.instruction is not None else op.hlo.instruction
            context.units.append((op.name, unit))
            context.out.append(gemm_of_instruction(op, instruction, unit, context))
        case None:
            raise malformed(op, "nothing says what it does")


def _check_arrays(op: lmhlo.Launch, unit: Unit | None) -> None:
    """Text may state anything: the arrays must be those of the instruction, or its kernel would go astray."""
    inst = op.hlo.instruction
    for views, shapes, what in (
        (op.inputs, [o.shape for o in inst.operands], "operand"),
        (op.outputs, [inst.shape], "result"),
    ):
        wanted = [array_type(leaf) for s in shapes for _, leaf in s.leaves() if leaf.is_array]
        if len(wanted) != len(views):
            raise malformed(op, f"{len(views)} {what}s, its instruction has {len(wanted)}")
        for i, (view, kind) in enumerate(zip(views, wanted, strict=True)):
            if view.type != kind:
                from xyla.lowering.rt_types import memref_of

                raise malformed(op, f"{what} {i} is {memref_of(view.type)}, its instruction has {memref_of(kind)}")
    literals = unit.literals if isinstance(unit, KernelSpec) else ()
    for view, literal in zip(op.literals, literals, strict=False):
        if view.slice.size != literal.shape.num_bytes:
            raise malformed(op, f"a literal has {view.slice.size} bytes, its kernel takes {literal.shape.num_bytes}")


def _kernel(op: lmhlo.Launch, unit: KernelSpec, context: Context) -> None:
    views = (*op.inputs, *op.outputs)
    if (len(op.inputs), len(op.outputs), len(op.literals)) != (unit.num_operands, unit.num_outputs, len(unit.literals)):
        raise malformed(
            op,
            f"{len(op.inputs)} inputs, {len(op.outputs)} outputs and {len(op.literals)} literals, but its instruction "
            f"takes {unit.num_operands}, {unit.num_outputs} and {len(unit.literals)}",
        )
    context.units.append((op.name, unit))
    if unit.launch_size <= 0:
        return
    args = [context.slice(v) for v in views]
    args += [context.slice(v) for v in op.literals]
    if unit.scratch_bytes:
        args.append(_scratch(op, unit, context))
    symbol = unit.source.symbol
    number = context.kernels.get(symbol)
    if number is None:
        number = context.kernels[symbol] = len(context.kernels)
        context.sources[symbol] = unit.source
        hlo = op.hlo
        context.kernel_hlo.append(Deferred(lambda: hlo.text))
    types = tuple([v.type for v in views])
    name = op.name or op.mnemonic
    context.out.append(KernelStep(name, number, tuple(args), unit.launch_size, types, len(op.inputs), unit.grain))


def _scratch(op: lmhlo.Launch, unit: KernelSpec, context: Context) -> Slice:
    if op.scratch is None:
        raise malformed(op, f"its kernel needs {unit.scratch_bytes} bytes of scratch, none is given")
    found = context.slice(op.scratch)
    if found.size < unit.scratch_bytes:
        raise malformed(op, f"its kernel needs {unit.scratch_bytes} bytes of scratch, {found.size} are given")
    return found


@rule(lmhlo.LaunchFunc)
def _launch_func(op: lmhlo.LaunchFunc, context: Context) -> None:
    """A kernel of a GPU module: its binary is for another machine."""
    raise refuse(op, f"kernel {op.module}::{op.kernel} is a GPU's binary, which the host does not run")


@rule(lmhlo.Copy)
def _copy(op: lmhlo.Copy, context: Context) -> None:
    context.copy(op, op.source, op.target)


@rule(lmhlo.Memcpy)
def _memcpy(op: lmhlo.Memcpy, context: Context) -> None:
    """The direction follows from where the operands lie; a target on the host decides first."""
    if context.is_host(op.dst):
        direction = "d2h"
    elif context.is_host(op.src):
        direction = "h2d"
    else:
        context.copy(op, op.src, op.dst)
        return
    context.library_call(op, f"xla.gpu.memcpy.{direction}", (op.src,), (op.dst,), {})
