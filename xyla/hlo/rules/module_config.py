"""Rules of a module's configuration: entry layouts, input/output aliases, buffer donors, schedules.

Source: hlo.proto (HloInputOutputAliasProto, HloBufferDonorProto) and XLA's aliasing documentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xyla.hlo.rules.common import bare, braces, same
from xyla.hlo.shape import Shape
from xyla.support.status import XylaError, invalid

if TYPE_CHECKING:
    from xyla.hlo.module import Computation, Module


def config_problems(module: Module) -> Iterator[XylaError]:
    """Every problem of the module's configuration (the entry's structure is sound)."""
    yield from _entry_layout_problems(module)
    yield from _alias_problems(module)
    yield from _donor_problems(module)
    config = module.config
    if config.replica_count < 1:
        yield invalid(f"replica_count is {config.replica_count}, expected at least 1")
    if config.num_partitions < 1:
        yield invalid(f"num_partitions is {config.num_partitions}, expected at least 1")
    if config.is_scheduled:
        for comp in module.computations.values():
            yield from _schedule_problems(comp)


def _entry_layout_problems(module: Module) -> Iterator[XylaError]:
    entry, config = module.entry, module.config
    layouts = config.entry_parameter_layouts
    if layouts is not None:
        if len(layouts) != len(entry.parameters):
            yield invalid(
                f"entry_computation_layout has {len(layouts)} parameters, "
                f"computation {entry.name!r} {len(entry.parameters)}",
                span=entry.span,
            )
            return
        for param, layout in zip(entry.parameters, layouts, strict=True):
            if not same(param.shape, layout):
                yield invalid(
                    f"entry_computation_layout gives parameter %{param.name} {bare(layout)}, "
                    f"expected {bare(param.shape)}",
                    span=param.span,
                )
    result = config.entry_result_layout
    if result is not None and not same(result, entry.root.shape):
        yield invalid(
            f"entry_computation_layout gives result {bare(result)}, expected {bare(entry.root.shape)}",
            span=entry.root.span,
        )


def _parameter_leaf(module: Module, parameter: int, index: tuple[int, ...]) -> Shape:
    params = module.entry.parameters
    if not 0 <= parameter < len(params):
        raise invalid(f"names parameter {parameter} of {len(params)}")
    return params[parameter].shape.subshape(index)


def _alias_problems(module: Module) -> Iterator[XylaError]:
    inputs: set[tuple[int, tuple[int, ...]]] = set()
    outputs: set[tuple[int, ...]] = set()
    for alias in module.config.input_output_aliases:
        what = f"input_output_alias of output {braces(alias.output_index)}"
        try:
            out = module.entry.root.shape.subshape(alias.output_index)
            leaf = _parameter_leaf(module, alias.parameter, alias.parameter_index)
        except XylaError as error:
            yield invalid(f"{what}: {error.message}")
            continue
        if out.is_tuple or leaf.is_tuple:
            yield invalid(f"{what}: aliases a tuple, expected array buffers")
        elif not _same_buffer(out, leaf):
            yield invalid(f"{what}: output is {bare(out)}, parameter {alias.parameter} gives {bare(leaf)}")
        key = (alias.parameter, alias.parameter_index)
        if key in inputs:
            yield invalid(f"{what}: parameter {alias.parameter} {braces(alias.parameter_index)} is aliased twice")
        if alias.output_index in outputs:
            yield invalid(f"{what}: the output is aliased twice")
        inputs.add(key)
        outputs.add(alias.output_index)


def _same_buffer(a: Shape, b: Shape) -> bool:
    """Whether one buffer can hold either: equal storage sizes."""
    if a.is_unbounded or b.is_unbounded:
        return True
    return a.num_bytes == b.num_bytes


def _donor_problems(module: Module) -> Iterator[XylaError]:
    aliased = {(a.parameter, a.parameter_index) for a in module.config.input_output_aliases}
    seen: set[tuple[int, tuple[int, ...]]] = set()
    for donor in module.config.buffer_donors:
        what = f"buffer_donor parameter {donor.parameter} {braces(donor.parameter_index)}"
        try:
            _parameter_leaf(module, donor.parameter, donor.parameter_index)
        except XylaError as error:
            yield invalid(f"{what}: {error.message}")
            continue
        key = (donor.parameter, donor.parameter_index)
        if key in seen:
            yield invalid(f"{what}: is given twice")
        if key in aliased:
            yield invalid(f"{what}: is also in input_output_alias")
        seen.add(key)


def _schedule_problems(comp: Computation) -> Iterator[XylaError]:
    """A scheduled module's storage order runs operands first."""
    done: set[int] = set()
    for inst in comp.instructions:
        for need in (*inst.operands, *inst.control_predecessors):
            if need.id not in done:
                yield invalid(
                    f"%{inst.name} = {inst.op.name}: is scheduled before %{need.name}, which it needs", span=inst.span
                )
                return
        done.add(inst.id)
