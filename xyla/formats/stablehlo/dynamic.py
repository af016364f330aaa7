"""Refinement: a StableHLO program with `?` dimensions becomes static for arguments of given shapes.

The functions reachable from main are copied, one copy for each combination of argument types and known argument values
(memoised); in a copy every type is static. Integers that are known, because they follow from shapes, are folded to
constants on the way: they are what dynamic operations and shape assertions need. The copy then converts to HLO like
any other program. Source: the StableHLO documentation, "Dynamism" and "Shape refinement".

Invariants: nothing recurses over the call graph (functions are suspended while a callee is refined) or over a block's
operations; copies come in order of first use, main first.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.formats.mlir.attributes import ArrayAttr, StringAttr, SymbolRef, function_type_attr
from xyla.formats.mlir.ir import Block, MlirModule, Operation, Region, Value
from xyla.formats.mlir.types import TensorType, Type
from xyla.formats.stablehlo import dynamic_calls, dynamic_infer, dynamic_shape
from xyla.formats.stablehlo.convert import TERMINATORS, convert
from xyla.formats.stablehlo.dynamic_fold import Folder, constant_value
from xyla.formats.stablehlo.program import NotHloError, StablehloProgram
from xyla.hlo.module import Module
from xyla.hlo.shape import Shape
from xyla.support.diagnostics import Span, did_you_mean
from xyla.support.status import XylaError, invalid, unimplemented

Array = npt.NDArray[Any]
# The arguments of a function whose values are known.
Known = tuple[Array | None, ...]
# Functions that differ only in known values are copied; past this many copies something does not converge.
_MAX_COPIES = 10_000


def refine(program: StablehloProgram, shapes: Sequence[Shape], values: Sequence[Any] = ()) -> Module:
    """The static module of `program` for arguments of these shapes (their element types are not looked at).

    values: the arguments themselves. Some exporters pass dimension variables as leading integer scalars; when shapes
    alone do not settle every size, the values of as few leading integer scalars as will do are taken from here. The
    module is right for those values only.
    Raises INVALID_ARGUMENT when the shapes do not fit or a shape assertion fails, UNIMPLEMENTED when a size depends on
    computed data.
    """
    kinds = program.parameter_types
    if len(shapes) != len(kinds):
        raise invalid(f"the program takes {len(kinds)} arguments, the shapes of {len(shapes)} are given")
    types = [_unify(i, kind, shape) for i, (kind, shape) in enumerate(zip(kinds, shapes, strict=True))]
    candidates = [i for i, t in enumerate(types) if i < len(values) and _is_integer_scalar(t)]
    for count in range(len(candidates) + 1):
        bound = {i: np.asarray(values[i]) for i in candidates[:count]}
        try:
            return _refined(program, types, bound)
        except UnknownSizeError as error:
            if count == len(candidates):
                raise unimplemented(error.reason, span=error.span) from None
    raise AssertionError("the loop returns or raises")


class UnknownSizeError(NotHloError):
    """A size that argument shapes do not determine."""


def _refined(program: StablehloProgram, types: list[Type], bound: dict[int, Array]) -> Module:
    refiner = Refiner(program.mlir)
    known = tuple(bound.get(i) for i in range(len(types)))
    try:
        main = refiner.run(program.entry, tuple(types), known)
        return convert(refiner.module(), main)
    except XylaError as error:
        _locate(error, program.mlir.span(program.entry))
        raise
    except NotHloError as error:
        raise UnknownSizeError(error.reason, error.span) from None
    except RecursionError:
        raise invalid("regions nest too deeply", span=program.mlir.span(program.entry)) from None


def _unify(index: int, kind: Type, shape: Shape) -> Type:
    """The parameter's type with its `?` dimensions bound. Raises INVALID_ARGUMENT when the shape does not fit."""
    if not isinstance(kind, TensorType):
        return kind
    fits = shape.is_array and len(shape.dims) == len(kind.dims)
    dims = shape.dims if fits else ()
    if not fits or not all(k in (d, -1) for k, d in zip(kind.dims, dims, strict=True)):
        raise invalid(f"argument {index} has shape {shape.to_string(layouts=False)}, the parameter is {kind}")
    if not dynamic_infer.is_open(kind):
        return kind
    return TensorType(dims, kind.element)


def _is_integer_scalar(kind: Type) -> bool:
    return isinstance(kind, TensorType) and not kind.dims and str(kind.element).lstrip("us")[:1] == "i"


# -- copies of functions ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """A copy of a function for these argument types and known argument values (their bytes; None: not known)."""

    name: str
    types: tuple[Type, ...]
    known: tuple[bytes | None, ...]


@dataclass(slots=True)
class Copy:
    """A finished copy: its function, result types and the results that are known."""

    function: Operation
    types: list[Type]
    known: list[Array | None]


@dataclass(slots=True)
class Frame:
    """One copy being made: what each original value has become."""

    env: dict[Value, Value] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)


# A function or block being refined asks for the copies that it calls.
Steps = Generator[tuple[Request, Known], Copy, None]


class Refiner:
    """The state of one refinement."""

    def __init__(self, mlir: MlirModule) -> None:
        self.mlir = mlir
        self.functions = mlir.symbols()
        self.folder = Folder(mlir)
        self.copies: dict[Request, Copy] = {}
        self.active: set[str] = set()
        self.order: list[Operation] = []
        self.names: set[str] = set(self.functions)
        self.used: set[str] = set()

    def run(self, main: Operation, types: tuple[Type, ...], known: Known) -> Operation:
        """Makes the copy of `main` and all that it calls; gives the former."""
        first = Request(main.symbol_name or "", types, _bytes(known))
        stack = [(first, self._start(first, known))]
        answer: Copy | None = None
        while stack:
            request, steps = stack[-1]
            try:
                wanted, values = steps.send(answer) if answer is not None else next(steps)
            except StopIteration:
                stack.pop()
                self.active.discard(request.name)
                answer = self.copies[request]
                continue
            answer = self.copies.get(wanted)
            if answer is None:
                stack.append((wanted, self._start(wanted, values)))
        return self.copies[first].function

    def module(self) -> MlirModule:
        """The refined program: everything that is no function, and the copies."""
        old = self.mlir.op
        top = Operation(old.name, old.start)
        top.end, top.loc, top.properties, top.attributes = old.end, old.loc, old.properties, old.attributes
        block = Block()
        block.operations = [op for op in self.mlir.body if op.name != "func.func"] + self.order
        top.regions.append(Region([block]))
        return MlirModule(top, self.mlir.source, self.mlir.locations)

    def _start(self, request: Request, known: Known) -> Steps:
        old = self.functions.get(request.name)
        if old is None or old.name != "func.func" or not old.regions:
            near = did_you_mean(request.name, self.functions)
            hint = f"did you mean @{near}?" if near else None
            raise invalid(f"function @{request.name} is not defined or has no body", hint=hint)
        if request.name in self.active:
            raise invalid(f"function @{request.name} calls itself", span=self.mlir.span(old))
        if len(self.copies) >= _MAX_COPIES:
            raise unimplemented(f"more than {_MAX_COPIES} specialisations of functions", span=self.mlir.span(old))
        self.active.add(request.name)
        function = clone(old)
        self.order.append(function)
        return self._function(request, known, old, function)

    def _function(self, request: Request, known: Known, old: Operation, function: Operation) -> Steps:
        block = old.regions[0].entry
        if block is None:
            raise invalid(f"function @{request.name} has no body", span=self.mlir.span(old))
        if len(block.arguments) != len(request.types):
            raise invalid(
                f"function @{request.name} takes {len(block.arguments)} arguments, not {len(request.types)}",
                span=self.mlir.span(old),
            )
        frame = Frame()
        new = self._block(frame, block, request.types)
        for argument, value in zip(block.arguments, known, strict=True):
            if value is not None:
                frame.env[argument] = self.folder.constant(value, frame.env[argument].type, old)
        results: list[Value] = []
        yield from self._operations(frame, block, new, results)
        name = request.name if request.name not in self.used else self._fresh(request.name)
        self.used.add(name)
        function.properties = {**old.properties, "sym_name": StringAttr(name)}
        types = [v.type for v in results]
        function.properties["function_type"] = function_type_attr(request.types, tuple(types))
        function.regions.append(Region([new]))
        self.copies[request] = Copy(function, types, [constant_value(v) for v in results])

    def _fresh(self, name: str) -> str:
        n = 1
        while f"{name}_{n}" in self.names:
            n += 1
        self.names.add(f"{name}_{n}")
        return f"{name}_{n}"

    # -- blocks ------------------------------------------------------------------------------------------------

    def _block(self, frame: Frame, old: Block, types: Sequence[Type]) -> Block:
        """An empty copy of a block whose arguments have these types."""
        new = Block(old.label)
        for argument, kind in zip(old.arguments, types, strict=True):
            value = Value(argument.name, kind, new, argument.index)
            value.loc = argument.loc
            new.arguments.append(value)
            frame.env[argument] = value
        return new

    def _operations(self, frame: Frame, old: Block, new: Block, results: list[Value]) -> Steps:
        """Copies the operations of a block; `results` receives what its terminator returns."""
        for op in old.operations:
            span = self.mlir.span(op)
            try:
                copy = clone(op)
                copy.operands = [_defined(frame, v) for v in op.operands]
                if op.name in TERMINATORS:
                    results.extend(copy.operands)
                    new.operations.append(copy)
                    return
                yield from self._operation(frame, op, copy, new)
            except (XylaError, NotHloError) as error:
                _locate(error, span)
                raise

    def _operation(self, frame: Frame, op: Operation, copy: Operation, block: Block) -> Steps:
        if op.name in ("func.call", "stablehlo.composite"):
            yield from self._call(frame, op, copy, block)
            return
        if op.name.split(".")[0] in dynamic_shape.DIALECTS and op.results:
            for value, (array, kind) in zip(
                op.results, dynamic_shape.fold(copy, [v.type for v in op.results]), strict=True
            ):
                frame.env[value] = self.folder.constant(array, kind, op)
            return
        dims = None
        if op.name == "stablehlo.custom_call":
            if dynamic_calls.checked(copy):
                return
            copy, dims = dynamic_calls.rewrite(copy, op, self.functions)
            yield from self._called(copy)
        for region in op.regions if not copy.regions else ():
            yield from self._region(frame, op, copy, region)
        types = dynamic_infer.result_types(copy, [v.type for v in op.results], self.folder, dims)
        folded = self.folder.fold(copy, types)
        if folded is not None:
            frame.env.update(zip(op.results, folded, strict=True))
            return
        self._emit(frame, op, copy, types, block)

    def _emit(self, frame: Frame, op: Operation, copy: Operation, types: Sequence[Type], block: Block) -> None:
        for value, kind in zip(op.results, types, strict=True):
            new = Value(value.name, kind, copy, value.index)
            new.loc = value.loc
            copy.results.append(new)
            frame.env[value] = new
        block.operations.append(copy)

    def _region(self, frame: Frame, op: Operation, copy: Operation, region: Region) -> Steps:
        """A region with one block. A loop's block takes the types of its operands; others what they say."""
        if len(region.blocks) != 1:
            copy.regions.append(region)
            return
        old = region.blocks[0]
        types = [v.type for v in old.arguments]
        if op.name == "stablehlo.while" and len(types) == len(copy.operands):
            types = [v.type for v in copy.operands]
        new = self._block(frame, old, types)
        copy.regions.append(Region([new]))
        yield from self._operations(frame, old, new, [])

    def _call(self, frame: Frame, op: Operation, copy: Operation, block: Block) -> Steps:
        key = "callee" if op.name == "func.call" else "decomposition"
        target = op.get(key)
        if not isinstance(target, SymbolRef):
            raise invalid(f"{op.name} needs attribute '{key}', a symbol")
        known = tuple(constant_value(v) for v in copy.operands)
        found = yield Request(target.root, tuple(v.type for v in copy.operands), _bytes(known)), known
        copy.properties = {**copy.properties, key: SymbolRef(found.function.symbol_name or "")}
        copy.attributes = {k: v for k, v in copy.attributes.items() if k != key}
        if len(found.types) != len(op.results):
            raise invalid(f"function @{target.root} returns {len(found.types)} values, not {len(op.results)}")
        self._emit(frame, op, copy, found.types, block)
        for value, constant in zip(op.results, found.known, strict=True):
            if constant is not None:
                frame.env[value] = self.folder.constant(constant, value.type, op)

    def _called(self, copy: Operation) -> Steps:
        """Functions that a custom call names are copied with the types that they say."""
        attr = copy.get("called_computations")
        names = [a.root for a in attr.items if isinstance(a, SymbolRef)] if isinstance(attr, ArrayAttr) else []
        items: list[SymbolRef] = []
        for name in names:
            function = self.functions.get(name)
            block = function.regions[0].entry if function is not None and function.regions else None
            types = tuple(v.type for v in block.arguments) if block is not None else ()
            found = yield Request(name, types, (None,) * len(types)), (None,) * len(types)
            items.append(SymbolRef(found.function.symbol_name or ""))
        if names:
            copy.properties = {**copy.properties, "called_computations": ArrayAttr(tuple(items))}


def clone(op: Operation) -> Operation:
    """A copy without operands, results and regions."""
    new = Operation(op.name, op.start)
    new.end, new.loc, new.properties, new.attributes = op.end, op.loc, op.properties, op.attributes
    return new


def _defined(frame: Frame, value: Value) -> Value:
    found = frame.env.get(value)
    if found is None:
        raise invalid(f"value %{value.name} is used before it is defined")
    return found


def _bytes(known: Sequence[Array | None]) -> tuple[bytes | None, ...]:
    return tuple(None if k is None else k.tobytes() for k in known)


def _locate(error: XylaError | NotHloError, span: Span) -> None:
    if error.span is None:
        error.span = span
