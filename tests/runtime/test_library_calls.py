"""The library's calls on the host, against the evaluator and NumPy."""

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xyla
from xyla.runtime.custom_calls import CallContext, attributes_of, handler_of
from xyla.runtime.feeds import Feeds
from xyla.runtime.program import ArrayType, Attribute, CustomCallStep, Slice
from xyla.runtime.rendezvous import World, run_devices
from xyla.runtime.run_options import DEFAULT_OPTIONS, RunOptions
from xyla.support.status import Status, XylaError

Array = np.ndarray[Any, np.dtype[Any]]
BF16 = np.dtype(ml_dtypes.bfloat16)
SOMEWHERE = Slice(0, 0, 0)


def of(dtype: Any, *dims: int) -> ArrayType:
    kind = np.dtype(dtype)
    strides = [kind.itemsize * prod(dims[i + 1 :]) for i in range(len(dims))]
    return ArrayType(kind, dims, tuple(strides))


def step(target: str, inputs: Sequence[Array], outputs: Sequence[ArrayType], **attributes: Attribute) -> CustomCallStep:
    ins = tuple((SOMEWHERE, of(x.dtype, *x.shape)) for x in inputs)
    outs = tuple((SOMEWHERE, t) for t in outputs)
    return CustomCallStep("s", f"xla.gpu.{target}", ins, outs, attributes)


def call(
    target: str,
    inputs: Sequence[Array],
    outputs: Sequence[ArrayType],
    options: RunOptions = DEFAULT_OPTIONS,
    **attributes: Attribute,
) -> list[Array]:
    made = step(target, inputs, outputs, **attributes)
    found = handler_of(made)(CallContext(options, "s"), inputs)
    for array, kind in zip(found, outputs, strict=True):
        assert (np.asarray(array).dtype, np.shape(array)) == (kind.dtype, kind.dims)
    return [np.asarray(x) for x in found]


def floats(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(dims)


# -- products ----------------------------------------------------------------------------------------------------


def test_a_product_is_scaled_and_added_to() -> None:
    a, b, c = floats(3, 4), floats(4, 5, seed=1), floats(3, 5, seed=2)
    dims: dict[str, Any] = {"lhs_contracting_dimensions": (1,), "rhs_contracting_dimensions": (0,)}
    (got,) = call("gemm", [a, b, c], [of("f8", 3, 5)], alpha_real=2.0, beta=-0.5, **dims)
    np.testing.assert_allclose(got, 2 * a @ b - 0.5 * c)
    (got,) = call("gemm.bias", [a, b, c], [of("f8", 3, 5)], alpha_real=2.0, beta=3.0, **dims)
    np.testing.assert_allclose(got, 2 * a @ b + 3 * c)
    (got,) = call("gemm.bias", [a, b, c[:1]], [of("f8", 3, 5)], **dims)
    np.testing.assert_allclose(got, a @ b + c[:1])


def test_a_complex_product_may_be_turned_and_a_real_one_not() -> None:
    a, b = floats(3, 4) + 1j, floats(4, 2, seed=1) - 2j
    dims: dict[str, Any] = {"lhs_contracting_dimensions": (1,), "rhs_contracting_dimensions": (0,)}
    (got,) = call("gemm", [a, b], [of("c16", 3, 2)], alpha_real=0.0, alpha_imag=1.0, **dims)
    np.testing.assert_allclose(got, 1j * (a @ b))
    with pytest.raises(XylaError, match="imaginary"):
        call("gemm", [a.real, b.real], [of("f8", 3, 2)], alpha_imag=1.0, **dims)


def test_narrow_products_are_summed_in_wide_floats() -> None:
    a = np.full((1, 4096), 0.1, BF16)
    (got,) = call("gemm", [a, a.T], [of(BF16, 1, 1)], lhs_contracting_dimensions=(1,), rhs_contracting_dimensions=(0,))
    assert abs(float(got[0, 0]) / (4096 * float(a[0, 0]) ** 2) - 1) < 2**-8


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"lhs_contracting_dimensions": (2,), "rhs_contracting_dimensions": (0,)}, "are not those of an array"),
        ({"lhs_contracting_dimensions": (0,), "rhs_contracting_dimensions": (0,)}, "differ in size"),
        ({"lhs_contracting_dimensions": (1,)}, "lacks the attribute 'rhs_contracting_dimensions'"),
    ],
)
def test_dimension_numbers_that_do_not_fit_are_refused(dims: dict[str, Any], message: str) -> None:
    with pytest.raises(XylaError, match=message) as error:
        call("gemm", [floats(3, 4), floats(4, 5)], [of("f8", 3, 5)], **dims)
    assert error.value.status is Status.INVALID_ARGUMENT


# -- convolutions --------------------------------------------------------------------------------------------------

NHWC: dict[str, Any] = {
    "input_batch_dim": 0, "input_feature_dim": 3, "input_spatial_dims": (1, 2),
    "kernel_in_feature_dim": 2, "kernel_out_feature_dim": 3, "kernel_spatial_dims": (0, 1),
    "output_batch_dim": 0, "output_feature_dim": 3, "output_spatial_dims": (1, 2),
}  # fmt: skip
WINDOWS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("", {}),
    "strided": (" stride=2x3 pad=1_2x0_1", {"window_strides": (2, 3), "padding": (1, 2, 0, 1)}),
    "cropped": (" pad=-1_-2x-2_1", {"padding": (-1, -2, -2, 1)}),
    "dilated": (
        " pad=2_1x1_1 lhs_dilate=2x3 rhs_dilate=2x1",
        {"padding": (2, 1, 1, 1), "lhs_dilation": (2, 3), "rhs_dilation": (2, 1)},
    ),
    "dilated and cropped": (" pad=-3_-1x-4_2 lhs_dilate=3x3", {"padding": (-3, -1, -4, 2), "lhs_dilation": (3, 3)}),
    "reversed": (" rhs_reversal=1x0 pad=1_1x1_1", {"window_reversal": (1, 0), "padding": (1, 1, 1, 1)}),
}


def convolution(window: str, groups: int) -> tuple[list[Array], Array]:
    """Operands of a convolution, and what the evaluator makes of them."""
    x, w = floats(2, 7, 8, 6), floats(3, 2, 6 // groups, 4, seed=1)
    head = f"""HloModule m
ENTRY e {{
  x = f64[{",".join(map(str, x.shape))}] parameter(0)
  w = f64[{",".join(map(str, w.shape))}] parameter(1)
"""
    tail = f"window={{size=3x2{window}}}, dim_labels=b01f_01io->b01f, feature_group_count={groups}\n}}\n"
    for h, v in itertools.product(range(1, 30), repeat=2):
        dims = (2, h, v, 4)
        text = f"{head}  ROOT c = f64[{','.join(map(str, dims))}] convolution(x, w), {tail}"
        try:
            return [x, w], np.asarray(xyla.interp.run(text, [x, w])[0])
        except XylaError:
            continue
    raise AssertionError("no result shape fits")


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", WINDOWS)
def test_convolutions_are_the_evaluators_and_gradients_their_adjoints(name: str, groups: int) -> None:
    window, attributes = WINDOWS[name]
    (x, w), want = convolution(window, groups)
    given = {**NHWC, **attributes, "feature_group_count": groups}
    (y, _) = call("conv.forward", [x, w], [of("f8", *want.shape), of("u1", 16)], **given)
    np.testing.assert_allclose(y, want, rtol=1e-12, atol=1e-12)
    dy = floats(*want.shape, seed=5)
    dx, _ = call("conv.backward.input", [dy, w], [of("f8", *x.shape), of("u1", 0)], **given)
    dw, _ = call("conv.backward.filter", [x, dy], [of("f8", *w.shape), of("u1", 0)], **given)
    # The forward map is linear in each operand: gradients are its adjoints.
    np.testing.assert_allclose((dx * x).sum(), (dy * y).sum(), rtol=1e-9)
    np.testing.assert_allclose((dw * w).sum(), (dy * y).sum(), rtol=1e-9)


ACTIVATIONS: dict[int, Any] = {
    0: lambda v: v,
    1: lambda v: 1 / (1 + np.exp(-v)),
    2: lambda v: np.maximum(v, 0),
    3: lambda v: np.clip(v, 0, 6),
    5: np.tanh,
    7: lambda v: np.where(v > 0, v, np.exp(v) - 1),
}


@pytest.mark.parametrize("mode", ACTIVATIONS)
def test_fused_convolutions_scale_add_and_activate(mode: int) -> None:
    x, w, bias, side = floats(1, 4, 4, 2), 4 * floats(3, 3, 2, 5, seed=1), floats(5, seed=2), floats(1, 2, 2, 5, seed=3)
    given = {**NHWC, "result_scale": 0.5, "activation_mode": mode}
    plain = call("conv.forward", [x, w], [of("f8", 1, 2, 2, 5)], **NHWC)[0] * 0.5
    (got,) = call("conv.forward.fused", [x, w, bias], [of("f8", 1, 2, 2, 5)], **given)
    np.testing.assert_allclose(got, ACTIVATIONS[mode](plain + bias), rtol=1e-12)
    (got,) = call(
        "conv.forward.fused.side_input", [x, w, bias, side], [of("f8", 1, 2, 2, 5)], **given, side_input_scale=0.25
    )
    np.testing.assert_allclose(got, ACTIVATIONS[mode](plain + 0.25 * side + bias), rtol=1e-12)


def test_an_activation_without_its_parameter_is_refused() -> None:
    x, w, bias = floats(1, 4, 4, 2), floats(3, 3, 2, 5), floats(5)
    with pytest.raises(XylaError) as error:
        call("conv.forward.fused", [x, w, bias], [of("f8", 1, 2, 2, 5)], **{**NHWC, "activation_mode": 4})
    assert error.value.status is Status.UNIMPLEMENTED


def test_a_window_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(XylaError, match="padding has 2 entries, expected 4"):
        call(
            "conv.forward",
            [floats(1, 4, 4, 2), floats(3, 3, 2, 5)],
            [of("f8", 1, 2, 2, 5)],
            **{**NHWC, "padding": (1, 1)},
        )


# -- transforms ----------------------------------------------------------------------------------------------------


def test_transforms_of_the_last_dimensions() -> None:
    x = (floats(3, 4, 6) + 1j * floats(3, 4, 6, seed=1)).astype(np.complex64)
    cases: list[tuple[int, Array, Any, Array]] = [
        (0, x, of("c8", 3, 4, 6), np.fft.fftn(x, axes=(1, 2))),
        (1, x, of("c8", 3, 4, 6), np.fft.ifftn(x, axes=(1, 2))),
        (2, x.real, of("c8", 3, 4, 4), np.fft.rfftn(x.real, axes=(1, 2))),
        (3, x[..., :4], of("f4", 3, 4, 6), np.fft.irfftn(x[..., :4], (4, 6), axes=(1, 2))),
    ]
    for kind, operand, result, want in cases:
        (got,) = call("fft", [operand], [result], fft_length=(4, 6), fft_type=kind)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky_of_a_batch_with_its_status(lower: bool) -> None:
    a = floats(3, 4, 4)
    a = a @ a.transpose(0, 2, 1) + np.eye(4)
    a[1, 2, 2] = -1
    spoilt = np.triu(a) if not lower else np.tril(a)  # the other triangle does not count
    outputs = [of("f8", 3, 4, 4), of("u1", 64), of("i4", 3)]
    factor, _, info = call("cholesky", [spoilt], outputs, batch_size=3, n=4, uplo=int(lower))
    assert (info != 0).tolist() == [False, True, False]
    assert np.isnan(factor[1]).all()
    for i in (0, 2):
        f = factor[i] if lower else factor[i].T
        np.testing.assert_allclose(f @ f.T, a[i], rtol=1e-10)
        np.testing.assert_array_equal(f, np.tril(f))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", [1, 2, 3])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solves(left: bool, lower: bool, transpose: int, unit: bool) -> None:
    a = floats(2, 4, 4) + 1j * floats(2, 4, 4, seed=1) + 4 * np.eye(4)
    b = (floats(2, 4, 3, seed=2) if left else floats(2, 3, 4, seed=2)).astype(np.complex128)
    kind = of("c16", *b.shape)
    (x,) = call(
        "triangular_solve", [a, b], [kind], left_side=left, lower=lower, unit_diagonal=unit, transpose_a=transpose
    )
    t = np.tril(a) if lower else np.triu(a)
    if unit:
        t = t - t * np.eye(4) + np.eye(4)
    op = {1: t, 2: t.transpose(0, 2, 1), 3: t.conj().transpose(0, 2, 1)}[transpose]
    np.testing.assert_allclose(op @ x if left else x @ op, b, rtol=1e-9, atol=1e-9)


# -- feeds ---------------------------------------------------------------------------------------------------------


def test_feeds_are_taken_and_given_in_order() -> None:
    feeds = Feeds([(np.float32(1), (np.arange(2), np.arange(3))), np.arange(4)])
    options = RunOptions(feeds=feeds)
    found = call("infeed", [], [of("f4"), of("i8", 2), of("i8", 3)], options)
    assert [x.tolist() for x in found] == [1.0, [0, 1], [0, 1, 2]]
    assert call("infeed", [], [of("i8", 4)], options)[0].tolist() == [0, 1, 2, 3]
    assert call("outfeed", [np.arange(2)], [], options) == []
    assert call("outfeed", [np.arange(2), np.array(3, np.float32)], [], options) == []
    assert feeds.outfeed[0].tolist() == [0, 1]
    assert [np.asarray(x).tolist() for x in feeds.outfeed[1]] == [[0, 1], 3.0]


def test_a_feed_that_does_not_fit_is_refused() -> None:
    with pytest.raises(XylaError, match="no infeed and outfeed queues"):
        call("infeed", [], [of("f4")])
    with pytest.raises(XylaError, match="takes 2 arrays, the host has fed 1"):
        call("infeed", [], [of("f4"), of("f4")], RunOptions(feeds=Feeds([np.float32(1)])))


# -- collectives -----------------------------------------------------------------------------------------------------


def on_devices(
    replicas: int, partitions: int, target: str, operands: Any, outputs: Sequence[ArrayType], **attributes: Attribute
) -> list[list[Any]]:
    """Each device's results; `operands(device)` are its arrays."""
    world = World(replicas, partitions, timeout=20)

    def body(device: int) -> list[Any]:
        options = RunOptions(world=world, participant=device)
        return [x.tolist() for x in call(target, operands(device), outputs, options, **attributes)]

    return run_devices(world, body)


def numbered(device: int) -> list[Array]:
    return [np.array([device, 10 * device], np.float32)]


PAIR = [of("f4", 2)]
GROUPS: dict[int, tuple[dict[str, Any], list[tuple[int, ...]]]] = {
    0: ({"replica_group_values": (1, 0), "replica_group_offsets": (2,)}, [(0, 2), (1, 3), (0, 2), (1, 3)]),
    1: ({}, [(0, 1), (0, 1), (2, 3), (2, 3)]),
    2: ({"replica_group_values": (0, 1), "replica_group_offsets": (1, 2)}, [(0, 1), (0, 1), (2, 3), (2, 3)]),
    3: ({"replica_group_values": (0, 3, 1, 2), "replica_group_offsets": (2, 4)}, [(0, 3), (1, 2), (1, 2), (0, 3)]),
}


@pytest.mark.parametrize("target", ["all_reduce", "all_reduce_start"])
@pytest.mark.parametrize("mode", GROUPS)
def test_reductions_over_each_kind_of_group(mode: int, target: str) -> None:
    attributes, members = GROUPS[mode]
    found = on_devices(2, 2, target, numbered, PAIR, group_mode=mode, reduction_kind=0, **attributes)
    assert found == [[[float(sum(m)), 10.0 * sum(m)]] for m in members]


KINDS: dict[int, Any] = {0: sum, 1: prod, 2: min, 3: max}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", BF16, "c8", bool])
def test_each_reduction_of_each_type(kind: int, dtype: Any) -> None:
    if dtype == "c8" and kind > 1:
        pytest.skip("complex numbers have no order")
    values = [np.array([i % 2, i + 1, 3 - i]).astype(dtype) for i in range(3)]
    found = on_devices(3, 1, "all_reduce", lambda d: [values[d]], [of(dtype, 3)], group_mode=0, reduction_kind=kind)
    want = [KINDS[kind]([v[j].item() for v in values]) for j in range(3)]
    assert found == [[np.array(want).astype(dtype).tolist()]] * 3


def test_gathers_scatters_and_exchanges() -> None:
    given: dict[str, Any] = {"group_mode": 0}
    assert on_devices(2, 1, "all_gather", numbered, [of("f4", 4)], **given) == [[[0, 0, 1, 10]]] * 2
    found = on_devices(2, 1, "reduce_scatter", numbered, [of("f4", 1)], **given, reduction_kind=3)
    assert found == [[[1]], [[10]]]
    found = on_devices(2, 1, "all_to_all", numbered, PAIR, **given, has_split_dimension=True, split_dimension=0)
    assert found == [[[0, 1]], [[0, 10]]]

    def two(d: int) -> list[Array]:
        return [np.array([d], np.float32), np.array([d + 5], np.float32)]

    found = on_devices(2, 1, "all_to_all", two, [of("f4", 1)] * 2, **given, has_split_dimension=False)
    assert found == [[[0], [1]], [[5], [6]]]


def test_permutes_and_broadcasts_give_zeros_to_those_that_are_left_out() -> None:
    everyone: dict[str, Any] = {"replica_group_values": (0, 1, 2), "replica_group_offsets": (3,), "group_mode": 0}
    found = on_devices(3, 1, "collective_permute", numbered, PAIR, **everyone, source_peers=(1, 0), target_peers=(0, 2))
    assert found == [[[1, 10]], [[0, 0]], [[0, 0]]]
    some: dict[str, Any] = {"replica_group_values": (1, 0), "replica_group_offsets": (2,), "group_mode": 0}
    assert on_devices(3, 1, "collective_broadcast", numbered, PAIR, **some) == [[[1, 10]], [[1, 10]], [[0, 0]]]


def test_a_permute_among_too_few_devices_says_how_many_it_names() -> None:
    with pytest.raises(XylaError, match="name device 5, but the program runs on 2") as error:
        on_devices(2, 1, "collective_permute", numbered, PAIR, group_mode=0, source_peers=(0,), target_peers=(5,))
    assert "replicas=" in (error.value.hint or "")


def test_ragged_exchanges() -> None:
    def operands(device: int) -> list[Array]:
        lists = {0: ([0, 1], [1, 2], [0, 0], [1, 1]), 1: ([0, 1], [1, 1], [1, 2], [2, 1])}[device]
        return [np.arange(3) + 10 * device, np.full(4, -1), *(np.array(x) for x in lists)]

    found = on_devices(2, 1, "ragged_all_to_all", operands, [of("i8", 4)], group_mode=0)
    assert found == [[[0, 10, -1, -1]], [[1, 2, 11, -1]]]


def test_devices_know_their_numbers_and_a_done_gives_nothing() -> None:
    number = [of("u4")]
    assert on_devices(2, 2, "replica_id", lambda d: [], number) == [[0], [0], [1], [1]]
    assert on_devices(2, 2, "partition_id", lambda d: [], number) == [[0], [1], [0], [1]]
    assert on_devices(1, 1, "all_reduce_done", lambda d: [], [], uid=3) == [[]]


def test_a_device_in_no_group_is_refused() -> None:
    one: dict[str, Any] = {"replica_group_values": (0,), "replica_group_offsets": (1,), "group_mode": 0}
    with pytest.raises(XylaError, match="device 1 is in no replica group"):
        on_devices(2, 1, "all_reduce", numbered, PAIR, **one, reduction_kind=0)


def test_attributes_have_the_defaults_of_the_signature() -> None:
    made = step("gemm", [], [], lhs_contracting_dimensions=(1,), rhs_contracting_dimensions=(0,))
    assert attributes_of(made)["alpha_real"] == 1.0
