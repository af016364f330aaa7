"""rng-bit-generator in terms of integer arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.attr_types import RandomAlgorithm
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Expander, Val
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import PRED, U32, U64, ElementType, find

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)


@register
@dataclass(frozen=True, slots=True)
class RngBitGeneratorExpander(Expander):
    """Writes Philox-4x32-10 and Threefry-2x32-20 out as vector arithmetic over an iota of counters.

    The bits and the new state are rng-bit-generator's exactly. The default algorithm is Philox. States that are not
    u64[2] or u64[3] (Philox), or u32 forms of those, and types without an integer of their width, stay as they are.
    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).

        ROOT r = (u64[2], u32[8]) rng-bit-generator(u64[2] state), algorithm=rng_three_fry
          ==>  x0 = iota + low word of the counter; x1 = high word; 20 rounds of add, rotate, xor
    """

    name: ClassVar[str] = "rng-bit-generator-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.RNG_BIT_GENERATOR: expand_rng_bit_generator}


def expand_rng_bit_generator(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """rng-bit-generator(state) = (state + counters used, algorithm(key, counters))."""
    tupled = inst.shape.is_tuple
    shape = inst.shape.tuple_shapes[1] if tupled else inst.shape
    threefry = inst.attrs.algorithm is RandomAlgorithm.THREE_FRY
    state_shape = inst.operands[0].shape
    et = shape.element_type
    if not _is_state(state_shape, threefry) or shape.is_dynamic or et is PRED or find(f"u{et.bits}") is None:
        return None
    rw.permit()
    b = Builder(rw)
    words = _words(b.val(inst.operands[0]))
    generate = threefry_bits if threefry else philox_bits
    bits, new = generate(b, words, shape.dims, shape.element_type.bits)
    out = _as_type(bits, shape.element_type)
    return b.tuple([_from_words(b, new, state_shape), out]).inst if tupled else out.inst


def _is_state(shape: Shape, threefry: bool) -> bool:
    if not shape.is_array or shape.rank != 1 or shape.element_type not in (U64, U32):
        return False
    words = shape.num_bytes // 8 if shape.num_bytes % 8 == 0 else 0
    return words == 2 or (words == 3 and not threefry)


def _words(state: Val) -> list[Val]:
    """The state's u64 words as scalars."""
    b = state.b
    if state.et is U32:
        pairs = state.reshape(state.dims[0] // 2, 2)
        state = b.apply(ops.BITCAST_CONVERT, pairs, shape=Shape.array(U64, (state.dims[0] // 2,)))
    return [state.slice([i], [i + 1]).reshape() for i in range(state.dims[0])]


def _from_words(b: Builder, words: Sequence[Val], shape: Shape) -> Val:
    state = b.concat([w.reshape(1) for w in words], 0)
    if shape.element_type is U64:
        return state
    return b.apply(ops.BITCAST_CONVERT, state, shape=Shape.array(U32, (len(words), 2))).reshape(2 * len(words))


def _as_type(bits: Val, et: ElementType) -> Val:
    """The low bits of u32 or u64 words as `et`."""
    unsigned = find(f"u{et.bits}")
    assert unsigned is not None
    if unsigned.bits < 8:
        bits = bits & ((1 << unsigned.bits) - 1)
    return bits.convert(unsigned).bitcast(et)


def _low(x: Val) -> Val:
    return x.convert(U32)


def _high(x: Val) -> Val:
    return (x >> 32).convert(U32)


def _join(low: Val, high: Val) -> Val:
    return low.convert(U64) | (high.convert(U64) << 32)


def _counters(b: Builder, start: Val, count: int) -> Val:
    return b.iota(U64, [count], 0) + start


def threefry2x32(x0: Val, x1: Val, key: Val) -> tuple[Val, Val]:
    """Threefry-2x32-20 of counters (x0, x1), u32[n], under a u64[] key."""
    low, high = _low(key), _high(key)
    schedule = (low, high, low ^ high ^ _PARITY)
    x0, x1 = x0 + schedule[0], x1 + schedule[1]
    for group in range(5):
        for r in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ((x1 << r) | (x1 >> (32 - r))) ^ x0
        x0 = x0 + schedule[(group + 1) % 3]
        x1 = x1 + (schedule[(group + 2) % 3] + (group + 1))
    return x0, x1


def threefry_bits(b: Builder, words: Sequence[Val], dims: tuple[int, ...], bits: int) -> tuple[Val, list[Val]]:
    """(u32 or u64 words of shape dims, the new state)."""
    key, counter = words
    if bits == 64:
        count = math.prod(dims)
        at = _counters(b, counter, count)
        return _join(*threefry2x32(_low(at), _high(at), key)).reshape(*dims), [key, counter + count]
    half, axis = _halves(dims)
    count = math.prod(half)
    at = _counters(b, counter, count)
    pair = threefry2x32(_low(at), _high(at), key)
    new = [key, counter + count]
    if not dims:
        return pair[0].reshape(), new
    # The halves interleave along the split dimension; an odd size drops the last one.
    both = b.concat([w.reshape(*half[: axis + 1], 1, *half[axis + 1 :]) for w in pair], axis + 1)
    padded = [2 * half[i] if i == axis else d for i, d in enumerate(dims)]
    return both.reshape(*padded).slice([0] * len(dims), dims), new


def _halves(dims: tuple[int, ...]) -> tuple[list[int], int]:
    """The dimension to split (the first even one, else the largest) and the dims with it halved, rounded up."""
    if not dims:
        return [1], 0
    even = [i for i, d in enumerate(dims) if d % 2 == 0]
    axis = even[0] if even else max(range(len(dims)), key=lambda i: (dims[i], -i))
    return [-(-d // 2) if i == axis else d for i, d in enumerate(dims)], axis


def philox4x32(counter: Sequence[Val], key: Val) -> list[Val]:
    """Philox-4x32-10 of counters of four u32[n] words, low first, under a u64[] key."""
    a, b, c, d = counter
    k0, k1 = _low(key), _high(key)
    for _ in range(10):
        p0, p1 = a.convert(U64) * _MULTIPLIERS[0], c.convert(U64) * _MULTIPLIERS[1]
        a, b, c, d = _high(p1) ^ b ^ k0, _low(p1), _high(p0) ^ d ^ k1, _low(p0)
        k0, k1 = k0 + _WEYL[0], k1 + _WEYL[1]
    return [a, b, c, d]


def philox_bits(b: Builder, words: Sequence[Val], dims: tuple[int, ...], bits: int) -> tuple[Val, list[Val]]:
    """(u32 or u64 words of shape dims, the new state): four words a counter value, in order."""
    key, low = words[0], words[1]
    high = words[2] if len(words) > 2 else key
    count = math.prod(dims)
    blocks = -(-count * (2 if bits == 64 else 1) // 4)
    at = _counters(b, low, blocks)
    carried = at.lt(low.broadcast([blocks])).convert(U64)
    top = carried + high
    parts = philox4x32([_low(at), _high(at), _low(top), _high(top)], key)
    if bits == 64:
        parts = [_join(parts[0], parts[1]), _join(parts[2], parts[3])]
    flat = b.concat([p.reshape(blocks, 1) for p in parts], 1).reshape(blocks * len(parts))
    end = low + blocks
    new = [key, end, high + end.lt(low).convert(U64)][: len(words)]
    return flat.slice([0], [count]).reshape(*dims), new
