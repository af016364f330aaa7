"""One instruction as a module of its own: how work is named in text, so that programs can be printed and saved.

The entry takes a parameter for each operand. An operand given twice is one value inside too, and a constant behind a
reduce-window's operand stays (kernels depend on both), so that the entry's root gets the very kernel that the
instruction got.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xyla.codegen.kernel import constant_behind
from xyla.formats.hlo_text import parse
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module, callees
from xyla.hlo.shape import Shape


def outline(inst: Instruction, leaves: Sequence[int] | None = None) -> Module:
    """A module whose entry does what `inst` does, on parameters of its operands' shapes.

    leaves: only those of its result are returned, as a tuple; the entry is then a call.
    """
    module = Module(inst.name)
    made: dict[Computation, Computation] = {}
    for comp in with_callees(inst.called):
        made[comp] = rewriter.clone_computation(comp, module, called=made)
    called = [made[c] for c in inst.called]
    part = _parameters_of(module.add_computation("part"), inst) if leaves is not None else None
    entry = _parameters_of(module.add_computation("main"), inst)
    module.set_entry(entry)
    if part is None or leaves is None:
        _add_root(entry, inst, called)
        return module
    root = _add_root(part, inst, called)
    paths = [index for index, _ in inst.shape.leaves()]
    parts = [_element(part, root, paths[leaf]) for leaf in leaves]
    part.set_root(part.add(ops.TUPLE, parts, shape=Shape.tuple_of(p.shape for p in parts)))
    entry.set_root(entry.add(ops.CALL, entry.parameters, ops.CallAttrs(), called=[part], shape=part.root.shape))
    return module


def _parameters_of(comp: Computation, inst: Instruction) -> Computation:
    for i, o in enumerate(inst.operands):
        comp.add(ops.PARAMETER, [], ops.ParameterAttrs(i), shape=o.shape)
    return comp


def _add_root(comp: Computation, inst: Instruction, called: list[Computation]) -> Instruction:
    """Makes the instruction the root of a computation that has its parameters."""
    first: dict[Instruction, Instruction] = {}
    pairs = zip(inst.operands, comp.parameters, strict=True)
    inner = [first.setdefault(o, _stand_in(inst, o, p, comp)) for o, p in pairs]
    root = rewriter.clone_instruction(inst, comp, inner, called=called)
    comp.set_root(root)
    return root


def _element(entry: Computation, value: Instruction, path: Sequence[int]) -> Instruction:
    for i in path:
        attrs = ops.IndexAttrs(i)
        value = entry.add(ops.GET_TUPLE_ELEMENT, [value], attrs, shape=value.shape.tuple_shapes[i])
    return value


def as_entry(comp: Computation) -> Module:
    """A module whose entry is a copy of `comp`."""
    module = Module(comp.name)
    made: dict[Computation, Computation] = {}
    for callee in with_callees([comp]):
        made[callee] = rewriter.clone_computation(callee, module, called=made)
    module.set_entry(made[comp])
    return module


def _stand_in(inst: Instruction, operand: Instruction, parameter: Instruction, entry: Computation) -> Instruction:
    """What the outlined instruction reads for `operand`."""
    constant = constant_behind(operand) if inst.op is ops.REDUCE_WINDOW else None
    if constant is None or operand.shape != constant.shape:
        return parameter
    return rewriter.clone_instruction(constant, entry, [], called=[])


def with_callees(called: Sequence[Computation]) -> list[Computation]:
    """Computations and all that they call, callees first."""
    wanted: dict[Computation, None] = {}
    stack = list(called)
    while stack:
        comp = stack.pop()
        if comp not in wanted:
            wanted[comp] = None
            stack.extend(callees(comp))
    return [c for c in called[0].module.computation_post_order() if c in wanted] if called else []


class Outlined:
    """A module that stands for one unit of work: made, written or read only when somebody asks.

    Equal when the texts are equal.
    """

    __slots__ = ("_make", "_module", "_text")

    def __init__(self, make: Callable[[], Module] | None = None, text: str | None = None) -> None:
        assert (make is None) != (text is None), "an outlined module is either made or read"
        self._make = make
        self._text = text
        self._module: Module | None = None

    @staticmethod
    def of(inst: Instruction) -> Outlined:
        """The module that does what `inst` does."""
        return Outlined(lambda: outline(inst))

    @property
    def text(self) -> str:
        """The module as HLO text; it ends with a line's end."""
        if self._text is None:
            self._text = str(self.module).rstrip("\n") + "\n"
        return self._text

    @property
    def module(self) -> Module:
        """The module. Raises INVALID_ARGUMENT when the text is none."""
        if self._module is None:
            self._module = self._make() if self._make is not None else parse(self._text or "", "hlo")
        return self._module

    @property
    def instruction(self) -> Instruction:
        """The instruction that does the work: the entry's root."""
        return self.module.entry.root

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outlined) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"<outlined {self.module.name}>"
