"""Complex arithmetic in terms of real and imaginary parts, for targets without complex types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.passes import complex_formulas as formulas
from xyla.passes import complex_trigonometry as trigonometry
from xyla.passes.building import Builder, Val, expand_one
from xyla.passes.complex_formulas import Binary, Pair, Unary
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import Fp, PassContext
from xyla.passmgr.marks import mark_of, value_changing
from xyla.passmgr.rules import Rewrite, Rule, erase_dead
from xyla.support.dtypes import F64, ElementType


@register
@dataclass(frozen=True, slots=True)
class ComplexExpander(Pass):
    """Computes on pairs of real and imaginary parts what is written in complex numbers.

        ROOT z = c64[4] add(x, y)      ==>      ROOT z = c64[4] complex(add(real(x), real(y)), add(imag(x), imag(y)))

    Parts go from one op to the next, so complex, real and imag remain only where complex values enter or leave a
    computation. Element-wise functions, data movement, sums and dots are expanded; other ops (FFT, collectives, sorts)
    stay. wide: c64 is computed in f64, as the evaluator does: results are within one ULP of it, infinities, NaN and
    zeros the same. Without it, and for c128, they are within 4 ULP of the result's modulus, but for functions that
    magnify rounding errors of their own intermediate values: power (by |y log x|), logistic (near its poles), atan2.
    XLA's MLIR dialect has the same as `lower-complex`.
    """

    name: ClassVar[str] = "complex-expander"
    wide: bool = True

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Each instruction once, operands first: linear in the module's size."""
        table = _TABLE[self.wide]
        changed = False
        for comp in _expandable(module):
            for inst in comp.post_order():
                if ctx.control.stopped:
                    return changed
                rule = table.get(inst.op)
                if rule is not None and inst in comp.instructions:
                    operands = inst.operands
                    if expand_one(inst, ctx, rule):
                        changed = True
                        erase_dead(o for o in operands if o.op in (ops.COMPLEX, ops.REAL, ops.IMAG, ops.CONSTANT))
        return changed


def _expandable(module: Module) -> list[Computation]:
    """The entry and what is called from it: reducers, comparators and fusions keep the form that their callers know."""
    return [c for c in module.computations.values() if all(i.op in _CALLS for i in c.callers)]


_CALLS = (ops.CALL, ops.WHILE, ops.CONDITIONAL)


# -- parts -------------------------------------------------------------------------------------------------------------


def _parts(b: Builder, inst: Instruction) -> Pair:
    """The parts of a complex value: those that it was made of, or read from it."""
    if inst.op is ops.COMPLEX:
        return Pair(b.val(inst.operands[0]), b.val(inst.operands[1]))
    et = inst.shape.element_type.component
    if inst.op is ops.CONSTANT and not inst.attrs.literal.elided:
        array = inst.attrs.literal.array
        return Pair(b.literal(Literal.of(array.real.copy(), et)), b.literal(Literal.of(array.imag.copy(), et)))
    return Pair(b.apply(ops.REAL, b.val(inst)), b.apply(ops.IMAG, b.val(inst)))


def _join(b: Builder, z: Pair) -> Instruction:
    return b.apply(ops.COMPLEX, z.re, z.im).inst


def _converted(z: Pair, et: ElementType) -> Pair:
    return Pair(z.re.convert(et), z.im.convert(et))


def _unfit(inst: Instruction) -> bool:
    return inst.shape.is_dynamic or any(o.shape.is_dynamic for o in inst.operands)


def _complex(inst: Instruction) -> bool:
    return inst.shape.is_array and inst.shape.element_type.is_complex


# These magnify rounding errors of their own intermediate values.
_MAGNIFYING = ("power", "logistic", "atan2")


def _bound(name: str) -> str:
    return "by the usual formula" if name in _MAGNIFYING else "within 4 ULP of its modulus"


# -- rules -------------------------------------------------------------------------------------------------------------


def _function(name: str, formula: Callable[..., Pair], wide: bool, exact: bool) -> Rule:
    """The rule of an element-wise function of complex values."""

    def rule(inst: Instruction, rw: Rewrite) -> Instruction | None:
        if not _complex(inst) or _unfit(inst) or not all(_complex(o) for o in inst.operands):
            return None
        rw.permit()
        b, et = Builder(rw), inst.shape.element_type.component
        work = F64 if wide and not exact else et
        result = formula(b, *(_converted(_parts(b, o), work) for o in inst.operands))
        return _join(b, _converted(result, et))

    rule.__name__ = f"expand_complex_{name}"
    rule.__doc__ = formula.__doc__
    return rule if exact else value_changing(Fp.DEFAULT, f"complex {name} is computed on parts, {_bound(name)}")(rule)


def _absolute(wide: bool) -> Rule:
    @value_changing(Fp.DEFAULT, "the modulus is computed on parts")
    def expand_complex_abs(inst: Instruction, rw: Rewrite) -> Instruction | None:
        """|z| = sqrt(re^2 + im^2), scaled."""
        (z,) = inst.operands
        if not _complex(z) or _unfit(inst):
            return None
        rw.permit()
        b, et = Builder(rw), inst.shape.element_type
        work = F64 if wide else et
        return formulas.modulus(b, _converted(_parts(b, z), work)).convert(et).inst

    return expand_complex_abs


def expand_real_imag(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """real(complex(x, y)) = x; imag(complex(x, y)) = y."""
    (z,) = inst.operands
    if z.op is ops.COMPLEX:
        return z.operands[0 if inst.op is ops.REAL else 1]
    if z.op is not ops.CONSTANT or not _complex(z) or z.attrs.literal.elided:
        return None
    rw.permit()
    parts = _parts(Builder(rw), z)
    return (parts.re if inst.op is ops.REAL else parts.im).inst


def expand_complex_compare(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x = y where both parts are equal."""
    if not _complex(inst.operands[0]) or _unfit(inst):
        return None
    direction = inst.attrs.direction.value
    if direction not in ("EQ", "NE"):
        return None
    rw.permit()
    b = Builder(rw)
    x, y = (_parts(b, o) for o in inst.operands)
    re, im = x.re.compare(direction, y.re), x.im.compare(direction, y.im)
    return ((re & im) if direction == "EQ" else (re | im)).inst


def expand_complex_convert(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convert(z) by parts; a real value has the imaginary part 0, and a complex one becomes its real part."""
    (source,) = inst.operands
    if not (_complex(inst) or _complex(source)) or _unfit(inst):
        return None
    rw.permit()
    b, to = Builder(rw), inst.shape.element_type
    if not to.is_complex:
        return _parts(b, source).re.convert(to).inst
    if _complex(source):
        return _join(b, _converted(_parts(b, source), to.component))
    re = b.val(source).convert(to.component)
    return _join(b, Pair(re, b.full(0, to.component, re.dims)))


def expand_complex_movement(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """move(complex(x, y)) = complex(move(x), move(y)): slices, reshapes, selections, gathers, ..."""
    if not _complex(inst) or _unfit(inst):
        return None
    rw.permit()
    b, shape = Builder(rw), inst.shape.without_layout().with_type(inst.shape.element_type.component)
    moved = [_parts(b, o) if _complex(o) else Pair(b.val(o), b.val(o)) for o in inst.operands]
    re = b.apply(inst.op, *(p.re for p in moved), attrs=inst.attrs, shape=shape)
    return _join(b, Pair(re, b.apply(inst.op, *(p.im for p in moved), attrs=inst.attrs, shape=shape)))


def expand_complex_sum(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce(complex(x, y), add) = complex(reduce(x, add), reduce(y, add))."""
    if not _complex(inst) or _unfit(inst) or len(inst.operands) != 2 or not _adds(inst.called[0]):
        return None
    rw.permit()
    b = Builder(rw)
    x, start = (_parts(b, o) for o in inst.operands)
    dims = inst.attrs.dimensions
    return _join(b, Pair(b.reduce(x.re, start.re, dims), b.reduce(x.im, start.im, dims)))


def _adds(comp: Computation) -> bool:
    root = comp.root
    return root.op is ops.ADD and set(root.operands) == set(comp.parameters) and len(comp.parameters) == 2


@value_changing(Fp.DEFAULT, "a complex dot is four dots of parts")
def expand_complex_dot(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(a + ib, c + id) = dot(a, c) - dot(b, d) + i (dot(a, d) + dot(b, c))."""
    if not _complex(inst) or _unfit(inst) or inst.attrs.sparsity:
        return None
    if any(o.shape.element_type is not inst.shape.element_type for o in inst.operands):
        return None
    rw.permit()
    b = Builder(rw)
    x, y = (_parts(b, o) for o in inst.operands)
    shape = Shape.array(inst.shape.element_type.component, inst.shape.dims)

    def dot(left: Val, right: Val) -> Val:
        return b.apply(ops.DOT, left, right, attrs=replace(inst.attrs), shape=shape)

    re, im = dot(x.re, y.re) - dot(x.im, y.im), dot(x.re, y.im) + dot(x.im, y.re)
    return _join(b, Pair(re, im))


# -- tables ------------------------------------------------------------------------------------------------------------

_EXACT: Mapping[OpDef[Any], Unary | Binary] = {
    ops.ADD: formulas.add,
    ops.SUBTRACT: formulas.subtract,
    ops.NEGATE: formulas.negate,
}
_ROUNDED: Mapping[OpDef[Any], Unary | Binary] = {
    ops.MULTIPLY: formulas.multiply,
    ops.DIVIDE: formulas.divide,
    ops.SIGN: formulas.sign,
    ops.EXP: formulas.exp,
    ops.EXPM1: formulas.expm1,
    ops.LOG: formulas.log,
    ops.LOG1P: formulas.log1p,
    ops.LOGISTIC: formulas.logistic,
    ops.POWER: formulas.power,
    ops.SQRT: formulas.sqrt,
    ops.RSQRT: formulas.rsqrt,
    ops.CBRT: formulas.cbrt,
    ops.SINH: trigonometry.sinh,
    ops.COSH: trigonometry.cosh,
    ops.TANH: trigonometry.tanh,
    ops.SINE: trigonometry.sine,
    ops.COSINE: trigonometry.cosine,
    ops.TAN: trigonometry.tan,
    ops.ASIN: trigonometry.asin,
    ops.ACOS: trigonometry.acos,
    ops.ASINH: trigonometry.asinh,
    ops.ACOSH: trigonometry.acosh,
    ops.ATANH: trigonometry.atanh,
    ops.ATAN2: trigonometry.atan2,
}
_MOVED = (
    ops.BROADCAST, ops.RESHAPE, ops.TRANSPOSE, ops.SLICE, ops.DYNAMIC_SLICE, ops.DYNAMIC_UPDATE_SLICE, ops.CONCATENATE,
    ops.REVERSE, ops.PAD, ops.GATHER, ops.SELECT,
)  # fmt: skip


def _table(wide: bool) -> dict[OpDef[Any], Rule]:
    rules: dict[OpDef[Any], Rule] = {
        ops.ABS: _absolute(wide),
        ops.REAL: expand_real_imag,
        ops.IMAG: expand_real_imag,
        ops.COMPARE: expand_complex_compare,
        ops.CONVERT: expand_complex_convert,
        ops.REDUCE: expand_complex_sum,
        ops.DOT: expand_complex_dot,
    }
    rules |= {op: _function(formula.__name__, formula, wide, exact=True) for op, formula in _EXACT.items()}
    rules |= {op: _function(formula.__name__, formula, wide, exact=False) for op, formula in _ROUNDED.items()}

    return rules | dict.fromkeys(_MOVED, expand_complex_movement)


_TABLE = {wide: _table(wide) for wide in (False, True)}
# The rules' own marks, where the documents look for them.
VALUE_CHANGING: dict[str, tuple[Fp, str]] = {
    mark.rule: (mark.least, mark.what) for rule in _TABLE[True].values() if (mark := mark_of(rule)) is not None
}
