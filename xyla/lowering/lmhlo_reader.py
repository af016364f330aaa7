"""LMHLO from MLIR text: what `lmhlo_text` prints, and what the dialects' own tests are written in.

Function arguments may be plain bytes that `memref.view` gives a type, or typed memrefs. Faults are located.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from typing import Any

from xyla.formats.hlo_text import parse_shape
from xyla.formats.mlir import dense, ir
from xyla.formats.mlir.attributes import (
    AffineAttr,
    ArrayAttr,
    Attribute,
    DenseAttr,
    DictAttr,
    IntegerAttr,
    StridedAttr,
    StringAttr,
    SymbolRef,
    TypeAttr,
)
from xyla.formats.mlir.dialects import Dialects
from xyla.formats.mlir.parser import parse_module
from xyla.formats.mlir.types import MemRefType, Type
from xyla.formats.mlir.upstream import UPSTREAM
from xyla.formats.stablehlo import decode_attrs
from xyla.formats.stablehlo.assembly_structured import STRUCTURED
from xyla.formats.stablehlo.convert import RULES
from xyla.hlo.literal import Literal
from xyla.hlo.shape import Layout, Shape
from xyla.lowering import lmhlo
from xyla.lowering.lmhlo_attrs import HLO
from xyla.lowering.lmhlo_base import FieldSpec, OpSpec, Role
from xyla.lowering.lmhlo_regions import REGIONS, describe
from xyla.lowering.rt_types import array_type_of, bytes_memref
from xyla.runtime.program import ArrayType, Slice
from xyla.support.diagnostics import did_you_mean
from xyla.support.status import XylaError, invalid, unimplemented

_TERMINATORS = frozenset({"lmhlo.terminator", "func.return"})
_CONVOLUTIONS = ("forward", "backwardinput", "backwardfilter", "forward_fused", "forward_fused_with_side_input")
# Convolutions are written as StableHLO writes them.
_DIALECTS = UPSTREAM.plus(REGIONS).plus(
    Dialects({f"lmhlo_gpu.conv_{kind}": STRUCTURED["stablehlo.convolution"] for kind in _CONVOLUTIONS})
)
_COMMENT = re.compile(r"/\*.*?\*/")
_AFFINE_TERM = re.compile(r"(?:(\d+)\s*\*\s*)?d(\d+)(?:\s*\*\s*(\d+))?")


def parse(text: str, name: str = "<lmhlo>") -> lmhlo.Module:
    """The module in `text`; `name` is what errors call the file. Raises INVALID_ARGUMENT or UNIMPLEMENTED, located."""
    return from_mlir(parse_module(text, name, _DIALECTS))


def from_mlir(module: ir.MlirModule) -> lmhlo.Module:
    """The LMHLO module that a parsed one says."""
    return _Reader(module).run()


class _Reader:
    """One module. `located` puts the operation at hand into errors."""

    def __init__(self, source: ir.MlirModule) -> None:
        self.source = source
        self.globals: list[lmhlo.Global] = []
        self.global_numbers: dict[str, int] = {}
        self.kernels: dict[str, str] = {}

    def run(self) -> lmhlo.Module:
        """Reads constants and GPU modules first: functions refer to them."""
        functions: list[ir.Operation] = []
        for op in self.source.body:
            if op.name == "memref.global":
                self._at(op, self._global, op)
            elif op.name == "gpu.module":
                self.kernels[op.symbol_name or ""] = self._at(op, decode_attrs.string, op, "binary", "")
            elif op.name == "func.func":
                functions.append(op)
            else:
                raise invalid(f"{op.name} is not understood at the top of a module", span=self.source.span(op))
        defined = [f for f in functions if f.regions and f.regions[0].blocks]
        defined.sort(key=_is_private)
        if not defined:
            raise invalid("the module has no function with a body", span=self.source.span(self.source.op))
        out: list[lmhlo.Function] = []
        for f in defined:
            out.append(_FunctionReader(self, f, out[0] if out and _is_private(f) else None).run())
        return lmhlo.Module(self.source.op.symbol_name or "module", out, self.globals, self.kernels)

    def _at(self, op: ir.Operation, read: Any, *args: Any) -> Any:
        """What `read(*args)` gives; its errors are located at `op`."""
        try:
            return read(*args)
        except XylaError as error:
            raise error.located(self.source.span(op)) from None

    def _global(self, op: ir.Operation) -> None:
        name, type_, value = op.symbol_name or "", op.get("type"), op.get("initial_value")
        if not isinstance(type_, TypeAttr) or not isinstance(value, DenseAttr):
            raise unimplemented(f"memref.global @{name} has no value")
        memref = type_.type
        if not isinstance(memref, MemRefType) or memref.dims is None:
            raise invalid(f"memref.global @{name} is not a ranked memref")
        array = dense.decode(value, self.source.source).reshape(memref.dims)
        shape = Shape.array(dense.element_type(memref.element), memref.dims)
        if memref.layout is not None:
            order = memref_type(memref).minor_to_major
            shape = shape.with_layout(Layout.of(order))
        self.global_numbers[name] = len(self.globals)
        self.globals.append(lmhlo.Global(name, Literal(shape, array), _optional_int(op.get("lmhlo.alloc"))))


def memref_type(type_: Type) -> ArrayType:
    """The array type of a memref; affine layouts (`affine_map<(d0, d1) -> (d0 + d1 * 4)>`) are strides too.

    Raises INVALID_ARGUMENT for what is no memref, UNIMPLEMENTED for dynamic shapes, offsets and gaps between elements.
    """
    if isinstance(type_, MemRefType) and isinstance(type_.layout, AffineAttr) and type_.dims is not None:
        strides = _affine_strides(str(type_.layout), len(type_.dims))
        layout = StridedAttr(f"strided<[{', '.join(map(str, strides))}]>")
        type_ = MemRefType(type_.dims, type_.element, layout)
    if isinstance(type_, MemRefType) and type_.dims is not None and any(d < 0 for d in type_.dims):
        raise unimplemented(f"{type_}: buffers are of static shape")
    if isinstance(type_, MemRefType) and isinstance(type_.layout, StridedAttr) and "offset" in str(type_.layout):
        raise unimplemented(f"{type_}: a layout with an offset")
    found = array_type_of(type_)
    if not _is_dense(found):
        raise unimplemented(f"{type_}: elements that do not lie side by side")
    return found


def _is_dense(t: ArrayType) -> bool:
    """Whether the strides are those of an order of the dimensions, without gaps."""
    step = t.dtype.itemsize
    for d in t.minor_to_major:
        if t.dims[d] != 1 and t.strides[d] != step and t.num_bytes:
            return False
        step *= t.dims[d]
    return True


def _affine_strides(text: str, rank: int) -> list[int]:
    """Strides of a map that is a sum of dimensions times constants."""
    body = text.rpartition("->")[2].strip().removesuffix(">").strip().removeprefix("(").removesuffix(")")
    strides = [0] * rank
    for term in body.split("+"):
        found = _AFFINE_TERM.fullmatch(term.strip())
        if found is None or int(found[2]) >= rank:
            raise unimplemented(f"the layout {text}: not a sum of dimensions times constants")
        strides[int(found[2])] += int(found[1] or 1) * int(found[3] or 1)
    return strides


def _is_private(op: ir.Operation) -> bool:
    return op.get("sym_visibility") == StringAttr("private")


def _shape(attr: Attribute | None) -> Shape | None:
    """An HLO shape; XLA counts long tuples in comments."""
    return parse_shape(_COMMENT.sub("", attr.value)) if isinstance(attr, StringAttr) else None


def _optional_int(attr: Attribute | None) -> int | None:
    return attr.value if isinstance(attr, IntegerAttr) else None


@dataclass(slots=True)
class _Level:
    """A block being read, and the operations of it that are left."""

    ops: Iterator[ir.Operation]
    block: lmhlo.Block


class _FunctionReader:
    """One function. Nested blocks are on a stack of their own."""

    def __init__(self, module: _Reader, op: ir.Operation, entry: lmhlo.Function | None) -> None:
        self.module = module
        self.op = op
        self.entry = entry
        self.values: dict[ir.Value, Any] = {}
        self.tokens = 0
        self.hosts = 0
        self.stack: list[_Level] = []
        self.arguments: list[lmhlo.Argument] = []

    def run(self) -> lmhlo.Function:
        """The function. A private one works on the allocations of the entry."""
        op = self.op
        blocks = op.regions[0].blocks
        self.arguments = self.entry.arguments if self.entry else self.module._at(op, self._arguments, blocks[0])
        for i, value in enumerate(blocks[0].arguments):
            self.values[value] = self.module._at(op, _whole, i, value.type)
        body = lmhlo.Block()
        self._enter(op, op.regions[0], body)
        while self.stack:
            level = self.stack[-1]
            inner = next(level.ops, None)
            if inner is None:
                self.stack.pop()
            else:
                self.module._at(inner, self._operation, inner, level.block)
        found = op.get("result_xla_shape")
        result = _shape(found)
        return lmhlo.Function(
            op.symbol_name or "", self.arguments, body, self._count("replica_count"), self._count("num_partitions"),
            result, _is_private(op),
        )  # fmt: skip

    def _count(self, key: str) -> int:
        found = self.op.get(key) or self.module.source.op.get(key) or self.module.source.op.get(f"mhlo.{key}")
        return found.value if isinstance(found, IntegerAttr) else 1

    # -- arguments ---------------------------------------------------------------------------------------------

    def _arguments(self, block: ir.Block) -> list[lmhlo.Argument]:
        attrs = self.op.get("arg_attrs")
        dicts = attrs.items if isinstance(attrs, ArrayAttr) else (DictAttr(()),) * len(block.arguments)
        return [_argument(v.type, d) for v, d in zip(block.arguments, dicts, strict=True) if isinstance(d, DictAttr)]

    # -- blocks and operations ---------------------------------------------------------------------------------

    def _enter(self, op: ir.Operation, region: ir.Region, block: lmhlo.Block) -> None:
        if len(region.blocks) != 1:
            raise invalid(f"a region of {op.name} is one block, not {len(region.blocks)}")
        ops = region.blocks[0].operations
        if not ops or ops[-1].name not in _TERMINATORS:
            raise invalid(f"a block of {op.name} ends with lmhlo.terminator")
        if ops[-1].operands:
            raise invalid("results are written to memory, not returned", span=self.module.source.span(ops[-1]))
        self.stack.append(_Level(iter(ops[:-1]), block))

    def _operation(self, op: ir.Operation, block: lmhlo.Block) -> None:
        if op.name in _DEFINING:
            self.values[op.results[0]] = _DEFINING[op.name](self, op)
            return
        made = self._launch_func(op) if op.name == "gpu.launch_func" else self._declared(op)
        loc = self.module.source.resolve(op.loc)
        made.name = loc.name if isinstance(loc, ir.NameLoc) else ""
        made.span = self.module.source.span(op)
        block.ops.append(made)

    def _declared(self, op: ir.Operation) -> lmhlo.Op:
        """An operation that is read by its declaration."""
        cls = lmhlo.find(op.name)
        launch = op.get("hlo") is not None and op.name.startswith("lmhlo.") and cls is not lmhlo.CustomCall
        if launch:
            cls = lmhlo.Launch
        if cls is None or (cls is lmhlo.Launch and not launch):
            return self._described(op)
        spec = lmhlo.spec_of(cls)
        values: dict[str, Any] = self._operands(op, spec)
        for f in spec.attributes:
            values[f.name] = self._attribute(op, f)
        self._results(op, spec, values)
        nested = self._regions(op, spec, values)
        if cls is lmhlo.Launch:
            values["opcode"] = op.name.removeprefix("lmhlo.").replace("_", "-")
        for region, block in reversed(nested):
            self._enter(op, region, block)
        return cls(**values)

    def _described(self, op: ir.Operation) -> lmhlo.Op:
        """A launch that the dialect's own operation describes."""
        if not op.name.startswith("lmhlo."):
            raise invalid(f"{op.name} is no operation of a buffer-level program")
        if f"stablehlo.{op.name[6:]}" not in RULES and op.name != "lmhlo.fusion":
            near = did_you_mean(op.name, [c.NAME for c in lmhlo.all_ops()])
            hint = f"did you mean '{near}'?" if near else "a kernel is described by its 'hlo' attribute"
            raise unimplemented(f"{op.name} has no 'hlo' attribute that says what it does", hint=hint)
        found = describe(self.module.source, op, self._value)
        return lmhlo.Launch(found.opcode, found.inputs, found.outputs, (), hlo=found.hlo)

    @staticmethod
    def _attribute(op: ir.Operation, f: FieldSpec) -> Any:
        assert f.codec is not None
        if op.get(f.name) is None and f.default is not MISSING:
            return f.default
        return f.codec.read(op, f.name)

    def _results(self, op: ir.Operation, spec: OpSpec, values: dict[str, Any]) -> None:
        if len(op.results) != len(spec.results):
            raise invalid(f"{op.name} has {len(spec.results)} results, not {len(op.results)}")
        for f, result in zip(spec.results, op.results, strict=True):
            values[f.name] = self.values[result] = lmhlo.Token(self.tokens)
            self.tokens += 1

    # -- operands ----------------------------------------------------------------------------------------------

    def _operands(self, op: ir.Operation, spec: OpSpec) -> dict[str, Any]:
        found = [self._value(v) for v in op.operands]
        if spec.cls is lmhlo.Call:
            if found[: len(self.arguments)] != [self.values[v] for v in self.op.regions[0].blocks[0].arguments]:
                raise invalid("a call passes all arguments of its function on, in order")
            found = found[len(self.arguments) :]
        out: dict[str, Any] = {}
        at = 0
        for f, count in zip(spec.operands, _segments(op, spec, len(found)), strict=True):
            part = found[at : at + count]
            at += count
            wanted = lmhlo.Token if f.role is Role.TOKEN else lmhlo.View
            if not all(isinstance(p, wanted) for p in part):
                raise invalid(f"operand '{f.name}' of {op.name} is a {'token' if wanted is lmhlo.Token else 'memref'}")
            out[f.name] = tuple(part) if f.role is Role.OPERANDS else part[0] if part else None
        return out

    def _value(self, value: ir.Value) -> Any:
        found = self.values.get(value)
        if found is None:
            raise invalid(f"{value!r} is used before it is defined")
        return found

    # -- regions -----------------------------------------------------------------------------------------------

    def _regions(self, op: ir.Operation, spec: OpSpec, values: dict[str, Any]) -> list[tuple[ir.Region, lmhlo.Block]]:
        """Fills in the region fields; returns the regions whose operations are still to be read."""
        regions = [r for r in op.regions if r.blocks]
        nested: list[tuple[ir.Region, lmhlo.Block]] = []
        for f in spec.regions:
            if f.role is Role.REDUCER:
                values[f.name] = _reducer(op, f.name, regions.pop(0) if regions else None)
                continue
            taken = regions if f.role is Role.REGIONS else regions[:1]
            blocks = tuple(lmhlo.Block() for _ in taken)
            if not taken:
                raise invalid(f"{op.name} needs a region '{f.name}'")
            nested += zip(taken, blocks, strict=True)
            regions = regions[len(taken) :]
            values[f.name] = blocks if f.role is Role.REGIONS else blocks[0]
        if regions:
            raise invalid(f"{op.name} has no region")
        return nested

    # -- memory ------------------------------------------------------------------------------------------------

    def _constant(self, op: ir.Operation) -> int:
        value = op.get("value")
        if not isinstance(value, IntegerAttr):
            raise invalid("only integer constants are understood between buffers")
        return value.value

    def _view(self, op: ir.Operation) -> lmhlo.View:
        base, offset = self._value(op.operands[0]), self._value(op.operands[1])
        if len(op.operands) > 2:
            raise unimplemented("memref.view with dynamic sizes")
        type_ = memref_type(op.results[0].type)
        where = base.slice
        if offset < 0 or offset + type_.num_bytes > where.size:
            raise invalid(f"bytes {offset} to {offset + type_.num_bytes} of {where.size} are outside")
        return lmhlo.View(Slice(where.allocation, where.offset + offset, type_.num_bytes), type_, base.space)

    def _recast(self, op: ir.Operation) -> lmhlo.View:
        base = self._value(op.operands[0])
        offset = dense.ints(op.get("static_offsets")) or (0,)
        type_ = memref_type(op.results[0].type)
        where = base.slice
        start = offset[0] * type_.dtype.itemsize
        if start + type_.num_bytes > where.size:
            raise invalid(f"{type_.num_bytes} bytes from byte {start} on are outside of {where.size}")
        return lmhlo.View(Slice(where.allocation, where.offset + start, type_.num_bytes), type_, base.space)

    def _get_global(self, op: ir.Operation) -> lmhlo.View:
        name = op.get("name")
        number = self.module.global_numbers.get(name.root) if isinstance(name, SymbolRef) else None
        if number is None:
            raise invalid(f"{name} is not defined")
        type_ = memref_type(op.results[0].type)
        return lmhlo.View(Slice(number, 0, type_.num_bytes), type_, lmhlo.Space.GLOBAL)

    def _alloca(self, op: ir.Operation) -> lmhlo.View:
        type_ = memref_type(op.results[0].type)
        self.hosts += 1
        return lmhlo.View(Slice(self.hosts - 1, 0, type_.num_bytes), type_, lmhlo.Space.HOST)

    def _launch_func(self, op: ir.Operation) -> lmhlo.LaunchFunc:
        kernel = op.get("kernel")
        if not isinstance(kernel, SymbolRef) or len(kernel.nested) != 1:
            raise invalid("gpu.launch_func names its kernel @module::@function")
        found = [self._value(v) for v in op.operands]
        sizes, views = found[:6], tuple(found[6:])
        if not all(isinstance(s, int) for s in sizes):
            raise unimplemented("gpu.launch_func with sizes that are no constants")
        return lmhlo.LaunchFunc(views, kernel.root, kernel.nested[0], tuple(sizes[:3]), tuple(sizes[3:]))


_DEFINING: dict[str, Any] = {
    "arith.constant": _FunctionReader._constant,
    "memref.view": _FunctionReader._view,
    "memref.reinterpret_cast": _FunctionReader._recast,
    "memref.get_global": _FunctionReader._get_global,
    "memref.alloca": _FunctionReader._alloca,
    "memref.alloc": _FunctionReader._alloca,
}


def _whole(number: int, type_: Type) -> lmhlo.View:
    array = memref_type(type_)
    return lmhlo.View(Slice(number, 0, array.num_bytes), array)


def _argument(type_: Type, attrs: DictAttr) -> lmhlo.Argument:
    array = memref_type(type_)
    raw = type_ == bytes_memref(array.num_bytes)
    name, shape, constant = attrs.get("xla.name"), attrs.get("xla.shape"), attrs.get("lmhlo.constant_name")
    output = attrs.get("lmhlo.output_index")
    outputs = output.items if isinstance(output, ArrayAttr) else () if output is None else (output,)
    return lmhlo.Argument(
        array.num_bytes,
        _optional_int(attrs.get("lmhlo.alloc")),
        _optional_int(attrs.get("lmhlo.params")),
        dense.ints(attrs.get("lmhlo.param_shape_index")) or (),
        constant.value if isinstance(constant, StringAttr) else None,
        tuple(dense.ints(o) or () for o in outputs),
        attrs.get("lmhlo.must_alias") is not None,
        name.value if isinstance(name, StringAttr) else "",
        _shape(shape),
        None if raw else array,
        attrs.get("lmhlo.written") is not None,
    )


def _segments(op: ir.Operation, spec: OpSpec, count: int) -> list[int]:
    """How many operands each field takes."""
    fixed = sum(f.role in (Role.OPERAND, Role.TOKEN) for f in spec.operands)
    loose = len(spec.operands) - fixed
    if spec.segmented:
        sizes = _stated_segments(op)
        if len(sizes) != len(spec.operands) or sum(sizes) != count or min(sizes) < 0:
            raise invalid(f"operand_segment_sizes of {op.name} divide {count} operands into {len(spec.operands)} parts")
        for f, n in zip(spec.operands, sizes, strict=True):
            if (f.role in (Role.OPERAND, Role.TOKEN) and n != 1) or (f.role is Role.OPTIONAL and n > 1):
                raise invalid(f"operand '{f.name}' of {op.name} is one value, not {n}")
        return list(sizes)
    rest = count - fixed
    if rest < 0 or (loose == 0 and rest) or (loose and rest % loose):
        groups = {0: "", 1: " or more"}.get(loose, f" and {loose} groups of equal size")
        raise invalid(f"{op.name} takes {fixed}{groups} operands, not {count}")
    return [1 if f.role in (Role.OPERAND, Role.TOKEN) else rest // loose for f in spec.operands]


def _stated_segments(op: ir.Operation) -> tuple[int, ...]:
    for key in ("operand_segment_sizes", "operandSegmentSizes"):
        found = dense.ints(op.get(key))
        if found is not None:
            return found
    raise invalid(f"{op.name} needs operand_segment_sizes")


def _reducer(op: ir.Operation, key: str, region: ir.Region | None) -> lmhlo.Reducer:
    """The reduction in a region, or in an attribute of HLO text where no single operation does it."""
    if op.get(key) is not None:
        return lmhlo.Reducer(hlo=HLO.read(op, key))
    if region is None:
        raise invalid(f"{op.name} needs a region that says how it reduces")
    body = region.blocks[0]
    ops = body.operations
    simple = len(ops) == 2 and set(ops[0].operands) == set(body.arguments) and ops[1].operands == ops[0].results
    if not simple or len(body.arguments) != 2:
        raise unimplemented(f"{op.name}: its reduction is not one operation on its two values")
    kind = ops[0].name.partition(".")[2]
    if kind not in lmhlo.REDUCTIONS:
        raise unimplemented(f"{op.name}: its reduction {ops[0].name} is none of {', '.join(lmhlo.REDUCTIONS)}")
    return lmhlo.Reducer(kind)
