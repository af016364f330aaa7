"""Random conditionals, with and without tuples, keep every bit through the passes that move code around them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from xyla import interp, passes
from xyla.formats.hlo_text import parse
from xyla.passmgr.base import Pass, parse_passes
from xyla.passmgr.context import Fp
from xyla.passmgr.pipeline import Pipeline
from xyla.targets.cpu.pipeline import cpu_pipeline
from xyla.testing.pass_check import apply_pass, difference

passes.load_all()
_UNARY, _BINARY = ("negate", "abs", "floor", "cosine", "copy"), ("add", "multiply", "maximum", "subtract")
_SHAPE = "f32[3]"


class _Program:
    """Text of an entry with conditionals of two or three branches."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.branches = self.random.choice((2, 2, 3))
        self.computations: list[str] = []
        self.lines = [f"p = {'pred' if self.branches == 2 else 's32'}[] parameter(0)"]
        self.lines += [f"x{i} = {_SHAPE} parameter({i + 1})" for i in range(3)]
        self.lines.append(f"k = {_SHAPE} constant({{2, -1, 0.5}})")
        self.values = ["x0", "x1", "x2", "k"]

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def steps(self, lines: list[str], values: list[str], least: int, most: int) -> None:
        for _ in range(self.random.randint(least, most)):
            new, choice = self.name("v"), self.random.random()
            one, two = self.random.choice(values), self.random.choice(values)
            if choice < 0.5:
                lines.append(f"{new} = {_SHAPE} {self.random.choice(_UNARY)}({one})")
            elif choice < 0.9:
                lines.append(f"{new} = {_SHAPE} {self.random.choice(_BINARY)}({one}, {two})")
            else:
                lines.append(f"{new} = {_SHAPE} reverse({one}), dimensions={{0}}")
            values.append(new)

    def branch(self, results: int) -> tuple[str, str]:
        """Adds a branch; returns (the operand it is given, its name). results: 0 for one that is no tuple."""
        given = [self.random.choice(self.values[-6:]) for _ in range(self.random.randint(0, 3))]
        lines, values = [], []
        if given:
            operand, shape = self.name("t"), f"({', '.join([_SHAPE] * len(given))})"
            self.lines.append(f"{operand} = {shape} tuple({', '.join(given)})")
            lines.append(f"a = {shape} parameter(0)")
            for i in range(len(given)):
                lines.append(f"g{i} = {_SHAPE} get-tuple-element(a), index={i}")
                values.append(f"g{i}")
        else:
            operand = self.random.choice(self.values)
            lines.append(f"a = {_SHAPE} parameter(0)")
            values.append("a")
        self.steps(lines, values, 0, 4)
        ends = [self.random.choice(values[-3:]) for _ in range(max(results, 1))]
        if self.random.random() < 0.5:
            lines += [f"e{i} = {_SHAPE} negate({end})" for i, end in enumerate(ends)]
            ends = [f"e{i}" for i in range(len(ends))]
        shape = f"({', '.join([_SHAPE] * results)})"
        lines.append(f"ROOT r = {shape} tuple({', '.join(ends)})" if results else f"ROOT r = {_SHAPE} abs({ends[0]})")
        name = self.name("branch")
        self.computations.append(f"{name} {{\n" + "\n".join(lines) + "\n}")
        return operand, name

    def conditional(self) -> None:
        results = self.random.randint(0, 3)
        operands, names = zip(*(self.branch(results) for _ in range(self.branches)), strict=True)
        new, shape = self.name("c"), f"({', '.join([_SHAPE] * results)})" if results else _SHAPE
        called = f"branch_computations={{{', '.join(names)}}}"
        if self.branches == 2:
            called = f"true_computation={names[0]}, false_computation={names[1]}"
        self.lines.append(f"{new} = {shape} conditional(p, {', '.join(operands)}), {called}")
        if not results:
            self.values.append(new)
        for i in range(results):
            if self.random.random() < 0.8:
                self.values.append(self.name("g"))
                self.lines.append(f"{self.values[-1]} = {_SHAPE} get-tuple-element({new}), index={i}")

    def text(self) -> str:
        self.steps(self.lines, self.values, 2, 8)
        for _ in range(self.random.randint(1, 2)):
            self.conditional()
            self.steps(self.lines, self.values, 0, 4)
        a, b = self.values[-2:]
        self.lines.append(f"ROOT out = ({_SHAPE}, {_SHAPE}) tuple({a}, {b})")
        entry = "ENTRY main {\n" + "\n".join(self.lines) + "\n}"
        return "\n".join(["HloModule m", *self.computations, entry])


@pytest.mark.parametrize("seed", range(25))
def test_every_bit_is_kept(seed: int) -> None:
    program = _Program(seed)
    module = parse(program.text())
    rng = np.random.default_rng(seed)
    xs = [rng.standard_normal(3).astype(np.float32) for _ in range(3)]
    chosen = [np.array(v) for v in (True, False)]
    if program.branches == 3:
        chosen = [np.array(v, np.int32) for v in (0, 1, 2, -1)]
    wanted = [interp.run(module, [p, *xs]) for p in chosen]
    text = "conditional-code-motion,simplify-conditional,conditional-canonicalizer,dce"
    todo: list[Pass | Pipeline] = [*parse_passes(text), cpu_pipeline()]
    for one in todo:
        outcome = apply_pass(one, module, fp=Fp.STRICT, checked=not isinstance(one, Pipeline))
        for p, want in zip(chosen, wanted, strict=True):
            problem = difference(interp.run(outcome.module, [p, *xs]), want)
            assert problem is None, f"{one.name}: {problem}\n{outcome.module}"
