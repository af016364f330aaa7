"""Constants: read exactly, printed exactly, refused when they do not fit."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.formats.hlo_text import parse
from xyla.hlo.literal import Literal
from xyla.hlo.printer_literals import literal_text
from xyla.support.dtypes import BF16, F32, ElementType, all_types
from xyla.support.status import XylaError


def constant(shape: str, payload: str) -> Literal:
    literal = parse(f"HloModule m\nENTRY e {{ ROOT c = {shape} constant({payload}) }}").entry.root.attrs.literal
    assert isinstance(literal, Literal)
    return literal


def again(shape: str, payload: str) -> str:
    """The text that a literal prints as."""
    return literal_text(constant(shape, payload))


@pytest.mark.parametrize(
    ("shape", "payload"),
    [
        ("f32[]", "0.1"),
        ("f32[]", "-0"),
        ("f32[]", "1e+10"),
        ("f32[]", "-inf"),
        ("f32[]", "nan"),
        ("f32[]", "-nan"),
        ("f32[]", "nan(0x1)"),
        ("f32[]", "-nan(0x7fffff)"),
        ("f64[]", "0.30000000000000004"),
        ("f64[]", "nan(0xfff)"),
        ("bf16[2]", "{nan(0x7f), -nan(0x3f)}"),
        ("f16[3]", "{65504, 6e-08, 0.1}"),
        ("f8e4m3fn[2]", "{448, -0.002}"),
        ("f8e5m2[2]", "{inf, -nan}"),
        ("f4e2m1fn[3]", "{6, -0.5, 1.5}"),
        ("s4[4]", "{-8, 7, 0, -1}"),
        ("u2[2]", "{3, 0}"),
        ("u64[]", "18446744073709551615"),
        ("s64[]", "-9223372036854775808"),
        ("pred[]", "true"),
        ("pred[2]", "{1, 0}"),
        ("c64[]", "(1, -0.5)"),
        ("c128[2]", "{(inf, nan), (-0, 0.1)}"),
        ("s32[2,3]", "{ { 1, 2, 3 }, { 4, 5, 6 } }"),
        ("s32[2,1,1]", "{ { {1} }, { {2} } }"),
        ("f32[0]", "{}"),
        ("f32[2,0,4]", "{ {}, {} }"),
        ("f32[0,3]", "{}"),
        ("f32[1000000]", "{...}"),
        ("(f32[2], (s32[], pred[]))", "({1, 2}, (3, true))"),
    ],
)
def test_canonical_payloads_print_as_they_were_read(shape: str, payload: str) -> None:
    assert again(shape, payload) == payload


@pytest.mark.parametrize(
    ("shape", "payload", "canonical"),
    [
        ("f32[2,2]", "{{1,2},{3,4}}", "{ { 1, 2 }, { 3, 4 } }"),
        ("f32[2]", "{ /*0*/ 1.50, 2e0 }", "{1.5, 2}"),
        ("f32[2]", "f32[2]{0} {1, 2}", "{1, 2}"),
        ("pred[2]", "{true, false}", "{1, 0}"),
        ("s32[2]", "{true, 3}", "{1, 3}"),
        ("c64[]", "2", "(2, 0)"),
        ("u64[]", "-1", "18446744073709551615"),
        ("f32[2,2]", "7", "{ { 7, 7 }, { 7, 7 } }"),
    ],
)
def test_other_spellings(shape: str, payload: str, canonical: str) -> None:
    assert again(shape, payload) == canonical


@pytest.mark.parametrize(
    ("shape", "payload", "message"),
    [
        ("f32[3]", "{1, 2}", "the literal has 2 elements, f32[3] needs 3"),
        ("f32[2,2]", "{1, 2, 3, 4}", "braces do not follow f32[2,2]"),
        ("f32[2]", "{1, {2}}", "braces do not follow f32[2]"),
        ("f32[]", "{1}", "expected a number, found '{1}'"),
        ("f32[2]", "{1, x}", "expected a number, found 'x'"),
        ("f32[2]", "{1, }", "expected a number"),
        ("f32[]", "1_0", "expected a number, found '1_0'"),
        ("s32[]", "1.5", "expected an integer for s32, found '1.5'"),
        ("s8[2]", "{1, 128}", "value 128 is out of range for s8 (-128 to 127)"),
        ("u32[]", "-1", "value -1 is out of range for u32"),
        ("f16[]", "1e6", "value 1e6 is out of range for f16"),
        ("f32[]", "nan(0x800000)", "does not fit f32's 23 mantissa bits"),
        ("pred[]", "2", "expected true or false, found '2'"),
        ("token[]", "1", "cannot be written as a literal"),
        ("f32[?]", "{1}", "needs bounded dimensions"),
        ("(f32[], s32[])", "(1)", "the literal has 1 elements"),
        ("f32[]", "", "is missing"),
        ("f32[2]", "s32[2] {1, 2}", "the literal has shape s32[2]"),
    ],
)
def test_refusals(shape: str, payload: str, message: str) -> None:
    with pytest.raises(XylaError, match="<string>:2:") as caught:
        constant(shape, payload)
    assert message in caught.value.message


def _narrow(element: ElementType) -> bool:
    return element.is_float and element.bits <= 16


@pytest.mark.parametrize("element", [t for t in all_types() if _narrow(t)], ids=str)
def test_every_value_of_a_narrow_type_survives(element: ElementType) -> None:
    count = 1 << element.bits
    raw = np.arange(count).astype(f"u{element.itemsize}")
    # Types without NaN give patterns without a meaning no text of their own.
    raw = raw[np.isfinite(raw.view(element.np).astype(np.float64)) | (element.bits == 16)]
    literal = Literal.of(raw.view(element.np))
    back = constant(f"{element}[{raw.size}]", literal_text(literal))
    np.testing.assert_array_equal(back.array.view(raw.dtype), raw)


def test_random_floats_survive() -> None:
    raw = np.random.default_rng(0).integers(0, 1 << 32, 20_000, np.uint32)
    back = constant("f32[20000]", literal_text(Literal.of(raw.view(np.float32))))
    np.testing.assert_array_equal(back.array.view(np.uint32), raw)
    wide = np.random.default_rng(1).integers(0, 1 << 63, 5_000, np.int64).view(np.float64)
    back = constant("f64[5000]", literal_text(Literal.of(wide)))
    np.testing.assert_array_equal(back.array.view(np.int64), wide.view(np.int64))


def test_bfloat16_text_is_short() -> None:
    assert literal_text(Literal.scalar(0.1, BF16)) == "0.1"
    assert literal_text(Literal.scalar(16777216.0, F32)) == "16777216"


def test_the_largest_value_prints_as_a_number_in_range() -> None:
    # 3.39e+38 would round to it, but lies beyond it.
    largest = np.array(0x7F7F, np.uint16).view(BF16.np)
    assert literal_text(Literal.of(largest)) == "3.3895e+38"
    assert float(literal_text(Literal.of(largest))) <= float(largest)


def test_a_huge_splat_costs_no_memory_until_it_is_printed() -> None:
    literal = constant("f32[1000000000]", "0.5")
    assert literal.array.strides == (0,)


def test_an_elided_constant_has_no_value() -> None:
    literal = constant("f32[4]", "{...}")
    assert literal.elided
    with pytest.raises(XylaError, match="elided"):
        _ = literal.array
