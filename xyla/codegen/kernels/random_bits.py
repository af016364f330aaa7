"""rng-bit-generator: Threefry-2x32-20 and Philox-4x32-10, each element computed from its own counter.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); the layout of words in the result is
XLA's (see the reference evaluator's random_bits).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xyla.codegen.elements import natural_lanes, register_type
from xyla.codegen.elements_types import wrap
from xyla.codegen.fused import Leaf
from xyla.codegen.index import Index, Ix, number, row_major
from xyla.codegen.kernel import KernelSpec, refuse, signature
from xyla.codegen.kernels.loop import leaves_of, start_emitter
from xyla.codegen.kernels.loops import Nest, Piece, minor_length, store
from xyla.codegen.llvm import Val, Value, constant
from xyla.hlo.attr_types import RandomAlgorithm
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.support import dtypes

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)

Words = tuple[Val, Val]


def random_bits_kernel(inst: Instruction) -> KernelSpec:
    """A kernel for rng-bit-generator: the bits, and the advanced state when the result is a tuple."""
    leaves = leaves_of(inst.shape)
    bits, et, state = leaves[-1], leaves[-1].element_type, inst.operands[0].shape
    if et is dtypes.PRED or et.is_complex:
        raise refuse(inst, f"random bits of {et}")
    words = state.num_bytes // 8
    if state.element_type not in (dtypes.U64, dtypes.U32) or words not in (2, 3) or not _packed(state):
        raise refuse(inst, f"a state of {state}")
    # The default is Philox, as on XLA's CPU and GPU backends.
    threefry = inst.attrs.algorithm is RandomAlgorithm.THREE_FRY
    if threefry and words != 2:
        raise refuse(inst, f"a Threefry state of {state}")
    lanes = min(natural_lanes(dtypes.U32), natural_lanes(et), max(1, 1 << (minor_length(bits) - 1).bit_length()))
    return _Generator(inst, bits, words, lanes, threefry=threefry).build()


def _packed(state: Shape) -> bool:
    return state.rank == 1 or tuple(state.strides()) == tuple(row_major(state.dims))


class _Generator:
    """One instruction's generator: the key and counter words, and the element at a position."""

    def __init__(self, inst: Instruction, bits: Shape, words: int, lanes: int, *, threefry: bool) -> None:
        self.inst, self.bits, self.words, self.threefry = inst, bits, words, threefry
        self.em = start_emitter(inst, [inst], lanes)
        self.wide = bits.element_type.bits == 64

    def build(self) -> KernelSpec:
        """Writes the kernel."""
        em = self.em
        pointer = em.frame.operands[0]
        self.state = [em.b.load(em.b.gep(pointer, i, "i64"), "i64") for i in range(self.words)]
        self.key = self._halves(self.state[0])
        out = Leaf(em.frame.outputs[-1], self.bits)
        nest = Nest(em)
        if self.bits.num_elements:
            nest.write([Piece(self.bits, lambda index: store(em, out, index, self._element(index)))])
        if self.inst.shape.is_tuple:
            self._advance()
        units = nest.units if self.bits.num_elements else 1
        count = self.bits.num_elements
        return em.frame.spec(signature(self.inst), units, grain=nest.grain, flops=80 * count, size=self.bits.num_bytes)

    def _halves(self, x: Val) -> Words:
        b = self.em.b
        return b.cast("trunc", x, "i32"), b.cast("trunc", b.lshr(x, 32), "i32")

    def _join(self, low: Val, high: Val) -> Val:
        b = self.em.b
        return b.or_(b.cast("zext", low, "i64"), b.shl(b.cast("zext", high, "i64"), 32))

    def _element(self, index: Index) -> Value:
        word = self._threefry(index) if self.threefry else self._philox(index)
        et, b = self.bits.element_type, self.em.b
        register = register_type(et)
        integer = register if register[0] == "i" else f"i{et.bits}"
        if et.bits < 8:
            word = b.and_(word, (1 << et.bits) - 1)
        return wrap(b, et, b.bitcast(b.int_cast(word, integer, signed=False), register))

    def _counter(self, block: Ix) -> Val:
        """A block number as i64, one a lane (or one)."""
        em = self.em
        value = em.m.scalar(block) if block.is_uniform else em.m.vector(block)
        return em.b.int_cast(value, "i64", signed=False)

    def _spread(self, x: Val, lanes: int) -> Val:
        return self.em.b.splat(x, lanes)

    # -- Threefry --------------------------------------------------------------------------------------------------

    def _threefry(self, index: Index) -> Val:
        em, b, dims = self.em, self.em.b, self.bits.dims
        comps = list(em.comps(index))
        if self.wide:
            x0, x1 = self._threefry_block(em.m.offset(comps, row_major(dims)))
            return self._join(x0, x1)
        if not dims:
            return self._threefry_block(number(0))[0]
        axis, half = split_dimension(dims)
        comps[axis], which = em.m.divmod(comps[axis], 2)
        x0, x1 = self._threefry_block(em.m.offset(comps, row_major(half)))
        second = which.const
        if second is not None:
            return x1 if second else x0
        pick = em.m.compare("eq", which, 0)
        assert isinstance(pick, Val)
        lanes = max(x0.lanes, pick.lanes)
        return b.select(b.splat(pick, lanes), b.splat(x0, lanes), b.splat(x1, lanes))

    def _threefry_block(self, block: Ix) -> Words:
        b = self.em.b
        counter = b.add(self._counter(block), self.state[1])
        x0, x1 = self._halves(counter)
        k0, k1 = (self._spread(k, x0.lanes) for k in self.key)
        keys = (k0, k1, b.xor(b.xor(k0, k1), _PARITY))
        x0, x1 = b.add(x0, keys[0]), b.add(x1, keys[1])
        for group in range(5):
            for r in _ROTATIONS[group % 2]:
                x0 = b.add(x0, x1)
                x1 = b.xor(self._rotate(x1, r), x0)
            x0 = b.add(x0, keys[(group + 1) % 3])
            x1 = b.add(b.add(x1, keys[(group + 2) % 3]), group + 1)
        return x0, x1

    def _rotate(self, x: Val, r: int) -> Val:
        return self.em.b.same("fshl", x, x, constant(r, "i32", x.lanes))

    # -- Philox ----------------------------------------------------------------------------------------------------

    def _philox(self, index: Index) -> Val:
        em, b = self.em, self.em.b
        per_block = 2 if self.wide else 4
        linear = em.m.offset(em.comps(index), row_major(self.bits.dims))
        block, which = em.m.divmod(linear, per_block)
        words = self._philox_block(block)
        if self.wide:
            words = [self._join(words[0], words[1]), self._join(words[2], words[3])]
        if which.const is not None:
            return words[which.const]
        out = words[-1]
        for k in range(per_block - 1):
            pick = em.m.compare("eq", which, k)
            assert isinstance(pick, Val)
            lanes = max(out.lanes, pick.lanes)
            out = b.select(b.splat(pick, lanes), b.splat(words[k], lanes), b.splat(out, lanes))
        return out

    def _philox_block(self, block: Ix) -> list[Val]:
        b = self.em.b
        low = b.add(self._counter(block), self.state[1])
        # In a two-word state the key is the counter's high word as well.
        start_high = self.state[2] if self.words == 3 else self.state[0]
        carry = b.icmp("ult", low, self._spread(self.state[1], low.lanes))
        high = b.add(b.cast("zext", carry, "i64"), self._spread(start_high, low.lanes))
        (x0, x1), (x2, x3) = self._halves(low), self._halves(high)
        k0, k1 = (self._spread(k, x0.lanes) for k in self.key)
        for _ in range(10):
            low0, high0 = self._multiply(x0, _MULTIPLIERS[0])
            low1, high1 = self._multiply(x2, _MULTIPLIERS[1])
            x0, x1, x2, x3 = b.xor(b.xor(high1, x1), k0), low1, b.xor(b.xor(high0, x3), k1), low0
            k0, k1 = b.add(k0, _WEYL[0]), b.add(k1, _WEYL[1])
        return [x0, x1, x2, x3]

    def _multiply(self, x: Val, c: int) -> Words:
        """(low, high) halves of a 32 by 32 bit product."""
        b = self.em.b
        return self._halves(b.mul(b.cast("zext", x, "i64"), c))

    # -- the state -------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Writes the state with its counter moved past what was drawn. Every launch part may do so: it is the same."""
        b, pointer = self.em.b, self.em.frame.outputs[0]
        new = [self.state[0], b.add(self.state[1], self.blocks)]
        if self.words == 3:
            carry = b.icmp("ult", new[1], self.state[1])
            new.append(b.add(self.state[2], b.cast("zext", carry, "i64")))
        for i, word in enumerate(new):
            b.store(word, b.gep(pointer, i, "i64"))

    @property
    def blocks(self) -> int:
        """Counter values that the whole result uses."""
        count = self.bits.num_elements
        if not self.threefry:
            return -(-count // (2 if self.wide else 4))
        return count if self.wide or not self.bits.dims else prod(split_dimension(self.bits.dims)[1])


def split_dimension(dims: Sequence[int]) -> tuple[int, list[int]]:
    """Threefry's two words interleave along one dimension, the first even one, else the largest: (it, halved dims)."""
    even = [i for i, d in enumerate(dims) if d % 2 == 0]
    axis = even[0] if even else max(range(len(dims)), key=lambda i: (dims[i], -i))
    return axis, [-(-d // 2) if i == axis else d for i, d in enumerate(dims)]
