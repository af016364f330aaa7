"""The public face of the element emitters: `ELEMENT`, `Site`, `emit_element`. Importing it fills the table."""

from __future__ import annotations

from collections.abc import Sequence

from xyla.codegen import elements_basic, elements_int, elements_math
from xyla.codegen.elements_basic import bit_cast, compare_elements, total_order_key
from xyla.codegen.elements_convert import compute_float, convert, from_compute
from xyla.codegen.elements_table import ELEMENT, Site
from xyla.codegen.elements_types import (
    element_constant,
    gather_element,
    load_element,
    memory_type,
    natural_lanes,
    register_type,
    scatter_element,
    splat_element,
    store_element,
)
from xyla.codegen.llvm import Builder, Value
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import all_ops


def site_of(inst: Instruction) -> Site:
    """What the element rules need to know of an instruction with array operands and an array result."""
    ins = tuple(o.shape.element_type for o in inst.operands)
    return Site(inst.op, inst.shape.element_type, ins, inst.attrs)


def emit_element(b: Builder, inst: Instruction, operands: Sequence[Value]) -> Value:
    """Emits one element (or vector of elements) of an element-wise instruction.

    Raises UNIMPLEMENTED naming the op and its element types when there is no rule for them.
    """
    return ELEMENT[inst.op](b, site_of(inst), *operands)


__all__ = [
    "ELEMENT",
    "Site",
    "bit_cast",
    "compare_elements",
    "compute_float",
    "convert",
    "element_constant",
    "emit_element",
    "from_compute",
    "gather_element",
    "load_element",
    "memory_type",
    "natural_lanes",
    "register_type",
    "scatter_element",
    "site_of",
    "splat_element",
    "store_element",
    "total_order_key",
]
_FAMILIES = (elements_basic, elements_int, elements_math)

for _op in all_ops():
    if _op not in ELEMENT:
        ELEMENT.unsupported(_op, "it is not element-wise: kernels emit it, or the runtime")
