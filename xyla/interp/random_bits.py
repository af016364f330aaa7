"""Counter-based random bits, bit for bit as XLA generates them.

Threefry-2x32 with 20 rounds and Philox-4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2,
3", SC 2011). The state is u64[2] or, for Philox, u64[3]: the key, then a 64- or 128-bit counter (low
word first). DEFAULT is Philox, as on XLA's CPU and GPU backends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xyla.interp.table import Array

_MASK64 = (1 << 64) - 1
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_PHILOX_WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))
_PHILOX_MUL = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_32 = np.uint64(32)


def low_high(x: Array) -> tuple[Array, Array]:
    """The two 32-bit halves of u64 values."""
    return x.astype(np.uint32), (x >> _32).astype(np.uint32)


def join(low: Array, high: Array) -> Array:
    """u64 from its 32-bit halves."""
    return low.astype(np.uint64) | (high.astype(np.uint64) << _32)


def threefry2x32(x0: Array, x1: Array, key: tuple[Array, Array]) -> tuple[Array, Array]:
    """Threefry-2x32-20 of the counter (x0, x1)."""
    ks = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x0, x1 = x0 + ks[0], x1 + ks[1]
    for group in range(5):
        for r in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ((x1 << np.uint32(r)) | (x1 >> np.uint32(32 - r))) ^ x0
        x0 = x0 + ks[(group + 1) % 3]
        x1 = x1 + ks[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def philox4x32(x: Sequence[Array], key: tuple[Array, Array]) -> tuple[Array, Array, Array, Array]:
    """Philox-4x32-10 of a 128-bit counter given as four 32-bit words, low first."""
    a, b, c, d = x
    k0, k1 = key
    for _ in range(10):
        p0, p1 = a.astype(np.uint64) * _PHILOX_MUL[0], c.astype(np.uint64) * _PHILOX_MUL[1]
        (low0, high0), (low1, high1) = low_high(p0), low_high(p1)
        a, b, c, d = high1 ^ b ^ k0, low1, high0 ^ d ^ k1, low0
        k0, k1 = k0 + _PHILOX_WEYL[0], k1 + _PHILOX_WEYL[1]
    return a, b, c, d


def threefry_bits(key: int, counter: int, dims: Sequence[int], bits: int) -> tuple[Array, int]:
    """(u32 or u64 random words of shape dims, new counter). Narrower words are the low bits of u32 ones."""
    key_words = _key_words(key)
    if bits == 64:
        count = math.prod(dims)
        low, high = threefry2x32(*_counters(counter, count), key_words)
        return join(low, high).reshape(dims), (counter + count) & _MASK64
    half, axis = _halves(dims)
    count = math.prod(half)
    pair = [w.reshape(half) for w in threefry2x32(*_counters(counter, count), key_words)]
    new = (counter + count) & _MASK64
    if not dims:
        return pair[0].reshape(()), new
    # The halves interleave along the split dimension; an odd size drops the last one.
    both = np.stack(pair, axis=axis + 1)
    padded = [2 * half[i] if i == axis else d for i, d in enumerate(dims)]
    return both.reshape(padded)[tuple(slice(0, d) for d in dims)], new


def _key_words(key: int) -> tuple[Array, Array]:
    return low_high(np.full((1,), key, np.uint64))


def _counters(start: int, count: int) -> tuple[Array, Array]:
    return low_high(np.uint64(start) + np.arange(count, dtype=np.uint64))


def _halves(dims: Sequence[int]) -> tuple[list[int], int]:
    """The dimension to split (the first even one, else the largest) and the dims with it halved, rounded up."""
    if not dims:
        return [1], 0
    even = [i for i, d in enumerate(dims) if d % 2 == 0]
    axis = even[0] if even else max(range(len(dims)), key=lambda i: (dims[i], -i))
    return [-(-d // 2) if i == axis else d for i, d in enumerate(dims)], axis


def philox_bits(key: int, counter: int, dims: Sequence[int], bits: int) -> tuple[Array, int]:
    """(u32 or u64 random words of shape dims, new 128-bit counter): four 32-bit words a counter value, in order."""
    count = math.prod(dims)
    words = count * (2 if bits == 64 else 1)
    blocks = -(-words // 4)
    low = np.uint64(counter & _MASK64) + np.arange(blocks, dtype=np.uint64)
    high0 = counter >> 64
    carried = low < np.uint64(counter & _MASK64)
    high = np.where(carried, np.uint64((high0 + 1) & _MASK64), np.uint64(high0))
    a, b, c, d = philox4x32((*low_high(low), *low_high(high)), _key_words(key))
    new = (counter + blocks) & ((1 << 128) - 1)
    if bits == 64:
        flat = np.stack([join(a, b), join(c, d)], axis=1).reshape(-1)
    else:
        flat = np.stack([a, b, c, d], axis=1).reshape(-1)
    return flat[:count].reshape(dims), new
