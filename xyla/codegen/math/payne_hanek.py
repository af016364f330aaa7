"""Reduction of large arguments modulo pi/2 (Payne and Hanek, 1983): x * 2/pi with as many bits of 2/pi as x needs.

A scalar helper in integer arithmetic, called a lane at a time: large arguments are rare, and correctness up to the
largest number matters more than their speed.
"""

from __future__ import annotations

from collections.abc import Sequence

from xyla.codegen.llvm import Builder, Param, Val, Value, constant, llvm_type
from xyla.codegen.llvm.values import mangle
from xyla.codegen.math.formats import two_sum_fast

# 2/pi, the 1,216 bits after the binary point.
_TWO_OVER_PI = (
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921cfe1deb1cb129a73ee882"
    "35f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f66"
    "9e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6bab"
)
_TABLE = "@xyla.two_over_pi"
_HELPER = "xyla.rem_pio2"
_RESULT = "{ i64, double, double }"
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)


def reduce_large(b: Builder, x: Val) -> tuple[Val, Val, Val]:
    """(n, r, r_low) with x = n pi/2 + r + r_low (n modulo 4), for finite x of any size. n has the width of x."""
    lanes = x.lanes
    result = f"{{ {llvm_type(_int_type(x), lanes)}, {x.type}, {x.type} }}"
    name = f"xyla.reduce_pio2.{mangle(x.ty, lanes)}"
    b.needs.helper(name, [Param(x.type, "x")], result, lambda h: _emit_vector(h, Val("%x", x.ty, lanes), result))
    out = b.emit(f"call {result} @{name}({x.typed})", result)
    return (
        b.emit(f"extractvalue {out.typed}, 0", _int_type(x), lanes),
        b.emit(f"extractvalue {out.typed}, 1", x.ty, lanes),
        b.emit(f"extractvalue {out.typed}, 2", x.ty, lanes),
    )


def _int_type(x: Val) -> str:
    return "i32" if x.ty == "float" else "i64"


def _emit_vector(h: Builder, x: Val, result: str) -> None:
    """The scalar helper for each lane; f32 splits its f64 result."""
    _declare(h)
    wide = h.fp_cast(x, "double")
    if x.lanes == 1:
        n, r, low = _call(h, wide)
    else:
        zero_n, zero = constant(0, "i64", x.lanes), constant(0.0, "double", x.lanes)
        with h.loop(0, x.lanes, carry=[zero_n, zero, zero]) as lp:
            one = _call(h, h.extract(wide, lp.i))
            lp.next(*(h.insert(v, s, lp.i) for v, s in zip(_vals(lp.carried), one, strict=True)))
        n, r, low = _vals(lp.results)
    n = h.int_cast(n, _int_type(x), signed=True)
    if x.ty == "float":
        single = h.cast("fptrunc", r, "float")
        rest = h.fadd(h.fsub(r, h.cast("fpext", single, "double")), low)
        r, low = single, h.cast("fptrunc", rest, "float")
    _return_three(h, result, n, r, low)


def _return_three(h: Builder, result: str, *parts: Val) -> None:
    value = Val("poison", result)
    for k, part in enumerate(parts):
        value = h.emit(f"insertvalue {value.typed}, {part.typed}, {k}", result)
    h.ret(value)


def _vals(values: Sequence[Value]) -> list[Val]:
    return [v for v in values if isinstance(v, Val)]


def _call(b: Builder, x: Val) -> tuple[Val, Val, Val]:
    out = b.emit(f"call {_RESULT} @{_HELPER}({x.typed})", _RESULT)
    return (
        b.emit(f"extractvalue {out.typed}, 0", "i64"),
        b.emit(f"extractvalue {out.typed}, 1", "double"),
        b.emit(f"extractvalue {out.typed}, 2", "double"),
    )


def _declare(b: Builder) -> None:
    # One zero word in front, so that exponents below 64 need no case of their own.
    words = [0] + [int(_TWO_OVER_PI[i : i + 16], 16) for i in range(0, len(_TWO_OVER_PI), 16)]
    body = ", ".join(f"i64 {w}" for w in words)
    b.needs.declare(f"{_TABLE} = private unnamed_addr constant [{len(words)} x i64] [{body}]")
    b.needs.helper(_HELPER, [Param("double", "x")], _RESULT, _emit_helper)


def _emit_helper(h: Builder) -> None:
    x = Val("%x", "double")
    bits = h.bitcast(x, "i64")
    mantissa = h.or_(h.and_(bits, (1 << 52) - 1), 1 << 52)
    exponent = h.sub(h.and_(h.lshr(bits, 52), 0x7FF), 1075)
    # Bits of 2/pi that weigh 4 or more after scaling by 2^exponent only add multiples of 2 pi: start below them.
    first = h.smax(h.add(exponent, 62), 0)
    fraction = _fraction_words(h, mantissa, first)
    high, low = fraction
    n = h.lshr(h.add(high, 1 << 61), 62)
    centred = h.sub(_join(h, high, low), h.shl(h.cast("zext", n, "i128"), 126))
    negative = h.icmp("slt", centred, 0)
    magnitude = h.select(negative, h.sub(0, centred), centred)
    r, rest = _times_half_pi(h, magnitude)
    flip = h.xor(negative, h.icmp("slt", bits, 0))
    r, rest = h.select(flip, h.fneg(r), r), h.select(flip, h.fneg(rest), rest)
    n = h.select(h.icmp("slt", bits, 0), h.sub(0, n), n)
    _return_three(h, _RESULT, n, r, rest)


def _fraction_words(h: Builder, mantissa: Val, first: Val) -> tuple[Val, Val]:
    """The top 128 bits of mantissa * 2^exponent * 2/pi modulo 4, as two words (2 integer bits, 126 of fraction)."""
    word, shift = h.lshr(first, 6), h.and_(first, 63)
    table = Val(_TABLE, "ptr")
    raw = [h.load(h.gep(table, h.add(word, k), "i64"), "i64") for k in range(4)]
    w0, w1, w2 = (h.same("fshl", raw[k], raw[k + 1], shift) for k in range(3))
    p1, p2 = (h.mul(h.cast("zext", mantissa, "i128"), h.cast("zext", w, "i128")) for w in (w1, w2))
    t = h.add(p1, h.lshr(p2, 64))
    top = h.add(h.mul(mantissa, w0), h.cast("trunc", h.lshr(t, 64), "i64"))
    return top, h.cast("trunc", t, "i64")


def _join(h: Builder, high: Val, low: Val) -> Val:
    return h.or_(h.shl(h.cast("zext", high, "i128"), 64), h.cast("zext", low, "i128"))


def _times_half_pi(h: Builder, magnitude: Val) -> tuple[Val, Val]:
    """magnitude * 2^-126 * pi/2 as a double and its rest."""
    zeros = h.intrinsic("ctlz", [magnitude, h.flag(False)], "i128")
    zeros = h.smin(zeros, 127)
    scaled = h.shl(magnitude, zeros)
    top = h.cast("trunc", h.lshr(scaled, 64), "i64")
    bottom = h.cast("trunc", scaled, "i64")
    head = h.cast("uitofp", h.and_(top, -2048), "double")
    tail = h.fadd(
        h.cast("uitofp", h.and_(top, 2047), "double"),
        h.fmul(h.cast("uitofp", bottom, "double"), 2.0**-64),
    )
    weight = h.bitcast(h.shl(h.sub(1023 - 62, h.cast("trunc", zeros, "i64")), 52), "double")
    head, tail = h.fmul(head, weight), h.fmul(tail, weight)
    high, low = _HALF_PI
    product = h.fmul(head, high)
    error = h.fma(head, high, h.fneg(product))
    error = h.fma(head, low, h.fma(tail, high, error))
    return two_sum_fast(h, product, error)
