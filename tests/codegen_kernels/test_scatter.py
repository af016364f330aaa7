"""scatter and dynamic-update-slice kernels: bounds, order, combiners, aliasing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xyla.testing.kernels import check, kernel_of, monoid, program, run_kernel

KEEP = "f {\n  a = s8[] parameter(0)\n  ROOT b = s8[] parameter(1)\n}\n"


def scatter(operand: str, index: str, update: str, attrs: str, computation: str) -> str:
    return program(
        f"p = {operand} parameter(0)",
        f"i = {index} parameter(1)",
        f"u = {update} parameter(2)",
        f"ROOT r = {operand} scatter(p, i, u), {attrs}, to_apply=f",
        computations=computation,
    )


ROWS = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize(
    ("kind", "values"), [("s32", [1, 1, -1, 10]), ("u8", [1, 1, 255, 3]), ("s64", [9, 9, 2**40, 9])]
)
def test_rows_add_up_and_out_of_bounds_is_skipped(kind: str, values: list[int], layout: str) -> None:
    text = scatter(f"f32[10,35]{layout}", f"{kind}[4]", "f32[4,35]", ROWS, monoid("add", "f32"))
    rng = np.random.default_rng(0)
    index = np.array(values).astype({"s32": "i4", "u8": "u1", "s64": "i8"}[kind])
    check(text, rng.standard_normal((10, 35)).astype("f"), index, rng.standard_normal((4, 35)).astype("f"))


def test_the_last_update_of_an_element_wins() -> None:
    attrs = "update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=1"
    text = scatter("s8[10,20]", "s64[4,2]", "s8[4]", attrs, KEEP)
    index = np.array([[1, 1], [-1, 9], [1, 1], [3, 10]])
    operand, update = np.zeros((10, 20), "i1"), np.array([5, 6, 7, 8], "i1")
    check(text, operand, index, update)
    inst, spec = kernel_of(text)
    (got,) = run_kernel(spec, inst, [operand, index, update])
    assert got[1, 1] == 7
    assert np.count_nonzero(got) == 1


def test_a_window_is_skipped_whole() -> None:
    attrs = "update_window_dims={0,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=0"
    text = scatter("bf16[10,20]", "s32[2,5]", "bf16[3,5,7]", attrs, monoid("maximum", "bf16"))
    index = np.array([[1, 1, 7, 8, 0], [3, 14, 2, 13, 0]], "i4")
    rng = np.random.default_rng(0)
    operand = rng.standard_normal((10, 20), "f").astype(ml_dtypes.bfloat16)
    check(text, operand, index, rng.standard_normal((3, 5, 7), "f").astype(operand.dtype))


def test_batching_dimensions() -> None:
    attrs = (
        "update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=2,"
        " input_batching_dims={0}, scatter_indices_batching_dims={1}"
    )
    check(scatter("c64[3,10,20]", "s32[4,3,1]", "c64[4,3,20]", attrs, monoid("add", "c64")))


def test_an_empty_index_vector() -> None:
    attrs = "update_window_dims={0,1}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, index_vector_dim=0"
    check(scatter("f32[10,20]", "s32[0]", "f32[10,20]", attrs, monoid("add", "f32")))


def test_several_operands() -> None:
    comp = """f {
  a = f32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = s32[] parameter(3)
  x = f32[] add(a, c)
  y = s32[] maximum(b, d)
  ROOT t = (f32[], s32[]) tuple(x, y)
}
"""
    check(
        program(
            "p = f32[10,9] parameter(0)",
            "q = s32[10,9] parameter(1)",
            "i = s32[6,1] parameter(2)",
            "u = f32[6,9] parameter(3)",
            "v = s32[6,9] parameter(4)",
            f"ROOT r = (f32[10,9], s32[10,9]) scatter(p, q, i, u, v), {ROWS}, to_apply=f",
            computations=comp,
        )
    )


def test_a_combiner_may_branch() -> None:
    comp = """one {
  ROOT t = s32[] parameter(0)
}
two {
  t = s32[] parameter(0)
  ROOT r = s32[] negate(t)
}
f {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = pred[] compare(a, b), direction=LT
  ROOT x = s32[] conditional(c, b, a), true_computation=one, false_computation=two
}
"""
    check(scatter("s32[10,20]", "s32[6,1]", "s32[6,20]", ROWS, comp))


def test_in_place_leaves_the_copy_out() -> None:
    """The spec allows operand and result to be one buffer: nothing may be read after it is overwritten."""
    text = scatter("f32[10,35]", "s32[4]", "f32[4,35]", ROWS, monoid("add", "f32"))
    _, spec = kernel_of(text)
    assert spec.aliases == ((0, 0),)
    _, spec = kernel_of(
        program(
            "p = f32[50] parameter(0)",
            "u = f32[7] parameter(1)",
            "i = s32[] parameter(2)",
            "ROOT r = f32[50] dynamic-update-slice(p, u, i)",
        )
    )
    assert spec.aliases == ((0, 0),)
    assert "icmp ne ptr" in spec.source.definition
