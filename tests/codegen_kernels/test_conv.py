"""Convolution kernels: dimension orders, strides, padding of either sign, dilations, reversal, groups, types."""

from __future__ import annotations

import pytest

from xyla.testing.kernels import check, program


def conv(lhs: str, rhs: str, out: str, window: str, labels: str, extra: str = "") -> str:
    window = f"window={{{window}}}, " if window else ""
    return program(
        f"x = {lhs} parameter(0)",
        f"k = {rhs} parameter(1)",
        f"ROOT r = {out} convolution(x, k), {window}dim_labels={labels}{extra}",
    )


NHWC, NCHW = "b01f_01io->b01f", "bf01_oi01->bf01"
SAME = "size=3x3 pad=1_1x1_1"
CASES = {
    "features minor": conv("f32[2,6,7,3]", "f32[3,3,3,20]", "f32[2,6,7,20]", SAME, NHWC),
    "space minor": conv("f32[2,3,6,37]", "f32[5,3,3,3]", "f32[2,5,6,37]", SAME, NCHW),
    "strided space": conv("f32[2,3,6,37]", "f32[5,3,3,3]", "f32[2,5,6,19]", "size=3x3 stride=1x2 pad=1_1x1_1", NCHW),
    "everything at once": conv(
        "f32[2,6,7,4]", "f32[3,2,2,20]", "f32[2,2,12,20]",
        "size=3x2 stride=2x1 pad=1_0x-1_1 lhs_dilate=1x2 rhs_dilate=2x1 rhs_reversal=0x1", NHWC,
        ", feature_group_count=2",
    ),
    "depthwise": conv("f32[2,6,7,33]", "f32[3,3,1,33]", "f32[2,6,7,33]", SAME, NHWC, ", feature_group_count=33"),
    "depthwise with a multiplier": conv("f32[1,6,7,5]", "f32[3,3,1,15]", "f32[1,6,7,15]", SAME, NHWC,
        ", feature_group_count=5"),
    "batch groups": conv("f32[4,6,7,3]", "f32[3,3,3,20]", "f32[2,6,7,20]", SAME, NHWC, ", batch_group_count=2"),
    "bf16 groups": conv("bf16[2,4,6,37]", "bf16[6,2,3,3]", "bf16[2,6,6,37]", SAME, NCHW, ", feature_group_count=2"),
    "integers": conv("s8[2,6,7,3]", "s8[3,3,3,20]", "s32[2,6,7,20]", SAME, NHWC),
    "complex": conv("c64[2,6,7,3]", "c64[3,3,3,20]", "c64[2,6,7,20]", SAME, NHWC),
    "no space": conv("f32[9,30]", "f32[30,40]", "f32[9,40]", "", "bf_io->bf"),
    "few features": conv("f32[2,6,7,3]", "f32[3,3,3,2]", "f32[2,6,7,2]", SAME, NHWC),
    "layouts": conv(
        "f32[2,6,7,3]{0,1,2,3}", "f32[3,3,3,20]{2,0,3,1}", "f32[2,6,7,20]{1,2,3,0}", SAME, NHWC
    ),
    "an empty input": conv("f32[2,6,7,0]", "f32[3,3,0,20]", "f32[2,6,7,20]", SAME, NHWC),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str) -> None:
    check(CASES[name])
