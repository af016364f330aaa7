"""Structural equality and fingerprints of modules, in time near linear in their size.

Both rest on one canonical sequence of records: a module's configuration, then each computation callees first, then each
instruction operands first, with operands and callees given by their position. Names, metadata and other annotations
that do not change what a module computes are optional parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields
from itertools import zip_longest
from typing import Any

from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import Attrs

Record = tuple[Any, ...]


def equal(a: Module, b: Module, *, names: bool = True, annotations: bool = True) -> bool:
    """Whether two modules are the same program: ops, shapes with layouts, attributes, constants bit for bit, order.

    With `names`, instruction and computation names count; with `annotations`, metadata, frontend attributes,
    sharding, backend configurations, statistics and origins do.
    """
    return difference(a, b, names=names, annotations=annotations) is None


def difference(
    a: Module, b: Module, *, names: bool = True, annotations: bool = True
) -> tuple[Record | None, Record | None] | None:
    """The first pair of records in which two modules differ, for messages; None when they are equal."""
    left, right = (records(m, names=names, annotations=annotations) for m in (a, b))
    return next((pair for pair in zip_longest(left, right) if pair[0] != pair[1]), None)


def fingerprint(module: Module, *, names: bool = False, annotations: bool = False) -> str:
    """A hex digest of the module's content: equal modules have equal ones, in this process and in any other."""
    digest = hashlib.blake2b(digest_size=16)
    update = digest.update
    for record in records(module, names=names, annotations=annotations):
        update(repr(record).encode())
        for item in record:
            if isinstance(item, _LiteralKey):
                for part in item.parts():
                    update(part)
    return digest.hexdigest()


def records(module: Module, *, names: bool, annotations: bool) -> Iterator[Record]:
    """The canonical sequence. Raises INVALID_ARGUMENT for a cyclic module."""
    order = module.computation_post_order()
    numbers = {comp: i for i, comp in enumerate(order)}
    config = module.config
    entry = module.entry_or_none
    yield (
        "module", numbers[entry] if entry is not None else -1, config.is_scheduled, config.replica_count,
        config.num_partitions, config.input_output_aliases, config.buffer_donors,
        _texts(config.entry_parameter_layouts), str(config.entry_result_layout),
    )  # fmt: skip
    if names:
        yield ("name", module.name)
    if annotations:
        frames = module.stack_frames
        yield ("annotations", config.frontend_attributes, config.raw)
        yield ("frames", *frames.file_names, *frames.function_names, *frames.locations, *frames.frames)
    for comp in order:
        yield ("computation", comp.name if names else "", comp.execution_thread, len(comp.instructions))
        yield from _computation(comp, numbers, names, annotations)


def _texts(shapes: Any) -> tuple[str, ...] | None:
    return None if shapes is None else tuple(map(str, shapes))


def _computation(
    comp: Computation, numbers: dict[Computation, int], names: bool, annotations: bool
) -> Iterator[Record]:
    position: dict[Instruction, int] = {}
    attr_parts: dict[int, Record] = {}
    for i, inst in enumerate(comp.post_order()):
        position[inst] = i
        # Identity is enough of a key here: the records outlive the loop.
        parts = attr_parts.get(id(inst.attrs))
        if parts is None:
            parts = attr_parts[id(inst.attrs)] = _attrs(inst.attrs)
        yield (
            inst.op.name, str(inst.shape), tuple([position[o] for o in inst.operands]),
            tuple([numbers[c] for c in inst.called]) if inst.called else (),
            tuple(sorted(position[p] for p in inst.control_predecessors)) if inst.control_predecessors else (),
            inst.is_root, inst.name if names else "", *parts,
        )  # fmt: skip
        if annotations:
            yield (
                inst.metadata, inst.frontend_attributes, inst.sharding, inst.backend_config, inst.statistics,
                inst.origin,
            )  # fmt: skip


def _attrs(attrs: Attrs) -> Record:
    values = (getattr(attrs, f.name) for f in fields(attrs))
    return tuple(_LiteralKey(v) if isinstance(v, Literal) else v for v in values)


class _LiteralKey:
    """A literal by value: its layout lies with the instruction's shape, which is compared on its own."""

    __slots__ = ("literal",)

    def __init__(self, literal: Literal) -> None:
        self.literal = literal

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _LiteralKey) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self.literal)

    def __repr__(self) -> str:
        return f"literal {self.literal.shape.to_string(layouts=False)} elided={self.literal.elided}"

    def _key(self) -> tuple[str, list[bytes]]:
        return repr(self), list(self.parts())

    def parts(self) -> Iterator[bytes]:
        """The bytes of every array leaf; the one element of a splat."""
        stack = [self.literal]
        while stack:
            literal = stack.pop()
            stack.extend(reversed(literal.elements))
            if literal.elements or literal.elided or not literal.shape.is_array:
                continue
            # A splat may be stored once or in full: its one element stands for it either way.
            yield literal.array.reshape(-1)[:1].tobytes() if literal.is_splat else literal.tobytes()
