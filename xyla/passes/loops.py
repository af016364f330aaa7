"""Changing what a while loop carries: shared by the passes on loops. Loops are canonical (analysis.while_loops)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from xyla.analysis.while_loops import initial_value
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Instruction, Module
from xyla.hlo.shape import Shape
from xyla.passes.inlining import sweep
from xyla.passmgr.rules import erase_dead


def loops_of(module: Module) -> list[Instruction]:
    """Every while of the module, those in callees before those in callers."""
    return [i for comp in module.computation_post_order() for i in comp.post_order() if i.op is ops.WHILE]


def is_alive(inst: Instruction) -> bool:
    """Whether an instruction is still in the module (a pass may have removed it meanwhile)."""
    comp = inst.parent
    return inst in comp.instructions and comp.module.computations.get(comp.name) is comp


def element(source: Instruction, index: int) -> Instruction:
    """Element `index` of a tuple value: what it was built from, or a get-tuple-element."""
    if source.op is ops.TUPLE:
        return source.operands[index]
    return rewriter.create(source.parent, ops.GET_TUPLE_ELEMENT, [source], ops.IndexAttrs(index))


def start_of(loop: Instruction, index: int) -> Instruction:
    """The first value of state element `index`."""
    return initial_value(loop, index) or element(loop.operands[0], index)


def resize(
    loop: Instruction,
    keep: Sequence[int],
    extras: Sequence[Instruction] = (),
    outside: Mapping[int, Instruction] | None = None,
) -> list[Instruction]:
    """Makes a loop carry the elements `keep` (increasing) and then, unchanged, the values of `extras`.

    The loop owns its computations (`inlining.own`). Nothing in them reads a dropped element, except to pass it on;
    `outside` gives each dropped element's value after the loop, wherever that is asked for. Returns the readers of the
    extras in the body.
    """
    old_shapes = loop.shape.tuple_shapes
    # Inside, the extras are numbered after the old elements until everything is renumbered at once.
    place = {old: new for new, old in enumerate([*keep, *range(len(old_shapes), len(old_shapes) + len(extras))])}
    shape = Shape.tuple_of([*(old_shapes[i] for i in keep), *(e.shape for e in extras)])
    starts = [start_of(loop, i) for i in keep]
    passed = _resize_body_root(loop, keep, extras, shape)
    for comp in loop.called:
        # Dead code may read what is dropped.
        sweep(comp)
        param = comp.parameters[0]
        for user in param.users:
            rewriter.set_attrs(user, ops.IndexAttrs(place[user.attrs.index]))
        _set_state(param, shape)
    old_init = loop.operands[0]
    init = rewriter.create(loop.parent, ops.TUPLE, [*starts, *extras], shape=shape)
    rewriter.set_operands(loop, [init])
    _set_state(loop, shape)
    _resize_config(loop, place)
    _redirect_users(loop, len(old_shapes), place, outside or {})
    erase_dead([old_init])
    return passed


def _resize_body_root(
    loop: Instruction, keep: Sequence[int], extras: Sequence[Instruction], shape: Shape
) -> list[Instruction]:
    body = loop.called[1]
    old_root, param = body.root, body.parameters[0]
    passed = []
    for i, value in enumerate(extras, len(loop.shape.tuple_shapes)):
        reader = rewriter.create(body, ops.GET_TUPLE_ELEMENT, [param], ops.IndexAttrs(i), shape=value.shape)
        passed.append(reader)
    kept = [old_root.operands[i] for i in keep]
    root = rewriter.create(body, ops.TUPLE, [*kept, *passed], shape=shape, like=old_root)
    root.sharding = ""
    body.set_root(root)
    return passed


def _set_state(inst: Instruction, shape: Shape) -> None:
    rewriter.set_shape(inst, shape)
    # These speak of the old elements one by one.
    inst.sharding = ""
    inst.origin = ""


def _resize_config(loop: Instruction, place: Mapping[int, int]) -> None:
    """Renumbers the counter that a trip-count annotation names; drops that part when the counter is gone."""
    if "known_induction_variable" not in loop.backend_config:
        return
    config = parse_config(loop.backend_config)
    if config is None:
        return
    counter = config.get("known_induction_variable")
    new = place.get(int(counter.get("tuple_index", 0))) if isinstance(counter, dict) else None
    if new is None:
        config.pop("known_induction_variable")
    else:
        config["known_induction_variable"] = {"tuple_index": str(new)}
    loop.backend_config = json.dumps(config, separators=(",", ":"))


def parse_config(text: str) -> dict[str, object] | None:
    """A backend configuration as JSON; {} when there is none, None when it is something else."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _redirect_users(
    loop: Instruction, count: int, place: Mapping[int, int], outside: Mapping[int, Instruction]
) -> None:
    whole = [u for u in loop.users if u.op is not ops.GET_TUPLE_ELEMENT]
    parts = [u for u in loop.users if u.op is ops.GET_TUPLE_ELEMENT]
    for user in parts:
        index = user.attrs.index
        if index in place:
            rewriter.set_attrs(user, ops.IndexAttrs(place[index]))
            continue
        if user.users or user.is_root:  # a dead reader of a dropped element has no value, and needs none
            rewriter.replace_uses(user, outside[index])
        erase_dead([user])
    if not whole and not loop.is_root:
        return
    elements = [
        rewriter.create(loop.parent, ops.GET_TUPLE_ELEMENT, [loop], ops.IndexAttrs(place[i]))
        if i in place
        else outside[i]
        for i in range(count)
    ]
    rebuilt = rewriter.create(loop.parent, ops.TUPLE, elements)
    rewriter.replace_uses(loop, rebuilt, where=lambda u: u in set(whole))
    if loop.is_root:
        loop.parent.set_root(rebuilt)
