"""The five convolutions, with every attribute of the operation and of its backend configuration."""

from __future__ import annotations

from xyla.lowering import lmhlo
from xyla.lowering.lmhlo_to_rt.table import Context, refuse, rule
from xyla.runtime.library_calls.convolutions import ActivationMode
from xyla.runtime.program import Attribute

_ACTIVATIONS = {a: ActivationMode[a.name] for a in lmhlo.Activation}


def _common(op: lmhlo.Conv) -> dict[str, Attribute]:
    dims, backend = op.dimension_numbers, op.backend_config
    if op.batch_group_count != 1:
        raise refuse(op, "a library convolution has no batch groups")
    padding = op.padding or ()
    return {
        "input_batch_dim": dims.input_batch,
        "input_feature_dim": dims.input_feature,
        "input_spatial_dims": dims.input_spatial,
        "kernel_in_feature_dim": dims.kernel_input_feature,
        "kernel_out_feature_dim": dims.kernel_output_feature,
        "kernel_spatial_dims": dims.kernel_spatial,
        "output_batch_dim": dims.output_batch,
        "output_feature_dim": dims.output_feature,
        "output_spatial_dims": dims.output_spatial,
        "window_reversal": tuple(int(r) for r in op.window_reversal or ()),
        "window_strides": op.window_strides or (),
        "lhs_dilation": op.lhs_dilation or (),
        "rhs_dilation": op.rhs_dilation or (),
        "padding": tuple(p for low_high in padding for p in low_high),
        "algorithm": backend.algorithm,
        "tensor_ops_enabled": backend.tensor_ops_enabled,
        "is_cudnn_frontend": backend.is_cudnn_frontend,
        "workspace_size": backend.workspace_size,
        "knob_ids": backend.knob_ids,
        "knob_values": backend.knob_values,
        "operand_0_layout": backend.operand_0_layout,
        "operand_1_layout": backend.operand_1_layout,
        "result_layout": backend.result_layout,
        "feature_group_count": op.feature_group_count,
        "result_scale": op.result_scale,
    }


def _append(
    op: lmhlo.Conv,
    context: Context,
    kind: str,
    inputs: tuple[lmhlo.View, ...],
    outputs: tuple[lmhlo.View, ...],
    **more: Attribute,
) -> None:
    context.library_call(op, f"xla.gpu.conv.{kind}", inputs, outputs, {**_common(op), **more})


@rule(lmhlo.ConvForward)
def _forward(op: lmhlo.ConvForward, context: Context) -> None:
    _append(op, context, "forward", (op.input, op.filter), (op.output, op.scratch))


@rule(lmhlo.ConvBackwardInput)
def _backward_input(op: lmhlo.ConvBackwardInput, context: Context) -> None:
    _append(op, context, "backward.input", (op.d_output, op.filter), (op.d_input, op.scratch))


@rule(lmhlo.ConvBackwardFilter)
def _backward_filter(op: lmhlo.ConvBackwardFilter, context: Context) -> None:
    _append(op, context, "backward.filter", (op.input, op.d_output), (op.d_filter, op.scratch))


@rule(lmhlo.ConvForwardFused)
def _fused(op: lmhlo.ConvForwardFused, context: Context) -> None:
    inputs = (op.input, op.filter, op.bias)
    mode = _ACTIVATIONS[op.activation_mode].value
    _append(op, context, "forward.fused", inputs, (op.output, op.scratch), activation_mode=mode)


@rule(lmhlo.ConvForwardFusedSideInput)
def _fused_side_input(op: lmhlo.ConvForwardFusedSideInput, context: Context) -> None:
    inputs = (op.input, op.filter, op.bias, op.side_input)
    _append(
        op,
        context,
        "forward.fused.side_input",
        inputs,
        (op.output, op.scratch),
        activation_mode=_ACTIVATIONS[op.activation_mode].value,
        side_input_scale=op.side_input_scale,
    )
