"""Instruction, Computation, Module: the graph.

Invariants (checked by `xyla.hlo.verifier`): operands live in the instruction's own computation; `users` counts uses;
a computation's root is in it; called computations belong to the module. All mutation after construction goes through
`xyla.hlo.rewriter`; readers and builders construct with `Computation.add` and `Module.add_computation`.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from xyla.hlo.op_def import NO_ATTRS, Attrs, OpDef
from xyla.hlo.shape import Shape
from xyla.support.status import internal, invalid

if TYPE_CHECKING:
    from xyla.support.diagnostics import Span

_IDS = count(1)


@dataclass(frozen=True, slots=True)
class Metadata:
    """OpMetadata: where an instruction came from. Fields that xyla has no use for are kept in `extra` (key, text)."""

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    source_end_line: int = 0
    source_column: int = 0
    source_end_column: int = 0
    stack_frame_id: int = 0
    deduplicated_name: str = ""
    scheduling_name: str = ""
    extra: tuple[tuple[str, str], ...] = ()


class Instruction:
    """An op applied to operands; owned by one computation.

    operands: tuple, in order. users: {user: number of uses}, in insertion order. called: the callees, by the
    op's roles. sharding, backend_config, statistics, origin: kept verbatim as text and printed back (braces included).
    frontend_attributes: sorted pairs. control_predecessors: instructions that must run first.
    """

    __slots__ = (
        "attrs", "backend_config", "called", "control_predecessors", "control_successors", "frontend_attributes", "id",
        "metadata", "name", "op", "operands", "origin", "parent", "shape", "sharding", "span", "statistics", "users",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        op: OpDef[Any],
        shape: Shape,
        operands: tuple[Instruction, ...],
        attrs: Attrs,
        called: tuple[Computation, ...],
        parent: Computation,
    ) -> None:
        self.id = next(_IDS)
        self.name = name
        self.op = op
        self.shape = shape
        self.operands = operands
        self.attrs: Any = attrs
        self.called = called
        self.parent = parent
        self.users: dict[Instruction, int] = {}
        self.control_predecessors: tuple[Instruction, ...] = ()
        self.control_successors: tuple[Instruction, ...] = ()
        self.metadata: Metadata | None = None
        self.sharding: str = ""
        self.backend_config: str = ""
        self.frontend_attributes: tuple[tuple[str, str], ...] = ()
        self.statistics: str = ""
        self.origin: str = ""
        self.span: Span | None = None

    @property
    def is_root(self) -> bool:
        """Whether it is its computation's root."""
        return self.parent.root_or_none is self

    @property
    def module(self) -> Module:
        """The module it lives in."""
        return self.parent.module

    def role(self, name: str) -> Computation:
        """The called computation in role `name` ("body", "to_apply"). Raises KeyError."""
        for role, comp in zip(self.op.called, self.called, strict=False):
            if role == name:
                return comp
        raise KeyError(name)

    def __repr__(self) -> str:
        args = ", ".join("%" + o.name for o in self.operands)
        return f"<%{self.name} = {self.shape} {self.op.name}({args})>"


class Computation:
    """A named graph with parameters and a root. `instructions` keeps insertion order (the schedule, when scheduled)."""

    __slots__ = (
        "_names", "_root", "callers", "execution_thread", "instructions", "module", "name", "parameters",
        "revision", "span",
    )  # fmt: skip

    def __init__(self, name: str, module: Module) -> None:
        self.name = name
        self.module = module
        self.instructions: dict[Instruction, None] = {}
        self.parameters: list[Instruction] = []
        self.callers: dict[Instruction, int] = {}
        self.execution_thread = ""
        self.revision = 0
        self.span: Span | None = None
        self._root: Instruction | None = None
        self._names: dict[str, Instruction] = {}

    @property
    def root(self) -> Instruction:
        """The value the computation returns."""
        if self._root is None:
            raise internal(f"computation {self.name!r} has no root")
        return self._root

    @property
    def root_or_none(self) -> Instruction | None:
        """The root, or None while the computation is being built."""
        return self._root

    @property
    def is_entry(self) -> bool:
        """Whether it is the module's entry."""
        return self.module.entry_or_none is self

    @property
    def program_shape(self) -> tuple[tuple[Shape, ...], Shape]:
        """(parameter shapes, result shape)."""
        return tuple(p.shape for p in self.parameters), self.root.shape

    def find(self, name: str) -> Instruction | None:
        """The instruction called `name`, or None."""
        return self._names.get(name)

    def add(
        self,
        op: OpDef[Any],
        operands: Sequence[Instruction] = (),
        attrs: Attrs = NO_ATTRS,
        *,
        called: Sequence[Computation] = (),
        shape: Shape | None = None,
        name: str = "",
    ) -> Instruction:
        """Appends an instruction; `shape` defaults to the op's inferred shape.

        Raises INVALID_ARGUMENT when inference fails or when the op states its own shape and none is given.
        """
        operands, called = tuple(operands), tuple(called)
        if shape is None:
            if op.infer is None:
                raise invalid(f"{op.name} states its own shape: pass one")
            shape = op.infer([o.shape for o in operands], attrs, called)
        inst = Instruction(self.unique_name(name or op.name), op, shape, operands, attrs, called, self)
        self.link(inst)
        return inst

    def link(self, inst: Instruction) -> None:
        """Inserts a constructed instruction at the end and records its uses (for readers and the rewriter)."""
        self.instructions[inst] = None
        self._names[inst.name] = inst
        for o in inst.operands:
            o.users[inst] = o.users.get(inst, 0) + 1
        for c in inst.called:
            c.callers[inst] = c.callers.get(inst, 0) + 1
        if inst.op.name == "parameter":
            self._link_parameter(inst)
        self.revision += 1

    def _link_parameter(self, inst: Instruction) -> None:
        self.parameters.append(inst)
        params = self.parameters
        # Parameters nearly always come in order; one that does not is put in its place.
        if len(params) > 1 and params[-2].attrs.number > inst.attrs.number:
            insort(params, params.pop(), key=lambda p: p.attrs.number)

    def set_root(self, inst: Instruction) -> None:
        """Makes `inst` the value the computation returns."""
        assert inst.parent is self
        self._root = inst
        self.revision += 1

    def unique_name(self, base: str) -> str:
        """`base` if free in this computation, else `base.N` (an existing numeric suffix is replaced)."""
        if base not in self._names:
            return base
        stem = base
        head, dot, tail = base.rpartition(".")
        if dot and tail.isdigit():
            stem = head
        while (name := f"{stem}.{self.module.next_suffix(stem)}") in self._names:
            pass
        return name

    def forget_name(self, inst: Instruction) -> None:
        """Frees an erased instruction's name (for the rewriter)."""
        if self._names.get(inst.name) is inst:
            del self._names[inst.name]

    def rename(self, inst: Instruction, name: str) -> None:
        """Gives an instruction another name, one that is free here (for the rewriter)."""
        assert self._names.get(name, inst) is inst
        self.forget_name(inst)
        inst.name = name
        self._names[name] = inst

    def post_order(self) -> list[Instruction]:
        """Every instruction, operands and control predecessors first; storage order kept where it already is one.

        Iterative and linear. Raises INVALID_ARGUMENT on a cycle.
        """
        done: set[int] = set()
        out: list[Instruction] = []
        for start in self.instructions:
            if start.id in done:
                continue
            if _is_ready(start, done):  # nearly always: storage order is an order already
                done.add(start.id)
                out.append(start)
            else:
                _visit_from(start, done, out)
        return out

    def reachable_from_root(self) -> set[Instruction]:
        """Instructions that the root needs, through operands and control predecessors."""
        seen = {self.root}
        stack = [self.root]
        while stack:
            inst = stack.pop()
            for o in (*inst.operands, *inst.control_predecessors):
                if o not in seen:
                    seen.add(o)
                    stack.append(o)
        return seen

    def __repr__(self) -> str:
        return f"<computation {self.name}: {len(self.instructions)} instructions>"


def _is_ready(inst: Instruction, done: set[int]) -> bool:
    for need in inst.operands:
        if need.id not in done:
            return False
    return all(need.id in done for need in inst.control_predecessors) if inst.control_predecessors else True


def _visit_from(start: Instruction, done: set[int], out: list[Instruction]) -> None:
    """Depth-first from `start`; appends to `out` in post order. A node met while still open is a cycle."""
    stack: list[tuple[Instruction, Iterator[Instruction]]] = []
    open_: set[int] = set()

    def push(inst: Instruction) -> None:
        open_.add(inst.id)
        needs = (*inst.operands, *inst.control_predecessors) if inst.control_predecessors else inst.operands
        stack.append((inst, iter(needs)))

    push(start)
    while stack:
        inst, needs = stack[-1]
        for need in needs:
            if need.id in done:
                continue
            if need.id in open_:
                raise invalid(f"cycle through instruction %{need.name}", span=need.span)
            push(need)
            break
        else:
            stack.pop()
            open_.discard(inst.id)
            done.add(inst.id)
            out.append(inst)


@dataclass(frozen=True, slots=True)
class InputOutputAlias:
    """Entry output `output_index` shares its buffer with parameter (`parameter`, `parameter_index`)."""

    output_index: tuple[int, ...]
    parameter: int
    parameter_index: tuple[int, ...]
    must: bool = False  # must-alias; otherwise may-alias


@dataclass(frozen=True, slots=True)
class BufferDonor:
    """A parameter buffer the caller gives up."""

    parameter: int
    parameter_index: tuple[int, ...]


@dataclass(slots=True)
class ModuleConfig:
    """What a module says beside its computations. Text that only passes through is kept in `raw` (key, text)."""

    entry_parameter_layouts: tuple[Shape, ...] | None = None
    entry_result_layout: Shape | None = None
    input_output_aliases: tuple[InputOutputAlias, ...] = ()
    buffer_donors: tuple[BufferDonor, ...] = ()
    replica_count: int = 1
    num_partitions: int = 1
    is_scheduled: bool = False
    frontend_attributes: tuple[tuple[str, str], ...] = ()
    raw: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class StackFrames:
    """The module's metadata tables (1-based ids): file names, function names, locations, frames.

    locations: (file_name_id, function_name_id, line, end_line, column, end_column).
    frames: (location_id, parent_frame_id).
    """

    file_names: list[str] = field(default_factory=list)
    function_names: list[str] = field(default_factory=list)
    locations: list[tuple[int, ...]] = field(default_factory=list)
    frames: list[tuple[int, int]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.file_names or self.function_names or self.locations or self.frames)


class Module:
    """A program: computations by name, the entry, and the configuration."""

    __slots__ = ("_entry", "_suffixes", "computations", "config", "name", "proto_extra", "stack_frames")

    def __init__(self, name: str) -> None:
        self.name = name
        self.computations: dict[str, Computation] = {}
        self.config = ModuleConfig()
        self.stack_frames = StackFrames()
        # Unknown fields of a proto this module was read from, so that writing it back loses nothing.
        self.proto_extra: bytes = b""
        self._entry: Computation | None = None
        self._suffixes: dict[str, int] = {}

    @property
    def entry(self) -> Computation:
        """The computation a caller runs. Raises INVALID_ARGUMENT when there is none."""
        if self._entry is None:
            raise invalid(f"module {self.name!r} has no ENTRY computation")
        return self._entry

    @property
    def entry_or_none(self) -> Computation | None:
        """The entry, or None while the module is being built."""
        return self._entry

    def set_entry(self, comp: Computation) -> None:
        """Makes `comp` the entry."""
        self._entry = comp

    def add_computation(self, name: str) -> Computation:
        """A new, empty computation; its name is made unique."""
        unique = name
        while unique in self.computations:
            unique = f"{name}.{self.next_suffix(name)}"
        comp = Computation(unique, self)
        self.computations[unique] = comp
        return comp

    def next_suffix(self, stem: str) -> int:
        """The next number to try for names that start with `stem`."""
        n = self._suffixes.get(stem, 0) + 1
        self._suffixes[stem] = n
        return n

    def instructions(self) -> Iterator[Instruction]:
        """Every instruction of every computation, in storage order."""
        for comp in self.computations.values():
            yield from comp.instructions

    @property
    def num_instructions(self) -> int:
        """Instructions in all computations."""
        return sum(len(c.instructions) for c in self.computations.values())

    def computation_post_order(self) -> list[Computation]:
        """Every computation, callees before callers; deterministic. Raises INVALID_ARGUMENT on a cyclic call graph."""
        done: dict[Computation, None] = {}
        for start in self.computations.values():
            if start not in done:
                _visit_computations(start, done)
        return list(done)

    def entry_parameter_shapes(self) -> tuple[Shape, ...]:
        """Shapes, with layouts, in which the caller passes arguments."""
        layouts = self.config.entry_parameter_layouts
        return layouts if layouts is not None else tuple(p.shape for p in self.entry.parameters)

    def entry_result_shape(self) -> Shape:
        """Shape, with layout, in which the caller receives the result."""
        return self.config.entry_result_layout or self.entry.root.shape

    def to_string(self, *, short: bool = False) -> str:
        """HLO text: canonical long form, or the short form."""
        from xyla.hlo.printer import print_module

        return print_module(self, short=short)

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"<module {self.name}: {len(self.computations)} computations>"


def callees(comp: Computation) -> Iterable[Computation]:
    """The computations that `comp`'s instructions call, each once, in order of first call."""
    return dict.fromkeys(c for inst in comp.instructions for c in inst.called)


def _visit_computations(start: Computation, done: dict[Computation, None]) -> None:
    stack = [(start, iter(callees(start)))]
    open_ = {start}
    while stack:
        comp, rest = stack[-1]
        for callee in rest:
            if callee in done:
                continue
            if callee in open_:
                raise invalid(f"computation {callee.name!r} calls itself", span=callee.span)
            open_.add(callee)
            stack.append((callee, iter(callees(callee))))
            break
        else:
            stack.pop()
            open_.discard(comp)
            done[comp] = None
