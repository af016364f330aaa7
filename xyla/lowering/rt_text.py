"""The runtime program as MLIR: functions, scf control flow, memrefs, and calls of named runtime functions.

    func.func @main(%0: memref<64xi8> {lmhlo.params = 0 : index}, ...)     one argument an allocation
      %v = memref.view %0[%offset][] : memref<64xi8> to memref<4x4xf32>    one view a slice and type
      call @gemm(%v, ...) {uid = 0 : i64, ...}                             one call a step
    func.func private @gemm(...) attributes {rt.direct_custom_call = "xla.gpu.gemm"}

A while is an `scf.while` that copies its predicate to the host, a switch an `scf.index_switch`. Attributes named `rt.*`
hold what a program knows beyond that: the names of steps and the caller's view of arguments and results. The text is in
generic form, mlir-opt accepts it, and `rt_reader` makes an equal program of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from xyla.formats.mlir import attributes as mlir
from xyla.formats.mlir.ir import Block, MlirModule, Operation, Region, Value
from xyla.formats.mlir.printer import print_module
from xyla.formats.mlir.types import I1, I32, I64, INDEX, MemRefType, TensorType, Type
from xyla.lowering.rt_types import I8, bytes_memref, dense_ints, memref_of, to_mlir
from xyla.runtime import custom_calls
from xyla.runtime.program import (
    Allocation,
    AllocationKind,
    ArrayType,
    CallStep,
    CopyStep,
    CustomCallStep,
    GemmStep,
    KernelStep,
    Program,
    Slice,
    Step,
    StepList,
    SwitchStep,
    WhileStep,
    nested,
)
from xyla.support.diagnostics import Source
from xyla.support.status import internal, unimplemented

MAIN = "main"
TARGET = "rt.direct_custom_call"
LAUNCH, COPY, TO_HOST, GEMM = "xla.gpu.func.launch", "xla.gpu.memcpy.d2d", "xla.gpu.memcpy.d2h", "xla.gpu.gemm"
# Calls that name their target first.
COPIES = frozenset({COPY, TO_HOST, "xla.gpu.memcpy.h2d"})
ALLOC = "lmhlo.alloc"
NOWHERE = Slice(0, 0, 0)
# Deeper control flow than this has no text: the reader and every MLIR tool recurse over regions.
MAX_NESTING = 200
BYTE_CALL = "rt.byte_call"


def print_program(program: Program) -> str:
    """The program as MLIR text. Raises UNIMPLEMENTED where MLIR has no type, or nesting is too deep."""
    return print_module(to_module(program))


def to_module(program: Program) -> MlirModule:
    """The program as an MLIR module: constants, @main, the shared sequences, and declarations of what is called."""
    writer = _Writer(program)
    top = Operation("builtin.module")
    top.properties["sym_name"] = mlir.StringAttr(program.name)
    top.attributes["rt.kernels"] = mlir.ArrayAttr(tuple(_kernel(program, i) for i in range(len(program.kernel_names))))
    functions = writer.functions()
    top.regions.append(Region([_block([*writer.globals(), *functions, *writer.declarations()])]))
    return MlirModule(top, Source(program.name, ""))


def _kernel(program: Program, number: int) -> mlir.Attribute:
    entries: list[tuple[str, mlir.Attribute]] = [("name", mlir.StringAttr(program.kernel_names[number]))]
    if number < len(program.kernel_hlo):
        entries.append(("hlo", mlir.StringAttr(program.kernel_hlo[number].text)))
    return mlir.DictAttr(tuple(entries))


def _block(operations: list[Operation], arguments: Sequence[Value] = ()) -> Block:
    block = Block()
    block.arguments.extend(arguments)
    block.operations.extend(operations)
    return block


class _Writer:
    """One program being written: the functions' names, and the runtime functions that are called."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.names: dict[int, str] = {}
        self._taken: set[str] = {MAIN}
        self._declared: dict[tuple[str, tuple[Type, ...]], str] = {}
        self._bases: dict[str, int] = {}
        self.arguments = [a for a in program.allocations if not a.on_host]
        if program.allocations[: len(self.arguments)] != self.arguments:
            raise internal("memory of the host comes after all other allocations")

    def functions(self) -> list[Operation]:
        """@main, then each shared sequence, callers first."""
        bodies = _shared(self.program.body)
        for body in bodies:
            self.names[id(body)] = self._unique(body.name)
        main = self._function(MAIN, self.program.body)
        main.attributes["rt.body"] = mlir.StringAttr(self.program.body.name)
        main.attributes["rt.arguments"] = mlir.ArrayAttr(tuple(self._arguments()))
        main.attributes["rt.outputs"] = mlir.ArrayAttr(tuple(self._outputs()))
        rest = [self._function(self.names[id(body)], body) for body in bodies]
        for function, body in zip(rest, bodies, strict=True):
            function.properties["sym_visibility"] = mlir.StringAttr("private")
            function.attributes["rt.body"] = mlir.StringAttr(body.name)
        return [main, *rest]

    def _unique(self, base: str) -> str:
        name, number = base, self._bases.get(base, 0)
        while name in self._taken:
            name, number = f"{base}_{number}", number + 1
        self._bases[base] = number
        self._taken.add(name)
        return name

    def declare(self, target: str, types: tuple[Type, ...]) -> str:
        """The symbol of a runtime function of a type; the same for all its calls."""
        key = (target, types)
        if key not in self._declared:
            base = {LAUNCH: "launch_func"}.get(target, target.removeprefix("xla.gpu."))
            self._declared[key] = self._unique(base)
        return self._declared[key]

    def declarations(self) -> list[Operation]:
        """Of all runtime functions that the functions call."""
        out = []
        for (target, types), name in self._declared.items():
            op = _func(name, types, Region())
            op.properties["sym_visibility"] = mlir.StringAttr("private")
            op.attributes[TARGET] = mlir.StringAttr(target)
            out.append(op)
        return out

    # -- interface ---------------------------------------------------------------------------------------------

    def globals(self) -> Iterable[Operation]:
        """One constant global for each constant allocation, with its bytes."""
        for number, allocation in enumerate(self.program.allocations):
            if allocation.kind is not AllocationKind.CONSTANT:
                continue
            if allocation.data is None:
                raise internal("a constant allocation without data")
            op = Operation("memref.global")
            op.properties.update(
                sym_name=mlir.StringAttr(self._constant(number)),
                sym_visibility=mlir.StringAttr("private"),
                type=mlir.TypeAttr(bytes_memref(allocation.size)),
                initial_value=_payload(allocation.data.tobytes()),
                constant=mlir.UNIT,
            )
            if allocation.on_host:
                op.attributes[ALLOC] = mlir.IntegerAttr(number, INDEX)
            yield op

    def _constant(self, number: int) -> str:
        return f"constant_{number}"

    def on_host(self, number: int) -> Operation:
        """What gives memory of the host: a constant's global, or the stack."""
        allocation = self.program.allocations[number]
        if allocation.kind is AllocationKind.CONSTANT:
            op = Operation("memref.get_global")
            op.properties["name"] = mlir.SymbolRef(self._constant(number))
        else:
            op = Operation("memref.alloca")
            op.properties["operandSegmentSizes"] = mlir.DenseArrayAttr(I32, (0, 0))
            op.attributes[ALLOC] = mlir.IntegerAttr(number, INDEX)
        op.results.append(Value("", bytes_memref(allocation.size), op, 0))
        return op

    def _arguments(self) -> Iterable[mlir.Attribute]:
        for a in self.program.arguments:
            fields = {"name": mlir.StringAttr(a.name), "type": to_mlir(a.type), "text": mlir.StringAttr(a.type_text)}
            yield mlir.DictAttr(tuple(fields.items()))

    def _outputs(self) -> Iterable[mlir.Attribute]:
        for o in self.program.outputs:
            numbers = (o.slice.allocation, o.slice.offset, o.slice.size)
            fields: list[tuple[str, mlir.Attribute]] = [("type", to_mlir(o.type)), ("slice", dense_ints(numbers))]
            if o.must_alias:
                fields.append(("must_alias", mlir.UNIT))
            yield mlir.DictAttr(tuple(fields))

    def _allocation(self, number: int, a: Allocation) -> mlir.DictAttr:
        entries: list[tuple[str, mlir.Attribute]] = [(ALLOC, mlir.IntegerAttr(number, INDEX))]
        match a.kind:
            case AllocationKind.PARAMETER:
                entries.append(("lmhlo.params", mlir.IntegerAttr(a.index, INDEX)))
                if a.is_written:
                    entries.append(("lmhlo.written", mlir.UNIT))
            case AllocationKind.CONSTANT:
                entries.append(("lmhlo.constant_name", mlir.StringAttr(self._constant(number))))
            case AllocationKind.OUTPUT:
                entries.append(("lmhlo.output_index", dense_ints((a.index,))))
            case AllocationKind.TEMP:
                pass
        return mlir.DictAttr(tuple(entries))

    def _function(self, name: str, body: StepList) -> Operation:
        types = tuple(bytes_memref(a.size) for a in self.arguments)
        arguments = [Value(f"arg{i}", t, None, i) for i, t in enumerate(types)]
        emitter = _Emitter(self, arguments)
        emitter.steps(body)
        emitter.op("func.return")
        op = _func(name, types, Region([_block([*emitter.prologue, *emitter.operations], arguments)]))
        if arguments:
            attrs = tuple(self._allocation(i, a) for i, a in enumerate(self.arguments))
            op.properties["arg_attrs"] = mlir.ArrayAttr(attrs)
        return op


def _func(name: str, types: tuple[Type, ...], region: Region) -> Operation:
    op = Operation("func.func")
    op.properties["sym_name"] = mlir.StringAttr(name)
    op.properties["function_type"] = mlir.function_type_attr(types, ())
    op.regions.append(region)
    return op


def _payload(data: bytes) -> mlir.DenseAttr:
    kind = TensorType((len(data),), I8)
    return mlir.DenseAttr(data.hex().upper(), kind, hex=True) if data else mlir.DenseAttr("", kind)


def _shared(body: StepList) -> list[StepList]:
    """The sequences that calls run, each once, callers first."""
    found: dict[int, StepList] = {}
    stack, seen = [body], {id(body)}
    while stack:
        steps = stack.pop()
        for step in steps.steps:
            if isinstance(step, CallStep):
                found.setdefault(id(step.body), step.body)
            for inner in nested(step):
                if id(inner) not in seen:
                    seen.add(id(inner))
                    stack.append(inner)
    return list(found.values())


class _Emitter:
    """Writes operations of one function. Views and constants are made once where they are visible."""

    def __init__(self, writer: _Writer, arguments: list[Value]) -> None:
        self.operations: list[Operation] = []
        self.prologue: list[Operation] = []
        self._writer = writer
        self._hosted: dict[int, Value] = {}
        self._arguments = arguments
        self._values: list[dict[object, Value]] = [{}]

    def op(
        self,
        name: str,
        operands: Sequence[Value] = (),
        result: Type | None = None,
        properties: Mapping[str, mlir.Attribute] | None = None,
    ) -> Operation:
        """Appends an operation of one result or none."""
        op = Operation(name)
        op.operands.extend(operands)
        op.properties.update(properties or {})
        if result is not None:
            op.results.append(Value("", result, op, 0))
        self.operations.append(op)
        return op

    def value(self, *made_by: object, result: Type, properties: Mapping[str, mlir.Attribute] | None = None) -> Value:
        """The result of an operation, (name, operands...), that is made only once in each scope."""
        key = (*made_by, result, tuple((properties or {}).items()))
        for scope in reversed(self._values):
            if key in scope:
                return scope[key]
        name, *operands = made_by
        made = self.op(str(name), [o for o in operands if isinstance(o, Value)], result, properties).results[0]
        self._values[-1][key] = made
        return made

    def constant(self, value: int, type_: Type) -> Value:
        """`arith.constant`."""
        return self.value("arith.constant", result=type_, properties={"value": mlir.IntegerAttr(value, type_)})

    # -- memory ------------------------------------------------------------------------------------------------

    def view(self, s: Slice, type_: ArrayType | None = None) -> Value:
        """A slice as a memref of a type, or of bytes; an empty buffer for a hole."""
        if type_ is not None and s == NOWHERE and type_.dims == (0,) and type_.dtype == np.int8:
            sizes = {"operandSegmentSizes": mlir.DenseArrayAttr(I32, (0, 0))}
            return self.value("memref.alloca", result=bytes_memref(0), properties=sizes)
        base = self._base(s.allocation)
        whole = bytes_memref(s.size)
        if type_ is None or type_.num_bytes != s.size:
            exact = s.offset == 0 and base.type == whole
            base = base if exact else self._view(base, s.offset, whole)
            return base if type_ is None else self._typed(base, 0, type_)
        return self._typed(base, s.offset, type_)

    def _base(self, allocation: int) -> Value:
        """All bytes of an allocation: an argument, or what the function's first lines make."""
        if allocation < len(self._arguments):
            return self._arguments[allocation]
        found = self._hosted.get(allocation)
        if found is None:
            made = self._writer.on_host(allocation)
            self.prologue.append(made)
            found = self._hosted[allocation] = made.results[0]
        return found

    def _typed(self, base: Value, offset: int, type_: ArrayType) -> Value:
        wanted = memref_of(type_)
        if wanted.layout is None:
            return self._view(base, offset, wanted)
        count = type_.num_bytes // type_.dtype.itemsize
        flat = self._view(base, offset, MemRefType((count,), wanted.element))
        strides = tuple(s // type_.dtype.itemsize for s in type_.strides)
        properties = {
            "operandSegmentSizes": mlir.DenseArrayAttr(I32, (1, 0, 0, 0)),
            "static_offsets": mlir.DenseArrayAttr(I64, (0,)),
            "static_sizes": mlir.DenseArrayAttr(I64, type_.dims),
            "static_strides": mlir.DenseArrayAttr(I64, strides),
        }
        return self.value("memref.reinterpret_cast", flat, result=wanted, properties=properties)

    def _view(self, base: Value, offset: int, wanted: MemRefType) -> Value:
        return self.value("memref.view", base, self.constant(offset, INDEX), result=wanted)

    def to_host(self, s: Slice, element: Type) -> Value:
        """The scalar at a slice, copied to the host: `alloca`, a call of memcpy.d2h, `load`."""
        scalar = MemRefType((), element)
        sizes = {"operandSegmentSizes": mlir.DenseArrayAttr(I32, (0, 0))}
        host = self.op("memref.alloca", (), scalar, sizes).results[0]
        self.call(TO_HOST, [host, self._view(self._base(s.allocation), s.offset, scalar)], {})
        return self.op("memref.load", [host], element).results[0]

    # -- steps -------------------------------------------------------------------------------------------------

    def steps(self, body: StepList) -> None:
        """All steps of a sequence."""
        for step in body.steps:
            self._step(step)

    def call(self, target: str, operands: list[Value], attributes: Mapping[str, mlir.Attribute]) -> None:
        """A call of a runtime function."""
        callee = self._writer.declare(target, tuple(v.type for v in operands))
        op = self.op("func.call", operands, None, {"callee": mlir.SymbolRef(callee)})
        op.attributes.update(attributes)

    def _step(self, step: Step) -> None:
        name = {"rt.step": mlir.StringAttr(step.name)}
        match step:
            case KernelStep():
                self._launch(step)
            case CopyStep():
                self.call(COPY, [self.view(step.target), self.view(step.source)], name)
            case GemmStep() if step.call_as is not None:
                self._custom_call(step.call_as)
            case GemmStep():
                self._bare_gemm(step)
            case CustomCallStep():
                self._custom_call(step)
            case CallStep():
                self._shared_call(step)
            case WhileStep():
                self._while(step)
            case SwitchStep():
                self._switch(step)

    def _launch(self, step: KernelStep) -> None:
        wide = I32 if step.launch_size < 1 << 31 else I64
        one = self.constant(1, I32)
        grid = [self.constant(step.launch_size, wide), one, one, one, one, one]
        kernel = mlir.StringAttr(self._writer.program.kernel_names[step.kernel])
        attributes: dict[str, mlir.Attribute] = {"kernel": kernel, "rt.step": mlir.StringAttr(step.name)}
        for key, number in (("rt.inputs", step.num_inputs), ("rt.arrays", len(step.types)), ("rt.grain", step.grain)):
            attributes[key] = mlir.IntegerAttr(number, I64)
        arrays = [self.view(s, t) for s, t in zip(step.args, step.types, strict=False)]
        rest = [self.view(s) for s in step.args[len(arrays) :]]
        self.call(LAUNCH, [*grid, *arrays, *rest], attributes)

    def _bare_gemm(self, step: GemmStep) -> None:
        """A product that no call of the library stands for: its numbers as they are, on bytes."""
        from dataclasses import asdict

        call = to_mlir(asdict(step.call))
        element = to_mlir(ArrayType(step.dtype, (), ()))
        attributes = {BYTE_CALL: call, "type": element, "rt.step": mlir.StringAttr(step.name)}
        self.call(GEMM, [self.view(s) for s in (step.a, step.b, step.c)], attributes)

    def _custom_call(self, step: CustomCallStep) -> None:
        signature = custom_calls.signature_of(step.target)
        kinds = signature.attributes or {}
        attributes = {k: to_mlir(v, kinds.get(k)) for k, v in step.attributes.items()}
        attributes["rt.step"] = mlir.StringAttr(step.name)
        if step.outputs:
            attributes["rt.results"] = mlir.IntegerAttr(len(step.outputs), I64)
        for key, text in (("rt.reason", step.reason), ("rt.location", step.location)):
            if text:
                attributes[key] = mlir.StringAttr(text)
        groups = (step.outputs, step.inputs) if step.target in COPIES else (step.inputs, step.outputs)
        self.call(step.target, [self.view(s, t) for group in groups for s, t in group], attributes)

    def _shared_call(self, step: CallStep) -> None:
        for source, target in step.arguments:
            argument = {"rt.argument_of": mlir.StringAttr(step.name)}
            self.call(COPY, [self.view(target), self.view(source)], argument)
        callee = mlir.SymbolRef(self._writer.names[id(step.body)])
        op = self.op("func.call", self._arguments, None, {"callee": callee})
        op.attributes["rt.step"] = mlir.StringAttr(step.name)
        if step.pure:
            op.attributes["rt.pure"] = mlir.UNIT

    # -- control flow ------------------------------------------------------------------------------------------

    def _region(self, body: StepList, end: str, predicate: Slice | None = None) -> Region:
        outer, self.operations = self.operations, []
        self._values.append({})
        if len(self._values) > MAX_NESTING:
            raise unimplemented(f"{body.name}: control flow nested more than {MAX_NESTING} deep has no text form")
        self.steps(body)
        self.op(end, [self.to_host(predicate, I1)] if predicate is not None else [])
        self._values.pop()
        inner, self.operations = self.operations, outer
        return Region([_block(inner)])

    def _while(self, step: WhileStep) -> None:
        before = self._region(step.condition, "scf.condition", step.predicate)
        after = self._region(step.body, "scf.yield")
        op = self.op("scf.while")
        op.regions.extend((before, after))
        names = {"rt.step": step.name, "rt.condition": step.condition.name, "rt.body": step.body.name}
        op.attributes.update({k: mlir.StringAttr(v) for k, v in names.items()})

    def _switch(self, step: SwitchStep) -> None:
        last = len(step.branches) - 1
        index = self._selector(step.selector, step.is_predicate, last)
        regions = [self._region(branch, "scf.yield") for branch in step.branches]
        cases = mlir.DenseArrayAttr(I64, tuple(range(last)))
        op = self.op("scf.index_switch", [index], None, {"cases": cases})
        # The default region comes first: it is the last branch, which takes what is out of range.
        op.regions.extend((regions[-1], *regions[:-1]))
        op.attributes["rt.step"] = mlir.StringAttr(step.name)
        op.attributes["rt.branches"] = mlir.ArrayAttr(tuple(mlir.StringAttr(b.name) for b in step.branches))

    def _selector(self, selector: Slice, is_predicate: bool, last: int) -> Value:
        """The branch's number as an index: true is 0; an integer out of range is the last."""
        chosen = self.to_host(selector, I1 if is_predicate else I32)
        zero, end = self.constant(0, I32), self.constant(1 if is_predicate else last, I32)
        if is_predicate:
            index = self.op("arith.select", [chosen, zero, end], I32).results[0]
        else:
            small = self.op("arith.cmpi", [chosen, zero], I1, {"predicate": mlir.IntegerAttr(_SLT, I64)}).results[0]
            large = self.op("arith.cmpi", [chosen, end], I1, {"predicate": mlir.IntegerAttr(_SGT, I64)}).results[0]
            out_of_range = self.op("arith.ori", [small, large], I1).results[0]
            index = self.op("arith.select", [out_of_range, end, chosen], I32).results[0]
        return self.op("arith.index_cast", [index], INDEX).results[0]


# arith.cmpi predicates.
_SLT, _SGT = 2, 4
