"""Structural invariants: ownership, uses, callers, numbering, names, acyclicity.

Each function yields located errors, so that the caller chooses between the first and all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from xyla.hlo.op_def import Trait
from xyla.support.status import XylaError, invalid

if TYPE_CHECKING:
    from xyla.hlo.module import Computation, Instruction, Module


def at(inst: Instruction, message: str) -> XylaError:
    """An error about `inst`: its name and opcode, then the fact."""
    return invalid(f"%{inst.name} = {inst.op.name}: {message}", span=inst.span)


def module_problems(module: Module) -> Iterator[XylaError]:
    """The entry exists, computations are listed under their own names, and the call graph has no cycle."""
    if module.entry_or_none is None:
        yield invalid(f"module {module.name!r} has no ENTRY computation")
    elif module.computations.get(module.entry.name) is not module.entry:
        yield invalid(f"entry {module.entry.name!r} is not a computation of module {module.name!r}")
    for name, comp in module.computations.items():
        if comp.name != name:
            yield invalid(f"computation {comp.name!r} is listed as {name!r}", span=comp.span)
        if comp.module is not module:
            yield invalid(f"computation {name!r} belongs to another module", span=comp.span)
    try:
        module.computation_post_order()
    except XylaError as error:
        yield error


def computation_problems(comp: Computation) -> Iterator[XylaError]:
    """Everything about one computation that does not need shapes."""
    yield from _root_problems(comp)
    yield from _parameter_problems(comp)
    uses = 0
    for inst in comp.instructions:
        uses += len(inst.operands)
        if inst.parent is not comp:
            yield at(inst, f"is listed in computation {comp.name!r} but belongs to {inst.parent.name!r}")
            continue
        if comp.find(inst.name) is not inst:
            yield at(inst, f"computation {comp.name!r} has another instruction named %{inst.name}")
        yield from _operand_problems(inst, comp)
        if inst.called:
            yield from _callee_problems(inst)
        if inst.control_predecessors or inst.control_successors:
            yield from _control_problems(inst, comp)
    if sum(sum(i.users.values()) for i in comp.instructions if i.users) != uses:
        yield from _stale_user_problems(comp)
    try:
        comp.post_order()
    except XylaError as error:
        yield error


def _root_problems(comp: Computation) -> Iterator[XylaError]:
    try:
        root = comp.root
    except XylaError:
        yield invalid(f"computation {comp.name!r} has no root", span=comp.span)
        return
    if root not in comp.instructions:
        yield at(root, f"is the root of computation {comp.name!r} but not in it")


def _parameter_problems(comp: Computation) -> Iterator[XylaError]:
    for i, param in enumerate(comp.parameters):
        if param not in comp.instructions:
            yield at(param, f"is a parameter of computation {comp.name!r} but not in it")
        if param.attrs.number != i:
            yield at(param, f"parameter number {param.attrs.number}, expected {i}: numbers run from 0 without gaps")


def _operand_problems(inst: Instruction, comp: Computation) -> Iterator[XylaError]:
    operands = inst.operands
    counts: Mapping[Instruction, int] | None = Counter(operands) if len(operands) > 4 else None
    for i, operand in enumerate(operands):
        if operand not in comp.instructions:
            yield at(inst, f"operand {i}, %{operand.name}, is not in computation {comp.name!r}")
        elif operand.users.get(inst, 0) != (counts[operand] if counts else operands.count(operand)):
            yield at(inst, f"operand {i}, %{operand.name}, does not count it as a user")


def _stale_user_problems(comp: Computation) -> Iterator[XylaError]:
    for inst in comp.instructions:
        for user in inst.users:
            if inst not in user.operands or user not in comp.instructions:
                yield at(inst, f"has user %{user.name}, which does not use it")


def thread_of(comp: Computation) -> str:
    """The thread a computation runs on; unnamed means the main one."""
    return comp.execution_thread or "main"


def _callee_problems(inst: Instruction) -> Iterator[XylaError]:
    asynchronous = inst.op.has(Trait.ASYNC_START)
    for callee in inst.called:
        if callee.module.computations.get(callee.name) is not callee or callee.module is not inst.parent.module:
            yield at(inst, f"calls computation {callee.name!r}, which is not in the module")
        elif callee.callers.get(inst, 0) != inst.called.count(callee):
            yield at(inst, f"calls computation {callee.name!r}, which does not count it as a caller")
        # An unnamed computation runs wherever it is called.
        if not asynchronous and thread_of(callee) not in ("main", thread_of(inst.parent)):
            yield at(
                inst,
                f"calls computation {callee.name!r} of thread {thread_of(callee)!r} from thread "
                f"{thread_of(inst.parent)!r}",
            )
        if callee.is_entry:
            yield at(inst, f"calls the entry computation {callee.name!r}")


def _control_problems(inst: Instruction, comp: Computation) -> Iterator[XylaError]:
    for p in inst.control_predecessors:
        if p not in comp.instructions:
            yield at(inst, f"control predecessor %{p.name} is not in computation {comp.name!r}")
        elif inst not in p.control_successors:
            yield at(inst, f"control predecessor %{p.name} does not name it as a successor")
    for s in inst.control_successors:
        if s not in comp.instructions or inst not in s.control_predecessors:
            yield at(inst, f"control successor %{s.name} does not name it as a predecessor")
