"""Entry points: `run` a program on arrays, `evaluate` a module to values, `Evaluator` for single instructions."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xyla.analysis.manual_partitions import logical_partitions
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.shape import Shape
from xyla.interp import families as _families  # noqa: F401 - registers the rules
from xyla.interp.arguments import bind_arguments, flatten
from xyla.interp.session import Session
from xyla.interp.table import Array, Value
from xyla.runtime.feeds import Feeds
from xyla.runtime.rendezvous import SINGLE, World, run_devices
from xyla.support import dtypes
from xyla.support.status import Status, XylaError, invalid

# A device is a thread; beyond this the simulation would exhaust the machine rather than answer.
MAX_DEVICES = 256


def run(
    program: Any,
    args: Sequence[Any] = (),
    *,
    replicas: int | None = None,
    partitions: int | None = None,
    infeed: Sequence[Any] = (),
    outfeed: list[Any] | None = None,
) -> list[Array]:
    """Evaluates a program on logical arrays and returns its results, tuples flattened.

    program: HLO or StableHLO text, a path, an `hlo.Module` or a StableHLO program. args: one array per parameter leaf.
    replicas, partitions: override the module's own counts; with more than one device in all, each argument has a
    leading device dimension (or none: every device gets it) and so has each result. A program of logical arrays (not
    yet partitioned: see `interp.manual`) takes and returns those, whatever its partition count.
    infeed: what each device's infeeds take, in order. outfeed: a list that receives what device 0 feeds out.

    Raises XylaError: INVALID_ARGUMENT for a bad program or argument (naming the parameter), UNIMPLEMENTED naming the
    op.
    """
    module = to_module(program, args, bind_values=True)
    replicas = replicas or max(module.config.replica_count, 1)
    logical = None if partitions else logical_partitions(module)
    partitions = partitions or logical or max(module.config.num_partitions, 1)
    shape = module.entry.root.shape
    if replicas * partitions == 1:
        host = Feeds(infeed)
        (values,) = bind_arguments(module, args)
        result = Session(host=host).call(module.entry, values)
        if outfeed is not None:
            outfeed.extend(host.outfeed)
        return flatten(result, shape)
    per_device = _run_world(module, args, World(replicas, partitions), infeed, outfeed)
    if logical is not None:
        per_device = per_device[::partitions]  # every partition holds the logical results
        if replicas == 1:
            return per_device[0]
    return [np.stack(column) for column in zip(*per_device, strict=True)]


def _run_world(
    module: Module, args: Sequence[Any], world: World, infeed: Sequence[Any], outfeed: list[Any] | None
) -> list[list[Array]]:
    if world.size > MAX_DEVICES:
        raise XylaError(Status.RESOURCE_EXHAUSTED, f"{world.size} devices to simulate; the limit is {MAX_DEVICES}")
    hosts = [Feeds(infeed) for _ in range(world.size)]
    values = bind_arguments(module, args, world.size)
    module.computation_post_order()  # a cyclic call graph fails here, once

    def body(device: int) -> list[Array]:
        session = Session(host=hosts[device], world=world, device=device)
        return flatten(session.call(module.entry, values[device]), module.entry.root.shape)

    per_device = run_devices(world, body)
    if outfeed is not None:
        outfeed.extend(hosts[0].outfeed)
    return per_device


def to_module(program: Any, args: Sequence[Any] = (), *, bind_values: bool = False) -> Module:
    """The static HLO module of a program; one with dynamic dimensions is refined by its arguments' shapes.

    bind_values: sizes may also come from the values of leading integer scalars (dimension variables); the module is
    then right for these arguments only, so it must not be kept for others.
    """
    if not isinstance(program, Module) and (isinstance(program, (str, bytes, Path)) or hasattr(program, "__fspath__")):
        program = _load(program)
    if isinstance(program, Module):
        return program
    refine = getattr(program, "refine", None)
    if refine is None:
        raise invalid(f"cannot run a {type(program).__name__}: expected text, a path, a module or a StableHLO program")
    shapes = [_shape_of(a, i) for i, a in enumerate(args)]
    module = refine(shapes, args) if bind_values else refine(shapes)
    assert isinstance(module, Module)
    return module


def _load(program: Any) -> Any:
    # Readers lie above the evaluator (they may use it), so they are found by name when text has to be read.
    detect = importlib.import_module("xyla.formats.detect")
    if isinstance(program, str) and ("\n" in program or "{" in program or not os.path.exists(program)):
        return detect.load_file(program.encode(), "<program>")
    if isinstance(program, bytes):
        return detect.load_file(program, "<program>")
    return detect.load_file(Path(program), str(program))


def _shape_of(arg: Any, i: int) -> Shape:
    array = np.asarray(arg)
    try:
        return Shape.array(dtypes.by_numpy(array.dtype), array.shape)
    except KeyError:
        raise invalid(f"argument {i}: no XLA element type is stored as NumPy dtype {array.dtype}") from None


def evaluate(module: Module, args: Sequence[Value] = ()) -> Value:
    """Evaluates the entry on one value per parameter (arrays; tuples of values for tuple parameters)."""
    return Session().call(module.entry, list(args))


class Evaluator:
    """Evaluates single instructions and computations on operand values; keeps their plans between calls.

    Values are arrays in logical order, or tuples of values. Side effects (infeed, outfeed) use `host`; collectives meet
    the other devices of `world`, in which this is `device`; random ops go on from call to call.
    """

    def __init__(self, *, host: Feeds | None = None, world: World = SINGLE, device: int = 0) -> None:
        self.session = Session(host=host, world=world, device=device)

    def evaluate_instruction(self, inst: Instruction, operand_values: Sequence[Value]) -> Value:
        """The value of `inst` for these operand values. Raises XylaError, located at the instruction."""
        return self.session.instruction(inst, operand_values)

    def evaluate_computation(self, comp: Computation, args: Sequence[Value]) -> Value:
        """The value of `comp`'s root for these parameter values."""
        return self.session.call(comp, args)


def to_literal(value: Value, shape: Shape) -> Literal:
    """A value as a literal of `shape` (folding constants)."""
    if shape.is_tuple:
        return Literal.tuple_of(to_literal(v, s) for v, s in zip(value, shape.tuple_shapes, strict=True))
    if not shape.is_array:
        return Literal(shape)
    return Literal.of(np.asarray(value, order="C"), shape.element_type, shape.layout)
