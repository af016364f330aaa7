"""A scalar computation applied to whole arrays. Shared by expanders of ops that call a combiner."""

from __future__ import annotations

from collections.abc import Sequence

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import Trait
from xyla.passes.building import Builder, Val
from xyla.support.dtypes import ElementType

_STRUCTURE = frozenset({ops.PARAMETER, ops.CONSTANT, ops.TUPLE, ops.GET_TUPLE_ELEMENT})


def can_vectorise(comp: Computation) -> bool:
    """Whether a computation on scalars is element-wise throughout, so that it serves arrays as it stands."""
    return all(
        i.op in _STRUCTURE or (i.op.has(Trait.ELEMENTWISE) and i.shape.is_array) for i in comp.reachable_from_root()
    ) and not any(i.shape.is_tuple and not i.is_root for i in comp.instructions)


def apply_elementwise(b: Builder, comp: Computation, args: Sequence[Val], results: Sequence[ElementType]) -> list[Val]:
    """`comp` on every element of `args` (all of one shape); results are converted to the types asked for.

    Arguments are converted to the types of the parameters. Combiners that are not element-wise become a map, or, on
    one element, a call.
    """
    dims = args[0].dims
    args = [a.convert(p.shape.element_type) for a, p in zip(args, comp.parameters, strict=True)]
    if can_vectorise(comp):
        out = _inline(b, comp, args)
    elif not comp.root.shape.is_tuple:
        attrs = ops.DimensionsAttrs(tuple(range(len(dims))))
        out = [b.apply(ops.MAP, *args, attrs=attrs, called=[comp])]
    else:
        call = b.apply(ops.CALL, *[a.reshape() for a in args], attrs=ops.CallAttrs(), called=[comp])
        out = [call.element(i).reshape(*dims) for i in range(len(comp.root.shape.tuple_shapes))]
    return [v.convert(et) for v, et in zip(out, results, strict=True)]


def _inline(b: Builder, comp: Computation, args: Sequence[Val]) -> list[Val]:
    made: dict[Instruction, Val] = {p: args[i] for i, p in enumerate(comp.parameters)}
    dims = args[0].dims
    needed = comp.reachable_from_root()
    for inst in comp.post_order():
        if inst in made or inst not in needed or inst.op is ops.TUPLE:
            continue
        if inst.op is ops.CONSTANT:
            made[inst] = b.literal(inst.attrs.literal).broadcast(dims)
            continue
        operands = [made[o] for o in inst.operands]
        made[inst] = b.apply(
            inst.op, *operands, attrs=inst.attrs, shape=operands[0].shape.with_type(inst.shape.element_type)
        )
    root = comp.root
    if root.op is ops.TUPLE:
        return [made[o] for o in root.operands]
    return [made[root]]
