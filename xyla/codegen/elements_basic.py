"""Rules for arithmetic, ordering, selection, logic, rounding, conversion and bit casts."""

from __future__ import annotations

from xyla.codegen.elements_convert import compute_float, convert, float_to_int, from_compute
from xyla.codegen.elements_int import int_divide, int_power, int_remainder
from xyla.codegen.elements_smallfloat import FORMATS
from xyla.codegen.elements_table import ELEMENT, Site, by_kind, parts, reals
from xyla.codegen.elements_types import register_type, wrap
from xyla.codegen.llvm import Builder, Cx, Val, Value, constant
from xyla.codegen.llvm.values import INT_BITS
from xyla.codegen.math import complex_basic, real_basic
from xyla.codegen.math.power import power
from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection, ComparisonType
from xyla.support import dtypes
from xyla.support.dtypes import ElementType


@ELEMENT.rule(ops.COPY)
def copy(b: Builder, s: Site, x: Value) -> Value:
    """The element itself."""
    return x


@ELEMENT.rule(ops.ADD)
def add(b: Builder, s: Site, *args: Value) -> Value:
    """Sum; or for pred."""
    return by_kind(b, s, args, pred=Builder.or_, integer=Builder.add, real=Builder.fadd, cplx=complex_basic.add)


@ELEMENT.rule(ops.SUBTRACT)
def subtract(b: Builder, s: Site, *args: Value) -> Value:
    """Difference; exclusive or for pred."""
    return by_kind(b, s, args, pred=Builder.xor, integer=Builder.sub, real=Builder.fsub, cplx=complex_basic.subtract)


@ELEMENT.rule(ops.MULTIPLY)
def multiply(b: Builder, s: Site, *args: Value) -> Value:
    """Product; and for pred."""
    return by_kind(b, s, args, pred=Builder.and_, integer=Builder.mul, real=Builder.fmul, cplx=complex_basic.multiply)


@ELEMENT.rule(ops.DIVIDE)
def divide(b: Builder, s: Site, *args: Value) -> Value:
    """Quotient; integers truncate."""
    if s.et.is_integer:
        return int_divide(b, s.et, *reals(args))
    return by_kind(b, s, args, real=Builder.fdiv, cplx=complex_basic.divide)


@ELEMENT.rule(ops.REMAINDER)
def remainder(b: Builder, s: Site, *args: Value) -> Value:
    """Remainder with the sign of the dividend."""
    if s.et.is_integer:
        return int_remainder(b, s.et, *reals(args))
    return by_kind(b, s, args, real=real_basic.remainder)


@ELEMENT.rule(ops.POWER)
def power_rule(b: Builder, s: Site, *args: Value) -> Value:
    """x to the y."""
    if s.et.is_integer:
        return int_power(b, s.et, *reals(args))
    # 0 to the 0 is 1 as well, so a pred power is false only for 0 to the 1.
    return by_kind(b, s, args, pred=lambda b, x, y: b.or_(x, b.not_(y)), real=power, cplx=complex_basic.power)


@ELEMENT.rule(ops.MAXIMUM)
def maximum(b: Builder, s: Site, *args: Value) -> Value:
    """The larger; NaN if either is NaN; +0 is larger than -0. Complex numbers order by real, then imaginary part."""
    return by_kind(
        b,
        s,
        args,
        pred=Builder.or_,
        signed=Builder.smax,
        unsigned=Builder.umax,
        real=real_basic.maximum,
        cplx=complex_basic.maximum,
    )


@ELEMENT.rule(ops.MINIMUM)
def minimum(b: Builder, s: Site, *args: Value) -> Value:
    """The smaller; NaN if either is NaN."""
    return by_kind(
        b,
        s,
        args,
        pred=Builder.and_,
        signed=Builder.smin,
        unsigned=Builder.umin,
        real=real_basic.minimum,
        cplx=complex_basic.minimum,
    )


@ELEMENT.rule(ops.CLAMP)
def clamp(b: Builder, s: Site, low: Value, x: Value, high: Value) -> Value:
    """min(max(x, low), high)."""
    return minimum(b, s, maximum(b, s, x, low), high)


@ELEMENT.rule(ops.NEGATE)
def negate(b: Builder, s: Site, *args: Value) -> Value:
    """-x; flips the sign of zero and NaN too."""
    if s.et.is_float and s.et not in (dtypes.F8E8M0FNU, *_NO_MINUS_ZERO):
        x = reals(args)[0]
        return _flip_sign(b, s.et, x)
    return by_kind(b, s, args, integer=lambda b, x: b.sub(0, x), real=lambda b, x: b.fneg(x), cplx=complex_basic.negate)


_NO_MINUS_ZERO = (dtypes.F8E4M3FNUZ, dtypes.F8E4M3B11FNUZ, dtypes.F8E5M2FNUZ)


def _flip_sign(b: Builder, et: ElementType, x: Val) -> Val:
    if x.ty in INT_BITS:
        return b.xor(x, 1 << (et.bits - 1))
    return b.fneg(x)


@ELEMENT.rule(ops.ABS)
def absolute(b: Builder, s: Site, *args: Value) -> Value:
    """|x|; |INT_MIN| is INT_MIN; the modulus of a complex number, without undue overflow."""
    if s.et.is_float and s.et not in (dtypes.F8E8M0FNU, *_NO_MINUS_ZERO):
        x = reals(args)[0]
        return b.and_(x, (1 << (s.et.bits - 1)) - 1) if x.ty in INT_BITS else b.fabs(x)
    return by_kind(
        b,
        s,
        args,
        signed=lambda b, x: b.select(b.icmp("slt", x, 0), b.sub(0, x), x),
        unsigned=lambda b, x: x,
        real=lambda b, x: b.fabs(x),
        cplx=complex_basic.modulus,
    )


@ELEMENT.rule(ops.SIGN)
def sign(b: Builder, s: Site, *args: Value) -> Value:
    """-1, 0 or 1; zeros and NaN give themselves; z/|z| for complex."""

    def signed(b: Builder, x: Val) -> Val:
        return b.or_(b.ashr(x, INT_BITS[x.ty] - 1), b.cast("zext", b.icmp("ne", x, 0), x.ty))

    return by_kind(
        b,
        s,
        args,
        signed=signed,
        unsigned=lambda b, x: b.cast("zext", b.icmp("ne", x, 0), x.ty),
        real=real_basic.sign,
        cplx=complex_basic.sign,
    )


# --- logic ------------------------------------------------------------------------------------------------------------


def _bitwise(b: Builder, s: Site, args: tuple[Value, ...], fn: str) -> Value:
    if s.et is not dtypes.PRED and not s.et.is_integer:
        raise s.refuse()
    x, y = reals(args)
    return b.binary(fn, x, y)


@ELEMENT.rule(ops.AND)
def and_(b: Builder, s: Site, *args: Value) -> Value:
    """Bitwise and."""
    return _bitwise(b, s, args, "and")


@ELEMENT.rule(ops.OR)
def or_(b: Builder, s: Site, *args: Value) -> Value:
    """Bitwise or."""
    return _bitwise(b, s, args, "or")


@ELEMENT.rule(ops.XOR)
def xor(b: Builder, s: Site, *args: Value) -> Value:
    """Bitwise exclusive or."""
    return _bitwise(b, s, args, "xor")


@ELEMENT.rule(ops.NOT)
def not_(b: Builder, s: Site, *args: Value) -> Value:
    """Bitwise complement; negation for pred."""
    return by_kind(b, s, args, pred=Builder.not_, integer=Builder.not_)


# --- ordering and selection -------------------------------------------------------------------------------------------

_FLOAT_PREDICATE = {"EQ": "oeq", "NE": "une", "GE": "oge", "GT": "ogt", "LE": "ole", "LT": "olt"}
_INT_PREDICATE = {"EQ": "eq", "NE": "ne", "GE": "ge", "GT": "gt", "LE": "le", "LT": "lt"}


@ELEMENT.rule(ops.COMPARE)
def compare(b: Builder, s: Site, x: Value, y: Value) -> Value:
    """Compares; NaN is unordered unless the comparison is TOTALORDER."""
    direction: ComparisonDirection = s.attrs.direction
    return compare_elements(b, s, direction, s.attrs.type, x, y)


def compare_elements(
    b: Builder, s: Site, direction: ComparisonDirection, how: ComparisonType | None, x: Value, y: Value
) -> Val:
    """`compare` with its attributes given (also used for sort keys). Complex numbers have only EQ and NE."""
    et, word = s.et, direction.value
    if isinstance(x, Cx):
        right = parts(y)
        if word == "EQ":
            return b.and_(b.fcmp("oeq", x.re, right.re), b.fcmp("oeq", x.im, right.im))
        if word == "NE":
            return b.or_(b.fcmp("une", x.re, right.re), b.fcmp("une", x.im, right.im))
        raise s.refuse()
    (other,) = reals((y,))
    if et.is_float:
        if how is ComparisonType.TOTALORDER:
            return _ordered(b, word, True, total_order_key(b, et, x), total_order_key(b, et, other))
        left, right_ = compute_float(b, et, x), compute_float(b, et, other)
        return b.fcmp(_FLOAT_PREDICATE[word], left, right_)
    return _ordered(b, word, et.is_signed, x, other)


def total_order_key(b: Builder, et: ElementType, x: Val) -> Val:
    """A signed integer that orders as IEEE totalOrder does: -NaN < -inf < ... < -0 < +0 < ... < NaN."""
    bits = x if x.ty in INT_BITS else b.bitcast(x, f"i{et.bits}")
    if et.bits < 8:
        bits = b.ashr(b.shl(bits, 8 - et.bits), 8 - et.bits)
    width = INT_BITS[bits.ty]
    return b.xor(bits, b.lshr(b.ashr(bits, width - 1), 1))


def _ordered(b: Builder, word: str, signed: bool, x: Val, y: Val) -> Val:
    name = _INT_PREDICATE[word]
    return b.icmp(name if name in ("eq", "ne") else ("s" if signed else "u") + name, x, y)


@ELEMENT.rule(ops.SELECT)
def select(b: Builder, s: Site, chosen: Value, on_true: Value, on_false: Value) -> Value:
    """The second operand where the first (pred) holds, else the third."""
    (cond,) = reals((chosen,))
    if isinstance(on_true, Cx):
        other = parts(on_false)
        return Cx(b.select(cond, on_true.re, other.re), b.select(cond, on_true.im, other.im))
    (no,) = reals((on_false,))
    return b.select(cond, on_true, no)


# --- rounding and classification --------------------------------------------------------------------------------------


@ELEMENT.rule(ops.FLOOR)
def floor(b: Builder, s: Site, *args: Value) -> Value:
    """Rounds down."""
    return by_kind(b, s, args, real=lambda b, x: b.round_("floor", x))


@ELEMENT.rule(ops.CEIL)
def ceil(b: Builder, s: Site, *args: Value) -> Value:
    """Rounds up."""
    return by_kind(b, s, args, real=lambda b, x: b.round_("ceil", x))


@ELEMENT.rule(ops.ROUND_EVEN)
def round_even(b: Builder, s: Site, *args: Value) -> Value:
    """Rounds to the nearest integer, ties to even."""
    return by_kind(b, s, args, real=lambda b, x: b.round_("roundeven", x))


@ELEMENT.rule(ops.ROUND_AFZ)
def round_away(b: Builder, s: Site, *args: Value) -> Value:
    """Rounds to the nearest integer, ties away from zero."""
    return by_kind(b, s, args, real=lambda b, x: b.round_("round", x))


@ELEMENT.rule(ops.IS_FINITE)
def is_finite(b: Builder, s: Site, x: Value) -> Value:
    """Neither infinite nor NaN (pred)."""
    if not s.et.is_float:
        raise s.refuse()
    (value,) = reals((x,))
    return b.fcmp("olt", b.fabs(compute_float(b, s.et, value)), float("inf"))


@ELEMENT.rule(ops.REDUCE_PRECISION)
def reduce_precision(b: Builder, s: Site, x: Value) -> Value:
    """Rounds to a narrower exponent and mantissa, in the same type."""
    if not s.et.is_float:
        raise s.refuse()
    (value,) = reals((x,))
    exponent, mantissa = s.attrs.exponent_bits, s.attrs.mantissa_bits
    if s.et in real_basic.IEEE_LAYOUT:
        return real_basic.reduce_precision(b, s.et, value, exponent, mantissa)
    # Formats without infinities go through f32; their own exponent range is not reduced twice.
    own = FORMATS[s.et].exponent if s.et in FORMATS else 8
    wide = compute_float(b, s.et, value)
    wide = real_basic.reduce_precision(b, dtypes.F32, wide, 8 if exponent >= own else exponent, mantissa)
    return from_compute(b, s.et, wide)


# --- conversion -------------------------------------------------------------------------------------------------------


@ELEMENT.rule(ops.CONVERT)
def convert_rule(b: Builder, s: Site, x: Value) -> Value:
    """Converts between element types."""
    return convert(b, s.et, s.out, x)


@ELEMENT.rule(ops.BITCAST_CONVERT)
def bitcast_convert(b: Builder, s: Site, x: Value) -> Value:
    """Reinterprets the bits as another type of the same width (others change the shape: not element-wise)."""
    return bit_cast(b, s, x)


def bit_cast(b: Builder, s: Site, x: Value) -> Value:
    """`bitcast-convert` between types of one width. Raises UNIMPLEMENTED when the widths differ."""
    if s.et is s.out:
        return x
    if s.et.bits != s.out.bits:
        raise s.refuse()
    if isinstance(x, Cx):
        return _pack(b, s.out, x)
    if s.out.is_complex:
        return _unpack(b, s.out, x)
    if s.et is dtypes.PRED:
        bits = b.cast("zext", x, "i8")
    else:
        bits = b.bitcast(x, f"i{max(8, s.et.bits)}")
    if s.out is dtypes.PRED:
        return b.icmp("ne", bits, 0)
    if s.out.is_integer:
        return wrap(b, s.out, bits)
    if s.out.bits < 8:
        bits = b.and_(bits, (1 << s.out.bits) - 1)
    return b.bitcast(bits, register_type(s.out))


def _pack(b: Builder, out: ElementType, x: Cx) -> Val:
    half = INT_BITS["i32"] if x.re.ty == "float" else 64
    wide = f"i{2 * half}"
    low = b.cast("zext", b.bitcast(x.re, f"i{half}"), wide)
    high = b.shl(b.cast("zext", b.bitcast(x.im, f"i{half}"), wide), half)
    return b.bitcast(b.or_(low, high), register_type(out))


def _unpack(b: Builder, out: ElementType, x: Val) -> Cx:
    half = out.bits // 2
    bits = b.bitcast(x, f"i{out.bits}")
    low, high = b.cast("trunc", bits, f"i{half}"), b.cast("trunc", b.lshr(bits, half), f"i{half}")
    ty = register_type(out)
    return Cx(b.bitcast(low, ty), b.bitcast(high, ty))


@ELEMENT.rule(ops.STOCHASTIC_CONVERT)
def stochastic_convert(b: Builder, s: Site, *args: Value) -> Value:
    """Rounds to an integer up or down at random: up when the fraction exceeds the random bits read as a fraction."""
    x, random = reals(args)
    if not s.et.is_float or not s.out.is_signed:
        raise s.refuse()
    value = compute_float(b, s.et, x)
    magnitude = b.fabs(value)
    whole = b.round_("floor", magnitude)
    scaled = b.fmul(b.fsub(magnitude, whole), 2.0 ** s.ins[1].bits)
    fraction = b.fp_to_int(scaled, random.ty, signed=False)
    up = b.icmp("ult", random, fraction)
    base = float_to_int(b, s.out, whole)
    rounded = b.add(base, b.cast("zext", up, base.ty))
    result = b.select(b.fcmp("olt", value, 0.0), b.sub(0, rounded), rounded)
    limit = 1 << (s.out.bits - 1)
    result = b.select(b.fcmp("ole", value, float(-limit)), -limit, result)
    result = b.select(b.fcmp("oge", value, float(limit - 1)), limit - 1, result)
    return wrap(b, s.out, b.select(b.fcmp("uno", value, value), 0, result))


# --- complex parts ----------------------------------------------------------------------------------------------------


@ELEMENT.rule(ops.COMPLEX)
def make_complex(b: Builder, s: Site, *args: Value) -> Value:
    """re + i im."""
    re, im = reals(args)
    return Cx(re, im)


@ELEMENT.rule(ops.REAL)
def real(b: Builder, s: Site, x: Value) -> Value:
    """The real part (a real number is its own)."""
    return x.re if isinstance(x, Cx) else x


@ELEMENT.rule(ops.IMAG)
def imag(b: Builder, s: Site, x: Value) -> Value:
    """The imaginary part (0 for a real number)."""
    if isinstance(x, Cx):
        return x.im
    return constant(0, x.ty, x.lanes)
