"""Printing the generic form: any `MlirModule` becomes text that reads back as the same structure.

Source: the MLIR language reference ("Operations", generic form).
"""

from __future__ import annotations

from xyla.formats.mlir.attributes import DictAttr, dict_body, quote
from xyla.formats.mlir.ir import Block, Location, MlirModule, Operation, Region, Value
from xyla.formats.mlir.types import FunctionType


def print_module(module: MlirModule, *, locations: bool = False) -> str:
    """The module in generic form; with `locations`, the location aliases and every `loc(...)` too."""
    printer = _Printer(locations)
    if locations:
        printer.lines += [f"#{name} = loc({loc})" for name, loc in module.locations.items()]
    printer.operation(module.op, 0)
    return "\n".join(printer.lines) + "\n"


class _Printer:
    """Writes lines. Values keep their names where those are unique; otherwise they are numbered."""

    def __init__(self, locations: bool) -> None:
        self.lines: list[str] = []
        self.locations = locations
        self.names: dict[Value, str] = {}
        self.counter = 0
        self.blocks: dict[Block, str] = {}

    def operation(self, op: Operation, indent: int) -> None:
        """Appends the operation and what it contains."""
        pad = "  " * indent
        head = pad + self._results(op) + quote(op.name)
        head += f"({', '.join(self._use(v) for v in op.operands)})"
        if op.successors:
            head += f"[{', '.join(self._block_label(s.block) if s.block else s.label for s in op.successors)}]"
        if op.properties:
            head += f" <{{{dict_body(tuple(op.properties.items()))}}}>"
        if op.regions:
            self.lines.append(head + " ({")
            for i, region in enumerate(op.regions):
                if i:
                    self.lines.append(pad + "}, {")
                self._region(region, indent + 1)
            head = pad + "})"
        if op.attributes:
            head += f" {DictAttr(tuple(op.attributes.items()))}"
        ftype = FunctionType(tuple(op.operand_types), tuple(op.result_types))
        self.lines.append(f"{head} : {ftype}{self._loc(op.loc)}")

    def _region(self, region: Region, indent: int) -> None:
        for i, block in enumerate(region.blocks):
            if i or block.arguments or not block.operations:
                arguments = ", ".join(f"{self._define(v)}: {v.type}{self._loc(v.loc)}" for v in block.arguments)
                self.lines.append(
                    "  " * (indent - 1) + self._block_label(block) + (f"({arguments})" if arguments else "") + ":"
                )
            for op in block.operations:
                self.operation(op, indent)

    def _results(self, op: Operation) -> str:
        if not op.results:
            return ""
        if len(op.results) == 1:
            return self._define(op.results[0]) + " = "
        base = f"%r{self._number()}"
        for i, value in enumerate(op.results):
            self.names[value] = f"{base}#{i}"
        return f"{base}:{len(op.results)} = "

    def _number(self) -> int:
        self.counter += 1
        return self.counter

    def _define(self, value: Value) -> str:
        name = self.names.get(value)
        if name is None:
            name = self.names[value] = f"%v{self._number()}"
        return name

    def _use(self, value: Value) -> str:
        return self.names.get(value) or self._define(value)

    def _block_label(self, block: Block) -> str:
        return self.blocks.setdefault(block, f"^bb{len(self.blocks)}")

    def _loc(self, loc: Location | None) -> str:
        return f" loc({loc})" if self.locations and loc is not None else ""
