"""Programs with bounded dynamic dimensions as static ones, with the interface that hides it.

`dynamic-padder` does the work inside; here the program's boundary follows: a dynamic parameter becomes one of its
bound and further parameters for its sizes, a dynamic result one of its bound and further results.
"""

from __future__ import annotations

from dataclasses import replace

from xyla.hlo import ops, rewriter
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.shape import Shape
from xyla.passmgr.context import Fp, PassContext
from xyla.runtime.dynamic import Interface
from xyla.support.dtypes import S32
from xyla.support.status import unimplemented

_SIZE = Shape.array(S32, ())
_RESIZERS = frozenset({ops.SET_DIMENSION_SIZE, ops.DYNAMIC_RESHAPE})


def is_dynamic(module: Module) -> bool:
    """Whether an array's size is known at run time only (a set-dimension-size may hide behind a static shape)."""
    return any(inst.shape.is_dynamic or inst.op in _RESIZERS for inst in module.instructions())


def make_static(module: Module, fp: Fp) -> tuple[Module, Interface]:
    """A static module that computes what `module` does, and how its callers see it.

    Raises UNIMPLEMENTED, naming the instruction, for what the padder refuses, and for aliasing that must be kept.
    """
    # Few programs need it, and it takes a tenth of what importing the compiler takes.
    from xyla.passes.dynamic_padder import DynamicPadder

    static = rewriter.clone_module(module)
    DynamicPadder().run(static, PassContext(fp))
    if any(a.must for a in static.config.input_output_aliases):
        raise unimplemented(f"module {module.name!r}: results of dynamic size in the memory of arguments")
    entry = static.entry
    arguments = _parameters(entry)
    results = _results(entry)
    static.config = replace(
        static.config,
        entry_parameter_layouts=None,
        entry_result_layout=None,
        input_output_aliases=(),
        buffer_donors=(),
        is_scheduled=False,
    )
    left = next((i for i in static.instructions() if i.shape.is_dynamic), None)
    if left is not None:
        raise unimplemented(f"%{left.name} = {left.op.name} of {left.shape} is not static", span=left.span)
    return static, Interface(arguments, results)


def _parameters(entry: Computation) -> tuple[tuple[int, ...], ...]:
    """Gives parameters their bounds and adds parameters for sizes; the dynamic dimensions of each leaf."""
    dims: list[tuple[int, ...]] = []
    for p in list(entry.parameters):
        for index, leaf in p.shape.leaves():
            if not leaf.is_array:
                continue
            dynamic = tuple(d for d in range(leaf.rank) if leaf.is_dynamic_dim(d))
            sizes = {d: _new_parameter(entry, f"{p.name}.size") for d in dynamic}
            if sizes:
                _replace_padding(p, index, sizes)
            dims.append(dynamic)
        _make_static(p)
    return tuple(dims)


def _new_parameter(entry: Computation, name: str) -> Instruction:
    return entry.add(ops.PARAMETER, [], ops.ParameterAttrs(len(entry.parameters)), shape=_SIZE, name=name)


def _replace_padding(p: Instruction, index: tuple[int, ...], sizes: dict[int, Instruction]) -> None:
    """PadToStatic of a leaf of a parameter becomes that leaf and its sizes."""
    for leaf in _uses_of_leaf(p, index):
        for call in [u for u in leaf.users if _is_call(u, "PadToStatic")]:
            parts = [leaf, *(_size(leaf, d, sizes) for d in range(leaf.shape.rank))]
            rewriter.replace_with(call, ops.TUPLE, parts, shape=call.shape)


def _size(leaf: Instruction, dim: int, sizes: dict[int, Instruction]) -> Instruction:
    found = sizes.get(dim)
    return found if found is not None else _constant(leaf.parent, leaf.shape.dims[dim])


def _constant(comp: Computation, value: int) -> Instruction:
    return comp.add(ops.CONSTANT, [], ops.ConstantAttrs(Literal.scalar(value, S32)), shape=_SIZE)


def _uses_of_leaf(p: Instruction, index: tuple[int, ...]) -> list[Instruction]:
    """The instructions whose value is that leaf: the parameter, or get-tuple-elements of it."""
    level = [p]
    for i in index:
        level = [u for x in level for u in x.users if u.op is ops.GET_TUPLE_ELEMENT and u.attrs.index == i]
    return level


def _make_static(p: Instruction) -> None:
    """The parameter's own shape, and those of its elements."""
    if not p.shape.is_dynamic:
        return
    work = [(p, p.shape.static())]
    while work:
        inst, shape = work.pop()
        elements = [u for u in inst.users if u.op is ops.GET_TUPLE_ELEMENT]
        work += [(e, shape.tuple_shapes[e.attrs.index]) for e in elements]
        rewriter.set_shape(inst, shape)


def _results(entry: Computation) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Makes the root a flat tuple of the results at their bounds, then sizes; (dimension, result) of each leaf."""
    leaves: list[Instruction] = []
    dynamic: list[dict[int, Instruction]] = []
    for leaf in _leaves(entry.root):
        if _is_call(leaf, "SliceToDynamic"):
            value, *sizes = leaf.operands
            dynamic.append({d: s for d, s in enumerate(sizes) if leaf.shape.is_dynamic_dim(d)})
            leaves.append(value)
        else:
            dynamic.append({})
            leaves.append(leaf)
    sizes_of: list[tuple[tuple[int, int], ...]] = []
    extra: list[Instruction] = []
    for found in dynamic:
        sizes_of.append(tuple((d, len(leaves) + len(extra) + i) for i, d in enumerate(found)))
        extra += found.values()
    values = [*leaves, *extra]
    old = entry.root
    entry.set_root(entry.add(ops.TUPLE, values, shape=Shape.tuple_of(v.shape for v in values)))
    _erase_dead(old)
    return tuple(sizes_of)


def _leaves(root: Instruction) -> list[Instruction]:
    """The instructions of the root's array leaves, in order; elements of what is not a tuple instruction are made."""
    out: list[Instruction] = []
    work = [root]
    while work:
        inst = work.pop()
        if inst.op is ops.TUPLE:
            work += reversed(inst.operands)
        elif inst.shape.is_tuple:
            comp = inst.parent
            parts = [
                comp.add(ops.GET_TUPLE_ELEMENT, [inst], ops.IndexAttrs(i), shape=s)
                for i, s in enumerate(inst.shape.tuple_shapes)
            ]
            work += reversed(parts)
        elif inst.shape.is_array:
            out.append(inst)
    return out


def _erase_dead(inst: Instruction) -> None:
    """Erases an unused result and the cuts that only it used."""
    work = [inst]
    while work:
        dead = work.pop()
        if dead.users or dead.is_root or not (dead.op is ops.TUPLE or _is_call(dead, "SliceToDynamic")):
            continue
        operands = list(dict.fromkeys(dead.operands))
        rewriter.erase(dead)
        work += operands


def _is_call(inst: Instruction, target: str) -> bool:
    return inst.op is ops.CUSTOM_CALL and inst.attrs.custom_call_target == target
