"""From a module to its buffers: schedule, insert copies, assign, verify."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xyla.analysis.alias import Aliases, CanShare, share_elementwise
from xyla.analysis.dataflow import Dataflow
from xyla.analysis.timeline import LiveRanges, Timeline
from xyla.buffers.assignment import BufferAssignment, assign
from xyla.buffers.copies import move_copies_up
from xyla.buffers.verifier import verify_assignment
from xyla.hlo.module import Instruction, Module
from xyla.hlo.shape import Shape
from xyla.passes.copy_insertion import CopyInsertion
from xyla.passmgr.context import PassContext
from xyla.schedule.order import schedule

Scratch = Callable[[Module], Mapping[Instruction, int]]


def assign_buffers(
    module: Module,
    *,
    can_share: CanShare = share_elementwise,
    scratch: Scratch | None = None,
    limit: int | None = None,
    verify: bool = True,
) -> BufferAssignment:
    """Schedules `module` (unless it is), inserts the copies it needs, and assigns its buffers; changes `module`.

    can_share: which results may overwrite an operand. The others: see `place_buffers`.
    """
    can_share = remembered(can_share)
    schedule(module, can_share)
    copied = CopyInsertion(can_share).run(module, PassContext())
    return place_buffers(module, copied=copied, can_share=can_share, scratch=scratch, limit=limit, verify=verify)


def place_buffers(
    module: Module,
    *,
    copied: bool,
    can_share: CanShare,
    scratch: Scratch | None = None,
    limit: int | None = None,
    verify: bool = True,
) -> BufferAssignment:
    """Assigns the buffers of a scheduled module in which `copy-insertion` finds nothing to do.

    copied: it has inserted copies, which are moved to better places. scratch: asked for the bytes that instructions
    need while they run, once the module is final. limit: bytes, see `assign`. verify: prove the result by replay.
    """
    dataflow = Dataflow(module)
    aliases = Aliases(dataflow, can_share)
    ranges = LiveRanges(Timeline(module, dataflow.graph), dataflow)
    if copied and move_copies_up(dataflow, aliases, ranges):
        ranges = LiveRanges(Timeline(module, dataflow.graph), dataflow)
    wanted = scratch(module) if scratch is not None else {}
    found = assign(module, dataflow, aliases, ranges, can_share=can_share, scratch=wanted, limit=limit)
    if verify:
        verify_assignment(found, can_share)
    return found


def remembered(can_share: CanShare) -> CanShare:
    """The hook, asked once for each instruction, operand shape and output: every stage asks it again."""
    known: dict[tuple[Instruction, Shape, int, int, int], bool] = {}

    def ask(inst: Instruction, number: int, leaf: int, output: int) -> bool:
        # Copies replace operands in between, by ones of the same shape or not.
        key = (inst, inst.operands[number].shape, number, leaf, output)
        found = known.get(key)
        if found is None:
            found = known[key] = can_share(inst, number, leaf, output)
        return found

    return ask
