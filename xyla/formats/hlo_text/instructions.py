"""One instruction: `ROOT %name = shape opcode(operands), attributes`."""

from __future__ import annotations

import re
from typing import Any

from xyla.formats.hlo_text import asyncs
from xyla.formats.hlo_text.annotations import read_frontend_attributes, read_metadata
from xyla.formats.hlo_text.attributes import AttrDecoder, AttrList, build, name_list, scan
from xyla.formats.hlo_text.callees import read_callees
from xyla.formats.hlo_text.lexer import NAME, Cursor, checked_int
from xyla.formats.hlo_text.literals import read_literal
from xyla.formats.hlo_text.operands import read_operands, undefined, unknown_opcode
from xyla.formats.hlo_text.shapes import ARRAY_TEXT, ShapeReader, read_layout
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction, Metadata, Module
from xyla.hlo.op_def import Attrs, OpDef, find_op
from xyla.hlo.rewriter import add_control_dependency
from xyla.hlo.shape import Shape
from xyla.support.diagnostics import Span
from xyla.support.status import XylaError, invalid

HEAD_RE = re.compile(rf"\s*+(ROOT\s++)?+%?({NAME})\s*+=\s*+({ARRAY_TEXT})?+\s*+([A-Za-z][\w\-]++)\s*+\(")
START_RE = re.compile(rf"\s*+(ROOT\s++)?+%?({NAME})\s*+=")
_OPCODE_RE = re.compile(r"\s*+([A-Za-z][\w\-]++)\s*+\(")
_CLOSE_RE = re.compile(r"\s*+\}")
_PAYLOAD_RE = re.compile(r'([^()"]*+(?:\([^()"]*+\)[^()"]*+)*+)\)')
_TUPLE_RE = re.compile(r"\s*+(\((?:[^()={]*+(?:\{[^{}]*+\}|\([^()={]*+(?:\{[^{}]*+\}[^()={]*+)*+\))?+)*+\))(?=\s)")


class InstructionReader:
    """Reads instructions of one module into computations. Holds the caches that make repetition cheap."""

    __slots__ = (
        "_decoder", "_frontend", "_metadata", "_tuples", "computations", "cursor", "module", "names", "nesting",
        "shapes", "starts", "undeclared",
    )  # fmt: skip

    def __init__(self, cursor: Cursor, module: Module, computations: dict[str, Computation]) -> None:
        self.cursor = cursor
        self.module = module
        # By the name the text uses; a generated computation may have another.
        self.computations = computations
        self.names: dict[str, Instruction] = {}
        self.shapes = ShapeReader()
        # What each asynchronous update continues: chains of updates are long in scheduled modules.
        self.starts: dict[Instruction, Instruction] = {}
        self._decoder = AttrDecoder()
        self._metadata: dict[str, Metadata] = {}
        self._frontend: dict[str, tuple[tuple[str, str], ...]] = {}
        self._tuples: dict[str, Shape] = {}
        # How deep the instruction at hand lies inside operand lists and attributes of others.
        self.nesting = 0
        # In a lone instruction, operands stand for parameters: they are not declared anywhere.
        self.undeclared = False

    def body(self, comp: Computation) -> None:
        """Reads instructions up to and with the computation's closing brace. Without a ROOT the last one is it."""
        cursor = self.cursor
        text, close = cursor.text, _CLOSE_RE.match
        self.names = {}
        rooted = False
        while (end := close(text, cursor.pos)) is None:
            start = cursor.pos
            if self.read(comp):
                if rooted:
                    cursor.pos = start
                    raise cursor.error(f"computation '{comp.name}' has a second ROOT")
                rooted = True
        if not comp.instructions:
            raise cursor.error(f"computation '{comp.name}' has no instructions")
        cursor.pos = end.end()
        if not rooted:
            comp.set_root(next(reversed(comp.instructions)))
        check_parameters(comp)

    def read(self, comp: Computation) -> bool:
        """Reads the instruction at the cursor into `comp`; whether it is marked ROOT. Raises located XylaErrors."""
        cursor = self.cursor
        match = HEAD_RE.match(cursor.text, cursor.pos)
        shape: Shape | None = None
        if match is not None:
            root, name, shape_text, opcode = match.groups()
            start, at = match.start(2), match.start(4)
            cursor.pos = match.end()
            if shape_text is not None:
                shape = self.shapes.array(shape_text) or self.shape_at(match.start(3))
                cursor.pos = match.end()
        else:
            root, name, shape, opcode, start, at = self._slow_head()
        if name in self.names:
            raise cursor.error(f"instruction '%{name}' is defined twice in computation '{comp.name}'", start, at - 1)
        op = find_op(opcode)
        if op is None:
            inst = self._other_opcode(comp, name, shape, opcode, at)
        else:
            inst = self.finish(comp, name, op, shape, at)
        inst.span = Span(cursor.source, start, at + len(opcode))
        self.names[name] = inst
        if root is not None:
            comp.set_root(inst)
        return root is not None

    def shape_at(self, pos: int) -> Shape:
        """The shape at an offset; the cursor ends behind it."""
        self.cursor.pos = pos
        return self.shapes.read(self.cursor)

    def read_lone(self, comp: Computation) -> None:
        """One instruction that is a text of its own, `f32[2] add(f32[2], f32[2])`, perhaps with a name before it."""
        self.undeclared = True
        if START_RE.match(self.cursor.text, self.cursor.pos):
            self.read(comp)
        else:
            shape = self.shapes.read(self.cursor)
            match = self.cursor.match(_OPCODE_RE, "an opcode and '('")
            opcode, at = match.group(1), match.start(1)
            op = find_op(opcode)
            if op is None:
                raise unknown_opcode(self.cursor, opcode, at)
            self.finish(comp, comp.unique_name("root"), op, shape, at).span = self.cursor.span(at, at + len(opcode))
        comp.set_root(next(reversed(comp.instructions)))

    def _slow_head(self) -> tuple[str | None, str, Shape | None, str, int, int]:
        """A head with a tuple shape or none; also where malformed heads are told apart."""
        cursor = self.cursor
        head = START_RE.match(cursor.text, cursor.pos)
        if head is None:
            raise cursor.error(f"expected an instruction '%name = ...' or '}}', found {cursor.found()}")
        cursor.pos = head.end()
        shape: Shape | None = None
        opcode = _OPCODE_RE.match(cursor.text, cursor.pos)
        if opcode is None:
            shape = self._tuple_shape()
            opcode = _OPCODE_RE.match(cursor.text, cursor.pos)
        if opcode is None:
            raise cursor.error(f"expected an opcode and '(', found {cursor.found()}")
        cursor.pos = opcode.end()
        return head.group(1), head.group(2), shape, opcode.group(1), head.start(2), opcode.start(1)

    def _tuple_shape(self) -> Shape:
        cursor = self.cursor
        match = _TUPLE_RE.match(cursor.text, cursor.pos)
        if match is not None and (found := self._tuples.get(match.group(1))) is not None:
            cursor.pos = match.end()
            return found
        cursor.skip()
        start = cursor.pos
        shape = self.shapes.read(cursor)
        if cursor.peek() == "{" and shape.is_array:
            # A layout set off by a space: `f32[2,3] {0,1} copy(x)`.
            return shape.with_layout(read_layout(cursor, self.shapes))
        self._tuples[cursor.text[start : cursor.pos]] = shape
        return shape

    def finish(
        self, comp: Computation, name: str, op: OpDef[Any], shape: Shape | None, at: int, *, attributes: bool = True
    ) -> Instruction:
        """The rest of an instruction, from behind its '('."""
        cursor = self.cursor
        if op is ops.CONSTANT or op is ops.PARAMETER:
            return self._leaf(comp, name, op, shape, at, attributes)
        operands = read_operands(self, comp)
        attrs = scan(cursor, op, self.shapes) if attributes else AttrList()
        record = self._decoder.decode(cursor, op, attrs, at)
        called = read_callees(self, op, attrs, at) if op.called or attrs.roles else ()
        self.check_arity(op, operands, at)
        return self.make(comp, name, op, shape, operands, record, called, attrs, at)

    def make(
        self, comp: Computation, name: str, op: OpDef[Any], shape: Shape | None, operands: tuple[Instruction, ...],
        record: Attrs, called: tuple[Computation, ...], attrs: AttrList, at: int,
    ) -> Instruction:  # fmt: skip
        """Builds and links the instruction, inferring a shape that the text left out."""
        if shape is None:
            shape = self._infer(op, operands, record, called, at)
        # Named here, when the operands nested in this one have their names.
        inst = Instruction(name or comp.unique_name(f"{op.name}.anon"), op, shape, operands, record, called, comp)
        comp.link(inst)
        for key, text, start in attrs.annotations:
            self._annotate(inst, key, text, start)
        return inst

    def _infer(
        self, op: OpDef[Any], operands: tuple[Instruction, ...], record: Attrs, called: tuple[Computation, ...], at: int
    ) -> Shape:
        span = self.cursor.span(at, at + len(op.name))
        if op.infer is None:
            raise self.cursor.error(f"{op.name} needs its result shape: none can be inferred", at, at + len(op.name))
        try:
            return op.infer([o.shape for o in operands], record, called)
        except XylaError as error:
            raise error.located(span) from None

    def _leaf(
        self, comp: Computation, name: str, op: OpDef[Any], shape: Shape | None, at: int, attributes: bool
    ) -> Instruction:
        """A constant or a parameter: what stands between the parentheses is not operands."""
        cursor = self.cursor
        if shape is None:
            raise cursor.error(f"{op.name} needs its shape", at, at + len(op.name))
        start = cursor.pos
        match = _PAYLOAD_RE.match(cursor.text, start)
        end = match.end() if match else cursor.balanced(start - 1)
        payload = cursor.text[start : end - 1]
        cursor.pos = end
        attrs = scan(cursor, op, self.shapes) if attributes else AttrList()
        values = self._decoder.values(cursor, op, attrs) if attrs.parts else {}
        try:
            if op is ops.CONSTANT:
                values["literal"] = read_literal(shape, payload)
            else:
                values["number"] = checked_int(payload)
                if values["number"] < 0:
                    raise cursor.error("a parameter number is negative", start, end - 1)
        except XylaError as error:
            raise error.located(cursor.span(start, max(start + 1, end - 1))) from None
        return self.make(comp, name, op, shape, (), build(cursor, op, values, at), (), attrs, at)

    def check_arity(self, op: OpDef[Any], operands: tuple[Instruction, ...], at: int) -> None:
        """Raises a located INVALID_ARGUMENT when `op` does not take that many operands."""
        count = len(operands)
        if op.arity is not None and count != op.arity:
            wants = f"{op.arity} operand{'s' if op.arity != 1 else ''}"
        elif count < op.min_arity:
            wants = f"at least {op.min_arity} operand{'s' if op.min_arity != 1 else ''}"
        else:
            return
        raise self.cursor.error(f"{op.name} takes {wants}, {count} given", at, at + len(op.name))

    def _other_opcode(self, comp: Computation, name: str, shape: Shape | None, opcode: str, at: int) -> Instruction:
        """Sugared async ops (`add-start`), or a misspelt opcode."""
        sugar = asyncs.split(opcode)
        if sugar is None:
            raise unknown_opcode(self.cursor, opcode, at)
        return asyncs.read(self, comp, name, shape, sugar, at)

    def free_name(self, base: str) -> str:
        """A name for a generated computation."""
        name, n = base, 1
        while name in self.module.computations:
            name, n = f"{base}.{n}", n + 1
        return name

    def _annotate(self, inst: Instruction, key: str, text: str, start: int) -> None:
        cursor = self.cursor
        try:
            if key == "metadata":
                found = self._metadata.get(text)
                if found is None:
                    found = self._metadata[text] = read_metadata(text)
                inst.metadata = found
            elif key == "frontend_attributes":
                pairs = self._frontend.get(text)
                if pairs is None:
                    pairs = self._frontend[text] = read_frontend_attributes(text)
                inst.frontend_attributes = pairs
            elif key == "control-predecessors":
                for name in name_list(text):
                    first = self.names.get(name)
                    if first is None:
                        raise undefined(self, inst.parent, name, max(start, cursor.text.find(name, start)))
                    add_control_dependency(first, inst)
            else:
                setattr(inst, key, cursor.source.text[start : start + len(text)])
        except XylaError as error:
            raise error.located(cursor.span(start, start + len(text))) from None

    def decode(self, op: OpDef[Any], attrs: AttrList, at: int) -> Any:
        """The attribute record of `op` from a scanned list."""
        return self._decoder.decode(self.cursor, op, attrs, at)


def check_parameters(comp: Computation) -> None:
    """Parameter numbers must be 0, 1, ... each once. Raises a located INVALID_ARGUMENT."""
    for i, param in enumerate(comp.parameters):
        number = param.attrs.number
        if number != i:
            what = f"parameter number {number} is used twice" if number < i else f"there is no parameter({i})"
            raise invalid(f"computation '{comp.name}': {what}", span=param.span)
