"""Random programs full of state: loops that permute, duplicate and update it, branches, shared calls, odd outputs.

Everything is s32 and wraps, so that every engine agrees on each bit. The schedule is a random order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from xyla.hlo import ops, rewriter
from xyla.hlo.attr_types import ComparisonDirection
from xyla.hlo.literal import Literal
from xyla.hlo.module import BufferDonor, Computation, InputOutputAlias, Instruction, Module
from xyla.hlo.ops.basic import ConstantAttrs, IndexAttrs, ParameterAttrs
from xyla.hlo.ops.control import AsyncAttrs, CallAttrs
from xyla.hlo.ops.elementwise import CompareAttrs
from xyla.hlo.ops.movement import DimensionsAttrs, DynamicSliceAttrs, ScatterAttrs
from xyla.hlo.shape import Shape
from xyla.support.dtypes import S32, U32

SCALAR, VECTOR = Shape.array(S32, ()), Shape.array(S32, (4,))
PIECE = Shape.array(S32, (2,))


def state_program(seed: int) -> Module:
    """A scheduled module; its entry takes scalars and vectors."""
    rng = random.Random(seed)
    module = Module(f"state{seed}")
    make = _Maker(module, rng)
    entry = module.add_computation("main")
    pool = [_parameter(entry, i, rng.choice((SCALAR, VECTOR))) for i in range(rng.randint(2, 5))]
    make.grow(entry, pool, rng.randint(4, 9), depth=2)
    outputs = [rng.choice(pool) for _ in range(rng.randint(1, 5))]
    entry.set_root(entry.add(ops.TUPLE, outputs))
    module.set_entry(entry)
    _give_up(module, rng)
    for comp in module.computations.values():
        _shuffle(comp, rng)
    module.config.is_scheduled = True
    return module


def _parameter(comp: Computation, number: int, shape: Shape) -> Instruction:
    return comp.add(ops.PARAMETER, (), ParameterAttrs(number), shape=shape)


def _give_up(module: Module, rng: random.Random) -> None:
    """Lets some outputs live in parameters, and gives up another."""
    entry = module.entry
    free = list(enumerate(entry.root.operands))
    aliases = []
    for p in entry.parameters:
        fitting = [i for i, o in free if o.shape is p.shape]
        if fitting and rng.random() < 0.5:
            output = rng.choice(fitting)
            free = [(i, o) for i, o in free if i != output]
            aliases.append(InputOutputAlias((output,), p.attrs.number, (), rng.random() < 0.5))
        elif rng.random() < 0.2:
            module.config.buffer_donors += (BufferDonor(p.attrs.number, ()),)
    module.config.input_output_aliases = tuple(sorted(aliases, key=lambda a: a.output_index))


def _shuffle(comp: Computation, rng: random.Random) -> None:
    """A random topological order."""
    waiting = {i: len(set(i.operands)) for i in comp.instructions}
    ready = [i for i, n in waiting.items() if not n]
    order: list[Instruction] = []
    while ready:
        inst = ready.pop(rng.randrange(len(ready)))
        order.append(inst)
        for user in inst.users:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    comp.instructions = dict.fromkeys(order)


class _Maker:
    def __init__(self, module: Module, rng: random.Random) -> None:
        self.module = module
        self.rng = rng
        self.functions: list[tuple[Computation, list[Shape]]] = []
        self.loops: list[tuple[Shape, Computation, Computation]] = []

    def constant(self, comp: Computation, shape: Shape) -> Instruction:
        value = np.array([self.rng.randint(-9, 9) for _ in range(shape.num_elements)], np.int32).reshape(shape.dims)
        return comp.add(ops.CONSTANT, (), ConstantAttrs(Literal.of(value, S32)), shape=shape)

    def pick(self, comp: Computation, pool: Sequence[Instruction], shape: Shape) -> Instruction:
        """A value of a shape: mostly one that is there."""
        found = [v for v in pool if v.shape is shape]
        return self.rng.choice(found) if found and self.rng.random() < 0.9 else self.constant(comp, shape)

    def grow(self, comp: Computation, pool: list[Instruction], count: int, depth: int) -> None:
        """Adds `count` random values to a pool."""
        simple = [self.arithmetic, self.arithmetic, self.update, self.update, self.slice, self.piece, self.spread]
        nested = [self.loop, self.loop, self.branch, self.call, self.inline, self.asynchronous, self.scatter]
        for _ in range(count):
            choices = [*simple, *nested] if depth else simple
            self.rng.choice(choices)(comp, pool, depth)

    def arithmetic(self, comp: Computation, pool: list[Instruction], depth: int) -> None:
        shape = self.rng.choice((SCALAR, VECTOR))
        op = self.rng.choice((ops.ADD, ops.SUBTRACT, ops.MULTIPLY, ops.MAXIMUM))
        pool.append(comp.add(op, [self.pick(comp, pool, shape), self.pick(comp, pool, shape)]))

    def update(self, comp: Computation, pool: list[Instruction], depth: int) -> None:
        vector, index = self.pick(comp, pool, VECTOR), self.pick(comp, pool, SCALAR)
        update = self.pick(comp, pool, self.rng.choice((PIECE, PIECE, VECTOR)))
        pool.append(comp.add(ops.DYNAMIC_UPDATE_SLICE, [vector, update, index]))

    def slice(self, comp: Computation, pool: list[Instruction], depth: int) -> None:
        operands = [self.pick(comp, pool, VECTOR), self.pick(comp, pool, SCALAR)]
        pool.append(comp.add(ops.DYNAMIC_SLICE, operands, DynamicSliceAttrs((2,))))

    def piece(self, comp: Computation, pool: list[Instruction], depth: int) -> None:
        self.spread(comp, pool, depth, PIECE)

    def spread(self, comp: Computation, pool: list[Instruction], depth: int, shape: Shape = VECTOR) -> None:
        value = self.pick(comp, pool, SCALAR)
        pool.append(comp.add(ops.BROADCAST, [value], DimensionsAttrs(()), shape=shape))

    # -- nested ------------------------------------------------------------------------------------------------------

    def state(self, comp: Computation, pool: list[Instruction], fixed: list[Instruction]) -> Instruction:
        shapes = [self.rng.choice((SCALAR, VECTOR, VECTOR)) for _ in range(self.rng.randint(1, 4))]
        return comp.add(ops.TUPLE, [*fixed, *(self.pick(comp, pool, s) for s in shapes)])

    def elements(self, comp: Computation, whole: Instruction) -> list[Instruction]:
        return [
            comp.add(ops.GET_TUPLE_ELEMENT, [whole], IndexAttrs(i), shape=s)
            for i, s in enumerate(whole.shape.tuple_shapes)
        ]

    def loop(self, comp: Computation, pool: list[Instruction], depth: int) -> None:
        if self.loops and self.rng.random() < 0.15:
            return self.again(comp, pool)
        init = self.state(comp, pool, [self.constant(comp, SCALAR)])
        condition, body = self.module.add_computation("cond"), self.module.add_computation("body")
        inner = self.elements(condition, _parameter(condition, 0, init.shape))
        limit = condition.add(ops.ADD, [inner[0], self.constant(condition, SCALAR)])
        if self.rng.random() < 0.3:
            self.grow(condition, inner, 2, 0)
        # The counter starts within [-9, 9], and goes up by at least one: at most 19 trips.
        bound = condition.add(ops.CONSTANT, (), ConstantAttrs(Literal.of(np.int32(self.rng.randint(-8, 9)), S32)),
                              shape=SCALAR)  # fmt: skip
        less = condition.add(ops.COMPARE, [inner[0], bound], CompareAttrs(ComparisonDirection.LT))
        condition.set_root(less)
        assert limit.parent is condition
        inner = self.elements(body, _parameter(body, 0, init.shape))
        one = body.add(ops.CONSTANT, (), ConstantAttrs(Literal.of(np.int32(self.rng.randint(2, 5)), S32)), shape=SCALAR)
        count = body.add(ops.ADD, [inner[0], one])
        self.grow(body, inner, self.rng.randint(1, 5), depth - 1)
        body.set_root(body.add(ops.TUPLE, [count, *(self.pick(body, inner, s) for s in init.shape.tuple_shapes[1:])]))
        self.loops.append((init.shape, condition, body))
        made = comp.add(ops.WHILE, [init], called=[condition, body], shape=init.shape)
        return pool.extend(self.elements(comp, made))

    def again(self, comp: Computation, pool: list[Instruction]) -> None:
        """A loop that shares its condition, its body or both with another one."""
        shape, condition, body = self.rng.choice(self.loops)
        others = self.rng.random()
        if others < 0.3:
            body = rewriter.clone_computation(body)
        elif others < 0.6:
            condition = rewriter.clone_computation(condition)
        init = comp.add(
            ops.TUPLE, [self.constant(comp, SCALAR), *(self.pick(comp, pool, s) for s in shape.tuple_shapes[1:])]
        )
        made = comp.add(ops.WHILE, [init], called=[condition, body], shape=shape)
        pool.extend(self.elements(comp, made))

    def branch(self, comp: Computation, pool: list[Instruction], depth: int) -> None:
        arguments = self.state(comp, pool, [])
        shapes = [self.rng.choice((SCALAR, VECTOR)) for _ in range(self.rng.randint(1, 3))]
        branches = []
        for _ in range(self.rng.randint(1, 3)):
            branch = self.module.add_computation("branch")
            inner = self.elements(branch, _parameter(branch, 0, arguments.shape))
            self.grow(branch, inner, self.rng.randint(0, 3), depth - 1)
            branch.set_root(branch.add(ops.TUPLE, [self.pick(branch, inner, s) for s in shapes]))
            branches.append(branch)
        operands = [self.pick(comp, pool, SCALAR), *[arguments] * len(branches)]
        made = comp.add(ops.CONDITIONAL, operands, called=branches)
        pool.extend(self.elements(comp, made))

    def inline(self, comp: Computation, pool: list[Instruction], depth: int) -> None:
        """A call of a function of its own."""
        self._call(comp, pool, self._function(depth))

    def asynchronous(self, comp: Computation, pool: list[Instruction], depth: int) -> None:
        """Work that is started, and waited for some time later."""
        function, shapes = self._function(0)
        arguments = [self.pick(comp, pool, s) for s in shapes]
        context = Shape.array(U32, ())
        shape = Shape.tuple_of([Shape.tuple_of(shapes), function.root.shape, context])
        start = comp.add(ops.ASYNC_START, arguments, AsyncAttrs(), called=[function], shape=shape)
        done = comp.add(ops.ASYNC_DONE, [start], AsyncAttrs(), shape=function.root.shape)
        pool.extend(self.elements(comp, done))

    def scatter(self, comp: Computation, pool: list[Instruction], depth: int) -> None:
        """Two arrays updated at one place, each in its own memory."""
        add = self.module.add_computation("add")
        a, b, c, d = (_parameter(add, i, SCALAR) for i in range(4))
        add.set_root(add.add(ops.TUPLE, [add.add(ops.ADD, [a, c]), add.add(ops.SUBTRACT, [b, d])]))
        index = comp.add(
            ops.BROADCAST, [self.pick(comp, pool, SCALAR)], DimensionsAttrs(()), shape=Shape.array(S32, (1,))
        )
        operands = [self.pick(comp, pool, VECTOR), self.pick(comp, pool, VECTOR), index]
        updates = [self.pick(comp, pool, self.rng.choice((PIECE, VECTOR)))] * 2
        attrs = ScatterAttrs(update_window_dims=(0,), inserted_window_dims=(), scatter_dims_to_operand_dims=(0,),
                             index_vector_dim=0)  # fmt: skip
        made = comp.add(ops.SCATTER, [*operands, *updates], attrs, called=[add])
        pool.extend(self.elements(comp, made))

    def call(self, comp: Computation, pool: list[Instruction], depth: int) -> None:
        """A call of a function that others call too."""
        if not self.functions:
            self.functions.append(self._function(0))
        self._call(comp, pool, self.rng.choice(self.functions))

    def _function(self, depth: int) -> tuple[Computation, list[Shape]]:
        function = self.module.add_computation("f")
        shapes = [self.rng.choice((SCALAR, VECTOR)) for _ in range(self.rng.randint(1, 3))]
        inner = [_parameter(function, i, s) for i, s in enumerate(shapes)]
        self.grow(function, inner, self.rng.randint(0, 3), max(depth - 1, 0))
        outputs = [self.rng.choice(inner) for _ in range(self.rng.randint(1, 3))]
        function.set_root(function.add(ops.TUPLE, outputs))
        return function, shapes

    def _call(self, comp: Computation, pool: list[Instruction], called: tuple[Computation, list[Shape]]) -> None:
        function, shapes = called
        arguments = [self.pick(comp, pool, s) for s in shapes]
        made = comp.add(ops.CALL, arguments, CallAttrs(), called=[function])
        pool.extend(self.elements(comp, made))
