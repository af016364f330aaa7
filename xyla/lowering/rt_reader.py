"""Reading a runtime program from its MLIR text: the reverse of `rt_text`.

The reader follows each value to the memory that it stands for. It takes generic form, and custom assembly where
`dialects` has it. Every fault is an INVALID_ARGUMENT error at the operation that it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from xyla.formats.mlir import attributes as mlir
from xyla.formats.mlir import dense
from xyla.formats.mlir.dialects import Dialects
from xyla.formats.mlir.ir import MlirModule, Operation, Region, Value
from xyla.formats.mlir.parser import parse_module
from xyla.formats.mlir.types import MemRefType, ScalarType
from xyla.formats.mlir.upstream import UPSTREAM
from xyla.lowering.gemm_steps import gemm_step
from xyla.lowering.rt_text import ALLOC, BYTE_CALL, COPIES, COPY, GEMM, LAUNCH, MAIN, MAX_NESTING, TARGET, TO_HOST
from xyla.lowering.rt_types import array_type_of, from_mlir
from xyla.runtime.call_types import attribute_type
from xyla.runtime.program import (
    Allocation,
    AllocationKind,
    Argument,
    ArrayType,
    Attribute,
    CallStep,
    CopyStep,
    CustomCallStep,
    Deferred,
    GemmCall,
    GemmStep,
    KernelStep,
    Output,
    Program,
    Slice,
    StepList,
    SwitchStep,
    WhileStep,
)
from xyla.support.diagnostics import Span
from xyla.support.status import XylaError, invalid

_RT = "rt."


def parse_program(text: str, name: str = "<rt>", dialects: Dialects | None = None) -> Program:
    """The program in a text that `rt_text.print_program` made. Raises INVALID_ARGUMENT, located."""
    return program_of(parse_module(text, name, dialects if dialects is not None else UPSTREAM))


def program_of(module: MlirModule) -> Program:
    """The program of a parsed module. Raises INVALID_ARGUMENT, located."""
    reader = _Reader(module)
    try:
        return reader.read()
    except XylaError as error:
        raise error.located(reader.span(module.op)) from None


@dataclass(slots=True)
class _Memory:
    """What a memref value stands for: a slice (None: a scalar on the host, with what was copied to it)."""

    slice: Slice | None
    type: MemRefType
    copied: Slice | None = None


@dataclass(slots=True)
class _Function:
    """A function while it is read: its values, and the arguments of the shared call that comes next."""

    steps: StepList
    memory: dict[Value, _Memory] = field(default_factory=dict)
    numbers: dict[Value, int] = field(default_factory=dict)
    loaded: dict[Value, Slice] = field(default_factory=dict)
    pending: list[tuple[Slice, Slice]] = field(default_factory=list)


class _Reader:
    """One module being read."""

    def __init__(self, module: MlirModule) -> None:
        self._module = module
        self._top = module.op
        self._globals: dict[str, Operation] = {}
        self._functions: dict[str, Operation] = {}
        self._targets: dict[str, str] = {}
        self._bodies: dict[str, StepList] = {}
        self._kernels: dict[str, int] = {}
        self._allocations: list[Allocation] = []
        self._depth = 0
        self._count_arguments = 0
        self._host_place: dict[str | int, int] = {}
        self._operations: dict[str, Callable[[Operation, _Function], None]] = {
            "arith.constant": self._constant,
            "memref.view": self._view,
            "memref.reinterpret_cast": self._reinterpret,
            "memref.alloca": self._alloca,
            "memref.get_global": self._get_global,
            "memref.load": self._load,
            "func.call": self._call,
            "scf.while": self._while,
            "scf.index_switch": self._switch,
        }

    def read(self) -> Program:
        """The whole program."""
        self._symbols()
        main = self._functions.get(MAIN)
        if main is None:
            raise self._fault(self._top, f"the module has no function @{MAIN}")
        self._allocations = [*self._arguments(main), *self._on_host()]
        program = Program(self._top.symbol_name or "", self._allocations, [], [], StepList(_text(main, "rt.body")))
        for entry in _dicts(self._top, "rt.kernels"):
            name = str(entry.get("name", ""))
            self._kernels[name] = len(program.kernel_names)
            program.kernel_names.append(name)
            if "hlo" in entry:
                program.kernel_hlo.append(Deferred(partial(str, entry["hlo"])))
        program.arguments.extend(self._argument(main, e) for e in _dicts(main, "rt.arguments"))
        program.outputs.extend(self._output(main, e) for e in _dicts(main, "rt.outputs"))
        self._bodies[MAIN] = program.body
        for name, function in self._functions.items():
            self._body(function, self._sequence(name))
        return program

    def _fault(self, op: Operation, message: str) -> XylaError:
        return invalid(message, span=self.span(op))

    def span(self, op: Operation) -> Span | None:
        """Where an operation is written."""
        return Span(self._module.source, op.start, op.end) if op.start >= 0 else None

    # -- the interface -----------------------------------------------------------------------------------------

    def _symbols(self) -> None:
        for op in self._module.body:
            name = op.symbol_name
            if op.name == "memref.global" and name is not None:
                self._globals[name] = op
            elif op.name == "func.func" and name is not None:
                target = op.get(TARGET)
                if isinstance(target, mlir.StringAttr):
                    self._targets[name] = target.value
                elif op.regions and op.regions[0].blocks:
                    self._functions[name] = op
                else:
                    raise self._fault(op, f"@{name} has neither a body nor the attribute {TARGET}")
            else:
                raise self._fault(op, f"a runtime program has no {op.name} at its top")

    def _arguments(self, main: Operation) -> list[Allocation]:
        block = main.regions[0].blocks[0]
        attrs = main.get("arg_attrs")
        items = attrs.items if isinstance(attrs, mlir.ArrayAttr) else ()
        out = []
        for i, value in enumerate(block.arguments):
            entry = items[i] if i < len(items) else mlir.DictAttr(())
            if not isinstance(value.type, MemRefType) or not isinstance(entry, mlir.DictAttr):
                raise self._fault(main, f"argument {i} of @{MAIN} is no memref")
            out.append(self._allocation(main, value.type, entry))
        self._count_arguments = len(out)
        return out

    def _allocation(self, main: Operation, type_: MemRefType, entry: mlir.DictAttr) -> Allocation:
        size = _size(type_)
        number, output, constant = (entry.get(k) for k in ("lmhlo.params", "lmhlo.output_index", "lmhlo.constant_name"))
        if isinstance(number, mlir.IntegerAttr):
            return Allocation(
                AllocationKind.PARAMETER, size, number.value, is_written=entry.get("lmhlo.written") is not None
            )
        if output is not None:
            index = dense.ints(output) or (0,)
            return Allocation(AllocationKind.OUTPUT, size, index[0])
        if isinstance(constant, mlir.StringAttr):
            return Allocation(AllocationKind.CONSTANT, size, data=self._data(main, constant.value, size))
        return Allocation(AllocationKind.TEMP, size)

    def _data(self, main: Operation, name: str, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """A constant's bytes, 64-byte aligned."""
        op = self._globals.get(name)
        value = op.get("initial_value") if op is not None else None
        if op is None or not isinstance(value, mlir.DenseAttr):
            raise self._fault(main, f"there is no constant global @{name} with a value")
        raw = np.ascontiguousarray(dense.decode(value, self._module.source)).reshape(-1).view(np.uint8)
        if raw.size != size:
            raise self._fault(op, f"@{name} has {raw.size} bytes, its argument {size}")
        memory = np.empty(size + 64, np.uint8)
        start = -memory.ctypes.data % 64
        memory[start : start + size] = raw
        return memory[start : start + size]

    def _on_host(self) -> list[Allocation]:
        """Memory of the host: the globals and pieces of stack that carry a number, in its order."""
        found: list[tuple[int, str, Allocation]] = []
        for op in self._top.walk():
            number = op.get(ALLOC)
            if not isinstance(number, mlir.IntegerAttr):
                continue
            if op.name == "memref.global" and isinstance(kind := op.get("type"), mlir.TypeAttr):
                name, size = op.symbol_name or "", array_type_of(kind.type).num_bytes
                made = Allocation(AllocationKind.CONSTANT, size, data=self._data(op, name, size), on_host=True)
                found.append((number.value, name, made))
            elif op.name == "memref.alloca":
                size = array_type_of(op.results[0].type).num_bytes
                found.append((number.value, "", Allocation(AllocationKind.TEMP, size, on_host=True)))
        found.sort(key=lambda entry: entry[0])
        for place, (number_, name, _) in enumerate(found):
            self._host_place[name if name else number_] = self._count_arguments + place
        return [made for _, _, made in found]

    def _argument(self, main: Operation, entry: Mapping[str, Attribute]) -> Argument:
        kind = entry.get("type")
        if not isinstance(kind, ArrayType):
            raise self._fault(main, "an entry of rt.arguments lacks its type")
        return Argument(str(entry.get("name", "")), kind, str(entry.get("text", "")))

    def _output(self, main: Operation, entry: Mapping[str, Attribute]) -> Output:
        kind, place = entry.get("type"), entry.get("slice")
        if not isinstance(kind, ArrayType) or not isinstance(place, tuple) or len(place) != 3:
            raise self._fault(main, "an entry of rt.outputs lacks its type or its slice")
        allocation, offset, size = (int(v) for v in place if isinstance(v, int))
        where = self._slice(main, allocation, offset, size)
        return Output(kind, where, bool(entry.get("must_alias", False)))

    def _slice(self, op: Operation, allocation: int, offset: int, size: int) -> Slice:
        inside = 0 <= allocation < len(self._allocations) and offset >= 0
        if not inside or offset + size > self._allocations[allocation].size:
            raise self._fault(op, f"bytes {offset} to {offset + size} are not inside allocation {allocation}")
        return Slice(allocation, offset, size)

    # -- sequences ---------------------------------------------------------------------------------------------

    def _sequence(self, name: str) -> StepList:
        """The sequence of a function; filled when its turn comes."""
        found = self._bodies.get(name)
        if found is None:
            found = self._bodies[name] = StepList(_text(self._functions[name], "rt.body") or name)
        return found

    def _body(self, function: Operation, steps: StepList) -> None:
        block = function.regions[0].blocks[0]
        if len(block.arguments) != self._count_arguments:
            raise self._fault(function, f"@{function.symbol_name} takes {len(block.arguments)} allocations, "
                              f"@{MAIN} {len(self._allocations)}")  # fmt: skip
        state = _Function(steps)
        for i, value in enumerate(block.arguments):
            if isinstance(value.type, MemRefType):
                state.memory[value] = _Memory(Slice(i, 0, _size(value.type)), value.type)
        end = self._block(function, function.regions[0], state)
        if end.name != "func.return":
            raise self._fault(end, f"{end.name} ends a function, expected func.return")

    def _block(self, owner: Operation, region: Region, state: _Function) -> Operation:
        """Reads a region of one block; returns its terminator."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self._fault(owner, f"control flow is nested more than {MAX_NESTING} deep")
        if len(region.blocks) != 1 or not region.blocks[0].operations:
            raise self._fault(owner, f"a region of {owner.name} must be one block with a terminator")
        *operations, end = region.blocks[0].operations
        for op in operations:
            read = self._operations.get(op.name)
            if read is not None:
                try:
                    read(op, state)
                except XylaError as error:
                    raise error.located(self.span(op)) from None
            elif not op.name.startswith("arith."):
                raise self._fault(op, f"a runtime program has no {op.name}")
        self._depth -= 1
        return end

    # -- values ------------------------------------------------------------------------------------------------

    def _constant(self, op: Operation, state: _Function) -> None:
        value = op.get("value")
        if not isinstance(value, mlir.IntegerAttr):
            raise self._fault(op, "expected an integer constant")
        state.numbers[op.results[0]] = value.value

    def _view(self, op: Operation, state: _Function) -> None:
        base = self._memory(op, op.operands[0], state)
        offset = self._number(op, op.operands[1], state)
        kind = op.results[0].type
        if base.slice is None or not isinstance(kind, MemRefType):
            raise self._fault(op, "memref.view must be of an allocation, with a memref as its result")
        size = _size(kind)
        if offset < 0 or offset + size > base.slice.size:
            raise self._fault(op, f"the view takes bytes {offset} to {offset + size} of {base.slice.size}")
        place = Slice(base.slice.allocation, base.slice.offset + offset, size)
        state.memory[op.results[0]] = _Memory(place, kind)

    def _reinterpret(self, op: Operation, state: _Function) -> None:
        base = self._memory(op, op.operands[0], state)
        kind = op.results[0].type
        offsets = dense.ints(op.get("static_offsets"))
        if len(op.operands) != 1 or offsets != (0,) or not isinstance(kind, MemRefType):
            raise self._fault(op, "memref.reinterpret_cast must have constant sizes and no offset")
        if _size(kind) != _size(base.type):
            raise self._fault(op, f"{kind} is not as large as {base.type}")
        state.memory[op.results[0]] = _Memory(base.slice, kind)

    def _alloca(self, op: Operation, state: _Function) -> None:
        kind = op.results[0].type
        number = op.get(ALLOC)
        if isinstance(number, mlir.IntegerAttr) and isinstance(kind, MemRefType):
            state.memory[op.results[0]] = _Memory(Slice(self._host_place[number.value], 0, _size(kind)), kind)
            return
        if not isinstance(kind, MemRefType) or kind.dims not in ((), (0,)):
            raise self._fault(op, "memref.alloca is for a scalar on the host, or for an empty buffer")
        hole = Slice(0, 0, 0) if kind.dims == (0,) else None
        state.memory[op.results[0]] = _Memory(hole, kind)

    def _get_global(self, op: Operation, state: _Function) -> None:
        name, kind = op.get("name"), op.results[0].type
        place = self._host_place.get(name.root) if isinstance(name, mlir.SymbolRef) else None
        if place is None or not isinstance(kind, MemRefType):
            raise self._fault(op, f"{name} is no constant on the host")
        state.memory[op.results[0]] = _Memory(Slice(place, 0, _size(kind)), kind)

    def _load(self, op: Operation, state: _Function) -> None:
        memory = self._memory(op, op.operands[0], state)
        if memory.copied is None:
            raise self._fault(op, "memref.load reads a scalar that nothing was copied to")
        state.loaded[op.results[0]] = memory.copied

    def _memory(self, op: Operation, value: Value, state: _Function) -> _Memory:
        found = state.memory.get(value)
        if found is None:
            raise self._fault(op, f"%{value.name} is no memory that this reader can follow")
        return found

    def _number(self, op: Operation, value: Value, state: _Function) -> int:
        found = state.numbers.get(value)
        if found is None:
            raise self._fault(op, f"%{value.name} is not constant")
        return found

    def _place(self, op: Operation, value: Value, state: _Function) -> Slice:
        found = self._memory(op, value, state).slice
        if found is None:
            raise self._fault(op, f"%{value.name} lies on the host")
        return found

    # -- calls -------------------------------------------------------------------------------------------------

    def _call(self, op: Operation, state: _Function) -> None:
        callee = op.get("callee")
        name = callee.root if isinstance(callee, mlir.SymbolRef) else ""
        if name in self._functions:
            body, arguments, pure = self._sequence(name), tuple(state.pending), op.get("rt.pure") is not None
            state.pending = []
            state.steps.steps.append(CallStep(_text(op, "rt.step"), body, arguments, pure))
            return
        target = self._targets.get(name)
        match target:
            case None:
                raise self._fault(op, f"@{name} is not declared")
            case _ if target in COPIES and op.get("rt.results") is not None:
                self._custom_call(op, target, state)
            case _ if target == TO_HOST:
                self._to_host(op, state)
            case _ if target == COPY:
                self._copy(op, state)
            case _ if target == LAUNCH:
                self._launch(op, state)
            case _ if target == GEMM and op.get(BYTE_CALL) is not None:
                self._byte_gemm(op, state)
            case _:
                self._custom_call(op, target, state)

    def _to_host(self, op: Operation, state: _Function) -> None:
        host, source = self._memory(op, op.operands[0], state), self._place(op, op.operands[1], state)
        if host.slice is not None:
            raise self._fault(op, "the target of memcpy.d2h must be a memref.alloca")
        host.copied = source

    def _copy(self, op: Operation, state: _Function) -> None:
        target, source = (self._place(op, v, state) for v in op.operands)
        if op.get("rt.argument_of") is not None:
            state.pending.append((source, target))
        else:
            state.steps.steps.append(CopyStep(_text(op, "rt.step"), source, target))

    def _launch(self, op: Operation, state: _Function) -> None:
        name = _text(op, "kernel")
        if name not in self._kernels:
            raise self._fault(op, f"rt.kernels does not list the kernel {name!r}")
        if len(op.operands) < 6:
            raise self._fault(op, "a launch takes six numbers: the grid and the block")
        size = 1
        for value in op.operands[:6]:
            size *= self._number(op, value, state)
        arguments = op.operands[6:]
        places = tuple(self._place(op, v, state) for v in arguments)
        typed = arguments[: _count(op, "rt.arrays", 0)]
        types = tuple(array_type_of(self._memory(op, v, state).type) for v in typed)
        inputs, grain = _count(op, "rt.inputs", 0), _count(op, "rt.grain", 1)
        step = KernelStep(_text(op, "rt.step") or name, self._kernels[name], places, size, types, inputs, grain)
        state.steps.steps.append(step)

    def _byte_gemm(self, op: Operation, state: _Function) -> None:
        numbers, kind = from_mlir(op.attributes[BYTE_CALL]), from_mlir(op.attributes["type"])
        if not isinstance(numbers, Mapping) or not isinstance(kind, ArrayType):
            raise self._fault(op, f"{BYTE_CALL} must be a dictionary, and type a memref")
        a, b, c = (self._place(op, v, state) for v in op.operands)
        call = attribute_type(GemmCall).decode(numbers, f"{GEMM}: {BYTE_CALL}")
        state.steps.steps.append(GemmStep(_text(op, "rt.step"), kind.dtype, call, a, b, c))

    def _custom_call(self, op: Operation, target: str, state: _Function) -> None:
        arrays = []
        for value in op.operands:
            memory = self._memory(op, value, state)
            arrays.append((self._place(op, value, state), array_type_of(memory.type)))
        count = len(arrays) - _count(op, "rt.results", 0)
        if target in COPIES:
            arrays = arrays[::-1]
        if not 0 <= count <= len(arrays):
            raise self._fault(op, f"rt.results counts more than the {len(arrays)} operands")
        attributes = {k: from_mlir(v) for k, v in op.attributes.items() if not k.startswith(_RT)}
        name = _text(op, "rt.step") or target
        step = CustomCallStep(
            name, target, tuple(arrays[:count]), tuple(arrays[count:]), attributes, _text(op, "rt.reason"),
            location=_text(op, "rt.location"),
        )  # fmt: skip
        made = gemm_step(step) if target == GEMM else None
        state.steps.steps.append(step if made is None else made)

    # -- control flow ------------------------------------------------------------------------------------------

    def _while(self, op: Operation, state: _Function) -> None:
        if len(op.regions) != 2 or op.operands:
            raise self._fault(op, "scf.while must have two regions and carry no values")
        steps = state.steps
        condition, body = StepList(_text(op, "rt.condition")), StepList(_text(op, "rt.body"))
        state.steps = condition
        end = self._block(op, op.regions[0], state)
        predicate = state.loaded.get(end.operands[0]) if end.name == "scf.condition" and end.operands else None
        if predicate is None:
            raise self._fault(end, "the condition must be a predicate that was copied to the host")
        state.steps = body
        self._block(op, op.regions[1], state)
        state.steps = steps
        steps.steps.append(WhileStep(_text(op, "rt.step"), condition, predicate, body))

    def _switch(self, op: Operation, state: _Function) -> None:
        selector, is_predicate = self._selector(op, state)
        cases = dense.ints(op.get("cases")) or ()
        if list(cases) != list(range(len(op.regions) - 1)):
            raise self._fault(op, f"the cases are {list(cases)}, expected 0, 1, ... and the last branch as the default")
        names = from_mlir(op.attributes["rt.branches"]) if "rt.branches" in op.attributes else ()
        steps, branches = state.steps, []
        for i, region in enumerate((*op.regions[1:], op.regions[0])):
            state.steps = StepList(str(names[i]) if isinstance(names, tuple) and i < len(names) else "")
            self._block(op, region, state)
            branches.append(state.steps)
        state.steps = steps
        steps.steps.append(SwitchStep(_text(op, "rt.step"), selector, is_predicate, tuple(branches)))

    def _selector(self, op: Operation, state: _Function) -> tuple[Slice, bool]:
        """The number that a switch takes, followed back through casts and clamps to what was copied to the host."""
        value = op.operands[0]
        for _ in range(4):
            found = state.loaded.get(value)
            if found is not None:
                return found, value.type == ScalarType("i1")
            made = value.owner
            if not isinstance(made, Operation) or made.name not in ("arith.index_cast", "arith.select"):
                break
            on_host = [v for v in made.operands if v in state.loaded]
            value = on_host[0] if on_host else made.operands[0]
        raise self._fault(op, "the selector of a switch must be a number that was copied to the host")


def _size(kind: MemRefType) -> int:
    return array_type_of(kind).num_bytes


def _text(op: Operation, key: str) -> str:
    value = op.get(key)
    return value.value if isinstance(value, mlir.StringAttr) else ""


def _count(op: Operation, key: str, default: int) -> int:
    value = op.get(key)
    return value.value if isinstance(value, mlir.IntegerAttr) else default


def _dicts(op: Operation, key: str) -> list[Mapping[str, Attribute]]:
    value = op.get(key)
    items = value.items if isinstance(value, mlir.ArrayAttr) else ()
    return [{k: from_mlir(v) for k, v in entry.entries} for entry in items if isinstance(entry, mlir.DictAttr)]
