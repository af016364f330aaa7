"""Transposes of dot and convolution operands as other dimension numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from xyla.hlo import ops
from xyla.hlo.attr_types import ConvDims
from xyla.hlo.module import Instruction, Module
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite, RuleTable, run_rules


@register
@dataclass(frozen=True, slots=True)
class TransposeFolding(Pass):
    """Lets a dot or a convolution read its operand as it lies, in place of a transposed copy.

        t = f32[3,2] transpose(y), dimensions={1,0}
        dot(x, t), rhs_contracting_dims={0}      ==>      dot(x, y), rhs_contracting_dims={1}

    Only transposes that swap rows and columns of a (batched) matrix are folded; fold_batch folds every transpose that
    keeps the order of the operand's free dimensions.
    """

    name: ClassVar[str] = "transpose-folding"
    fold_batch: bool = False
    fold_convolutions: bool = True

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size."""
        table: RuleTable = {ops.DOT: (fold_any_into_dot,) if self.fold_batch else (fold_into_dot,)}
        if self.fold_convolutions:
            table[ops.CONVOLUTION] = (fold_into_convolution,)
        return run_rules(module, ctx, table)


def fold_into_dot(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(a^T, b) -> dot(a, b) with a's dimension numbers, for transposes that leave batch dimensions in place."""
    attrs: ops.DotAttrs = inst.attrs
    if any(o.shape.rank != len(attrs.lhs_batch_dims) + 2 for o in inst.operands):
        return None  # a matrix times a vector: which way the matrix lies is for the library to say
    sides = ((attrs.lhs_batch_dims, attrs.lhs_contracting_dims), (attrs.rhs_batch_dims, attrs.rhs_contracting_dims))
    folded = [_is_matrix_transpose(o, *side) for o, side in zip(inst.operands, sides, strict=False)]
    return _fold_dot(inst, rw, folded)


def fold_any_into_dot(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(transpose(a), b) -> dot(a, b) with a's dimension numbers, when a's free dimensions keep their order."""
    attrs: ops.DotAttrs = inst.attrs
    sides = ((attrs.lhs_batch_dims, attrs.lhs_contracting_dims), (attrs.rhs_batch_dims, attrs.rhs_contracting_dims))
    folded = [_keeps_free_order(o, (*b, *c)) for o, (b, c) in zip(inst.operands, sides, strict=False)]
    return _fold_dot(inst, rw, folded)


def _is_matrix_transpose(operand: Instruction, batch: tuple[int, ...], contracting: tuple[int, ...]) -> bool:
    if operand.op is not ops.TRANSPOSE or len(contracting) != 1:
        return False
    return all(operand.attrs.dimensions[d] == d for d in batch)


def _keeps_free_order(operand: Instruction, used: tuple[int, ...]) -> bool:
    if operand.op is not ops.TRANSPOSE:
        return False
    free = [operand.attrs.dimensions[d] for d in range(operand.shape.rank) if d not in used]
    return free == sorted(free)


def _fold_dot(inst: Instruction, rw: Rewrite, folded: list[bool]) -> Instruction | None:
    attrs: ops.DotAttrs = inst.attrs
    if not any(folded) or attrs.sparsity or len(inst.operands) != 2:
        return None
    left, right = (_source(o, f) for o, f in zip(inst.operands, folded, strict=True))
    new = replace(
        attrs,
        lhs_batch_dims=_mapped(inst.operands[0], folded[0], attrs.lhs_batch_dims),
        lhs_contracting_dims=_mapped(inst.operands[0], folded[0], attrs.lhs_contracting_dims),
        rhs_batch_dims=_mapped(inst.operands[1], folded[1], attrs.rhs_batch_dims),
        rhs_contracting_dims=_mapped(inst.operands[1], folded[1], attrs.rhs_contracting_dims),
    )
    made = rw.add(ops.DOT, [left, right], new, shape=inst.shape)
    made.backend_config, made.sharding = inst.backend_config, inst.sharding
    return made


def _source(operand: Instruction, folded: bool) -> Instruction:
    return operand.operands[0] if folded else operand


def _mapped(operand: Instruction, folded: bool, dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(operand.attrs.dimensions[d] for d in dims) if folded else dims


def fold_into_convolution(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convolution(transpose(a), transpose(k)) -> convolution(a, k) with a's and k's dimension labels."""
    folded = [o.op is ops.TRANSPOSE for o in inst.operands]
    if not any(folded):
        return None
    lhs, rhs = inst.operands
    d: ConvDims = inst.attrs.dim_labels
    if folded[0]:
        p = lhs.attrs.dimensions
        d = replace(
            d,
            input_batch=p[d.input_batch],
            input_feature=p[d.input_feature],
            input_spatial=tuple(p[s] for s in d.input_spatial),
        )
    if folded[1]:
        p = rhs.attrs.dimensions
        d = replace(
            d,
            kernel_input_feature=p[d.kernel_input_feature],
            kernel_output_feature=p[d.kernel_output_feature],
            kernel_spatial=tuple(p[s] for s in d.kernel_spatial),
        )
    operands = [_source(o, f) for o, f in zip(inst.operands, folded, strict=True)]
    made = rw.add(ops.CONVOLUTION, operands, replace(inst.attrs, dim_labels=d), shape=inst.shape)
    made.backend_config, made.sharding = inst.backend_config, inst.sharding
    return made
