"""Sizes of dynamic dimensions: what each is, by what the program says.

    known = DynamicDimensions(comp)
    known.of(inst)        # {0: size} for an array whose dimension 0 is dynamic; a list of such for a tuple

Sizes are expressions over sizes that values bring along (parameters, results of calls and loops) and over s32 scalars
(set-dimension-size). What is declared static may be dynamic all the same: older programs declare it so.
Source: XLA's DynamicDimensionInference.
"""

from __future__ import annotations

from xyla.analysis.dynamic_rules import INFER, Known, array
from xyla.analysis.sizes import Sizes
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.shape import Shape
from xyla.support.dtypes import S32
from xyla.support.status import XylaError


class DynamicDimensions:
    """The dynamic dimensions of a computation's instructions, found once, operands first: linear in its size."""

    def __init__(self, comp: Computation) -> None:
        self.sizes = Sizes()
        self._known: dict[Instruction, Known] = {}
        self._errors: dict[Instruction, XylaError] = {}
        for inst in comp.post_order():
            self._visit(inst)

    def of(self, inst: Instruction) -> Known:
        """The sizes of `inst`'s dynamic dimensions; none for an instruction that was not there.

        Raises UNIMPLEMENTED, naming the op and the reason, where they are not known.
        """
        error = self._errors.get(inst)
        if error is not None:
            raise error
        return self._known.get(inst, {})

    def _visit(self, inst: Instruction) -> None:
        failed = next((self._errors[o] for o in inst.operands if o in self._errors), None)
        if failed is not None:
            self._errors[inst] = failed
            return
        operands = [self._known[o] for o in inst.operands]
        if inst.op is ops.GET_DIMENSION_SIZE:
            size = array(operands[0]).get(inst.attrs.dimension)
            bound = inst.operands[0].shape.dims[inst.attrs.dimension]
            self.sizes.note(inst, size or self.sizes.constant(bound))
        if inst.shape.is_array and inst.shape.is_scalar and inst.shape.element_type is S32:
            self.sizes.scalar(inst)
        sets = inst.op is ops.SET_DIMENSION_SIZE
        if not sets and not inst.shape.is_dynamic and not any(map(is_dynamic, operands)):
            self._known[inst] = _static(inst.shape)
            return
        try:
            self._known[inst] = INFER[inst.op](self.sizes, inst, operands)
        except XylaError as error:
            if error.span is None:
                error.span = inst.span
            self._errors[inst] = error


def is_dynamic(known: Known) -> bool:
    """Whether any part has a dynamic dimension."""
    work = [known]
    while work:
        part = work.pop()
        if isinstance(part, list):
            work.extend(part)
        elif part:
            return True
    return False


def _static(shape: Shape) -> Known:
    return [_static(s) for s in shape.tuple_shapes] if shape.is_tuple else {}
