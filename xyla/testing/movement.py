"""Random chains of data movement on small arrays: rolls, nested windows, clamped starts, crops, overlapping updates.

    module, args = random_movement(seed=7, et=S32)

Nothing but indices decides the result, so every pass must keep every bit. Start indices are of several types and lie
far out of bounds as often as not; updates overlap; pads crop, and put elements apart; sizes of zero come up.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.attr_types import PaddingDim, SliceDim, Window, WindowDim
from xyla.hlo.module import Module
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Val
from xyla.support.dtypes import F32, PRED, S8, S32, S64, U8, U32, ElementType

Array = np.ndarray[Any, np.dtype[Any]]
MAX_ELEMENTS = 300
_INDEX_TYPES = (S32, S32, U8, S8, S64, U32)


def random_movement(seed: int, et: ElementType, size: int = 12) -> tuple[Module, list[Array]]:
    """A module of about `size` steps over arrays of `et` (integers, pred, or f32 that is only moved), and arguments."""
    drawing = _Drawing(random.Random(f"xyla movement {seed} {et.name}"), et)
    made = 0
    for _ in range(4 * size):
        value = drawing.rng.choice(_STEPS)(drawing)
        if value is not None and value.shape.num_elements <= MAX_ELEMENTS:
            drawing.values.append(value)
            made += 1
        if made == size:
            break
    unused = [v for v in drawing.values if not v.inst.users][-4:]
    drawing.b.comp.set_root(drawing.b.tuple(unused or drawing.values[-1:]).inst)
    drawing.b.module.set_entry(drawing.b.comp)
    return drawing.b.module, drawing.args


class _Drawing:
    """A chain being drawn: arrays so far, and scalars that serve as start indices."""

    def __init__(self, rng: random.Random, et: ElementType) -> None:
        self.rng, self.et = rng, et
        self.b = Builder(Module("movement").add_computation("main"))
        self.args: list[Array] = []
        self.values: list[Val] = []
        self.starts: list[Val] = []
        for _ in range(rng.randint(1, 3)):
            self.values.append(self.array(tuple(rng.choice((1, 2, 3, 4, 5)) for _ in range(rng.choice((1, 2, 2, 3))))))
        for _ in range(3):
            kind = rng.choice(_INDEX_TYPES)
            self.starts.append(self.argument(np.asarray(self.far(kind)).astype(kind.np), kind))

    def argument(self, value: Array, et: ElementType) -> Val:
        """A parameter with that value."""
        self.args.append(value)
        return self.b.parameter(Shape.array(et, value.shape))

    def array(self, dims: tuple[int, ...]) -> Val:
        """A parameter full of different numbers."""
        start = self.rng.randrange(100)
        values = (np.arange(math.prod(dims)) + start) % (2 if self.et is PRED else 120)
        return self.argument(values.astype(self.et.np).reshape(dims), self.et)

    def far(self, kind: ElementType) -> int:
        """An index, out of bounds as often as not."""
        info: Any = np.iinfo(kind.np)
        ends = [int(info.max), int(info.max) - 1] + ([-1, -2, -5, int(info.min)] if kind.is_signed else [])
        return self.rng.choice([0, 0, 1, 1, 2, 3, 4, 7, *ends])

    def value(self, rank: int | None = None) -> Val | None:
        """An earlier array, of that rank when it is given; later ones are likelier."""
        found = [v for v in self.values if rank is None or len(v.dims) == rank]
        return found[max(self.rng.randrange(len(found)) for _ in range(2))] if found else None

    def non_scalar(self) -> Val:
        """An earlier array of rank 1 or more (the first one is)."""
        found = [v for v in self.values if v.dims]
        return found[max(self.rng.randrange(len(found)) for _ in range(2))]

    def filler(self) -> Val:
        """A scalar constant."""
        return self.b.scalar(self.rng.choice((0, 1)), self.et)

    def indices(self, count: int) -> list[Val]:
        """Start indices of one type: parameters and constants."""
        kind = self.rng.choice(_INDEX_TYPES)
        own = [s for s in self.starts if s.et is kind]
        return [
            self.rng.choice(own) if own and self.rng.random() < 0.6 else self.b.scalar(self.far(kind), kind)
            for _ in range(count)
        ]

    def reducer(self) -> OpDef[Any]:
        """An op whose result does not depend on the order."""
        if self.et is PRED:
            return self.rng.choice((ops.AND, ops.OR))
        return self.rng.choice((ops.MAXIMUM, ops.MINIMUM) if self.et.is_float else (ops.ADD, ops.MULTIPLY, ops.MAXIMUM))


def _slice(d: _Drawing) -> Val:
    x = d.non_scalar()
    ranges = []
    for n in x.dims:
        start = d.rng.randint(0, max(n - 1, 0))
        whole = d.rng.random() < 0.4
        ranges.append(SliceDim(0, n) if whole else SliceDim(start, d.rng.randint(start, n), d.rng.choice((1, 1, 1, 2))))
    return d.b.apply(ops.SLICE, x, attrs=ops.SliceAttrs(tuple(ranges)))


def _window(d: _Drawing) -> Val:
    x = d.non_scalar()
    sizes = [n if d.rng.random() < 0.3 else d.rng.randint(min(1, n), n) for n in x.dims]
    return d.b.dynamic_slice(x, d.indices(len(sizes)), sizes)


def _update(d: _Drawing) -> Val | None:
    x = d.non_scalar()
    starts = d.indices(len(x.dims))
    u = d.value(len(x.dims))
    if d.rng.random() < 0.4:  # with a window of its own, from the same place or from another
        other = starts if d.rng.random() < 0.5 else d.indices(len(x.dims))
        u = d.b.dynamic_slice(x, other, [max(n - 1, 0) for n in x.dims])
    if u is None or any(a > b for a, b in zip(u.dims, x.dims, strict=True)):
        return None
    base = d.filler().broadcast(x.dims) if d.rng.random() < 0.2 else x
    updated = d.b.update(base, u, starts)
    return d.b.dynamic_slice(updated, starts, u.dims) if d.rng.random() < 0.3 else updated


def _roll(d: _Drawing) -> Val:
    x = d.non_scalar()
    dim = d.rng.randrange(len(x.dims))
    at = d.rng.randint(0, x.dims[dim])
    return d.b.concat([x.slice_dim(dim, at, x.dims[dim]), x.slice_dim(dim, 0, at)], dim)


def _concatenate(d: _Drawing) -> Val:
    x = d.non_scalar()
    dim = d.rng.randrange(len(x.dims))
    fitting = [v for v in d.values if len(v.dims) == len(x.dims)]
    fitting = [
        v for v in fitting if all(i == dim or a == b for i, (a, b) in enumerate(zip(v.dims, x.dims, strict=True)))
    ]
    parts = [d.rng.choice(fitting) for _ in range(d.rng.choice((2, 2, 3)))]
    if d.rng.random() < 0.3:
        parts[0] = d.filler().broadcast(x.dims)
    return d.b.concat(parts, dim)


def _pad(d: _Drawing) -> Val:
    x = d.non_scalar()
    padding = []
    for n in x.dims:
        interior = d.rng.choice((0, 0, 0, 1))
        extent = n + max(n - 1, 0) * interior
        low = max(d.rng.choice((0, 0, 1, 2, -1, -2)), -extent)
        padding.append(PaddingDim(low, max(d.rng.choice((0, 0, 1, 2, -1)), -extent - min(low, 0)), interior))
    return d.b.apply(ops.PAD, x, d.filler(), attrs=ops.PadAttrs(tuple(padding)))


def _reshape(d: _Drawing) -> Val:
    x = d.non_scalar()
    dims = list(x.dims)
    if d.rng.random() < 0.5:
        dims.insert(d.rng.randint(0, len(dims)), 1)
    elif 1 in dims:
        dims.remove(1)
    elif len(dims) > 1:
        dims[:2] = [dims[0] * dims[1]]
    return x.reshape(*dims)


def _transpose(d: _Drawing) -> Val:
    x = d.non_scalar()
    return x.transpose(*d.rng.sample(range(len(x.dims)), len(x.dims)))


def _reverse(d: _Drawing) -> Val:
    x = d.non_scalar()
    dims = tuple(i for i in range(len(x.dims)) if d.rng.random() < 0.5)
    return d.b.apply(ops.REVERSE, x, attrs=ops.DimensionsAttrs(dims))


def _broadcast(d: _Drawing) -> Val:
    x = d.non_scalar()
    at = d.rng.randint(0, len(x.dims))
    return x.broadcast(
        [*x.dims[:at], d.rng.choice((1, 2, 3)), *x.dims[at:]], [i + (i >= at) for i in range(len(x.dims))]
    )


def _reduce(d: _Drawing) -> Val:
    x = d.non_scalar()
    return d.b.reduce(x, d.filler(), [i for i in range(len(x.dims)) if d.rng.random() < 0.5], d.reducer())


def _reduce_window(d: _Drawing) -> Val:
    x = d.non_scalar()
    dims = []
    for n in x.dims:
        size = max(d.rng.choice((1, 1, 2, n)), 1)
        low, high = d.rng.choice((0, 0, 1, size - 1)), d.rng.choice((0, 0, 1))
        dims.append(
            WindowDim(size, d.rng.choice((1, 1, 2)), low, high, d.rng.choice((1, 1, 2)), d.rng.choice((1, 1, 2)))
        )
    called = [d.b.scalar_computation(d.reducer(), d.et)]
    return d.b.apply(ops.REDUCE_WINDOW, x, d.filler(), attrs=ops.WindowAttrs(Window(tuple(dims))), called=called)


def _rows(d: _Drawing, x: Val) -> tuple[Val, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(indices, the dimensions they are for, collapsed dimensions, window sizes) of a gather or scatter."""
    along = tuple(d.rng.sample(range(len(x.dims)), d.rng.randint(1, len(x.dims))))
    kind = d.rng.choice((S32, U8, S8))
    rows = [[d.far(kind) for _ in along] for _ in range(d.rng.choice((1, 2, 3)))]
    collapsed = tuple(i for i in range(len(x.dims)) if d.rng.random() < 0.5)
    sizes = tuple(1 if i in collapsed else d.rng.randint(min(1, n), n) for i, n in enumerate(x.dims))
    return d.argument(np.asarray(rows).astype(kind.np), kind), along, collapsed, sizes


def _gather(d: _Drawing) -> Val | None:
    x = d.non_scalar()
    if 0 in x.dims:
        return None
    indices, along, collapsed, sizes = _rows(d, x)
    offsets = tuple(range(1, 1 + len(sizes) - len(collapsed)))
    attrs = ops.GatherAttrs(
        offset_dims=offsets,
        collapsed_slice_dims=collapsed,
        start_index_map=along,
        index_vector_dim=1,
        slice_sizes=sizes,
    )
    return d.b.apply(ops.GATHER, x, indices, attrs=attrs)


def _scatter(d: _Drawing) -> Val | None:
    x = d.non_scalar()
    if 0 in x.dims:
        return None
    indices, along, inserted, sizes = _rows(d, x)
    window = [n for i, n in enumerate(sizes) if i not in inserted]
    updates = d.array((indices.dims[0], *window))
    attrs = ops.ScatterAttrs(
        update_window_dims=tuple(range(1, 1 + len(window))),
        inserted_window_dims=inserted,
        scatter_dims_to_operand_dims=along,
        index_vector_dim=1,
    )
    base = d.filler().broadcast(x.dims) if d.rng.random() < 0.3 else x
    called = [d.b.scalar_computation(d.reducer(), d.et)]
    return d.b.apply(ops.SCATTER, base, indices, updates, attrs=attrs, called=called)


def _select(d: _Drawing) -> Val:
    x = d.non_scalar()
    same = [v for v in d.values if v.dims == x.dims]
    start = d.rng.choice(d.starts)
    return d.b.select(start.gt(2).broadcast(x.dims), x, d.rng.choice(same))


def _iota(d: _Drawing) -> Val | None:
    x = d.non_scalar()
    return None if d.et is PRED else d.b.iota(d.et, x.dims, d.rng.randrange(len(x.dims)))


_STEPS = (
    _slice, _slice, _window, _window, _window, _update, _update, _roll, _roll, _concatenate, _concatenate, _pad, _pad,
    _reshape, _reshape, _transpose, _reverse, _broadcast, _reduce, _reduce_window, _gather, _scatter, _select, _iota,
)  # fmt: skip
ELEMENT_TYPES = (S32, U8, PRED, F32)
