"""Rules of reduce, reduce-window, select-and-scatter, map, sort, scan and topk.

Source: XLA operation semantics, one section an op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xyla.hlo.rules.common import (
    bare,
    braces,
    dims_match,
    dims_of,
    need_array,
    need_arrays,
    need_dim,
    need_dims,
    need_pred_scalar,
    parameter_shapes,
    same,
    same_but_precision,
    wrong_operand,
)
from xyla.hlo.shape import UNBOUNDED, Shape
from xyla.support.dtypes import S32
from xyla.support.status import invalid

if TYPE_CHECKING:
    from xyla.hlo.attr_types import Window
    from xyla.hlo.module import Computation
    from xyla.hlo.ops.compute import ReduceAttrs, ScanAttrs, SortAttrs, TopKAttrs, WindowAttrs
    from xyla.hlo.ops.movement import DimensionsAttrs


def results_of(comp: Computation) -> Sequence[Shape]:
    """The callee's results: the elements of a returned tuple, else the one value."""
    shape = comp.root.shape
    return shape.tuple_shapes if shape.is_tuple else (shape,)


def check_reducer(comp: Computation, inits: Sequence[Shape], elements: Sequence[Shape]) -> Sequence[Shape]:
    """The reducer (acc.., element..) -> acc..; returns the accumulator shapes.

    inits, elements: n scalar shapes each. Accumulators may be wider or narrower floats than the inputs.
    """
    n = len(inits)
    params = parameter_shapes(comp, 2 * n)
    results = results_of(comp)
    if len(results) != n:
        raise invalid(f"computation {comp.name!r} returns {len(results)} values, expected {n}")
    for i, result in enumerate(results):
        if result.rank or not result.is_array:
            raise invalid(f"computation {comp.name!r} returns {bare(result)}, expected a scalar")
        if not same(result, params[i]):
            raise invalid(f"computation {comp.name!r} returns {bare(result)} but takes {bare(params[i])}")
        if not same_but_precision(inits[i], result):
            raise invalid(f"computation {comp.name!r} returns {bare(result)}, expected {bare(inits[i])}")
        if not same_but_precision(elements[i], params[n + i]):
            raise invalid(
                f"parameter {n + i} of computation {comp.name!r} is {bare(params[n + i])}, expected {bare(elements[i])}"
            )
    return results


def _inputs_and_inits(shapes: Sequence[Shape]) -> tuple[Sequence[Shape], Sequence[Shape]]:
    """Splits n inputs and n scalar inits; the inputs share their dims."""
    if len(shapes) % 2 or not shapes:
        raise invalid(f"{len(shapes)} operands, expected as many inputs as initial values")
    n = len(shapes) // 2
    need_arrays(shapes)
    inputs, inits = shapes[:n], shapes[n:]
    for i, shape in enumerate(inputs[1:], 1):
        if not dims_match(shape, inputs[0]):
            raise wrong_operand(i, shape, f"the dims of {bare(inputs[0])}")
    for i, init in enumerate(inits):
        if init.rank:
            raise wrong_operand(n + i, init, "a scalar")
    return inputs, inits


def _accumulators(shapes: Sequence[Shape], comp: Computation) -> tuple[Sequence[Shape], Sequence[Shape]]:
    inputs, inits = _inputs_and_inits(shapes)
    elements = [Shape.array(s.element_type, ()) for s in inputs]
    return inputs, check_reducer(comp, inits, elements)


def _one_or_tuple(shapes: Sequence[Shape]) -> Shape:
    return shapes[0] if len(shapes) == 1 else Shape.tuple_of(shapes)


def _like_callee(shapes: Sequence[Shape], comp: Computation) -> Shape:
    """A tuple where the reducer returns one (which it may for one value too)."""
    return Shape.tuple_of(shapes) if comp.root.shape.is_tuple else shapes[0]


def reduce_shape(shapes: Sequence[Shape], attrs: ReduceAttrs, called: Sequence[Computation]) -> Shape:
    """reduce: the dims that stay, with the reducer's result types."""
    inputs, accs = _accumulators(shapes, called[0])
    need_dims("dimensions", attrs.dimensions, inputs[0].rank)
    gone = set(attrs.dimensions)
    out = []
    for shape, acc in zip(inputs, accs, strict=True):
        dims, dyn = dims_of(shape, (d for d in range(shape.rank) if d not in gone))
        out.append(Shape.array(acc.element_type, dims, None, dyn))
    return _like_callee(out, called[0])


def check_window(window: Window, rank: int) -> None:
    """One window dimension for each of `rank` dimensions; positive sizes, strides and dilations."""
    if len(window.dims) != rank:
        raise invalid(f"window has {len(window.dims)} dimensions, expected {rank}")
    for i, w in enumerate(window.dims):
        for what, value in (
            ("size", w.size),
            ("stride", w.stride),
            ("base dilation", w.lhs_dilate),
            ("window dilation", w.rhs_dilate),
        ):
            if value <= 0:
                raise invalid(f"window dimension {i} has {what} {value}, expected a positive one")


def windowed_dims(window: Window, base: Sequence[int]) -> list[int]:
    """Output extents of a window over `base`; `?` stays unknown."""
    return [UNBOUNDED if d == UNBOUNDED else max(w.output_size(d), 0) for w, d in zip(window.dims, base, strict=True)]


def reduce_window_shape(shapes: Sequence[Shape], attrs: WindowAttrs, called: Sequence[Computation]) -> Shape:
    """reduce-window: one element a window position."""
    inputs, accs = _accumulators(shapes, called[0])
    window = attrs.window
    # A scalar's window says nothing: some texts write size=1 for it.
    if inputs[0].rank:
        check_window(window, inputs[0].rank)
    out = []
    for shape, acc in zip(inputs, accs, strict=True):
        dims = windowed_dims(window, shape.dims) if shape.rank else []
        out.append(Shape.array(acc.element_type, dims, None, shape.dynamic))
    return _like_callee(out, called[0])


def select_and_scatter_shape(shapes: Sequence[Shape], attrs: WindowAttrs, called: Sequence[Computation]) -> Shape:
    """select-and-scatter(operand, source, init): the operand's shape; source has one element a window position."""
    operand, source, init = need_array(shapes), need_array(shapes, 1), need_array(shapes, 2)
    select, scatter = called
    check_window(attrs.window, operand.rank)
    element = Shape.array(operand.element_type, ())
    for i, param in enumerate(parameter_shapes(select, 2)):
        if not same_but_precision(param, element):
            raise invalid(f"parameter {i} of computation {select.name!r} is {bare(param)}, expected {element}")
    need_pred_scalar(select)
    if init.rank or not same_but_precision(init, element):
        raise wrong_operand(2, init, element)
    check_reducer(scatter, [init], [Shape.array(source.element_type, ())])
    want = Shape.array(operand.element_type, windowed_dims(attrs.window, operand.dims), None, operand.dynamic)
    if not same_but_precision(source, want):
        raise wrong_operand(1, source, want)
    return operand


def map_shape(shapes: Sequence[Shape], attrs: DimensionsAttrs, called: Sequence[Computation]) -> Shape:
    """map: the operands' dims with the callee's element type."""
    first = need_array(shapes)
    need_arrays(shapes)
    for i, shape in enumerate(shapes[1:], 1):
        if not dims_match(shape, first):
            raise wrong_operand(i, shape, f"the dims of {bare(first)}")
    if attrs.dimensions and attrs.dimensions != tuple(range(first.rank)):
        raise invalid(f"dimensions {braces(attrs.dimensions)}, expected {braces(range(first.rank))}")
    params = parameter_shapes(called[0], len(shapes))
    for i, (param, shape) in enumerate(zip(params, shapes, strict=True)):
        want = Shape.array(shape.element_type, ())
        if not same_but_precision(param, want):
            raise invalid(f"parameter {i} of computation {called[0].name!r} is {bare(param)}, expected {want}")
    result = called[0].root.shape
    if result.rank or not result.is_array:
        raise invalid(f"computation {called[0].name!r} returns {bare(result)}, expected a scalar")
    return Shape.array(result.element_type, first.dims, None, first.dynamic)


def sort_shape(shapes: Sequence[Shape], attrs: SortAttrs, called: Sequence[Computation]) -> Shape:
    """sort: the operands' shapes; the comparator takes two elements of each operand."""
    first = need_array(shapes)
    need_arrays(shapes)
    for i, shape in enumerate(shapes[1:], 1):
        if not dims_match(shape, first):
            raise wrong_operand(i, shape, f"the dims of {bare(first)}")
    # dimensions={} is a scalar's, or an old text's for the last dimension.
    if attrs.dimension != -1:
        need_dim("dimension", attrs.dimension, first.rank)
    params = parameter_shapes(called[0], 2 * len(shapes))
    for i, param in enumerate(params):
        want = Shape.array(shapes[i // 2].element_type, ())
        if not same_but_precision(param, want):
            raise invalid(f"parameter {i} of computation {called[0].name!r} is {bare(param)}, expected {want}")
    need_pred_scalar(called[0])
    return _one_or_tuple(shapes)


def scan_shape(shapes: Sequence[Shape], attrs: ScanAttrs, called: Sequence[Computation]) -> Shape:
    """scan(inputs.., carries..): (outputs.., final carries..), or the one result when the body returns no tuple.

    The body takes one slice of each input (the scanned dimension dropped) and the carries, and returns one slice of
    each output and the carries.
    """
    carries = attrs.num_carries
    if not 0 <= carries < len(shapes):
        raise invalid(f"num_carries {carries} is out of range for {len(shapes)} operands")
    need_arrays(shapes)
    inputs, inits = shapes[: len(shapes) - carries], shapes[len(shapes) - carries :]
    axis, body = attrs.dimension, called[0]
    for shape in inputs:
        need_dim("dimension", axis, shape.rank)
    size = inputs[0].dims[axis]
    slices = [s.with_dims(*dims_of(s, (d for d in range(s.rank) if d != axis))) for s in inputs]
    wants = [*slices, *inits]
    for i, param in enumerate(parameter_shapes(body, len(shapes))):
        if not same_but_precision(param, wants[i]):
            raise invalid(f"parameter {i} of computation {body.name!r} is {bare(param)}, expected {bare(wants[i])}")
    results = results_of(body)
    if len(results) < carries:
        raise invalid(f"computation {body.name!r} returns {len(results)} values, expected {carries} carries at the end")
    split = len(results) - carries
    for result, init in zip(results[split:], inits, strict=True):
        if not same_but_precision(result, init):
            raise invalid(f"computation {body.name!r} returns carry {bare(result)}, expected {bare(init)}")
    outputs = [r.with_dims([*r.dims[:axis], size, *r.dims[axis:]]) for r in results[:split]]
    everything = [*outputs, *(bare(i) for i in inits)]
    return Shape.tuple_of(everything) if body.root.shape.is_tuple else everything[0]


def topk_shape(shapes: Sequence[Shape], attrs: TopKAttrs, called: Sequence[Computation]) -> Shape:
    """topk: (values, s32 indices), k along the last dimension."""
    shape = need_array(shapes)
    if not shape.rank:
        raise wrong_operand(0, shape, "at least one dimension")
    if attrs.k < 0 or (attrs.k > shape.dims[-1] != UNBOUNDED):
        raise invalid(f"k is {attrs.k}, the last dimension of operand 0 has size {shape.dims[-1]}")
    dims = (*shape.dims[:-1], attrs.k)
    dyn = (*shape.dynamic[:-1], False) if shape.dynamic else ()
    return Shape.tuple_of([Shape.array(shape.element_type, dims, None, dyn), Shape.array(S32, dims, None, dyn)])
