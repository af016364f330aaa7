"""gemm and gemm with bias. Each gets a unique id, by which the runtime keeps what it knows of one product."""

from __future__ import annotations

from xyla.hlo.module import Instruction
from xyla.lowering import lmhlo
from xyla.lowering.gemm_steps import gemm_step
from xyla.lowering.lmhlo_to_rt.table import Context, attributes, rule
from xyla.runtime.program import Attribute, GemmCall, GemmStep


def _common(op: lmhlo.Gemm | lmhlo.GemmBias, context: Context) -> dict[str, Attribute]:
    dims = op.dot_dimension_numbers
    return attributes(
        uid=context.next("gemm"),
        algorithm=op.algorithm,
        alpha_imag=op.alpha_imag,
        alpha_real=op.alpha_real,
        lhs_batching_dimensions=dims.lhs_batching_dimensions,
        lhs_contracting_dimensions=dims.lhs_contracting_dimensions,
        rhs_batching_dimensions=dims.rhs_batching_dimensions,
        rhs_contracting_dimensions=dims.rhs_contracting_dimensions,
    )


@rule(lmhlo.Gemm)
def _gemm(op: lmhlo.Gemm, context: Context) -> None:
    """By BLAS where it takes the product. With beta, c is an input too."""
    given = _common(op, context)
    inputs: tuple[lmhlo.View, ...] = (op.a, op.b)
    if op.beta:
        given["beta"] = op.beta
        inputs = (op.a, op.b, op.c)
    made = gemm_step(context.call(op, "xla.gpu.gemm", inputs, (op.c,), given))
    if made is None:
        context.library_call(op, "xla.gpu.gemm", inputs, (op.c,), given)
    else:
        context.units.append((op.name, made.call))
        context.out.append(made)


@rule(lmhlo.GemmBias)
def _gemm_bias(op: lmhlo.GemmBias, context: Context) -> None:
    given = _common(op, context)
    given["beta"] = op.beta
    context.library_call(op, "xla.gpu.gemm.bias", (op.lhs, op.rhs, op.bias), (op.output,), given)


def gemm_of_instruction(op: lmhlo.Launch, inst: Instruction, unit: GemmCall, context: Context) -> GemmStep:
    """The step of a launch whose instruction is a dot that the target gives to BLAS."""
    (a, b), (c,) = op.inputs, op.outputs
    given = attributes(
        uid=context.next("gemm"),
        lhs_batching_dimensions=inst.attrs.lhs_batch_dims,
        lhs_contracting_dimensions=inst.attrs.lhs_contracting_dims,
        rhs_batching_dimensions=inst.attrs.rhs_batch_dims,
        rhs_contracting_dimensions=inst.attrs.rhs_contracting_dims,
    )
    call = context.call(op, "xla.gpu.gemm", (a, b), (c,), given)
    first, second = (b, a) if unit.swap else (a, b)
    x, y, z = (context.slice(v) for v in (first, second, c))
    return GemmStep(call.name, c.type.dtype, unit, x, y, z, call)
