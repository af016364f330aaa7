"""Identities that do not hold for every number, in every type: each rewrite keeps what its mode promises.

Beyond the collected miscompiles (log(exp x), sqrt(x * x), abs(x * x), x / x, x - x, 0 * x, ...) stand their siblings:
other types, other constants, other nestings, drawn at random.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from xyla import interp
from xyla.formats.hlo_text import parse
from xyla.passes.algebraic_simplifier import AlgebraicSimplifier
from xyla.passmgr.context import Fp
from xyla.support.dtypes import BF16, F16, F32, F64, S8, S32, S64, U8, U32, ElementType
from xyla.targets.cpu.pipeline import cpu_pipeline
from xyla.testing.expressions import awkward, random_expression
from xyla.testing.local_check import broken_promise, forbidden, rewrites
from xyla.testing.pass_check import apply_pass

FLOATS = (F16, BF16, F32, F64)
INTEGERS = (S8, U8, S32, U32, S64)
# Each over x and y, and c, a constant; {T} is the type.
KINDS = {
    "log_exp": "e = {T} exponential(x)\nROOT r = {T} log(e)",
    "log_exp_negated": "e = {T} exponential(x)\nn = {T} negate(e)\nm = {T} negate(n)\nROOT r = {T} log(m)",
    "log_power": "e = {T} power(x, y)\nROOT r = {T} log(e)",
    "log_square": "e = {T} power(x, c)\nROOT r = {T} log(e)",
    "sqrt_square": "e = {T} multiply(x, x)\nROOT r = {T} sqrt(e)",
    "sqrt_abs_square": "e = {T} multiply(x, x)\na = {T} abs(e)\nROOT r = {T} sqrt(a)",
    "quotient_of_itself": "ROOT r = {T} divide(x, x)",
    "quotient_through_copies": "a = {T} negate(x)\nb = {T} negate(x)\nROOT r = {T} divide(a, b)",
    "product_over_factor": "e = {T} multiply(x, y)\nROOT r = {T} divide(e, y)",
    "reciprocal_of_mean": "m = {T} divide(x, c)\nROOT r = {T} divide(c, m)",
    "reciprocal_twice": "a = {T} divide(c, x)\nROOT r = {T} divide(c, a)",
    "difference_of_itself": "ROOT r = {T} subtract(x, x)",
    "zero_times": "z = {T} subtract(c, c)\nROOT r = {T} multiply(x, z)",
    "plus_zero": "z = {T} subtract(c, c)\nROOT r = {T} add(x, z)",
    "sum_minus_term": "e = {T} add(x, y)\nROOT r = {T} subtract(e, y)",
    "scaled_sum": "e = {T} add(x, y)\nROOT r = {T} multiply(e, c)",
    "clamp_of_nan": "ROOT r = {T} clamp(y, x, c)",
    "maximum_chosen": "p = pred[N] compare(x, y), direction=GT\nROOT r = {T} select(p, x, y)",
    "minimum_chosen": "p = pred[N] compare(x, y), direction=LE\nROOT r = {T} select(p, x, y)",
}
WHOLE = {
    "abs_of_square": "e = {T} multiply(x, x)\nROOT r = {T} abs(e)",
    "quotient_of_itself": "ROOT r = {T} divide(x, x)",
    "remainder_by_itself": "ROOT r = {T} remainder(x, x)",
    "product_over_factor": "e = {T} multiply(x, y)\nROOT r = {T} divide(e, y)",
    "halved": "ROOT r = {T} divide(x, c)",
    "remainder_of_constant": "ROOT r = {T} remainder(x, c)",
    "doubled_and_halved": "e = {T} multiply(x, c)\nROOT r = {T} divide(e, c)",
    "power": "ROOT r = {T} power(x, y)",
    "shifted_there_and_back": "e = {T} shift-left(x, y)\nROOT r = {T} shift-right-logical(e, y)",
    "compared_after_sum": (
        "e = {T} add(x, c)\nd = {T} add(y, c)\np = pred[N] compare(e, d), direction=LT\nROOT r = {T} convert(p)"
    ),
    "sum_across_widening": (
        "a = {T} add(x, c)\nw = s64[N] convert(a)\nv = s64[N] convert(y)\nb = s64[N] add(w, v)\nROOT r = {T} convert(b)"
    ),
    "sum_across_float": "a = {T} add(x, c)\nf = f32[N] convert(a)\ng = f32[N] add(f, f)\nROOT r = {T} convert(g)",
    "sign_after_clamp": "a = {T} clamp(c, x, y)\nz = {T} subtract(c, c)\np = pred[N] compare(a, z), direction=LT\n"
    "ROOT r = {T} convert(p)",
    "xor_chain": "a = {T} xor(x, y)\nb = {T} xor(a, x)\nROOT r = {T} xor(b, c)",
}


def program(body: str, et: ElementType, constant: str) -> str:
    """The module of a kind; vectors have as many elements as the type has awkward numbers."""
    count = len(awkward(et)) ** 2
    kind = f"{et.name}[{count}]"
    head = f"x = {kind} parameter(0)\ny = {kind} parameter(1)\ns = {et.name}[] constant({constant})\n"
    head += f"c = {kind} broadcast(s), dimensions={{}}\n"
    return "HloModule m\nENTRY e {\n" + head + body.replace("{T}", kind).replace("[N]", f"[{count}]") + "\n}"


def pairs(et: ElementType) -> list[np.ndarray]:
    """Every awkward number against every other."""
    with np.errstate(all="ignore"):
        numbers = np.asarray(awkward(et)).astype(et.np)
    return [np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))]


@pytest.mark.parametrize("et", FLOATS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fp", [Fp.STRICT, Fp.DEFAULT], ids=lambda fp: fp.value)
def test_float_kinds(kind: str, et: ElementType, fp: Fp) -> None:
    """The whole pipeline keeps NaN, infinities and the signs of zeros; in strict mode every bit."""
    for constant in ("1", "2", "-0.5", "inf"):
        module = parse(program(KINDS[kind], et, constant))
        after = apply_pass(cpu_pipeline(), module, fp=fp).module
        args = pairs(et)
        want, got = interp.run(module, args)[0], interp.run(after, args)[0]
        assert not forbidden(got, want, fp).any(), (constant, str(after))


@pytest.mark.parametrize("et", FLOATS, ids=str)
@pytest.mark.parametrize("body", ["ROOT r = {T} divide(x, c)", "m = {T} multiply(x, c)\nROOT r = {T} multiply(m, c)"])
def test_every_awkward_constant(body: str, et: ElementType) -> None:
    """The reciprocal of a subnormal number is infinite, the product of two large ones too, ..."""
    for constant in awkward(et):
        module = parse(program(body, et, str(constant)))
        after = apply_pass(AlgebraicSimplifier(), module).module
        want, got = interp.run(module, pairs(et))[0], interp.run(after, pairs(et))[0]
        assert not forbidden(got, want, Fp.DEFAULT).any(), (constant, str(after))


@pytest.mark.parametrize("et", INTEGERS, ids=str)
@pytest.mark.parametrize("kind", WHOLE)
def test_integer_kinds(kind: str, et: ElementType) -> None:
    """The whole pipeline keeps every bit, wrapped ones too."""
    for constant in ("1", "2", "4", "7", "0"):
        module = parse(program(WHOLE[kind], et, constant))
        after = apply_pass(cpu_pipeline(), module).module
        args = pairs(et)
        np.testing.assert_array_equal(interp.run(after, args)[0], interp.run(module, args)[0], err_msg=constant)


@pytest.mark.parametrize("et", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("fp", [Fp.STRICT, Fp.DEFAULT], ids=lambda fp: fp.value)
def test_each_rewrite_of_random_expressions(et: ElementType, fp: Fp) -> None:
    met = set()
    for seed in range(25):
        module, args = random_expression(zlib.crc32(f"{seed} {fp.value}".encode()), et)
        for step in rewrites(AlgebraicSimplifier(), module, fp):
            met.add(step.rule)
            problem = broken_promise(step, args, fp)
            assert problem is None, problem
    assert len(met) >= 8  # otherwise the expressions tempt nobody
