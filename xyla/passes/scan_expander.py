"""scan as a loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Expander, Val
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule


@register
@dataclass(frozen=True, slots=True)
class ScanExpander(Expander):
    """Turns scan into a while loop over the scanned dimension that calls the scan's body. Exact.

    ROOT s = (f32[4], f32[]) scan(x, init), dimensions={0}, num_carries=1, to_apply=body
      ==>  w = (s32[], f32[4], f32[], f32[4]) while(...), whose body does
           (y, carry) = call(x[i], carry), to_apply=body; out = dynamic-update-slice(out, y, i)
    """

    name: ClassVar[str] = "scan-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.SCAN: expand_scan}


def expand_scan(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """scan(x, init) = for each i: (out[i], carry) = body(x[i], carry)."""
    attrs, body = inst.attrs, inst.called[0]
    inputs = len(inst.operands) - attrs.num_carries
    shapes = inst.shape.tuple_shapes if inst.shape.is_tuple else (inst.shape,)
    outputs = len(shapes) - attrs.num_carries
    if inst.shape.is_dynamic or any(o.shape.is_dynamic for o in inst.operands) or not inputs or outputs < 0:
        return None
    rw.permit()
    b = Builder(rw)
    operands = b.vals(inst.operands)
    length = operands[0].dims[attrs.dimension]
    carries = [v.convert(s.element_type) for v, s in zip(operands[inputs:], shapes[outputs:], strict=True)]
    outs = [b.full(0, s.element_type, s.dims) for s in shapes[:outputs]]

    def step(b: Builder, i: Val, values: list[Val]) -> list[Val]:
        outs, rest = values[:outputs], values[outputs:]
        carries, xs = rest[: attrs.num_carries], rest[attrs.num_carries :]
        at = length - 1 - i if attrs.is_reverse else i
        args = [*(_slice(x, attrs.dimension, at) for x in xs), *carries]
        args = [v.convert(p.shape.element_type) for v, p in zip(args, body.parameters, strict=True)]
        call = b.apply(ops.CALL, *args, attrs=ops.CallAttrs(), called=[body])
        count = len(shapes)
        results = [call.element(k) for k in range(count)] if body.root.shape.is_tuple else [call]
        results = [v.convert(s.element_type) for v, s in zip(results, shapes, strict=True)]
        written = [_write(o, r, attrs.dimension, at) for o, r in zip(outs, results, strict=False)]
        return [*written, *results[outputs:], *xs]

    end = b.counted_loop(length, [*outs, *carries, *operands[:inputs]], step, "scan")
    results = end[: len(shapes)]
    return (b.tuple(results) if inst.shape.is_tuple else results[0]).inst


def _slice(x: Val, dim: int, at: Val) -> Val:
    sizes = [1 if d == dim else s for d, s in enumerate(x.dims)]
    starts: list[Val | int] = [at if d == dim else 0 for d in range(len(x.dims))]
    return x.b.dynamic_slice(x, starts, sizes).reshape(*(s for d, s in enumerate(x.dims) if d != dim))


def _write(whole: Val, part: Val, dim: int, at: Val) -> Val:
    shape: Shape = whole.shape
    sizes = [1 if d == dim else s for d, s in enumerate(shape.dims)]
    starts: list[Val | int] = [at if d == dim else 0 for d in range(shape.rank)]
    return whole.b.update(whole, part.reshape(*sizes), starts)
