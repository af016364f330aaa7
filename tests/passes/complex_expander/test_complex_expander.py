"""Complex functions on parts against the evaluator: accuracy over all magnitudes, and special values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xyla import interp
from xyla.formats.hlo_text import parse
from xyla.passes.complex_expander import ComplexExpander
from xyla.testing.pass_check import apply_pass, check_pass

Array = np.ndarray[Any, np.dtype[Any]]

ARITHMETIC = ("add", "subtract", "multiply", "divide", "power", "atan2")
FUNCTIONS = (
    "negate", "abs", "sign", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "sqrt", "rsqrt",
    "cbrt", "sinh", "cosh", "tanh", "sine", "cosine", "tan", "asin", "acos", "asinh", "acosh", "atanh",
)  # fmt: skip
# Where rounding errors of intermediate values are magnified, only the wide form is held to a bound.
MAGNIFYING = ("power", "atan2", "logistic")


def pairs(kind: str, re: Any, im: Any) -> Array:
    out: Array = np.empty(np.shape(re), np.complex64 if kind == "c64" else np.complex128)
    out.real, out.imag = re, im
    return out


def points(kind: str, seed: int) -> Array:
    """Values near 1, near the real axis, and of every magnitude."""
    rng = np.random.default_rng(seed)
    reach, n = (30, 1500) if kind == "c64" else (250, 1500)
    sizes = [10.0 ** rng.uniform(-reach, reach, n) * rng.choice([-1, 1], n) for _ in range(2)]
    re = [rng.normal(size=n), sizes[0], 1 + rng.normal(size=n) * 10.0 ** rng.uniform(-8, 0, n), rng.uniform(-20, 20, n)]
    im = [rng.normal(size=n), sizes[1], rng.normal(size=n) * 10.0 ** rng.uniform(-8, 0, n), rng.uniform(-20, 20, n)]
    return pairs(kind, np.concatenate(re), np.concatenate(im))


def special(kind: str) -> Array:
    values = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, 100, -100]
    re, im = np.meshgrid(values, values)
    return pairs(kind, re.ravel(), im.ravel())


def both(op: str, kind: str, wide: bool, args: list[Array]) -> tuple[Array, Array]:
    n = args[0].size
    result = {"c64": "f32", "c128": "f64"}[kind] if op == "abs" else kind
    params = "\n".join(f"p{i} = {kind}[{n}] parameter({i})" for i in range(len(args)))
    names = ", ".join(f"p{i}" for i in range(len(args)))
    module = parse(f"HloModule m\nENTRY e {{\n{params}\nROOT r = {result}[{n}] {op}({names})\n}}")
    outcome = apply_pass(ComplexExpander(wide=wide), module)
    assert outcome.changed
    # What is left of complex values is their entry and exit.
    left = {i.op.name for i in outcome.module.instructions() if i.shape.element_type.is_complex}
    assert left <= {"parameter", "complex"}
    with np.errstate(all="ignore"):
        return interp.run(module, args)[0], interp.run(outcome.module, args)[0]


def error(got: Array, want: Array) -> float:
    """The largest error, in ULP of the modulus of the result, where both are finite."""
    known = np.isfinite(want)
    g, w = got[known], want[known]
    precision = np.finfo(w.real.dtype)
    with np.errstate(all="ignore"):
        off = np.hypot((g.real - w.real).astype(np.longdouble), (g.imag - w.imag).astype(np.longdouble))
        size = np.hypot(w.real.astype(np.longdouble), w.imag.astype(np.longdouble))
        return float((off / np.maximum(size, precision.tiny) / precision.eps).max())


def kinds_of(value: Array) -> Array:
    """NaN, infinity of either sign, zero of either sign, or a number: of each part."""
    parts = np.stack([value.real, value.imag], -1)
    zero = np.where(np.signbit(parts), -0.5, 0.5)
    finite = np.where(parts == 0, zero, 1.0)
    signs = np.where(np.isinf(parts), np.sign(parts) * 2, finite)
    out = np.where(np.isnan(parts), 3.0, signs)
    # C leaves the sign of a part open when the other is NaN.
    return np.where(np.isnan(parts).any(-1, keepdims=True), np.abs(out), out)


@pytest.mark.parametrize(("kind", "wide"), [("c64", True), ("c64", False), ("c128", True)])
@pytest.mark.parametrize("op", [*ARITHMETIC, *FUNCTIONS])
def test_is_within_its_bound(op: str, kind: str, wide: bool) -> None:
    args = [points(kind, seed) for seed in range(2 if op in ARITHMETIC else 1)]
    want, got = both(op, kind, wide, args)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
    if kind == "c64" and wide:
        assert op == "atan2" or error(got, want) <= 1
    elif op not in MAGNIFYING:
        assert error(got, want) <= 4


@pytest.mark.parametrize("op", [*ARITHMETIC, *FUNCTIONS])
def test_special_values_are_the_functions_own(op: str) -> None:
    z = special("c64")
    args = [z]
    if op in ARITHMETIC:
        i, j = np.meshgrid(range(z.size), range(z.size))
        args = [z[i.ravel()], z[j.ravel()]]
    want, got = both(op, "c64", True, args)
    one, other = kinds_of(want), kinds_of(got)
    if op == "atan2":  # 1e-17 instead of 0 is the rounding error of either
        one, other = (np.where(np.abs(v) <= 1, 1.0, v) for v in (one, other))
    if op == "logistic":  # zeros of e^z for an infinite angle
        one, other = np.abs(one), np.abs(other)
    np.testing.assert_array_equal(other, one)


def test_a_program_with_loops_and_calls_keeps_its_values() -> None:
    module = parse(
        """HloModule m
        rotate {
          z = c64[8] parameter(0)
          w = c64[8] exponential(z)
          ROOT r = c64[8] divide(w, z)
        }
        cond {
          s = (s32[], c64[8]) parameter(0)
          i = s32[] get-tuple-element(s), index=0
          n = s32[] constant(3)
          ROOT l = pred[] compare(i, n), direction=LT
        }
        body {
          s = (s32[], c64[8]) parameter(0)
          i = s32[] get-tuple-element(s), index=0
          z = c64[8] get-tuple-element(s), index=1
          one = s32[] constant(1)
          j = s32[] add(i, one)
          w = c64[8] call(z), to_apply=rotate
          v = c64[8] reverse(w), dimensions={0}
          c = c64[] constant((1, 0.5))
          k = c64[8] broadcast(c), dimensions={}
          u = c64[8] multiply(v, k)
          ROOT t = (s32[], c64[8]) tuple(j, u)
        }
        ENTRY main {
          z = c64[8] parameter(0)
          zero = s32[] constant(0)
          s = (s32[], c64[8]) tuple(zero, z)
          w = (s32[], c64[8]) while(s), condition=cond, body=body
          e = c64[8] get-tuple-element(w), index=1
          p = c64[2,4] reshape(e)
          a = c64[1,4] slice(p), slice={[1:2], [0:4]}
          b = c64[1,4] slice(p), slice={[0:1], [0:4]}
          o = pred[] constant(true)
          ROOT q = c64[2,4] concatenate(a, b), dimensions={0}
        }"""
    )
    check_pass(ComplexExpander(), module, [points("c64", 3)[:8]], ulp=4)
