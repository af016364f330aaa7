"""The two formats that functions are computed in, and the bit-level helpers every function needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xyla.codegen.llvm import Builder, Val, constant

INF = float("inf")
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Format:
    """An IEEE binary format. `bias` is of the exponent; `mantissa` counts stored bits."""

    ty: str
    int_ty: str
    bits: int
    mantissa: int
    bias: int

    @property
    def min_normal(self) -> float:
        """The smallest normal number."""
        return float(2.0 ** (1 - self.bias))

    @property
    def round_magic(self) -> float:
        """1.5 * 2^mantissa: adding it to a number leaves its nearest integer in the low bits."""
        return float(1.5 * 2.0**self.mantissa)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return float((2.0 - 2.0**-self.mantissa) * 2.0**self.bias)


SINGLE = Format("float", "i32", 32, 23, 127)
DOUBLE = Format("double", "i64", 64, 52, 1023)


def format_of(x: Val) -> Format:
    """The format of a value."""
    return SINGLE if x.ty == "float" else DOUBLE


def bits_of(b: Builder, x: Val) -> Val:
    """The bits as an integer of the same width."""
    return b.bitcast(x, format_of(x).int_ty)


def from_bits(b: Builder, x: Val) -> Val:
    """The float that integer bits stand for (i32 or i64)."""
    return b.bitcast(x, "float" if x.ty == "i32" else "double")


def horner(b: Builder, x: Val, coefficients: Sequence[float]) -> Val:
    """A polynomial, lowest coefficient first, as one chain of fused multiply-adds."""
    acc = constant(coefficients[-1], x.ty, x.lanes)
    for c in reversed(coefficients[:-1]):
        acc = b.fma(acc, x, c)
    return acc


def polynomial(b: Builder, x: Val, coefficients: Sequence[float]) -> Val:
    """A polynomial, lowest coefficient first. Long ones are two interleaved chains in x*x: half the latency."""
    if len(coefficients) < 7:
        return horner(b, x, coefficients)
    square = b.fmul(x, x)
    even, odd = horner(b, square, coefficients[0::2]), horner(b, square, coefficients[1::2])
    return b.fma(odd, x, even)


def power_of_two(b: Builder, n: Val, fmt: Format) -> Val:
    """2^n for an integer n in the normal exponent range."""
    return from_bits(b, b.shl(b.add(n, fmt.bias), fmt.mantissa))


def scale(b: Builder, x: Val, n: Val) -> Val:
    """x * 2^n for |n| up to twice the exponent range, rounded once (by the last multiplication)."""
    fmt = format_of(x)
    half = b.ashr(n, 1)
    return b.fmul(b.fmul(x, power_of_two(b, half, fmt)), power_of_two(b, b.sub(n, half), fmt))


def two_sum_fast(b: Builder, big: Val, small: Val) -> tuple[Val, Val]:
    """(sum, error) of two numbers, |big| >= |small| or big = 0."""
    total = b.fadd(big, small)
    return total, b.fsub(small, b.fsub(total, big))


def two_sum(b: Builder, x: Val, y: Val) -> tuple[Val, Val]:
    """(sum, error) of any two numbers (Knuth)."""
    total = b.fadd(x, y)
    back = b.fsub(total, x)
    return total, b.fadd(b.fsub(x, b.fsub(total, back)), b.fsub(y, back))


def two_product(b: Builder, x: Val, y: Val) -> tuple[Val, Val]:
    """(product, error)."""
    product = b.fmul(x, y)
    return product, b.fma(x, y, b.fneg(product))
