"""Short ways to build shapes, computations and modules in tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import NO_ATTRS, Attrs, OpDef
from xyla.hlo.ops.basic import ConstantAttrs, ParameterAttrs
from xyla.hlo.ops.elementwise import CompareAttrs
from xyla.hlo.shape import EMPTY_TUPLE, TOKEN_SHAPE, UNBOUNDED, Layout, Shape
from xyla.support.dtypes import ElementType, by_name

_ARRAY = re.compile(r"(\w+)\[([^\]]*)\](?:\{([\d,]*)\})?")


def shape(text: str) -> Shape:
    """The shape that a short text names: `f32[2,<=3]{1,0}`, `token[]`, `(f32[2], s32[])`, one tuple level deep."""
    if text.startswith("("):
        return Shape.tuple_of(_array(m) for m in _ARRAY.finditer(text)) if len(text) > 2 else EMPTY_TUPLE
    match = _ARRAY.fullmatch(text)
    assert match is not None, text
    return _array(match)


def _array(match: re.Match[str]) -> Shape:
    name, dims, layout = match.groups()
    if name == "token":
        return TOKEN_SHAPE
    words = dims.split(",") if dims else []
    sizes = [UNBOUNDED if w == "?" else int(w.removeprefix("<=")) for w in words]
    order = Layout.of(int(d) for d in layout.split(",") if d) if layout is not None else None
    return Shape.array(by_name(name), sizes, order, [not w.isdigit() for w in words])


def parameter(comp: Computation, of: Shape | str) -> Instruction:
    """The next parameter of a computation."""
    number = len(comp.parameters)
    what = shape(of) if isinstance(of, str) else of
    return comp.add(ops.PARAMETER, (), ParameterAttrs(number), shape=what, name=f"p{number}")


def constant(comp: Computation, value: object, element_type: ElementType) -> Instruction:
    """A constant of a Python value."""
    literal = Literal.of(value, element_type)  # type: ignore[arg-type]
    return comp.add(ops.CONSTANT, (), ConstantAttrs(literal), shape=literal.shape)


def computation(
    module: Module, params: Sequence[Shape | str], op: OpDef[Any], attrs: Attrs = NO_ATTRS, name: str = "callee"
) -> Computation:
    """A computation that applies one op to all its parameters."""
    comp = module.add_computation(name)
    comp.set_root(comp.add(op, [parameter(comp, p) for p in params], attrs))
    return comp


def reducer(module: Module, element_type: ElementType, op: OpDef[Any] = ops.ADD) -> Computation:
    """(a, b) -> op(a, b) over scalars."""
    scalar = Shape.array(element_type, ())
    return computation(module, (scalar, scalar), op, name=f"{op.name}_{element_type}")


def comparator(module: Module, types: Sequence[ElementType]) -> Computation:
    """A sort comparator: the first pair of operands, ascending."""
    comp = module.add_computation("less")
    params = [parameter(comp, Shape.array(et, ())) for et in types for _ in (0, 1)]
    comp.set_root(comp.add(ops.COMPARE, params[:2], CompareAttrs(ComparisonDirection.LT)))
    return comp


def infer(op: OpDef[Any], operands: Sequence[str], attrs: Attrs = NO_ATTRS, called: Sequence[Computation] = ()) -> str:
    """The text of the shape an op infers for operands given as text."""
    assert op.infer is not None
    return str(op.infer([shape(o) for o in operands], attrs, tuple(called)))


def single_op(
    op: OpDef[Any],
    operands: Sequence[str],
    result: str,
    attrs: Attrs = NO_ATTRS,
    called: Sequence[Computation] = (),
    module: Module | None = None,
) -> Instruction:
    """The root of an entry that applies `op` to parameters, stating its result."""
    module = module or Module("m")
    comp = module.add_computation("main")
    inst = comp.add(op, [parameter(comp, o) for o in operands], attrs, called=called, shape=shape(result))
    comp.set_root(inst)
    module.set_entry(comp)
    return inst
