"""Results of fusions and parameters of callees that nothing uses (part of dce)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xyla.hlo import ops, rewriter
from xyla.hlo.attr_types import FusionKind
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.shape import Shape
from xyla.passes.inlining import own
from xyla.passmgr.context import PassContext


def remove_dead_outputs(fusion: Instruction, ctx: PassContext) -> bool:
    """fusion -> (a, b, c), of which only element 1 is taken, becomes fusion -> b; with two left, fusion -> (a, b)."""
    used = _used_outputs(fusion)
    if used is None or not ctx.permit("remove-dead-outputs", fusion):
        return False
    own(fusion)
    body = fusion.called[0]
    elements = [body.root.operands[i] for i in used]
    old = body.root
    if len(used) == 1:
        body.set_root(elements[0])
    else:
        body.set_root(rewriter.create(body, ops.TUPLE, elements, like=old))
        body.root.sharding = ""
    rewriter.erase(old)
    shapes = [fusion.shape.tuple_shapes[i] for i in used]
    rewriter.set_shape(fusion, shapes[0] if len(used) == 1 else Shape.tuple_of(shapes))
    _renumber(fusion, used)
    ctx.record(fusion)
    return True


def _used_outputs(fusion: Instruction) -> list[int] | None:
    """The elements of a fusion's result that are taken; None when that is all of them, or none, or it must stay."""
    if not fusion.shape.is_tuple or fusion.is_root or not _free(fusion) or fusion.sharding:
        return None
    root = fusion.called[0].root
    if root.op is not ops.TUPLE or any(u.op is not ops.GET_TUPLE_ELEMENT for u in fusion.users):
        return None
    if any(i.control_predecessors or i.control_successors for i in (root, *fusion.users)):
        return None
    used = sorted({u.attrs.index for u in fusion.users})
    return used if 0 < len(used) < len(fusion.shape.tuple_shapes) else None


def _free(call: Instruction) -> bool:
    """A call or fusion of whose operands and results nothing else speaks by number."""
    if call.op is ops.FUSION:
        return call.attrs.kind is not FusionKind.CUSTOM and not call.attrs.output_to_operand_aliasing
    return call.op is ops.CALL and not call.attrs.is_composite and not call.attrs.output_to_operand_aliasing


def _renumber(fusion: Instruction, used: Sequence[int]) -> None:
    at = {old: new for new, old in enumerate(used)}
    for element in list(fusion.users):
        if len(used) == 1:
            rewriter.replace(element, fusion)
        else:
            rewriter.set_attrs(element, ops.IndexAttrs(at[element.attrs.index]))


def remove_dead_parameters(comp: Computation, ctx: PassContext) -> list[Instruction]:
    """Drops the parameters of a callee that it does not use, and their operands; returns the calls that changed."""
    dead = dead_parameters(comp)
    if not dead or comp.is_entry or not comp.callers:
        return []
    callers = list(comp.callers)
    if not all(_free(c) and len(c.operands) == len(comp.parameters) for c in callers):
        return []
    if not ctx.permit("remove-dead-parameters", callers[0]):
        return []
    rewriter.remove_parameters(comp, dead)
    ctx.record(callers[0])
    return callers


def dead_parameters(comp: Computation) -> list[Instruction]:
    """Parameters that neither an instruction, nor the result, nor an order in time needs."""
    return [p for p in comp.parameters if not (p.users or p.is_root or p.control_predecessors or p.control_successors)]


def remove_dead_entry_parameters(module: Module, ctx: PassContext) -> bool:
    """Drops the entry's unused parameters from the program's signature, but for those whose buffer is given away.

    A module that says something else of its parameters (how they may be sharded, ...) keeps all of them.
    """
    config, entry = module.config, module.entry
    named = {a.parameter for a in config.input_output_aliases} | {d.parameter for d in config.buffer_donors}
    dead = [p for p in dead_parameters(entry) if p.attrs.number not in named]
    if not dead or entry.callers or any("parameter" in key for key, _ in config.raw):
        return False
    if not ctx.permit("remove-dead-entry-parameters", dead[0]):
        return False
    gone = {p.attrs.number for p in dead}
    kept = [i for i in range(len(entry.parameters)) if i not in gone]
    rewriter.remove_parameters(entry, dead)
    at = {old: new for new, old in enumerate(kept)}
    if config.entry_parameter_layouts is not None:
        config.entry_parameter_layouts = tuple(config.entry_parameter_layouts[i] for i in kept)
    config.input_output_aliases = tuple(replace(a, parameter=at[a.parameter]) for a in config.input_output_aliases)
    config.buffer_donors = tuple(replace(d, parameter=at[d.parameter]) for d in config.buffer_donors)
    return True
