"""Random programs full of state: what copy insertion, buffer assignment and the engines find hard.

    program = state_program(seed=7)
    assert compiled(program.module, program.arguments) == interp.run(program.module, program.arguments)

Loops permute, nest, duplicate and pass on tuples of tuples; functions are shared; updates are in place; work is
asynchronous; outputs alias parameters. All values are integers that wrap, so every right engine agrees on each bit.
The schedule is a random order, or left to the compiler. `state_ops` has what works on arrays.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.hlo import ops, rewriter
from xyla.hlo.attr_types import ComparisonDirection
from xyla.hlo.literal import Literal
from xyla.hlo.module import BufferDonor, Computation, InputOutputAlias, Instruction, Module
from xyla.hlo.ops.basic import ConstantAttrs, IndexAttrs, ParameterAttrs
from xyla.hlo.ops.control import AsyncAttrs, CallAttrs
from xyla.hlo.ops.elementwise import CompareAttrs
from xyla.hlo.shape import Shape
from xyla.support.dtypes import PRED, S8, S32, S64, U32

SCALAR, VECTOR, PIECE = Shape.array(S32, ()), Shape.array(S32, (4,)), Shape.array(S32, (2,))
MATRIX, FLAG = Shape.array(S32, (2, 2)), Shape.array(PRED, ())
WIDE, NARROW, EMPTY = Shape.array(S64, (4,)), Shape.array(S8, (4,)), Shape.array(S32, (0,))
# Likeliest first; what a program's parameters, states and results are made of.
SHAPES = (SCALAR, SCALAR, VECTOR, VECTOR, VECTOR, PIECE, MATRIX, MATRIX, WIDE, NARROW, FLAG, EMPTY)

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class StateProgram:
    """A module and arguments for it; `donated`: the argument leaves that the caller gives up, all that it must.

    With several replicas each argument has a leading dimension of devices.
    """

    module: Module
    arguments: tuple[Array, ...]
    donated: tuple[int, ...]


class Frame:
    """A computation that is being filled: the values it has. uniform: whether every device comes here equally often."""

    def __init__(self, comp: Computation, depth: int, *, uniform: bool) -> None:
        self.comp = comp
        self.depth = depth
        self.uniform = uniform
        self.values: list[Instruction] = []

    def take(self, inst: Instruction) -> Instruction:
        """Adds a value; a tuple's elements are values too."""
        work = [inst]
        while work:
            value = work.pop()
            self.values.append(value)
            work += elements(value)
        return inst


def elements(whole: Instruction) -> list[Instruction]:
    """What a tuple holds, taken out."""
    shapes = whole.shape.tuple_shapes if whole.shape.is_tuple else ()
    add = whole.parent.add
    return [add(ops.GET_TUPLE_ELEMENT, [whole], IndexAttrs(i), shape=s) for i, s in enumerate(shapes)]


def parameter(comp: Computation, shape: Shape) -> Instruction:
    """The next parameter."""
    return comp.add(ops.PARAMETER, (), ParameterAttrs(len(comp.parameters)), shape=shape)


class Maker:
    """Grows one random program."""

    def __init__(self, module: Module, rng: random.Random, devices: int) -> None:
        self.module = module
        self.rng = rng
        self.devices = devices
        self.functions: list[Computation] = []
        self.loops: list[tuple[Computation, Computation]] = []

    # -- values ------------------------------------------------------------------------------------------------

    def constant(self, comp: Computation, shape: Shape, value: int | None = None) -> Instruction:
        """A constant: all elements `value`, or random small ones."""
        et = shape.element_type
        low = 0 if et is PRED else -9
        values = [self.rng.randint(low, 1 if et is PRED else 9) if value is None else value
                  for _ in range(shape.num_elements)]  # fmt: skip
        literal = Literal.of(np.array(values, et.np).reshape(shape.dims), et)
        return comp.add(ops.CONSTANT, (), ConstantAttrs(literal), shape=shape)

    def shape(self, depth: int = 1) -> Shape:
        """A random shape: an array, or a tuple of up to three."""
        if depth and self.rng.random() < 0.2:
            return Shape.tuple_of([self.shape(depth - 1) for _ in range(self.rng.randint(0, 3))])
        return self.rng.choice(SHAPES)

    def pick(self, frame: Frame, shape: Shape) -> Instruction:
        """A value of a shape: mostly one that is there; a tuple is made of such, if there is none."""
        found = [v for v in frame.values if v.shape is shape]
        if found and self.rng.random() < 0.9:
            return self.rng.choice(found)
        if shape.is_tuple:
            return frame.comp.add(ops.TUPLE, [self.pick(frame, s) for s in shape.tuple_shapes])
        return self.constant(frame.comp, shape)

    def grow(self, frame: Frame, count: int) -> None:
        """Adds about `count` random values."""
        from xyla.testing.state_ops import COLLECTIVE, PLAIN  # imports this module

        nested: list[Callable[[Maker, Frame], None]] = [
            Maker.loop, Maker.loop, Maker.loop, Maker.branch, Maker.branch, Maker.call, Maker.call, Maker.inline,
            Maker.wrapped,
        ]  # fmt: skip
        for _ in range(count):
            choices = list(PLAIN)
            if frame.depth:
                choices += nested
            if self.devices > 1 and frame.uniform:
                choices += COLLECTIVE * 3
            self.rng.choice(choices)(self, frame)

    def inner(self, name: str, shapes: Sequence[Shape], outer: Frame, *, uniform: bool = True) -> Frame:
        """A new computation with parameters."""
        comp = self.module.add_computation(name)
        frame = Frame(comp, max(outer.depth - 1, 0), uniform=uniform and outer.uniform)
        for shape in shapes:
            frame.take(parameter(comp, shape))
        return frame

    # -- control flow ------------------------------------------------------------------------------------------

    def loop(self, frame: Frame) -> None:
        """A loop of at most ten trips; now and then one whose computations another has."""
        if self.loops and self.rng.random() < 0.2:
            return self.again(frame)
        shapes = [SCALAR, *(self.shape() for _ in range(self.rng.randint(0, 4)))]
        state = Shape.tuple_of(shapes)
        condition = self.inner("cond", [state], frame, uniform=False)
        condition.depth = 0
        if self.rng.random() < 0.3:
            self.grow(condition, 2)
        (count, *_) = elements(condition.comp.parameters[0])
        limit = self.constant(condition.comp, SCALAR, self.rng.randint(-8, 9))
        less = condition.comp.add(ops.COMPARE, [count, limit], CompareAttrs(ComparisonDirection.LT))
        condition.comp.set_root(less)
        body = self.inner("body", [state], frame)
        (count, *_) = elements(body.comp.parameters[0])
        count = body.comp.add(ops.ADD, [count, self.constant(body.comp, SCALAR, self.rng.randint(2, 5))])
        self.grow(body, self.rng.randint(0, 5))
        self._close(body, [count, *(self.pick(body, s) for s in shapes[1:])])
        if not body.uniform:
            self.loops.append((condition.comp, body.comp))
        return self._start(frame, condition.comp, body.comp)

    def _close(self, frame: Frame, results: list[Instruction]) -> None:
        """Makes a tuple the root, plainly or behind something that passes it on."""
        comp = frame.comp
        root = comp.add(ops.TUPLE, results)
        if self.rng.random() < 0.15:
            root = comp.add(ops.OPT_BARRIER, [root])
        comp.set_root(root)

    def _start(self, frame: Frame, condition: Computation, body: Computation) -> None:
        (state,) = (p.shape for p in body.parameters)
        init = [self.constant(frame.comp, SCALAR), *(self.pick(frame, s) for s in state.tuple_shapes[1:])]
        whole = frame.comp.add(ops.TUPLE, init)
        frame.take(frame.comp.add(ops.WHILE, [whole], called=[condition, body], shape=state))

    def again(self, frame: Frame) -> None:
        """A loop that shares its condition, its body or both with another one."""
        condition, body = self.rng.choice(self.loops)
        chance = self.rng.random()
        if chance < 0.3:
            body = rewriter.clone_computation(body)
        elif chance < 0.6:
            condition = rewriter.clone_computation(condition)
        self._start(frame, condition, body)

    def branch(self, frame: Frame) -> None:
        """A conditional; its branches may take what they like and return one thing, or a tuple."""
        result = self.shape(2)
        indexed = self.rng.random() < 0.5
        branches, arguments = [], []
        for _ in range(self.rng.randint(1, 3) if indexed else 2):
            shape = self.shape(2)
            inner = self.inner("branch", [shape], frame, uniform=False)
            self.grow(inner, self.rng.randint(0, 3))
            inner.comp.set_root(self.pick(inner, result))
            branches.append(inner.comp)
            arguments.append(self.pick(frame, shape))
        selector = self.pick(frame, SCALAR if indexed else FLAG)
        frame.take(frame.comp.add(ops.CONDITIONAL, [selector, *arguments], called=branches))

    def inline(self, frame: Frame) -> None:
        """A call of a function of its own."""
        self._call(frame, self._function(frame))

    def call(self, frame: Frame) -> None:
        """A call of a function that others call too."""
        if not self.functions or self.rng.random() < 0.2:
            deaf = Frame(frame.comp, self.rng.randint(0, 2), uniform=False)
            self.functions.append(self._function(deaf))
        self._call(frame, self.rng.choice(self.functions))

    def _function(self, frame: Frame) -> Computation:
        inner = self.inner("f", [self.shape() for _ in range(self.rng.randint(0, 3))], frame)
        self.grow(inner, self.rng.randint(0, 4))
        inner.comp.set_root(self.pick(inner, self.rng.choice([v.shape for v in inner.values] or [VECTOR])))
        return inner.comp

    def _call(self, frame: Frame, function: Computation) -> None:
        arguments = [self.pick(frame, p.shape) for p in function.parameters]
        frame.take(frame.comp.add(ops.CALL, arguments, CallAttrs(), called=[function]))

    def wrapped(self, frame: Frame) -> None:
        """A function begun now and waited for later."""
        function = self._function(Frame(frame.comp, frame.depth, uniform=False))
        arguments = [self.pick(frame, p.shape) for p in function.parameters]
        given = Shape.tuple_of([a.shape for a in arguments])
        parts = [given, function.root.shape, Shape.array(U32, ())]
        begun = frame.comp.add(ops.ASYNC_START, arguments, AsyncAttrs(), called=[function], shape=Shape.tuple_of(parts))
        if self.rng.random() < 0.3:
            begun = frame.comp.add(ops.ASYNC_UPDATE, [begun], AsyncAttrs())
        frame.take(frame.comp.add(ops.ASYNC_DONE, [begun], AsyncAttrs()))


def state_program(seed: int, devices: int = 1) -> StateProgram:
    """A random program for some replicas. Deterministic by `seed`."""
    rng = random.Random(f"xyla state {seed} {devices}")
    module = Module(f"state_{seed}")
    module.config.replica_count = devices
    make = Maker(module, rng, devices)
    entry = Frame(module.add_computation("main"), 2, uniform=devices > 1)
    for _ in range(rng.randint(1, 5)):
        entry.take(parameter(entry.comp, make.shape(2)))
    make.grow(entry, rng.randint(3, 9))
    entry.comp.set_root(_result(make, entry))
    module.set_entry(entry.comp)
    donated = _give_up(module, rng)
    if rng.random() < 0.5:
        for comp in module.computations.values():
            _shuffle(comp, rng)
        module.config.is_scheduled = True
    leaves = [leaf for p in entry.comp.parameters for _, leaf in p.shape.leaves()]
    return StateProgram(module, tuple(_argument(leaf, rng, devices) for leaf in leaves), donated)


def _result(make: Maker, frame: Frame) -> Instruction:
    """A parameter, a loop, or (mostly) a tuple of whatever there is."""
    if make.rng.random() < 0.15:
        return make.rng.choice(frame.values)
    return frame.comp.add(ops.TUPLE, [make.rng.choice(frame.values) for _ in range(make.rng.randint(1, 5))])


def _argument(leaf: Shape, rng: random.Random, devices: int) -> Array:
    dims = (devices, *leaf.dims) if devices > 1 else leaf.dims
    low, high = (0, 1) if leaf.element_type is PRED else (-9, 9)
    count = int(np.prod(dims))
    return np.array([rng.randint(low, high) for _ in range(count)], leaf.element_type.np).reshape(dims)


def _give_up(module: Module, rng: random.Random) -> tuple[int, ...]:
    """Lets some outputs live in parameters, gives up others; the argument leaves that a run donates."""
    entry = module.entry
    outputs = [(index, leaf) for index, leaf in entry.root.shape.leaves() if leaf.is_array]
    aliases, donated, number = [], [], -1
    for p in entry.parameters:
        for index, leaf in p.shape.leaves():
            number += 1
            fitting = [o for o in outputs if o[1] is leaf]
            if fitting and rng.random() < 0.4:
                output = rng.choice(fitting)
                outputs.remove(output)
                must = rng.random() < 0.5
                aliases.append(InputOutputAlias(output[0], p.attrs.number, index, must))
            elif rng.random() < 0.2:
                must = False
                module.config.buffer_donors += (BufferDonor(p.attrs.number, index),)
            else:
                continue
            if must or rng.random() < 0.5:
                donated.append(number)
    module.config.input_output_aliases = tuple(sorted(aliases, key=lambda a: a.output_index))
    return tuple(donated)


def _shuffle(comp: Computation, rng: random.Random) -> None:
    """A random topological order."""
    waiting = {i: len({*i.operands, *i.control_predecessors}) for i in comp.instructions}
    ready = [i for i, n in waiting.items() if not n]
    order: list[Instruction] = []
    while ready:
        inst = ready.pop(rng.randrange(len(ready)))
        order.append(inst)
        for user in dict.fromkeys([*inst.users, *inst.control_successors]):
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    rewriter.reorder(comp, order)
