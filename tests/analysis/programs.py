"""Small scheduled modules for the tests of analyses, and the analyses of them."""

from __future__ import annotations

from dataclasses import dataclass

from xyla.analysis.alias import Aliases, CanShare, share_elementwise
from xyla.analysis.dataflow import Dataflow, Value
from xyla.analysis.timeline import LiveRanges, Timeline
from xyla.formats.hlo_text import parse
from xyla.hlo import rewriter
from xyla.hlo.module import Instruction, Module


@dataclass(slots=True)
class Analysed:
    """A module and what is known of it."""

    module: Module
    dataflow: Dataflow
    aliases: Aliases
    timeline: Timeline
    ranges: LiveRanges

    def inst(self, name: str) -> Instruction:
        """The first instruction of that name, computations in storage order."""
        return next(found for c in self.module.computations.values() if (found := c.find(name)) is not None)

    def value(self, name: str, leaf: int = 0) -> Value:
        """The value of a leaf of the named instruction."""
        return self.dataflow.value(self.inst(name), leaf)

    def same_set(self, a: Value, b: Value) -> bool:
        """Whether two values must share memory."""
        return self.aliases.set_of(a) is self.aliases.set_of(b)


def scheduled(text: str) -> Module:
    """The module in its stored order."""
    module = parse(text if text.lstrip().startswith("HloModule") else "HloModule m\n" + text)
    for comp in module.computations.values():
        rewriter.restore_order(comp)
    module.config.is_scheduled = True
    return module


def analyse(text: str | Module, can_share: CanShare = share_elementwise) -> Analysed:
    """All analyses of a module given as text."""
    module = scheduled(text) if isinstance(text, str) else text
    dataflow = Dataflow(module)
    timeline = Timeline(module, dataflow.graph)
    return Analysed(module, dataflow, Aliases(dataflow, can_share), timeline, LiveRanges(timeline, dataflow))


LOOP = """
cond {
  p = (s32[], f32[8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(10)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  q = (s32[], f32[8], f32[8]) parameter(0)
  j = s32[] get-tuple-element(q), index=0
  v = f32[8] get-tuple-element(q), index=1
  k = f32[8] get-tuple-element(q), index=2
  one = s32[] constant(1)
  next = s32[] add(j, one)
  sum = f32[8] add(v, k)
  ROOT t = (s32[], f32[8], f32[8]) tuple(next, sum, k)
}
ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[8], f32[8]) tuple(zero, x, y)
  w = (s32[], f32[8], f32[8]) while(init), condition=cond, body=body
  ROOT out = f32[8] get-tuple-element(w), index=1
}
"""

NESTED = """
inner_cond { p = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT }
inner_body { p = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0
  a = f32[] get-tuple-element(p), index=1  one = s32[] constant(1)  i1 = s32[] add(i, one)  a1 = f32[] add(a, a)
  ROOT t = (s32[], f32[]) tuple(i1, a1) }
outer_cond { p = (s32[], f32[], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT }
outer_body { q = (s32[], f32[], f32[]) parameter(0)  oi = s32[] get-tuple-element(q), index=0
  oa = f32[] get-tuple-element(q), index=1  fixed = f32[] get-tuple-element(q), index=2
  zero = s32[] constant(0)  init = (s32[], f32[]) tuple(zero, oa)
  inner = (s32[], f32[]) while(init), condition=inner_cond, body=inner_body
  ia = f32[] get-tuple-element(inner), index=1  sum = f32[] add(ia, fixed)
  one = s32[] constant(1)  oi1 = s32[] add(oi, one)
  ROOT t = (s32[], f32[], f32[]) tuple(oi1, sum, fixed) }
ENTRY main { x = f32[] parameter(0)  k = f32[] parameter(1)  double = f32[] add(k, k)
  zero = s32[] constant(0)  init = (s32[], f32[], f32[]) tuple(zero, x, double)
  outer = (s32[], f32[], f32[]) while(init), condition=outer_cond, body=outer_body
  oi = s32[] get-tuple-element(outer), index=0
  ROOT out = f32[] get-tuple-element(outer), index=1 }
"""

BRANCHES = """
left { p = (f32[8], s32[]) parameter(0)  x = f32[8] get-tuple-element(p), index=0
  i = s32[] get-tuple-element(p), index=1  one = f32[1] constant({1})
  ROOT up = f32[8] dynamic-update-slice(x, one, i) }
right { p = f32[8] parameter(0)  ROOT neg = f32[8] negate(p) }
ENTRY main { c = pred[] parameter(0)  x = f32[8] parameter(1)  i = s32[] parameter(2)
  y = f32[8] sine(x)  arg = (f32[8], s32[]) tuple(y, i)
  ROOT r = f32[8] conditional(c, arg, y), branch_computations={left, right} }
"""
