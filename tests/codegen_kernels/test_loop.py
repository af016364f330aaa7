"""Element-wise and data-movement kernels against the evaluator, over shapes, layouts and types."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from xyla.testing.kernels import check, program


def unary(op: str, source: str, result: str, attrs: str = "") -> str:
    tail = f", {attrs}" if attrs else ""
    return program(f"p = {source} parameter(0)", f"ROOT r = {result} {op}(p){tail}")


MOVEMENT = {
    "negate a prime length": unary("negate", "f32[10007]", "f32[10007]"),
    "negate several blocks": unary("negate", "f32[3,9001]", "f32[3,9001]"),
    "negate a short minor dimension": unary("negate", "f32[50,3]{0,1}", "f32[50,3]{1,0}"),
    "a scalar": unary("negate", "f32[]", "f32[]"),
    "an empty array": unary("negate", "f32[3,0]", "f32[3,0]"),
    "copy to another layout": unary("copy", "f32[5,7,33]{2,1,0}", "f32[5,7,33]{0,1,2}"),
    "broadcast into the middle": unary("broadcast", "f32[7]", "f32[5,7,33]", "dimensions={1}"),
    "broadcast a scalar": unary("broadcast", "bf16[]", "bf16[5,70]", "dimensions={}"),
    "reshape that splits and merges": unary("reshape", "f32[5,7,33]{1,2,0}", "f32[35,11,3]{2,0,1}"),
    "reshape of unit dimensions": unary("reshape", "s8[5,1,7]", "s8[1,35,1]"),
    "bitcast of a layout": unary("bitcast", "f32[6,35]{0,1}", "f32[7,5,6]{2,0,1}"),
    "transpose": unary("transpose", "f32[5,7,33]", "f32[33,5,7]", "dimensions={2,0,1}"),
    "transpose complex": unary("transpose", "c64[5,33]", "c64[33,5]", "dimensions={1,0}"),
    "transpose bytes": unary("transpose", "u8[37,35]", "u8[35,37]", "dimensions={1,0}"),
    "transpose in tiles": unary("transpose", "f32[3,35,50]", "f32[50,3,35]", "dimensions={2,0,1}"),
    "transpose tiles of doubles": unary("transpose", "f64[35,50]{0,1}", "f64[50,35]{0,1}", "dimensions={1,0}"),
    "transpose tiles of pairs": unary("transpose", "c64[20,17]", "c64[17,20]", "dimensions={1,0}"),
    "copy in tiles": unary("copy", "bf16[33,4,40]{2,1,0}", "bf16[33,4,40]{0,1,2}"),
    "slice with strides": unary("slice", "f32[5,7,33]", "f32[3,3,15]", "slice={[1:4], [0:7:3], [2:31:2]}"),
    "reverse": unary("reverse", "f32[5,70]", "f32[5,70]", "dimensions={0,1}"),
    "reverse complex": unary("reverse", "c128[5,7]", "c128[5,7]", "dimensions={1}"),
    "iota of floats": program("ROOT r = f16[5,7,3] iota(), iota_dimension=1"),
    "iota along the lanes": program("ROOT r = c64[70] iota(), iota_dimension=0"),
    "iota of sub-bytes wraps": program("ROOT r = u4[9,40] iota(), iota_dimension=0"),
    "convert to bytes": unary("convert", "f32[100]", "s8[100]"),
    "convert to bool": unary("convert", "s32[5,7]", "pred[5,7]"),
    "bitcast-convert narrower": unary("bitcast-convert", "u32[4,6]", "u8[4,6,4]"),
    "bitcast-convert wider": unary("bitcast-convert", "u8[4,6,4]", "f32[4,6]"),
    "bitcast-convert nibbles": unary("bitcast-convert", "u8[4,6]", "u4[4,6,2]"),
    "get-dimension-size": unary("get-dimension-size", "f32[4,6]", "s32[]", "dimensions={1}"),
}


@pytest.mark.parametrize("name", MOVEMENT)
def test_one_operand(name: str) -> None:
    check(MOVEMENT[name])


PADDINGS = ["1_0x-1_2x1_2_1", "0_0x0_0x0_0", "-3_-3x0_0x5_5", "2_2_3x1_1_1x-4_-40", "0_0x0_0x-2_-2_1"]


@pytest.mark.parametrize("padding", PADDINGS)
def test_pad(padding: str) -> None:
    dims = [7, 8, 33]
    out = []
    for n, p in zip(dims, padding.split("x"), strict=True):
        low, high, *interior = map(int, p.split("_"))
        out.append(max(0, low + n + (n - 1) * (interior[0] if interior else 0) + high))
    shape = ",".join(map(str, out))
    check(
        program(
            "p = f32[7,8,33]{2,1,0} parameter(0)",
            "v = f32[] parameter(1)",
            f"ROOT r = f32[{shape}] pad(p, v), padding={padding}",
        )
    )


@pytest.mark.parametrize(("dim", "sizes"), [(0, (3, 1, 0, 4)), (1, (40, 2, 1)), (1, (1, 1))])
def test_concatenate(dim: int, sizes: tuple[int, ...]) -> None:
    shapes = [f"s16[{s},5]" if dim == 0 else f"s16[5,{s}]" for s in sizes]
    result = f"s16[{sum(sizes)},5]" if dim == 0 else f"s16[5,{sum(sizes)}]{{0,1}}"
    lines = [f"p{i} = {s} parameter({i})" for i, s in enumerate(shapes)]
    names = ", ".join(f"p{i}" for i in range(len(sizes)))
    check(program(*lines, f"ROOT r = {result} concatenate({names}), dimensions={{{dim}}}"))


@pytest.mark.parametrize("layouts", list(itertools.product(("{1,0}", "{0,1}"), repeat=3)))
def test_mixed_layouts(layouts: tuple[str, str, str]) -> None:
    a, b, c = layouts
    check(
        program(
            f"a = f32[19,21]{a} parameter(0)", f"b = f32[19,21]{b} parameter(1)", f"ROOT r = f32[19,21]{c} add(a, b)"
        )
    )


STARTS = [(9, 2, -5), (-1, -1, -1), (1, 0, 3), (127, 255, 2**40)]


@pytest.mark.parametrize("starts", STARTS)
def test_dynamic_slices_clamp(starts: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal((5, 7, 33)).astype("f"), rng.standard_normal((2, 3, 20)).astype("f")
    indices = [np.int8(starts[0]), np.uint8(starts[1] % 256), np.int64(starts[2])]
    head = ["p = f32[5,7,33] parameter(0)", "i = s8[] parameter(1)", "j = u8[] parameter(2)", "k = s64[] parameter(3)"]
    check(program(*head, "ROOT r = f32[2,3,20] dynamic-slice(p, i, j, k), dynamic_slice_sizes={2,3,20}"), x, *indices)
    tail = ["u = f32[2,3,20]{0,1,2} parameter(4)", "ROOT r = f32[5,7,33] dynamic-update-slice(p, u, i, j, k)"]
    check(program(*head, *tail), x, *indices, u)


def test_a_start_array_as_old_texts_have_it() -> None:
    text = program(
        "p = f32[5,33] parameter(0)",
        "s = s32[2] parameter(1)",
        "ROOT r = f32[2,20] dynamic-slice(p, s), dynamic_slice_sizes={2,20}",
    )
    check(text, np.arange(165, dtype="f").reshape(5, 33), np.array([4, 7], "i4"))


GATHERS = {
    "rows": ("s32[4,1]", "f32[4,33]", "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}", "1,33"),
    "elements": ("u8[40,2]", "f32[40]", "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={1,0}", "1,1"),
    "windows": ("s64[2,6]", "f32[3,6,5]", "offset_dims={0,2}, collapsed_slice_dims={}, start_index_map={0,1}", "3,5"),
}


@pytest.mark.parametrize("name", GATHERS)
def test_gather(name: str) -> None:
    index, result, attrs, sizes = GATHERS[name]
    dim = 0 if name == "windows" else 1
    text = program(
        "p = f32[10,33] parameter(0)",
        f"i = {index} parameter(1)",
        f"ROOT r = {result} gather(p, i), {attrs}, index_vector_dim={dim}, slice_sizes={{{sizes}}}",
    )
    rng = np.random.default_rng(1)
    dims = [int(n) for n in index[index.index("[") + 1 : -1].split(",")]
    low = 0 if index[0] == "u" else -20
    kind = {"s32": "i4", "u8": "u1", "s64": "i8"}[index[: index.index("[")]]
    check(text, rng.standard_normal((10, 33)).astype("f"), rng.integers(low, 60, dims).astype(kind))


def test_batched_gather() -> None:
    check(
        program(
            "p = s32[3,10,4] parameter(0)",
            "i = s32[5,3,1] parameter(1)",
            "ROOT r = s32[5,3,4] gather(p, i), offset_dims={2}, collapsed_slice_dims={1}, operand_batching_dims={0},"
            " start_indices_batching_dims={1}, start_index_map={1}, index_vector_dim=2, slice_sizes={1,1,4}",
        )
    )


TERNARY = {
    "select by a scalar": ("pred[]", "f32[5,33]", "f32[5,33]", "select"),
    "select": ("pred[5,33]{0,1}", "c64[5,33]", "c64[5,33]", "select"),
    "clamp with scalar bounds": ("f32[]", "f32[5,33]", "f32[]", "clamp"),
}


@pytest.mark.parametrize("name", TERNARY)
def test_ternary(name: str) -> None:
    a, b, c, op = TERNARY[name]
    result = b
    check(
        program(
            f"a = {a} parameter(0)",
            f"b = {b} parameter(1)",
            f"c = {c} parameter(2)",
            f"ROOT r = {result} {op}(a, b, c)",
        )
    )


TYPES = ["s2", "u4", "s8", "u16", "s32", "u64", "f16", "bf16", "f32", "f64", "f8e4m3fn", "f8e5m2", "c64", "c128"]


@pytest.mark.parametrize("et", TYPES)
def test_every_width_adds(et: str) -> None:
    check(program(f"a = {et}[77] parameter(0)", f"b = {et}[77] parameter(1)", f"ROOT r = {et}[77] add(a, b)"))


MIXED = {
    "add": ["a = f32[70] parameter(0)", "b = bf16[70] parameter(1)", "ROOT r = f32[70] add(a, b)"],
    "compare": [
        "a = f16[70] parameter(0)", "b = f32[70] parameter(1)",
        "ROOT r = pred[70] compare(a, b), direction=LT",
    ],
    "pad": ["a = bf16[5,70] parameter(0)", "v = f32[] parameter(1)", "ROOT r = bf16[7,70] pad(a, v), padding=1_1x0_0"],
    "concatenate": [
        "a = bf16[5] parameter(0)", "b = f32[9] parameter(1)",
        "ROOT r = f32[14] concatenate(a, b), dimensions={0}",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_mixed_precision(name: str) -> None:
    """Operands whose float types differ used to make LLVM text that aborts the process."""
    check(program(*MIXED[name]))


def test_reduce_precision_without_a_mantissa_has_no_nan() -> None:
    x = np.array([np.nan, -np.nan, 1.5, -3.0, np.inf, 1e30, 1e-30])
    check(unary("reduce-precision", "f64[7]", "f64[7]", "exponent_bits=5, mantissa_bits=0"), x)
