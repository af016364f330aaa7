"""The pipeline `lmhlo-to-rt`: tokens checked, constants made arguments, every operation lowered by its rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from xyla.hlo.module import Instruction
from xyla.lowering import lmhlo
from xyla.lowering.arrays import physical_bytes
from xyla.lowering.lmhlo_to_rt import (
    collectives,
    control,
    convolutions,
    kernels,
    outside,
    products,
    transforms,
)
from xyla.lowering.lmhlo_to_rt.interface import Interface
from xyla.lowering.lmhlo_to_rt.table import RULES, Context, lower_blocks
from xyla.lowering.units import Unit
from xyla.runtime.objects import KernelSource
from xyla.runtime.program import Allocation, AllocationKind, Program, StepList
from xyla.support.status import invalid, unimplemented

PIPELINE = "lmhlo-to-rt"
FAMILIES = (kernels, control, products, convolutions, transforms, collectives, outside)
_OPTION = re.compile(r"([\w-]+)=(\d+)")


@dataclass(frozen=True, slots=True)
class Options:
    """min_num_elements: constants of fewer elements stay globals on the host, where their argument is not used."""

    min_num_elements: int = 0

    @staticmethod
    def parse(text: str) -> Options:
        """`lmhlo-to-rt` or `lmhlo-to-rt{min-num-elements=2}`. Raises INVALID_ARGUMENT for anything else."""
        name, brace, rest = text.strip().partition("{")
        if name != PIPELINE or (brace and not rest.endswith("}")):
            raise invalid(f"{text!r} is not {PIPELINE} or {PIPELINE}{{min-num-elements=N}}")
        found = Options()
        for part in rest.removesuffix("}").split():
            option = _OPTION.fullmatch(part)
            if option is None or option[1] != "min-num-elements":
                raise invalid(f"{PIPELINE} has no option {part!r}, only min-num-elements=N")
            found = Options(int(option[2]))
        return found

    def __str__(self) -> str:
        return f"{PIPELINE}{{min-num-elements={self.min_num_elements}}}"


@dataclass(slots=True)
class Lowered:
    """A runtime program, its kernels' sources in the order of `program.kernel_names`, and what each operation became.

    temp_bytes: the size of the program's temporary memory.
    """

    program: Program
    sources: list[KernelSource] = field(default_factory=list)
    units: list[tuple[str, Unit]] = field(default_factory=list)

    @property
    def temp_bytes(self) -> int:
        """Bytes of temporary memory of one run."""
        return sum(a.size for a in self.program.allocations if a.kind is AllocationKind.TEMP)


def lower(
    module: lmhlo.Module, emit: Callable[[Instruction], Unit] | None = None, options: Options | None = None
) -> Lowered:
    """The runtime program of a buffer-level one.

    emit: the target's unit of work for an instruction, for launches that come from text. Raises located errors:
    UNIMPLEMENTED for what the runtime has no call for, INVALID_ARGUMENT for what makes no sense.
    """
    collectives.check_tokens(module)
    interface = Interface(module)
    allocations = interface.allocations()
    constants = _constants(module, allocations, options or Options())
    context = Context(module, emit or _no_target, allocations, constants)
    body = StepList("entry")
    context.pending.append((module.entry, module.entry.body, body))
    lower_blocks(context)
    arguments, outputs = interface.arguments(), interface.outputs()
    program = Program(module.name, allocations, arguments, outputs, body, list(context.kernels), context.kernel_hlo)
    return Lowered(program, list(context.sources.values()), context.units)


def _no_target(inst: Instruction) -> Unit:
    raise unimplemented(f"%{inst.name}: a launch needs a target that has a kernel for it", span=inst.span)


def _constants(module: lmhlo.Module, allocations: list[Allocation], options: Options) -> list[int]:
    """The allocation of each global: its argument, or memory of the host where it has none or is too small for one."""
    carried = {a.constant_name: i for i, a in enumerate(module.entry.arguments) if a.constant_name is not None}
    places: list[int] = []
    for g in module.globals:
        place = carried.get(g.name)
        if place is None or g.literal.shape.num_elements < options.min_num_elements:
            place = len(allocations)
            data = physical_bytes(g.literal)
            allocations.append(Allocation(AllocationKind.CONSTANT, data.size, data=data, on_host=True))
        places.append(place)
    return places


def missing_rules() -> list[str]:
    """The operations that no rule lowers, by name."""
    return [op.NAME for op in lmhlo.all_ops() if op not in RULES]
