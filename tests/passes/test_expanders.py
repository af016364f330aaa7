"""Expanders and decomposers keep what programs compute: each on programs that reach its special cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from xyla import interp
from xyla.formats.hlo_text import parse
from xyla.hlo.module import Module
from xyla.passes import load_all
from xyla.passmgr.base import parse_passes
from xyla.passmgr.context import Fp
from xyla.testing.modules import random_module
from xyla.testing.pass_check import apply_pass, check_pass, difference

load_all()

_ADD = """
add {{ a = {0}[] parameter(0)
  b = {0}[] parameter(1)
  ROOT c = {0}[] add(a, b) }}
"""


def _module(body: str, before: str = "") -> Module:
    return parse(f"HloModule m\n{before}\nENTRY e {{\n{body}\n}}")


def _changed(
    passes: str, module: Module, args: Sequence[Any] | None = None, ulp: float = 0, seeds: Any = (0, 1)
) -> Module:
    """The pass changes the module, and not what it computes."""
    outcome = check_pass(parse_passes(passes)[0], module, args, ulp=ulp, seeds=seeds)
    assert outcome.changed
    return outcome.module


# -- element-wise ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["f32", "bf16", "f16", "f64", "f8e5m2", "f4e2m1fn"])
def test_total_order_of_every_kind_of_float(kind: str) -> None:
    shown = np.array([-np.nan, -np.inf, -6, -1, -0.0, 0.0, 1, 6, np.inf, np.nan])
    if kind == "f4e2m1fn":
        shown = np.array([-6, -1, -0.0, 0.0, 1, 6])
    n = shown.size
    directions = ["LT", "LE", "EQ", "NE", "GE", "GT"]
    lines = [f"c{d} = pred[{n},{n}] compare(a, b), direction={d}, type=TOTALORDER" for d in directions]
    module = _module(
        f"x = {kind}[{n}] parameter(0)\na = {kind}[{n},{n}] broadcast(x), dimensions={{0}}\n"
        f"b = {kind}[{n},{n}] broadcast(x), dimensions={{1}}\n"
        + "\n".join(lines)
        + f"\nROOT r = tuple({', '.join('c' + d for d in directions)})"
    )
    _changed("comparison-expander", module, [shown.astype(module.entry.parameters[0].shape.element_type.np)])


def test_logistic_is_close_over_the_whole_range_and_right_at_its_ends() -> None:
    x = np.concatenate([np.linspace(-110, 110, 20001), [np.inf, -np.inf, np.nan, 0.0, -0.0]]).astype(np.float32)
    module = _module(f"x = f32[{x.size}] parameter(0)\nROOT r = f32[{x.size}] logistic(x)")
    _changed("logistic-expander", module, [x], ulp=3)


def test_bits_travel_through_every_random_type() -> None:
    kinds = ["u8[6,3]", "s16[5,3]", "u32[7]", "u32[5,7]", "f32[4]", "u64[3,5]", "s4[4]", "u32[]", "u32[0,4]"]
    lines = ["s = u64[2] parameter(0)", "t = u64[3] parameter(1)", "v = u32[4] parameter(2)"]
    for i, kind in enumerate(kinds):
        lines += [f"a{i} = (u64[2], {kind}) rng-bit-generator(s), algorithm=rng_three_fry"]
        lines += [f"b{i} = (u64[3], {kind}) rng-bit-generator(t), algorithm=rng_philox"]
        lines += [f"c{i} = (u32[4], {kind}) rng-bit-generator(v), algorithm=rng_default"]
    names = ", ".join(f"{k}{i}" for i in range(len(kinds)) for k in "abc")
    module = _module("\n".join(lines) + f"\nROOT r = tuple({names})")
    full = 2**64 - 1
    near_the_end = [
        np.array([7, full - 1], np.uint64),
        np.array([9, full, full], np.uint64),
        np.full(4, 2**32 - 1, np.uint32),
    ]
    _changed("rng-bit-generator-expander", module, near_the_end)
    _changed("rng-bit-generator-expander", module)


def test_random_numbers_have_their_distribution() -> None:
    module = _module("""
  a = f32[] constant(2)
  b = f32[] constant(5)
  u = f32[20000] rng(a, b), distribution=rng_uniform
  n = f32[20000] rng(a, b), distribution=rng_normal
  i = s32[] constant(-3)
  j = s32[] constant(4)
  k = s32[20000] rng(i, j), distribution=rng_uniform
  p = bf16[] constant(0)
  q = bf16[] constant(1)
  v = bf16[20000] rng(p, q), distribution=rng_uniform
  w = bf16[20000] rng(p, q), distribution=rng_uniform
  ROOT r = tuple(u, n, k, v, w)""")
    outcome = apply_pass(parse_passes("rng-expander")[0], module)
    u, n, k, v, w = (x.astype(np.float64) for x in interp.run(outcome.module, []))
    assert 2 <= u.min() <= u.max() < 5
    assert abs(u.mean() - 3.5) < 0.03
    assert abs(n.mean() - 2) < 0.15
    assert abs(n.std() - 5) < 0.15
    assert set(k) == set(range(-3, 4))
    assert abs(k.mean()) < 0.06
    assert v.max() < 1
    assert abs(v.mean() - 0.5) < 0.02
    assert not np.array_equal(v, w)


# -- gather and scatter ----------------------------------------------------------------------------------------------

_GATHERS = [
    "x = s32[5,3] parameter(0)\ni = s64[7,1] parameter(1)\nROOT g = s32[7,3] gather(x, i), offset_dims={1}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
    "x = s32[7,3,4,5] parameter(0)\ni = s32[5,2,7] parameter(1)\nROOT g = s32[5,3,2,7] gather(x, i), offset_dims={1}, "
    "collapsed_slice_dims={2}, start_index_map={2}, index_vector_dim=3, operand_batching_dims={0,3}, "
    "start_indices_batching_dims={2,0}, slice_sizes={1,3,1,1}",
    "x = s32[9,8] parameter(0)\ni = u32[2,3] parameter(1)\nROOT g = s32[2,4,3] gather(x, i), offset_dims={0,1}, "
    "collapsed_slice_dims={}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={2,4}",
]


@pytest.mark.parametrize("text", _GATHERS)
def test_gather(text: str) -> None:
    _changed("gather-expander", _module(text), seeds=range(4))


def test_unsigned_indices_past_the_signed_range_are_clamped_as_large() -> None:
    module = _module(
        "x = s32[5] parameter(0)\ni = u64[3,1] parameter(1)\nROOT g = s32[3] gather(x, i), offset_dims={}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}"
    )
    _changed(
        "gather-expander", module, [np.arange(5, dtype=np.int32), np.array([[2**64 - 1], [2**63], [1]], np.uint64)]
    )


_SCATTERS = [
    "x = {0}[5,3] parameter(0)\ni = s32[7,1] parameter(1)\nu = {0}[7,3] parameter(2)\n"
    "ROOT s = {0}[5,3] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, "
    "scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add",
    "x = {0}[5,3,2,2] parameter(0)\ni = s64[2,3,5] parameter(1)\nu = {0}[2,3,2,5] parameter(2)\n"
    "ROOT s = {0}[5,3,2,2] scatter(x, i, u), update_window_dims={{2}}, inserted_window_dims={{1}}, "
    "scatter_dims_to_operand_dims={{1}}, index_vector_dim=3, input_batching_dims={{0,3}}, "
    "scatter_indices_batching_dims={{2,0}}, to_apply=add",
    # Empty index vectors: every update goes to the same place.
    "x = {0}[3] parameter(0)\ni = s32[4,0] parameter(1)\nu = {0}[4,2] parameter(2)\n"
    "ROOT s = {0}[3] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{}}, "
    "scatter_dims_to_operand_dims={{}}, index_vector_dim=1, to_apply=add",
]


@pytest.mark.parametrize("text", _SCATTERS)
def test_scatter(text: str) -> None:
    module = _module(text.format("s32"), _ADD.format("s32"))
    _changed("scatter-expander", module, seeds=range(4))
    narrow = _module(text.format("bf16"), _ADD.format("bf16"))
    _changed("scatter-expander", narrow, seeds=range(4))


@pytest.mark.parametrize("name", ["scatter-expander", "scatter-determinism-expander"])
def test_windows_out_of_bounds_anywhere_are_skipped_whole(name: str) -> None:
    module = _module(
        "x = f32[4,4] parameter(0)\ni = s32[6,2] parameter(1)\nu = f32[6,2,2] parameter(2)\n"
        "ROOT s = f32[4,4] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=add",
        _ADD.format("f32"),
    )
    places = [[-1, 0], [3, 0], [2, 2], [0, 3], [0, -2], [2**31 - 1, -(2**31)]]
    x, u = np.arange(16, dtype=np.float32).reshape(4, 4), np.arange(1, 25, dtype=np.float32).reshape(6, 2, 2)
    _changed(name, module, [x, np.array(places, np.int32), u])


@pytest.mark.parametrize("text", _SCATTERS)
def test_scatter_in_one_order(text: str) -> None:
    """Small integers as floats: sums are exact in every order."""
    module = _module(text.format("f32"), _ADD.format("f32"))
    shapes = [p.shape for p in module.entry.parameters]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x, i, u = (rng.integers(-2, 7, s.dims).astype(s.element_type.np) for s in shapes)
        _changed("scatter-determinism-expander", module, [x, i, u])


def test_scatters_keep_every_bit_in_strict_mode() -> None:
    """1e30 and small numbers: another association of the sums gives other values."""
    module = _module(_SCATTERS[0].format("f32"), _ADD.format("f32"))
    x, i, u = (p.shape for p in module.entry.parameters)
    rng = np.random.default_rng(3)
    args = [
        rng.choice(np.array([1, 1e30, -1e30, 3e38], np.float32), x.dims),
        rng.integers(0, 2, i.dims).astype(np.int32),
        rng.choice(np.array([1, 1e30, -1e30, 3e38], np.float32), u.dims),
    ]
    (pass_,) = parse_passes("scatter-determinism-expander")
    outcome = check_pass(pass_, module, args, fp=Fp.STRICT)
    assert [rule for _, rule in outcome.counts] == ["scatter_in_order"]
    assert [rule for _, rule in apply_pass(pass_, module).counts] == ["combine_before_scatter"]


def test_scatter_of_two_operands_with_a_called_combiner() -> None:
    module = _module(
        "x = s32[5] parameter(0)\ny = f32[5] parameter(1)\ni = s32[7,1] parameter(2)\nu = s32[7] parameter(3)\n"
        "v = f32[7] parameter(4)\nROOT s = (s32[5], f32[5]) scatter(x, y, i, u, v), update_window_dims={}, "
        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=both",
        _ADD.format("s32") + "both { a = s32[] parameter(0)\n b = f32[] parameter(1)\n c = s32[] parameter(2)\n"
        " d = f32[] parameter(3)\n s = s32[] call(a, c), to_apply=add\n ROOT t = (s32[], f32[]) tuple(s, d) }",
    )
    _changed("scatter-expander", module, seeds=range(4))


# -- contraction, sorting, normalisation -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "x = f32[8,64,2] parameter(0)\ny = f32[10,2,8] parameter(1)\nROOT d = f32[2,64,10] dot(x, y), "
        "lhs_batch_dims={2}, lhs_contracting_dims={0}, rhs_batch_dims={1}, rhs_contracting_dims={2}",
        "x = f32[2,3,4] parameter(0)\ny = f32[3,2] parameter(1)\nROOT d = f32[4] dot(x, y), "
        "lhs_contracting_dims={0,1}, rhs_contracting_dims={1,0}",
        "x = s8[4] parameter(0)\ny = s8[3] parameter(1)\nROOT d = s32[4,3] dot(x, y), lhs_contracting_dims={}, "
        "rhs_contracting_dims={}",
    ],
)
def test_dot(text: str) -> None:
    _changed("dot-decomposer", _module(text))


def test_grouped_convolutions_keep_infinities_apart() -> None:
    module = _module(
        "x = f32[4,8,6] parameter(0)\nk = f32[3,3,4] parameter(1)\na = f32[4,6,4] convolution(x, k), window={size=3}, "
        "dim_labels=b0f_0io->b0f, feature_group_count=2\nl = f32[3,6,4] parameter(2)\n"
        "b = f32[2,6,4] convolution(x, l), window={size=3}, dim_labels=b0f_0io->b0f, batch_group_count=2\n"
        "ROOT r = tuple(a, b)"
    )
    rng = np.random.default_rng(3)
    x, k, m = (rng.standard_normal(s).astype(np.float32) for s in ((4, 8, 6), (3, 3, 4), (3, 6, 4)))
    x[0, 0, 0] = np.inf
    _changed("convolution-group-converter", module, [x, k, m], ulp=8)


def test_stable_sorts_keep_ties_in_order() -> None:
    module = _module(
        "x = s32[3,40] parameter(0)\nv = s32[3,40] parameter(1)\n"
        "ROOT s = (s32[3,40], s32[3,40]) sort(x, v), dimensions={1}, is_stable=true, to_apply=low",
        "low { a = s32[] parameter(0)\n b = s32[] parameter(1)\n c = s32[] parameter(2)\n d = s32[] parameter(3)\n"
        " m = s32[] constant(3)\n p = s32[] and(a, m)\n q = s32[] and(b, m)\n"
        " ROOT r = pred[] compare(p, q), direction=LT }",
    )
    _changed("stable-sort-expander", module)


def test_sorts_that_are_made_stable_keep_nan_last() -> None:
    """Under a plain comparator a NaN ties with everything, which is no order: it goes last, before and after."""
    module = _module(
        "x = f32[40] parameter(0)\nROOT s = f32[40] sort(x), dimensions={0}, is_stable=true, to_apply=less",
        "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = pred[] compare(a, b), direction=LT }",
    )
    pool = np.array([1, -1, np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    _changed("stable-sort-expander", module, [np.random.default_rng(0).choice(pool, 40)])


def test_batch_norm() -> None:
    f = "f32[4] parameter"
    module = _module(
        f"x = f32[8,4,3] parameter(0)\ns = {f}(1)\no = {f}(2)\nm = {f}(3)\nv = {f}(4)\ng = f32[8,4,3] parameter(5)\n"
        "a = (f32[8,4,3], f32[4], f32[4]) batch-norm-training(x, s, o), epsilon=0.001, feature_index=1\n"
        "b = f32[8,4,3] batch-norm-inference(x, s, o, m, v), epsilon=0.001, feature_index=1\n"
        "c = (f32[8,4,3], f32[4], f32[4]) batch-norm-grad(x, s, m, v, g), epsilon=0.001, feature_index=1\n"
        "ROOT r = tuple(a, b, c)"
    )
    rng = np.random.default_rng(0)
    args = [rng.uniform(0.5, 2, p.shape.dims).astype(np.float32) for p in module.entry.parameters]
    outcome = apply_pass(parse_passes("batchnorm-expander")[0], module)
    for got, want in zip(interp.run(outcome.module, args), interp.run(module, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-5)


def test_types_that_a_target_lacks() -> None:
    module = _module(
        "x = bf16[6] parameter(0)\ny = f32[6] parameter(1)\nz = bf16[] parameter(2)\na = bf16[6] add(x, y)\n"
        "b = bf16[6] tanh(a)\nc = bf16[] reduce(b, z), dimensions={0}, to_apply=add\n"
        "d = pred[6] compare(a, b), direction=LT\nROOT r = tuple(a, b, c, d)",
        _ADD.format("bf16"),
    )
    _changed("float-normalization-bf16", module, ulp=1)
    _changed("element-type-converter", module, ulp=2)
    rounding = _module("x = f32[6] parameter(0)\na = bf16[6] convert(x)\nROOT b = f32[6] convert(a)")
    narrow_detour = parse_passes("simplify-fp-conversions")[0]
    assert not apply_pass(narrow_detour, rounding).changed
    assert apply_pass(narrow_detour, rounding, fp=Fp.FAST).changed


# -- collectives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("passes", "text", "devices"),
    [
        (
            "all-gather-decomposer",
            "ROOT g = f32[12] all-gather(x), replica_groups={{1,0},{2,3}}, dimensions={0}",
            (4, 1),
        ),
        (
            "all-gather-decomposer",
            "ROOT g = f32[24] all-gather(x), channel_id=1, replica_groups={{0,1}}, dimensions={0}",
            (2, 2),
        ),
        (
            "all-gather-decomposer",
            "ROOT g = f32[24] all-gather(x), channel_id=1, use_global_device_ids=true, "
            "replica_groups={{3,1,0,2}}, dimensions={0}",
            (2, 2),
        ),
        (
            "reduce-scatter-decomposer",
            "ROOT g = f32[3] reduce-scatter(x), replica_groups={{1,0}}, dimensions={0}, to_apply=add",
            (2, 1),
        ),
        (
            "all-to-all-decomposer",
            "ROOT g = f32[6] all-to-all(x), replica_groups={{1,0},{2,3}}, dimensions={0}",
            (4, 1),
        ),
    ],
)
def test_collectives(passes: str, text: str, devices: tuple[int, int]) -> None:
    module = _module("x = f32[6] parameter(0)\n" + text, _ADD.format("f32"))
    module.config.replica_count, module.config.num_partitions = devices
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, (devices[0] * devices[1], 6)).astype(np.float32)
    x[:, 0] = -0.0
    outcome = apply_pass(parse_passes(passes)[0], module)
    assert outcome.changed
    want, got = interp.run(module, [x]), interp.run(outcome.module, [x])
    assert difference(got, want) is None


# -- everything on random programs -----------------------------------------------------------------------------------

_EXACT = [
    "comparison-expander", "operand-upcaster", "gather-expander", "dynamic-index-splitter", "dot-decomposer",
    "stable-sort-expander", "simplify-fp-conversions", "dynamic-dimension-simplifier", "real-imag-expander",
]  # fmt: skip


@pytest.mark.parametrize("name", _EXACT)
def test_random_programs(name: str) -> None:
    for seed in range(6):
        check_pass(parse_passes(name)[0], random_module(seed))


@pytest.mark.parametrize("limit", range(4))
def test_stopping_the_padder_anywhere_is_sound(limit: int) -> None:
    module = _module(
        "x = f32[<=8] parameter(0)\nn = s32[] parameter(1)\nz = f32[] constant(0)\n"
        "y = f32[<=8] negate(x)\nw = f32[<=8] multiply(y, y)\n"
        "ROOT r = f32[] reduce(w, z), dimensions={0}, to_apply=add",
        _ADD.format("f32"),
    )
    outcome = apply_pass(parse_passes("dynamic-padder")[0], module, limit=limit)
    args = [np.arange(5, dtype=np.float32), np.int32(3)]
    assert difference(interp.run(outcome.module, args), interp.run(module, args)) is None


# -- scan, stochastic rounding ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", ["false", "true"])
def test_scan(reverse: str) -> None:
    module = _module(
        "x = s32[2,5] parameter(0)\ny = f32[5,3] parameter(1)\nz = f32[2] parameter(2)\nc = s32[2] parameter(3)\n"
        "t = f32[5,2] parameter(4)\nu = s32[5,2] transpose(x), dimensions={1,0}\n"
        "ROOT s = (f32[5,3], f32[5,2], s32[2], f32[2]) scan(u, y, t, c, z), dimensions={0}, num_carries=2, "
        f"is_reverse={reverse}, to_apply=step",
        "step { x = s32[2] parameter(0)\n y = f32[3] parameter(1)\n t = f32[2] parameter(2)\n c = s32[2] parameter(3)\n"
        " z = f32[2] parameter(4)\n d = s32[2] multiply(c, x)\n w = f32[2] add(z, t)\n n = f32[3] negate(y)\n"
        " ROOT r = (f32[3], f32[2], s32[2], f32[2]) tuple(n, z, d, w) }",
    )
    _changed("scan-expander", module)


def test_stochastic_rounding() -> None:
    module = _module(
        "x = f32[9] parameter(0)\nr = u16[9] parameter(1)\nROOT s = s8[9] stochastic-convert(x, r)",
    )
    x = np.array([0.25, 0.25, -0.25, -0.25, 3.999, np.nan, np.inf, -300, -0.0], np.float32)
    r = np.array([0, 2**14, 0, 2**14 - 1, 65535, 0, 0, 0, 0], np.uint16)
    _changed("stochastic-convert-decomposer", module, [x, r])
