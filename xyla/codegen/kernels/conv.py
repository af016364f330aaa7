"""convolution: direct loops over the window and the input features, with a register tile of results.

Lanes run along the output features when those are minor, else along a spatial dimension; everything else (strides,
padding of either sign, dilations, reversal, groups) is index arithmetic. Spec: XLA operation semantics (Conv).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xyla.codegen.elements import convert, element_constant, splat_element
from xyla.codegen.fused import EMIT, Emitter, NeedScalarError, Request, Rule
from xyla.codegen.index import ZERO, Index, Ix
from xyla.codegen.kernel import KernelSpec
from xyla.codegen.kernels.dot import accumulation_type, multiply_add
from xyla.codegen.kernels.loop import body_of, body_types, loop_kernel, root_of
from xyla.codegen.kernels.loops import choose_lanes, minor_to_major
from xyla.codegen.kernels.movement import at, choose, within
from xyla.codegen.kernels.reduce import Loops
from xyla.codegen.kernels.tile import Tile
from xyla.codegen.llvm import Val, Value
from xyla.hlo import ops
from xyla.hlo.attr_types import ConvDims, WindowDim
from xyla.hlo.module import Instruction

TILE_ROWS, TILE_VECTORS = 6, 2


class Conv:
    """Index maps of one convolution."""

    def __init__(self, inst: Instruction) -> None:
        a = inst.attrs
        self.dims: ConvDims = a.dim_labels
        self.window: tuple[WindowDim, ...] = a.window.dims
        self.input, self.kernel, self.output = inst.operands[0].shape, inst.operands[1].shape, inst.shape
        self.feature_groups, self.batch_groups = a.feature_group_count, a.batch_group_count
        self.depth = self.kernel.dims[self.dims.kernel_input_feature]
        self.acc_type = accumulation_type(inst.shape.element_type, self.input.element_type, self.kernel.element_type)

    @property
    def loop_sizes(self) -> list[int]:
        """Trip counts of the loops a result element needs: the window's dimensions, then the input features."""
        return [*(w.size for w in self.window), self.depth]

    def places(self, em: Emitter, out: Sequence[Ix], inner: Sequence[Ix]) -> tuple[Index, Val | bool | None, Index]:
        """(input position, whether it exists, kernel position) of one product of the result at `out`."""
        m, d = em.m, self.dims
        kernel, source = [ZERO] * self.kernel.rank, [ZERO] * self.input.rank
        inside: Val | bool | None = None
        for s, w in enumerate(self.window):
            k = inner[s]
            n = self.input.dims[d.input_spatial[s]]
            kernel[d.kernel_spatial[s]] = m.rsub(w.size - 1, k) if w.reversal else k
            x = m.add(m.add(m.mul(out[d.output_spatial[s]], w.stride), m.mul(k, w.rhs_dilate)), -w.pad_low)
            inside = m.both(inside, m.compare("sge", x, 0))
            if w.lhs_dilate != 1:
                x, rest = m.divmod(x, w.lhs_dilate)
                inside = m.both(inside, m.compare("eq", rest, 0))
            inside = m.both(inside, m.compare("slt", x, n))
            source[d.input_spatial[s]] = within(x, n)
        feature, batch = out[d.output_feature], out[d.output_batch]
        features = self.output.dims[d.output_feature]
        kernel[d.kernel_output_feature], kernel[d.kernel_input_feature] = feature, inner[-1]
        channel = inner[-1]
        if self.feature_groups > 1:
            group, _ = m.divmod(feature, features // self.feature_groups)
            channel = m.add(m.mul(group, self.depth), channel)
        if self.batch_groups > 1:
            group, _ = m.divmod(feature, features // self.batch_groups)
            size = self.input.dims[d.input_batch] // self.batch_groups
            batch = m.add(m.mul(group, size), batch)
        source[d.input_feature], source[d.input_batch] = channel, batch
        return at(self.input, source), inside, at(self.kernel, kernel)

    def product(self, em: Emitter, acc: Value, x: Value, inside: Val | bool | None, w: Value, lanes: int) -> Value:
        """acc + x*w, x being 0 outside the input."""
        x = convert(em.b, self.input.element_type, self.acc_type, x)
        w = convert(em.b, self.kernel.element_type, self.acc_type, w)
        if isinstance(inside, Val):
            x = choose(em, inside, x, element_constant(self.acc_type, 0))
        return multiply_add(em, self.acc_type, acc, splat_element(em.b, x, lanes), splat_element(em.b, w, lanes))


@EMIT.rule(ops.CONVOLUTION)
def conv_element(em: Emitter, inst: Instruction, index: Index, pred: Val | None) -> Rule:
    """One result element, for each lane on its own."""
    conv, (x, w) = Conv(inst), inst.operands
    comps = em.comps(index)
    lanes = 1 if all(c.is_uniform for c in comps) else em.lanes
    zero = element_constant(conv.acc_type, 0, lanes)
    if conv.input.num_elements and conv.kernel.num_elements:
        loops = Loops(em, conv.loop_sizes, [zero])
        with em.scope():
            source, inside, kernel = conv.places(em, comps, loops.indices)
            guard = em.m.both(pred, inside)
            acc = loops.carried[0]
            if inside is not False:
                u: Any = yield Request(x, source, guard if isinstance(guard, Val) else None)
                v: Any = yield Request(w, kernel, pred)
                acc = conv.product(em, acc, u, inside, v, lanes)
        zero = loops.close([acc])[0]
    return convert(em.b, conv.acc_type, inst.shape.element_type, zero)


def conv_kernel(inst: Instruction) -> KernelSpec:
    """A kernel for a convolution, or for a fusion whose root is one."""
    root = root_of(inst)
    conv = Conv(root)
    empty = not (conv.input.num_elements and conv.kernel.num_elements and conv.output.num_elements)
    order = minor_to_major(conv.output)
    if empty or not order or conv.output.dims[order[0]] < 4:
        return loop_kernel(inst)
    try:
        return _tiled(inst, root, conv, order[0])
    except NeedScalarError:
        return loop_kernel(inst)


def _tiled(inst: Instruction, root: Instruction, conv: Conv, col: int) -> KernelSpec:
    """Columns along the minor dimension; rows along the features, or along space when the features are minor."""
    d, dims = conv.dims, conv.output.dims
    choices = [*reversed(d.output_spatial), d.output_batch] if col == d.output_feature else [d.output_feature]
    row = next((o for o in choices if dims[o] > 1), choices[0])
    types = [*body_types(inst, body_of(inst)), conv.acc_type]
    lanes = choose_lanes(types, dims[col])
    size = (2, 2) if conv.acc_type.is_complex else (TILE_ROWS, TILE_VECTORS)
    tile = Tile(inst, conv.acc_type, lanes, row, col, size, lanes_along_columns=True)
    em, (x, w) = tile.em, root.operands

    def accumulate(comps: list[Ix], first_row: Ix, first_col: Ix) -> list[Value]:
        zero = element_constant(conv.acc_type, 0, lanes)
        loops = Loops(em, conv.loop_sizes, [zero] * (tile.rows * tile.vectors))
        accs = list(loops.carried)
        with em.scope():
            for r in range(tile.rows):
                for v in range(tile.vectors):
                    place = tile.place(comps, first_row, first_col, r, v)
                    source, inside, kernel = conv.places(em, place, loops.indices)
                    if inside is False:
                        continue
                    em.mask = tile.column_mask(v)
                    u: Any = em.emit(x, source, inside if isinstance(inside, Val) else None)
                    k: Any = em.emit(w, kernel)
                    em.mask = None
                    n = r * tile.vectors + v
                    accs[n] = conv.product(em, accs[n], u, inside, k, lanes)
        return loops.close(accs)

    return tile.build(accumulate, prod(conv.loop_sizes))
