"""Fusions as one kernel: producers at other positions, several results, deep chains, what is refused and why."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.codegen.kernel import signature
from xyla.codegen.kernels import build_kernel, kernel_or_reason
from xyla.support.status import Status, XylaError
from xyla.testing.kernels import check, kernel_of, monoid, program, run_kernel, single


def fusion(parameters: list[str], body: list[str], result: str, computations: str = "") -> str:
    inner = [f"  p{i} = {s} parameter({i})" for i, s in enumerate(parameters)] + ["  " + line for line in body]
    outer = [f"x{i} = {s} parameter({i})" for i, s in enumerate(parameters)]
    names = ", ".join(f"x{i}" for i in range(len(parameters)))
    comp = computations + "fused {\n" + "\n".join(inner) + "\n}\n"
    return program(*outer, f"ROOT k = {result} fusion({names}), kind=kLoop, calls=fused", computations=comp)


CASES = {
    "elements": (["f32[70]", "f32[]"], ["b = f32[70] broadcast(p1), dimensions={}", "ROOT r = f32[70] add(p0, b)"],
        "f32[70]"),
    "a row statistic": (
        ["f32[6,50]", "f32[6]"],
        ["b = f32[6,50] broadcast(p1), dimensions={0}", "s = f32[6,50] subtract(p0, b)",
         "ROOT r = f32[6,50] exponential(s)"],
        "f32[6,50]",
    ),
    "roll": (
        ["f32[64]"],
        ["s = f32[60] slice(p0), slice={[4:64]}", "t = f32[4] slice(p0), slice={[0:4]}",
         "c = f32[64] concatenate(s, t), dimensions={0}", "v = f32[64] reverse(p0), dimensions={0}",
             "ROOT r = f32[64] add(c, v)"],
        "f32[64]",
    ),
    "pad inside": (
        ["f32[5,30]"],
        ["z = f32[] constant(1)", "e = f32[5,30] exponential(p0)", "q = f32[7,33] pad(e, z), padding=1_1x2_1",
         "ROOT r = f32[33,7] transpose(q), dimensions={1,0}"],
        "f32[33,7]",
    ),
    "several results": (
        ["f32[5,30]", "s32[5,30]"],
        ["n = f32[5,30] negate(p0)", "c = f32[5,30] convert(p1)", "a = f32[5,30] add(n, c)",
         "ROOT r = (f32[5,30], f32[5,30]) tuple(n, a)"],
        "(f32[5,30], f32[5,30])",
    ),
    "results of different shapes": (
        ["f32[5,30]"],
        ["n = f32[5,30] negate(p0)", "s = f32[5,10] slice(n), slice={[0:5], [7:17]}",
         "ROOT r = (f32[5,30], f32[5,10]) tuple(n, s)"],
        "(f32[5,30], f32[5,10])",
    ),
    "an array constant": (
        ["f32[3,4]"],
        ["c = f32[3,4] constant({{1,2,3,4},{5,6,7,8},{9,10,11,12}})", "ROOT r = f32[3,4] multiply(p0, c)"],
        "f32[3,4]",
    ),
    "dynamic slices": (
        ["f32[50]", "s32[]"],
        ["o = s32[] constant(40)", "i = s32[] add(p1, o)", "d = f32[20] dynamic-slice(p0, i), dynamic_slice_sizes={20}",
         "z = s32[] constant(3)", "n = f32[20] negate(d)", "ROOT r = f32[50] dynamic-update-slice(p0, n, z)"],
        "f32[50]",
    ),
    "gather of a sum": (
        ["f32[10,30]", "s32[6]"],
        ["s = f32[10,30] add(p0, p0)", "ROOT r = f32[6,30] gather(s, p1), offset_dims={1}, collapsed_slice_dims={0},"
         " start_index_map={0}, index_vector_dim=1, slice_sizes={1,30}"],
        "f32[6,30]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_fusions(name: str) -> None:
    check(fusion(*CASES[name]))


ADD = monoid("add", "f32")
ROOTS = {
    "reduce": (
        ["f32[6,100]"],
        ["m = f32[6,100] multiply(p0, p0)", "z = f32[] constant(0)",
         "ROOT r = f32[6] reduce(m, z), dimensions={1}, to_apply=f"],
        "f32[6]",
    ),
    "reduce by columns": (
        ["f32[60,100]"],
        ["m = f32[60,100] multiply(p0, p0)", "z = f32[] constant(0)",
         "ROOT r = f32[100] reduce(m, z), dimensions={0}, to_apply=f"],
        "f32[100]",
    ),
    "reduce in the middle": (
        ["f32[6,20]"],
        ["z = f32[] constant(0)", "s = f32[6] reduce(p0, z), dimensions={1}, to_apply=f",
         "b = f32[6,20] broadcast(s), dimensions={0}",
         "ROOT r = f32[6,20] divide(p0, b)"],
        "f32[6,20]",
    ),
    "dot": (
        ["bf16[9,30]", "bf16[30,40]"],
        ["n = bf16[9,30] negate(p0)",
         "ROOT r = f32[9,40] dot(n, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"],
        "f32[9,40]",
    ),
    "inner products of producers": (
        ["f32[9,35]", "f32[13,35]"],
        ["e = f32[9,35] exponential(p0)", "g = f32[13,35] exponential(p1)",
         "ROOT r = f32[9,13] dot(e, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}"],
        "f32[9,13]",
    ),
    "window": (
        ["f32[7,50]"],
        ["n = f32[7,50] exponential(p0)", "z = f32[] constant(0)",
         "ROOT r = f32[7,50] reduce-window(n, z), window={size=1x50 pad=0_0x49_0}, to_apply=f"],
        "f32[7,50]",
    ),
    "scatter": (
        ["f32[10,30]", "s32[6,1]", "f32[6,30]"],
        ["n = f32[10,30] negate(p0)", "u = f32[6,30] add(p2, p2)",
         "ROOT r = f32[10,30] scatter(n, p1, u), update_window_dims={1},"
         " inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f"],
        "f32[10,30]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROOTS)
def test_roots_with_kernels_of_their_own(name: str) -> None:
    check(fusion(*ROOTS[name], computations=ADD))


def test_a_deep_chain_needs_no_stack() -> None:
    lines = ["a0 = f32[20] add(p0, p0)"] + [f"a{i} = f32[20] add(a{i - 1}, p0)" for i in range(1, 2500)]
    inst, spec = kernel_of(fusion(["f32[20]"], [*lines, "ROOT r = f32[20] negate(a2499)"], "f32[20]"))
    (got,) = run_kernel(spec, inst, [np.ones(20, "f")])
    assert (got == -2501).all()


def test_blow_up_is_refused() -> None:
    """Each level reads its input at three positions: 3^12 computations of the first."""
    body, at = [], "p0"
    for k in range(12):
        body += [
            f"s{k} = f32[63] slice({at}), slice={{[1:64]}}",
            f"t{k} = f32[1] slice({at}), slice={{[0:1]}}",
            f"c{k} = f32[64] concatenate(s{k}, t{k}), dimensions={{0}}",
            f"v{k} = f32[64] reverse({at}), dimensions={{0}}",
            f"d{k} = f32[64] add(c{k}, v{k})",
        ]
        at = f"d{k}"
    _, inst = single(fusion(["f32[64]"], [*body, f"ROOT r = f32[64] negate({at})"], "f32[64]"))
    with pytest.raises(XylaError) as caught:
        build_kernel(inst)
    assert caught.value.status is Status.UNIMPLEMENTED
    assert "written out more than" in caught.value.message


def test_names_do_not_matter() -> None:
    one = fusion(*CASES["elements"])
    _, a = kernel_of(one)
    _, b = kernel_of(one.replace("fused", "other").replace("x0", "yy").replace("p1", "q1"))
    assert a.name == b.name
    assert a.signature == b.signature


def test_a_dynamic_dimension_is_refused_unless_padding_is_harmless() -> None:
    head = "p = f32[<=9,4] parameter(0)"
    check_ok = kernel_or_reason(single(program(head, "ROOT r = f32[<=9,4] negate(p)"))[1])
    assert not isinstance(check_ok, str)
    text = program(
        head, "z = f32[] constant(0)", "ROOT r = f32[4] reduce(p, z), dimensions={0}, to_apply=f", computations=ADD
    )
    reason = kernel_or_reason(single(text)[1])
    assert isinstance(reason, str)
    assert "dynamic size" in reason


def test_branching_call_graphs_stay_linear_or_are_refused() -> None:
    """Each computation calls the one below twice: 2^30 additions if they were written out."""
    comps = monoid("add", "s32", "c0")
    for k in range(1, 31):
        comps += (
            f"c{k} {{\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n"
            f"  x = s32[] call(a, b), to_apply=c{k - 1}\n  ROOT r = s32[] call(x, b), to_apply=c{k - 1}\n}}\n"
        )
    text = program(
        "p = s32[9] parameter(0)",
        "z = s32[] constant(0)",
        "ROOT r = s32[] reduce(p, z), dimensions={0}, to_apply=c30",
        computations=comps,
    )
    _, inst = single(text)
    assert len(signature(inst)) < 10_000
    assert "called computations" in str(kernel_or_reason(inst))
