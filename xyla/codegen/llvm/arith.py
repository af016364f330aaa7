"""Straight-line instructions: arithmetic, comparison, conversion, bits, vectors. Generic in the lane count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xyla.codegen.llvm.values import (
    FLOAT_BITS,
    INT_BITS,
    Number,
    Operand,
    Val,
    constant,
    llvm_type,
    mangle,
    vector_constant,
)

if TYPE_CHECKING:
    from xyla.codegen.llvm.module import Needs


class Arith:
    """Writes instructions into `lines`. Operands are Vals or Python numbers; a number takes the other operand's type.

    A scalar Val met by a vector operand is splat over the lanes. No fast-math flag is ever written: what is emitted is
    what is computed.
    """

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self.lines: list[str] = []
        self._counter = 0
        self._splats: dict[tuple[str, int], tuple[str, Val]] = {}
        self.block_name = "entry"

    # --- basics ---------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The body written so far."""
        return "entry:\n" + "\n".join(self.lines) + "\n"

    def line(self, text: str) -> None:
        """Appends one raw instruction line."""
        self.lines.append("  " + text)

    def fresh(self, prefix: str = "t") -> str:
        """A new name, without its sigil."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def emit(self, rhs: str, ty: str, lanes: int = 1) -> Val:
        """Appends `%new = rhs` and returns the new value."""
        self._counter += 1
        name = f"%t{self._counter}"
        self.lines.append(f"  {name} = {rhs}")
        return Val(name, ty, lanes)

    def const(self, value: Number, ty: str, lanes: int = 1) -> Val:
        """A constant, splat over the lanes."""
        return constant(value, ty, lanes)

    def like(self, value: Operand, model: Val) -> Val:
        """`value` as an operand of `model`'s type and lanes: numbers become constants, scalars are splat."""
        if not isinstance(value, Val):
            return constant(value, model.ty, model.lanes)
        if value.lanes != model.lanes and value.lanes == 1:
            return self.splat(value, model.lanes)
        return value

    def _pair(self, a: Operand, b: Operand) -> tuple[Val, Val]:
        if isinstance(a, Val):
            if isinstance(b, Val):
                if a.lanes == b.lanes:
                    return a, b
                return self.like(a, b), self.like(b, a)
            return a, constant(b, a.ty, a.lanes)
        if isinstance(b, Val):
            return constant(a, b.ty, b.lanes), b
        raise TypeError("an instruction needs at least one Val operand")

    def binary(self, op: str, a: Operand, b: Operand) -> Val:
        """`op` (an LLVM opcode with flags) of two operands of one type."""
        x, y = self._pair(a, b)
        self._counter += 1
        name = f"%t{self._counter}"
        self.lines.append(f"  {name} = {op} {llvm_type(x.ty, x.lanes)} {x.text}, {y.text}")
        return Val(name, x.ty, x.lanes)

    # --- integers -------------------------------------------------------------------------------------------------

    def add(self, a: Operand, b: Operand) -> Val:
        """Wrapping integer addition."""
        return self.binary("add", a, b)

    def sub(self, a: Operand, b: Operand) -> Val:
        """Wrapping integer subtraction."""
        return self.binary("sub", a, b)

    def mul(self, a: Operand, b: Operand) -> Val:
        """Wrapping integer multiplication."""
        return self.binary("mul", a, b)

    def and_(self, a: Operand, b: Operand) -> Val:
        """Bitwise and."""
        return self.binary("and", a, b)

    def or_(self, a: Operand, b: Operand) -> Val:
        """Bitwise or."""
        return self.binary("or", a, b)

    def xor(self, a: Operand, b: Operand) -> Val:
        """Bitwise exclusive or."""
        return self.binary("xor", a, b)

    def not_(self, a: Val) -> Val:
        """Bitwise complement."""
        return self.binary("xor", a, -1)

    def shl(self, a: Operand, b: Operand) -> Val:
        """Left shift; the amount must be below the width (LLVM's rule)."""
        return self.binary("shl", a, b)

    def lshr(self, a: Operand, b: Operand) -> Val:
        """Logical right shift; the amount must be below the width."""
        return self.binary("lshr", a, b)

    def ashr(self, a: Operand, b: Operand) -> Val:
        """Arithmetic right shift; the amount must be below the width."""
        return self.binary("ashr", a, b)

    def icmp(self, pred: str, a: Operand, b: Operand) -> Val:
        """Integer or pointer comparison (eq ne slt sle sgt sge ult ule ugt uge); gives i1."""
        x, y = self._pair(a, b)
        return self.emit(f"icmp {pred} {x.typed}, {y.text}", "i1", x.lanes)

    def smin(self, a: Operand, b: Operand) -> Val:
        """Signed minimum."""
        return self._minmax("smin", a, b)

    def smax(self, a: Operand, b: Operand) -> Val:
        """Signed maximum."""
        return self._minmax("smax", a, b)

    def umin(self, a: Operand, b: Operand) -> Val:
        """Unsigned minimum."""
        return self._minmax("umin", a, b)

    def umax(self, a: Operand, b: Operand) -> Val:
        """Unsigned maximum."""
        return self._minmax("umax", a, b)

    def _minmax(self, name: str, a: Operand, b: Operand) -> Val:
        x, y = self._pair(a, b)
        return self.same(name, x, y)

    # --- floats ---------------------------------------------------------------------------------------------------

    def fadd(self, a: Operand, b: Operand) -> Val:
        """Floating addition."""
        return self.binary("fadd", a, b)

    def fsub(self, a: Operand, b: Operand) -> Val:
        """Floating subtraction."""
        return self.binary("fsub", a, b)

    def fmul(self, a: Operand, b: Operand) -> Val:
        """Floating multiplication."""
        return self.binary("fmul", a, b)

    def fdiv(self, a: Operand, b: Operand) -> Val:
        """Floating division."""
        return self.binary("fdiv", a, b)

    def fneg(self, a: Val) -> Val:
        """Sign flip (also of NaN and zero)."""
        return self.emit(f"fneg {a.typed}", a.ty, a.lanes)

    def fcmp(self, pred: str, a: Operand, b: Operand) -> Val:
        """Floating comparison (oeq olt ... unordered: ueq une uno); gives i1."""
        x, y = self._pair(a, b)
        return self.emit(f"fcmp {pred} {x.typed}, {y.text}", "i1", x.lanes)

    def fma(self, a: Operand, b: Operand, c: Operand) -> Val:
        """a*b + c with one rounding."""
        model = next(v for v in (a, b, c) if isinstance(v, Val))
        for v in (a, b, c):
            if isinstance(v, Val) and v.lanes > model.lanes:
                model = v
        return self.same("fma", self.like(a, model), self.like(b, model), self.like(c, model))

    def fabs(self, a: Val) -> Val:
        """Clears the sign bit."""
        return self.same("fabs", a)

    def copysign(self, magnitude: Operand, sign: Val) -> Val:
        """`magnitude` with the sign bit of `sign`."""
        return self.same("copysign", self.like(magnitude, sign), sign)

    def sqrt(self, a: Val) -> Val:
        """Correctly rounded square root."""
        return self.same("sqrt", a)

    def round_(self, how: str, a: Val) -> Val:
        """Rounds to an integral value: how = floor, ceil, trunc, roundeven."""
        return self.same(how, a)

    # --- selection, conversion ------------------------------------------------------------------------------------

    def select(self, cond: Val, a: Operand, b: Operand) -> Val:
        """cond ? a : b, a lane at a time."""
        x, y = self._pair(a, b)
        if cond.lanes > x.lanes:
            x, y = self.splat(x, cond.lanes), self.splat(y, cond.lanes)
        elif cond.lanes < x.lanes:
            cond = self.splat(cond, x.lanes)
        return self.emit(f"select {cond.typed}, {x.typed}, {y.typed}", x.ty, x.lanes)

    def cast(self, op: str, a: Val, ty: str) -> Val:
        """zext, sext, trunc, fpext, fptrunc, sitofp, uitofp, bitcast, ...; a cast to the same type is free."""
        if a.ty == ty:
            return a
        return self.emit(f"{op} {a.typed} to {llvm_type(ty, a.lanes)}", ty, a.lanes)

    def bitcast(self, a: Val, ty: str) -> Val:
        """Reinterprets the bits, lane for lane (same width)."""
        return self.cast("bitcast", a, ty)

    def int_cast(self, a: Val, ty: str, *, signed: bool) -> Val:
        """Truncates or extends an integer to `ty`."""
        have, want = INT_BITS[a.ty], INT_BITS[ty]
        if have == want:
            return a
        if have > want:
            return self.cast("trunc", a, ty)
        return self.cast("sext" if signed else "zext", a, ty)

    def fp_cast(self, a: Val, ty: str) -> Val:
        """Extends or rounds (to nearest even) a float to `ty`."""
        have, want = FLOAT_BITS[a.ty], FLOAT_BITS[ty]
        return self.cast("fpext" if have < want else "fptrunc", a, ty)

    def fp_to_int(self, a: Val, ty: str, *, signed: bool) -> Val:
        """Rounds toward zero; saturates; NaN gives 0. (LLVM's own saturating conversion is scalar code on x86.)"""
        bits = INT_BITS[ty]
        if bits < 32:
            low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
            number = self.select(self.fcmp("ord", a, a), a, 0.0)
            number = self.select(self.fcmp("olt", number, low), low, number)
            number = self.select(self.fcmp("ogt", number, high), high, number)
            return self.cast("trunc", self.cast("fptosi", number, "i32"), ty)
        limit = 2.0 ** (bits - 1 if signed else bits)
        fits = self.fcmp("olt", self.fabs(a), limit)
        if not signed:
            fits = self.and_(fits, self.fcmp("ogt", a, 0.0))
        whole = self.cast("fptosi" if signed else "fptoui", self.select(fits, a, 0.0), ty)
        whole = self.select(self.fcmp("oge", a, limit), (1 << (bits - 1)) - 1 if signed else -1, whole)
        return self.select(self.fcmp("ole", a, -limit), -(1 << (bits - 1)), whole) if signed else whole

    # --- intrinsics -----------------------------------------------------------------------------------------------

    def same(self, name: str, *args: Val) -> Val:
        """Calls an intrinsic whose operands and result share one type, its only overload."""
        return self.intrinsic(name, args, args[0].ty, args[0].lanes)

    def intrinsic(
        self,
        name: str,
        args: Sequence[Val],
        ty: str,
        lanes: int = 1,
        overload: Sequence[tuple[str, int]] | None = None,
    ) -> Val:
        """Calls `llvm.<name>` and declares it. `overload` lists the (type, lanes) suffixes; default: the result's."""
        symbol = self.declare_intrinsic(name, args, llvm_type(ty, lanes), overload or ((ty, lanes),))
        plist = ", ".join(a.typed for a in args)
        return self.emit(f"call {llvm_type(ty, lanes)} @{symbol}({plist})", ty, lanes)

    def declare_intrinsic(self, name: str, args: Sequence[Val], ret: str, overload: Sequence[tuple[str, int]]) -> str:
        """Records the declaration of an intrinsic and returns its full symbol."""
        symbol = ".".join(["llvm", name, *(mangle(t, n) for t, n in overload)])
        types = ", ".join("metadata" if a.ty == "metadata" else a.type for a in args)
        self.needs.declare(f"declare {ret} @{symbol}({types})")
        return symbol

    def call(self, symbol: str, args: Sequence[Val], ty: str, lanes: int = 1) -> Val:
        """Calls a function of this module (a helper) and returns its result."""
        plist = ", ".join(a.typed for a in args)
        return self.emit(f"call {llvm_type(ty, lanes)} @{symbol}({plist})", ty, lanes)

    def flag(self, value: bool) -> Val:
        """A constant i1, as intrinsics take for their immediate flags."""
        return Val("true" if value else "false", "i1")

    # --- vectors --------------------------------------------------------------------------------------------------

    def splat(self, a: Val, lanes: int) -> Val:
        """A scalar in every lane. Repeated splats of one value in one block are written once."""
        if lanes == a.lanes:
            return a
        if a.text[0] != "%":
            return Val(f"splat ({a.ty} {a.text})" if a.text != "poison" else "poison", a.ty, lanes)
        known = self._splats.get((a.text, lanes))
        if known is not None and known[0] == self.block_name:
            return known[1]
        vec, ivec = llvm_type(a.ty, lanes), f"<{lanes} x i32>"
        one = self.emit(f"insertelement {vec} poison, {a.typed}, i64 0", a.ty, lanes)
        out = self.emit(f"shufflevector {one.typed}, {vec} poison, {ivec} zeroinitializer", a.ty, lanes)
        self._splats[a.text, lanes] = (self.block_name, out)
        return out

    def iota(self, ty: str, lanes: int, start: int = 0, step: int = 1) -> Val:
        """start, start+step, ... a constant vector (the constant `start` for one lane)."""
        return vector_constant([start + step * i for i in range(lanes)], ty)

    def extract(self, a: Val, lane: int | Val) -> Val:
        """One lane as a scalar."""
        if a.lanes == 1:
            return a
        index = f"i64 {lane}" if isinstance(lane, int) else lane.typed
        return self.emit(f"extractelement {a.typed}, {index}", a.ty)

    def insert(self, a: Val, scalar: Val, lane: int | Val) -> Val:
        """`a` with one lane replaced."""
        if a.lanes == 1:
            return scalar
        index = f"i64 {lane}" if isinstance(lane, int) else lane.typed
        return self.emit(f"insertelement {a.typed}, {scalar.typed}, {index}", a.ty, a.lanes)

    def shuffle(self, a: Val, b: Val | None, picks: Sequence[int]) -> Val:
        """Lanes `picks` of the concatenation a ++ b (b None: of a alone); -1 picks nothing."""
        other = b.typed if b is not None else f"{a.type} poison"
        idx = ", ".join(f"i32 {p}" if p >= 0 else "i32 poison" for p in picks)
        return self.emit(f"shufflevector {a.typed}, {other}, <{len(picks)} x i32> <{idx}>", a.ty, len(picks))

    def deinterleave(self, a: Val) -> tuple[Val, Val]:
        """Even and odd lanes."""
        half = a.lanes // 2
        if half == 1:
            return self.extract(a, 0), self.extract(a, 1)
        evens = range(0, a.lanes, 2)
        return self.shuffle(a, None, list(evens)), self.shuffle(a, None, [i + 1 for i in evens])

    def interleave(self, a: Val, b: Val) -> Val:
        """a0 b0 a1 b1 ..."""
        if a.lanes == 1:
            pair = self.emit(f"insertelement <2 x {a.ty}> poison, {a.typed}, i64 0", a.ty, 2)
            return self.insert(pair, b, 1)
        return self.shuffle(a, b, [k for i in range(a.lanes) for k in (i, a.lanes + i)])

    def any(self, mask: Val) -> Val:
        """Whether any lane of an i1 vector is set (scalar i1)."""
        if mask.lanes == 1:
            return mask
        bits = self.emit(f"bitcast {mask.typed} to i{mask.lanes}", f"i{mask.lanes}")
        return self.emit(f"icmp ne {bits.typed}, 0", "i1")

    def all(self, mask: Val) -> Val:
        """Whether every lane of an i1 vector is set (scalar i1)."""
        if mask.lanes == 1:
            return mask
        bits = self.emit(f"bitcast {mask.typed} to i{mask.lanes}", f"i{mask.lanes}")
        return self.emit(f"icmp eq {bits.typed}, -1", "i1")

    def reduce(self, how: str, a: Val) -> Val:
        """Horizontal integer reduction: add mul and or xor smin smax umin umax."""
        if a.lanes == 1:
            return a
        return self.intrinsic(f"vector.reduce.{how}", [a], a.ty, overload=((a.ty, a.lanes),))
