"""rng in terms of rng-bit-generator."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.attr_types import RandomAlgorithm, RandomDistribution
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Expander, Val, expand
from xyla.passmgr.base import register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import F32, F64, PRED, S64, U32, U64, ElementType
from xyla.support.status import unimplemented


@register
@dataclass(frozen=True, slots=True)
class RngExpander(Expander):
    """Draws `rng` from Philox bits whose counter is the program's random state.

    Each rng has its own key (from its name); the state moves on by what was used each time it runs. Uniform floats have
    as many random bits as their mantissa, normal ones come from the Box-Muller transform. Another stream than the
    evaluator's, as XLA leaves it open which.

        ROOT r = f32[8] rng(a, b), distribution=rng_uniform
          ==>  s = u64[2] rng-get-and-update-state(), delta=2
               bits = u32[8] rng-bit-generator(key, s); ROOT r = a + (b - a) * (bits as [0,1))
    """

    name: ClassVar[str] = "rng-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.RNG: expand_rng}

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Each rng once; then what reads the state in a computation, itself or by a call, is put in one order."""
        changed = expand(module, ctx, self.rules())
        if changed:
            reading: set[Computation] = set()
            for comp in module.computation_post_order():
                if _in_order(comp, reading):
                    reading.add(comp)
        return changed


def _in_order(comp: Computation, reading: set[Computation]) -> bool:
    """Makes every read of the random state wait for the one before: which draws get which bits is then settled.

    reading: the computations that read the state, callees first. Returns whether `comp` is one.
    """
    reads = [i for i in comp.post_order() if i.op is ops.RNG_GET_AND_UPDATE_STATE or not reading.isdisjoint(i.called)]
    for first, then in pairwise(reads):
        rewriter.add_control_dependency(first, then)
    return bool(reads)


def expand_rng(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """rng(a, b) = distribution(a, b, bits(state))."""
    et, dims = inst.shape.element_type, inst.shape.dims
    if et.is_complex or inst.shape.is_dynamic or (et is not PRED and not et.is_integer and not et.is_float):
        raise unimplemented(f"rng-expander: rng of {inst.shape}", span=inst.span)
    normal = inst.attrs.distribution is RandomDistribution.NORMAL
    if normal and not et.is_float:
        raise unimplemented(f"rng-expander: a normal distribution of {et}", span=inst.span)
    rw.permit()
    b = Builder(rw)
    low, high = b.vals(inst.operands[:2])
    if normal:
        return _normal(b, inst, low, high).inst
    if et is PRED:
        return _bits(b, inst, dims, U32).lt(1 << 31).inst
    return (_uniform if et.is_float else _uniform_integer)(b, inst, low, high).inst


def _bits(b: Builder, inst: Instruction, dims: tuple[int, ...], et: ElementType) -> Val:
    """Random u32 or u64 words; the state advances by the counters that they take."""
    blocks = -(-math.prod(dims) * et.bits // 128)
    state = b.apply(ops.RNG_GET_AND_UPDATE_STATE, attrs=ops.DeltaAttrs(blocks), shape=Shape.array(U64, (2,)))
    key = b.array([zlib.crc32(inst.name.encode())], U64)
    attrs = ops.RngBitGeneratorAttrs(RandomAlgorithm.PHILOX)
    shape = Shape.tuple_of([Shape.array(U64, (3,)), Shape.array(et, dims)])
    return b.apply(ops.RNG_BIT_GENERATOR, b.concat([key, state], 0), attrs=attrs, shape=shape).element(1)


def _unit(b: Builder, inst: Instruction, dims: tuple[int, ...], et: ElementType) -> Val:
    """Floats in [0, 1): random mantissa bits under the exponent of one, less one."""
    word, drop, one = (U64, 12, 0x3FF0000000000000) if et is F64 else (U32, 9, 0x3F800000)
    return ((_bits(b, inst, dims, word) >> drop) | one).bitcast(et) - 1.0


def _uniform(b: Builder, inst: Instruction, low: Val, high: Val) -> Val:
    et, dims = inst.shape.element_type, inst.shape.dims
    wide = F64 if et is F64 else F32
    first, last = low.convert(wide), high.convert(wide)
    drawn = (_unit(b, inst, dims, wide) * (last - first) + first).convert(et)
    # Rounding may reach the open end of the interval.
    return b.select(drawn.ge(high), low, drawn)


def _uniform_integer(b: Builder, inst: Instruction, low: Val, high: Val) -> Val:
    """The remainder of 64 bits by the range: its bias is below range / 2^64."""
    et, dims = inst.shape.element_type, inst.shape.dims
    wide = S64 if et.is_signed else U64
    span = (high.convert(wide) - low.convert(wide)).bitcast(U64)
    drawn = (_bits(b, inst, dims, U64) % span).bitcast(wide)
    return (drawn + low.convert(wide)).convert(et)


def _normal(b: Builder, inst: Instruction, mean: Val, deviation: Val) -> Val:
    """mean + deviation * sqrt(-2 log(1 - u)) * cos(2 pi v)."""
    et, dims = inst.shape.element_type, inst.shape.dims
    wide = F64 if et is F64 else F32
    pair = _unit(b, inst, (2, *dims), wide)
    u, v = (pair.slice_dim(0, i, i + 1).reshape(*dims) for i in range(2))
    radius = b.unary(ops.SQRT, b.unary(ops.LOG1P, -u) * -2.0)
    drawn = radius * b.unary(ops.COSINE, v * (2 * math.pi))
    return (drawn * deviation.convert(wide) + mean.convert(wide)).convert(et)
