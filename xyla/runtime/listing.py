"""A program as a list of steps, for reading: one line a step, nested sequences indented."""

from __future__ import annotations

from xyla.runtime.program import (
    CustomCallStep,
    KernelStep,
    Program,
    Slice,
    Step,
    StepList,
    nested,
    slices_of,
)

# Words of a step besides its slices; a control-flow step names the sequences it runs.
_KINDS = {
    "KernelStep": "kernel", "CopyStep": "copy", "GemmStep": "gemm", "CustomCallStep": "custom-call",
    "CallStep": "call", "WhileStep": "while", "SwitchStep": "switch",
}  # fmt: skip


def listing(program: Program) -> str:
    """The steps in the order of running; a sequence that several places share is written out at the first.

    A slice prints as `allocation[first byte:end]`.
    """
    out = [f"{program.name}: {len(program.allocations)} allocations, {len(program.kernel_names)} kernels"]
    seen: set[int] = set()
    stack: list[tuple[int, Step | StepList]] = [(0, program.body)]
    while stack:
        depth, item = stack.pop()
        pad = "  " * depth
        if isinstance(item, StepList):
            again = id(item) in seen
            seen.add(id(item))
            out.append(f"{pad}{item.name}:{' (as above)' if again else ''}")
            if not again:
                stack.extend((depth + 1, step) for step in reversed(item.steps))
        else:
            out.append(pad + _line(item, program))
            stack.extend((depth + 1, body) for body in reversed(nested(item)))
    return "\n".join(out) + "\n"


def _line(step: Step, program: Program) -> str:
    extra = ""
    if isinstance(step, KernelStep):
        extra = f" {program.kernel_names[step.kernel]} x{step.launch_size}"
    elif isinstance(step, CustomCallStep):
        extra = f" {step.target}" + (f" ({step.reason})" if step.reason else "")
    slices = " ".join(map(_text, slices_of(step)))
    return f"{step.name}: {_KINDS[type(step).__name__]}{extra} {slices}".rstrip()


def _text(where: Slice) -> str:
    return f"{where.allocation}[{where.offset}:{where.offset + where.size}]"
