"""StableHLO operations with control flow, calls, tuples; custom calls. Source: the StableHLO specification."""

from __future__ import annotations

import re

from xyla.formats.mlir import dense
from xyla.formats.mlir.attributes import ArrayAttr, Attribute, DialectAttr, DictAttr, StringAttr, SymbolRef, dict_body
from xyla.formats.mlir.ir import Operation
from xyla.formats.stablehlo import decode_attrs as read
from xyla.formats.stablehlo import entry, rules_mhlo
from xyla.formats.stablehlo.body import Body, Result, Rule, arity, at_least, regions
from xyla.formats.stablehlo.captures import captured
from xyla.formats.stablehlo.program import NotHloError
from xyla.hlo import ops
from xyla.hlo.attr_types import CustomCallApiVersion, OutputOperandAlias
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.shape import Layout, Shape
from xyla.support.status import invalid

_ALIAS_FIELD = re.compile(r"(\w+)\s*=\s*(\[[^\]]*\]|\d+)")
_API_VERSIONS = {
    0: CustomCallApiVersion.ORIGINAL,
    1: CustomCallApiVersion.ORIGINAL,
    2: CustomCallApiVersion.STATUS_RETURNING,
    3: CustomCallApiVersion.STATUS_RETURNING_UNIFIED,
    4: CustomCallApiVersion.TYPED_FFI,
}

# Custom calls that refinement checks or replaces (dynamic_calls.py).
REFINED = frozenset({
    "shape_assertion", "stablehlo.dynamic_approx_top_k", "stablehlo.dynamic_reduce_window",
    "stablehlo.dynamic_rng_bit_generator", "stablehlo.dynamic_top_k",
})  # fmt: skip

# -- structured control flow -----------------------------------------------------------------------------------


def _while(body: Body, op: Operation) -> Result:
    """Outer values that the regions use travel in the loop state, unchanged, after the operands."""
    regions(op, 2)
    outer = list(dict.fromkeys(v for region in op.regions for v in captured(region)))
    state = body.pack([*body.operands(op), *(body.get(v) for v in outer)])
    cond = body.converter.packed_region(body, op, 0, state.shape, outer, carry=False)
    loop = body.converter.packed_region(body, op, 1, state.shape, outer, carry=True)
    inst = body.add(ops.WHILE, [state], shape=state.shape, called=[cond, loop])
    count = len(op.operands)
    if outer and count == 1:
        return body.element(inst, 0)
    return inst if count else None


def _if(body: Body, op: Operation) -> Result:
    arity(op, 1, len(op.results))
    regions(op, 2)
    return _conditional(body, op)


def _case(body: Body, op: Operation) -> Result:
    arity(op, 1, len(op.results))
    if not op.regions:
        raise invalid("stablehlo.case needs at least one branch")
    return _conditional(body, op)


def _conditional(body: Body, op: Operation) -> Result:
    """Each branch takes what it uses from outside as its one operand."""
    operands = [body.get(op.operands[0])]
    branches: list[Computation] = []
    for index, region in enumerate(op.regions):
        outer = captured(region)
        argument = body.pack([body.get(v) for v in outer])
        operands.append(argument)
        branches.append(body.converter.packed_region(body, op, index, argument.shape, outer, carry=False))
    inst = body.add(ops.CONDITIONAL, operands, shape=body.packed_result(op), called=branches)
    return inst if op.results else None


# -- calls -----------------------------------------------------------------------------------------------------


def _call(body: Body, op: Operation) -> Result:
    callee = body.converter.function(read.symbol(op, "callee"))
    return _called(body, op, callee, ops.CallAttrs())


def _called(body: Body, op: Operation, callee: Computation, attrs: ops.CallAttrs) -> Instruction:
    operands, shape = body.operands(op), body.packed_result(op)
    wanted, result = callee.program_shape
    if len(wanted) != len(operands):
        raise invalid(f"function @{callee.name} takes {len(wanted)} arguments, not {len(operands)}")
    for i, (have, want) in enumerate(zip(operands, wanted, strict=True)):
        if not have.shape.compatible(want):
            raise invalid(f"argument {i} of @{callee.name} is {have.shape}, expected {want}")
    if not shape.compatible(result):
        raise invalid(f"function @{callee.name} returns {result}, not {shape}")
    return body.add(ops.CALL, operands, attrs, shape=result, called=[callee])


def _composite(body: Body, op: Operation) -> Result:
    """A call of the decomposition; name, version and attributes are frontend attributes."""
    callee = body.converter.function(read.symbol(op, "decomposition"))
    inst = _called(body, op, callee, ops.CallAttrs(is_composite=True))
    attributes = op.get("composite_attributes")
    text = str(attributes) if isinstance(attributes, DictAttr) else "{}"
    inst.frontend_attributes = (
        ("composite.attributes", text),
        ("composite.name", read.string(op, "name")),
        ("composite.version", str(read.integer(op, "version", 0))),
    )
    return inst


def _custom_call(body: Body, op: Operation) -> Result:
    target = read.string(op, "call_target_name")
    if target in REFINED:
        raise NotHloError(f"custom call @{target}")
    if target in rules_mhlo.TARGETS:
        return rules_mhlo.opcode_call(body, op, target)
    operands = body.operands(op)
    shape = body.packed_result(op)
    layouts = _layouts(op, "result_layouts")
    if layouts is not None:
        shape = _with_layouts(shape, layouts) if len(op.results) != 1 else _with_layout(shape, layouts[0])
    config, typed = _backend_config(op)
    version = read.integer(op, "api_version", 4 if typed else 1)
    if version not in _API_VERSIONS:
        raise read.missing(op, "api_version", "0 to 4")
    attrs = ops.CustomCallAttrs(
        custom_call_target=target,
        operand_layout_constraints=_operand_layouts(op, operands),
        custom_call_has_side_effect=read.boolean(op, "has_side_effect"),
        output_to_operand_aliasing=_aliases(op),
        api_version=CustomCallApiVersion.TYPED_FFI if typed else _API_VERSIONS[version],
    )
    called = [body.converter.function(name) for name in _called_names(op)]
    inst = body.add(ops.CUSTOM_CALL, operands, attrs, shape=shape, called=called)
    inst.backend_config = config
    if layouts is not None and not all(s.layout is None or s.layout.is_default for _, s in inst.shape.leaves()):
        entry.annotate(inst, op.attributes)
        return [_row_major(body, e) for e in body.unpack(inst, len(op.results))]
    return inst if op.results else None


def _row_major(body: Body, inst: Instruction) -> Instruction:
    """The layouts of a call's results are its own affair: everything else is made for values whose layout is open."""
    layout = inst.shape.layout
    if layout is None or layout.is_default:
        return inst
    return body.add(ops.COPY, [inst], shape=inst.shape.without_layout())


def _backend_config(op: Operation) -> tuple[str, bool]:
    """The configuration as HLO text has it, and whether it is a dictionary (the typed FFI's) and not a string."""
    for key in ("mhlo.backend_config", "backend_config"):
        attr = op.get(key)
        if isinstance(attr, DictAttr):
            return "{" + dict_body(attr.entries) + "}", True
    attr = op.get("backend_config")
    text = attr.value if isinstance(attr, StringAttr) else ""
    return (_c_quoted(text) if text else ""), False


def _c_quoted(text: str) -> str:
    """A C string literal: printable ASCII as is, other bytes in octal."""
    out = []
    for byte in text.encode("utf-8", "surrogateescape"):
        char = chr(byte)
        out.append(_C_ESCAPES.get(char) or (char if 32 <= byte < 127 else f"\\{byte:03o}"))
    return '"' + "".join(out) + '"'


_C_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "'": "\\'"}


def _called_names(op: Operation) -> list[str]:
    attr = op.get("called_computations")
    items = attr.items if isinstance(attr, ArrayAttr) else ()
    return [a.root for a in items if isinstance(a, SymbolRef)]


def _layouts(op: Operation, key: str) -> list[tuple[int, ...]] | None:
    attr = op.get(key)
    if not isinstance(attr, ArrayAttr):
        return None
    out = []
    for item in attr.items:
        order = dense.ints(item)
        if order is None:
            raise read.missing(op, key, "a list of minor-to-major orders")
        out.append(order)
    return out


def _operand_layouts(op: Operation, operands: list[Instruction]) -> tuple[Shape, ...] | None:
    layouts = _layouts(op, "operand_layouts")
    if layouts is None:
        return None
    if len(layouts) != len(operands):
        raise read.missing(op, "operand_layouts", f"{len(operands)} layouts")
    return tuple(_with_layout(o.shape, order) for o, order in zip(operands, layouts, strict=True))


def _with_layout(shape: Shape, order: tuple[int, ...]) -> Shape:
    return shape.with_layout(Layout.of(order)) if shape.is_array else shape


def _with_layouts(shape: Shape, layouts: list[tuple[int, ...]]) -> Shape:
    if len(layouts) != len(shape.tuple_shapes):
        raise invalid(f"{len(layouts)} result layouts for {len(shape.tuple_shapes)} results")
    return Shape.tuple_of(_with_layout(s, order) for s, order in zip(shape.tuple_shapes, layouts, strict=True))


def _aliases(op: Operation) -> tuple[OutputOperandAlias, ...]:
    attr = op.get("output_operand_aliases")
    items: tuple[Attribute, ...] = attr.items if isinstance(attr, ArrayAttr) else ()
    out = []
    for item in items:
        entries = dict(_ALIAS_FIELD.findall(item.body)) if isinstance(item, DialectAttr) else {}
        output = read.field_ints(entries, "output_tuple_indices")
        operand = read.field_ints(entries, "operand_tuple_indices")
        out.append(OutputOperandAlias(output, read.field_int(entries, "operand_index"), operand))
    return tuple(out)


# -- tuples ----------------------------------------------------------------------------------------------------


def _tuple(body: Body, op: Operation) -> Result:
    return body.tuple(body.operands(op))


def _get_tuple_element(body: Body, op: Operation) -> Result:
    arity(op, 1)
    operand, index = body.get(op.operands[0]), read.integer(op, "index")
    if not operand.shape.is_tuple or not 0 <= index < len(operand.shape.tuple_shapes):
        raise invalid(f"{operand.shape} has no element {index}")
    return body.element(operand, index)


def _optimization_barrier(body: Body, op: Operation) -> Result:
    if not op.operands:
        return None
    state = body.pack(body.operands(op))
    return body.add(ops.OPT_BARRIER, [state], shape=state.shape)


# -- checks (of programs that test themselves) -----------------------------------------------------------------


def _check(body: Body, op: Operation) -> Result:
    """check.* stays a custom call of that name; the expected value becomes an operand, tolerances the configuration."""
    at_least(op, 1)
    operands = body.operands(op)
    if op.get("value") is not None:
        operands.append(body.converter.constant_of(body, op, op.operands[0].type))
    attrs = ops.CustomCallAttrs(custom_call_target=op.name, custom_call_has_side_effect=True)
    inst = body.add(ops.CUSTOM_CALL, operands, attrs, shape=Shape.tuple_of([]))
    entries = {**op.properties, **op.attributes}
    entries.pop("value", None)
    inst.backend_config = "{" + dict_body(tuple(entries.items())) + "}" if entries else ""
    return None


def _nothing(body: Body, op: Operation) -> Result:
    """Debugging output: no values, no effect on any."""
    return None


def _probe(body: Body, op: Operation) -> Result:
    """A probe records its operand and passes it on."""
    arity(op, 1)
    return body.get(op.operands[0])


_CHECKS = ("expect_eq", "expect_eq_const", "expect_almost_eq", "expect_almost_eq_const", "expect_close")
RULES: dict[str, Rule] = {
    "stablehlo.while": _while,
    "stablehlo.if": _if,
    "stablehlo.case": _case,
    "func.call": _call,
    "stablehlo.composite": _composite,
    "stablehlo.custom_call": _custom_call,
    "stablehlo.tuple": _tuple,
    "stablehlo.get_tuple_element": _get_tuple_element,
    "stablehlo.optimization_barrier": _optimization_barrier,
    "stablehlo.trace": _nothing,
    "interpreter.print": _nothing,
    "interpreter.probe": _probe,
    **{f"check.{name}": _check for name in _CHECKS},
}
