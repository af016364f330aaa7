"""Helpers of the buffer tests: HLO text in, buffers out."""

from __future__ import annotations

from typing import Any

from xyla.analysis.alias import Aliases, CanShare, share_elementwise
from xyla.analysis.dataflow import Dataflow, Value
from xyla.analysis.timeline import LiveRanges, Timeline
from xyla.buffers.assignment import BufferAssignment, assign
from xyla.buffers.pipeline import assign_buffers
from xyla.formats.hlo_text import parse
from xyla.hlo import rewriter
from xyla.hlo.module import Instruction, Module
from xyla.hlo.verifier import verify

ADD = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }"


def load(entry: str, computations: str = "", header: str = "") -> Module:
    module = parse(f"HloModule m{header}\n{computations}\nENTRY e {{\n{entry}\n}}\n", "test")
    verify(module)
    return module


def plan(entry: str, computations: str = "", header: str = "", **options: Any) -> BufferAssignment:
    """The whole way: schedule, copies, buffers, proof."""
    return assign_buffers(load(entry, computations, header), **options)


def as_stored(module: Module, can_share: CanShare = share_elementwise, **options: Any) -> BufferAssignment:
    """Buffers of a module in its stored order, without copies and without proof."""
    for comp in module.computations.values():
        rewriter.restore_order(comp)
    module.config.is_scheduled = True
    dataflow = Dataflow(module)
    ranges = LiveRanges(Timeline(module, dataflow.graph), dataflow)
    return assign(module, dataflow, Aliases(dataflow, can_share), ranges, can_share=can_share, **options)


def find(found: BufferAssignment, name: str) -> Instruction:
    """The instruction called `name`, in any computation."""
    (inst,) = [i for i in found.module.instructions() if i.name == name]
    return inst


def value(found: BufferAssignment, name: str, leaf: int = 0) -> Value:
    return found.dataflow.value(find(found, name), leaf)


def place(found: BufferAssignment, name: str, leaf: int = 0) -> tuple[int, int]:
    """(allocation, offset) of a value."""
    where = found.slice_of(value(found, name, leaf))
    return where.allocation, where.offset
