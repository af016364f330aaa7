"""LMHLO as MLIR text: operations in generic form, everything upstream (func, memref, arith, gpu) in its own assembly.

Views appear at their first use in a block as `memref.view` of the byte arguments (plus a `memref.reinterpret_cast` for
strided layouts), as XLA's emitter prints them. An operation's name is its location. `lmhlo_reader` reads it back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.formats.mlir.attributes import ArrayAttr, Attribute, SymbolRef, dict_body, float_text, quote, symbol
from xyla.formats.mlir.types import I32, DialectType, MemRefType, Type
from xyla.hlo.literal import Literal
from xyla.lowering import lmhlo
from xyla.lowering.arrays import array_type
from xyla.lowering.lmhlo_attrs import HLO, INDICES
from xyla.lowering.lmhlo_base import Role
from xyla.lowering.rt_types import bytes_memref, element_of, memref_of
from xyla.runtime.program import ArrayType
from xyla.support.status import unimplemented

TOKEN_TYPE = DialectType("!mhlo.token")
_FEW = 16  # constants of at most so many elements are printed as decimals


def print_module(module: lmhlo.Module) -> str:
    """The module's text."""
    lines = [f"module {symbol(module.name)}{_container(module)} {{"]
    lines += [f"  {_global(g)}" for g in module.globals]
    lines += _gpu_modules(module)
    for function in module.functions:
        lines += _FunctionPrinter(module, function).lines()
    return "\n".join([*lines, "}"]) + "\n"


# -- constants and GPU modules ---------------------------------------------------------------------------------


def _global(g: lmhlo.Global) -> str:
    alloc = f" {{lmhlo.alloc = {g.alloc} : index}}" if g.alloc is not None else ""
    type_ = memref_of(array_type(g.literal.shape))
    return f'memref.global "private" constant {symbol(g.name)} : {type_} = dense<{_payload(g.literal)}>{alloc}'


def _payload(literal: Literal) -> str:
    """The elements, row-major: decimals when they are few and say exactly what is meant, else raw bytes."""
    element = literal.shape.element_type
    if literal.shape.num_elements == 0:
        return ""
    if literal.is_splat:
        array = np.asarray(literal.first).reshape(())
    else:
        array = literal.array
    if element.name == "pred" or (array.size <= _FEW and (element.is_integer or _plain(array))):
        words = [_word(v, element.is_float) for v in array.reshape(-1).tolist()]
        return _nested(words, array.shape)
    return f'"0x{np.ascontiguousarray(array).tobytes().hex().upper()}"'


def _plain(array: npt.NDArray[Any]) -> bool:
    """Whether decimals through binary64 give these floats back."""
    return array.dtype.kind != "c" and bool(np.isfinite(array.astype(np.float64)).all())


def _word(value: object, is_float: bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return float_text(float(str(value))) if is_float else str(int(str(value)))


def _nested(words: list[str], dims: tuple[int, ...]) -> str:
    for d in reversed(dims):
        words = [f"[{', '.join(words[i : i + d])}]" for i in range(0, len(words), d)]
    return words[0]


def _launches(module: lmhlo.Module) -> Iterator[lmhlo.LaunchFunc]:
    for function in module.functions:
        for op in function.body.walk():
            if isinstance(op, lmhlo.LaunchFunc):
                yield op


def _container(module: lmhlo.Module) -> str:
    return " attributes {gpu.container_module}" if module.kernels else ""


def _gpu_modules(module: lmhlo.Module) -> list[str]:
    """The GPU modules with their binaries, and a declaration of each kernel that is launched."""
    lines = []
    for name, binary in module.kernels.items():
        lines.append(f"  gpu.module {symbol(name)} attributes {{binary = {quote(binary)}}} {{")
        seen = {op.kernel: op for op in _launches(module) if op.module == name}
        for kernel, op in seen.items():
            arguments = ", ".join(f"%arg{i}: {memref_of(v.type)}" for i, v in enumerate(op.arguments))
            lines += [f"    gpu.func {symbol(kernel)}({arguments}) kernel {{", "      gpu.return", "    }"]
        lines.append("  }")
    return lines


# -- functions -------------------------------------------------------------------------------------------------


def argument_type(argument: lmhlo.Argument) -> MemRefType:
    """The type of a function argument in text."""
    return memref_of(argument.type) if argument.type is not None else bytes_memref(argument.size)


def _index_list(values: tuple[int, ...]) -> Attribute:
    return INDICES.write(values)


def _argument_attributes(a: lmhlo.Argument) -> str:
    parts = []
    if a.alloc is not None:
        parts.append(f"lmhlo.alloc = {a.alloc} : index")
    if a.params is not None:
        parts.append(f"lmhlo.params = {a.params} : index")
    if a.param_shape_index:
        parts.append(f"lmhlo.param_shape_index = {_index_list(a.param_shape_index)}")
    if a.constant_name is not None:
        parts.append(f"lmhlo.constant_name = {quote(a.constant_name)}")
    if len(a.output_index) == 1:
        parts.append(f"lmhlo.output_index = {_index_list(a.output_index[0])}")
    elif a.output_index:
        parts.append(f"lmhlo.output_index = {ArrayAttr(tuple(map(_index_list, a.output_index)))}")
    if a.must_alias:
        parts.append("lmhlo.must_alias")
    if a.written:
        parts.append("lmhlo.written")
    if a.name:
        parts.append(f"xla.name = {quote(a.name)}")
    if a.shape is not None:
        parts.append(f"xla.shape = {quote(str(a.shape))}")
    return f" {{{', '.join(parts)}}}" if parts else ""


@dataclass(slots=True)
class _Level:
    """A block being printed: what is left of it, and the names to forget at its end."""

    ops: Iterator[lmhlo.Op]
    indent: int
    rest: list[str | tuple[lmhlo.Block, str]]
    undo: list[tuple[object, str | None]] = field(default_factory=list)


class _FunctionPrinter:
    """Writes one function. Regions are on a stack of their own: nesting costs no Python stack."""

    def __init__(self, module: lmhlo.Module, function: lmhlo.Function) -> None:
        self.module = module
        self.function = function
        self.out: list[str] = []
        self.names: dict[object, str] = {}
        self.stack: list[_Level] = []
        self.counter = 0

    def lines(self) -> list[str]:
        """The function's text."""
        f = self.function
        types = [argument_type(a) for a in f.arguments]
        attributes = ["" if f.private else _argument_attributes(a) for a in f.arguments]
        arguments = [f"%arg{i}: {t}{a}" for i, (t, a) in enumerate(zip(types, attributes, strict=True))]
        head = "  func.func " + ("private " if f.private else "") + symbol(f.name)
        self.out.append(f"{head}({(',' + chr(10) + '      ').join(arguments)})\n      {self._attributes()} {{")
        self._host_memory()
        self._push(f.body, 2, ["  }"])
        while self.stack:
            level = self.stack[-1]
            op = next(level.ops, None)
            if op is not None:
                self._operation(op, level.indent)
            else:
                self._end(level)
        return self.out

    def _attributes(self) -> str:
        f = self.function
        entries = [f"num_partitions = {f.num_partitions} : i64", f"replica_count = {f.replica_count} : i64"]
        if f.result_shape is not None:
            entries.append(f"result_xla_shape = {quote(str(f.result_shape))}")
        return f"attributes {{{', '.join(entries)}}}"

    def _host_memory(self) -> None:
        for op in self.function.body.walk():
            for view in lmhlo.views_of(op):
                if view.space is lmhlo.Space.HOST and view not in self.names:
                    self.names[view] = name = f"%host{view.slice.allocation}"
                    self.out.append(f"    {name} = memref.alloca() : {memref_of(view.type)}")

    # -- blocks ------------------------------------------------------------------------------------------------

    def _push(self, block: lmhlo.Block, indent: int, rest: list[str | tuple[lmhlo.Block, str]]) -> None:
        self.stack.append(_Level(iter(block.ops), indent, rest))

    def _end(self, level: _Level) -> None:
        """Closes a block: its terminator, its names, then the next block or the text after the last."""
        self.out.append("  " * level.indent + '"lmhlo.terminator"() : () -> ()')
        for key, old in reversed(level.undo):
            if old is None:
                del self.names[key]
            else:
                self.names[key] = old
        self.stack.pop()
        while level.rest:
            part = level.rest.pop(0)
            if isinstance(part, str):
                self.out.append(part)
                continue
            block, before = part
            self.out.append(before)
            self._push(block, level.indent, level.rest)
            return

    def _name(self, key: object, name: str) -> str:
        if self.stack:
            self.stack[-1].undo.append((key, self.names.get(key)))
        self.names[key] = name
        return name

    def _fresh(self, prefix: str = "") -> str:
        self.counter += 1
        return f"%{prefix}{self.counter - 1}"

    # -- values ------------------------------------------------------------------------------------------------

    def _index(self, value: int, indent: int) -> str:
        key = ("index", value)
        found = self.names.get(key)
        if found is None:
            found = self._name(key, f"%c{value}" if value >= 0 else self._fresh("c"))
            self.out.append(f"{'  ' * indent}{found} = arith.constant {value} : index")
        return found

    def _view(self, view: lmhlo.View, indent: int) -> str:
        found = self.names.get(view)
        if found is not None:
            return found
        type_ = memref_of(view.type)
        pad = "  " * indent
        if view.space is lmhlo.Space.GLOBAL:
            name = symbol(self.module.globals[view.slice.allocation].name)
            found = self._name(view, self._fresh())
            self.out.append(f"{pad}{found} = memref.get_global {name} : {type_}")
            return found
        argument = f"%arg{view.slice.allocation}"
        source = argument_type(self.function.arguments[view.slice.allocation])
        if source == type_:
            return argument
        if source.element != bytes_memref(0).element:
            return self._recast(view, argument, source, indent)
        flat = MemRefType((_elements(view.type),), type_.element) if type_.layout is not None else type_
        offset = self._index(view.slice.offset, indent)
        base = self._fresh()
        self.out.append(f"{pad}{base} = memref.view {argument}[{offset}][] : {source} to {flat}")
        if type_.layout is None:
            return self._name(view, base)
        return self._recast(view, base, flat, indent)

    def _recast(self, view: lmhlo.View, base: str, source: MemRefType, indent: int) -> str:
        """`base` with other dims and strides."""
        type_ = memref_of(view.type)
        if source.element != type_.element or (view.slice.offset and base.startswith("%arg")):
            raise unimplemented(f"a view of {source} as {type_} at byte {view.slice.offset}: its memory is no bytes")
        strides = [s // view.type.dtype.itemsize for s in view.type.strides]
        found = self._name(view, self._fresh())
        self.out.append(
            f"{'  ' * indent}{found} = memref.reinterpret_cast {base} to offset: [0], "
            f"sizes: {list(view.type.dims)}, strides: {strides} : {source} to {type_}"
        )
        return found

    # -- operations --------------------------------------------------------------------------------------------

    def _operation(self, op: lmhlo.Op, indent: int) -> None:
        spec = lmhlo.spec_of(type(op))
        pad = "  " * indent
        if isinstance(op, lmhlo.LaunchFunc):
            self._launch(op, indent)
            return
        values, types, segments = self._operands(op, indent)
        head = pad
        for f in spec.results:
            head += self._name(getattr(op, f.name), f"%token{getattr(op, f.name).number}") + " = "
        head += f"{quote(op.mnemonic)}({', '.join(values)})"
        results = f"{TOKEN_TYPE}" if spec.results else "()"
        tail = _attribute_text(op, segments if spec.segmented else None, pad)
        tail += f" : ({', '.join(map(str, types))}) -> {results}"
        tail += f" loc({quote(op.name)})" if op.name else ""
        blocks = lmhlo.blocks_of(op)
        reducer = next((getattr(op, f.name) for f in spec.regions if f.role is Role.REDUCER), None)
        if reducer is not None and reducer.kind:
            self.out.append(head + " ({")
            self.out += _reducer_lines(reducer.kind, lmhlo.views_of(op)[0], pad)
            self.out.append(f"{pad}}}){tail}")
        elif blocks:
            self.out.append(head + " ({")
            rest: list[str | tuple[lmhlo.Block, str]] = [(b, f"{pad}}}, {{") for b in blocks[1:]]
            self._push(blocks[0], indent + 1, [*rest, f"{pad}}}){tail}"])
        else:
            self.out.append(head + tail)

    def _operands(self, op: lmhlo.Op, indent: int) -> tuple[list[str], list[Type], list[int]]:
        """Names and types of the operands, and how many belong to each field."""
        values: list[str] = []
        types: list[Type] = []
        segments: list[int] = []
        if isinstance(op, lmhlo.Call):
            values += [f"%arg{i}" for i in range(len(self.function.arguments))]
            types += [argument_type(a) for a in self.function.arguments]
        for f in lmhlo.spec_of(type(op)).operands:
            value = getattr(op, f.name)
            if f.role is Role.TOKEN:
                values.append(self.names[value])
                types.append(TOKEN_TYPE)
                segments.append(1)
                continue
            views = value if f.role is Role.OPERANDS else () if value is None else (value,)
            values += [self._view(v, indent) for v in views]
            types += [memref_of(v.type) for v in views]
            segments.append(len(views))
        return values, types, segments

    def _launch(self, op: lmhlo.LaunchFunc, indent: int) -> None:
        sizes = [self._index(v, indent) for v in (*op.grid, *op.block)]
        arguments = ", ".join(f"{self._view(v, indent)} : {memref_of(v.type)}" for v in op.arguments)
        self.out.append(
            f"{'  ' * indent}gpu.launch_func {SymbolRef(op.module, (op.kernel,))} blocks in ({', '.join(sizes[:3])}) "
            f"threads in ({', '.join(sizes[3:])})"
            + (f" args({arguments})" if arguments else "")
            + (f" loc({quote(op.name)})" if op.name else "")
        )


def _elements(t: ArrayType) -> int:
    return t.num_bytes // t.dtype.itemsize


def _attribute_text(op: lmhlo.Op, segments: list[int] | None, pad: str) -> str:
    """The dictionary of an operation's attributes, in the order of their fields."""
    spec = lmhlo.spec_of(type(op))
    entries: list[tuple[str, Attribute]] = []
    for f in spec.attributes:
        value = getattr(op, f.name)
        if f.codec is not None and value is not None:
            entries.append((f.name, f.codec.write(value)))
    for f in spec.regions:
        reducer = getattr(op, f.name)
        if f.role is Role.REDUCER and not reducer.kind:
            entries.append((f.name, HLO.write(reducer.hlo)))
    parts = [_entry_text(k, v, pad) for k, v in entries if k != "opcode"]
    if segments is not None:
        parts.append(f"operand_segment_sizes = array<{I32}: {', '.join(map(str, segments))}>")
    return f" {{{', '.join(parts)}}}" if parts else ""


def _entry_text(key: str, value: Attribute, pad: str) -> str:
    if isinstance(value, ArrayAttr) and len(value.items) > 1 and key in ("hlo", "computation"):
        lines = f",\n{pad}    ".join(map(str, value.items))
        return f"{key} = [\n{pad}    {lines}\n{pad}  ]"
    return dict_body(((key, value),))


def _reducer_lines(kind: str, view: lmhlo.View, pad: str) -> list[str]:
    """`^bb0(%a, %b): mhlo.add; mhlo.return` on scalars of the operand's type."""
    scalar = f"tensor<{element_of(view.type.dtype)}>"
    return [
        f"{pad}^bb0(%lhs: {scalar}, %rhs: {scalar}):",
        f'{pad}  %reduced = "mhlo.{kind}"(%lhs, %rhs) : ({scalar}, {scalar}) -> {scalar}',
        f'{pad}  "mhlo.return"(%reduced) : ({scalar}) -> ()',
    ]
