"""What becomes of one instruction on the host: a call of a registered function, the target's unit, or a handler."""

from __future__ import annotations

from xyla.codegen.kernel import KernelSpec
from xyla.compiler.handlers import handler_for
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.lowering.units import HandlerUnit, Unit
from xyla.runtime import custom_calls
from xyla.runtime.executable import Stats
from xyla.runtime.program import GemmCall
from xyla.targets.cpu.emit import CpuEmitter


def unit_of(emitter: CpuEmitter, inst: Instruction) -> Unit:
    """The unit of work for `inst`."""
    if inst.op is ops.CUSTOM_CALL and custom_calls.in_hlo(inst.attrs.custom_call_target):
        # The evaluator is imported when it is needed: most programs do without.
        from xyla.interp.custom_calls.attributes import call_attributes

        return HandlerUnit(custom_calls.OUTSIDE, None, "a custom call", call_attributes(inst))
    made = emitter.emit(inst)
    return handler_for(inst, made) if isinstance(made, str) else made


def unit_stats(units: list[tuple[str, Unit]], unique_kernels: int) -> Stats:
    """What operations became: kernels, library calls, and handlers with their reasons."""
    stats = Stats(instructions=len(units), unique_kernels=unique_kernels)
    for name, unit in units:
        match unit:
            case KernelSpec():
                stats.kernels += 1
            case GemmCall():
                stats.library_calls += 1
            case HandlerUnit():
                stats.handlers.append((f"%{name}", unit.reason))
    return stats
