"""Reading operations, regions and whole files.

Generic form of any dialect, plus custom assembly through `Dialects`. Time is linear in the text; nesting is limited
(lexer.MAX_DEPTH); all faults are one located INVALID_ARGUMENT error.
"""

from __future__ import annotations

import re

from xyla.formats.mlir.attributes import Attribute, LocationAttr
from xyla.formats.mlir.builtin import BUILTIN
from xyla.formats.mlir.dialects import Dialects
from xyla.formats.mlir.ir import Block, Location, MlirModule, Operation, Region, Successor, Value
from xyla.formats.mlir.lexer import BANG, CARET, EOF, HASH, STRING, VALUE, WORD
from xyla.formats.mlir.parse_attrs import AttrParser
from xyla.formats.mlir.types import Type
from xyla.support.diagnostics import Source, did_you_mean
from xyla.support.status import XylaError

_ALIAS_DEF = re.compile(r"^[ \t]*([#!][\w$.\-]+)[ \t]*=", re.MULTILINE)
_SPLIT = re.compile(r"^[ \t]*// -----.*$", re.MULTILINE)
_MAX_RESULTS = 1_000_000
# An alias may name aliases that name aliases: written out, all uses of a file stay below this many parts, and one
# alias below this depth.
_MAX_EXPANSION = 1 << 20
_MAX_ALIAS_DEPTH = 100
# The two commonest runs of tokens, each in one match: `%x =` and `%a, %b#1, %c`.
_RESULT = re.compile(r"(%(?:\d++|[A-Za-z_$.\-][\w$.\-]*+))[ \t]*+=[ \t]*+")
_ID = r"%(?:\d++|[A-Za-z_$.\-][\w$.\-]*+)(?:\#\d++)?"
_OPERANDS = re.compile(rf"{_ID}(?:,[ ]*+{_ID})*+")
_OPERAND = re.compile(_ID)


def parse_module(text: str, name: str = "<mlir>", dialects: Dialects | None = None) -> MlirModule:
    """The module in `text`; `name` is what errors call the file.

    Raises INVALID_ARGUMENT at the first fault. `dialects` adds custom assembly to the builtin and func dialects.
    """
    known = BUILTIN.plus(dialects) if dialects is not None else BUILTIN
    source = Source(name, text)
    parser = Parser(source, known)
    try:
        return parser.parse_file()
    except RecursionError:
        # The interpreter's own stack is smaller than MAX_DEPTH levels here.
        raise parser.error("nesting is too deep") from None


def split_source(text: str) -> list[str]:
    """The sections of a test file between `// -----` lines (only for files whose RUN line asks for it)."""
    return _SPLIT.split(text)


class Parser(AttrParser):
    """One file being read. Custom assembly parsers use its methods."""

    def __init__(self, source: Source, dialects: Dialects) -> None:
        self.dialects = dialects
        self.scope: dict[str, Value] = {}
        self._defined: list[str] = []
        self._forward: dict[str, tuple[Value, int]] = {}
        self._default_dialect = ""
        self.attr_aliases: dict[str, Attribute] = {}
        self.locations: dict[str, Location] = {}
        self._alias_index: dict[str, int] | None = None
        self._resolving: list[str] = []
        # (parts, depth) of each alias written out, and of what is being read.
        self._sizes: dict[str, tuple[int, int]] = {}
        self._parts = 0
        self._alias_depth = 0
        super().__init__(source)

    # -- files and aliases -------------------------------------------------------------------------------------

    def parse_file(self) -> MlirModule:
        """The whole text."""
        block = Block()
        while self.kind != EOF:
            if self.kind in (HASH, BANG):
                self._alias_definition()
            elif self.tok == "{-#":
                self._skip_resources()
            else:
                block.operations.append(self.parse_operation())
        self._finish_scope()
        if len(block.operations) == 1 and block.operations[0].name == "builtin.module":
            top = block.operations[0]
        else:
            top = Operation("builtin.module", 0)
            top.end = min(1, len(self.text))
            top.regions.append(Region([block]))
        return MlirModule(top, self.source, self.locations)

    def _skip_resources(self) -> None:
        end = self.text.find("#-}", self.end)
        if end < 0:
            raise self.error("'{-#' is never closed")
        self.seek(end + 3)

    def _alias_definition(self) -> None:
        outer, alias, start = (self._parts, self._alias_depth), self.tok, self.start
        self._parts = self._alias_depth = 0
        self._alias_value()
        # The length of the definition counts too, a little: what it holds may be copied wherever it is used.
        self._sizes[alias] = (self._parts + 1 + (self.start - start) // 65536, self._alias_depth + 1)
        self._parts, self._alias_depth = outer

    def _count_use(self, alias: str) -> None:
        parts, depth = self._sizes.get(alias, (1, 1))
        self._parts += parts
        self._alias_depth = max(self._alias_depth, depth)
        if self._parts > _MAX_EXPANSION or self._alias_depth > _MAX_ALIAS_DEPTH:
            raise self.error(f"alias '{alias[:60]}' names aliases that name aliases: written out they are too large")

    def _alias_value(self) -> None:
        kind, name, start = self.kind, self.tok[1:], self.start
        self.advance()
        self.expect("=")
        if kind == BANG:
            if name in self.type_aliases and not self._was_forward(name, start, "!"):
                raise self.error(f"type alias '!{name}' is defined twice", start)
            self.type_aliases[name] = self.parse_type()
        elif self.tok == "loc":
            if name in self.locations:
                raise self.error(f"alias '#{name}' is defined twice", start)
            self.locations[name] = self.parse_location()
        else:
            if name in self.attr_aliases and not self._was_forward(name, start, "#"):
                raise self.error(f"alias '#{name}' is defined twice", start)
            self.attr_aliases[name] = self.parse_attr()

    def _was_forward(self, name: str, start: int, sigil: str) -> bool:
        """Whether this very definition was already read because something used it earlier."""
        return self._alias_index is not None and self._alias_index.get(sigil + name) == start

    def lookup_type_alias(self, name: str) -> Type:
        """The type behind `!name`; a definition further down counts."""
        if name not in self.type_aliases:
            self._read_ahead("!" + name)
        self._count_use("!" + name)
        return self.type_aliases[name]

    def lookup_attr_alias(self, name: str) -> Attribute:
        """The attribute behind `#name`; a definition further down counts."""
        if name not in self.attr_aliases:
            location = self.locations.get(name)
            if location is not None:
                return LocationAttr(str(location))
            self._read_ahead("#" + name)
        self._count_use("#" + name)
        return self.attr_aliases[name]

    def _read_ahead(self, alias: str) -> None:
        """Reads the definition of an alias that is used before it is defined."""
        if self._alias_index is None:
            index: dict[str, int] = {}
            for m in _ALIAS_DEF.finditer(self.text):
                index.setdefault(m[1], m.start(1))
            self._alias_index = index
        offset = self._alias_index.get(alias)
        if alias in self._resolving:
            raise self.error(f"alias '{alias[:60]}' is defined through itself")
        if offset is None:
            near = did_you_mean(alias, self._alias_index)
            raise self.error(f"alias '{alias[:60]}' is not defined", hint=f"did you mean '{near}'?" if near else None)
        here = self.start
        self._resolving.append(alias)
        self.seek(offset)
        is_location = self.text.startswith("loc", self._after_equals(offset))
        if is_location:
            raise self.error(f"'{alias}' is a location, expected an attribute", here)
        self._alias_definition()
        self._resolving.pop()
        self.seek(here)

    def _after_equals(self, offset: int) -> int:
        at = self.text.index("=", offset) + 1
        while self.text[at : at + 1].isspace():
            at += 1
        return at

    # -- values ------------------------------------------------------------------------------------------------

    def parse_operand_names(self) -> list[tuple[str, int]]:
        """`%a, %b#1`: names with their offsets; empty if the current token is no value."""
        if self.kind != VALUE:
            return []
        run = _OPERANDS.match(self.text, self.start)
        assert run is not None
        names = [(m[0], m.start()) for m in _OPERAND.finditer(self.text, run.start(), run.end())]
        self.seek(run.end())
        while self.tok == ",":
            here = self.start
            self.advance()
            if self.kind != VALUE:
                # The comma belongs to what follows the operands.
                self.seek(here)
                break
            names.append((self.tok, self.start))
            self.advance()
        return names

    def parse_paren_operand_names(self) -> list[tuple[str, int]]:
        """`(%a, %b)`."""
        self.expect("(")
        names = self.parse_operand_names()
        self.expect(")")
        return names

    def resolve(self, names: list[tuple[str, int]], types: list[Type] | tuple[Type, ...]) -> list[Value]:
        """The values behind operand names, which must have these types."""
        if len(names) != len(types):
            at = names[0][1] if names else None
            raise self.error(f"{len(names)} operands but {len(types)} operand types", at)
        scope = self.scope
        out = []
        for (name, start), type_ in zip(names, types, strict=True):
            value = scope.get(name)
            if value is None:
                value = self._lookup_rare(name, type_, start)
            if value.type is not type_ and value.type != type_:
                raise self.error(f"{name} has type {value.type}, but {type_} is stated here", start)
            out.append(value)
        return out

    def resolve_untyped(self, names: list[tuple[str, int]]) -> list[Value]:
        """The values behind operand names whose types are not stated; they must be defined already."""
        out = []
        for name, start in names:
            value = self.scope.get(name) or self.scope.get(name.removesuffix("#0"))
            if value is None:
                raise self._undefined(name, start)
            out.append(value)
        return out

    def _lookup_rare(self, name: str, type_: Type, start: int) -> Value:
        """`%x#0` of a single result, or a value that is defined further down."""
        base, _, index = name.partition("#")
        found = self.scope.get(base)
        if found is not None:
            if index and int(index[:9]) == 0 and name not in self._forward:
                return found
            raise self._undefined(name, start)
        value = Value(name[1:], type_, None, 0)
        self.scope[name] = value
        self._forward[name] = (value, start)
        return value

    def _undefined(self, name: str, start: int) -> XylaError:
        near = did_you_mean(name, [n for n in list(self.scope)[-2000:] if n not in self._forward])
        return self.error(f"value {name} is not defined", start, f"did you mean {near}?" if near else None)

    def define(self, name: str, value: Value, start: int) -> Value:
        """Binds `%name` in the current scope; fills in a forward reference. Returns the value to use."""
        old = self.scope.get(name)
        if old is not None:
            forward = self._forward.pop(name, None)
            if forward is None:
                raise self.error(f"value {name} is defined twice", start)
            if old.type != value.type:
                raise self.error(f"{name} has type {value.type}, but {old.type} is stated at its use", start)
            old.owner, old.index, old.loc = value.owner, value.index, value.loc
            self._defined.append(name)
            return old
        self.scope[name] = value
        self._defined.append(name)
        return value

    def _finish_scope(self) -> None:
        for name, (_, start) in self._forward.items():
            raise self._undefined(name, start)

    # -- operations --------------------------------------------------------------------------------------------

    def parse_operation(self) -> Operation:
        """One operation with its results and location."""
        start = self.start
        results = self._result_names() if self.kind == VALUE else []
        if self.kind == STRING:
            op = Operation(self.parse_string(), start)
            types = self._generic(op)
        elif self.kind == WORD:
            op = Operation(self.tok, start)
            types = self._custom(op)
        else:
            raise self.expected("an operation")
        op.loc = self.parse_optional_location()
        op.end = self._previous_end(start)
        self._bind(op, results, types, start)
        return op

    def _previous_end(self, start: int) -> int:
        """Where the operation's first line ends or its text does, whichever comes first: what an error underlines."""
        newline = self.text.find("\n", start, self.start)
        return newline if newline >= 0 else max(self.start, start + 1)

    def _result_names(self) -> list[tuple[str, int, int]]:
        """`%a, %b:2 =` as (name, how many, offset)."""
        m = _RESULT.match(self.text, self.start)
        if m is not None:
            start = self.start
            self.seek(m.end())
            return [(m[1], 1, start)]
        names = []
        while True:
            start = self.start
            name = self.take(VALUE, "a result name")
            count = 1
            if self.accept(":"):
                count = self.take_int("a result count")
                if not 1 <= count <= _MAX_RESULTS:
                    raise self.error("a result count is at least 1", start)
            if "#" in name:
                raise self.error("a result name has no '#'", start)
            names.append((name, count, start))
            if not self.accept(","):
                break
        self.expect("=")
        return names

    def _bind(self, op: Operation, names: list[tuple[str, int, int]], types: list[Type], start: int) -> None:
        if not names:
            op.results = [Value("", t, op, i) for i, t in enumerate(types)]
            return
        if len(names) == 1 and names[0][1] == 1 and len(types) == 1:
            name = names[0][0]
            op.results = [self.define(name, Value(name[1:], types[0], op, 0), start)]
            return
        total = sum(count for _, count, _ in names)
        if total != len(types):
            raise self.error(f"{op.name} has {len(types)} results, but {total} are named", start)
        index = 0
        for name, count, at in names:
            for i in range(count):
                full = f"{name}#{i}" if count > 1 else name
                value = Value(full[1:], types[index], op, index)
                op.results.append(self.define(full, value, at))
                index += 1
            if count > 1:
                self.define(name, op.results[index - count], at)

    def _generic(self, op: Operation) -> list[Type]:
        names = self.parse_paren_operand_names()
        labels = self._successors() if self.tok == "[" else []
        if self.tok == "<":
            self.advance()
            op.properties = self.parse_dict()
            self.expect(">")
        if self.tok == "(":
            self.advance()
            isolated = op.name in self.dialects.isolated
            op.regions.append(self.parse_region(op, isolated=isolated))
            while self.accept(","):
                op.regions.append(self.parse_region(op, isolated=isolated))
            self.expect(")")
        if self.tok == "{":
            op.attributes = self.parse_dict()
        self.expect(":", f"before the type of {op.name}")
        ftype = self.parse_function_type()
        op.operands = self.resolve(names, ftype.inputs)
        op.successors = [Successor(label, []) for label in labels]
        return list(ftype.results)

    def _successors(self) -> list[str]:
        self.expect("[")
        labels = [self.take(CARET, "a block label")]
        while self.accept(","):
            labels.append(self.take(CARET, "a block label"))
        self.expect("]")
        return labels

    def _custom(self, op: Operation) -> list[Type]:
        name = op.name
        fn = self.dialects.custom.get(name)
        if fn is None and "." not in name:
            for prefix in (self._default_dialect, "builtin", "func"):
                fn = self.dialects.custom.get(f"{prefix}.{name}")
                if fn is not None:
                    op.name = f"{prefix}.{name}"
                    break
        if fn is None:
            near = did_you_mean(name, self.dialects.custom)
            hint = f"did you mean '{near}'?" if near else "an unknown operation can be read in its generic form"
            raise self.error(f"operation '{name[:60]}' has no custom assembly here", hint=hint)
        self.advance()
        return fn(self, op)

    # -- regions -----------------------------------------------------------------------------------------------

    def parse_region(
        self, op: Operation, arguments: list[tuple[str, Value, int]] | None = None, *, isolated: bool = False
    ) -> Region:
        """`{ blocks }`. `arguments` (name, value, offset) become those of the entry block.

        isolated: outer values are not visible inside.
        """
        self.expect("{")
        self.enter()
        saved = (self.scope, self._defined, self._forward, self._default_dialect)
        if isolated:
            self.scope, self._defined, self._forward = {}, [], {}
        mark = len(self._defined)
        self._default_dialect = self.dialects.default_dialect.get(op.name, self._default_dialect)
        region = self._blocks(arguments)
        if isolated:
            self._finish_scope()
            self.scope, self._defined, self._forward = saved[:3]
        else:
            for name in self._defined[mark:]:
                del self.scope[name]
            del self._defined[mark:]
        self._default_dialect = saved[3]
        self.leave()
        self.expect("}")
        return region

    def _blocks(self, arguments: list[tuple[str, Value, int]] | None) -> Region:
        region = Region()
        labels: dict[str, Block] = {}
        if arguments is not None or (self.kind != CARET and self.tok != "}"):
            block = Block()
            for i, (name, value, start) in enumerate(arguments or []):
                value.owner, value.index = block, i
                block.arguments.append(self.define(name, value, start))
            region.blocks.append(block)
            self._operations(block)
        while self.kind == CARET:
            block = self._block_header(labels)
            region.blocks.append(block)
            self._operations(block)
        self._link(region, labels)
        return region

    def _operations(self, block: Block) -> None:
        operations = block.operations
        while self.tok != "}" and self.kind != CARET:
            operations.append(self.parse_operation())

    def _block_header(self, labels: dict[str, Block]) -> Block:
        start = self.start
        label = self.take(CARET, "a block label")
        if label in labels:
            raise self.error(f"block {label} is defined twice", start)
        block = labels[label] = Block(label)
        if self.accept("("):
            while self.tok != ")":
                name, value, at = self.parse_argument()
                value.owner, value.index = block, len(block.arguments)
                block.arguments.append(self.define(name, value, at))
                if not self.accept(","):
                    break
            self.expect(")")
        self.expect(":")
        return block

    def parse_argument(self) -> tuple[str, Value, int]:
        """`%name: type loc(...)` as (name, value, offset), not yet bound."""
        start = self.start
        name = self.take(VALUE, "an argument name")
        self.expect(":")
        value = Value(name[1:], self.parse_type(), None, 0)
        value.loc = self.parse_optional_location()
        return name, value, start

    def _link(self, region: Region, labels: dict[str, Block]) -> None:
        for block in region.blocks:
            for op in block.operations:
                for successor in op.successors:
                    successor.block = labels.get(successor.label)
                    if successor.block is None:
                        raise self.error(f"block {successor.label} is not defined", op.start)
