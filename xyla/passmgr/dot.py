"""A module as a Graphviz graph: one cluster a computation, one node an instruction."""

from __future__ import annotations

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction, Module

_COLOURS = {ops.PARAMETER: "orange", ops.CONSTANT: "lightgrey", ops.FUSION: "lightblue", ops.WHILE: "plum"}


def to_dot(module: Module) -> str:
    """The graph's text: data edges solid, control dependencies dotted, calls dashed to the callee's root."""
    number = {inst: i for i, inst in enumerate(module.instructions())}
    lines = ["digraph module {", "  node [shape=box, style=filled, fillcolor=white, fontsize=10];"]
    for i, comp in enumerate(module.computation_post_order()):
        lines += _cluster(i, comp, number)
    for inst, index in number.items():
        lines += [f"  n{number[o]} -> n{index};" for o in inst.operands]
        lines += [f"  n{number[p]} -> n{index} [style=dotted];" for p in inst.control_predecessors]
        lines += [f"  n{number[c.root]} -> n{index} [style=dashed];" for c in inst.called]
    return "\n".join([*lines, "}", ""])


def _cluster(index: int, comp: Computation, number: dict[Instruction, int]) -> list[str]:
    title = _quoted(("ENTRY " if comp.is_entry else "") + comp.name)
    nodes = [f"    n{number[inst]} [{_look(inst)}];" for inst in comp.post_order()]
    return [f"  subgraph cluster_{index} {{", f"    label={title};", *nodes, "  }"]


def _look(inst: Instruction) -> str:
    label = _quoted(f"{inst.name}\n{inst.op.name} {inst.shape.to_string(layouts=False)[:80]}")
    border = ", penwidth=3" if inst.is_root else ""
    colour = _COLOURS.get(inst.op)
    return f"label={label}" + (f", fillcolor={colour}" if colour else "") + border


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
