"""reduce-window (windows, prefix scans) and select-and-scatter kernels."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.testing.kernels import check, kernel_of, monoid, program, run_kernel


def windows(op: str, source: str, out: str, window: str, init: str) -> str:
    et = source[: source.index("[")]
    return program(
        f"p = {source} parameter(0)",
        f"c = {et}[] constant({init})",
        f"ROOT r = {out} reduce-window(p, c), window={{{window}}}, to_apply=f",
        computations=monoid(op, et),
    )


CASES = {
    "max pool": ("maximum", "f32[2,6,9,20]", "f32[2,3,9,20]", "size=1x3x2x1 stride=1x2x1x1 pad=0_0x1_1x0_1x0_0", "-9"),
    "an init that is no identity": ("add", "f32[6,20]", "f32[3,10]", "size=3x3 stride=2x2 pad=1_1x1_1", "1"),
    "dilations and a crop": ("add", "f32[7,50]", "f32[7,47]",
        "size=1x3 stride=1x2 pad=0_0x-1_2 lhs_dilate=1x2 rhs_dilate=1x3", "0"),
    "a prefix sum along the lanes": ("add", "f32[7,50]", "f32[7,50]", "size=1x50 pad=0_0x49_0", "0"),
    "a suffix sum along the lanes": ("add", "f32[7,50]", "f32[7,50]", "size=1x50 pad=0_0x0_49", "0"),
    "a prefix sum across the lanes": ("add", "f32[50,7]", "f32[50,7]", "size=50x1 pad=49_0x0_0", "0"),
    "a suffix max with a longer window": ("maximum", "s8[3,50]", "s8[3,50]", "size=1x60 pad=0_0x0_59", "3"),
    "a prefix product": ("multiply", "u32[3,64]", "u32[3,64]", "size=1x64 pad=0_0x63_0", "1"),
    "a prefix sum whose init counts each time": ("add", "s32[2,40]", "s32[2,40]", "size=1x40 pad=0_0x39_0", "1"),
    "a bf16 prefix sum": ("add", "bf16[3,50]", "bf16[3,50]", "size=1x50 pad=0_0x49_0", "0"),
    "complex": ("add", "c64[5,40]", "c64[5,40]", "size=1x40 pad=0_0x39_0", "(0,0)"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_reduce_window(name: str) -> None:
    check(windows(*CASES[name]))


def pool_gradient(source: str, small: str, window: str, out: str | None = None) -> str:
    compare = (
        "g {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=GE\n}\n"
    )
    return program(
        f"x = {source} parameter(0)",
        f"s = {small} parameter(1)",
        "c = f32[] constant(2)",
        f"ROOT r = {out or source} select-and-scatter(x, s, c), window={{{window}}}, select=g, scatter=f",
        computations=monoid("add", "f32") + compare,
    )


GRADIENTS = {
    "channels minor": pool_gradient(
        "f32[2,6,9,20]", "f32[2,3,9,20]", "size=1x3x2x1 stride=1x2x1x1 pad=0_0x1_1x0_1x0_0"
    ),
    "space minor": pool_gradient("f32[2,3,6,9]", "f32[2,3,3,5]", "size=1x1x3x2 stride=1x1x2x2 pad=0_0x0_0x1_1x0_1"),
    "one dimension": pool_gradient("f32[20]", "f32[10]", "size=3 stride=2 pad=1_1"),
    "layouts": pool_gradient(
        "f32[2,6,9,20]{1,2,0,3}", "f32[2,3,9,20]", "size=1x3x2x1 stride=1x2x1x1 pad=0_0x1_1x0_1x0_0",
        "f32[2,6,9,20]{2,0,3,1}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_select_and_scatter(name: str) -> None:
    check(GRADIENTS[name])


def test_a_tuple_of_one() -> None:
    inst, spec = kernel_of(
        program(
            "p = f32[7,50] parameter(0)",
            "c = f32[] constant(0)",
            "ROOT r = (f32[7,50]) reduce-window(p, c), window={size=1x50 pad=0_0x49_0}, to_apply=f",
            computations=monoid("add", "f32"),
        )
    )
    x = np.arange(350, dtype="f").reshape(7, 50)
    (got,) = run_kernel(spec, inst, [x, np.float32(0)])
    assert np.array_equal(got, np.cumsum(x, axis=1))


def test_the_initial_value_is_part_of_the_signature() -> None:
    """A prefix scan is right for an identity only, however the constant is dressed: another value, another kernel."""
    names = []
    for init in ("0", "1"):
        text = program(
            "p = s32[40] parameter(0)",
            f"c = s32[] constant({init})",
            "b = s32[] broadcast(c), dimensions={}",
            "ROOT r = s32[40] reduce-window(p, b), window={size=40 pad=39_0}, to_apply=f",
            computations=monoid("add", "s32"),
        )
        inst, spec = kernel_of(text)
        names.append((spec.signature, spec.name))
        x = np.arange(40, dtype=np.int32)
        (got,) = run_kernel(spec, inst, [x, np.int32(init)])
        padding = np.arange(39, -1, -1) * int(init)
        assert np.array_equal(got, np.cumsum(x) + padding + int(init))
    assert names[0][0] != names[1][0]
    assert names[0][1] != names[1][1]
