"""Index arithmetic for kernels: values that know how they change from lane to lane.

A component (`Ix`) is affine in the lane (`base + step*lane`; step 0 is uniform, step 1 contiguous) or an arbitrary
vector. It also knows an interval and a divisor of its base, so that most divisions, clamps and bounds checks of
index maps fold while the text is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from xyla.codegen.llvm import Builder, Operand, Val, constant

_UNKNOWN = 1 << 62


class Ix:
    """One index component.

    Affine: `base` (an int or a scalar i64) is lane 0's value and `step` the difference between lanes. Otherwise `vec`
    holds one value a lane. `lo`, `hi`: inclusive bounds of the values in active lanes. `align`: divides `base`.
    """

    __slots__ = ("align", "base", "hi", "key", "lo", "step", "vec")

    def __init__(self, base: int | Val, step: int = 0, lo: int = -_UNKNOWN, hi: int = _UNKNOWN, align: int = 1) -> None:
        self.base = base
        self.step = step
        self.vec: Val | None = None
        self.lo = lo
        self.hi = hi
        self.align = align
        self.key = f"{base if isinstance(base, int) else base.text}+{step}"

    @staticmethod
    def of_vector(vec: Val, lo: int = -_UNKNOWN, hi: int = _UNKNOWN) -> Ix:
        """An arbitrary vector of lane values."""
        out = Ix(0, 0, lo, hi)
        out.vec = vec
        out.key = vec.text
        return out

    @property
    def is_uniform(self) -> bool:
        """Whether every lane has the same value."""
        return self.vec is None and self.step == 0

    @property
    def const(self) -> int | None:
        """The value, when it is one number known now."""
        return self.base if self.vec is None and self.step == 0 and isinstance(self.base, int) else None


ZERO = Ix(0, 0, 0, 0, 0)


def number(n: int) -> Ix:
    """A constant component."""
    return Ix(n, 0, n, n, abs(n))


class IndexMath:
    """Writes index arithmetic. `lanes` is the kernel's vector length, `ity` the integer type of per-lane indices."""

    def __init__(self, b: Builder, lanes: int, ity: str) -> None:
        self.b = b
        self.lanes = lanes
        self.ity = ity
        self._known: dict[tuple[str, str, str], tuple[str, Val]] = {}

    # -- scalar helpers, each written once a block -----------------------------------------------------------------

    def _binary(self, op: str, x: Val, y: Operand) -> Val:
        key = (op, x.text, y.text if isinstance(y, Val) else str(y))
        known = self._known.get(key)
        if known is not None and known[0] == self.b.block_name:
            return known[1]
        out = self.b.binary(op, x, y)
        self._known[key] = (self.b.block_name, out)
        return out

    def _plus(self, x: int | Val, y: int | Val) -> int | Val:
        if isinstance(x, int):
            if isinstance(y, int):
                return x + y
            x, y = y, x
        if isinstance(y, int) and y == 0:
            return x
        return self._binary("add", x, y)

    def _times(self, x: int | Val, c: int) -> int | Val:
        if isinstance(x, int):
            return x * c
        return x if c == 1 else self._binary("mul", x, c)

    # -- components ------------------------------------------------------------------------------------------------

    def value(self, base: Val, lo: int, hi: int, align: int = 1) -> Ix:
        """A uniform component held in a scalar i64."""
        return Ix(base, 0, lo, hi, align)

    def lane(self, x: Ix, step: int = 1) -> Ix:
        """x + step*lane, for a component that counts along the vectorised dimension; `x.hi` already covers it."""
        if self.lanes == 1:
            return x
        return Ix(x.base, step, x.lo, x.hi, x.align)

    def vector(self, x: Ix) -> Val:
        """One value a lane."""
        if x.vec is not None:
            return x.vec
        if isinstance(x.base, int):
            if x.step == 0:
                return constant(x.base, self.ity, self.lanes)
            return self.b.iota(self.ity, self.lanes, x.base, x.step)
        key = ("vector", x.base.text, str(x.step))
        known = self._known.get(key)
        if known is not None and known[0] == self.b.block_name:
            return known[1]
        scalar = self.b.int_cast(x.base, self.ity, signed=True)
        out = self.b.splat(scalar, self.lanes)
        if x.step and self.lanes > 1:
            out = self.b.add(out, self.b.iota(self.ity, self.lanes, 0, x.step))
        self._known[key] = (self.b.block_name, out)
        return out

    def add(self, x: Ix, y: Ix | int) -> Ix:
        """x + y."""
        if isinstance(y, int):
            y = number(y)
        lo, hi = x.lo + y.lo, x.hi + y.hi
        if x.vec is None and y.vec is None:
            return Ix(self._plus(x.base, y.base), x.step + y.step, lo, hi, gcd(x.align, y.align))
        if y.const == 0:
            return x
        if x.const == 0:
            return y
        return Ix.of_vector(self._binary("add", self.vector(x), self.vector(y)), lo, hi)

    def sum(self, parts: Sequence[Ix]) -> Ix:
        """The sum; uniform parts are added first, so that one vector addition is enough."""
        total, vectors = ZERO, []
        for p in parts:
            if p.vec is None:
                total = self.add(total, p)
            else:
                vectors.append(p)
        for v in vectors:
            total = self.add(v, total)
        return total

    def mul(self, x: Ix, c: int) -> Ix:
        """x * c."""
        if c == 1:
            return x
        lo, hi = sorted((x.lo * c, x.hi * c))
        if x.vec is None:
            return Ix(self._times(x.base, c), x.step * c, lo, hi, x.align * abs(c))
        return Ix.of_vector(self._binary("mul", x.vec, c), lo, hi)

    def rsub(self, c: int, x: Ix) -> Ix:
        """c - x."""
        lo, hi = c - x.hi, c - x.lo
        if x.vec is not None:
            return Ix.of_vector(self.b.sub(constant(c, self.ity, self.lanes), x.vec), lo, hi)
        base = c - x.base if isinstance(x.base, int) else self.b.sub(constant(c, "i64"), x.base)
        return Ix(base, -x.step, lo, hi, gcd(x.align, abs(c)))

    def divmod(self, x: Ix, c: int) -> tuple[Ix, Ix]:
        """(x / c, x % c) for c >= 1, rounding toward zero (x is meant to be non-negative where it counts)."""
        if c == 1:
            return x, ZERO
        if x.lo >= 0 and x.hi < c:
            return ZERO, x
        qlo, qhi = (x.lo // c if x.lo >= 0 else -_UNKNOWN), max(x.hi // c, 0)
        rhi = min(c - 1, x.hi) if x.lo >= 0 else c - 1
        rlo = 0 if x.lo >= 0 else 1 - c
        if x.vec is None and x.lo >= 0:
            quot, rem, qalign = self._divide_base(x.base, c, x.align)
            ralign = gcd(x.align, c)
            span = x.step * (self.lanes - 1)
            if 0 <= span < ralign or x.step == 0:
                return Ix(quot, 0, qlo, qhi, qalign), Ix(rem, x.step, 0, rhi, ralign)
            if x.step % c == 0:
                return Ix(quot, x.step // c, qlo, qhi, qalign), Ix(rem, 0, 0, rhi, ralign)
        if x.is_uniform:
            return self._divmod_signed(x, c, qlo, qhi, rlo, rhi)
        vec = self.vector(x)
        kind = "u" if x.lo >= 0 else "s"
        quotient = self._binary(kind + "div", vec, c)
        remainder = self.b.sub(vec, self.b.mul(quotient, c))
        return Ix.of_vector(quotient, qlo, qhi), Ix.of_vector(remainder, rlo, rhi)

    def _divide_base(self, base: int | Val, c: int, align: int) -> tuple[int | Val, int | Val, int]:
        if isinstance(base, int):
            return base // c, base % c, abs(base // c)
        quot = self._binary("udiv", base, c)
        rem: int | Val = 0 if align % c == 0 and align else self._binary("urem", base, c)
        return quot, rem, align // c if align % c == 0 else 1

    def _divmod_signed(self, x: Ix, c: int, qlo: int, qhi: int, rlo: int, rhi: int) -> tuple[Ix, Ix]:
        if isinstance(x.base, int):
            q = abs(x.base) // c * (1 if x.base >= 0 else -1)
            return number(q), number(x.base - q * c)
        quot, rem = self._binary("sdiv", x.base, c), self._binary("srem", x.base, c)
        return Ix(quot, 0, qlo, qhi), Ix(rem, 0, rlo, rhi)

    def clamp(self, x: Ix, lo: int, hi: int) -> Ix:
        """min(max(x, lo), hi), with what is known already left out."""
        if x.lo >= lo and x.hi <= hi:
            return x
        if x.const is not None:
            return number(min(max(x.const, lo), hi))
        if lo == hi:
            return number(lo)
        out: Val = self.scalar(x) if x.is_uniform else self.vector(x)
        if x.lo < lo:
            out = self.b.smax(out, lo)
        if x.hi > hi:
            out = self.b.smin(out, hi)
        return Ix(out, 0, lo, hi) if x.is_uniform else Ix.of_vector(out, lo, hi)

    def scalar(self, x: Ix) -> Val:
        """Lane 0's value as a scalar i64."""
        return x.base if isinstance(x.base, Val) else constant(x.base, "i64")

    # -- predicates: None means "always true" ----------------------------------------------------------------------

    def compare(self, pred: str, x: Ix, c: int) -> Val | bool:
        """x `pred` c for pred in slt, sge, eq. True or False when the interval decides."""
        if pred == "slt" and (x.hi < c or x.lo >= c):
            return x.hi < c
        if pred == "sge" and (x.lo >= c or x.hi < c):
            return x.lo >= c
        if pred == "eq" and x.lo == x.hi == c:
            return True
        if x.is_uniform:
            return self.b.icmp(pred, self.scalar(x), c)
        return self.b.icmp(pred, self.vector(x), c)

    def both(self, p: Val | bool | None, q: Val | bool | None) -> Val | bool | None:
        """p and q, where True and None hold always."""
        if p is None or p is True:
            return q
        if q is None or q is True:
            return p
        if p is False or q is False:
            return False
        if p.lanes != q.lanes:
            p, q = (self.b.splat(v, self.lanes) for v in (p, q))
        return self.b.and_(p, q)

    def offset(self, comps: Sequence[Ix], strides: Sequence[int]) -> Ix:
        """The sum of comps times strides: a position in a buffer, in elements."""
        return self.sum([self.mul(c, s) for c, s in zip(comps, strides, strict=True) if c.const != 0])


class Index:
    """A position in an array of `dims`: by component, by physical position under `strides`, or both.

    `comps` is None while only the physical position (`linear`) is known; `Emitter.comps` works it out on demand.
    """

    __slots__ = ("_key", "comps", "dims", "linear", "strides")

    def __init__(
        self,
        dims: tuple[int, ...],
        comps: tuple[Ix, ...] | None,
        linear: Ix | None = None,
        strides: tuple[int, ...] = (),
    ) -> None:
        self.dims = dims
        self.comps = comps
        self.linear = linear
        self.strides = strides
        self._key: str | None = None

    @property
    def key(self) -> str:
        """Text that is equal exactly for equal positions written the same way."""
        if self._key is None:
            if self.linear is not None:
                self._key = f"@{self.linear.key}/{self.strides}"
            else:
                assert self.comps is not None
                self._key = ",".join([c.key for c in self.comps])
        return self._key


SCALAR = Index((), ())


def delinearize(m: IndexMath, linear: Ix, dims: Sequence[int]) -> list[Ix]:
    """Splits a row-major position over `dims` (major first)."""
    out: list[Ix] = [ZERO] * len(dims)
    rest = linear
    for d in range(len(dims) - 1, -1, -1):
        if dims[d] == 1:
            continue
        if all(n == 1 for n in dims[:d]):
            out[d] = Ix(rest.base, rest.step, max(rest.lo, 0), min(rest.hi, dims[d] - 1), rest.align)
            if rest.vec is not None:
                out[d] = Ix.of_vector(rest.vec, max(rest.lo, 0), min(rest.hi, dims[d] - 1))
            break
        rest, out[d] = m.divmod(rest, dims[d])
    return out


def row_major(dims: Sequence[int]) -> list[int]:
    """Row-major strides."""
    out, step = [0] * len(dims), 1
    for d in range(len(dims) - 1, -1, -1):
        out[d] = step
        step *= max(dims[d], 1)
    return out


def reshape_components(m: IndexMath, comps: Sequence[Ix], dims: Sequence[int], want: Sequence[int]) -> list[Ix]:
    """Components over `want` of the element at `comps` over `dims`, both row-major with equal element counts.

    Dimensions are matched in groups of equal product, so that whatever does not change costs nothing.
    """
    out: list[Ix] = [ZERO] * len(want)
    i, j = 0, 0
    while i < len(dims) or j < len(want):
        i0, j0 = i, j
        p = q = 1
        if i < len(dims):
            p, i = dims[i], i + 1
        if j < len(want):
            q, j = want[j], j + 1
        while p != q:
            if p < q:
                p, i = p * dims[i], i + 1
            else:
                q, j = q * want[j], j + 1
        if j == j0 or p == 1:
            continue
        group = list(dims[i0:i])
        linear = m.offset(comps[i0:i], row_major(group))
        out[j0:j] = delinearize(m, linear, want[j0:j])
    return out
