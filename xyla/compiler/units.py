"""What becomes of one instruction on the host: a call of a registered function, the target's unit, or a handler."""

from __future__ import annotations

from xyla.compiler.handlers import handler_for
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.interp.custom_calls.attributes import call_attributes
from xyla.lowering.units import HandlerUnit, Unit
from xyla.runtime import custom_calls
from xyla.targets.cpu.emit import CpuEmitter


def unit_of(emitter: CpuEmitter, inst: Instruction) -> Unit:
    """The unit of work for `inst`."""
    if inst.op is ops.CUSTOM_CALL and custom_calls.in_hlo(inst.attrs.custom_call_target):
        return HandlerUnit(custom_calls.OUTSIDE, None, "a custom call", call_attributes(inst))
    made = emitter.emit(inst)
    return handler_for(inst, made) if isinstance(made, str) else made
