"""rng-bit-generator, rng, rng-get-and-update-state.

`rng` draws are Philox streams keyed by the instruction's name and by how often it has run, so results are reproducible,
whatever else the program holds. XLA leaves them unspecified.
Spec: XLA operation semantics (RngBitGenerator, RngUniform, RngNormal).
"""

from __future__ import annotations

import zlib

import numpy as np

from xyla.hlo import ops
from xyla.hlo.attr_types import RandomAlgorithm, RandomDistribution
from xyla.hlo.module import Instruction
from xyla.interp.numeric import bitcast_convert, compute_dtype, narrow, widen
from xyla.interp.random_bits import philox_bits, threefry_bits
from xyla.interp.session import Session
from xyla.interp.table import EVAL, Array, Kernel
from xyla.support import dtypes
from xyla.support.dtypes import PRED, ElementType
from xyla.support.status import invalid, unimplemented


@EVAL.rule(ops.RNG_BIT_GENERATOR)
def _rng_bit_generator(inst: Instruction, session: Session) -> Kernel:
    shape = inst.shape.tuple_shapes[1] if inst.shape.is_tuple else inst.shape
    et, dims = shape.element_type, shape.dims
    if et is PRED or et.is_complex:
        raise unimplemented(f"rng-bit-generator of {et}: XLA generates integer and float bits only", span=inst.span)
    algorithm, state_shape = inst.attrs.algorithm, inst.operands[0].shape
    with_state = inst.shape.is_tuple

    def kernel(state: Array) -> object:
        words = _state_words(state)
        if algorithm is RandomAlgorithm.THREE_FRY:
            if len(words) != 2:
                raise invalid(f"a Threefry state is u64[2], not {state_shape}")
            bits, counter = threefry_bits(words[0], words[1], dims, et.bits)
            new = [words[0], counter]
        else:
            # In a two-word state the key is the counter's high word as well.
            start = words[1] | (words[2] if len(words) > 2 else words[0]) << 64
            bits, counter = philox_bits(words[0], start, dims, et.bits)
            new = [words[0], counter & (2**64 - 1), counter >> 64][: len(words)]
        new_state = np.array(new, np.uint64).view(state_shape.element_type.np).reshape(state_shape.dims)
        out = _as_type(bits, et)
        return (new_state, out) if with_state else out

    return kernel


def _state_words(state: Array | tuple[Array, ...]) -> list[int]:
    """The state as 64-bit words; a tuple's parts follow each other."""
    parts = state if isinstance(state, tuple) else (state,)
    words = np.frombuffer(b"".join(np.asarray(p).tobytes() for p in parts), np.uint64)
    if not 2 <= words.size <= 3:
        raise invalid(f"a random state holds 2 or 3 64-bit words, not {words.size}")
    return [int(w) for w in words]


def _as_type(bits: Array, et: ElementType) -> Array:
    """The low bits of each word, read as `et`."""
    if et.bits < 8:
        return np.asarray(bits & bits.dtype.type((1 << et.bits) - 1)).astype(np.uint8).astype(et.np)
    unsigned = dtypes.by_name(f"u{et.bits}")
    return bitcast_convert(bits.astype(unsigned.np), unsigned, et)


@EVAL.rule(ops.RNG)
def _rng(inst: Instruction, session: Session) -> Kernel:
    et, dims = inst.shape.element_type, inst.shape.dims
    normal = inst.attrs.distribution is RandomDistribution.NORMAL

    key, draws = zlib.crc32(inst.name.encode()), session.random.draws

    def unit() -> Array:
        """Uniform float64 in [0, 1) from a fresh stream."""
        count = draws.get(inst, 0)
        draws[inst] = count + 1
        bits, _ = philox_bits(key, (session.device << 96) | (count << 64), dims, 64)
        return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def kernel(a: Array, b: Array) -> Array:
        lo, hi = (np.asarray(widen(np.asarray(v), et)) for v in (a, b))
        if normal:
            radius = np.sqrt(-2.0 * np.log1p(-unit()))
            return narrow(lo + hi * radius * np.cos(2 * np.pi * unit()), et)
        if et is PRED:
            return unit() < 0.5
        if et.is_float:
            drawn = narrow(lo.astype(np.float64) + unit() * (hi.astype(np.float64) - lo), et)
            # Rounding may reach the open end of the interval.
            return np.where(np.asarray(widen(drawn, et)) >= hi, a, drawn)
        span = int(hi) - int(lo)
        if span <= 0:
            raise invalid(f"rng uniform over the empty range [{int(lo)}, {int(hi)})")
        drawn = np.floor(unit() * span).astype(np.uint64).astype(compute_dtype(et))
        return np.asarray(lo + drawn).astype(et.np)

    return kernel


@EVAL.rule(ops.RNG_GET_AND_UPDATE_STATE)
def _rng_state(inst: Instruction, session: Session) -> Kernel:
    """A 128-bit counter that grows by delta each time; one per run, 0 at the start."""
    delta, random = inst.attrs.delta, session.random

    def kernel() -> Array:
        value = random.counter
        random.counter = (value + delta) & ((1 << 128) - 1)
        return np.array([value & (2**64 - 1), value >> 64], np.uint64)

    return kernel
