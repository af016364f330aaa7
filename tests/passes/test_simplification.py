"""The simplification and control-flow passes: evaluator equality, budgets, and size of work on awkward graphs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import xyla.passes
from xyla import interp
from xyla.formats.hlo_text import parse
from xyla.hlo import ops
from xyla.hlo.module import Module
from xyla.hlo.shape import Shape
from xyla.hlo.verifier import verify
from xyla.passmgr.base import parse_passes
from xyla.passmgr.context import PassContext, RewriteControl
from xyla.passmgr.pipeline import Run, pipeline_of
from xyla.support.dtypes import F32
from xyla.support.status import XylaError
from xyla.testing import data
from xyla.testing.modules import random_program
from xyla.testing.pass_check import apply_pass, check_pass, difference

PASSES = (
    "tuple-simplifier", "cse", "constant-folding", "call-inliner", "flatten-call-graph", "simplify-while-loops",
    "simplify-conditional", "while-loop-invariant-code-motion", "while-loop-constant-sinking",
    "while-loop-trip-count-annotator", "while-loop-unroller", "conditional-canonicalizer", "conditional-code-motion",
    "simplify-sorts", "zero-sized-hlo-elimination", "reshape-mover", "slice-sinker", "transpose-folding",
    "subcomputation-unification", "convert-mover", "map-inline", "optimization-barrier-expander", "hlo-module-dce",
    "gather-simplifier", "scatter-simplifier", "scatter-slice-simplifier", "dot-merger", "indexed-array-simplifier",
    "batch-dot-simplification", "depthwise-convolution-converter",
)  # fmt: skip
# Corpus folders where these passes' own test programs lie.
FILES = ("while_loop", "conditional", "call_inliner", "hlo_cse", "constant_folding", "slice_sinker", "sort_simpl",
         "scatter_slice", "scatter_simpl", "gather_simpl", "transpose_folding", "convert_mover", "reshape_mover",
         "tuple_simpl", "flatten_call", "module_dce")  # fmt: skip

xyla.passes.load_all()


@pytest.mark.parametrize("name", PASSES)
def test_random_modules_compute_the_same(name: str) -> None:
    (pass_,) = parse_passes(name)
    for seed in range(4):
        program = random_program(seed=1000 + seed, size=30)
        check_pass(pass_, program.module, program.arguments)


@pytest.mark.parametrize("name", PASSES)
def test_a_limit_of_no_rewrites_changes_nothing(name: str) -> None:
    (pass_,) = parse_passes(name)
    program = random_program(seed=77, size=60)
    outcome = apply_pass(pass_, program.module, limit=0)
    assert not outcome.changed
    assert str(outcome.module) == str(program.module)


@pytest.mark.parametrize("name", PASSES)
def test_stopping_after_any_rewrite_keeps_the_program_right(name: str) -> None:
    """What bisecting to one rewrite rests on."""
    (pass_,) = parse_passes(name)
    program = random_program(seed=5, size=40)
    want = interp.run(program.module, program.arguments)
    total = sum(apply_pass(pass_, program.module, checked=False).counts.values())
    for limit in range(1, min(total, 4)):
        outcome = apply_pass(pass_, program.module, limit=limit)
        assert sum(outcome.counts.values()) == limit
        assert difference(interp.run(outcome.module, program.arguments), want) is None


def corpus() -> list[Path]:
    if data.shared_dir() is None:
        return []
    cases = (c for c in data.hlo_modules() if c.loadable and any(word in c.path.name for word in FILES))
    return [c.path for c in cases]


def test_corpus_modules_stay_well_formed_under_all_passes_in_turn(shared: Path) -> None:
    """Every third of XLA's own test programs for these passes; each pass verifies what it changed."""
    tried = 0
    for path in corpus()[::3]:
        try:
            module = parse(path.read_text(), name=path.name)
            verify(module)
        except XylaError:  # XLA's tests hold malformed modules too
            continue
        Run(module, PassContext()).pipeline(pipeline_of(p for name in PASSES for p in parse_passes(name)))
        tried += 1
    assert tried > 40


def run(names: str, module: Module, limit: int | None = None) -> PassContext:
    context = PassContext(control=RewriteControl(limit))
    for pass_ in parse_passes(names):
        pass_.run(module, context)
    verify(module)
    return context


def test_shared_call_graphs_stay_linear() -> None:
    """60 levels of two calls each would be 2^60 instructions."""
    levels = ["f0 { p = f32[] parameter(0) \n a = f32[] sine(p) \n b = f32[] cosine(a) \n ROOT n = f32[] tanh(b) }"]
    for k in range(1, 60):
        levels.append(
            f"f{k} {{ p = f32[] parameter(0) \n a = f32[] call(p), to_apply=f{k - 1} \n"
            f" ROOT b = f32[] call(a), to_apply=f{k - 1} }}"
        )
    text = "HloModule deep\n" + "\n".join(levels)
    module = parse(text + "\nENTRY main { x = f32[] parameter(0) \n ROOT r = f32[] call(x), to_apply=f59 }")
    start = time.process_time()
    run("call-inliner,cse,simplify-conditional,constant-folding", module)
    assert module.num_instructions < 2000
    assert time.process_time() - start < 5


def test_a_chain_of_calls_is_inlined_in_linear_time() -> None:
    count = 2000
    levels = ["f0 { p = f32[] parameter(0) \n ROOT n = f32[] sine(p) }"]
    levels += [
        f"f{k} {{ p = f32[] parameter(0) \n a = f32[] sine(p) \n ROOT b = f32[] call(a), to_apply=f{k - 1} }}"
        for k in range(1, count)
    ]
    text = "\n".join(["HloModule chain", *levels])
    module = parse(text + f"\nENTRY main {{ x = f32[] parameter(0) \n ROOT r = f32[] call(x), to_apply=f{count - 1} }}")
    start = time.process_time()
    run("call-inliner", module)
    assert list(module.computations) == ["main"]
    assert module.num_instructions == count + 1
    assert time.process_time() - start < 5


def test_deep_graphs_do_not_recurse() -> None:
    """20,000 instructions one after the other, in the entry and in a loop's body, through every pass."""
    depth = 20000
    module = Module("deep")
    comp = module.add_computation("main")
    value = comp.add(ops.PARAMETER, (), ops.ParameterAttrs(0), shape=Shape.array(F32, ()))
    for _ in range(depth):
        value = comp.add(ops.NEGATE, [value])
    comp.set_root(value)
    module.set_entry(comp)
    run(",".join(PASSES), module)
    assert module.num_instructions == depth + 1


LOOP = """
HloModule loop
cond {
  p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(BOUND)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[] get-tuple-element(p), index=1
  s = s32[] constant(1)
  j = s32[] add(i, s)
  w = f32[] sine(v)
  ROOT t = (s32[], f32[]) tuple(j, w)
}
ENTRY main {
  x = f32[] constant(1)
  z = s32[] constant(0)
  init = (s32[], f32[]) tuple(z, x)
  ROOT w = (s32[], f32[]) while(init), condition=cond, body=body
}
"""


def test_constant_folding_says_what_its_budget_skips() -> None:
    module = parse(LOOP.replace("BOUND", "1000000000"))
    start = time.process_time()
    context = run("constant-folding", module)
    assert time.process_time() - start < 1
    assert module.entry.root.op is ops.WHILE
    assert any("while is left: it takes about" in note for note in context.notes)


def test_constant_folding_runs_short_loops() -> None:
    module = parse(LOOP.replace("BOUND", "7"))
    (trips, value) = interp.run(module)
    run("constant-folding", module)
    assert [o.op for o in module.entry.root.operands] == [ops.CONSTANT, ops.CONSTANT]
    literals = [o.attrs.literal.array for o in module.entry.root.operands]
    assert literals[0] == trips
    assert literals[1] == value


def test_constant_folding_shares_one_budget() -> None:
    values = ", ".join(["1", *["2"] * 999])
    row = "c{0} = s32[1000] iota(), iota_dimension=0\n d{0} = s32[1000] constant({{" + values + "}})\n"
    row += "e{0} = s32[1000] add(c{0}, d{0})\n"
    rows = "".join(row.format(k) for k in range(5))
    text = "HloModule m\nENTRY main {" + rows + "ROOT t = " + str(tuple(["s32[1000]"] * 5)).replace("'", "")
    text += " tuple(e0, e1, e2, e3, e4) }"
    context = PassContext()
    module = parse(text)
    parse_passes("constant-folding{total_work=10000}")[0].run(module, context)
    folded = [o.op is ops.CONSTANT for o in module.entry.root.operands]
    assert folded[0]
    assert not folded[-1]
    assert any("for all constants are used up" in note for note in context.notes)


def test_the_unroller_respects_its_room() -> None:
    module = parse(LOOP.replace("BOUND", "64"))
    parse_passes("while-loop-unroller{growth_limit=100}")[0].run(module, PassContext())
    assert module.entry.root.op is ops.WHILE
    run("while-loop-unroller", module)
    assert module.entry.root.op is ops.TUPLE
