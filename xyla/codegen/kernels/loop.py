"""Loop kernels: element-wise ops, data movement and whole fusions, each output element computed where it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xyla.codegen.fused import Emitter, Leaf, NeedScalarError, fusion_leaves, operand_leaves
from xyla.codegen.index import Index, number
from xyla.codegen.kernel import Frame, KernelSpec, refuse, signature
from xyla.codegen.kernels import movement
from xyla.codegen.kernels.loops import (
    Nest,
    Piece,
    choose_lanes,
    index_type,
    is_flat,
    minor_length,
    same_place,
    store,
)
from xyla.codegen.llvm import Value
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.support.dtypes import ElementType


def leaves_of(shape: Shape) -> list[Shape]:
    """The array leaves of a shape, in order."""
    return [s for _, s in shape.leaves() if s.is_array]


def body_of(inst: Instruction) -> list[Instruction]:
    """The instructions a kernel for `inst` writes out: itself, or what a fusion's root needs."""
    if inst.op is not ops.FUSION:
        return [inst]
    out: list[Instruction] = []
    todo = [inst.role("calls")]
    seen = set(todo)
    while todo:
        comp = todo.pop()
        needed = comp.reachable_from_root()
        inside = [i for i in comp.post_order() if i in needed]
        out += inside
        for i in inside:
            if i.op in (ops.FUSION, ops.CALL) and i.called[0] not in seen:
                seen.add(i.called[0])
                todo.append(i.called[0])
    return out


def root_of(inst: Instruction) -> Instruction:
    """The instruction whose value the kernel stores."""
    return inst.role("calls").root if inst.op is ops.FUSION else inst


def loop_kernel(inst: Instruction) -> KernelSpec:
    """A kernel that computes each output element from operand elements."""
    try:
        return _build(inst, scalar=False)
    except NeedScalarError:
        return _build(inst, scalar=True)


def body_types(inst: Instruction, body: Iterable[Instruction]) -> list[ElementType]:
    """Element types that decide the vector length: of everything that is not a lone scalar."""
    shapes = [s for i in body for s in leaves_of(i.shape)]
    shapes += [s for o in inst.operands for s in leaves_of(o.shape)]
    types = [s.element_type for s in shapes if s.rank and s.element_type.is_array]
    return list(dict.fromkeys(types))


def start_emitter(inst: Instruction, body: Sequence[Instruction], lanes: int) -> Emitter:
    """A frame with the kernel's buffers, and an emitter that knows them as leaves."""
    operands = [s for o in inst.operands for s in leaves_of(o.shape)]
    outputs = leaves_of(inst.shape)
    frame = Frame(len(operands), len(outputs))
    em = Emitter(frame, lanes, index_type([*operands, *outputs, *(s for i in body for s in leaves_of(i.shape))]))
    em.budget = max(em.budget, 12 * len(body))
    if inst.op is ops.FUSION:
        fusion_leaves(em, inst)
    else:
        operand_leaves(em, inst)
    for i in body:
        if i.op is ops.CONSTANT and i is not inst and not i.attrs.literal.is_splat and i.shape.num_elements:
            em.leaves[i] = Leaf(frame.literal(i.attrs.literal), i.shape.with_layout(None))
    return em


def _build(inst: Instruction, *, scalar: bool) -> KernelSpec:
    body, root, outputs = body_of(inst), root_of(inst), leaves_of(inst.shape)
    _check(inst, body)
    if not outputs:
        raise refuse(inst, "a result without arrays")
    domain = max(outputs, key=lambda s: s.num_elements)
    lanes = 1 if scalar else choose_lanes(body_types(inst, body), _longest(outputs, body))
    em = start_emitter(inst, body, lanes)
    frame = em.frame
    outs = [Leaf(p, s) for p, s in zip(frame.outputs, outputs, strict=True)]
    nest = Nest(em)
    nest.write(_pieces(em, root, outs, body))
    size = sum(s.num_bytes for s in outputs) + sum(o.shape.num_bytes for o in inst.operands)
    flops = domain.num_elements * len(body)
    return frame.spec(signature(inst), nest.units, grain=nest.grain, flops=flops, size=size)


def _longest(outputs: Sequence[Shape], body: Sequence[Instruction]) -> int:
    """How long a vector can be useful: the longest minor dimension, or everything when one counter runs over it."""
    if all(is_flat(body, s) for s in outputs) or any(minor_length(s) < 8 for s in outputs):
        return max(s.num_elements for s in outputs)
    return max(minor_length(s) for s in outputs)


def _check(inst: Instruction, body: Sequence[Instruction]) -> None:
    for _, leaf in inst.shape.leaves():
        if not leaf.is_array:
            raise refuse(inst, f"a result of shape {leaf}")
    for i in body:
        if i.op is ops.CONSTANT and i is inst:
            raise refuse(inst, "a constant is a buffer already")


def _pieces(em: Emitter, root: Instruction, outs: Sequence[Leaf], body: Sequence[Instruction]) -> list[Piece]:
    if root.op is ops.CONCATENATE and root not in em.leaves:
        return [p for p in _concatenate_pieces(em, root, outs[0])]
    roots = _roots(root)
    if any(r.shape.is_tuple for r in roots):
        if len(roots) > 1:
            raise refuse(root, "a tuple-shaped op among several results")
        return [_tuple_piece(em, roots[0], outs)]
    groups: dict[tuple[object, ...], list[tuple[Instruction, Leaf]]] = {}
    for r, out in zip(roots, outs, strict=True):
        groups.setdefault((out.shape.dims, out.strides), []).append((r, out))
    flat = (
        len(groups) == 1
        and is_flat(body, outs[0].shape)
        and all(same_place(r.shape, o.shape) for r, o in zip(roots, outs, strict=True))
    )
    return [_stores_piece(em, group, flat) for group in groups.values()]


def _roots(root: Instruction) -> list[Instruction]:
    """The elements of a root tuple, nested ones in order; the root itself when it is none."""
    out: list[Instruction] = []
    stack = [root]
    while stack:
        inst = stack.pop()
        if inst.op is ops.TUPLE:
            stack.extend(reversed(inst.operands))
        else:
            out.append(inst)
    return out


def _stores_piece(em: Emitter, group: list[tuple[Instruction, Leaf]], flat: bool) -> Piece:
    def body(index: Index) -> None:
        values = [em.emit(r, index) for r, _ in group]
        for (_, out), value in zip(group, values, strict=True):
            store(em, out, index, value)  # type: ignore[arg-type]

    return Piece(group[0][1].shape, body, flat)


def _tuple_piece(em: Emitter, root: Instruction, outs: Sequence[Leaf]) -> Piece:
    """A tuple-shaped op (variadic reduce, ...): one position, several values."""

    def write(index: Index) -> None:
        values: tuple[Value, ...] = em.emit(root, index)  # type: ignore[assignment]
        for out, value in zip(outs, values, strict=True):
            store(em, out, index, value)

    return Piece(outs[0].shape, write)


def _concatenate_pieces(em: Emitter, root: Instruction, out: Leaf) -> list[Piece]:
    """One nest an operand, each storing into its own part of the output."""
    dim, start, pieces = root.attrs.dimension, 0, []
    for o in root.operands:
        pieces.append(_part_piece(em, o, out, dim, start))
        start += o.shape.dims[dim]
    return pieces


def _part_piece(em: Emitter, operand: Instruction, out: Leaf, dim: int, start: int) -> Piece:
    def body(index: Index) -> None:
        value = em.converted(em.emit(operand, index), operand, out.shape.element_type)
        comps = list(em.comps(index))
        comps[dim] = em.m.add(comps[dim], number(start))
        store(em, out, movement.at(out.shape, comps), value)

    layout = out.shape.layout
    return Piece(
        Shape.array(operand.shape.element_type, operand.shape.dims, layout and layout.of(layout.minor_to_major)), body
    )
