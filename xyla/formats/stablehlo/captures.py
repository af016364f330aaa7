"""Values that a region uses but does not define. HLO computations see only their parameters, so these are passed in."""

from __future__ import annotations

from xyla.formats.mlir.ir import Operation, Region, Value


def captured(region: Region) -> list[Value]:
    """Outer values used in `region`, nested regions included, in order of first use.

    Outer constants are left out: they are cloned where they are used.
    """
    defined: set[Value] = set()
    used: dict[Value, None] = {}
    for op in operations(region):
        defined.update(op.results)
        for inner in op.regions:
            for block in inner.blocks:
                defined.update(block.arguments)
        used.update(dict.fromkeys(op.operands))
    for block in region.blocks:
        defined.update(block.arguments)
    return [v for v in used if v not in defined and not is_constant(v)]


def operations(region: Region) -> list[Operation]:
    """Every operation in `region`, nested ones included, in source order; iterative."""
    out: list[Operation] = []
    stack = [op for block in reversed(region.blocks) for op in reversed(block.operations)]
    while stack:
        op = stack.pop()
        out.append(op)
        for inner in reversed(op.regions):
            for block in reversed(inner.blocks):
                stack.extend(reversed(block.operations))
    return out


def is_constant(value: Value) -> bool:
    """Whether the value is a constant operation's result."""
    return isinstance(value.owner, Operation) and value.owner.name == "stablehlo.constant"
