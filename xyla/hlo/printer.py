"""Modules as HLO text, in XLA's notation: the long form is canonical and reads back to an equal module.

Long: `%` before names, layouts, metadata, backend configurations, signatures. Short: none of these, for people.
Computations come callees first, instructions operands first (storage order where that already holds).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction, Metadata, Module, ModuleConfig, StackFrames
from xyla.hlo.op_def import Attrs, OpDef
from xyla.hlo.printer_attrs import attrs_text, frontend_text, ints, metadata_text, quote
from xyla.hlo.printer_literals import literal_text
from xyla.hlo.shape import Shape
from xyla.support.dtypes import PRED, all_types

# Names that read as something else without their `%`.
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_WORDS = frozenset(
    (
        "ROOT", "ENTRY", "HloModule", "FileNames", "FunctionNames", "FileLocations", "StackFrames", "true", "false",
        "inf", "nan", "maximal", "replicated", "manual", "unknown", "unreduced", "last_tile_dims",
        "last_tile_dim_replicate", "shard_as", "shard_like", "device", "devices", "metadata", "mesh", "b",
        *(t.name for t in all_types()),
    )
)  # fmt: skip


def print_module(module: Module, *, short: bool = False) -> str:
    """The module as text, with a final newline. Raises INVALID_ARGUMENT if the graph or the call graph has a cycle."""
    writer = _Writer(short)
    lines = [f"HloModule {module.name}{_config_text(module.config, short)}"]
    if not short:
        lines += _tables(module.stack_frames)
    for comp in module.computation_post_order():
        lines.append("")
        writer.computation(comp, lines)
        if comp.execution_thread:
            lines[-1] += f", execution_thread={quote(comp.execution_thread)}"
    lines.append("")
    return "\n".join(lines)


def print_computation(comp: Computation, *, short: bool = False) -> str:
    """One computation as text, without a final newline."""
    lines: list[str] = []
    _Writer(short).computation(comp, lines)
    return "\n".join(lines)


def print_instruction(inst: Instruction, *, short: bool = False) -> str:
    """One instruction as text, on one line unless an annotation has several."""
    return _Writer(short).instruction(inst)


class _Writer:
    """Formats instructions; texts of shared attribute records and metadata are made once."""

    __slots__ = ("_attrs", "_metadata", "_plain", "short")

    def __init__(self, short: bool) -> None:
        self.short = short
        # Keyed by identity: the records live as long as the module that is being printed.
        self._attrs: dict[int, str] = {}
        self._metadata: dict[int, str] = {}
        self._plain: dict[str, str] = {}

    def name(self, name: str) -> str:
        """A name with its `%`; without it in the short form, where it stays readable."""
        if not self.short:
            return "%" + name
        found = self._plain.get(name)
        if found is None:
            plain = _PLAIN_NAME.fullmatch(name) is not None and name not in _WORDS
            found = self._plain[name] = name if plain else "%" + name
        return found

    def computation(self, comp: Computation, lines: list[str]) -> None:
        """Appends the computation's lines; the last one is `}`."""
        entry = "ENTRY " if comp.is_entry else ""
        if self.short:
            lines.append(f"{entry}{self.name(comp.name)} {{")
        else:
            params = ", ".join(f"{p.name}: {p.shape.to_string(layouts=False)}" for p in comp.parameters)
            result = comp.root.shape.to_string(layouts=False)
            lines.append(f"{entry}%{comp.name} ({params}) -> {result} {{")
        root = comp.root
        for inst in comp.post_order():
            lines.append(("  ROOT " if inst is root else "  ") + self.instruction(inst))
        lines.append("}")

    def instruction(self, inst: Instruction) -> str:
        """`%name = shape opcode(operands), attributes, annotations`."""
        op = inst.op
        shape = inst.shape.to_string(layouts=False) if self.short else str(inst.shape)
        if op is ops.PARAMETER:
            inside = str(inst.attrs.number)
        elif op is ops.CONSTANT:
            inside = literal_text(inst.attrs.literal)
        elif self.short:
            inside = ", ".join([self.name(o.name) for o in inst.operands])
        elif len(inst.operands) <= 5:
            inside = ", ".join(["%" + o.name for o in inst.operands])
        else:
            # XLA marks every fifth operand, as it does tuple elements.
            marks = (f"/*index={i}*/" if i and i % 5 == 0 else "" for i in range(len(inst.operands)))
            inside = ", ".join([f"{mark}%{o.name}" for mark, o in zip(marks, inst.operands, strict=True)])
        text = f"{self.name(inst.name)} = {shape} {op.name}({inside}){self._attrs_text(op, inst.attrs)}"
        if inst.called:
            text += self._called_text(inst)
        return text + self._annotations(inst)

    def _attrs_text(self, op: OpDef[Any], attrs: Attrs) -> str:
        found = self._attrs.get(id(attrs))
        if found is None:
            found = self._attrs[id(attrs)] = attrs_text(op, attrs)
        return found

    def _called_text(self, inst: Instruction) -> str:
        op, names = inst.op, [self.name(c.name) for c in inst.called]
        if op is ops.CONDITIONAL and len(names) == 2 and _is_pred(inst.operands):
            return f", true_computation={names[0]}, false_computation={names[1]}"
        roles = op.called
        if roles and roles[-1].endswith("*"):
            return f", {roles[-1].rstrip('*')}={{{', '.join(names)}}}"
        return "".join(f", {role}={name}" for role, name in zip(roles, names, strict=True))

    def _annotations(self, inst: Instruction) -> str:
        parts = []
        if inst.sharding:
            parts.append(f", sharding={inst.sharding}")
        if inst.frontend_attributes:
            parts.append(f", frontend_attributes={frontend_text(inst.frontend_attributes)}")
        if inst.control_predecessors:
            names = ", ".join(self.name(p.name) for p in inst.control_predecessors)
            parts.append(f", control-predecessors={{{names}}}")
        if self.short:
            return "".join(parts)
        if inst.statistics:
            parts.append(f", statistics={inst.statistics}")
        if inst.origin:
            parts.append(f", origin={inst.origin}")
        if inst.metadata is not None:
            parts.append(f", metadata={self._metadata_text(inst.metadata)}")
        if inst.backend_config:
            parts.append(f", backend_config={inst.backend_config}")
        return "".join(parts)

    def _metadata_text(self, metadata: Metadata) -> str:
        found = self._metadata.get(id(metadata))
        if found is None:
            found = self._metadata[id(metadata)] = metadata_text(metadata)
        return found


def _is_pred(operands: tuple[Instruction, ...]) -> bool:
    return bool(operands) and operands[0].shape.element_type is PRED


def _config_text(config: ModuleConfig, short: bool) -> str:
    parts = []
    if config.is_scheduled:
        parts.append("is_scheduled=true")
    if config.input_output_aliases:
        parts.append(f"input_output_alias={_aliases_text(config)}")
    if config.buffer_donors:
        donors = ", ".join(f"({d.parameter}, {ints(d.parameter_index)})" for d in config.buffer_donors)
        parts.append(f"buffer_donor={{ {donors} }}")
    if config.entry_parameter_layouts is not None and config.entry_result_layout is not None and not short:
        parts.append(
            f"entry_computation_layout={_layout_text(config.entry_parameter_layouts, config.entry_result_layout)}"
        )
    parts += [f"{key}={text}" for key, text in config.raw]
    if config.replica_count != 1:
        parts.append(f"replica_count={config.replica_count}")
    if config.num_partitions != 1:
        parts.append(f"num_partitions={config.num_partitions}")
    if config.frontend_attributes:
        parts.append(f"frontend_attributes={frontend_text(config.frontend_attributes)}")
    return "".join(", " + p for p in parts)


def _aliases_text(config: ModuleConfig) -> str:
    items = (
        f"{ints(a.output_index)}: ({a.parameter}, {ints(a.parameter_index)}, {'must' if a.must else 'may'}-alias)"
        for a in config.input_output_aliases
    )
    return "{ " + ", ".join(items) + " }"


def _layout_text(params: Iterable[Shape], result: Shape) -> str:
    """XLA marks every fifth parameter, as it does tuple elements."""
    parts = [f"/*index={i}*/{p}" if i and i % 5 == 0 else str(p) for i, p in enumerate(params)]
    return f"{{({', '.join(parts)})->{result}}}"


def _tables(frames: StackFrames) -> list[str]:
    if not frames:
        return []
    lines = []
    for title, names in (("FileNames", frames.file_names), ("FunctionNames", frames.function_names)):
        lines += ["", title, *(f"{i} {quote(n)}" for i, n in enumerate(names, 1))]
    keys = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
    lines += ["", "FileLocations"]
    for i, location in enumerate(frames.locations, 1):
        fields = " ".join(f"{k}={v}" for k, v in zip(keys, location, strict=True))
        lines.append(f"{i} {{{fields}}}")
    lines += ["", "StackFrames"]
    lines += [f"{i} {{file_location_id={a} parent_frame_id={b}}}" for i, (a, b) in enumerate(frames.frames, 1)]
    return lines
