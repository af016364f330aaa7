"""HLO text to Module: the header, the metadata tables, the computations.

Source: the text that XLA's printer has written from 2019 to 2026. Definitions come before uses, for instructions and
for computations, so a call graph is acyclic by construction.
"""

from __future__ import annotations

import gc
import re

from xyla.formats.hlo_text.annotations import (
    TABLES,
    read_aliases,
    read_donors,
    read_frontend_attributes,
    read_table,
)
from xyla.formats.hlo_text.attributes import ATTR_RE, VALUE_RE
from xyla.formats.hlo_text.codecs import string
from xyla.formats.hlo_text.instructions import HEAD_RE, InstructionReader
from xyla.formats.hlo_text.lexer import NAME, Cursor, blank_comments, checked_int
from xyla.formats.hlo_text.shapes import ARRAY_TEXT
from xyla.hlo.module import Computation, Module
from xyla.hlo.shape import Shape
from xyla.support.diagnostics import Source, did_you_mean
from xyla.support.status import XylaError, invalid

_HEADER_RE = re.compile(r"\s*+HloModule\b\s*+([^\s,=]++)")
_COMPUTATION_RE = re.compile(rf"\s*+(ENTRY\s++)?+%?({NAME})\s*+(?=[({{])")
_LONE_RE = re.compile(rf"\s*+(?:(?:ROOT\s++)?+%?{NAME}\s*+=|{ARRAY_TEXT}\s++[a-z][\w\-]*+\()")
_TABLE_RE = re.compile(r"\s*+(FileNames|FunctionNames|FileLocations|StackFrames)\b(?!\s*+[=({.\-])")
_THREAD_RE = re.compile(r'\s*+,\s*+execution_thread\s*+=\s*+("[^"\\]*+(?:\\.[^"\\]*+)*+")', re.DOTALL)
# Header entries that change nothing here: kept as text, printed back.
RAW_HEADER = (
    "alias_passthrough_params",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "origin_recovery_table",
)
HEADER_KEYS = (
    "is_scheduled", "input_output_alias", "buffer_donor", "entry_computation_layout", "replica_count",
    "num_partitions", "frontend_attributes", *RAW_HEADER,
)  # fmt: skip


def parse(text: str, name: str = "<string>") -> Module:
    """The module that `text` describes; `name` is what errors call it.

    A text without a `HloModule` line is taken as a list of computations; without ENTRY the last one is the entry.
    Checked here: names, arity, attributes, literals, parameter numbers. Everything else is the verifier's.
    Raises XylaError(INVALID_ARGUMENT) with a span.
    """
    source = Source(name, text)
    cursor = Cursor(source, blank_comments(source))
    enabled = gc.isenabled()
    # A module is hundreds of thousands of live objects: collections during the build only cost.
    gc.disable()
    try:
        return _ModuleReader(cursor).read()
    except XylaError as error:
        # The readers of values do not know where they stand: the cursor is near.
        at = min(cursor.pos, len(text))
        raise error.located(cursor.span(at, at + 1)) from None
    finally:
        if enabled:
            gc.enable()


class _ModuleReader:
    __slots__ = ("computations", "cursor", "module", "reader")

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.module = Module("module")
        self.computations: dict[str, Computation] = {}
        self.reader = InstructionReader(cursor, self.module, self.computations)

    def read(self) -> Module:
        cursor, module = self.cursor, self.module
        self._header()
        if _LONE_RE.match(cursor.text, cursor.pos):
            return self._lone()
        last: Computation | None = None
        while cursor.peek():
            table = _TABLE_RE.match(cursor.text, cursor.pos)
            if table is not None:
                cursor.pos = table.end()
                read_table(cursor, table.group(1), module.stack_frames)
            else:
                last = self._computation()
        if last is None:
            raise cursor.error("expected a computation, found the end of the text", max(0, len(cursor.text) - 1))
        if module.entry_or_none is None:
            module.set_entry(last)
        return module

    def _lone(self) -> Module:
        """A text that is one instruction: its operands become the parameters of an entry around it."""
        comp = Computation("entry", self.module)
        self.reader.read_lone(comp)
        if self.cursor.peek():
            raise self.cursor.error(f"a lone instruction ends the text, found {self.cursor.found()}")
        self.module.computations[comp.name] = comp
        self.module.set_entry(comp)
        return self.module

    # -- the header --------------------------------------------------------------------------------------------

    def _header(self) -> None:
        cursor, module = self.cursor, self.module
        match = _HEADER_RE.match(cursor.text, cursor.pos)
        if match is None:
            if cursor.accept("HloModule"):
                raise cursor.error(f"expected the module's name, found {cursor.found()}")
            return
        module.name = match.group(1).removeprefix("%").rstrip(":")
        cursor.pos = match.end()
        while (attr := ATTR_RE.match(cursor.text, cursor.pos)) is not None:
            key, start = attr.group(1), attr.end()
            cursor.pos = start
            value = VALUE_RE.match(cursor.text, start)
            if value is not None:
                cursor.pos = value.end()
            elif cursor.peek() in ("{", "("):
                cursor.pos = cursor.balanced(start)
            else:
                raise cursor.error(f"expected a value for {key}, found {cursor.found()}")
            end = cursor.pos
            try:
                self._header_value(key, cursor.text[start:end], start)
            except XylaError as error:
                raise error.located(cursor.span(start, end)) from None
            cursor.pos = end

    def _header_value(self, key: str, text: str, start: int) -> None:
        config = self.module.config
        if key == "is_scheduled":
            config.is_scheduled = _boolean(key, text)
        elif key == "input_output_alias":
            config.input_output_aliases = read_aliases(text)
        elif key == "buffer_donor":
            config.buffer_donors = read_donors(text)
        elif key == "entry_computation_layout":
            self._entry_layout(start)
        elif key == "replica_count":
            config.replica_count = checked_int(text)
        elif key == "num_partitions":
            config.num_partitions = checked_int(text)
        elif key == "frontend_attributes":
            config.frontend_attributes = read_frontend_attributes(text)
        elif key in RAW_HEADER:
            config.raw = (*config.raw, (key, self.cursor.source.text[start : start + len(text)]))
        else:
            near = did_you_mean(key, HEADER_KEYS)
            raise invalid(f"a module has no attribute '{key}'", hint=f"did you mean '{near}'?" if near else None)

    def _entry_layout(self, start: int) -> None:
        """`{(f32[2]{0}, s32[])->f32[2]{0}}`."""
        cursor, config = self.cursor, self.module.config
        cursor.pos = start
        cursor.expect("{", "before the entry layout")
        cursor.expect("(", "before the parameter layouts")
        params: list[Shape] = []
        while not cursor.accept(")"):
            if params:
                cursor.expect(",", "or ')' after a parameter layout")
            params.append(self.reader.shapes.read(cursor))
        cursor.expect("->", "before the result layout")
        config.entry_result_layout = self.reader.shapes.read(cursor)
        config.entry_parameter_layouts = tuple(params)
        cursor.expect("}", "after the entry layout")

    # -- computations ------------------------------------------------------------------------------------------

    def _computation(self) -> Computation:
        cursor = self.cursor
        match = _COMPUTATION_RE.match(cursor.text, cursor.pos)
        if match is None:
            raise self._no_computation()
        entry, name = match.groups()
        span = cursor.span(match.start(2), match.end(2))
        if name in self.computations:
            raise cursor.error(f"computation '{name}' is defined twice", span.start, span.end)
        if entry and self.module.entry_or_none is not None:
            raise cursor.error("a module has one ENTRY computation; this is the second", match.start(1), span.end)
        cursor.pos = match.end()
        comp = Computation(name, self.module)
        comp.span = span
        result = self._signature()
        cursor.expect("{", f"to open computation '{name}'")
        self.reader.body(comp)
        self._check(comp, result)
        if (thread := _THREAD_RE.match(cursor.text, cursor.pos)) is not None:
            comp.execution_thread = string(thread.group(1))
            cursor.pos = thread.end()
        self._insert(comp)
        if entry:
            self.module.set_entry(comp)
        return comp

    def _no_computation(self) -> XylaError:
        cursor = self.cursor
        if HEAD_RE.match(cursor.text, cursor.pos):
            return cursor.error("this instruction stands outside any computation")
        if cursor.accept("HloModule"):
            cursor.pos -= len("HloModule")
            advice = "split the text where the second one starts (xyla opt --split-input-file)"
            return cursor.error("a text holds one module; this is a second one", hint=advice)
        near = did_you_mean(cursor.found().strip("'"), ("HloModule", "ENTRY", *TABLES))
        hint = f"did you mean '{near}'?" if near else None
        return cursor.error(f"expected a computation '%name {{', found {cursor.found()}", hint=hint)

    def _signature(self) -> Shape | None:
        """`(p0: f32[2], p1: s32[]) -> f32[2]`: only the result is looked at, the parameters state their own shapes."""
        cursor = self.cursor
        if cursor.peek() != "(":
            return None
        cursor.pos = cursor.balanced(cursor.pos)
        if not cursor.accept("->"):
            raise cursor.error(f"expected '->' and the result shape, found {cursor.found()}")
        return self.reader.shapes.read(cursor)

    def _check(self, comp: Computation, result: Shape | None) -> None:
        if result is not None and not result.compatible(comp.root.shape):
            message = f"computation '{comp.name}' is declared to return {result}, its root is {comp.root.shape}"
            raise invalid(message, span=comp.root.span)

    def _insert(self, comp: Computation) -> None:
        """Adds a finished computation; one generated for async sugar gives way when its name was taken."""
        computations = self.module.computations
        generated = computations.pop(comp.name, None)
        computations[comp.name] = comp
        self.computations[comp.name] = comp
        if generated is not None:
            base, n = generated.name, 1
            while generated.name in computations:
                generated.name, n = f"{base}.{n}", n + 1
            computations[generated.name] = generated


def _boolean(key: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise invalid(f"{key} takes true or false, found '{text[:40]}'")
    return text == "true"
