from __future__ import annotations

import numpy as np
import pytest

from tests.interp.hlo import one, run
from xyla.interp.random_bits import philox4x32, threefry2x32
from xyla.support.status import Status, XylaError


def words(*values: int) -> list[np.ndarray]:
    return [np.array([v], np.uint32) for v in values]


# Known-answer tests of the Random123 library.
@pytest.mark.parametrize(
    ("counter", "key", "want"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry(counter: tuple[int, ...], key: tuple[int, ...], want: tuple[int, ...]) -> None:
    k0, k1 = words(*key)
    assert tuple(int(w[0]) for w in threefry2x32(*words(*counter), (k0, k1))) == want


@pytest.mark.parametrize(
    ("counter", "key", "want"),
    [
        ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox(counter: tuple[int, ...], key: tuple[int, ...], want: tuple[int, ...]) -> None:
    k0, k1 = words(*key)
    assert tuple(int(w[0]) for w in philox4x32(words(*counter), (k0, k1))) == want


def generate(state: list[int], algorithm: str, result: str) -> tuple[list[int], np.ndarray]:
    n = len(state)
    body = f"s = u64[{n}] parameter(0)\n"
    body += f"ROOT r = (u64[{n}], {result}) rng-bit-generator(s), algorithm={algorithm}"
    new, values = run(body, np.array(state, np.uint64))
    return new.tolist(), values


def test_philox_words_follow_each_other_and_the_counter_moves_by_blocks() -> None:
    new, values = generate([0, 0, 0], "rng_philox", "u32[6]")
    assert new == [0, 2, 0]
    assert values.tolist()[:4] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert generate([0, 1, 0], "rng_default", "u32[2]")[1].tolist() == values.tolist()[4:]
    assert generate([0, 2**64 - 1, 7], "rng_philox", "u32[8]")[0] == [0, 1, 8]


def test_philox_64_bit_words_join_low_first() -> None:
    values = generate([0, 0, 0], "rng_philox", "u64[2]")[1]
    assert values.tolist() == [0xE169C58D6627E8D5, 0x9B00DBD8BC57AC4C]


def test_a_two_word_philox_state_reuses_its_key_as_the_high_counter() -> None:
    assert (
        generate([5, 9], "rng_default", "u32[4]")[1].tolist() == generate([5, 9, 5], "rng_philox", "u32[4]")[1].tolist()
    )
    assert generate([5, 9], "rng_default", "u32[4]")[0] == [5, 10]


def test_threefry_halves_interleave_along_the_first_even_dimension() -> None:
    new, values = generate([0, 0], "rng_three_fry", "u32[2]")
    assert new == [0, 1]
    assert values.tolist() == [0x6B200159, 0x99BA4EFE]
    _, odd = generate([0, 0], "rng_three_fry", "u32[3]")
    assert odd.tolist()[:2] == values.tolist()
    _, grid = generate([0, 0], "rng_three_fry", "u32[3,2]")
    assert grid[0].tolist() == values.tolist()
    assert generate([0, 0], "rng_three_fry", "u32[]")[1] == 0x6B200159
    # The next counter's pair follows.
    new, four = generate([0, 0], "rng_three_fry", "u32[4]")
    assert new == [0, 2]
    assert four.tolist()[2:] == generate([0, 1], "rng_three_fry", "u32[2]")[1].tolist()


def test_narrow_words_are_the_low_bits_and_floats_are_their_bits() -> None:
    assert generate([0, 0], "rng_three_fry", "u8[2]")[1].tolist() == [0x59, 0xFE]
    assert generate([0, 0], "rng_three_fry", "u64[1]")[1].tolist() == [0x99BA4EFE6B200159]
    floats = generate([0, 0], "rng_three_fry", "f32[2]")[1]
    assert floats.view(np.uint32).tolist() == [0x6B200159, 0x99BA4EFE]


def test_a_state_of_the_wrong_length_is_an_error() -> None:
    with pytest.raises(XylaError) as e:
        generate([0, 0, 0], "rng_three_fry", "u32[2]")
    assert e.value.status is Status.INVALID_ARGUMENT


UNIFORM = """a = f32[] constant(2)
    b = f32[] constant(5)
    x = f32[1000] rng(a, b), distribution=rng_uniform
    y = f32[1000] rng(a, b), distribution=rng_uniform
    ROOT r = (f32[1000], f32[1000]) tuple(x, y)"""


def test_uniform_draws_fill_their_range_differ_and_repeat() -> None:
    x, y = run(UNIFORM)
    assert x.min() >= 2
    assert x.max() < 5
    assert abs(float(x.mean()) - 3.5) < 0.1
    assert (x != y).any()
    np.testing.assert_array_equal(run(UNIFORM)[0], x)


def test_normal_and_integer_draws() -> None:
    x = one("m = f32[] constant(10)\ns = f32[] constant(2)\nROOT r = f32[4000] rng(m, s), distribution=rng_normal")
    assert abs(float(x.mean()) - 10) < 0.15
    assert abs(float(x.std()) - 2) < 0.15
    n = one("a = s32[] constant(-2)\nb = s32[] constant(3)\nROOT r = s32[500] rng(a, b), distribution=rng_uniform")
    assert sorted(set(n.tolist())) == [-2, -1, 0, 1, 2]


def test_rng_state_advances() -> None:
    body = """a = u64[2] rng-get-and-update-state(), delta=3
    b = u64[2] rng-get-and-update-state(), delta=3
    ROOT r = (u64[2], u64[2]) tuple(a, b)"""
    assert [v.tolist() for v in run(body)] == [[0, 0], [3, 0]]
