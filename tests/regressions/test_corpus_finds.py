"""Programs of the kinds that a sweep over public modules found wrong, written anew."""

from __future__ import annotations

import numpy as np
import pytest

import xyla
from xyla.formats.hlo_text import parse
from xyla.support.status import Status, XylaError


def both(text: str, *args: np.ndarray) -> np.ndarray:
    """The first result, after checking that compiled and evaluated agree bit for bit."""
    module = parse(text)
    (compiled, *_), (evaluated, *_) = xyla.compile(module)(*args), xyla.interp.run(module, args)
    np.testing.assert_array_equal(compiled, evaluated)
    return compiled


def test_ragged_dot_with_sizes_for_a_free_dimension() -> None:
    text = """HloModule m
    ENTRY e {
      x = f32[2,3,1] parameter(0)
      y = f32[2,1,1] parameter(1)
      n = s32[2,2] parameter(2)
      ROOT r = f32[2,3,1] ragged-dot(x, y, n), lhs_contracting_dims={2}, rhs_contracting_dims={1},
        lhs_ragged_dims={1}, rhs_group_dims={0}
    }"""
    x, y = np.ones((2, 3, 1), np.float32), np.array([[[10]], [[20]]], np.float32)
    out = both(text, x, y, np.array([[1, 2], [2, 0]], np.int32))
    np.testing.assert_array_equal(out[..., 0], [[10, 20, 20], [10, 10, 0]])


def test_narrow_floats_scatter_one_by_one() -> None:
    text = """HloModule m
    add {
      a = bf16[] parameter(0)
      b = bf16[] parameter(1)
      ROOT c = bf16[] add(a, b)
    }
    ENTRY e {
      x = bf16[1] parameter(0)
      i = s32[600,1] parameter(1)
      u = bf16[600] parameter(2)
      ROOT s = bf16[1] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
    }"""
    bf16 = xyla.load(text).entry.root.shape.element_type.np
    out = both(text, np.zeros(1, bf16), np.zeros((600, 1), np.int32), np.ones(600, bf16))
    assert float(out[0]) == 256.0  # 256 + 1 rounds to 256


def test_custom_call_without_operands_reaches_no_rule_about_operands() -> None:
    module = parse('HloModule m\nENTRY e {\n ROOT c = s32[1] custom-call(), custom_call_target="AllocateBuffer"\n}')
    assert xyla.compile(module)()[0].shape == (1,)


def test_a_result_that_no_memory_holds_is_resource_exhausted() -> None:
    body = " x = u8[] parameter(0)\n ROOT b = u8[1000000000000000] broadcast(x), dimensions={}"
    module = parse(f"HloModule m\nENTRY e {{\n{body}\n}}")
    with pytest.raises(XylaError) as caught:
        xyla.compile(module)(np.uint8(1))
    assert caught.value.status is Status.RESOURCE_EXHAUSTED
