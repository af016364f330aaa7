"""chlo operations as HLO compositions: `CHLO` maps an operation's name to its rule.

Operations that HLO has an opcode for become that opcode. Source: the chlo dialect's operation descriptions.
"""

from __future__ import annotations

from collections.abc import Callable

from xyla.formats.mlir.ir import Operation
from xyla.formats.stablehlo import chlo_broadcast
from xyla.formats.stablehlo.body import Body, Result, Rule, arity
from xyla.formats.stablehlo.chlo_math import Num
from xyla.formats.stablehlo.chlo_special import (
    bessel_i1e,
    digamma,
    erf_inv,
    erfc,
    lgamma,
    next_after,
    polygamma,
    zeta,
)
from xyla.hlo import ops
from xyla.support.dtypes import F32, S64, by_name
from xyla.support.status import unimplemented

UNARY = {
    "acos": ops.ACOS,
    "acosh": ops.ACOSH,
    "asin": ops.ASIN,
    "asinh": ops.ASINH,
    "atanh": ops.ATANH,
    "cosh": ops.COSH,
    "erf": ops.ERF,
    "sinh": ops.SINH,
    "tan": ops.TAN,
}


def _formula(count: int, formula: Callable[..., Num]) -> Rule:
    """A rule that applies a formula to `count` operands of the result's type."""

    def rule(body: Body, op: Operation) -> Result:
        arity(op, count)
        operands = body.operands(op)
        if operands[0].shape.element_type.is_complex and formula not in _COMPLEX:
            raise unimplemented(f"{op.name} of a complex number")
        return formula(*(Num(body, o) for o in operands)).to(body.result(op).element_type).inst

    return rule


def _square(x: Num) -> Num:
    """x * x; for complex x = a + ib: (a-b)(a+b) + 2ab i, which neither cancels nor overflows before its value does."""
    if not x.shape.element_type.is_complex:
        return x * x
    re, im = real_part(x), imaginary_part(x)
    # Equal finite magnitudes square to a pure imaginary number, also where a + b overflows.
    same = re.unary(ops.ABS).equals(im.unary(ops.ABS)) & re.unary(ops.IS_FINITE)
    real = same.select(0.0, (re - im) * (re + im))
    return make_complex(real, re * im * 2.0)


def _atan(x: Num) -> Num:
    """atan2(x, 1); complex: -i atanh(i x)."""
    if not x.shape.element_type.is_complex:
        return x.binary(ops.ATAN2, 1.0)
    rotated = make_complex(-imaginary_part(x), real_part(x)).unary(ops.ATANH)
    return make_complex(imaginary_part(rotated), -real_part(rotated))


def _conj(x: Num) -> Num:
    if not x.shape.element_type.is_complex:
        return x
    return make_complex(real_part(x), -imaginary_part(x))


def real_part(x: Num) -> Num:
    """Real parts of a complex array."""
    shape = x.shape.without_layout().with_type(x.shape.element_type.component)
    return Num(x.body, x.body.add(ops.REAL, [x.inst], shape=shape))


def imaginary_part(x: Num) -> Num:
    """Imaginary parts of a complex array."""
    shape = x.shape.without_layout().with_type(x.shape.element_type.component)
    return Num(x.body, x.body.add(ops.IMAG, [x.inst], shape=shape))


def make_complex(re: Num, im: Num) -> Num:
    """A complex array of its parts."""
    kind = by_name("c64" if re.shape.element_type is F32 else "c128")
    shape = re.shape.without_layout().with_type(kind)
    return Num(re.body, re.body.add(ops.COMPLEX, [re.inst, im.inst], shape=shape))


def _is_inf(x: Num) -> Num:
    return x.unary(ops.ABS).equals(float("inf"))


def _is_pos_inf(x: Num) -> Num:
    return x.equals(float("inf"))


def _is_neg_inf(x: Num) -> Num:
    return x.equals(float("-inf"))


def _mulhi(x: Num, y: Num) -> Num:
    """The high half of the double-width product of two integers."""
    et = x.shape.element_type
    if et.bits < 64:
        wide = by_name(f"{'s' if et.is_signed else 'u'}{max(2 * et.bits, 16)}")
        shift = ops.SHIFT_RIGHT_ARITHMETIC if et.is_signed else ops.SHIFT_RIGHT_LOGICAL
        return (x.to(wide) * y.to(wide)).binary(shift, et.bits).to(et)
    # Schoolbook on 32-bit halves; the high half may be signed, the low one never is.
    low_x, high_x, low_y, high_y = _low_32(x), _high_32(x), _low_32(y), _high_32(y)
    carry = (low_x * low_y).binary(ops.SHIFT_RIGHT_LOGICAL, 32)
    middle = high_x * low_y + carry
    cross = low_x * high_y + _low_32(middle)
    return high_x * high_y + _high_32(middle) + _high_32(cross)


def _low_32(x: Num) -> Num:
    return x & 0xFFFFFFFF


def _high_32(x: Num) -> Num:
    signed = x.shape.element_type is S64
    return x.binary(ops.SHIFT_RIGHT_ARITHMETIC if signed else ops.SHIFT_RIGHT_LOGICAL, 32)


def _constant_like(body: Body, op: Operation) -> Result:
    """The attribute's value in every element of the operand's shape."""
    arity(op, 1)
    value = getattr(op.get("value"), "value", None)
    if value is None:
        raise unimplemented(f"{op.name} with the value {op.get('value')}")
    return body.splat(value, body.result(op))


def _constant(body: Body, op: Operation) -> Result:
    return body.converter.constant(body, op)


_COMPLEX = {_square, _atan, _conj}
_FORMULAS: dict[str, tuple[int, Callable[..., Num]]] = {
    "bessel_i1e": (1, bessel_i1e),
    "digamma": (1, digamma),
    "erf_inv": (1, erf_inv),
    "erfc": (1, erfc),
    "is_inf": (1, _is_inf),
    "is_neg_inf": (1, _is_neg_inf),
    "is_pos_inf": (1, _is_pos_inf),
    "lgamma": (1, lgamma),
    "mulhi": (2, _mulhi),
    "next_after": (2, next_after),
    "polygamma": (2, polygamma),
    "zeta": (2, zeta),
    "square": (1, _square),
    "atan": (1, _atan),
    "conj": (1, _conj),
}


def _opcode(name: str) -> Rule:
    def rule(body: Body, op: Operation) -> Result:
        arity(op, 1)
        return body.add(UNARY[name], body.operands(op), ops.UnaryMathAttrs(), shape=body.result(op))

    return rule


CHLO: dict[str, Rule] = {
    **{f"chlo.{name}": _opcode(name) for name in UNARY},
    **{f"chlo.{name}": _formula(count, formula) for name, (count, formula) in _FORMULAS.items()},
    "chlo.constant": _constant,
    "chlo.constant_like": _constant_like,
    **chlo_broadcast.RULES,
}
