"""The convolutions of LMHLO_GPU: library calls with their backend configuration.

Names, attributes and defaults are those of the dialect.
"""

from __future__ import annotations

from dataclasses import dataclass

from xyla.hlo.attr_types import ConvDims, Precision
from xyla.lowering.lmhlo_attrs import (
    ACTIVATION,
    BOOLS,
    CONV_CONFIG,
    CONV_DIMS,
    FLOAT,
    INT,
    INTS,
    PRECISIONS,
    ROWS,
    Activation,
    ConvConfig,
    Rows,
)
from xyla.lowering.lmhlo_base import Op, View, attr, define, operand


@dataclass(slots=True, eq=False, kw_only=True)
class Conv(Op):
    """What the five convolutions share. Lists that are None are absent: strides and dilations 1, padding 0."""

    dimension_numbers: ConvDims = attr(CONV_DIMS)
    window_strides: tuple[int, ...] | None = attr(INTS, None)
    padding: Rows | None = attr(ROWS, None)
    lhs_dilation: tuple[int, ...] | None = attr(INTS, None)
    rhs_dilation: tuple[int, ...] | None = attr(INTS, None)
    window_reversal: tuple[bool, ...] | None = attr(BOOLS, None)
    feature_group_count: int = attr(INT)
    batch_group_count: int = attr(INT, 1)
    precision_config: tuple[Precision, ...] = attr(PRECISIONS, ())
    result_scale: float = attr(FLOAT, 1.0)
    backend_config: ConvConfig = attr(CONV_CONFIG)


@define("lmhlo_gpu.conv_forward")
@dataclass(slots=True, eq=False, kw_only=True)
class ConvForward(Conv):
    """output = conv(input, filter)."""

    input: View = operand()
    filter: View = operand()
    output: View = operand()
    scratch: View = operand()


@define("lmhlo_gpu.conv_backwardinput")
@dataclass(slots=True, eq=False, kw_only=True)
class ConvBackwardInput(Conv):
    """d_input from d_output and the filter."""

    d_output: View = operand()
    filter: View = operand()
    d_input: View = operand()
    scratch: View = operand()


@define("lmhlo_gpu.conv_backwardfilter")
@dataclass(slots=True, eq=False, kw_only=True)
class ConvBackwardFilter(Conv):
    """d_filter from the input and d_output."""

    input: View = operand()
    d_output: View = operand()
    d_filter: View = operand()
    scratch: View = operand()


@define("lmhlo_gpu.conv_forward_fused")
@dataclass(slots=True, eq=False, kw_only=True)
class ConvForwardFused(Conv):
    """output = activation(scale conv(input, filter) + bias)."""

    input: View = operand()
    filter: View = operand()
    bias: View = operand()
    output: View = operand()
    scratch: View = operand()
    activation_mode: Activation = attr(ACTIVATION)


@define("lmhlo_gpu.conv_forward_fused_with_side_input")
@dataclass(slots=True, eq=False, kw_only=True)
class ConvForwardFusedSideInput(Conv):
    """output = activation(scale conv(input, filter) + side_input_scale side_input + bias)."""

    input: View = operand()
    filter: View = operand()
    bias: View = operand()
    side_input: View = operand()
    output: View = operand()
    scratch: View = operand()
    activation_mode: Activation = attr(ACTIVATION)
    side_input_scale: float = attr(FLOAT)
