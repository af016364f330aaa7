"""The element emitter of whole graphs: `emit(inst, index)` writes the value of one element (or one vector of them).

Rules are generators keyed by op: they yield `Request`s for operand elements and return the value, so that a driver with
an explicit stack runs them (chains may be 10,000 deep). Values are memoised by (instruction, position, predicate), in
scopes that follow the control flow being written. A value has either the kernel's lane count or one lane (uniform).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from types import GeneratorType
from typing import Any, cast

from xyla.codegen.elements import (
    ELEMENT,
    Site,
    convert,
    element_constant,
    gather_element,
    load_element,
    memory_type,
    splat_element,
)
from xyla.codegen.elements_types import from_memory
from xyla.codegen.index import SCALAR, Index, IndexMath, Ix, delinearize, number
from xyla.codegen.kernel import Frame
from xyla.codegen.llvm import Cx, Val, Value
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_table import OpTable
from xyla.hlo.shape import Shape
from xyla.support.dtypes import ElementType
from xyla.support.status import unimplemented

Values = Value | tuple[Any, ...]  # tuples of values for tuple-shaped instructions


class Request:
    """An operand element that a rule asks for."""

    __slots__ = ("index", "inst", "pred")

    def __init__(self, inst: Instruction, index: Index, pred: Val | None) -> None:
        self.inst = inst
        self.index = index
        self.pred = pred


# What a rule gives: its value at once, or a generator that asks for operand elements first.
Rule = Generator[Request, Any, Any]
EMIT: OpTable[Any] = OpTable("the graph emitter")

# How many (instruction, position) pairs one loop body may hold, relative to its instructions, before it counts as
# blown up (a value used at many different positions is computed again for each).
BLOWUP_FACTOR = 12
BLOWUP_FLOOR = 600


class NeedScalarError(Exception):
    """The graph holds something that only scalar code can do (branches in a called computation)."""


class Leaf:
    """A buffer that holds an instruction's value."""

    __slots__ = ("ptr", "shape", "strides")

    def __init__(self, ptr: Val, shape: Shape) -> None:
        self.ptr = ptr
        self.shape = shape
        self.strides = physical_strides(shape)


def physical_strides(shape: Shape) -> tuple[int, ...]:
    """Strides of an array's layout, 0 for unit dimensions, so that they compare equal whenever memory order is."""
    return tuple(0 if n == 1 else s for n, s in zip(shape.dims, shape.strides(), strict=True))


class Emitter:
    """Writes element computations into a kernel's frame.

    `mask` (None: all lanes) says which lanes of the current loop iteration exist: loads leave the others alone.
    """

    def __init__(self, frame: Frame, lanes: int, ity: str) -> None:
        self.frame = frame
        self.b = frame.b
        self.lanes = lanes
        self.m = IndexMath(frame.b, lanes, ity)
        self.leaves: dict[Instruction, Leaf] = {}
        # Parameters of computations called from inside a fusion, and the values they stand for.
        self.bound: dict[Instruction, Instruction] = {}
        self.mask: Val | None = None
        self.emitted = 0
        self.called = 0
        self.budget = BLOWUP_FLOOR
        self._scopes: list[dict[Any, Any]] = [{}]

    # -- scopes ----------------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values made inside are forgotten at the end: open one with every loop or branch body."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    def _find(self, key: Any) -> Any:
        for scope in reversed(self._scopes):
            found = scope.get(key)
            if found is not None:
                return found
        return None

    # -- the driver ------------------------------------------------------------------------------------------------

    def emit(self, inst: Instruction, index: Index, pred: Val | None = None) -> Values:
        """The value of `inst` at `index`; lanes outside `pred` (i1, None: all) may hold anything."""
        request = Request(inst, index, pred)
        key = (inst.id, index.key, pred.text if pred is not None else "")
        answer = self._find(key)
        if answer is not None:
            return answer  # type: ignore[no-any-return]
        started = self._start(request)
        if not isinstance(started, GeneratorType):
            self._scopes[-1][key] = started
            return cast("Values", started)
        stack: list[tuple[Rule, Any]] = [(started, key)]
        while stack:
            rule, key = stack[-1]
            try:
                request = rule.send(answer)
            except StopIteration as stop:
                stack.pop()
                answer = self._scopes[-1][key] = stop.value
                continue
            pred = request.pred
            key = (request.inst.id, request.index.key, pred.text if pred is not None else "")
            answer = self._find(key)
            if answer is None:
                started = self._start(request)
                if isinstance(started, GeneratorType):
                    stack.append((started, key))
                else:
                    answer = self._scopes[-1][key] = started
        return answer  # type: ignore[no-any-return]

    def scalar_of(self, inst: Instruction) -> Value:
        """The value of a rank-0 instruction (one lane)."""
        return self.emit(inst, SCALAR)  # type: ignore[return-value]

    def _start(self, request: Request) -> Rule | Values:
        inst = request.inst
        leaf = self.leaves.get(inst)
        if leaf is not None:
            return self.load(leaf, request.index, request.pred)
        self.emitted += 1
        if self.emitted > self.budget:
            raise unimplemented(f"the fusion around %{inst.name} would be written out more than {self.budget} times")
        rule = EMIT.get(inst.op)
        if rule is None:
            if inst.op in ELEMENT:
                return self._elementwise(inst, request.index, request.pred)
            raise unimplemented(f"element code for {inst.op.name!r}: {EMIT.why(inst.op)}", span=inst.span)
        return rule(self, inst, request.index, request.pred)  # type: ignore[no-any-return]

    def _elementwise(self, inst: Instruction, index: Index, pred: Val | None) -> Rule:
        args: list[Any] = []
        rank = inst.shape.rank
        for o in inst.operands:
            args.append((yield Request(o, index if o.shape.rank == rank else SCALAR, pred)))
        return self.element(inst, args)

    def element(self, inst: Instruction, args: Sequence[Value]) -> Value:
        """Applies an element-wise op to operand values, one-lane ones splat if any has more."""
        types = tuple(o.shape.element_type for o in inst.operands)
        if len(set(types)) > 1 or (len(types) > 1 and types[0] is not inst.shape.element_type):
            types, args = self._one_precision(inst, types, args)
        site = Site(inst.op, inst.shape.element_type, types, inst.attrs)
        return ELEMENT[inst.op](self.b, site, *self.level(args))

    def _one_precision(
        self, inst: Instruction, types: tuple[ElementType, ...], args: Sequence[Value]
    ) -> tuple[tuple[ElementType, ...], list[Value]]:
        """HLO lets float operands differ in precision: they are converted to the result's, or for compare the wider."""
        wanted = inst.shape.element_type
        if inst.op is ops.COMPARE:
            wanted = max(types, key=lambda t: t.bits)
        if not wanted.is_float or inst.op is ops.STOCHASTIC_CONVERT:
            return types, list(args)
        out = [convert(self.b, t, wanted, v) if t.is_float else v for t, v in zip(types, args, strict=True)]
        return tuple(wanted if t.is_float else t for t in types), out

    def converted(self, value: Any, inst: Instruction, to: ElementType) -> Value:
        """An element of `inst` as an element of another precision (itself, nearly always)."""
        return convert(self.b, inst.shape.element_type, to, value)

    def level(self, values: Sequence[Value]) -> list[Value]:
        """The values with one common lane count."""
        lanes = max((lanes_of(v) for v in values), default=1)
        if lanes == 1:
            return list(values)
        return [v if lanes_of(v) == lanes else splat_element(self.b, v, lanes) for v in values]

    # -- positions -------------------------------------------------------------------------------------------------

    def comps(self, index: Index) -> tuple[Ix, ...]:
        """The components of a position, worked out from the physical one if need be."""
        if index.comps is not None:
            return index.comps
        key = ("comps", index.key)
        found = self._find(key)
        if found is None:
            assert index.linear is not None
            order = sorted(range(len(index.dims)), key=lambda d: (-index.strides[d], index.dims[d] == 1))
            split = delinearize(self.m, index.linear, [index.dims[d] for d in order])
            comps = [number(0)] * len(order)
            for d, c in zip(order, split, strict=True):
                comps[d] = c
            found = self._scopes[-1][key] = tuple(comps)
        return found  # type: ignore[no-any-return]

    def position(self, index: Index, strides: tuple[int, ...]) -> Ix:
        """The physical position of `index` in a buffer with `strides`, in elements."""
        if index.linear is not None and index.strides == strides:
            return index.linear
        key = ("at", index.key, strides)
        found = self._find(key)
        if found is None:
            found = self._scopes[-1][key] = self.m.offset(self.comps(index), strides)
        return found  # type: ignore[no-any-return]

    # -- memory ----------------------------------------------------------------------------------------------------

    def load(self, leaf: Leaf, index: Index, pred: Val | None = None) -> Value:
        """Loads an element (uniform positions) or one element a lane; lanes that `pred` or the mask exclude are 0."""
        if leaf.shape.num_elements == 0:
            return element_constant(leaf.shape.element_type, 0)
        return self.load_at(leaf, self.position(index, leaf.strides), pred)

    def load_at(self, leaf: Leaf, at: Ix, pred: Val | None = None) -> Value:
        """Loads from physical position `at` of a buffer."""
        et, b = leaf.shape.element_type, self.b
        if at.is_uniform:
            return load_element(b, et, leaf.ptr, self._safe(at, pred))
        mask = self.m.both(self.mask, pred)
        assert mask is None or isinstance(mask, Val)
        if mask is not None and mask.lanes == 1:
            mask = b.splat(mask, self.lanes)
        if at.vec is None and at.step == 1:
            return load_element(b, et, leaf.ptr, self.m.scalar(at), self.lanes, mask)
        if at.vec is None and at.step == -1 and not et.is_complex:
            return self._load_backwards(leaf, at, mask)
        return gather_element(b, et, leaf.ptr, self.m.vector(at), mask)

    def _safe(self, at: Ix, pred: Val | None) -> Val | int:
        """A uniform position that is 0 where the predicate says that there is no element."""
        if pred is None:
            return at.base
        some = self.b.any(pred if self.mask is None or pred.lanes == 1 else self.b.and_(pred, self.mask))
        return self.b.select(some, self.m.scalar(at), 0)

    def _load_backwards(self, leaf: Leaf, at: Ix, mask: Val | None) -> Value:
        et, b = leaf.shape.element_type, self.b
        ty = memory_type(et)
        picks = list(range(self.lanes - 1, -1, -1))
        ptr = b.gep(leaf.ptr, b.sub(self.m.scalar(at), self.lanes - 1), ty)
        raw = b.load(ptr, ty, self.lanes) if mask is None else b.masked_load(ptr, b.shuffle(mask, None, picks), ty)
        return from_memory(b, et, b.shuffle(raw, None, picks))

    # -- called computations ---------------------------------------------------------------------------------------

    def call(self, comp: Computation, args: Sequence[Values]) -> Values:
        """Writes a called computation's body on values. Raises UNIMPLEMENTED for what only whole arrays can do."""
        from xyla.codegen.called import call

        return call(self, comp, args)

    def combine(self, comp: Computation, values: Sequence[Value], types: Sequence[ElementType], n: int) -> list[Value]:
        """Calls a combiner on elements of `types` and returns its n results in the first n of them."""
        from xyla.codegen.called import call, flatten

        given = [
            convert(self.b, t, p.shape.element_type, v) for p, t, v in zip(comp.parameters, types, values, strict=True)
        ]
        results = flatten(call(self, comp, given))
        made = [s.element_type for _, s in comp.root.shape.leaves()]
        return [convert(self.b, m, t, v) for m, t, v in zip(made, types[:n], results, strict=True)]


def lanes_of(v: Value) -> int:
    """The lane count of a value."""
    return v.re.lanes if isinstance(v, Cx) else v.lanes


def operand_leaves(em: Emitter, inst: Instruction) -> None:
    """Makes the operands of a lone instruction its leaves, and computes constants and iotas of rank 0 in place."""
    at = 0
    for o in inst.operands:
        for _, shape in o.shape.leaves():
            if not shape.is_array:
                continue
            if o not in em.leaves and not o.shape.is_tuple:
                em.leaves[o] = Leaf(em.frame.operands[at], shape)
            at += 1


def fusion_leaves(em: Emitter, inst: Instruction) -> None:
    """Makes the parameters of a fusion's computation (and the elements of tuple parameters) leaves.

    A buffer has the layout that the fusion's operand states, whatever the parameter inside says.
    """
    at = 0
    for p, o in zip(inst.role("calls").parameters, inst.operands, strict=True):
        paths: dict[tuple[int, ...], Leaf] = {}
        for path, shape in o.shape.leaves():
            if shape.is_array:
                paths[path] = Leaf(em.frame.operands[at], shape)
                at += 1
        if not p.shape.is_tuple:
            for leaf in paths.values():
                em.leaves[p] = leaf
        else:
            _tuple_parameter(em, p, paths)


def _tuple_parameter(em: Emitter, param: Instruction, paths: dict[tuple[int, ...], Leaf]) -> None:
    todo: list[tuple[Instruction, tuple[int, ...]]] = [(param, ())]
    while todo:
        inst, path = todo.pop()
        for user in inst.users:
            if user.op is not ops.GET_TUPLE_ELEMENT:
                continue
            inner = (*path, user.attrs.index)
            if user.shape.is_tuple:
                todo.append((user, inner))
            elif inner in paths:
                em.leaves[user] = paths[inner]
