"""StableHLO to `hlo.Module`: functions and regions become computations, operations instructions.

Invariants: each function is converted once, callees first; nothing recurses over the call graph or over a block's
operations (only over region nesting); every instruction carries the span and metadata of its operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xyla.formats.mlir import dense
from xyla.formats.mlir.attributes import Attribute, DenseAttr, SymbolRef
from xyla.formats.mlir.ir import Block, Location, MlirModule, Operation, Value
from xyla.formats.mlir.types import TensorType, Type
from xyla.formats.stablehlo import (
    chlo,
    entry,
    quantized_ops,
    rules_collectives,
    rules_compute,
    rules_control,
    rules_dynamic,
    rules_elementwise,
    rules_movement,
    rules_sdy,
    types,
)
from xyla.formats.stablehlo.body import Body, Result, Rule
from xyla.formats.stablehlo.metadata import metadata_of
from xyla.formats.stablehlo.program import NotHloError
from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Metadata, Module
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.hlo.verifier import verify
from xyla.support.diagnostics import Span, did_you_mean
from xyla.support.dtypes import ElementType
from xyla.support.status import XylaError, invalid, unimplemented

TERMINATORS = frozenset({"func.return", "stablehlo.return", "sdy.return", "chlo.return"})
RULES: dict[str, Rule] = {
    **rules_elementwise.RULES,
    **rules_movement.RULES,
    **rules_compute.RULES,
    **rules_control.RULES,
    **rules_collectives.RULES,
    **rules_dynamic.RULES,
    **rules_sdy.RULES,
    **quantized_ops.RULES,
    **chlo.CHLO,
}


def convert(mlir: MlirModule, main: Operation) -> Module:
    """The module whose entry is function `main`.

    Raises NotHloError for what static HLO cannot express, INVALID_ARGUMENT and UNIMPLEMENTED with the operation's span.
    """
    return Converter(mlir).run(main)


class Converter:
    """The state of one conversion."""

    def __init__(self, mlir: MlirModule) -> None:
        self.mlir = mlir
        self.module = Module(mlir.op.symbol_name or "module")
        self.functions = mlir.symbols()
        self.computations: dict[str, Computation] = {}
        self._shapes: dict[int, tuple[Type, Shape]] = {}
        self._metadata: dict[Location, Metadata | None] = {}
        self._scalars: dict[tuple[str, str], Computation] = {}
        # Programs without quantized types, nearly all, are spared the question at every operation.
        self._quantized = "quant.uniform" in mlir.source.text

    def run(self, main: Operation) -> Module:
        """Converts `main` and all it calls."""
        entry.module_attributes(self.module, self.mlir)
        for name in call_order(self.mlir, main):
            op = self.functions.get(name)
            if op is None or op.name != "func.func":
                # Reported where it is called.
                continue
            self._function(name, op)
        main_name = main.symbol_name or ""
        self.module.set_entry(self.computations[main_name])
        entry.entry_attributes(self.module, main)
        verify(self.module)
        return self.module

    # -- functions and regions ---------------------------------------------------------------------------------

    def function(self, name: str) -> Computation:
        """The computation of a function; callees are converted before their callers."""
        found = self.computations.get(name)
        if found is None:
            near = did_you_mean(name, self.functions)
            raise invalid(f"function @{name} is not defined", hint=f"did you mean @{near}?" if near else None)
        return found

    def _function(self, name: str, op: Operation) -> None:
        block = _single_block(op, 0) if op.regions else None
        if block is None:
            raise invalid(f"function @{name} has no body", span=self.mlir.span(op))
        comp = self.module.add_computation(name)
        comp.span = self.mlir.span(op)
        self.computations[name] = comp
        body = Body(self, comp)
        body.span = comp.span
        try:
            self._parameters(body, block.arguments)
        except (XylaError, NotHloError) as error:
            raise _at(error, comp.span) from None
        results = self.block(body, block)
        try:
            _check_results(op, results, comp.span)
        except (XylaError, NotHloError) as error:
            raise _at(error, comp.span) from None
        comp.set_root(body.pack(results))

    def _parameters(self, body: Body, arguments: Sequence[Value]) -> None:
        for i, value in enumerate(arguments):
            body.metadata = self.metadata(value.loc)
            name = f"Arg_{i}"
            body.env[value] = body.add(
                ops.PARAMETER, (), ops.ParameterAttrs(i), shape=self.shape(value.type), name=name
            )
        body.metadata = None

    def region(self, outer: Body, op: Operation, index: int) -> Computation:
        """A region as a computation with one parameter a block argument (reducers, comparators, ...)."""
        block = _single_block(op, index)
        if block is None:
            raise invalid(f"region {index} of {op.name} is empty")
        comp = self.module.add_computation("region_0")
        comp.span = outer.span
        body = Body(self, comp)
        body.span = outer.span
        body.reach = f"the region of {op.name}"
        self._parameters(body, block.arguments)
        comp.set_root(body.pack(self.block(body, block)))
        return comp

    def packed_region(
        self, outer: Body, op: Operation, index: int, shape: Shape, extra: list[Value], *, carry: bool
    ) -> Computation:
        """A region as a computation with one parameter: its block arguments and then the outer values `extra`.

        carry: the root gives the outer values back, after the region's own results (a loop's body).
        """
        block = _single_block(op, index)
        if block is None:
            raise invalid(f"region {index} of {op.name} is empty")
        comp = self.module.add_computation("region_0")
        comp.span = outer.span
        body = Body(self, comp)
        body.span = outer.span
        body.reach = f"the region of {op.name}"
        parameter = body.add(ops.PARAMETER, (), ops.ParameterAttrs(0), shape=shape, name="arg_tuple")
        state = [*block.arguments, *extra]
        if len(state) != (len(shape.tuple_shapes) if len(state) != 1 else 1):
            raise invalid(
                f"region {index} of {op.name} takes {len(block.arguments)} arguments, a different number is given"
            )
        for i, value in enumerate(state):
            body.env[value] = parameter if len(state) == 1 else (parameter, i)
        results = self.block(body, block)
        if carry:
            results += [body.get(v) for v in extra]
        comp.set_root(body.pack(results))
        return comp

    def scalar_computation(self, op: OpDef[Any], element: ElementType) -> Computation:
        """`op` on two scalars, as a computation; made once per type."""
        key = (op.name, element.name)
        found = self._scalars.get(key)
        if found is None:
            found = self._scalars[key] = self.module.add_computation(f"{op.name}_{element.name}")
            shape = Shape.array(element, ())
            args = [found.add(ops.PARAMETER, (), ops.ParameterAttrs(i), shape=shape, name=f"Arg_{i}") for i in range(2)]
            found.set_root(found.add(op, args, shape=shape))
        return found

    # -- operations --------------------------------------------------------------------------------------------

    def block(self, body: Body, block: Block) -> list[Instruction]:
        """Converts a block; gives the values that its terminator returns."""
        for op in block.operations:
            body.span = span = self.mlir.span(op)
            try:
                if op.name in TERMINATORS:
                    return body.operands(op)
                body.metadata = self.metadata(op.loc)
                self._operation(body, op)
            except (XylaError, NotHloError) as error:
                raise _at(error, span) from None
        raise invalid("a block needs a return at its end", span=body.span)

    def _operation(self, body: Body, op: Operation) -> None:
        rule = RULES.get(op.name)
        if rule is None:
            raise self._unknown(op)
        if self._quantized and quantized_ops.involved(op):
            result = quantized_ops.convert(body, op, rule, _bind)
        else:
            result = rule(body, op)
        _bind(body, op, result)
        if op.attributes and isinstance(result, Instruction):
            entry.annotate(result, op.attributes)

    def _unknown(self, op: Operation) -> XylaError | NotHloError:
        dialect = op.name.split(".")[0]
        if dialect in ("shape", "tensor", "arith"):
            return NotHloError(f"operation {op.name}")
        near = did_you_mean(op.name, RULES)
        return unimplemented(f"no conversion of {op.name} to HLO", hint=f"did you mean {near}?" if near else None)

    def constant(self, body: Body, op: Operation) -> Instruction:
        """A constant operation."""
        return self.constant_of(body, op, op.results[0].type)

    def constant_of(self, body: Body, op: Operation, type_: Type) -> Instruction:
        """The `value` of `op` as a constant of `type_`."""
        shape, value = self.shape(type_), op.get("value")
        return body.constant(self._literal(op, value, shape))

    def _literal(self, op: Operation, value: Attribute | None, shape: Shape) -> Literal:
        if not isinstance(value, DenseAttr):
            raise unimplemented(f"{op.name}: a value given as {str(value)[:40]}")
        if not isinstance(value.type, TensorType) or value.type.dims != shape.dims:
            raise invalid(f"the value of {op.name} has type {value.type}, its result is {shape}")
        array = dense.decode(value, self.mlir.source)
        if array.dtype != shape.element_type.np:
            raise invalid(f"the value of {op.name} has type {value.type}, its result is {shape}")
        array.flags.writeable = False
        return Literal(shape, array)

    # -- memoised look-ups -------------------------------------------------------------------------------------

    def shape(self, type_: Type) -> Shape:
        """The HLO shape of a type; each type object is looked at once."""
        found = self._shapes.get(id(type_))
        if found is None:
            # Keeping the type alive keeps its id.
            found = self._shapes[id(type_)] = (type_, types.shape_of(type_))
        return found[1]

    def metadata(self, loc: Location | None) -> Metadata | None:
        """The metadata of a location."""
        if loc is None:
            return None
        if loc not in self._metadata:
            self._metadata[loc] = metadata_of(self.mlir, loc)
        return self._metadata[loc]


def _bind(body: Body, op: Operation, result: Result) -> None:
    """Records what the results of `op` are."""
    results = op.results
    if isinstance(result, Instruction):
        if len(results) == 1:
            body.env[results[0]] = result
        else:
            for i, value in enumerate(results):
                body.env[value] = (result, i)
        return
    given = result or []
    if len(given) != len(results):
        raise invalid(f"{op.name} gives {len(given)} results, {len(results)} are named")
    body.env.update(zip(results, given, strict=True))


def _single_block(op: Operation, index: int) -> Block | None:
    region = op.regions[index]
    if len(region.blocks) > 1:
        raise unimplemented(f"{op.name}: a region of several blocks has no HLO form")
    return region.entry


def _at(error: XylaError | NotHloError, span: Span | None) -> XylaError | NotHloError:
    """The error with its place filled in if it had none."""
    if error.span is None:
        error.span = span
    return error


def _check_results(op: Operation, results: list[Instruction], span: Span | None) -> None:
    """A function must return what its type says."""
    ftype = getattr(op.get("function_type"), "type", None)
    wanted = getattr(ftype, "results", ())
    if len(results) != len(wanted):
        raise invalid(
            f"function @{op.symbol_name} returns {len(results)} values, its type says {len(wanted)}", span=span
        )
    for i, (inst, type_) in enumerate(zip(results, wanted, strict=True)):
        if not inst.shape.compatible(types.shape_of(type_)):
            raise invalid(f"result {i} of @{op.symbol_name} is {inst.shape}, its type says {type_}", span=span)


def call_order(mlir: MlirModule, main: Operation) -> list[str]:
    """The functions reachable from `main`, callees first. Raises INVALID_ARGUMENT on recursion. Iterative."""
    functions = mlir.symbols()
    done: dict[str, None] = {}
    name = main.symbol_name or ""
    stack = [(name, iter(_callees(main)))]
    active = {name}
    while stack:
        caller, callees = stack[-1]
        for callee in callees:
            if callee in done or callee not in functions:
                continue
            if callee in active:
                raise invalid(f"function @{callee} calls itself", span=mlir.span(functions[callee]))
            active.add(callee)
            stack.append((callee, iter(_callees(functions[callee]))))
            break
        else:
            stack.pop()
            active.discard(caller)
            done[caller] = None
    return list(done)


def _callees(function: Operation) -> list[str]:
    out: dict[str, None] = {}
    for op in function.walk():
        if op.name in _CALLERS:
            for key in ("callee", "decomposition", "called_computations"):
                attr = op.get(key)
                items = getattr(attr, "items", (attr,))
                out.update((a.root, None) for a in items if isinstance(a, SymbolRef))
    return list(out)


_CALLERS = frozenset({"func.call", "stablehlo.composite", "stablehlo.custom_call"})
