"""One instruction: `ROOT %name = shape opcode(operands), attributes`."""

from __future__ import annotations

import re
from typing import Any

from xyla.formats.hlo_text import asyncs
from xyla.formats.hlo_text.annotations import read_frontend_attributes, read_metadata
from xyla.formats.hlo_text.attributes import AttrDecoder, AttrList, build, name_list, scan
from xyla.formats.hlo_text.lexer import NAME, Cursor, checked_int
from xyla.formats.hlo_text.literals import read_literal
from xyla.formats.hlo_text.shapes import ARRAY_TEXT, ShapeReader, read_layout
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction, Metadata, Module
from xyla.hlo.op_def import Attrs, OpDef, all_ops, find_op
from xyla.hlo.rewriter import add_control_dependency
from xyla.hlo.shape import Shape
from xyla.support.diagnostics import Span, did_you_mean
from xyla.support.status import XylaError, invalid

HEAD_RE = re.compile(rf"\s*+(ROOT\s++)?+%?({NAME})\s*+=\s*+({ARRAY_TEXT})?+\s*+([A-Za-z][\w\-]++)\s*+\(")
_START_RE = re.compile(rf"\s*+(ROOT\s++)?+%?({NAME})\s*+=")
_OPCODE_RE = re.compile(r"\s*+([A-Za-z][\w\-]++)\s*+\(")
_PLAIN_RE = re.compile(rf"\s*+((?:%?{NAME}\s*+(?:,\s*+%?{NAME}\s*+)*+)?+)\)")
_TYPED_RE = re.compile(rf"\s*+(?:{ARRAY_TEXT}\s++)?+%?({NAME})\s*+(?=[,)])")
_CLOSE_RE = re.compile(r"\s*+\}")
_NESTED_RE = re.compile(rf"\s*+(?:{ARRAY_TEXT}\s++)?+([a-z][\w\-]++)\s*+\(")
# Instructions inside operand lists and computations inside attributes nest at most this deep.
_MAX_NESTING = 32
_NAME_RE = re.compile(rf"\s*+%?({NAME})\s*+(?=[,)])")
_PAYLOAD_RE = re.compile(r'([^()"]*+(?:\([^()"]*+\)[^()"]*+)*+)\)')
_TUPLE_RE = re.compile(r"\s*+(\((?:[^()={]*+(?:\{[^{}]*+\}|\([^()={]*+(?:\{[^{}]*+\}[^()={]*+)*+\))?+)*+\))(?=\s)")


class InstructionReader:
    """Reads instructions of one module into computations. Holds the caches that make repetition cheap."""

    __slots__ = (
        "_decoder",
        "_frontend",
        "_metadata",
        "_nesting",
        "_tuples",
        "computations",
        "cursor",
        "module",
        "names",
        "shapes",
    )

    def __init__(self, cursor: Cursor, module: Module, computations: dict[str, Computation]) -> None:
        self.cursor = cursor
        self.module = module
        # By the name the text uses; a generated computation may have another.
        self.computations = computations
        self.names: dict[str, Instruction] = {}
        self.shapes = ShapeReader()
        self._decoder = AttrDecoder()
        self._metadata: dict[str, Metadata] = {}
        self._frontend: dict[str, tuple[tuple[str, str], ...]] = {}
        self._tuples: dict[str, Shape] = {}
        self._nesting = 0

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
                shape = self.shapes.array(shape_text) or self._shape_at(match.start(3))
                cursor.pos = match.end()
        else:
            root, name, shape, opcode, start, at = self._slow_head()
        if name in self.names:
            raise cursor.error(f"instruction '%{name}' is defined twice in computation '{comp.name}'", start, at - 1)
        op = find_op(opcode)
        if op is None:
            inst = self._other_opcode(comp, name, shape, opcode, at)
        else:
            inst = self._finish(comp, name, op, shape, at)
        inst.span = Span(cursor.source, start, at + len(opcode))
        self.names[name] = inst
        if root is not None:
            comp.set_root(inst)
        return root is not None

    def _shape_at(self, pos: int) -> Shape:
        self.cursor.pos = pos
        return self.shapes.read(self.cursor)

    def _slow_head(self) -> tuple[str | None, str, Shape | None, str, int, int]:
        """A head with a tuple shape or none; also where malformed heads are told apart."""
        cursor = self.cursor
        head = _START_RE.match(cursor.text, cursor.pos)
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

    def _finish(
        self, comp: Computation, name: str, op: OpDef[Any], shape: Shape | None, at: int, *, attributes: bool = True
    ) -> Instruction:
        """The rest of an instruction, from behind its '('."""
        cursor = self.cursor
        if op is ops.CONSTANT or op is ops.PARAMETER:
            return self._leaf(comp, name, op, shape, at, attributes)
        operands = self.operands(comp)
        attrs = scan(cursor, op, self.shapes) if attributes else AttrList()
        record = self._decoder.decode(cursor, op, attrs, at)
        called = self.called(op, attrs, at) if op.called or attrs.roles else ()
        self._check_arity(op, operands, called, at)
        return self.make(comp, name, op, shape, operands, record, called, attrs, at)

    def make(
        self, comp: Computation, name: str, op: OpDef[Any], shape: Shape | None, operands: tuple[Instruction, ...],
        record: Attrs, called: tuple[Computation, ...], attrs: AttrList, at: int,
    ) -> Instruction:  # fmt: skip
        """Builds and links the instruction, inferring a shape that the text left out."""
        if shape is None:
            shape = self._infer(op, operands, record, called, at)
        # Named here, when the operands nested in this one have their names.
        inst = Instruction(name or comp.unique_name(f"nested_{op.name}"), op, shape, operands, record, called, comp)
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

    def operands(self, comp: Computation) -> tuple[Instruction, ...]:
        """The operand list, after its '('. Raises a located INVALID_ARGUMENT for an undefined operand."""
        cursor = self.cursor
        match = _PLAIN_RE.match(cursor.text, cursor.pos)
        if match is None:
            return self._typed_operands(comp)
        inner = match.group(1)
        if not inner:
            cursor.pos = match.end()
            return ()
        names = self.names
        try:
            operands = tuple([names[n.strip()] for n in inner.replace("%", "").split(",")])
        except KeyError:
            return self._typed_operands(comp)
        cursor.pos = match.end()
        return operands

    def _typed_operands(self, comp: Computation) -> tuple[Instruction, ...]:
        cursor = self.cursor
        out: list[Instruction] = []
        while True:
            match = _TYPED_RE.match(cursor.text, cursor.pos)
            shape: Shape | None = None
            if match is None and _NESTED_RE.match(cursor.text, cursor.pos) is None:
                shape = self.shapes.read(cursor)
                match = _NAME_RE.match(cursor.text, cursor.pos)
            if match is None:
                out.append(self._nested_operand(comp, shape))
            else:
                operand = self.names.get(match.group(1))
                if operand is None:
                    raise self.undefined(comp, match.group(1), match.start(1))
                out.append(operand)
                cursor.pos = match.end()
            if cursor.accept(")"):
                return tuple(out)
            cursor.expect(",", "or ')' after an operand")

    def _nested_operand(self, comp: Computation, shape: Shape | None) -> Instruction:
        """An operand written in place, `add(x, f32[] constant(1))`: no attributes, and a generated name."""
        cursor = self.cursor
        match = _NESTED_RE.match(cursor.text, cursor.pos)
        if match is None:
            raise cursor.error(f"expected an operand name, found {cursor.found()}")
        opcode, at = match.group(1), match.start(1)
        if shape is None and cursor.text[cursor.pos : at].strip():
            shape = self._shape_at(cursor.pos)
        op = find_op(opcode)
        if op is None:
            raise self._unknown_opcode(opcode, at)
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise cursor.error(f"instructions are nested deeper than {_MAX_NESTING}", at)
        cursor.pos = match.end()
        inst = self._finish(comp, "", op, shape, at, attributes=False)
        inst.span = cursor.span(at, at + len(opcode))
        self.names[inst.name] = inst
        self._nesting -= 1
        return inst

    def undefined(self, comp: Computation, name: str, start: int) -> XylaError:
        """The error for a name that no earlier instruction of the computation has."""
        near = did_you_mean(name, self.names)
        hint = f"did you mean '%{near}'?" if near else "an instruction must be defined before its uses"
        what = f"instruction '%{name}' is not defined in computation '{comp.name}'"
        return self.cursor.error(what, start, start + len(name), hint=hint)

    def called(self, op: OpDef[Any], attrs: AttrList, at: int) -> tuple[Computation, ...]:
        """The called computations in the order of the op's roles. Raises a located INVALID_ARGUMENT."""
        cursor = self.cursor
        by_role: dict[str, list[Computation]] = {}
        for key, text, start in attrs.roles:
            if text.startswith("{") and _START_RE.match(cursor.text, start + 1):
                by_role[key] = [self._inline(key, start)]
                continue
            try:
                names = name_list(text)
            except XylaError as error:
                raise error.located(cursor.span(start, start + len(text))) from None
            by_role[key] = [self._computation(name, start, text) for name in names]
        if op is ops.CONDITIONAL and ("true_computation" in by_role or "false_computation" in by_role):
            roles: tuple[str, ...] = ("true_computation", "false_computation")
        elif op is ops.CUSTOM_CALL and "to_apply" in by_role:
            roles = ("to_apply",)
        elif (op.called == ("calls",) and "to_apply" in by_role) or (op.called == ("to_apply",) and "calls" in by_role):
            roles = tuple(by_role)
        else:
            roles = op.called
        out: list[Computation] = []
        for role in roles:
            found = by_role.pop(role.rstrip("*"), None)
            if found is None and not role.endswith("*"):
                raise cursor.error(f"{op.name} needs the attribute {role}", at, at + len(op.name))
            out += found or ()
        if by_role and op is not ops.ASYNC_DONE and op is not ops.ASYNC_UPDATE:
            key = next(iter(by_role))
            raise cursor.error(f"{op.name} has no attribute '{key}'", at, at + len(op.name))
        return tuple(out)

    def _inline(self, key: str, start: int) -> Computation:
        """A computation written in place, `calls={ ROOT r = ... }`; it gets a generated name."""
        cursor, names, resume = self.cursor, self.names, self.cursor.pos
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise cursor.error(f"computations are nested deeper than {_MAX_NESTING}", start)
        comp = Computation(self.free_name(f"{key}_computation"), self.module)
        self.module.computations[comp.name] = comp
        cursor.pos = start + 1
        self.body(comp)
        check_parameters(comp)
        self.names, cursor.pos = names, resume
        self._nesting -= 1
        return comp

    def free_name(self, base: str) -> str:
        """A name for a generated computation."""
        name, n = base, 1
        while name in self.module.computations:
            name, n = f"{base}.{n}", n + 1
        return name

    def _computation(self, name: str, start: int, text: str) -> Computation:
        found = self.computations.get(name)
        if found is not None:
            return found
        near = did_you_mean(name, self.computations)
        hint = f"did you mean '{near}'?" if near else "a computation must be defined before its uses"
        at = self.cursor.text.find(name, start)
        raise self.cursor.error(f"computation '{name}' is not defined", at, at + len(name), hint=hint)

    def _check_arity(
        self, op: OpDef[Any], operands: tuple[Instruction, ...], called: tuple[Computation, ...], at: int
    ) -> None:
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
            raise self._unknown_opcode(opcode, at)
        return asyncs.read(self, comp, name, shape, sugar, at)

    def _unknown_opcode(self, opcode: str, at: int) -> XylaError:
        near = did_you_mean(opcode, [op.name for op in all_ops()])
        hint = f"did you mean '{near}'?" if near else None
        return self.cursor.error(f"unknown opcode '{opcode}'", at, at + len(opcode), hint=hint)

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
                        raise self.undefined(inst.parent, name, max(start, cursor.text.find(name, start)))
                    add_control_dependency(first, inst)
            else:
                setattr(inst, key, cursor.source.text[start : start + len(text)])
        except XylaError as error:
            raise error.located(cursor.span(start, start + len(text))) from None

    def decode(self, op: OpDef[Any], attrs: AttrList, at: int) -> Attrs:
        """The attribute record of `op` from a scanned list."""
        return self._decoder.decode(self.cursor, op, attrs, at)


def check_parameters(comp: Computation) -> None:
    """Parameter numbers must be 0, 1, ... each once. Raises a located INVALID_ARGUMENT."""
    for i, param in enumerate(comp.parameters):
        number = param.attrs.number
        if number != i:
            what = f"parameter number {number} is used twice" if number < i else f"there is no parameter({i})"
            raise invalid(f"computation '{comp.name}': {what}", span=param.span)
