"""Prepares (orders, copies), assigns and verifies the buffers of every program of the shared corpus that loads.

    python -m bench.buffers_corpus                 all of them
    python -m bench.buffers_corpus --sample 20     every 20th
    python -m bench.buffers_corpus --optimise      after the CPU's pipeline

Prints a line a failure (an INTERNAL error or an exception; refusals are counted), the counts, how near the heaps are to
their lower bounds, and the processor time by stage.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import process_time

from bench.tables import show
from xyla.analysis.alias import Aliases
from xyla.analysis.dataflow import Dataflow
from xyla.analysis.timeline import LiveRanges, Timeline
from xyla.buffers.assignment import BufferAssignment, assign
from xyla.buffers.copies import move_copies_up
from xyla.buffers.verifier import verify_assignment
from xyla.compiler.optimise import optimise
from xyla.formats.detect import load_file
from xyla.hlo import ops
from xyla.hlo.module import Module
from xyla.hlo.verifier import verify
from xyla.lowering.layouts import agree
from xyla.passmgr.context import PassContext
from xyla.passmgr.pipeline import Run
from xyla.support.status import Status, XylaError
from xyla.targets.cpu.pipeline import emit_preparation
from xyla.targets.cpu.sharing import can_share
from xyla.testing import data

STAGES = ("prepare", "assign", "verify")


class Sweep:
    """Outcomes, heap sizes and times of all programs."""

    def __init__(self, optimised: bool) -> None:
        self.optimised = optimised
        self.outcomes: Counter[str] = Counter()
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.ratios: list[tuple[float, str]] = []
        self.instructions = self.copies = 0

    def run(self, path: Path) -> None:
        """One program."""
        try:
            module = load_file(path.read_bytes(), str(path))
            if not isinstance(module, Module):
                self.outcomes["dynamic"] += 1
                return
            verify(module)
            if self.optimised:
                module = agree(optimise(module, "default").module)
            self.outcomes["ok"] += 1
            self._note(path, self._plan(module))
        except XylaError as error:
            if error.status is Status.INTERNAL:
                print(f"{path.name}: {error.message[:300]}", flush=True)
            self.outcomes[error.status.name] += 1
        except Exception as error:  # finding these is what this script is for
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(frame.filename).name}:{frame.lineno}"
            print(f"{path.name}: {type(error).__name__}: {str(error)[:200]} at {where}", flush=True)
            self.outcomes["EXCEPTION"] += 1

    def _plan(self, module: Module) -> BufferAssignment:
        self.instructions += module.num_instructions
        times = [process_time()]
        before = _copies(module)
        Run(module, PassContext()).pipeline(emit_preparation(can_share, lambda fusion: True))
        self.copies += _copies(module) - before
        times.append(process_time())
        dataflow = Dataflow(module)
        ranges, aliases = LiveRanges(Timeline(module, dataflow.graph), dataflow), Aliases(dataflow, can_share)
        if move_copies_up(dataflow, aliases, ranges):
            ranges = LiveRanges(Timeline(module, dataflow.graph), dataflow)
        found = assign(module, dataflow, aliases, ranges, can_share=can_share)
        times.append(process_time())
        verify_assignment(found, can_share)
        times.append(process_time())
        for stage, first, last in zip(STAGES, times, times[1:], strict=False):
            self.seconds[stage] += last - first
        return found

    def _note(self, path: Path, found: BufferAssignment) -> None:
        stats = found.stats
        if stats.lower_bound:
            self.ratios.append((stats.temporaries / stats.lower_bound, path.name))


def _copies(module: Module) -> int:
    return sum(inst.op is ops.COPY for inst in module.instructions())


def programs(sample: int) -> Iterator[Path]:
    """HLO modules, StableHLO tests and models of the corpus, every `sample`-th."""
    paths = [case.path for case in data.hlo_modules() if case.loadable]
    paths += data.hlo_files() + data.stablehlo_files() + [m.hlo for m in data.models()]
    yield from paths[::sample]


def main() -> None:
    """Prints the tables; exits with 1 when something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every N-th program")
    parser.add_argument("--optimise", action="store_true", help="after the CPU's pipeline")
    options = parser.parse_args()
    sweep = Sweep(options.optimise)
    for path in programs(options.sample):
        sweep.run(path)
    show("programs by outcome", ("outcome", "programs"), sweep.outcomes.most_common())
    over = sorted((r for r in sweep.ratios if r[0] > 1.05), reverse=True)
    show(f"heap over lower bound: {len(over)} of {len(sweep.ratios)} above 1.05", ("program", "ratio"), [
        (name, ratio) for ratio, name in over[:10]
    ])  # fmt: skip
    rows = [(stage, s, 1e6 * s / max(1, sweep.instructions)) for stage, s in sweep.seconds.items()]
    title = f"{sweep.instructions} instructions, {sweep.copies} copies inserted"
    show(title, ("stage", "seconds", "us an instruction"), rows)
    sys.exit(bool(sweep.outcomes["INTERNAL"] or sweep.outcomes["EXCEPTION"]))


if __name__ == "__main__":
    main()
