"""What the CPU's pipeline costs: generated modules of growing size, and transformer_grad, with the slowest passes.

    python -m bench.pipeline_cost [--sizes 2500 5000 10000] [--repeat 2] [--kinds mixed chain wide]

Generated modules are of three kinds: `mixed` (random well-typed programs joined), `chain` (a long chain of arithmetic
that simplifies), `wide` (many short independent chains of movement ops). Bars: 5,000 instructions in 5 s; twice the
size in at most 2.3 times the time; transformer_grad in 0.4 s. Times are of passes alone: no reading, cloning, lowering.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable

from bench.tables import show
from xyla import load
from xyla.formats.hlo_text import parse
from xyla.hlo import rewriter
from xyla.hlo.module import Computation, Module
from xyla.passmgr.context import PassContext
from xyla.passmgr.pipeline import Run, StepRecord
from xyla.passmgr.report import totals
from xyla.targets.cpu.pipeline import cpu_pipeline
from xyla.testing import data
from xyla.testing.modules import random_module

# Larger modules hold the same programs more often, so that their times can be compared.
PROGRAMS = 24
BAR_SECONDS, BAR_GROWTH, BAR_TRANSFORMER = 5.0, 2.3, 0.4


_LINKS = ("add({}, z)", "multiply({}, o)", "subtract({}, y)", "negate({})", "add({}, y)", "maximum({}, y)")


def mixed(size: int) -> Module:
    """Random programs of 60 instructions each, called one after another by an entry that returns all results."""
    from xyla.hlo import ops

    module = Module(f"mixed_{size}")
    entry = module.add_computation("main")
    results = []
    seed = 0
    while module.num_instructions < size:
        part = random_module(seed % PROGRAMS, 60)
        seed += 1
        made: dict[Computation, Computation] = {}
        for comp in part.computation_post_order():
            if comp is not part.entry:
                made[comp] = rewriter.clone_computation(comp, module, name=f"{comp.name}.{seed}", called=made)
        placed = {}
        for inst in part.entry.post_order():
            if inst.op is ops.PARAMETER:
                attrs = ops.ParameterAttrs(len(entry.parameters))
                placed[inst] = entry.add(ops.PARAMETER, (), attrs, shape=inst.shape)
            else:
                called = [made[c] for c in inst.called]
                placed[inst] = rewriter.clone_instruction(
                    inst, entry, [placed[o] for o in inst.operands], called=called
                )
        results.append(placed[part.entry.root])
    entry.set_root(entry.add(ops.TUPLE, results))
    module.set_entry(entry)
    return module


def chain(size: int) -> Module:
    """x + 0, * 1, - b, max, negate of negate, ... in one chain."""
    rng = random.Random(0)
    lines = [
        "x = f32[8,8] parameter(0)",
        "y = f32[8,8] parameter(1)",
        "zero = f32[] constant(0)",
        "one = f32[] constant(1)",
    ]
    lines += ["z = f32[8,8] broadcast(zero), dimensions={}", "o = f32[8,8] broadcast(one), dimensions={}"]
    last = "x"
    for i in range(size - len(lines) - 1):
        op = rng.choice(
            ("add({}, z)", "multiply({}, o)", "subtract({}, y)", "negate({})", "add({}, y)", "maximum({}, y)")
        )
        lines.append(f"v{i} = f32[8,8] {op.format(last)}")
        last = f"v{i}"
    lines.append(f"ROOT r = f32[8,8] copy({last})")
    return parse("HloModule chain\n\nENTRY main {\n  " + "\n  ".join(lines) + "\n}\n", "chain")


def wide(size: int) -> Module:
    """Independent chains: reshape, transpose there and back, slice, pad, broadcast, reduce, summed up at the end."""
    lines = ["x = f32[16,32] parameter(0)", "zero = f32[] constant(0)"]
    results: list[str] = []
    i = 0
    while len(lines) + len(results) < size - 30:
        lines += [
            f"a{i} = f32[512] reshape(x)",
            f"b{i} = f32[16,32] reshape(a{i})",
            f"c{i} = f32[32,16] transpose(b{i}), dimensions={{1,0}}",
            f"d{i} = f32[16,32] transpose(c{i}), dimensions={{1,0}}",
            f"e{i} = f32[16,16] slice(d{i}), slice={{[0:16], [{i % 16}:{i % 16 + 16}]}}",
            f"f{i} = f32[16,32] pad(e{i}, zero), padding=0_0x8_8",
            f"g{i} = f32[16,32] multiply(f{i}, x)",
            f"h{i} = f32[16] reduce(g{i}, zero), dimensions={{1}}, to_apply=sum",
        ]
        results.append(f"h{i}")
        i += 1
    lines.append(f"ROOT r = ({', '.join(['f32[16]'] * len(results))}) tuple({', '.join(results)})")
    reducer = "sum {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT s = f32[] add(p, q)\n}\n\n"
    return parse(f"HloModule wide\n\n{reducer}ENTRY main {{\n  " + "\n  ".join(lines) + "\n}\n", "wide")


def measure(module: Module, repeat: int) -> tuple[float, Run]:
    """The least processor seconds of several runs of the pipeline on copies, and the last run.

    Passes run on one thread, so on an idle machine these are seconds of the clock.
    """
    best = float("inf")
    pipeline = cpu_pipeline()  # imports the passes
    for _ in range(repeat):
        copy = rewriter.clone_module(module)
        run = Run(copy, PassContext())
        gc.collect()
        start = time.process_time()
        run.pipeline(pipeline)
        best = min(best, time.process_time() - start)
    return best, run


def slowest(records: list[StepRecord], count: int) -> str:
    """The slowest steps with their milliseconds."""
    rows = sorted(totals(records), key=lambda t: -t.seconds)[:count]
    return ", ".join(f"{t.name} {t.seconds * 1e3:.0f}" for t in rows)


def main() -> int:
    """Prints the table; returns 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2500, 5000, 10000])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", default=["mixed", "chain", "wide"])
    options = parser.parse_args()
    makers: dict[str, Callable[[int], Module]] = {"mixed": mixed, "chain": chain, "wide": wide}
    rows: list[tuple[object, ...]] = []
    missed = False
    for kind in options.kinds:
        before = 0.0
        for size in options.sizes:
            module = makers[kind](size)
            seconds, run = measure(module, options.repeat)
            growth = seconds / before if before else 0.0
            missed |= (size <= 5000 and seconds > BAR_SECONDS) or growth > BAR_GROWTH
            counts = (module.num_instructions, run.module.num_instructions, run.ctx.control.number)
            rows.append(
                (f"{kind} {size}", *counts, seconds, f"{growth:.2f}" if growth else "", slowest(run.records, 5))
            )
            before = seconds
    if data.shared_dir() is not None:
        model = next(m for m in data.models() if m.name == "transformer_grad")
        module = load(str(model.stablehlo))
        seconds, run = measure(module, options.repeat)
        missed |= seconds > BAR_TRANSFORMER
        counts = (module.num_instructions, run.module.num_instructions, run.ctx.control.number)
        rows.append(("transformer_grad", *counts, seconds, "", slowest(run.records, 5)))
    columns = ("module", "before", "after", "rewrites", "s", "growth", "slowest steps, ms")
    show("the CPU's pipeline", columns, rows)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
