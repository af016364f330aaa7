"""Memory of the 50 models after the CPU's pipeline: heap against lower bound, schedule against the given order.

    python -m bench.memory

"given" is the same program in the order it came in; "alive" is what is alive at once at most, outputs included. MiB.
"""

from __future__ import annotations

import sys

from bench.tables import show
from xyla.analysis.call_graph import CallGraph
from xyla.buffers.assignment import BufferAssignment
from xyla.buffers.pipeline import assign_buffers
from xyla.buffers.profile import Profile
from xyla.compiler.optimise import optimise
from xyla.formats.detect import load_file
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Module
from xyla.lowering.layouts import agree
from xyla.targets.cpu.sharing import can_share
from xyla.testing import data
from xyla.testing.data import Model

WITHIN = 1.05


def optimised(model: Model) -> Module:
    """The model after the passes that a compilation runs."""
    module = load_file(model.hlo.read_bytes(), str(model.hlo))
    assert isinstance(module, Module)
    return agree(optimise(module, "default").module)


def in_given_order(module: Module) -> BufferAssignment:
    """The buffers of a module that keeps the order it is stored in."""
    for comp in module.computations.values():
        rewriter.restore_order(comp)
    module.config.is_scheduled = True
    return assign_buffers(module, can_share=can_share)


def loop_copies(module: Module) -> int:
    """Copies in the bodies and conditions of loops."""
    graph = CallGraph(module)
    return sum(inst.op is ops.COPY for comp in graph.control if graph.depth(comp) for inst in comp.instructions)


def main() -> None:
    """Prints the table; exits with 1 when two models or more are not within 5%, or a schedule is worse than given."""
    rows, far, worse = [], 0, 0
    for model in data.models():
        module = optimised(model)
        given = in_given_order(rewriter.clone_module(module))
        copies = loop_copies(module)
        found = assign_buffers(module, can_share=can_share)
        stats, alive, before = found.stats, Profile(found).peak, Profile(given).peak
        ratio = stats.temporaries / stats.lower_bound if stats.lower_bound else 1.0
        far += ratio > WITHIN
        worse += alive > before
        sizes = (stats.lower_bound, stats.temporaries, alive, before, stats.total, given.stats.total)
        mib = [size / 2**20 for size in sizes]
        rows.append((model.name, *mib[:2], ratio, *mib[2:], loop_copies(module) - copies))
    columns = ("model", "bound", "heap", "ratio", "alive", "alive, given", "total", "total, given", "copies in loops")
    show(f"{len(rows) - far} of {len(rows)} within 5% of the bound; {worse} worse than the given order", columns, rows)
    sys.exit(far > 2 or worse > 0)


if __name__ == "__main__":
    main()
