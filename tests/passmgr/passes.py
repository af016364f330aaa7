"""Small passes and modules for the tests of the pass manager."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.formats.hlo_text import parse
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Instruction, Module
from xyla.passmgr.base import Pass
from xyla.passmgr.context import Fp, PassContext
from xyla.passmgr.rules import Rewrite, is_splat, rule_table, run_rules, value_changing

TEXT = """HloModule sums

ENTRY main {
  x = f32[4] parameter(0), metadata={source_file="model.py" source_line=7}
  c = f32[] constant(1)
  one = f32[4] broadcast(c), dimensions={}
  a = f32[4] multiply(x, one), metadata={source_file="model.py" source_line=8}
  b = f32[4] multiply(a, one)
  n = f32[4] negate(b)
  m = f32[4] negate(n)
  ROOT r = f32[4] add(m, x)
}
"""


def module() -> Module:
    """x * 1 * 1, negated twice, + x."""
    return parse(TEXT, "sums.hlo")


def multiply_by_one(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x * 1 = x."""
    x, y = inst.operands
    return x if is_splat(y, 1) else None


def double_negation(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """-(-x) = x."""
    (x,) = inst.operands
    return x.operands[0] if x.op is ops.NEGATE else None


@value_changing(Fp.DEFAULT, "rounds twice")
def rounds(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x + y = -(-x - y)."""
    x, y = inst.operands
    return rw.unary(ops.NEGATE, rw.binary(ops.SUBTRACT, rw.unary(ops.NEGATE, x), y))


@value_changing(Fp.FAST, "loses NaN")
def add_is_maximum(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x + y = max(x, y), which is as wrong as it looks."""
    return rw.binary(ops.MAXIMUM, *inst.operands)


_SIMPLE = rule_table(([ops.MULTIPLY], [multiply_by_one]), ([ops.NEGATE], [double_negation]))


@dataclass(frozen=True, slots=True)
class Simple(Pass):
    """Multiplications by one and double negations."""

    name: ClassVar[str] = "simple"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Applies the rules."""
        return run_rules(module, ctx, _SIMPLE)


@dataclass(frozen=True, slots=True)
class Marked(Pass):
    """The marked rules."""

    name: ClassVar[str] = "marked"
    idempotent: ClassVar[bool] = False

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Applies the rules."""
        return run_rules(module, ctx, rule_table(([ops.ADD], [add_is_maximum, rounds])))


@dataclass(frozen=True, slots=True)
class Rename(Pass):
    """Turns the root from `source` into `target`: two of these never settle."""

    source: str = "add"
    target: str = "subtract"
    name: ClassVar[str] = "rename"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Replaces the root."""
        root = module.entry.root
        if root.op.name != self.source or not ctx.permit("rename-root", root):
            return False
        op = ops.SUBTRACT if self.target == "subtract" else ops.ADD
        ctx.record(rewriter.replace_with(root, op, root.operands))
        return True


@dataclass(frozen=True, slots=True)
class Liar(Pass):
    """Says that it changed something (or nothing), whatever it did."""

    says: bool = True
    does: bool = False
    name: ClassVar[str] = "liar"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Swaps the root's operands, or does not."""
        if self.does:
            rewriter.set_operands(module.entry.root, reversed(module.entry.root.operands))
        return self.says


@dataclass(frozen=True, slots=True)
class Breaks(Pass):
    """Leaves a module that is not well formed."""

    name: ClassVar[str] = "breaks"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Makes the root an operand of another shape."""
        rewriter.set_operand(module.entry.root, 1, module.entry.find("c") or module.entry.root)
        return True


@dataclass(frozen=True, slots=True)
class Raises(Pass):
    """Fails with an exception of its own."""

    name: ClassVar[str] = "raises"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Looks up what is not there."""
        return bool({}["absent"])
