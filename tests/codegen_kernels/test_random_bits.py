"""rng-bit-generator kernels give the evaluator's bits."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.testing.kernels import check, program

STATE = np.array([123456789012345, 2**64 - 5, 7], np.uint64)


def bits(shape: str, algorithm: str, words: int) -> str:
    state = f"u64[{words}]"
    return program(
        f"s = {state} parameter(0)", f"ROOT r = ({state}, {shape}) rng-bit-generator(s), algorithm={algorithm}"
    )


ALGORITHMS = [("rng_three_fry", 2), ("rng_philox", 3), ("rng_philox", 2), ("rng_default", 3)]
SHAPES = ["u32[]", "u32[7]", "u64[5]", "u8[100]", "u32[3,5]", "u16[3,4,5]", "s4[33,7]", "u64[6,10]{0,1}", "s32[0,3]"]


@pytest.mark.parametrize(("algorithm", "words"), ALGORITHMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_bits(shape: str, algorithm: str, words: int) -> None:
    check(bits(shape, algorithm, words), STATE[:words])


def test_a_state_of_u32() -> None:
    text = program("s = u32[4] parameter(0)", "ROOT r = u32[5,40] rng-bit-generator(s), algorithm=rng_three_fry")
    check(text, STATE[:2].view(np.uint32))
