"""Which results the CPU's kernels may write over an operand.

A kernel may when each element that it writes at a byte was computed from elements of that operand at the same byte
only, which it has read before it writes: element by element, vector by vector, and so in whatever order the parts of a
launch run. That holds for loop kernels whose whole body works on physical positions (`codegen.kernels.loops.is_flat`),
where all results of one position are computed before any is stored. What has no native kernel runs through a handler,
which reads all before it writes; it is held to the same rule.
"""

from __future__ import annotations

from xyla.analysis.alias import same_memory
from xyla.codegen.kernels.loop import body_of, leaves_of, root_of
from xyla.codegen.kernels.loops import is_flat, same_place
from xyla.codegen.kernels.table import FUSION_ROOTS
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape


def can_share(inst: Instruction, number: int, leaf: int, output: int) -> bool:
    """Whether output leaf `output` of `inst` may lie where leaf `leaf` of its operand `number` does.

    Only asked when nothing reads the operand afterwards. Conservative: False where the kernel's order is not known.
    """
    if inst.op is ops.FUSION:
        return _fusion_can_share(inst, number, leaf, output)
    if not inst.op.has(Trait.ELEMENTWISE) or not inst.shape.is_array or leaf or output:
        return False
    operand = inst.operands[number].shape
    return operand.is_array and same_memory(operand, inst.shape) and _in_step(inst, inst.shape)


def _in_step(inst: Instruction, out: Shape) -> bool:
    """Whether every other operand of the same size is read in step too, so that one counter runs over everything."""
    return all(o.shape.rank == 0 or same_place(o.shape, out) for o in inst.operands)


def _fusion_can_share(inst: Instruction, number: int, leaf: int, output: int) -> bool:
    """A fusion that becomes one flat loop: everything in it is computed from the physical position alone."""
    operand = inst.operands[number].shape
    outputs = leaves_of(inst.shape)
    if not operand.is_array or leaf or any(s.is_dynamic for s in (operand, inst.shape)):
        return False
    first = outputs[0]
    if root_of(inst).op in FUSION_ROOTS or not all(same_place(s, first) for s in outputs):
        return False
    target = outputs[output]
    same_bytes = operand.num_elements == target.num_elements and (
        operand.element_type.itemsize == target.element_type.itemsize
    )
    return same_bytes and is_flat(body_of(inst), first)
